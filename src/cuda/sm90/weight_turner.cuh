// Raw rows of x and dy on their way to planes in shared memory, for cuda.sm90.weight_turned: who copies them,
// and who turns them.
#pragma once

#include "cuda/device/ring.cuh"
#include "cuda/sm90/weight_bias.cuh"
#include "cuda/sm90/weight_turn.cuh"
#include "cuda/sm90/weight_turned.hpp"
#include "cuda/sm90/weight_units.cuh"

namespace tconv::cuda::sm90::weight_turned {

template <class M, int RowBlocks, int N, bool SumsY>
struct TurnedShape : weight_blocked::Shape<M, RowBlocks, N> {
  static constexpr bool kUnits = true, kSumsY = SumsY;
  static constexpr Sm90WeightBlockedShape kOf = {RowBlocks, N};
  static constexpr int kPositions = weight_turned_positions(M::kMode);
  static constexpr int kTurners = weight_turners(M::kMode, kOf),
                       kThreads = weight_turned_threads(M::kMode, kOf);
  // Registers of a thread that multiplies, and of one that turns.
  static constexpr int kConsumer = kTurners == 3 ? 224 : 176, kProducer = kTurners == 3 ? 56 : 80;
  static_assert(ptx::registers_suffice(kThreads, 256, kConsumer, kProducer));
  static constexpr int kEight = 16 / sizeof(typename M::Word);  // elements of 16 bytes
  static_assert(kPositions % kEight == 0);                      // Piece::before is the same in all stages
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using weight_blocked::Place;
using weight_blocked::RowBlock;
using weight_units::StagePlace;
using weight_units::TileTaps;
using weight_units::TileUnits;
using weight_units::Units;

// Where a row block's planes are in a slot at the stage's first position.
__device__ inline uint32_t planes_of(const Sm90WeightTurnedParams& p, const TileTaps& taps, int row_block) {
  const RowBlock rows(p, row_block);
  return ((rows.plane / 64 - taps.first_block) * 8 * p.x_raw.pitch + (taps.last_tap - rows.tap) * p.shift) *
         16;
}

// A piece of a stage: the same for all stages, but for their positions. In shared memory.
struct alignas(16) Piece {
  int start;  // place in a row of its first column at phase 0, in a stage at position 0
  int row;    // of the class
  int unit;   // the first one's phase 0 among the tile's planes of 8
  int column, columns;
  int elements;  // of a row, from where the copy begins to the last column's last phase
  int8_t row_class, units;
  int8_t late, before;  // elements that rows begin behind 16 bytes; that a copy begins before `start`
};
static_assert(sizeof(Piece) == 32);

// Piece i of an operand. first_u: a position where a stage begins.
template <class S>
__device__ inline Piece make_piece(const Sm90WeightRaw& raw, const Units& of, int i, int first_u) {
  Piece piece;
  const int box = i % raw.boxes, run = i / raw.boxes, runs = weight_unit_runs(raw, of.count);
  const int classes = 1 << raw.log_classes, row_class = (of.first + run / runs) & (classes - 1);
  const int first = (of.first - row_class + classes - 1) >> raw.log_classes;
  const int end = (of.first + of.count - 1 - row_class >> raw.log_classes) + 1;
  const int at = first + run % runs * raw.piece_units;
  piece.row = at * 8;
  piece.unit = ((at << raw.log_classes) + row_class) * raw.phases - of.first_plane;
  piece.column = box * raw.box_columns;
  piece.columns = min(raw.box_columns, raw.columns - piece.column);
  piece.start = raw.stride * (piece.column - of.start) - raw.padding;
  const int late = raw.late[row_class],
            before = (piece.start + raw.stride * first_u + late) & (S::kEight - 1);
  piece.elements = raw.stride * (piece.columns - 1) + raw.phases + before;
  piece.row_class = static_cast<int8_t>(row_class);
  piece.units = static_cast<int8_t>(max(0, min(raw.piece_units, end - at)));
  piece.late = static_cast<int8_t>(late);
  piece.before = static_cast<int8_t>(before);
  return piece;
}

__device__ inline int pieces_of(const Sm90WeightRaw& raw, const Units& units) {
  return weight_unit_runs(raw, units.count) * min(units.count, 1 << raw.log_classes) * raw.boxes;
}

// The pieces of a stage: those of x, then those of dy.
struct Pieces {
  Piece* list;
  int of_x, all;
};

template <class S>
__device__ inline Pieces make_pieces(const Sm90WeightTurnedParams& p, const TileUnits<S>& units,
                                     void* shared) {
  const int of_x = pieces_of(p.x_raw, units.x), first_u = static_cast<int>(p.first_u);
  const Pieces pieces{static_cast<Piece*>(shared), of_x, of_x + pieces_of(p.y_raw, units.y)};
  for (int i = threadIdx.x; i < pieces.all; i += S::kThreads) {
    pieces.list[i] = i < of_x ? make_piece<S>(p.x_raw, units.x, i, first_u)
                              : make_piece<S>(p.y_raw, units.y, i - of_x, first_u);
  }
  return pieces;
}

// Fills the ring of pieces: the part of one thread.
// Hazard: launches failed (error 719) where several lanes of the warp took pieces by turns.
template <class S>
__device__ inline void copy_pieces(const Sm90WeightTurnedParams& p, const Place& at, const Pieces& pieces,
                                   uint32_t ring, const RingBarriers& barriers, int first, int end) {
  RingPlace place;
  auto copy = [&](const Sm90WeightRaw& raw, int begin, int behind, const StagePlace& to) {
    const uint32_t bytes = raw.piece_units * raw.width * 8 * sizeof(typename S::Mode::Word);
    const int u = raw.stride * to.u;
#pragma unroll 1
    for (int i = begin; i < behind; ++i) {
      const Piece piece = pieces.list[i];
      const int from[4] = {piece.start + u + piece.late - piece.before, piece.row, at.group, to.sample};
      const uint32_t full = barriers.full(place.at);
      ptx::barrier_wait(barriers.empty(place.at), place.parity ^ 1);
      ptx::barrier_arrive_expect(full, bytes);
      ptx::tensor_load(ring + place.at * p.piece_bytes, &raw.maps[piece.row_class], from, full);
      place.advance(p.pieces);
    }
  };
#pragma unroll 1
  for (int stage = first; stage < end; ++stage) {
    const StagePlace to(p, stage);
    copy(p.x_raw, 0, pieces.of_x, to);
    copy(p.y_raw, pieces.of_x, pieces.all, to);
  }
}

// Turns pieces into slots, and sums those of dy: the part of one warp. The warps that turn take pieces by
// turns.
template <class S>
class Turner {
 public:
  __device__ Turner(const Sm90WeightTurnedParams& p, const Place& at, int x_planes, const Pieces& pieces,
                    uint32_t ring, const RingBarriers& barriers, uint32_t slots, int warp)
      : p_(p),
        sums_(p, at, slots, warp, S::kN),
        x_planes_(x_planes),
        pieces_(pieces),
        ring_(ring),
        nowhere_(ring + p.pieces * p.piece_bytes + 16 * (32 * warp + threadIdx.x % 32)),
        barriers_(barriers),
        lane_(threadIdx.x % 32),
        piece_(warp) {
    place_.at = warp;
  }

