// Raw rows of x and dy on their way to planes in shared memory, for cuda.sm90.weight_turned: who copies them,
// and who turns them.
#pragma once

#include "cuda/device/ptx/sm90_operands.cuh"
#include "cuda/device/ptx/stmatrix.cuh"
#include "cuda/device/ring.cuh"
#include "cuda/sm90/weight_blocked_repair.cuh"
#include "cuda/sm90/weight_turned.hpp"

namespace tconv::cuda::sm90::weight_turned {

template <class M, int RowBlocks, int N>
struct TurnedShape : weight_blocked::Shape<M, RowBlocks, N> {
  static constexpr Sm90WeightBlockedShape kOf = {RowBlocks, N};
  static constexpr int kPositions = weight_turned_positions(M::kMode);
  static constexpr int kTurners = weight_turners(M::kMode, kOf), kThreads = weight_turned_threads(M::kMode, kOf);
  // Registers of a thread that multiplies, and of one that turns.
  static constexpr int kConsumer = kTurners == 3 ? 224 : 176, kProducer = kTurners == 3 ? 56 : 80;
  static constexpr int kEight = 16 / sizeof(typename M::Word);  // elements of 16 bytes
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using weight_blocked::Place;
using weight_blocked::RowBlock;

// The x planes and shifts that a tile's row blocks have.
struct TileTaps {
  int first_block, blocks;  // of 64 planes
  int last_tap;             // of all row blocks: a slot's planes begin that many shifts before its first position

  __device__ TileTaps(const Sm90WeightTurnedParams& p, const Place& at, int row_blocks) {
    const RowBlock first(p, at.row_block), last(p, min(at.row_block + 2 * row_blocks, p.row_blocks) - 1);
    first_block = first.plane / 64;
    blocks = last.plane / 64 - first_block + 1;
    last_tap = blocks == 1 ? last.tap : p.taps - 1;
  }
  // In a slot, of a row block at the stage's first position.
  __device__ uint32_t place(const Sm90WeightTurnedParams& p, int row_block) const {
    const RowBlock rows(p, row_block);
    return ((rows.plane / 64 - first_block) * 8 * p.x_raw.pitch + (last_tap - rows.tap) * p.shift) * 16;
  }
};

// The units (8 channels) of an operand that a tile has.
struct Units {
  int first, count;
  int start;       // positions before the stage's first one where planes begin
  int first_unit;  // the tile's first 8 planes, and how many
  int planes;
};
template <class S>
struct TileUnits {
  Units x, y;
  __device__ TileUnits(const Sm90WeightTurnedParams& p, const Place& at, const TileTaps& taps) {
    x.first = x.first_unit = taps.first_block * 8;
    x.count = x.planes = min(taps.blocks * 8, p.x_raw.blocks - x.first);
    x.start = taps.last_tap * p.shift;
    y.first_unit = at.column / 8;
    y.planes = S::kN / 8;
    y.first = static_cast<int>(p.by_y_planes.divide(y.first_unit));
    const int last = static_cast<int>(p.by_y_planes.divide(y.first_unit + y.planes - 1));
    y.count = min(last + 1, p.y_raw.blocks) - y.first;
    y.start = 0;
  }
};

// Pieces of an operand in their order: function(class, first unit of the class, how many, box).
template <class Function>
__device__ inline void each_piece(const Sm90WeightRaw& raw, const Units& units, const Function& function) {
  const int last = units.first + units.count - 1;
#pragma unroll 1
  for (int row_class = 0; row_class < 1 << raw.log_classes; ++row_class) {
    // Units row_class + i * classes, i in [begin, end), are the tile's.
    const int begin = (units.first - row_class + (1 << raw.log_classes) - 1) >> raw.log_classes;
    const int end = (last - row_class >> raw.log_classes) + 1;
#pragma unroll 1
    for (int i = begin; i < end; i += raw.piece_units) {
#pragma unroll 1
      for (int box = 0; box < raw.boxes; ++box) function(row_class, i, min(raw.piece_units, end - i), box);
    }
  }
}

// The sample and first position of a stage.
struct StagePlace {
  int sample, u;
  __device__ StagePlace(const Sm90WeightTurnedParams& p, int stage) {
    sample = static_cast<int>(p.by_sample_stages.divide(stage));
    u = static_cast<int>(p.first_u) + (stage - sample * p.sample_stages) * p.stage_positions;
  }
};

// A box of rows: the place of its first column at phase 0 in a row, and how many elements before it the copy
// begins.
template <class S>
struct RowPlace {
  int start, late, before;
  __device__ RowPlace(const Sm90WeightRaw& raw, int row_class, int u) {
    late = raw.late[row_class];
    start = raw.stride * u - raw.padding;
    before = (start + late) & (S::kEight - 1);
  }
};

// Fills the ring of pieces: the part of one thread.
template <class S>
__device__ inline void copy_pieces(const Sm90WeightTurnedParams& p, const Place& at, const TileUnits<S>& units,
                                   uint32_t ring, const RingBarriers& barriers, int first, int end) {
  RingPlace place;
  auto copy = [&](const Sm90WeightRaw& raw, const Units& of, const StagePlace& to) {
    const uint32_t bytes = raw.piece_units * raw.width * 8 * sizeof(typename S::Mode::Word);
    each_piece(raw, of, [&](int row_class, int unit, int, int box) {
      const RowPlace<S> rows(raw, row_class, to.u - of.start + box * raw.box_columns);
      const int from[4] = {rows.start + rows.late - rows.before, unit * 8, at.group, to.sample};
      const uint32_t full = barriers.full(place.at);
      ptx::barrier_wait(barriers.empty(place.at), place.parity ^ 1);
      ptx::barrier_arrive_expect(full, bytes);
      ptx::tensor_load(ring + place.at * p.piece_bytes, &raw.maps[row_class], from, full);
      place.advance(p.pieces);
    });
  };
#pragma unroll 1
  for (int stage = first; stage < end; ++stage) {
    const StagePlace to(p, stage);
    copy(p.x_raw, units.x, to);
    copy(p.y_raw, units.y, to);
  }
}

// 32 positions of 8 channels. load: from a unit's rows; `row` is lane_row() of the first position. store: position
// `lane` to `to`, of the first part.
template <class Mode>
struct Turn;

template <class Storage>
struct Turn<weight_blocked::HalfMode<Storage>> {
  static constexpr int kBytes = 64;  // of a row
  uint4 v;
  __device__ static uint32_t lane_row(int lane, int row_bytes) { return lane % 8 * row_bytes + lane / 8 * 16; }
  __device__ void load(uint32_t row) { v = ptx::load_matrices(row); }
  __device__ void store(uint32_t to, uint32_t) const { ptx::store_matrices_transposed(to, v); }
};

template <>
struct Turn<weight_blocked::IeeeMode> {
  using Mode = weight_blocked::IeeeMode;
  static constexpr int kBytes = 128;
  float2 v[4];
  __device__ static uint32_t lane_row(int lane, int row_bytes) { return lane / 4 * row_bytes + lane % 4 * 8; }
  __device__ void load(uint32_t row) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];\n" : "=f"(v[i].x), "=f"(v[i].y) : "r"(row + 32 * i));
    }
  }
  __device__ void store(uint32_t to, uint32_t part_step) const {
    uint32_t words[4][3];
#pragma unroll
    for (int i = 0; i < 4; ++i) Mode::split(v[i].x, v[i].y, words[i]);
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      ptx::store_matrices_transposed(to + part * part_step,
                                     {words[0][part], words[1][part], words[2][part], words[3][part]});
    }
  }
};

