// How x comes: a warp's bulk copies bring rows as they lie into a ring of raw stages; others make operands of
// them.
#pragma once

#include "cuda/sm90/operand.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A raw stage is a slab's rows, raw_pitch bytes apart. Position `start` of a row lies as far from a 16-byte
// boundary as it does in x, so that whole 16-byte pieces are copied wherever rows begin; what surrounds the
// window in them is not looked at. Stages that are not whole are left to those who convert.
//
// One lane: a bulk copy's operands are uniform, and lanes would take turns. (Asynchronous copies of 16 bytes
// by three warps were slower: seven times the instructions.)
template <class S>
__device__ inline void feed(const Sm90Params& p, const Share& share, const Barriers& barriers,
                            unsigned char* shared) {
  const int64_t step = p.x_step[1] * sizeof(float);
  const uint32_t to = ptx::shared_address(shared + p.shared_raw);
  Place raw;
  Window<S> w;
  for (Cursor c(p, share); c.tile < p.column_tiles; c.advance(p, share)) {
    w.aim(p, share, c);
    if (!w.whole(p)) continue;
    uintptr_t row = reinterpret_cast<uintptr_t>(w.row + w.channel * p.x_step[1] + w.start);
    uint32_t at = to + raw.at * p.raw_bytes;
    const uint32_t full = barriers.raw_full(raw.at);
    ptx::barrier_wait(barriers.raw_empty(raw.at), raw.parity ^ 1);
    ptx::barrier_arrive_expect(full, p.raw_bytes);
#pragma unroll 4
    for (int r = 0; r < Held::kSlab; ++r) {
      ptx::bulk_load(at, reinterpret_cast<const void*>(row & ~uintptr_t{15}), p.raw_pitch, full);
      row += step;
      at += p.raw_pitch;
    }
    raw.advance(p.raws);
  }
}

template <class S>
class Convert {
 public:
  __device__ Convert(const Sm90Params& p, unsigned char* shared)
      : p_(p),
        shared_(ptx::shared_address(shared)),
        operands_(p, shared),
        warp_((threadIdx.x - kSm90Consumers) / 32),
        lane_(threadIdx.x % 32) {}

  __device__ void run(const Share& share, const Barriers& barriers) {
    Place raw, stage;
    Window<S> window;
    for (Cursor c(p_, share); c.tile < p_.column_tiles; c.advance(p_, share)) {
      window.aim(p_, share, c);
      if (c.starts_tile(share) || p_.tap_groups > 1) find_rows(window);
      const bool whole = window.whole(p_);
      const Source from{shared_ + p_.shared_raw + raw.at * p_.raw_bytes, window};
      const uint32_t to = shared_ + stage.at * p_.stage_bytes + lane_ * 16;
      if (whole) ptx::barrier_wait(barriers.raw_full(raw.at), raw.parity);
      if (c.starts_tile(share)) choose_scale(from, whole);
      ptx::barrier_wait(barriers.x_empty(stage.at), stage.parity ^ 1);
      if (whole) {
        convert<true>(from, to);
      } else {
        convert<false>(from, to);
      }
      ptx::fence_async();
      operands_.tell(stage.at, warp_);
      __syncwarp();
      if (lane_ == 0) {
        ptx::barrier_arrive(barriers.x_full(stage.at));
        if (whole) ptx::barrier_arrive(barriers.raw_empty(raw.at));
      }
      if (whole) raw.advance(p_.raws);
      stage.advance(p_.stages);
    }
  }

 private:
  static constexpr int kPiece = Operands<S>::kPiece;
  using Unit = typename Operands<S>::Unit;
  struct Source {
    uint32_t raw;  // shared address of the raw stage
    const Window<S>& window;
  };

