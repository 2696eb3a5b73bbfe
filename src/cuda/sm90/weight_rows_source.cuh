// Rows of x and dy on their way to shared memory, and dy's to its planes, for cuda.sm90.weight_rows: who
// copies them, and who moves them.
#pragma once

#include "cuda/device/ring.cuh"
#include "cuda/sm90/weight_bias.cuh"
#include "cuda/sm90/weight_rows.hpp"
#include "cuda/sm90/weight_units.cuh"

namespace tconv::cuda::sm90::weight_rows {

template <class M, int RowBlocks, int N, bool SumsY>
struct RowsShape : weight_blocked::Shape<M, RowBlocks, N> {
  static constexpr bool kUnits = true, kSumsY = SumsY;
  // Steps of 8 positions whose operands a lane holds at once (tf32). With 192 sums, more do not fit.
  static constexpr int kSteps = RowBlocks * N == 384 ? 1 : 2;
  // Registers of a thread that multiplies, and of one that moves.
  static constexpr int kMovers = weight_movers(M::kMode), kThreads = weight_rows_threads(M::kMode);
  static constexpr int kConsumer = kMovers == 7 ? 176 : RowBlocks * N == 384 ? 232 : 224;
  static constexpr int kProducer = kMovers == 7 ? 80 : RowBlocks * N == 384 ? 40 : 56;
  static_assert(ptx::registers_suffice(kThreads, 256, kConsumer, kProducer));
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using weight_blocked::IeeeMode;
using weight_blocked::Place;
using weight_blocked::RowBlock;
using weight_blocked::Tf32Mode;
using weight_units::StagePlace;
using weight_units::TileTaps;
using weight_units::TileUnits;
using weight_units::Units;

// The slots' barriers, and those of the raw places. x_full: by tensor copies; y_full: by all lanes that
// move; one may arrive for its warp.
struct Barriers {
  uint32_t base;
  int slots, places;
  __device__ uint32_t x_full(int i) const { return base + 8 * i; }
  __device__ uint32_t y_full(int i) const { return x_full(slots + i); }
  __device__ uint32_t empty(int i) const { return x_full(2 * slots + i); }
  __device__ uint32_t raw_full(int i) const { return x_full(3 * slots + i); }
  __device__ uint32_t raw_empty(int i) const { return raw_full(places + i); }

  __device__ void init(int movers) const {
    for (int i = 0; i < slots; ++i) {
      ptx::barrier_init(x_full(i), 1);
      ptx::barrier_init(y_full(i), 32 * movers);
      ptx::barrier_init(empty(i), 8);
    }
    for (int i = 0; i < places; ++i) {
      ptx::barrier_init(raw_full(i), 1);
      ptx::barrier_init(raw_empty(i), movers);
    }
    ptx::barrier_init_done();
  }
};

// An operand's rows of a tile in a box.
struct BoxRows {
  const Sm90WeightRowsRaw& raw;
  int first, start;  // the tile's first unit; the place of the box's first element in a stage at position 0
  int first_u;       // a position where a stage begins

  __device__ BoxRows(const Sm90WeightRowsParams& p, const Sm90WeightRowsRaw& rows, const Units& units)
      : raw(rows),
        first(units.first),
        start(-rows.stride * units.start - rows.padding),
        first_u(static_cast<int>(p.first_u)) {}

  // The first unit of a class, counted in the class.
  __device__ int first_of_class(int c) const {
    return first - c + (1 << raw.log_classes) - 1 >> raw.log_classes;
  }
  // Elements that a copy of a class begins before the box's first one, so as to begin on 16 bytes: the same
  // in all stages and boxes.
  __device__ int before(int c) const { return (start + raw.stride * first_u + raw.late[c]) & 3; }
  // Bytes from the box's first row to the first element of a unit's first channel.
  __device__ uint32_t unit(int unit) const {
    const int c = unit & (1 << raw.log_classes) - 1;
    return c * raw.class_bytes +
           (((unit >> raw.log_classes) - first_of_class(c)) * 8 * raw.width + before(c)) * 4;
  }

