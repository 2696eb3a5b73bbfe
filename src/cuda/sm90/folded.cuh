// Folded samples where x would come by bulk copies: the warps that load x element by element. The planner
// folds with load.cuh's kernels only, which took 0.26 ms for n64 ci512 co256 l75 k16 s8 in tf32, where this
// took 0.38.
#pragma once

#include "cuda/sm90/operand.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A stage is 4 channel blocks of `width` positions. A warp takes pieces of it in turn: one block's 32
// positions each, or at the end 8 of all blocks.
template <class S>
class Gather {
 public:
  __device__ Gather(const Sm90Params& p, unsigned char* shared)
      : p_(p),
        shared_(ptx::shared_address(shared)),
        operands_(p, shared),
        warp_((threadIdx.x - kSm90Consumers) / 32),
        full_(p.width / kPiece * kSm90Blocks),
        pieces_(full_ + (p.width % kPiece + kTail - 1) / kTail) {}

  // Loads are queued before the wait for an empty stage: they are on their way meanwhile.
  __device__ void run(const Share& share, const Barriers& barriers) {
    Place stage;
    Window<S> window;
    for (Cursor c(p_, share); c.tile < p_.column_tiles; c.advance(p_, share)) {
      window.aim(p_, share, c);
      const uint32_t to = shared_ + stage.at * p_.stage_bytes;
      for (int first = warp_; first < pieces_; first += kRounds * kSm90Gatherers) {
        Batch batch;
        load(batch, window, first);
        if (first == warp_ && c.starts_tile(share)) choose_scale(batch, first);
        if (first == warp_) ptx::barrier_wait(barriers.x_empty(stage.at), stage.parity ^ 1);
        store(batch, to, first);
      }
      ptx::fence_async();
      operands_.tell(stage.at, warp_);
      __syncwarp();
      if (threadIdx.x % 32 == 0) ptx::barrier_arrive(barriers.x_full(stage.at));
      stage.advance(p_.stages);
    }
  }

 private:
  static constexpr int kPiece = Operands<S>::kPiece;
  static constexpr int kTail = 8;  // of the last piece or pieces, which have all 4 blocks
  // Pieces at once: the tile's columns and a halo of 8 (or, of the widest tiles, half of it).
  static constexpr int kPieces = S::kColumns / kPiece * kSm90Blocks + 1;
  static constexpr int kMost = 5;
  static constexpr int kRounds = (kPieces + kSm90Gatherers - 1) / kSm90Gatherers > kMost
                                     ? kMost
                                     : (kPieces + kSm90Gatherers - 1) / kSm90Gatherers;
  using Batch = typename Operands<S>::Unit[kRounds];

  // The lane's block and first position of a piece.
  __device__ void find(int piece, int& block, int& slot) const {
    const int lane = threadIdx.x % 32;
    if (piece < full_) {
      block = piece % kSm90Blocks;
      slot = piece / kSm90Blocks * kPiece + lane;
    } else {
      block = lane / 8;
      slot = full_ / kSm90Blocks * kPiece + (piece - full_) * kTail + lane % 8;
    }
  }

  __device__ void load(Batch& batch, const Window<S>& window, int first) const {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int piece = first + r * kSm90Gatherers;
      if (piece >= pieces_) break;
      int block, slot;
      find(piece, block, slot);
      const int channel = window.channel + block * Held::kUnit;
      const float* from = nullptr;
      const bool inside = locate(window, window.start + slot, channel, from) && slot < p_.width;
#pragma unroll
      for (int j = 0; j < Held::kUnit; ++j) {
        batch[r][j] = inside && channel + j < p_.cin_group
                          ? __ldg(reinterpret_cast<const uint32_t*>(from + j * p_.x_step[1]))
                          : 0u;
      }
    }
  }

  // Where a folded position of a channel lies; false outside of x.
  __device__ bool locate(const Window<S>& window, int position, int channel, const float*& from) const {
    const int n =
        position < 0 ? p_.samples : static_cast<int>(p_.sample_pitch.divide(static_cast<uint32_t>(position)));
    position += static_cast<int>(p_.first_u) - n * p_.sample_columns;
    from = window.row + int64_t{n} * p_.x_step[0] + channel * p_.x_step[1] + position;
    return n < p_.samples && static_cast<uint32_t>(position) < static_cast<uint32_t>(p_.l);
  }

  __device__ void store(const Batch& batch, uint32_t stage, int first) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int piece = first + r * kSm90Gatherers;
      if (piece >= pieces_) break;
      int block, slot;
      find(piece, block, slot);
      if (slot >= p_.width) break;
      operands_.write(batch[r], stage + (block * p_.x_pitch + slot) * 16);
      operands_.review(batch[r], batch[r]);
    }
  }

  // From the first batch of the tile's first stage.
  __device__ void choose_scale(const Batch& batch, int first) {
    uint32_t most = 0;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      if (first + r * kSm90Gatherers < pieces_) most = Operands<S>::largest(batch[r], most);
    }
    operands_.template agree_on_scale<kSm90Gatherers>(most, warp_);
  }

  const Sm90Params& p_;
  uint32_t shared_;
  Operands<S> operands_;
  int warp_, full_, pieces_;  // pieces of one block, and all
};

#endif

}  // namespace tconv::cuda::sm90
