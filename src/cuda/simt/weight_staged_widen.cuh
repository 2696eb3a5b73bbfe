// A chunk of cuda.simt.weight_staged of 16-bit elements, which are widened in registers on their way to
// shared memory. A warp waits for its loads, so up to eight of each lane are under way together.
#pragma once

#include "cuda/device/ptx/sm80.cuh"
#include "cuda/simt/storage.cuh"
#include "cuda/simt/weight_staged_chunk.cuh"

namespace tconv::cuda::simt {

// A lane's elements of neighbouring channels, and their place in shared memory.
template <class T>
struct StagedElements {
  const T* from;
  int place;     // negative: nothing reads them
  int channels;  // those from here on are zero
};

template <int kChannels, int kCount, class T>
__device__ __forceinline__ void widen_elements(const StagedElements<T> (&elements)[kCount], int64_t from_step,
                                               float* to, int to_step) {
  Bits<T> bits[kCount][kChannels];
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      bits[e][c] = c < elements[e].channels ? load_bits(elements[e].from + c * from_step) : Bits<T>(0);
    }
  }
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    if (elements[e].place < 0) continue;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) to[elements[e].place + c * to_step] = widen(of_bits<T>(bits[e][c]));
  }
}

// to: [run][row][kStagedRun]. A warp moves steps of 32 positions of kRows rows. kLoads: of a lane.
template <int kLoads, int kRows, class T>
__device__ __forceinline__ void widen_x(const StagedParams& p, const StagedBlock<T>& block, int segment0,
                                        float* to) {
  constexpr int kSteps = kLoads > kRows ? kLoads / kRows : 1;
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32, steps = 2 * p.runs;  // a power of two
  const int items = steps * (p.rows / kRows), log_steps = 31 - __clz(steps);
  for (int first = threadIdx.x / 32; first < items; first += kSteps * warps) {
    StagedElements<T> elements[kSteps];
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int item = first + i * warps, step = item & (steps - 1), row = (item >> log_steps) * kRows;
      const StagedPosition at(p, segment0, block.end, step * 32 + lane);
      elements[i] = {block.x + at.n * p.x_step[0] + row * p.x_step[1] + at.i * p.x_step[2],
                     item < items ? (step / 2 * p.rows + row) * kStagedRun + step % 2 * 32 + lane : -1,
                     at.valid && item < items ? block.rows - row : 0};
    }
    if (kRows == 8 && p.rows >= 32) {
      // A lane brings its row's elements of the chunk after this one to the L2 cache: 0.77 to 1.0 of the
      // time. For fewer rows, and for dy, that takes longer than it saves.
      const int step = first & (steps - 1), row = (first >> log_steps) * kRows + lane;
      const StagedPosition next(p, segment0 + p.chunk_segments, block.end, step * 32);
      if (lane < kRows && row < block.rows && next.valid) {
        ptx::prefetch_l2(block.x + next.n * p.x_step[0] + row * p.x_step[1] + next.i * p.x_step[2]);
      }
    }
    widen_elements<kRows>(elements, p.x_step[1], to, kStagedRun);
  }
}

// to: [co][phase][segment][position]. Threads move some places each of all channels, kCouts at once.
template <int kLoads, int kCouts, class T>
__device__ __forceinline__ void widen_couts(const StagedParams& p, const StagedBlock<T>& block, int segment0,
                                            float* to) {
  constexpr int kPlaces = kLoads / kCouts;
  const int places = p.chunk_segments * p.window, tap_place = block.tap0 * p.dilation - p.padding;
  for (int first = threadIdx.x; first < places; first += kPlaces * blockDim.x) {
    StagedElements<T> elements[kPlaces];
    bool there[kPlaces];
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      const int place = first + i * blockDim.x;
      const StagedDivision of_window(place, p.by_window);
      const StagedDivision in_phase(of_window.rest, p.by_stride);
      const StagedSegment segment(p, segment0 + of_window.quotient);
      const int o = segment.i * p.stride + tap_place + of_window.rest;
      const bool wanted = place < places && in_phase.rest < p.phases;
      there[i] = wanted && segment0 + of_window.quotient < block.end &&
                 static_cast<unsigned>(o) < static_cast<unsigned>(p.lout);
      elements[i] = {
          block.y + segment.n * p.y_step[0] + o * p.y_step[2],
          wanted ? in_phase.rest * p.phase_pitch + of_window.quotient * p.segment_pitch + in_phase.quotient
                 : -1,
          0};
    }
    float* to_couts = to;
    for (int co = 0; co < p.couts; co += kCouts, to_couts += kCouts * p.cout_pitch) {
#pragma unroll
      for (int i = 0; i < kPlaces; ++i) elements[i].channels = there[i] ? block.couts - co : 0;
      widen_elements<kCouts>(elements, p.y_step[1], to_couts, p.cout_pitch);
#pragma unroll
      for (int i = 0; i < kPlaces; ++i) elements[i].from += kCouts * p.y_step[1];
    }
  }
}
template <int kLoads, class T>
__device__ __forceinline__ void widen_dy(const StagedParams& p, const StagedBlock<T>& block, int segment0,
                                         float* to) {
  if (p.couts % 4 == 0) {
    widen_couts<kLoads, 4>(p, block, segment0, to);
  } else {
    widen_couts<kLoads, 1>(p, block, segment0, to);
  }
}

}  // namespace tconv::cuda::simt