// Turns pieces into slots: the part of one warp. The warps that turn take pieces by turns.
template <class S>
class Turner {
 public:
  __device__ Turner(const Sm90WeightTurnedParams& p, const TileUnits<S>& units, uint32_t ring,
                    const RingBarriers& barriers, int warp)
      : p_(p),
        units_(units),
        ring_(ring),
        nowhere_(ring + p.pieces * p.piece_bytes + 16 * (32 * warp + threadIdx.x % 32)),
        barriers_(barriers),
        lane_(threadIdx.x % 32),
        until_mine_(warp) {
    place_.at = warp;
  }

  __device__ void run(const RingBarriers& slots_barriers, uint32_t slots, int first, int end) {
    RingPlace slot;
#pragma unroll 1
    for (int stage = first; stage < end; ++stage) {
      const int u = StagePlace(p_, stage).u;
      ptx::barrier_wait(slots_barriers.empty(slot.at), slot.parity ^ 1);
      const uint32_t to = slots + slot.at * p_.slot_bytes;
      turn_operand(p_.x_raw, units_.x, u, to);
      turn_operand(p_.y_raw, units_.y, u, to + p_.y_at);
      ptx::fence_async();
      __syncwarp();
      if (lane_ == 0) ptx::barrier_arrive(slots_barriers.full(slot.at));
      slot.advance(p_.slots);
    }
  }

 private:
  using Eight = Turn<typename S::Mode>;

  // Where columns of a unit go: of phase 0, column 0; the unit of phase 0 among the tile's.
  struct Target {
    uint32_t to;
    int unit, planes, columns;
  };

