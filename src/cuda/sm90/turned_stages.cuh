// The stages of cuda.sm90.blocked if channel blocks are made in shared memory:
//
//   for each tile of columns, chunk of channel blocks, group of taps:
//     for each channel block, 8 rows of x; share of its positions, a few boxes:
//       a thread copies raw rows, [box][channel][position]                             the ring of raw rows
//       one of 1 or 3 warps turns them, 8 channels x 32 positions at once, by ldmatrix and stmatrix; in tf32
//       lanes load words and store 16 bytes each:
//         each position goes to the unit of its phase                                  [unit][column]
//     4 units (tf32: 2, each of twice 16 bytes) make a slab, which is a stage of x:
//       the same thread copies weights, 2 warpgroups multiply (blocked_stages.cuh)
//
// A turned stage is what a pass over x and a bulk copy would bring, but x does not go to memory and back. A
// channel block has units of all phases, so that it may end inside a slab. A copy begins on 16 bytes, so the
// rows of a block must begin equally far behind 16 bytes: it has every first, second, fourth or eighth row
// (UnitOrder). The tensor cores bind or, with one or two taps, the warps that turn or the thread that copies.
// None of those has another warp to hide its latencies, and much of their code runs once a share, as fast as
// instructions are fetched: so there is little of it. With a copy for each box, which a lane issues, and with
// every warp in every chunk, strided n1 ci256 co2048 l117747 k8 s4 in bf16 takes 2.41 ms instead of 1.53; its
// products alone take 1.08 (H200).
#pragma once

#include "cuda/sm90/turned_boxes.cuh"

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
        boxes_(p, ptx::shared_address(shared + p.raw.nowhere) + 16 * (32 * warp + threadIdx.x % 32)),
        turned_(ptx::shared_address(shared)),
        warp_(warp),
        lane_(threadIdx.x % 32) {
    place_.at = warp;
  }

  // Waits for stages of its own chunks alone. A barrier looks the same two phases apart, and between two of
  // these chunks lie no more slabs than there are stages (sm90_turned_least_stages): so when a warp comes to
  // a stage, at most one phase is missing.
  __device__ void run(const Rings<S>& rings) {
    RawItems<S> items(p_, block_);
    RingPlace first;  // the stage of the chunk's first slab
    items.step(p_, warp_);
    for (int passed = items.skip(p_, block_); items.there(p_); passed = items.skip(p_, block_)) {
      first.advance(rings.stages, passed);
      const int end = items.chunk_end(p_);
      RingPlace stage = first;
#pragma unroll 1
      for (int unit = 0; unit < end; unit += S::kSlabUnits) {
        ptx::barrier_wait(rings.empty(0, stage.at), stage.parity ^ 1);
        stage.advance(rings.stages);
      }
      int turned = 0;  // items of the chunk
      bool more;
#pragma unroll 1
      do {
        turn(items, first.at);
        ++turned;
        more = items.step(p_, S::kTurners);
      } while (more);
      ptx::fence_async();
      __syncwarp();
      if (lane_ == 0) arrive(rings, first.at, items.chunk_begin(), end, turned);
    }
  }

 private:
  static constexpr bool kWords = sizeof(typename S::Mode::T) == 4;
  using Place = typename BoxTurner<S>::Place;

  // A channel block, and where its units go. Units are counted from the first slab's first one.
  struct Rows {
    int stage, unit, units;  // of the first slab; of the block's first phase; end of the split
    int start, late;         // of x: the position of column 0 and phase 0; how rows begin behind 16 bytes
  };

  // A stage is complete when all its units have arrived, of each share. A chunk of several blocks has one.
  __device__ void arrive(const Rings<S>& rings, int stage, int unit, int end, int items) const {
    if (p_.raw.blocks > 1) return ptx::barrier_arrive(rings.full(0, stage), items * p_.raw.phases);
#pragma unroll 1
    while (unit < end) {
      const int next = min((unit / S::kSlabUnits + 1) * S::kSlabUnits, end);
      ptx::barrier_arrive(rings.full(0, stage), items * (next - unit));
      unit = next;
      if (++stage == rings.stages) stage = 0;
    }
  }

  __device__ void turn(const RawItems<S>& items, int stage) {
    const Sm90RawSource& raw = p_.raw;
    const int block = items.channel_block(p_), first = items.first_box(p_);
    const Rows rows{stage, items.unit(p_), items.units(), items.start(),
                    raw.late[block & ((1 << raw.log_classes) - 1)]};
    const int before = before_copy<S>(rows.start, rows.late), boxes = min(raw.share, raw.boxes - first);
    const uint32_t begin = unit_address(rows, lane_);
    const Place at = place_of(first * raw.step + lane_ - before);
    // Copies may arrive in any order, and a barrier looks the same two phases apart: so the item that this
    // place had before must be over, if another warp turned it.
    if (p_.raw.places % S::kTurners != 0) ptx::barrier_wait(ring_.empty(place_.at), place_.parity ^ 1);
    ptx::barrier_wait(ring_.full(place_.at), place_.parity);
    boxes_.turn(ring_.place(place_.at), begin, at, boxes);
    if (rows.start < 0 && rows.late > 0) clear(rows, first, boxes);
    __syncwarp();
    if (lane_ == 0) ptx::barrier_arrive(ring_.empty(place_.at));
    place_.advance(ring_.places, S::kTurners);
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
  BoxTurner<S> boxes_;
  uint32_t turned_;
  int warp_, lane_;
  RingPlace place_;  // of the warp's next item
};

#endif

template <class S, bool Lines>
struct TurnedStages : ChannelBlockStages<S, Sm90TurnedParams, Lines> {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Params = Sm90TurnedParams;

  __device__ static Arrivals arrivals(const Params& p) {
    const int shares = p.raw.blocks > 1 ? 1 : p.raw.items;
    return {S::kSlabUnits * shares, kSm90Consumers / 32, 1, kSm90Consumers / 32};
  }
  __device__ static void prepare(const Params& p, unsigned char* shared) {
    const int map = static_cast<int>(threadIdx.x) - S::kConsumers;
    if (map >= 0 && map < 1 << p.raw.log_classes) {
      ptx::prefetch_tensor_map(&p.raw.maps[map].box);
      if (p.raw.inner >= 0) ptx::prefetch_tensor_map(&p.raw.maps[map].share);
    }
    if (threadIdx.x != 0) return;
    const RawRing ring(p, shared);
    for (int i = 0; i < ring.places; ++i) {
      ptx::barrier_init(ring.full(i), 1);
      ptx::barrier_init(ring.empty(i), 1);
    }
    ptx::barrier_init_done();
  }
  __device__ static void bring(const Params& p, const Block& block, const Rings<S>& rings,
                               unsigned char* shared, int warp) {
    if (warp > 0) {
      if (warp <= S::kTurners) Turner<S>(p, block, shared, warp - 1).run(rings);
      return;
    }
    if (!ptx::elect_one()) return;
    // The ring of raw rows is filled before the thread waits for the launch that packs weights.
    RawSource<S> raw(p, block, shared);
    for (int places = p.raw.places; places > 0 && raw.there(); --places) raw.copy();
    wait_for_launch_beside(p.order);
    PackedSource<S, ColumnTiles> weights(p, block, shared, rings);
    // It never waits for one of the two while it could bring the other.
    while (raw.there() || weights.there()) {
      if (raw.there() && raw.ready()) raw.copy();
      if (weights.there() && weights.ready()) weights.copy();
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