  // By one thread. to: of the place.
  __device__ void copy(uint32_t to, const Place& at, const StagePlace& stage, uint32_t full) const {
    ptx::barrier_arrive_expect(full, raw.boxes * raw.box_bytes);
#pragma unroll 1
    for (int box = 0; box < raw.boxes; ++box) {
      const int place = start + raw.stride * (stage.u + box * raw.box_columns);
#pragma unroll 1
      for (int c = 0; c < 1 << raw.log_classes; ++c) {
        const int from[4] = {place + raw.late[c] - before(c), first_of_class(c) * 8, at.group, stage.sample};
        ptx::tensor_load(to + box * raw.box_bytes + c * raw.class_bytes, &raw.maps[c], from, full);
      }
    }
  }
};

// Fills raw places and slots: the part of one thread.
template <class S>
__device__ inline void copy_rows(const Sm90WeightRowsParams& p, const Place& at, const TileUnits<S>& units,
                                 const Barriers& barriers, uint32_t slots, int first, int end) {
  const BoxRows x(p, p.x_raw, units.x), y(p, p.y_raw, units.y);
  const uint32_t places = slots + p.slots * p.slot_bytes;
  RingPlace slot, place;
#pragma unroll 1
  for (int stage = first; stage < end; ++stage) {
    const StagePlace to(p, stage);
    ptx::barrier_wait(barriers.raw_empty(place.at), place.parity ^ 1);
    y.copy(places + place.at * p.place_bytes, at, to, barriers.raw_full(place.at));
    ptx::barrier_wait(barriers.empty(slot.at), slot.parity ^ 1);
    x.copy(slots + slot.at * p.slot_bytes, at, to, barriers.x_full(slot.at));
    place.advance(p.places);
    slot.advance(p.slots);
  }
}

// Where 8 planes of dy come from: bytes from a raw place's first box on; and the place in the row of their
// element at position 0. from < 0: there is no such unit.
struct PlaneRows {
  int from, start;
};

template <class S>
__device__ inline void make_plane_rows(const Sm90WeightRowsParams& p, const TileUnits<S>& units,
                                       PlaneRows* table) {
  const int i = threadIdx.x;
  if (i >= S::kN / 8) return;
  const BoxRows y(p, p.y_raw, units.y);
  const int plane = units.y.first_plane + i, unit = static_cast<int>(p.by_y_planes.divide(plane));
  const int phase = plane - unit * p.y_planes;
  table[i] = {unit < p.y_raw.blocks ? static_cast<int>(y.unit(unit)) + phase * 4 : -1, y.start + phase};
}

// Two positions of a lane's channel, 4 apart, to 8 positions of 8 planes at `to`.
__device__ inline void store_planes(const Tf32Mode*, uint32_t to, int, float v, float w) {
  weight_blocked::store_shared4(to, v);
  weight_blocked::store_shared4(to + 128, w);
}
__device__ inline void store_planes(const IeeeMode*, uint32_t to, int part_bytes, float v, float w) {
  uint32_t parts[3];
  IeeeMode::split(v, w, parts);
#pragma unroll
  for (int part = 0; part < 3; ++part) ptx::store_shared4(to + part * part_bytes, parts[part]);
}

// Moves dy to planes, and sums it: the part of one warp. A lane has channel lane/4 of 8, and every fourth
// position.
template <class S>
class Mover {
 public:
  __device__ Mover(const Sm90WeightRowsParams& p, const Place& at, const TileUnits<S>& units,
                   const PlaneRows* table, uint32_t slots)
      : p_(p),
        sums_(p, at, slots, threadIdx.x / 32 - 8, S::kN),
        x_(p, p.x_raw, units.x),
        table_(table),
        warp_(threadIdx.x / 32 - 8),
        lane_(threadIdx.x % 32),
        log_box_(31 - __clz(p.y_raw.box_columns)),
        log_turns_(31 - __clz(p.stage_positions / kAtOnce)) {}

  __device__ void run(const Barriers& barriers, uint32_t slots, int first, int end) const {
    const uint32_t places = slots + p_.slots * p_.slot_bytes;
    RingPlace slot, place;
#pragma unroll 1
    for (int stage = first; stage < end; ++stage) {
      const int u = StagePlace(p_, stage).u;
      const uint32_t to = slots + slot.at * p_.slot_bytes;
      ptx::barrier_wait(barriers.raw_full(place.at), place.parity);
      ptx::barrier_wait(barriers.empty(slot.at), slot.parity ^ 1);
      move(places + place.at * p_.place_bytes, to + p_.y_at, u);
      const bool clears = x_.start + u < 0;
      if (clears) {
        ptx::barrier_wait(barriers.x_full(slot.at), slot.parity);
        clear(to, u);
      }
      ptx::fence_async();
      __syncwarp();
      // x is read where lanes cleared it, so each of them arrives for its own stores.
      if (clears) ptx::barrier_arrive(barriers.y_full(slot.at));
      if (lane_ == 0) {
        if (!clears) ptx::barrier_arrive(barriers.y_full(slot.at), 32);
        ptx::barrier_arrive(barriers.raw_empty(place.at));
      }
      slot.advance(p_.slots);
      place.advance(p_.places);
    }
  }

