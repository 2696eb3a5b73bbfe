// Outputs without any product: they are their bias, bit for bit, a bias of -0.0 included. A sum that begins
// at +0.0 and has the bias added is that already for every bias but -0.0, so a family whose sums cannot tell
// a zero that stands for no product from one that is, has such outputs stored again by this.
#pragma once

#include "cuda/device/bias_alone.hpp"
#include "cuda/host/launch.hpp"

namespace tconv::cuda {

// Which outputs without products a family has stored as their bias already.
enum class BiasStored { none, of_residues };  // of_residues: those of residues that no tap reaches

// Whether the problem has outputs without products that may not have been stored right; from its shape alone.
bool needs_bias_alone(const core::Problem& problem, BiasStored stored);

// Queues the kernel where it is needed, behind what stores all outputs. It costs a launch of blocks that look
// for a bias of -0.0.
core::Status store_bias_alone(const Launcher& launcher, const core::Problem& problem,
                              const plan::Operands& operands, BiasStored stored);

}  // namespace tconv::cuda
