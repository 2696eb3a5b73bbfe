// The staged way of cuda.simt.strided, for sums of more than a few terms: each thread holds a tile of rows x
// positions, and a block copies the next channels of dy and of the weights while it multiplies the current
// ones.
//
//   for each (n, group, piece of positions, block of ci)           a block
//     for co in the group, `channels` at once                      staged in a ring: windows, weights
//       for (co, k) of them, a part for each warp of warps_s       registers: R ci x U positions, 32 apart
//         dx[ci, i] += dy[co, stride*i - padding + dilation*k] * w[ci, co, k]
//   the warps of warps_s add their sums in a fixed order
//
// Bound: multiply-adds. A term takes U loads of dy, each of 32 neighbouring words, and R / 4 loads of 16
// bytes of weights, which a warp shares. Where a window reaches beyond dy it holds zeros, which add nothing
// to a sum unless their weight is not finite: then such products are left out one by one.
#pragma once

#include "cuda/device/epilogue.cuh"
#include "cuda/device/launch_order.cuh"
#include "cuda/simt/strided_staged_copy.cuh"

namespace tconv::cuda::simt {

// A thread's R rows x U positions. S: words from one position to the next in shared memory.
template <int R, int U, int S>
class StridedTileSums {
 public:
  // x: the stage's windows from the thread's first position on; w: its weights from the first row on.
  __device__ __forceinline__ void add(const float* x, const float* w, const int* table, int pitch, int begin,
                                      int end) {
    w += begin * pitch;
#pragma unroll(R* U >= 32 ? 2 : 4)
    for (int t = begin; t < end; ++t, w += pitch) {
      const float* from = at_term(x, table[t]);
      float at[U], by[R];
#pragma unroll
      for (int i = 0; i < U; ++i) at[i] = from[32 * S * i];
      load_rows(by, w);
      // Back and forth, so that each product shares an operand with the next.
#pragma unroll
      for (int i = 0; i < U; ++i) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const int row = i % 2 == 0 ? r : R - 1 - r;
          sums_[i][row] = fmaf(at[i], by[row], sums_[i][row]);
        }
      }
    }
  }

  // Without the products of places outside dy. first: the place of the thread's first position's first tap.
  __device__ __forceinline__ void add_inside(const StridedStagedParams& p, const float* x, const float* w,
                                             const int* table, int begin, int end, int64_t first) {
#pragma unroll 1
    for (int t = begin; t < end; ++t) {
      const int64_t o = first + t % p.k * p.dilation;
#pragma unroll
      for (int i = 0; i < U; ++i) {
        if (static_cast<uint64_t>(o + 32 * i * p.stride) >= static_cast<uint64_t>(p.lout)) continue;
        const float at = at_term(x, table[t])[32 * S * i];
#pragma unroll
        for (int r = 0; r < R; ++r) sums_[i][r] = fmaf(at, w[t * p.weight_pitch + r], sums_[i][r]);
      }
    }
  }

  // Adds up, in a tree, the sums of warps that have other terms of the same outputs. shared: room for the
  // sums of half of the warps. No warp reads a stage any more.
  __device__ __forceinline__ void add_warps(float* shared, int outputs_warp, int outputs_warps, int part,
                                            int parts) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int half = parts / 2; half > 0; half /= 2) {
      float* at = shared + ((part % half) * outputs_warps + outputs_warp) * (R * U * 32) + lane;
      __syncthreads();
      if (part >= half && part < 2 * half) {
#pragma unroll
        for (int e = 0; e < R * U; ++e) at[e * 32] = sums_[e / R][e % R];
      }
      __syncthreads();
      if (part < half) {
#pragma unroll
        for (int e = 0; e < R * U; ++e) sums_[e / R][e % R] += at[e * 32];
      }
    }
  }

  // to: the first row's output of the thread's first position, which is `at`; first: as above.
  __device__ __forceinline__ void store(const StridedStagedParams& p, float* to, int64_t ci, int rows,
                                        int64_t at, bool inside, int64_t first) const {
    bool any[U];
#pragma unroll
    for (int i = 0; i < U; ++i) any[i] = inside || has_tap(p, first + 32 * i * p.stride);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (r >= rows) break;
      const Epilogue<float> epilogue = epilogue_of<float>(p.bias, ci + r);
#pragma unroll
      for (int i = 0; i < U; ++i) {
        if (at + 32 * i >= p.l) break;
        to[r * p.l + 32 * i] = any[i] ? epilogue(sums_[i][r] + 0.f) : epilogue.alone();
      }
    }
  }

 private:
  __device__ __forceinline__ static const float* at_term(const float* x, int bytes) {
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(x) + bytes);
  }

  __device__ __forceinline__ static void load_rows(float (&by)[R], const float* w) {
    if constexpr (R >= 4) {
#pragma unroll
      for (int r = 0; r < R; r += 4) {
        const float4 v = *reinterpret_cast<const float4*>(w + r);
        by[r] = v.x, by[r + 1] = v.y, by[r + 2] = v.z, by[r + 3] = v.w;
      }
    } else {
#pragma unroll
      for (int r = 0; r < R; ++r) by[r] = w[r];
    }
  }

  // Whether any tap of the position whose first is o lies in dy.
  __device__ __forceinline__ static bool has_tap(const StridedStagedParams& p, int64_t o) {
    const int64_t skipped = o >= 0 ? 0 : (p.dilation - 1 - o) / p.dilation;
    return skipped < p.k && o + skipped * p.dilation < p.lout;
  }

  float sums_[U][R] = {};
};