  // A column is a phase of a channel, and each phase has a part of the channel's sum.
  __device__ void finish(const Place& at, uint32_t slots) const {
    sums_.finish(p_, slots, S::kN, S::kMovers, [&](int i) -> int64_t {
      const weight_blocked::Column<true> column(p_, at.column + i);
      if (at.column + i >= p_.columns || column.co >= p_.cout_group) return -1;
      const int64_t channel = int64_t{at.group} * p_.cout_group + column.co;
      return channel * p_.bias_each + at.split * p_.y_planes + column.a;
    });
  }

 private:
  static constexpr int kAtOnce = 32;  // positions
  static constexpr int kInside = 1 << 30;

  __device__ void move(uint32_t from, uint32_t to, int u) const {
    const Sm90WeightRowsRaw& raw = p_.y_raw;
    const uint32_t lane_from = from + (lane_ / 4 * raw.width + lane_ % 4 * raw.stride) * 4;
    const int group_bytes = p_.stage_positions * (S::kParts == 1 ? 32 : 16);
    const bool clears = raw.stride * u - raw.padding < 0;
#pragma unroll 1
    for (int i = warp_; i < S::kN / 8 << log_turns_; i += S::kMovers) {
      const int group = i >> log_turns_, first = (i & (1 << log_turns_) - 1) * kAtOnce;
      const PlaneRows rows = table_[group];
      if (rows.from < 0) continue;
      float v[kAtOnce / 4];
#pragma unroll
      for (int e = 0; e < kAtOnce / 4; ++e) {
        const int q = first + e / 2 * 8, box = q >> log_box_, in_box = q & raw.box_columns - 1;
        const uint32_t at =
            lane_from + rows.from + box * raw.box_bytes + (in_box + e % 2 * 4) * raw.stride * 4;
        v[e] = __uint_as_float(ptx::load_shared4(at));
        // Before the first element of a row, a copy brings the row before.
        if (clears && rows.start + raw.stride * (u + q + e % 2 * 4 + lane_ % 4) < 0) v[e] = 0;
      }
      float sum = 0;
      if constexpr (S::kSumsY) sum = tree(v);
      const uint32_t lane_to = to + group * group_bytes + lane_ * 4;
#pragma unroll
      for (int e = 0; e < kAtOnce / 4; e += 2) {
        store_planes(static_cast<const typename S::Mode*>(nullptr),
                     lane_to + (first + e * 4) / 8 * (S::kParts == 1 ? 256 : 128), p_.part_bytes, v[e],
                     v[e + 1]);
      }
      if (S::kSumsY && sums_.on()) add(group, rows, sum, lane_from, first, clears ? u : kInside);
    }
  }

  __device__ static float tree(const float (&v)[8]) {
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
  }

  // Adds a lane's sum, and behind the last phase of a channel what lies between it and the next position.
  // u: kInside, or the stage's position, in a stage that begins before rows.
  __device__ void add(int group, const PlaneRows& rows, float sum, uint32_t lane_from, int first,
                      int u) const {
    const Sm90WeightRowsRaw& raw = p_.y_raw;
    const bool last = rows.start + raw.padding == raw.phases - 1;
    // Four at once: more take registers that the rest of the loop needs.
#pragma unroll 1
    for (int gap = 1; last && gap <= raw.stride - raw.phases; ++gap) {
#pragma unroll 4
      for (int q = first; q < first + kAtOnce; q += 4) {
        const int box = q >> log_box_, in_box = q & raw.box_columns - 1;
        const float w = __uint_as_float(
            ptx::load_shared4(lane_from + rows.from + box * raw.box_bytes + (in_box * raw.stride + gap) * 4));
        const bool before = u != kInside && rows.start + gap + raw.stride * (u + q + lane_ % 4) < 0;
        sum += before ? 0.f : w;
      }
    }
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (lane_ % 4 == 0) sums_.add(group, lane_ / 4, sum);
  }

  // What a copy of x brought from before the first elements of rows.
  __device__ void clear(uint32_t slot, int u) const {
    const Sm90WeightRowsRaw& raw = p_.x_raw;
#pragma unroll 1
    for (int c = 0; c < 1 << raw.log_classes; ++c) {
      const int late = raw.late[c], first = x_.before(c) - (x_.start + u) - late;
      if (late == 0) continue;
      const uint32_t rows = slot + c * raw.class_bytes;
#pragma unroll 1
      for (int row = warp_ * 32 + lane_; row < raw.box_rows; row += 32 * S::kMovers) {
#pragma unroll 1
        for (int e = max(first, 0); e < min(first + late, raw.width); ++e) {
          weight_blocked::store_shared4(rows + (row * raw.width + e) * 4, 0.f);
        }
      }
    }
  }

  const Sm90WeightRowsParams& p_;
  const weight_units::BiasSums<S::kSumsY> sums_;
  const BoxRows x_;
  const PlaneRows* table_;
  int warp_, lane_, log_box_, log_turns_;
};

#endif

}  // namespace tconv::cuda::sm90::weight_rows
