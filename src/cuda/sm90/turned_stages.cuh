// The stages of cuda.sm90.blocked if channel blocks are made in shared memory:
//
//   for each tile of columns, chunk of channel blocks, group of taps:
//     for each channel block, 8 rows of x; share of its positions, a few boxes:
//       a lane issues copies of raw rows, [box][channel][position]                     the ring of raw rows
//       one of 1 or 3 warps turns them, 8 channels x 32 positions at once, by ldmatrix and stmatrix; in tf32
//       lanes load words and store 16 bytes each:
//         each position goes to the unit of its phase                                  [unit][column]
//     4 units (tf32: 2, each of twice 16 bytes) make a slab, which is a stage of x:
//       lanes load weights, 2 warpgroups multiply (blocked_stages.cuh)
//
// A turned stage is what a pass over x and a bulk copy would bring, but x does not go to memory and back. A
// channel block has units of all phases, so that it may end inside a slab. A copy begins on 16 bytes, so the
// rows of a block must begin equally far behind 16 bytes: it has every first, second, fourth or eighth row
// (UnitOrder). The tensor cores bind or, with one or two taps, the warps that turn. Those have no other warp
// to hide their latencies, and much of their code runs once a share, as fast as instructions are fetched: so
// there is little of it, and a lane steps from where one position goes to the next by additions.
#pragma once

#include "cuda/device/ptx/stmatrix.cuh"
#include "cuda/sm90/turned_source.cuh"

namespace tconv::cuda::sm90 {

template <class M, int RowBlocks, int N>
struct TurnedShape : ChannelBlockShape<M, RowBlocks, N> {
  static constexpr bool kFromUnits = true;
  // ptxas needs 96 registers if two blocks share an SM, so these have only one warp that turns, beside the
  // one that issues copies.
  static constexpr int kTurners = sm90_turners(N);
  static constexpr int kVector = 16 / sizeof(typename M::T);  // elements
  static constexpr int kSlabUnits = M::kSlab / 8;             // units of 8 channels
  // Those that multiply need fewer than in other kernels, and those that turn need more.
  static constexpr int kConsumer = sm90_blocks_of_sm(N) == 2 ? 0 : 208,
                       kProducer = sm90_blocks_of_sm(N) == 2 ? 0 : 88;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Turns raw rows into stages of units: the part of one warp.
template <class S>
class Turner {
 public:
  __device__ Turner(const Sm90TurnedParams& p, const Block& block, unsigned char* shared, int warp)
      : p_(p),
        block_(block),
        ring_(p, shared),
        turned_(ptx::shared_address(shared)),
        nowhere_(ptx::shared_address(shared + p.raw.nowhere) + 16 * (32 * warp + threadIdx.x % 32)),
        warp_(warp),
        lane_(threadIdx.x % 32),
        next_(warp * p.raw.share) {}

  __device__ void run(const Rings<S>& rings) {
    RingPlace open, end;  // stages that are being filled are [open, end)
    int opened = 0;       // how many
    for (RawWalk<S> walk(p_, block_); walk.there(p_); walk.advance(p_, block_)) {
      const int first = walk.first_slab();
      for (const int wanted = walk.last_slab(p_) - first + 1; opened < wanted; ++opened) {
        ptx::barrier_wait(rings.empty(0, end.at), end.parity ^ 1);
        end.advance(rings.stages);
      }
      turn(walk, open.at);
      int complete = walk.complete(p_) - first;
      if (complete == 0) continue;
      ptx::fence_async();
      __syncwarp();
      for (; complete > 0; --complete, --opened) {
        if (lane_ == 0) ptx::barrier_arrive(rings.full(0, open.at));
        open.advance(rings.stages);
      }
    }
  }

 private:
  static constexpr int kSize = sizeof(typename S::Mode::T);
  static constexpr bool kWords = kSize == 4;
  static constexpr int kPiecePositions = 32, kPieceBytes = kPiecePositions * kSize;  // of a row

  // A channel block, and where its units go. Places are counted from the first slab's first unit.
  struct Rows {
    int stage, unit, units;  // of the first slab; of the block's first phase; end of the split
    int start, late;         // of x: the position of column 0 and phase 0; how rows begin behind 16 bytes
  };
  // Where a position of x goes.
  struct Place {
    int column, phase;
  };

