// The way of cuda.simt.strided whose threads hold positions that lie side by side, and in registers the part
// of dy that their taps share. Of strides 1 and 2 without dilation; cuda.simt.flipped runs it too.
//
//   for each (n, group, tiles of R ci), pieces of positions        a block's unit: 32, 64 or 128 threads
//     for co in the group, some at once                            staged: their windows of dy, weights
//       for k, 4 at once                                           registers: R ci x 8 positions, and of dy
//         dx[ci, i] += dy[co, S*i - padding + k] * w[ci, co, k]    a window that moves by 4 elements
//
// Four taps of a thread take 32*R multiply-adds and one load of 16 bytes from shared memory; by strided.cuh,
// 16 of 4 bytes for half as many positions, which bind it where rows are few.
//   strided_sliding_kernel    (piece, channel) after (piece, channel): loads of the next ones are in flight
//                             while those before them are multiplied
//   strided_resident_kernel   few channels and many rows: all windows of a piece stay, rows are stored one
//                             after the other; of short samples a block has several
//
// Bound: memory in float32 (depthwise of K 3 reaches 90% of a copy's rate, many rows of one channel 70%), in
// 16 bits instructions: some 30 for an output of K 3. Neighbouring threads must store neighbouring elements,
// so outputs go back through shared memory. Sums are those of strided.cuh, in its order.
#pragma once

#include "cuda/simt/strided_sliding_sums.cuh"

namespace tconv::cuda::simt {

// What a unit works on, and where its shared memory has what. Units of a block have the same rows of
// neighbouring samples, and share the weights.
template <class T, int R, int kLanes>
struct SlidingUnit {
  static constexpr int kUnits = kStridedThreads / kLanes, kPiece = kLanes * kSlidingPositions;

  bool there;
  int64_t ci;       // its first row
  int rows;         // of its group, from there on
  const T* weight;  // its first row's
  const T* dy;      // of its group
  T* dx;            // its first row
  int begin, end;   // positions
  float* windows;
  StridedWeights<float, R>* weights;
  float* biases;
  T* outputs;

  // windows_of_unit: words.
  __device__ __forceinline__ SlidingUnit(const StridedSlidingParams& p, unsigned char* shared,
                                         int windows_of_unit) {
    const int of_block = static_cast<int>(threadIdx.x) / kLanes;
    const int64_t unit = divide(blockIdx.x, p.piece_runs), row_group = divide(unit, p.tile_runs);
    const int64_t samples = divide(row_group, p.groups), group = row_group - samples * p.groups;
    const int64_t n = samples * kUnits + of_block, row = (unit - row_group * p.tile_runs) * p.turns * R;
    there = kUnits == 1 || n < p.samples;
    ci = group * p.cin_group + row;
    rows = static_cast<int>(min(p.cin_group - row, int64_t{p.turns} * R));
    weight = static_cast<const T*>(p.weight) + group * p.cin_group * p.cout_group * p.k + row * p.row_step;
    dy = static_cast<const T*>(p.dy) + n * p.dy_step[0] + group * p.cout_group * p.dy_step[1];
    dx = static_cast<T*>(p.dx) + (n * p.cin + ci) * p.l;
    const int run = p.walk * kPiece;
    begin = static_cast<int>(blockIdx.x - unit * p.piece_runs) * run;
    end = min(static_cast<int>(p.l), begin + run);
    float* const words = reinterpret_cast<float*>(shared);
    windows = words + of_block * windows_of_unit;
    weights = reinterpret_cast<StridedWeights<float, R>*>(words + p.weights_at);
    biases = words + p.biases_at;
    outputs = reinterpret_cast<T*>(words + p.outputs_at) + of_block * R * p.output_pitch;
  }

  // Where the thread's positions begin in a window.
  template <int S>
  __device__ __forceinline__ static int first() {
    return static_cast<int>(threadIdx.x) % kLanes * kSlidingPositions * S;
  }

  // Rows [row, row + count) of a piece go to memory, a warp's positions at once.
  template <int S>
  __device__ __forceinline__ void store(const StridedSlidingParams& p, const SlidingSums<R, S>& sums,
                                        const float* bias, int at, int row, int count) const {
    using Outputs = SlidingOutputs<T, kLanes>;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (r >= count) break;
      Outputs::put(p, sums.row(r), bias[r], ci + row + r, at, outputs + r * p.output_pitch);
    }
    __syncwarp();
    T* to = dx + int64_t{row} * p.l + at;
    for (int r = 0; r < min(R, count); ++r, to += p.l) {
      Outputs::take(outputs + r * p.output_pitch, to, static_cast<int>(p.l) - at);
    }
    __syncwarp();
  }
};

