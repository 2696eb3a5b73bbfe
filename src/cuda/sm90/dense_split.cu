#include "cuda/sm90/transposed.cuh"

namespace tconv::cuda {

// Only where x comes by tensor copies, and of one row block: its sums take the registers of a second one.
Sm90Functions sm90_split() {
  Sm90Functions f{};
  sm90::set_tma<sm90::Fp16Split, 1>(f);
  return f;
}

}  // namespace tconv::cuda
