// cuda.simt.narrow and longk where loads of x would have to wait for memory: with one output channel, or with
// four in all at a stride of four. The loop nest is that of narrow.cuh; x takes another way.
//
// Each warp copies the rows of x that it needs, channels ahead, into a ring of its own in shared memory:
// without registers if copies are asynchronous, otherwise through registers one channel ahead (16-bit types,
// and before compute capability 8.0). Edges of x arrive there as zeros, so no loop tests for them, and any
// number of taps is possible; what an infinite weight makes of the zeros is repaired later
// (narrow_ring_repair.cuh). It is faster than narrow.cuh where that one waits (H200, us, narrow.cuh and this:
// 512->1 k16 s8 52 and 32, 512->1 k21 s10 73 and 41, 64->1 k8 s4 235 and 210, 4->4 k4 s4 450 and 386, 22->16
// k7 s4 66 and 53), slower where many columns multiply a tap at a time (16->8 k4 s2 252 and 276).
#pragma once

#include "cuda/device/launch_order.cuh"
#include "cuda/simt/narrow_ring_repair.cuh"

namespace tconv::cuda::simt {

// sum += v * the weights of a (channel, tap).
template <class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void add_products(Sum (&sum)[kP][kCo * kR], const Sum (&v)[kP], const Sum* w_at) {
  Sum w[narrow_pitch(kCo * kR)];
  load_weights(w, w_at);
#pragma unroll
  for (int i = 0; i < kP; ++i) {
#pragma unroll
    for (int j = 0; j < kCo * kR; ++j) sum[i][j] = multiply_add(v[i], w[j], sum[i][j]);
  }
}

// The same for the first `live` residues only.
template <class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void add_live_products(Sum (&sum)[kP][kCo * kR], const Sum (&v)[kP],
                                                  const Sum* w_at, int live) {
#pragma unroll
  for (int r = 0; r < kR; ++r) {
    if (r < live) {
#pragma unroll
      for (int c = 0; c < kCo; ++c) {
        const Sum w = w_at[c * kR + r];
#pragma unroll
        for (int i = 0; i < kP; ++i) sum[i][c * kR + r] = multiply_add(v[i], w, sum[i][c * kR + r]);
      }
    }
  }
}

// A warp's part of a chunk: channels first, first+step, ... below count.
struct RingChannels {
  int first, step, count;
  uint32_t there;  // bit i: piece i of this lane, position q - (taps-1) + 32*i, is needed and lies in [0, l)
  int live;        // residues with a last tap; kR or more: all residues
};

// Copies an element to shared memory without a register; zero if `there` is false.
template <class T>
__device__ __forceinline__ void copy_async(T* to, const T* from, bool there) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "n"(sizeof(T)), "r"(there ? static_cast<int>(sizeof(T)) : 0)
               : "memory");
#endif
}
__device__ __forceinline__ void close_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until all but the last kAway groups of copies have arrived.
template <int kAway>
__device__ __forceinline__ void await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kAway) : "memory");
#endif
}

#if __CUDA_ARCH__ >= 800
template <class T>
constexpr bool kRingAsync = sizeof(T) >= 4;
#else
template <class T>
constexpr bool kRingAsync = false;
#endif

// All taps of a channel whose row is in the ring; row points at this lane's position q.
template <class T, class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void add_channel(Sum (&sum)[kP][kCo * kR], const T* row, const Sum* w_at, int live,
                                            const NarrowParams& a) {
  const int ws_tap = a.r_warps * narrow_pitch(kCo * kR), whole = live >= kR ? a.taps : a.taps - 1;
#pragma unroll 2
  for (int t = 0; t < whole; ++t, --row, w_at += ws_tap) {
    Sum v[kP];
#pragma unroll
    for (int i = 0; i < kP; ++i) v[i] = widen(row[32 * i]);
    add_products<Sum, kCo, kR, kP>(sum, v, w_at);
  }
  if (live > 0 && live < kR) {
    Sum v[kP];
#pragma unroll
    for (int i = 0; i < kP; ++i) v[i] = widen(row[32 * i]);
    add_live_products<Sum, kCo, kR, kP>(sum, v, w_at, live);
  }
}

