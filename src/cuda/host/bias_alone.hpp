// Outputs without any product are their bias, bit for bit, including a bias of -0.0. A sum that begins at
// +0.0 and to which the bias is added gives this for every bias except -0.0. A family whose sums cannot tell
// a real zero from one that stands for no product stores such outputs again by this.
#pragma once

#include "cuda/device/bias_alone.hpp"
#include "cuda/host/launch.hpp"

namespace tconv::cuda {

// Which outputs without products a family has already stored as their bias.
enum class BiasStored { none, of_residues };  // of_residues: those of residues that no tap reaches

// Whether the problem has outputs without products that may have been stored wrongly; its shape alone
// decides.
bool needs_bias_alone(const core::Problem& problem, BiasStored stored);

// Queues the kernel if it is needed, after the kernel that stores all outputs. It costs one launch of blocks
// that look for a bias of -0.0.
core::Status store_bias_alone(const Launcher& launcher, const core::Problem& problem,
                              const plan::Operands& operands, BiasStored stored);

}  // namespace tconv::cuda