template <int R, int U, int S>
__global__ void __launch_bounds__(strided_most_threads(R* U), strided_least_blocks(R* U))
    strided_staged_kernel(const __grid_constant__ StridedStagedParams p) {
  wait_for_launch_before();
  extern __shared__ __align__(16) unsigned char shared[];
  int* const table = reinterpret_cast<int*>(shared);
  float* const ring = reinterpret_cast<float*>(shared) + p.ring_at;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int outputs_warps = p.warps_p * p.warps_r;
  const int part = warp / outputs_warps, outputs_warp = warp - part * outputs_warps;
  const int warp_r = outputs_warp / p.warps_p, warp_p = outputs_warp - warp_r * p.warps_p;
  const int block_rows = p.warps_r * R, position = warp_p * 32 * U + lane;
  const StridedBlock block(p, block_rows, p.warps_p * 32 * U);
  const int64_t first = block.first + position * p.stride;

  const StridedCopy copy(p);
  fill_terms(p, block, table);
  const int ahead = max(p.stages - 1, 1);
  for (int s = 0; s < ahead; ++s) bring_stage<R>(p, block, copy, ring + s * p.stage_words, s, block_rows);
  StridedTileSums<R, U, S> sums;
  const auto chunks = (p.cout_group + p.channels - 1) / p.channels;
  int slot = 0, next = p.stages > 1 ? ahead : 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int count = static_cast<int>(min(int64_t{p.channels}, p.cout_group - chunk * p.channels));
    const int terms = count * static_cast<int>(p.k);
    float* const stage = ring + slot * p.stage_words;
    const float* const weights = stage + p.weights_at;
    wait_for_stage(ahead - 1);
    bool plain = true;
    if (!block.inside) {
      for_weights<R>(block_rows, terms, [&](int row, int term) {
        const float v = weights[term * p.weight_pitch + row];
        plain &= v - v == 0.f;
      });
    }
    plain = __syncthreads_and(plain);
    if (chunk + ahead < chunks) {
      bring_stage<R>(p, block, copy, ring + next * p.stage_words, chunk + ahead, block_rows);
    } else {
      end_copies();
    }
    const int begin = terms * part / p.warps_s, end = terms * (part + 1) / p.warps_s;
    const float* const x = stage + S * position;
    const float* const w = weights + warp_r * R;
    if (plain) {
      sums.add(x, w, table, p.weight_pitch, begin, end);
    } else {
      sums.add_inside(p, x, w, table, begin, end, first);
    }
    if (++slot == p.stages) slot = 0;
    if (++next == p.stages) next = 0;
  }
  if (p.warps_s > 1)
    sums.add_warps(reinterpret_cast<float*>(shared), outputs_warp, outputs_warps, part, p.warps_s);
  if (part > 0) return;
  const int row = warp_r * R;
  const int64_t ci = block.ci + row;
  float* const to = static_cast<float*>(p.dx) + (block.n * p.cin + ci) * p.l + block.begin + position;
  sums.store(p, to, ci, block.rows - row, block.begin + position, block.inside, first);
}

}  // namespace tconv::cuda::simt
