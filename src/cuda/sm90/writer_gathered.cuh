// GatheredWriter: whichever of the two writers the plan has chosen for sums of which packed rows are the rows
// of wgmma.
#pragma once

#include "cuda/sm90/repair.cuh"
#include "cuda/sm90/writer_line.cuh"
#include "cuda/sm90/writer_pass.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Not where split operands are gathered: no register is left in their main loop, and with this writer in the
// kernel it takes up to 1.4 times as long (n1 ci56 co28 l273352 k3 d5 ieee: 96 us and 137).
template <class S>
inline constexpr bool kMayStoreLines = FromBlocks<S> || FromUnits<S> || S::Mode::kParts == 1;

template <class S>
class GatheredWriter {
 public:
  using Params = typename S::Params;

  __device__ GatheredWriter(const Params& p, const Block& block, unsigned char* shared, int warp, int lane)
      : p_(p), block_(block), shared_(shared), warp_(warp), lane_(lane) {}

  __device__ static void prepare_rows(const Params& p, const Block& block, unsigned char* shared) {
    PassWriter<S>::prepare_rows(p, block, shared);
  }
  __device__ void store(float (&sums)[S::kN / 2], int tile, const Seen& seen) const {
    if constexpr (kMayStoreLines<S>) {
      if (p_.writer.lines) {
        LineWriter<S>(p_, block_, shared_).store(sums, tile, seen);
        return;
      }
    }
    PassWriter<S>(p_, block_, shared_, warp_, lane_).store(sums, tile, seen);
  }

 private:
  const Params& p_;
  const Block& block_;
  unsigned char* shared_;
  int warp_, lane_;
};

#endif

}  // namespace tconv::cuda::sm90
