// The kernels of cuda.simt.weight; weight.hpp has their loop nest.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/weight.hpp"

namespace tconv::cuda::simt {

// Divides n by a number of params: the quotient, and what is left in n.
__device__ inline int weight_divided(int& n, const Divisor& by) {
  const auto quotient = static_cast<int>(by.divide(n));
  n -= quotient * static_cast<int>(by.value);
  return quotient;
}

// A tile's first channels, phase and tap.
struct WeightPlace {
  int group, ci0, co0, phase0, tap0;

  __device__ inline WeightPlace(const WeightParams& p, int tile, int cin, int cout, int taps) {
    int rest = weight_divided(tile, p.by_tap_tiles);
    tap0 = tile * taps;
    tile = weight_divided(rest, p.by_phase_tiles);
    phase0 = rest * p.lane_phases;
    rest = weight_divided(tile, p.by_column_tiles);
    co0 = tile * cout;
    group = weight_divided(rest, p.by_row_tiles);
    ci0 = rest * cin;
  }
};

// Near: the taps of a phase read neighbouring elements of x.
template <class T, int Ci, int Co, int Taps, int Steps, bool Near>
class WeightSums {
 public:
  using Sum = Accumulator<T>;
  static constexpr int kSums = Ci * Co * Taps;

  // Channels beyond the last, phases beyond the last and lanes without a position repeat the work of others;
  // their sums are not stored.
  __device__ WeightSums(const WeightParams& p, const WeightPlace& at) : p_(p) {
    int lane = threadIdx.x % 32;
    const int q = weight_divided(lane, p.by_lane_phases), position = q < p.lane_positions ? q : 0;
    const int phase = min(at.phase0 + lane, p.phases - 1);
    first_o_ = p.stride * (position + at.tap0 * p.step) + phase * p.dilation - p.padding;
    first_i_ = position;
    x_ = static_cast<const T*>(p.x) + (int64_t{at.group} * p.cin_group + at.ci0) * p.x_step[1] +
         first_i_ * p.x_step[2];
    y_ = static_cast<const T*>(p.y) + (int64_t{at.group} * p.cout_group + at.co0) * p.y_step[1] +
         first_o_ * p.y_step[2];
    last_row_ = min(Ci, p.cin_group - at.ci0) - 1;
    last_column_ = min(Co, p.cout_group - at.co0) - 1;
  }

  // Steps [first, end) of all samples. What lies outside x counts as zero; if it met an infinity in dy, its
  // product made a NaN that must not be: then everything is added again without those products.
  __device__ void add(int64_t first, int64_t end) {
    const T *const x = x_, *const y = y_;
    go_to(first);
    int left = static_cast<int>(end - first);
#pragma unroll 1
    for (; left > 0; left -= Steps) {
      if (step_ >= p_.inside_first && step_ + Steps <= p_.inside_end && left >= Steps) {
        add_inside();
      } else {
        add_tested<Steps, false>(left);
      }
    }
    if (!__any_sync(~0u, has_nan())) return;
    x_ = x, y_ = y;
    clear();
    go_to(first);
    left = static_cast<int>(end - first);
#pragma unroll 1
    for (; left > 0; --left) add_tested<1, true>(left);
  }

  __device__ const Sum& operator[](int i) const {
    return sums_[i / Taps / Co][i / Taps % Co][i % Taps];
  }

 private:
  __device__ bool has_nan() const {
    bool nan = false;
#pragma unroll
    for (int i = 0; i < kSums; ++i) nan |= (*this)[i] != (*this)[i];
    return nan;
  }
  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums_[i / Taps / Co][i / Taps % Co][i % Taps] = 0;
  }
  __device__ void go_to(int64_t step) {
    const auto sample_steps = static_cast<int64_t>(p_.by_sample_steps.value);
    const int64_t n = p_.steps < int64_t{1} << 31 ? p_.by_sample_steps.divide(static_cast<uint32_t>(step))
                                                  : step / sample_steps;
    step_ = static_cast<int>(step - n * sample_steps);
    i_ = first_i_ + step_ * p_.lane_positions;
    o_ = first_o_ + step_ * p_.step_outputs;
    x_ += n * p_.x_step[0] + step_ * p_.x_advance;
    y_ += n * p_.y_step[0] + step_ * p_.y_advance;
  }
  // To the next step, which may be the first of the next sample.
  __device__ void advance(int steps) {
    step_ += steps, i_ += steps * p_.lane_positions, o_ += steps * p_.step_outputs;
    x_ += steps * p_.x_advance, y_ += steps * p_.y_advance;
    if (step_ == static_cast<int>(p_.by_sample_steps.value)) {
      step_ = 0, i_ = first_i_, o_ = first_o_;
      x_ += p_.x_wrap, y_ += p_.y_wrap;
    }
  }
  __device__ int64_t row(int r) const {
    return r == 0 ? 0 : min(r, last_row_) * p_.x_step[1];
  }
  __device__ int64_t column(int c) const {
    return c == 0 ? 0 : min(c, last_column_) * p_.y_step[1];
  }
  __device__ int64_t tap(int j) const {
    return Near ? j : j * p_.tap_advance;
  }

  __device__ void add_inside() {
    T x[Steps][Ci][Taps], y[Steps][Co];
#pragma unroll
    for (int t = 0; t < Steps; ++t) {
#pragma unroll
      for (int c = 0; c < Co; ++c) y[t][c] = __ldg(y_ + column(c) + t * p_.y_advance);
#pragma unroll
      for (int r = 0; r < Ci; ++r) {
#pragma unroll
        for (int j = 0; j < Taps; ++j) x[t][r][j] = __ldg(x_ + row(r) + t * p_.x_advance - tap(j));
      }
    }
    advance(Steps);
#pragma unroll
    for (int t = 0; t < Steps; ++t) {
#pragma unroll
      for (int r = 0; r < Ci; ++r) {
#pragma unroll
        for (int j = 0; j < Taps; ++j) {
          const Sum a = widen(x[t][r][j]);
#pragma unroll
          for (int c = 0; c < Co; ++c) sums_[r][c][j] = fma(a, widen(y[t][c]), sums_[r][c][j]);
        }
      }
    }
  }