// The channels of a chunk through the warp's ring. x points at (channel 0 of the chunk, position q).
template <class T, class Sum, int kCo, int kR, int kP>
__device__ __forceinline__ void add_channels(Sum (&sum)[kP][kCo * kR], const T* x, const Sum* ws, T* ring,
                                             const RingChannels& at, const NarrowParams& a) {
  constexpr int kRing = ring_depth(kP), kRow = ring_row(kP);
  const int lane = threadIdx.x & 31, halo = a.taps - 1;
  const int ws_step = at.step * a.taps * a.r_warps * narrow_pitch(kCo * kR);
  const int64_t x_step = at.step * a.x_channel;
  const T* from = x + at.first * a.x_channel - halo * a.x_position;
  const Sum* w_at = ws + at.first * (a.taps * a.r_warps * narrow_pitch(kCo * kR));
  const bool neighbours = a.x_position == 1;
  // Loads a channel's pieces: asynchronously, or into registers first, or at once if strides are odd.
  const auto copy_strided = [&](T* to) {
#pragma unroll 1
    for (int i = 0; i <= kP; ++i) to[32 * i] = (at.there >> i & 1) != 0 ? from[32 * i * a.x_position] : T{};
    from += x_step;
  };
  const auto fetch = [&](T* to) {
    if (!neighbours) return copy_strided(to);
#pragma unroll
    for (int i = 0; i <= kP; ++i) copy_async(to + 32 * i, from + 32 * i, (at.there >> i & 1) != 0);
    from += x_step;
  };
  T held[kP + 1];
  const auto load = [&] {
    if (!neighbours) return;
#pragma unroll
    for (int i = 0; i <= kP; ++i) held[i] = (at.there >> i & 1) != 0 ? from[32 * i] : T{};
    from += x_step;
  };
  const auto put = [&](T* to) {
    if (!neighbours) return copy_strided(to);
#pragma unroll
    for (int i = 0; i <= kP; ++i) to[32 * i] = held[i];
  };
  T* mine = ring + lane;
  __syncwarp();  // the ring's last readers have finished
  if constexpr (kRingAsync<T>) {
#pragma unroll
    for (int r = 0; r < kRing - 1; ++r) {
      if (at.first + r * at.step < at.count) fetch(mine + r * kRow);
      close_copies();
    }
  } else if (at.first < at.count) {
    load();
    put(mine);
  }
  int slot = 0;
  for (int ci = at.first; ci < at.count; ci += at.step, w_at += ws_step) {
    const T* row = mine + slot * kRow + halo;
    if constexpr (kRingAsync<T>) {
      await_copies<kRing - 2>();
      __syncwarp();  // all lanes' copies have arrived, and all have read the slot before
      T* to = mine + (slot == 0 ? kRing - 1 : slot - 1) * kRow;
      if (ci + (kRing - 1) * at.step < at.count) fetch(to);
      close_copies();
      add_channel<T, Sum, kCo, kR, kP>(sum, row, w_at, at.live, a);
      slot = slot + 1 == kRing ? 0 : slot + 1;
    } else {
      __syncwarp();
      const bool more = ci + at.step < at.count;
      if (more) load();
      add_channel<T, Sum, kCo, kR, kP>(sum, row, w_at, at.live, a);
      slot ^= 1;
      if (more) put(mine + slot * kRow);
    }
  }
}

template <class T, int kCo, int kR, int kP>
__global__ void __launch_bounds__(32 * kNarrowMaxWarps, ring_blocks_per_sm(kCo* kR, kP, sizeof(T)))
    narrow_ring_kernel(const NarrowParams a) {
  wait_for_launch_before();
  using Sum = Accumulator<T>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  Sum* ws = reinterpret_cast<Sum*>(shared_bytes);  // the stage takes the place of the weights at the end
  const NarrowThread me = narrow_thread(a);
  const int q_block = 32 * kP * a.q_warps;
  T* ring = reinterpret_cast<T*>(shared_bytes + a.ring_offset) +
            (threadIdx.x >> 5) * (ring_depth(kP) * ring_row(kP));

  bool special = false;  // a weight is not finite
  for (int64_t index = blockIdx.x; index < a.tiles; index += gridDim.x) {
    const RingTile tile = narrow_tile<int>(a, index, kCo, q_block);
    const int64_t n = divide(tile.row, a.groups), group = tile.row - n * a.groups;
    const int64_t q_warp_first = tile.q + me.q_warp * (32 * kP), q = q_warp_first + me.lane;
    const int residue = tile.residue + me.r_warp * kR;  // first of this warp's block
    // Residues of this warp's block that have a last tap; kR if none of the existing ones lacks it.
    const int64_t last = static_cast<int64_t>(a.k) - residue - (a.taps - 1) * static_cast<int64_t>(a.stride);
    const int live = last >= min(kR, a.stride - residue) ? kR : static_cast<int>(max(last, int64_t{0}));
    RingChannels at{me.slice, a.slice_warps, 0, 0, live};
#pragma unroll
    for (int i = 0; i <= kP; ++i) {
      const int64_t position = q - (a.taps - 1) + 32 * i;
      const bool needed = i < kP || me.lane < a.taps - 1;
      const bool there = needed && static_cast<uint64_t>(position) < static_cast<uint64_t>(a.l);
      at.there |= static_cast<uint32_t>(there) << i;
    }
    const SplitChannels<T> channels(a, tile, n, group, q);
    Sum sum[kP][kCo * kR];
    clear(sum);
    for (int chunk = 0; chunk < channels.count; chunk += a.chunk) {
      const int count = min(a.chunk, channels.count - chunk);
      if (!a.keep || index == blockIdx.x) {
        __syncthreads();
        const bool finite = fill_weights<T, Sum, kCo, kR, narrow_pitch(kCo * kR)>(
            ws, channels.w + static_cast<int64_t>(chunk) * a.cout_per_group * a.k, count, tile, a);
        if (__syncthreads_or(!finite)) special = true;
      }
      const Sum* w_block = ws + me.r_warp * narrow_pitch(kCo * kR);
      const T* from = channels.x + chunk * a.x_channel;
      at.count = count;
      add_channels<T, Sum, kCo, kR, kP>(sum, from, w_block, ring, at, a);
    }
    add_ring_slices<Sum, kCo * kR, kP>(sum, ws, me, a);
    Sum* partial = static_cast<Sum*>(a.partial) + static_cast<int64_t>(tile.split) * a.row_elements;
    if constexpr (std::is_same_v<T, Sum>) {
      const bool whole = a.partial == nullptr;
      store_ring_tile<T, Sum, kCo, kR, kP>(whole ? static_cast<T*>(a.y) : partial, whole ? a.bias : nullptr,
                                           sum, ws, tile, me, a);
    } else if (a.partial != nullptr) {
      store_ring_tile<Sum, Sum, kCo, kR, kP>(partial, nullptr, sum, ws, tile, me, a);
    } else {
      store_ring_tile<T, Sum, kCo, kR, kP>(static_cast<T*>(a.y), a.bias, sum, ws, tile, me, a);
    }
  }
  if (special) repair_ring_tiles<T>(a, kCo, q_block);
}

}  // namespace tconv::cuda::simt