  __device__ void run(const RingBarriers& slots_barriers, uint32_t slots, int first, int end) {
    RingPlace slot;
#pragma unroll 1
    for (int stage = first; stage < end; ++stage) {
      const int u = StagePlace(p_, stage).u;
      ptx::barrier_wait(slots_barriers.empty(slot.at), slot.parity ^ 1);
      const uint32_t to = slots + slot.at * p_.slot_bytes;
#pragma unroll 1
      for (; piece_ < pieces_.of_x; piece_ += S::kTurners) {
        turn(p_.x_raw, x_planes_, u, to, false);
      }
#pragma unroll 1
      for (; piece_ < pieces_.all; piece_ += S::kTurners) {
        turn(p_.y_raw, S::kN / 8, u, to + p_.y_at, S::kSumsY && sums_.on());
      }
      piece_ -= pieces_.all;
      ptx::fence_async();
      __syncwarp();
      if (lane_ == 0) ptx::barrier_arrive(slots_barriers.full(slot.at));
      slot.advance(p_.slots);
    }
  }

  // The sums of a channel are those of its first phase.
  __device__ void finish(const Place& at, uint32_t slots) const {
    sums_.finish(p_, slots, S::kN, S::kTurners, [&](int i) -> int64_t {
      const weight_blocked::Column<true> column(p_, at.column + i);
      if (at.column + i >= p_.columns || column.co >= p_.cout_group || column.a != 0) return -1;
      return (int64_t{at.group} * p_.cout_group + column.co) * p_.bias_each + at.split;
    });
  }

 private:
  using Turned = Turn<typename S::Mode>;
  static constexpr int kAtOnce = 2;  // groups of 32 positions that a warp holds

  // Where a lane's place goes in the unit of phase 0 at `to`; phase kNone: it is no column of the piece, or
  // belongs to a phase that no tap reads.
  static constexpr int kNone = 1 << 20;
  struct Target {
    uint32_t to;
    int phase;
  };

  // A piece's planes at one shift: where the first unit's phase 0 is, its number among the tile's planes of
  // 8, and the column of the piece's first position.
  struct Shift {
    uint32_t to;
    int unit, column;
  };

  // What is summed of a piece: `count` elements of a row from where the copy begins, so that pieces of
  // neighbouring boxes and stages meet; of these, `before` lie before the row. count 0: nothing.
  struct Summed {
    int count, before;
    typename Turned::Sums sums;
  };

