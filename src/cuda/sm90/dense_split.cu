#include "cuda/sm90/transposed.cuh"

namespace tconv::cuda {

// By tensor copies of one row block alone: its sums take the registers of a second one.
Sm90Functions sm90_split() {
  Sm90Functions f{};
  sm90::set_gather<sm90::Fp16Split>(f);
  sm90::set_tma<sm90::Fp16Split, 1>(f);
  return f;
}

}  // namespace tconv::cuda
