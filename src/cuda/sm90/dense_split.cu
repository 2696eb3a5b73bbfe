#include "cuda/sm90/dense.cuh"

namespace tconv::cuda {

// Only where x goes direct, and of one row block: its sums take the registers of a second one.
Sm90Functions sm90_split() {
  Sm90Functions f{};
  sm90::set_direct<sm90::HeldSplit, 1>(f);
  return f;
}

}  // namespace tconv::cuda
