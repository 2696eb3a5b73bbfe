// The stages of cuda.sm90.blocked if channel blocks are made in shared memory, for 16-bit types:
//
//   for each tile of columns, slab of 32 channels, group of taps:
//     a lane issues copies of raw rows of x, [channel][position]                 a stage of the ring of rows
//     1 or 2 warps turn them, 8 channels x 32 positions at once, by ldmatrix and stmatrix:
//                                                                                [channel block][position]
//     lanes load weights, 2 warpgroups multiply                                  as in blocked_stages.cuh
//
// A turned stage is what a pass over x and a bulk copy would bring, but x does not go to memory and back. The
// tensor cores bind or, with one or two taps, the warps that turn, at 16 bytes a cycle each.
#pragma once

#include "cuda/device/ptx/stmatrix.cuh"
#include "cuda/sm90/blocked_stages.cuh"
#include "cuda/sm90/gather_loads.cuh"

namespace tconv::cuda::sm90 {

template <class M, int RowBlocks, int N>
struct TurnedShape : ChannelBlockShape<M, RowBlocks, N> {
  // ptxas needs 96 registers if two blocks share an SM, so these have only one warp that turns, beside the
  // one that issues copies.
  static constexpr int kTurners = sm90_turners(N);
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Which rows a stage holds.
struct RawPlace {
  int n, start;           // sample; position of the stage's first column, on 16 bytes of x
  int channel, channels;  // the slab's first channel in the group; how many of the slab exist

  template <class S>
  __device__ static RawPlace of(const Sm90TurnedParams& p, const Block& block, const Cursor& c, S) {
    const int n = static_cast<int>(p.columns.sample_tiles.divide(c.tiles.tile));
    const int column = (c.tiles.tile - n * static_cast<int>(p.columns.sample_tiles.value)) * S::kColumns;
    const int back = p.sizes.step * c.group * p.source.tap_group + p.source.halo;
    const int channel = c.slab * kSlab;
    return {n, static_cast<int>(p.columns.first_u) + column - back, channel,
            min(p.sizes.cin_group - channel, kSlab)};
  }
  static constexpr int kSlab = 32;
};

// The ring of raw rows.
struct RawRing {
  uint32_t rows, barriers;
  int stages, stage_bytes;

  __device__ RawRing(const Sm90TurnedParams& p, const unsigned char* shared)
      : rows(ptx::shared_address(shared + p.raw.shared)),
        barriers(ptx::shared_address(shared + p.raw.barriers)),
        stages(p.source.stages),
        stage_bytes(p.raw.stage_bytes) {}
  __device__ uint32_t full(int i) const { return barriers + 8 * i; }
  __device__ uint32_t empty(int i) const { return full(stages + i); }
  __device__ uint32_t stage(int i) const { return rows + i * stage_bytes; }
};

// Fills the ring of raw rows by tensor copies: the part of one lane.
template <class S>
class RawSource {
 public:
  __device__ RawSource(const Sm90TurnedParams& p, const Block& block, unsigned char* shared)
      : p_(p), block_(block), ring_(p, shared) {}

  __device__ void run() const {
    RingPlace at;
    for (Cursor c(p_, block_); c.tiles.there(p_); c.advance(p_, block_)) {
      ptx::barrier_wait(ring_.empty(at.at), at.parity ^ 1);
      ptx::barrier_arrive_expect(ring_.full(at.at), p_.raw.boxes * RawPlace::kSlab * p_.raw.box * 2);
      copy(ring_.stage(at.at), ring_.full(at.at), RawPlace::of(p_, block_, c, S{}));
      at.advance(ring_.stages);
    }
  }

 private:
  __device__ void copy(uint32_t to, uint32_t full, const RawPlace& place) const {
#pragma unroll 1
    for (int b = 0; b < p_.raw.boxes; ++b) {
      const int at[4] = {place.start + b * p_.raw.box, place.channel, block_.group, place.n};
      ptx::tensor_load(to + b * p_.raw.region_bytes, &p_.raw.map, at, full);
    }
  }

  const Sm90TurnedParams& p_;
  const Block& block_;
  RawRing ring_;
};

// Turns stages of raw rows into stages of channel blocks: the part of one warp. If there are no tensor
// copies, it loads its rows itself, element by element.
template <class S>
class Turner {
 public:
  __device__ Turner(const Sm90TurnedParams& p, const Block& block, unsigned char* shared, int warp)
      : p_(p), block_(block), ring_(p, shared), shared_(shared), warp_(warp), lane_(threadIdx.x % 32) {}

  __device__ void run(const Rings<S>& rings) const {
    const uint32_t turned = ptx::shared_address(shared_);
    RingPlace at;  // of both rings
    for (Cursor c(p_, block_); c.tiles.there(p_); c.advance(p_, block_)) {
      const RawPlace place = RawPlace::of(p_, block_, c, S{});
      if (!p_.raw.by_elements) ptx::barrier_wait(ring_.full(at.at), at.parity);
      ptx::barrier_wait(rings.empty(0, at.at), at.parity ^ 1);
#pragma unroll 1
      for (int block = warp_; block < kSm90Blocks; block += S::kTurners) {
        if (p_.raw.by_elements) fill(at.at, block, place);
        turn(ring_.stage(at.at), turned + at.at * p_.source.stage_bytes, block);
      }
      ptx::fence_async();
      __syncwarp();
      if (lane_ == 0) {
        ptx::barrier_arrive(rings.full(0, at.at));
        ptx::barrier_arrive(ring_.empty(at.at));
      }
      at.advance(ring_.stages);
    }
  }