  __device__ void turn_operand(const Sm90WeightRaw& raw, const Units& units, int u, uint32_t to) {
    each_piece(raw, units, [&](int row_class, int unit, int count, int box) {
      if (until_mine_-- != 0) return;
      until_mine_ = S::kTurners - 1;
      const int first = box * raw.box_columns;
      const RowPlace<S> rows(raw, row_class, u - units.start + first);
      const int row_bytes = raw.width * static_cast<int>(sizeof(typename S::Mode::Word));
      uint32_t from = ring_ + place_.at * p_.piece_bytes + Eight::lane_row(lane_, row_bytes);
      Target target{to + first * 16, 0, units.planes, min(raw.box_columns, raw.columns - first)};
      target.unit = ((unit << raw.log_classes) + row_class) * raw.phases - units.first_unit;
      ptx::barrier_wait(barriers_.full(place_.at), place_.parity);
#pragma unroll 1
      for (int i = 0; i < count; ++i, from += 8 * row_bytes, target.unit += raw.phases << raw.log_classes) {
        if (raw.lane_step > 0) {
          turn_steps(raw, from, target, rows.before);
        } else {
          turn_phases(raw, from, target, rows.before);
        }
        if (rows.start < 0 && rows.late > 0) clear(raw, rows, target);
      }
      __syncwarp();
      if (lane_ == 0) ptx::barrier_arrive(barriers_.empty(place_.at));
      place_.at += S::kTurners;
      if (place_.at >= p_.pieces) {
        place_.at -= p_.pieces;
        place_.parity ^= 1;
      }
    });
  }

  // nowhere_ if that is no place of the tile.
  __device__ uint32_t address(const Sm90WeightRaw& raw, const Target& target, int column, int phase) const {
    const bool there = static_cast<uint32_t>(column) < static_cast<uint32_t>(target.columns) &&
                       phase < raw.phases &&
                       static_cast<uint32_t>(target.unit + phase) < static_cast<uint32_t>(target.planes);
    return there ? target.to + ((target.unit + phase) * raw.pitch + column) * 16 : nowhere_;
  }
  __device__ int column_of(const Sm90WeightRaw& raw, int position) const {  // position >= -8
    return static_cast<int>(raw.by_stride.divide(position + 8 * raw.stride)) - 8;
  }
  __device__ int elements(const Sm90WeightRaw& raw, const Target& target, int before) const {
    return raw.stride * (target.columns - 1) + raw.phases + before;
  }

  // 32 positions on, a lane is in the same phase again.
  __device__ void turn_steps(const Sm90WeightRaw& raw, uint32_t from, const Target& target, int before) const {
    int column = column_of(raw, lane_ - before);
    const int phase = lane_ - before - column * raw.stride, end = elements(raw, target, before);
    const bool there = phase < raw.phases &&
                       static_cast<uint32_t>(target.unit + phase) < static_cast<uint32_t>(target.planes);
    const uint32_t columns = there ? target.columns : 0;
    uint32_t to = target.to + ((target.unit + phase) * raw.pitch + column) * 16;
    constexpr int kAtOnce = S::kParts == 1 ? 4 : 2;
#pragma unroll 1
    for (int e = 0; e < end; e += 32 * kAtOnce, from += kAtOnce * Eight::kBytes) {
      Eight v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) v[i].load(from + i * Eight::kBytes);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i, column += raw.lane_step, to += raw.lane_step * 16) {
        const bool inside = static_cast<uint32_t>(column) < columns;
        v[i].store(inside ? to : nowhere_, inside ? p_.part_bytes : 0);
      }
    }
  }

  __device__ void turn_phases(const Sm90WeightRaw& raw, uint32_t from, const Target& target, int before) const {
    const int end = elements(raw, target, before);
    constexpr int kAtOnce = 2;
#pragma unroll 1
    for (int e = 0; e < end; e += 32 * kAtOnce, from += kAtOnce * Eight::kBytes) {
      Eight v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) v[i].load(from + i * Eight::kBytes);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int position = e + 32 * i + lane_ - before, column = column_of(raw, position);
        const uint32_t place = address(raw, target, column, position - column * raw.stride);
        v[i].store(place, place == nowhere_ ? 0 : p_.part_bytes);
      }
    }
  }

  // Before the first element of a row, a copy brings the row before.
  __device__ void clear(const Sm90WeightRaw& raw, const RowPlace<S>& rows, const Target& target) const {
    __syncwarp();
    const int position = lane_ - rows.late - rows.start;
    if (lane_ >= rows.late || position < 0) return;
    const int column = column_of(raw, position);
    const uint32_t place = address(raw, target, column, position - column * raw.stride);
    if (place == nowhere_) return;
#pragma unroll
    for (int part = 0; part < S::kParts; ++part) ptx::store_shared16(place + part * p_.part_bytes, {0, 0, 0, 0});
  }

  const Sm90WeightTurnedParams& p_;
  const TileUnits<S>& units_;
  uint32_t ring_, nowhere_;
  RingBarriers barriers_;
  int lane_;
  int until_mine_;   // pieces before the next one that is the warp's
  RingPlace place_;  // where that is
};

#endif

}  // namespace tconv::cuda::sm90::weight_turned