  __device__ void turn(const RawWalk<S>& walk, int stage) {
    const Sm90RawSource& raw = p_.raw;
    const int slab = S::kSlabUnits * walk.first_slab(), first = walk.channel_block(p_);
    Rows rows{stage, walk.unit() - slab, walk.units() - slab, walk.start(p_), 0};
    if (raw.blocks > 1) {
      ptx::barrier_wait(ring_.full(place_.at), place_.parity);
#pragma unroll 1
      for (int i = 0; i < raw.blocks; ++i, rows.unit += raw.phases) {
        if ((first + i) % S::kTurners != warp_) continue;
        turn_share(rows, first + i, ring_.place(place_.at) + i * raw.boxes * raw.box_bytes, 0, raw.boxes);
      }
      release(place_.at);
      place_.advance(ring_.places);
      return;
    }
#pragma unroll 1
    for (; next_ < raw.boxes; next_ += S::kTurners * raw.share) {
      const int at = warp_ + S::kTurners * place_.at;
      ptx::barrier_wait(ring_.full(at), place_.parity);
      turn_share(rows, first, ring_.place(at), next_, min(raw.share, raw.boxes - next_));
      release(at);
      place_.advance(ring_.places / S::kTurners);
    }
    next_ -= raw.block_boxes;
  }
  __device__ void release(int at) const {
    __syncwarp();
    if (lane_ == 0) ptx::barrier_arrive(ring_.empty(at));
  }

  // Some boxes of a channel block. Of a piece's four matrices of 8 channels x 8 positions, lane i stores
  // position i; for ldmatrix it has row i%8, a channel.
  __device__ void turn_share(Rows& rows, int block, uint32_t from, int first, int boxes) {
    const Sm90RawSource& raw = p_.raw;
    rows.late = raw.late[block & ((1 << raw.log_classes) - 1)];
    const int before = before_copy<S>(rows.start, rows.late);
    const uint32_t unit = unit_address(rows, lane_);  // of phase `lane_`
    Place at = place_of(first * raw.step + lane_ - before);
    from += kWords ? 4 * lane_ : lane_ % 8 * raw.box * 2 + lane_ / 8 * 16;
#pragma unroll 1
    for (int b = 0; b < boxes; ++b, from += raw.box_bytes) turn_box(from, unit, at);
    if (rows.start < 0 && rows.late > 0) clear(rows, first, boxes);
  }

  // A lane's share of 8 channels x 32 positions: of each channel a word, or what ldmatrix gives.
  struct Words {
    uint32_t of[8];
  };
  using Piece = std::conditional_t<kWords, Words, uint4>;

  __device__ Piece load(uint32_t row) const {
    if constexpr (kWords) {
      Words v;
#pragma unroll
      for (int c = 0; c < 8; ++c) v.of[c] = ptx::load_shared4(row + c * (p_.raw.box * 4));
      return v;
    } else {
      return ptx::load_matrices(row);
    }
  }
  // half: bytes from a unit's first 4 channels to the others.
  __device__ static void store(uint32_t to, uint32_t half, const Piece& v) {
    if constexpr (kWords) {
      ptx::store_shared16(to, {v.of[0], v.of[1], v.of[2], v.of[3]});
      ptx::store_shared16(to + half, {v.of[4], v.of[5], v.of[6], v.of[7]});
    } else {
      ptx::store_matrices_transposed(to, v);
    }
  }

  // Where a lane stores its position of a piece, its whole unit or, of float32, the halves.
  struct Target {
    uint32_t to, half;
  };
  // unit: in lane i, of phase i. Then the place of the next piece.
  __device__ Target next_target(uint32_t unit, Place& at) const {
    const uint32_t of_phase = __shfl_sync(0xffffffffu, unit, at.phase);
    const Target target =
        of_phase != 0 ? Target{of_phase + 16 * at.column, p_.source.pitch * 16u} : Target{nowhere_, 0};
    at.phase += p_.raw.phases_over;
    at.column += p_.raw.columns;
    if (at.phase >= p_.raw.stride) {
      at.phase -= p_.raw.stride;
      ++at.column;
    }
    return target;
  }

  template <int kCount>
  __device__ void turn_pieces(uint32_t row, uint32_t unit, Place& at) const {
    Piece pieces[kCount];
    Target targets[kCount];
#pragma unroll
    for (int q = 0; q < kCount; ++q) pieces[q] = load(row + q * kPieceBytes);
#pragma unroll
    for (int q = 0; q < kCount; ++q) targets[q] = next_target(unit, at);
#pragma unroll
    for (int q = 0; q < kCount; ++q) store(targets[q].to, targets[q].half, pieces[q]);
  }
  __device__ void turn_box(uint32_t row, uint32_t unit, Place& at) const {
    constexpr int kAtOnce = kWords ? 2 : 4;
    int left = p_.raw.step / kPiecePositions;
#pragma unroll 1
    for (; left >= kAtOnce; left -= kAtOnce, row += kAtOnce * kPieceBytes)
      turn_pieces<kAtOnce>(row, unit, at);
#pragma unroll 1
    for (; left > 0; --left, row += kPieceBytes) turn_pieces<1>(row, unit, at);
  }