 private:
  using Word = typename S::Mode::Word;
  static_assert(sizeof(Word) == 2);

  // The rows of a channel block, as copies would bring them.
  __device__ void fill(int stage, int block, const RawPlace& place) const {
    const Sm90RawSource& raw = p_.raw;
    unsigned char* const regions = shared_ + raw.shared + stage * raw.stage_bytes;
    const Word* const sample = static_cast<const Word*>(p_.operands.x) + place.n * p_.sizes.x_step[0];
    const int64_t first_row = int64_t{block_.group} * p_.sizes.cin_group + place.channel;
#pragma unroll 1
    for (int c = 8 * block; c < 8 * block + 8; ++c) {
      const Word* const from = sample + (first_row + c) * p_.sizes.x_step[1];
#pragma unroll 1
      for (int b = 0; b < raw.boxes; ++b) {
        Word* const to = reinterpret_cast<Word*>(regions + b * raw.region_bytes) + c * raw.box;
#pragma unroll 1
        for (int e = lane_; e < raw.box; e += 32) {
          const int position = place.start + b * raw.box + e;
          const bool there = c < place.channels && position >= 0 && position < p_.sizes.l;
          to[e] = there ? __ldg(from + position) : Word(0);
        }
      }
    }
    __syncwarp();
  }

  // Turns a channel block. Lane i has row i%8, a channel, of four matrices of 8 positions, and stores
  // position i.
  __device__ void turn(uint32_t from, uint32_t to, int block) const {
    const Sm90RawSource& raw = p_.raw;
    from += (8 * block + lane_ % 8) * raw.box * 2 + lane_ / 8 * 16;
    to += (block * p_.source.pitch + lane_) * 16;
#pragma unroll 1
    for (int b = 0; b < raw.boxes; ++b, from += raw.region_bytes, to += raw.box * 16) turn_box(from, to);
  }

  __device__ void turn_box(uint32_t from, uint32_t to) const {
    constexpr int kAtOnce = 3;  // of ldmatrix
    const int pieces = (p_.raw.box + 31) / 32;
    int i = 0;
#pragma unroll 1
    for (; i + kAtOnce <= pieces; i += kAtOnce) {
      uint4 v[kAtOnce];
#pragma unroll
      for (int q = 0; q < kAtOnce; ++q) v[q] = ptx::load_matrices(from + q * 64);
#pragma unroll
      for (int q = 0; q < kAtOnce; ++q) ptx::store_matrices_transposed(to + q * 512, v[q]);
      from += kAtOnce * 64;
      to += kAtOnce * 512;
    }
#pragma unroll 1
    for (; i < pieces; ++i, from += 64, to += 512) {
      ptx::store_matrices_transposed(to, ptx::load_matrices(from));
    }
  }

  const Sm90TurnedParams& p_;
  const Block& block_;
  RawRing ring_;
  unsigned char* shared_;
  int warp_, lane_;
};

#endif

template <class S>
struct TurnedStages : ChannelBlockStages<S, Sm90TurnedParams, S::kTurners> {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Params = Sm90TurnedParams;

  __device__ static void prepare(const Params& p, unsigned char* shared) {
    if (threadIdx.x != 0) return;
    const RawRing ring(p, shared);
    for (int i = 0; i < ring.stages; ++i) {
      ptx::barrier_init(ring.full(i), 1);
      ptx::barrier_init(ring.empty(i), S::kTurners);
    }
    ptx::barrier_init_done();
  }
  __device__ static void bring(const Params& p, const Block& block, const Rings<S>& rings,
                               unsigned char* shared, int warp) {
    if (warp > 0) {
      if (warp <= S::kTurners) Turner<S>(p, block, shared, warp - 1).run(rings);
      return;
    }
    // Different lanes wait for different barriers.
    const int lane = threadIdx.x % 32;
    if (lane < S::kRowBlocks) {
      PackedSource<S>(p, block, shared, lane).template run<ColumnTiles>(rings);
    } else if (lane == 31 && !p.raw.by_elements) {
      RawSource<S>(p, block, shared).run();
    }
  }
#endif
};

template <class Mode, int Tile = 0>
void set_turned(Sm90TurnedFunctions& f) {
  constexpr Sm90Tile kTile = kSm90Tiles[Tile];
  f.tiles[Tile] = kernel<TurnedStages<TurnedShape<Mode, kTile.row_blocks, kTile.n>>>;
  if constexpr (Tile + 1 < kSm90GatherTiles) set_turned<Mode, Tile + 1>(f);
}

template <class Mode>
Sm90TurnedFunctions turned_functions_of() {
  Sm90TurnedFunctions f{};
  set_turned<Mode>(f);
  return f;
}

}  // namespace tconv::cuda::sm90