  // The warp's next piece.
  __device__ void turn(const Sm90WeightRaw& raw, int planes, int u, uint32_t to, bool sums) {
    const Piece piece = pieces_.list[piece_];
    const int row_bytes = raw.width * static_cast<int>(sizeof(typename S::Mode::Word));
    const uint32_t from = ring_ + place_.at * p_.piece_bytes + Turned::lane_row(lane_, row_bytes);
    to += piece.unit * raw.pitch * 16;
    ptx::barrier_wait(barriers_.full(place_.at), place_.parity);
    const bool clears = piece.late > 0 && piece.start + raw.stride * u < 0;
    Summed summed{sums ? raw.stride * piece.columns : 0,
                  piece.late > 0 ? piece.before - piece.start - raw.stride * u : 0,
                  {}};
#pragma unroll 1
    for (int shift = 0; shift < raw.shifts; ++shift) {
      // The planes of later shifts begin with later positions of the row.
      const Shift at{to + (shift * raw.blocks * raw.pitch) * 16, piece.unit + shift * raw.blocks,
                     piece.column - (raw.shifts - 1 - shift) * raw.step};
      if (raw.stride == 1) {
        turn_units<true>(raw, piece, at, planes, from, row_bytes, summed);
      } else {
        turn_units<false>(raw, piece, at, planes, from, row_bytes, summed);
      }
      if (clears) clear(raw, piece, at, planes, u);
    }
    if (S::kSumsY && sums) {
      const int unit_planes = raw.phases << raw.log_classes;
      summed.sums.each(piece.units, [&](int unit, int channel, float sum) {
        const int plane = piece.unit + unit * unit_planes;
        if (in_range(plane, planes)) sums_.add(plane, channel, sum);
      });
    }
    __syncwarp();
    if (lane_ == 0) ptx::barrier_arrive(barriers_.empty(place_.at));
    place_.at += S::kTurners;
    if (place_.at >= p_.pieces) {
      place_.at -= p_.pieces;
      place_.parity ^= 1;
    }
  }

  template <bool kOneStep>
  __device__ void turn_units(const Sm90WeightRaw& raw, const Piece& piece, const Shift& at, int planes,
                             uint32_t from, int row_bytes, Summed& summed) const {
    const int unit_planes = raw.phases << raw.log_classes, unit_step = unit_planes * raw.pitch * 16;
    const int elements = S::kSumsY ? max(piece.elements, summed.count) : piece.elements;
#pragma unroll 1
    for (int e = 0; e < elements; e += 32 * kAtOnce, from += kAtOnce * Turned::kBytes) {
      Target targets[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        targets[i] = target<kOneStep>(raw, piece, at, e + 32 * i + lane_ - piece.before);
      }
      uint32_t row = from;
      int plane = at.unit;
#pragma unroll 2
      for (int left = piece.units; left > 0; --left, row += 8 * row_bytes, plane += unit_planes) {
        Turned v[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) v[i].load(row + i * Turned::kBytes);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const bool there = in_range(plane + targets[i].phase, planes);
          v[i].store(there ? targets[i].to : nowhere_, there ? p_.part_bytes : 0);
          targets[i].to += unit_step;
        }
        if (S::kSumsY && summed.count > e) {
#pragma unroll
          for (int i = 0; summed.before > e && i < kAtOnce; ++i) v[i].drop(summed.before - e - 32 * i);
          summed.sums.add(v, summed.count - e, piece.units - left);
        }
      }
    }
  }
  __device__ static bool in_range(int i, int count) {
    return static_cast<uint32_t>(i) < static_cast<uint32_t>(count);
  }

  // position: from the piece's first column at phase 0 on, at least -8. kOneStep: the stride is 1.
  template <bool kOneStep>
  __device__ static Target target(const Sm90WeightRaw& raw, const Piece& piece, const Shift& at,
                                  int position) {
    int column = position, phase = 0;
    uint32_t to = at.to;
    if constexpr (!kOneStep) {
      column = static_cast<int>(raw.by_stride.divide(position + 8 * raw.stride)) - 8;
      phase = position - column * raw.stride;
      to += phase * raw.pitch * 16;
    }
    const bool there = phase < raw.phases && in_range(column, piece.columns) &&
                       in_range(column + at.column, raw.plane_columns);
    return {to + (column + at.column) * 16, there ? phase : kNone};
  }

  // Before the first element of a row, a copy brings the row before.
  __device__ void clear(const Sm90WeightRaw& raw, const Piece& piece, const Shift& at, int planes,
                        int u) const {
    __syncwarp();
    const int position = lane_ - piece.late - (piece.start + raw.stride * u);
    if (lane_ >= piece.late || position < 0) return;
    Target cleared = target<false>(raw, piece, at, position);
    const int unit_planes = raw.phases << raw.log_classes;
    int plane = at.unit + cleared.phase;
#pragma unroll 1
    for (int left = piece.units; left > 0; --left, plane += unit_planes) {
#pragma unroll
      for (int part = 0; in_range(plane, planes) && part < S::kParts; ++part) {
        ptx::store_shared16(cleared.to + part * p_.part_bytes, {0, 0, 0, 0});
      }
      cleared.to += unit_planes * raw.pitch * 16;
    }
  }

  const Sm90WeightTurnedParams& p_;
  const weight_units::BiasSums<S::kSumsY> sums_;
  int x_planes_;
  const Pieces& pieces_;
  uint32_t ring_, nowhere_;
  RingBarriers barriers_;
  int lane_;
  int piece_;        // of the stage, the warp's next one
  RingPlace place_;  // where that is
};

#endif

}  // namespace tconv::cuda::sm90::weight_turned
