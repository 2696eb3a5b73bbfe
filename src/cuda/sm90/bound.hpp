// Bounds of what configurations of cuda.sm90.dense and cuda.sm90.blocked are expected to take, from sizes
// that are known before a plan is laid out. A search lays out only those whose bound is below the best time
// that it has found: a third to a quarter of them.
#pragma once

#include "cuda/host/transposed_form.hpp"
#include "cuda/sm90/blocked_rates.hpp"
#include "cuda/sm90/cost.hpp"

namespace tconv::cuda {

// What a tile of a configuration cannot do without, where x is gathered or comes in channel blocks.
struct Sm90LeastWork {
  double rounds;         // tiles that follow one another on an SM
  double slabs, taps;    // of a tile
  double outputs;        // of a tile
  double partial_bytes;  // of all tiles; 0: there are no partial sums
};
Sm90LeastWork sm90_least_work(const core::Problem& form, const Phases& phases, const core::DeviceInfo& device,
                              const Sm90Layout& layout, const Sm90Config& config);

// Of a form of a problem, and a way to bring x (turned, phased, scaled) to cuda.sm90.blocked.
class Sm90BlockedBound {
 public:
  Sm90BlockedBound(const TransposedForm& form, const core::Problem& asked, const core::DeviceInfo& device,
                   const Sm90Config& way);
  // Milliseconds of a tile, split and fold, with packed weights.
  double ms(const Sm90Config& config) const;

 private:
  const TransposedForm& form_;
  const core::DeviceInfo& device_;
  Phases phases_;
  Sm90Layout layout_;
  blocked_model::Weights weights_;  // the least of those that configurations of the way may have
  double fixed_ms_;                 // to begin, of memory, and of the pass over x
  double store_rate_;               // outputs a cycle, at most
  double lacking_;                  // of the slabs, without the first tap
};

// Of cuda.sm90.dense (cost.cpp).
class Sm90DenseBound {
 public:
  Sm90DenseBound(const core::Problem& form, const core::DeviceInfo& device);
  double ms(const Sm90Config& config) const;

 private:
  const core::Problem& form_;
  const core::DeviceInfo& device_;
  Phases phases_;
  Arithmetic mode_;
  double memory_ms_;
};

}  // namespace tconv::cuda