// One tile of rows; (piece, channel) after (piece, channel), some at once, brought while those before them
// are multiplied.
template <class T, int R, int S>
__global__ void __launch_bounds__(kStridedThreads, sliding_blocks(R))
    strided_sliding_kernel(const __grid_constant__ StridedSlidingParams p) {
  wait_for_launch_before();
  constexpr int kGroup = sliding_group(sizeof(T), S);
  extern __shared__ __align__(16) unsigned char shared[];
  using Unit = SlidingUnit<T, R, kStridedThreads>;
  const Unit unit(p, shared, 0);
  const int depth = static_cast<int>(p.cout_group), taps = static_cast<int>(p.k);
  const int first = Unit::template first<S>();
  struct Place {
    int at, co;
    __device__ void next(int depth) {
      if (++co == depth) co = 0, at += Unit::kPiece;
    }
  };
  SlidingWindow<T, S, kStridedThreads> ahead[kGroup];
  Place to_load = {unit.begin, 0}, here = to_load;
  const auto load = [&] {
#pragma unroll
    for (int g = 0; g < kGroup; ++g, to_load.next(depth)) {
      if (to_load.at < unit.end) ahead[g].load(p, unit.dy + to_load.co * p.dy_step[1], to_load.at);
    }
  };
  load();
  const bool finite = __syncthreads_and(
      stage_rows<T, R>(p, unit.weights, unit.biases, unit.weight, unit.ci, unit.rows, depth));
  SlidingSums<R, S> sums;
  for (float* windows = unit.windows; here.at < unit.end;) {
    Place to = here;
#pragma unroll
    for (int g = 0; g < kGroup; ++g, to.next(depth)) {
      if (to.at < unit.end) ahead[g].store(p, windows + g * p.pitch, to.at);
    }
    load();
    __syncthreads();
#pragma unroll 1
    for (int g = 0; g < kGroup && here.at < unit.end; ++g, here.next(depth)) {
      if (here.co == 0) sums.clear();
      const float* const window = windows + g * p.pitch;
      const auto* const weights = unit.weights + here.co * p.tap_pitch;
      if (finite) {
        sums.add(window, first, weights, taps);
      } else {
        sums.add_inside(SlidingPart::of<S>(p, here.at), window, first, weights, taps);
      }
      if (here.co == depth - 1) unit.store(p, sums, unit.biases, here.at, 0, unit.rows);
    }
    windows = windows == unit.windows ? windows + kGroup * p.pitch : unit.windows;
  }
}

// All channels of a piece stay in shared memory, and serve several tiles of rows.
template <class T, int S, int kLanes>
__global__ void __launch_bounds__(kStridedThreads, sliding_blocks(kSlidingRows))
    strided_resident_kernel(const __grid_constant__ StridedSlidingParams p) {
  wait_for_launch_before();
  constexpr int R = kSlidingRows, kGroup = sliding_group(sizeof(T), S);
  extern __shared__ __align__(16) unsigned char shared[];
  using Unit = SlidingUnit<T, R, kLanes>;
  const int depth = static_cast<int>(p.cout_group), taps = static_cast<int>(p.k);
  const Unit unit(p, shared, depth * p.pitch);
  const int first = Unit::template first<S>();
  for (int co = 0; unit.there && co < depth; co += kGroup) {
    SlidingWindow<T, S, kLanes> ahead[kGroup];
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      if (co + g < depth) ahead[g].load(p, unit.dy + (co + g) * p.dy_step[1], unit.begin);
    }
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      if (co + g < depth) ahead[g].store(p, unit.windows + (co + g) * p.pitch, unit.begin);
    }
  }
  for (int turn = 0; turn < p.turns; turn += p.tiles) {
    const int rows = min(p.tiles * R, unit.rows - turn * R);
    if (rows <= 0) break;
    if (turn > 0) __syncthreads();
    const bool finite = __syncthreads_and(stage_rows<T, R>(
        p, unit.weights, unit.biases, unit.weight + turn * R * p.row_step, unit.ci + turn * R, rows, depth));
    if (!unit.there) continue;
    const auto* weights = unit.weights;
    for (int row = 0; row < rows; row += R) {
      SlidingSums<R, S> sums;
      sums.clear();
      const float* window = unit.windows;
      for (int co = 0; co < depth; ++co, window += p.pitch, weights += p.tap_pitch) {
        if (finite) {
          sums.add(window, first, weights, taps);
        } else {
          sums.add_inside(SlidingPart::of<S>(p, unit.begin), window, first, weights, taps);
        }
      }
      unit.store(p, sums, unit.biases + row, unit.begin, turn * R + row, rows - row);
    }
  }
}

}  // namespace tconv::cuda::simt