  // The same for steps that may lie in several samples and end before kSteps. Masked: without products of
  // what lies outside x.
  template <int kSteps, bool kMasked>
  __device__ void add_tested(int left) {
    T x[kSteps][Ci][Taps], y[kSteps][Co];
    bool there[kSteps][Taps];
#pragma unroll
    for (int t = 0; t < kSteps; ++t) {
      const bool output = t < left && static_cast<unsigned>(o_) < static_cast<unsigned>(p_.lout);
#pragma unroll
      for (int c = 0; c < Co; ++c) y[t][c] = output ? __ldg(y_ + column(c)) : T(0.f);
#pragma unroll
      for (int j = 0; j < Taps; ++j) {
        there[t][j] = output && static_cast<unsigned>(i_ - j * p_.step) < static_cast<unsigned>(p_.l);
#pragma unroll
        for (int r = 0; r < Ci; ++r) x[t][r][j] = there[t][j] ? __ldg(x_ + row(r) - tap(j)) : T(0.f);
      }
      advance(1);
    }
#pragma unroll
    for (int t = 0; t < kSteps; ++t) {
#pragma unroll
      for (int j = 0; j < Taps; ++j) {
#pragma unroll
        for (int c = 0; c < Co; ++c) {
          const Sum b = kMasked && !there[t][j] ? Sum(0) : widen(y[t][c]);
#pragma unroll
          for (int r = 0; r < Ci; ++r) sums_[r][c][j] = fma(widen(x[t][r][j]), b, sums_[r][c][j]);
        }
      }
    }
  }

  const WeightParams& p_;
  const T *x_, *y_;   // of the lane, at the tile's first channels and tap: perhaps outside
  int step_, i_, o_;  // of a sample
  int first_i_, first_o_, last_row_, last_column_;
  Sum sums_[Ci][Co][Taps] = {};
};

template <class T, int Ci, int Co, int Taps, int Steps, bool Near>
__global__ void __launch_bounds__(kWeightThreads, weight_blocks(Ci* Co, Ci* Co* Taps, sizeof(Accumulator<T>)))
    weight_kernel(const __grid_constant__ WeightParams p) {
  wait_for_launch_before();
  using Sums = WeightSums<T, Ci, Co, Taps, Steps, Near>;
  using Sum = typename Sums::Sum;
  constexpr int kSums = Sums::kSums;
  __shared__ Sum of_lanes[kWeightWarps][kSums][32];

  int block = static_cast<int>(blockIdx.x);
  const int split = weight_divided(block, p.by_tile_blocks);
  const int warp = threadIdx.x / 32, tiles = kWeightWarps >> p.log_tile_warps;
  const int of_tile = warp & p.tile_warps - 1;
  const int tile0 = block * tiles, tile = tile0 + (warp >> p.log_tile_warps);
  if (tile < p.tiles) {
    const int64_t share = int64_t{split} * p.tile_warps + of_tile;
    Sums sums(p, WeightPlace(p, tile, Ci, Co, Taps));
    sums.add(min(p.steps, share * p.share_steps), min(p.steps, (share + 1) * p.share_steps));
#pragma unroll
    for (int s = 0; s < kSums; ++s) of_lanes[warp][s][threadIdx.x % 32] = sums[s];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < tiles * kSums * p.lane_phases; i += kWeightThreads) {
    int phase = i;
    const int sum = weight_divided(phase, p.by_lane_phases), of_block = sum / kSums, s = sum % kSums;
    if (tile0 + of_block >= p.tiles) break;
    const WeightPlace at(p, tile0 + of_block, Ci, Co, Taps);
    const int ci = at.ci0 + s / Taps / Co, co = at.co0 + s / Taps % Co;
    const int64_t k = at.phase0 + phase + int64_t{at.tap0 + s % Taps} * p.tap_stride;
    if (ci >= p.cin_group || co >= p.cout_group || at.phase0 + phase >= p.phases || k >= p.k) continue;
    Sum v = 0;
    for (int w = 0; w < p.tile_warps; ++w) {
      const Sum* const lanes = of_lanes[of_block * p.tile_warps + w][s] + phase;
#pragma unroll 8
      for (int q = 0; q < p.lane_positions; ++q) v += lanes[q * p.lane_phases];
    }
    const int64_t to = ((int64_t{at.group} * p.cin_group + ci) * p.cout_group + co) * p.k + k;
    if (p.parts != nullptr) {
      static_cast<Sum*>(p.parts)[int64_t{split} * p.elements + to] = v;
    } else {
      static_cast<T*>(p.output)[to] = narrow<T>(v);
    }
  }
}

template <class T, int I = 0>
void set_weight_functions(WeightFunctions& f) {
  constexpr WeightTile kTile = kWeightTileTable[I];
  f.near[I] = weight_kernel<T, kTile.cin, kTile.cout, kTile.taps, kTile.at_once, true>;
  f.far[I] =
      weight_kernel<T, kTile.cin, kTile.cout, kTile.taps, weight_steps_far(kTile.taps, kTile.at_once), false>;
  if constexpr (I + 1 < kWeightTiles) set_weight_functions<T, I + 1>(f);
}

template <class T>
WeightFunctions weight_functions() {
  WeightFunctions f{};
  set_weight_functions<T>(f);
  return f;
}

}  // namespace tconv::cuda::simt
