// The pass of cuda.sm90.weight_blocked: writes x and dy as planes, as wgmma reads them. Memory binds.
#pragma once

#include "cuda/device/divide.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/sm90/weight_blocked_scale.cuh"

namespace tconv::cuda::sm90::weight_blocked {

// The sample and position at a place on the axis of all samples; none if there is no element.
struct AxisPlace {
  int n, u;
  __device__ AxisPlace(const Sm90WeightPassParams& p, int at) {
    n = at < 0 ? 0 : static_cast<int>(p.by_pitch.divide(at));
    u = at - n * p.pitch;
  }
  __device__ void next(const Sm90WeightPassParams& p) {
    if (++u < p.pitch) return;
    u = 0;
    ++n;
  }
  __device__ bool there(const Sm90WeightPassParams& p) const { return u >= 0 && n < p.samples; }
};

// A plane of an operand: the same for all threads of a block.
template <class Word>
struct Plane {
  const Word* from;
  int place;  // in a row of `from`, of position 0
  bool there;
  // `row`: of the sample, from the plane's first one on.
  __device__ Word at(const Sm90WeightPassOperand& o, int64_t row, int begin, bool inside) const {
    const int i = begin + place;
    inside = inside && there && static_cast<uint32_t>(i) < static_cast<uint32_t>(o.length);
    return inside ? __ldg(from + row + int64_t{i} * o.position_step) : Word{0};
  }
};

template <class Word, int Count>
__device__ inline void set_planes(Plane<Word> (&planes)[Count], const Sm90WeightPassOperand& o,
                                  const PlaneRun& run, int64_t group, int first) {
  first -= run.first;
  const int begin = run.phase * o.dilation - o.padding, end = begin + run.phases * o.dilation;
  int channel = first / run.phases, place = begin + (first - channel * run.phases) * o.dilation;
  const Word* from = static_cast<const Word*>(o.from) + (group * o.channels + channel) * o.from_step[1];
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    planes[i] = {from, place, channel < o.channels};
    place += o.dilation;
    if (place != end) continue;
    place = begin;
    ++channel;
    from += o.from_step[1];
  }
}

// Those of a position, which begins at `begin` of a row, by loads of neighbouring phases. With one load for
// each plane, every lane reads a line of its own where the stride is wide (n16 ci80 co80 l861 k1024 s256 in
// bf16, H200: 1216 us instead of 512).
template <class Word, int Count>
__device__ inline void load_together(const Sm90WeightPassOperand& o, const Plane<Word> (&planes)[Count],
                                     int64_t row, int begin, bool inside, Word (&words)[Count]) {
  constexpr int kTogether = kSm90WeightTogether;
#pragma unroll
  for (int i = 0; i < Count; i += kTogether) {
    const int at = begin + planes[i].place;
    Words<Word, kTogether> some{};
    if (inside && planes[i].there && static_cast<uint32_t>(at) < static_cast<uint32_t>(o.length)) {
      some = *reinterpret_cast<const Words<Word, kTogether>*>(planes[i].from + row + at);
    }
#pragma unroll
    for (int q = 0; q < kTogether; ++q) words[i + q] = some.v[q];
  }
}

// A thread makes some units, with all loads under way together; of several rows if a row is one plane: what
// one phase leaves of a sector of dy, the next ones take from the L1 cache.
template <class Mode>
__global__ void __launch_bounds__(kSm90WeightPassThreads)
    pass_kernel(const __grid_constant__ Sm90WeightPassParams p) {
  wait_for_launch_before({.lets_begin = p.lets_begin});
  using Word = typename Mode::Word;
  constexpr int kPlanes = Mode::kRows * Mode::kPlanes, kPlaces = Mode::kEach * Mode::kPositions;
  const bool of_x = blockIdx.x < p.x.blocks;
  const Sm90WeightPassOperand& o = of_x ? p.x : p.y;
  const int64_t block = of_x ? blockIdx.x : blockIdx.x - p.x.blocks;
  // Blocks that run together have neighbouring rows.
  const int row_blocks = (o.rows + Mode::kRows - 1) / Mode::kRows;
  const int64_t tile = divide(block, row_blocks), group = divide(tile, o.row_tiles);
  const int first_row = static_cast<int>(block - tile * row_blocks) * Mode::kRows;
  const int first = static_cast<int>(tile - group * o.row_tiles) * (Mode::kEach * kSm90WeightPassThreads) +
                    static_cast<int>(threadIdx.x);
  Plane<Word> planes[kPlanes];
  const PlaneRun run(o, first_row * Mode::kPlanes);
  set_planes(planes, o, run, group, first_row * Mode::kPlanes);
  Word words[kPlaces][kPlanes];
#pragma unroll
  for (int e = 0; e < Mode::kEach; ++e) {
    AxisPlace place(p, o.first + (first + e * kSm90WeightPassThreads) * Mode::kPositions);
#pragma unroll
    for (int q = 0; q < Mode::kPositions; ++q) {
      const bool inside = place.there(p);
      const int64_t row = place.n * o.from_step[0];
      auto& unit = words[e * Mode::kPositions + q];
      if (o.together) {
        load_together(o, planes, row, o.stride * place.u, inside, unit);
      } else {
#pragma unroll
        for (int i = 0; i < kPlanes; ++i) unit[i] = planes[i].at(o, row, o.stride * place.u, inside);
      }
      place.next(p);
    }
  }
  if constexpr (Mode::kScaled) scale_planes<Mode>(o, run, group, first_row, first, words);
  uint4* const to = static_cast<uint4*>(o.to) + (group * o.rows + first_row) * o.row_units;
#pragma unroll
  for (int e = 0; e < Mode::kEach; ++e) {
    const int unit = first + e * kSm90WeightPassThreads;
#pragma unroll
    for (int r = 0; r < Mode::kRows; ++r) {
      if (unit >= o.row_units || first_row + r >= o.rows) continue;
      Word v[Mode::kPlanes * Mode::kPositions];
#pragma unroll
      for (int i = 0; i < Mode::kPlanes * Mode::kPositions; ++i) {
        v[i] = words[e * Mode::kPositions + i / Mode::kPlanes][r * Mode::kPlanes + i % Mode::kPlanes];
      }
      uint4 parts[Mode::kParts];
      Mode::units(v, parts);
#pragma unroll
      for (int part = 0; part < Mode::kParts; ++part)
        to[part * o.part_units + r * o.row_units + unit] = parts[part];
    }
  }
}

}  // namespace tconv::cuda::sm90::weight_blocked