  // Where the lane's first position lies in the first block's rows of a raw stage. The same for every block
  // and slab, because a block's rows are a multiple of 16 bytes in all.
  __device__ void find_rows(const Window<S>& w) {
    const uint32_t step = static_cast<uint32_t>(p_.x_step[1]) * sizeof(float);
    uint32_t from = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(w.row)) +
                    w.start * static_cast<uint32_t>(sizeof(float));
    uint32_t at = lane_ * static_cast<uint32_t>(sizeof(float));
#pragma unroll
    for (int j = 0; j < Held::kUnit; ++j) {
      rows_[j] = at + from % 16;
      from += step;
      at += p_.raw_pitch;
    }
  }

  // The numbers of a block at the lane's position of the piece `slot` positions on: from a raw stage, or,
  // where that is not whole, from x itself, and zero where there are none.
  template <bool Whole>
  __device__ void read(Unit& v, const Source& from, int block, int slot) const {
    if constexpr (!Whole) {
      const Window<S>& w = from.window;
      const int channel = w.channel + block * Held::kUnit, position = w.start + slot + lane_;
      const bool inside = static_cast<uint32_t>(position) < static_cast<uint32_t>(p_.l);
      const uint32_t* at = reinterpret_cast<const uint32_t*>(w.row + channel * p_.x_step[1] + position);
#pragma unroll
      for (int j = 0; j < Held::kUnit; ++j) {
        v[j] = inside && channel + j < p_.cin_group ? __ldg(at + j * p_.x_step[1]) : 0u;
      }
    } else {
      const uint32_t at =
          from.raw + block * Held::kUnit * p_.raw_pitch + slot * static_cast<uint32_t>(sizeof(float));
#pragma unroll
      for (int j = 0; j < Held::kUnit; ++j) v[j] = ptx::load_shared4(rows_[j] + at);
    }
  }

  // The warps take a block's two pieces in turn: one's loads are on their way while the other is written.
  // What is left at a row's end is taken as whole pieces that begin earlier; their first positions are
  // written by who has them anyway.
  template <class Two, class One>
  __device__ void each_piece(Two two, One one) const {
    const int width = p_.width, turns = (width + 2 * kPiece - 1) / (2 * kPiece);
    int block = 0, turn = warp_;
#pragma unroll 1
    for (; turn >= turns && block < kSm90Blocks; ++block) turn -= turns;
#pragma unroll 1
    while (block < kSm90Blocks) {
      const int slot = turn * 2 * kPiece;
      if (slot + kPiece >= width) {
        one(block, width - kPiece, slot);
      } else {
        two(block, min(slot, width - 2 * kPiece), slot);
      }
      turn += kSm90Converters;
#pragma unroll 1
      for (; turn >= turns && block < kSm90Blocks; ++block) turn -= turns;
    }
  }

  template <bool Whole>
  __device__ void convert(const Source& from, uint32_t to) {
    each_piece(
        [&](int block, int slot, int begin) {
          Unit first, second;
          read<Whole>(first, from, block, slot);
          read<Whole>(second, from, block, slot + kPiece);
          const uint32_t at = to + (block * p_.x_pitch + slot) * 16;
          operands_.write(first, at, slot + lane_ >= begin);
          operands_.write(second, at + kPiece * 16, slot + kPiece + lane_ >= begin);
          operands_.review(first, second);
        },
        [&](int block, int slot, int begin) {
          Unit only;
          read<Whole>(only, from, block, slot);
          operands_.write(only, to + (block * p_.x_pitch + slot) * 16, slot + lane_ >= begin);
          operands_.review(only, only);
        });
  }

  // From a piece in the middle of each block of the tile's first stage. (Looking at all took a tenth of the
  // time.)
  __device__ void choose_scale(const Source& from, bool whole) {
    uint32_t most = 0;
    if (warp_ < kSm90Blocks) {
      Unit v;
      const int slot = (p_.width - kPiece) / 2;
      if (whole) {
        read<true>(v, from, warp_, slot);
      } else {
        read<false>(v, from, warp_, slot);
      }
      most = Operands<S>::largest(v, most);
    }
    operands_.template agree_on_scale<kSm90Converters>(most, warp_);
  }

  const Sm90Params& p_;
  uint32_t shared_;
  Operands<S> operands_;
  int warp_, lane_;                  // lane_: its first position of a piece
  uint32_t rows_[Held::kUnit] = {};  // in a raw stage, of the lane's first position
};

#endif

}  // namespace tconv::cuda::sm90