  // Before the first element of a row of x, a copy brings the row before.
  __device__ void clear(const Rows& rows, int first, int boxes) const {
    __syncwarp();
    const int position = lane_ - rows.late - rows.start;
    const int turned = position + before_copy<S>(rows.start, rows.late) - first * p_.raw.step;
    if (lane_ >= rows.late || position < 0 || turned < 0 || turned >= boxes * p_.raw.step) return;
    const Place at = place_of(position);
    const uint32_t unit = unit_address(rows, at.phase);
    if (unit == 0) return;
    ptx::store_shared16(unit + 16 * at.column, {0, 0, 0, 0});
    if constexpr (kWords) ptx::store_shared16(unit + 16 * (at.column + p_.source.pitch), {0, 0, 0, 0});
  }

  // Of a position from rows.start on, at most 7 before it. Its phase is below 32, if x has it.
  __device__ Place place_of(int position) const {
    const int stride = p_.raw.stride;
    const int column =
        static_cast<int>(p_.raw.stride_div.divide(static_cast<uint32_t>(position + 8 * stride))) - 8;
    return {column, position - column * stride};
  }

  // Where column 0 of a phase's unit is; 0: the unit does not exist, or belongs to another split.
  __device__ uint32_t unit_address(const Rows& rows, int phase) const {
    const uint32_t unit = rows.unit + phase;  // of another split: at least rows.units, or below 0
    if (phase >= p_.raw.phases || unit >= static_cast<uint32_t>(rows.units)) return 0;
    uint32_t stage = rows.stage + unit / S::kSlabUnits;
    if (stage >= static_cast<uint32_t>(p_.source.stages)) stage -= p_.source.stages;
    return turned_ + stage * p_.source.stage_bytes +
           (unit % S::kSlabUnits * p_.raw.unit_pitch + p_.raw.front) * 16;
  }

  const Sm90TurnedParams& p_;
  const Block& block_;
  RawRing ring_;
  uint32_t turned_, nowhere_;
  int warp_, lane_;
  int next_;         // the warp's next box, from the channel block's first one on
  RingPlace place_;  // of all places or of the warp's own
};

#endif

template <class S, bool Lines>
struct TurnedStages : ChannelBlockStages<S, Sm90TurnedParams, S::kTurners, Lines> {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Params = Sm90TurnedParams;

  __device__ static void prepare(const Params& p, unsigned char* shared) {
    const int map = static_cast<int>(threadIdx.x) - S::kConsumers;
    if (map >= 0 && map < 1 << p.raw.log_classes) ptx::prefetch_tensor_map(&p.raw.maps[map]);
    if (threadIdx.x != 0) return;
    const RawRing ring(p, shared);
    for (int i = 0; i < ring.places; ++i) {
      ptx::barrier_init(ring.full(i), 1);
      ptx::barrier_init(ring.empty(i), p.raw.blocks > 1 ? S::kTurners : 1);
    }
    ptx::barrier_init_done();
  }
  __device__ static void bring(const Params& p, const Block& block, const Rings<S>& rings,
                               unsigned char* shared, int warp) {
    if (warp > 0) {
      if (warp <= S::kTurners) Turner<S>(p, block, shared, warp - 1).run(rings);
      return;
    }
    // Different lanes wait for different barriers. But a lane that waits for the launch that packs weights
    // stops the whole warp, so the ring of raw rows is filled before that.
    const int lane = threadIdx.x % 32;
    RawSource<S> raw(p, block, shared);
    for (int round = 0; round < 2; ++round) {
      if (lane == 31) {
        raw.fill(round == 0);
      } else if (round == 1 && lane < S::kRowBlocks) {
        PackedSource<S>(p, block, shared, lane).template run<ColumnTiles>(rings);
      }
      __syncwarp();
    }
  }
#endif
};

template <class Mode, int Tile = 0>
void set_turned(Sm90TurnedFunctions& f) {
  constexpr Sm90Tile kTile = kSm90Tiles[Tile];
  using Shape = TurnedShape<Mode, kTile.row_blocks, kTile.n>;
  f.tiles[0][Tile] = kernel<TurnedStages<Shape, false>>;
  f.tiles[1][Tile] = kernel<TurnedStages<Shape, true>>;
  if constexpr (Tile + 1 < kSm90GatherTiles) set_turned<Mode, Tile + 1>(f);
}

template <class Mode>
Sm90TurnedFunctions turned_functions_of() {
  Sm90TurnedFunctions f{};
  set_turned<Mode>(f);
  return f;
}

}  // namespace tconv::cuda::sm90
