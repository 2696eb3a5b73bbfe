// Instructions of sm_90 and sm_90a: mbarriers, bulk and tensor copies, wgmma.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/ptx/sm80.cuh"
#include "cuda/device/ptx/wgmma_text.cuh"

namespace tconv::cuda::ptx {

// Whether `many` threads of a block may have more_registers<most>() and its others fewer_registers<least>().
// All start with the same number, and these two only move registers between warps: a kernel that asks for
// more in total waits forever.
constexpr bool registers_suffice(int threads, int many, int most, int least, int blocks_of_sm = 1) {
  const int start = 64 * 1024 / (threads * blocks_of_sm) / 8 * 8;
  return many * most + (threads - many) * least <= threads * start;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // sm_90a

// Barriers in shared memory, by address. A wait names the parity of the phase that it waits for.
__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}
__device__ inline void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
// As if `times` threads arrived.
__device__ inline void barrier_arrive(uint32_t barrier, uint32_t times) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(times) : "memory");
}
__device__ inline void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT_%=;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Whether that phase is over, without waiting.
__device__ inline bool barrier_over(uint32_t barrier, uint32_t parity) {
  uint32_t over;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.b32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(over)
      : "r"(barrier), "r"(parity)
      : "memory");
  return over != 0;
}

// True in one lane of a whole warp. ptxas then knows that a single thread runs: what a copy needs stays in
// uniform registers. Where a lane is chosen by its number, each copy first moves that there, lane by lane, in
// a loop: 35 instructions instead of 20.
__device__ inline bool elect_one() {
  uint32_t chosen;
  asm volatile(
      "{\n"
      ".reg .pred one;\n"
      "elect.sync _|one, 0xffffffff;\n"
      "selp.b32 %0, 1, 0, one;\n"
      "}\n"
      : "=r"(chosen));
  return chosen != 0;
}

// Bytes (a multiple of 16) from global to shared memory; they count towards the barrier's expected ones.
__device__ inline void bulk_load(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Bytes (a multiple of 16) from shared to global memory, in order with nothing. A thread's copies since its
// last group are a group.
__device__ inline void bulk_store(uintptr_t to, uint32_t from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}
__device__ inline void bulk_store_group() {
  asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
}
// Until all but this thread's last Left groups have read shared memory.
template <int Left>
__device__ inline void bulk_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(Left) : "memory");
}
// Until all of this thread's groups are complete.
__device__ inline void bulk_stores_done() {
  asm volatile("cp.async.bulk.wait_group 0;\n" ::: "memory");
}

// Fetches what tensor copies need to know of a tensor, which the first of them would wait for.
__device__ inline void prefetch_tensor_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
}

// A box of a tensor, beginning at element `at`, to shared memory (a multiple of 128 bytes), counted likewise.
// Elements outside the tensor are zero. at[0] times the element's size must be a multiple of 16 bytes.
__device__ inline void tensor_load(uint32_t to, const void* map, const int (&at)[4], uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3, %4, %5}], [%6];\n" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(barrier)
      : "memory");
}
__device__ inline void tensor_load(uint32_t to, const void* map, const int (&at)[5], uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3, %4, %5, %6}], [%7];\n" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]), "r"(barrier)
      : "memory");
}

__device__ inline uint32_t load_global4(uint64_t from) {
  uint32_t v;
  asm volatile("ld.global.nc.b32 %0, [%1];\n" : "=r"(v) : "l"(from));
  return v;
}
__device__ inline void store_global16(uintptr_t to, const uint4& v) {
  asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};\n" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ inline void store_global8(uintptr_t to, const uint2& v) {
  asm volatile("st.global.v2.b32 [%0], {%1,%2};\n" ::"l"(to), "r"(v.x), "r"(v.y) : "memory");
}
__device__ inline void store_global4(uintptr_t to, uint32_t v) {
  asm volatile("st.global.b32 [%0], %1;\n" ::"l"(to), "r"(v) : "memory");
}
__device__ inline void store_global2(uintptr_t to, uint32_t v) {
  asm volatile("st.global.b16 [%0], %1;\n" ::"l"(to), "h"(static_cast<uint16_t>(v)) : "memory");
}

// Makes this thread's ordinary stores to shared memory visible to later wgmma and bulk copies of others.
__device__ inline void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

// A barrier of all threads of the cluster's blocks (of the block, if it is in no cluster); and a store to
// another block's shared memory, at the address that the variable has in this block.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
}
// Before the first store to another block: says only that this one has begun.
__device__ inline void cluster_begin() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
__device__ inline void store_cluster4(uint32_t address, int rank, uint32_t v) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.u32 [there], %2;\n"
      "}\n" ::"r"(address),
      "r"(rank), "r"(v)
      : "memory");
}

// A barrier of some of the block's warps; 0 is __syncthreads'.
__device__ inline void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}
// Counts for such a barrier, and goes on.
__device__ inline void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}
// named_barrier(); whether `own` is true in any thread.
__device__ inline bool named_barrier_any(int id, int threads, bool own) {
  uint32_t any;
  asm volatile(
      "{\n"
      ".reg .pred mine, any;\n"
      "setp.ne.u32 mine, %3, 0;\n"
      "bar.red.or.pred any, %1, %2, mine;\n"
      "selp.u32 %0, 1, 0, any;\n"
      "}\n"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(uint32_t{own})
      : "memory");
  return any != 0;
}

template <int Registers>
__device__ inline void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Registers));
}
template <int Registers>
__device__ inline void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Registers));
}

// An operand whose 8x16-byte core matrices (8 rows, 128 contiguous bytes in all) lie `along_k` bytes apart
// along the depth and `along_rows` apart along rows. No swizzle: the address may be any multiple of 16.
__device__ inline uint64_t matrix_descriptor(uint32_t address, uint32_t along_k, uint32_t along_rows) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(along_k >> 4) << 16 |
         static_cast<uint64_t>(along_rows >> 4) << 32;
}

__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
// Keeps the sums after the assembly before it: the compiler does not know that wgmma writes them later, and
// could otherwise move arithmetic on them across the wait.
template <int Count>
__device__ inline void hold(float (&sums)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
template <int Rows, int Count>
__device__ inline void hold(float (&sums)[Rows][Count]) {
#pragma unroll
  for (int i = 0; i < Rows; ++i) hold(sums[i]);
}
// Waits until all but the latest Pending groups are over. With Pending 0, pass all sums that are read next.
template <int Pending, class... Sums>
__device__ inline void wgmma_wait(Sums&... sums) {
  static_assert(Pending > 0 || sizeof...(sums) > 0);
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
  (hold(sums), ...);
}

enum class Operand { tf32, f16, bf16 };

// d (64 x N) = a (64 x depth) * b (depth x N), plus d if accumulate. The depth is 32 bytes of operands. A
// lane holds, for every 8 columns j, d[4j] and d[4j+1] in row lane/4 and columns 8j + lane%4*2 and the next,
// and d[4j+2] and d[4j+3] in the row 8 below; a warp has 16 rows.
template <Operand Type, int N>
__device__ inline void wgmma(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {
  static_assert(N == 64 || N == 128 || N == 256);
#define TCONV_CASE(type, n, shape, types, names, da, db, flag, tail, ...) \
  if constexpr (Type == Operand::type && N == n) {                        \
    asm volatile(TCONV_WGMMA(shape, types, names, da, db, flag, tail)     \
                 : __VA_ARGS__                                            \
                 : "l"(a), "l"(b), "r"(accumulate));                      \
  }
#define TCONV_WIDTHS(type, k, types, tail)                                                                 \
  TCONV_CASE(type, 64, "m64n64k" k, types, TCONV_NAMES_32, "%32", "%33", "%34", tail, TCONV_SUMS_32(d, 0)) \
  TCONV_CASE(type, 128, "m64n128k" k, types, TCONV_NAMES_64, "%64", "%65", "%66", tail, TCONV_SUMS_64(d))  \
  TCONV_CASE(type, 256, "m64n256k" k, types, TCONV_NAMES_128, "%128", "%129", "%130", tail, TCONV_SUMS_128(d))
  TCONV_WIDTHS(tf32, "8", "tf32.tf32", "1, 1")
  TCONV_WIDTHS(f16, "16", "f16.f16", "1, 1, 0, 0")
  TCONV_WIDTHS(bf16, "16", "bf16.bf16", "1, 1, 0, 0")
#undef TCONV_CASE
#undef TCONV_WIDTHS
}

// The same for 16-bit operands with a in registers, as in mma.m16n8k16: rows lane/4 and 8 below in turn,
// depth lane%4*2 and the next, then 8 further. kAlongDepth: neighbours in b are those of its rows, not of the
// depth.
template <Operand Type, int N, bool kAlongDepth = false>
__device__ inline void wgmma(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, int accumulate) {
  static_assert((Type == Operand::f16 || Type == Operand::bf16) && (N == 32 || N == 64 || N == 128));
#define TCONV_CASE(type, n, along, shape, types, tail, names, a0, a1, a2, a3, db, flag, ...)             \
  if constexpr (Type == Operand::type && N == n && kAlongDepth == along) {                               \
    asm volatile(TCONV_WGMMA(shape "k16", types, names, "{" a0 "," a1 "," a2 "," a3 "}", db, flag, tail) \
                 : __VA_ARGS__                                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                 \
  }
#define TCONV_WIDTHS(type, types, along, tail)                                                            \
  TCONV_CASE(type, 32, along, "m64n32", types, tail, TCONV_NAMES_16, "%16", "%17", "%18", "%19", "%20",   \
             "%21", TCONV_SUMS_16(d))                                                                     \
  TCONV_CASE(type, 64, along, "m64n64", types, tail, TCONV_NAMES_32, "%32", "%33", "%34", "%35", "%36",   \
             "%37", TCONV_SUMS_32(d, 0))                                                                  \
  TCONV_CASE(type, 128, along, "m64n128", types, tail, TCONV_NAMES_64, "%64", "%65", "%66", "%67", "%68", \
             "%69", TCONV_SUMS_64(d))
  TCONV_WIDTHS(f16, "f16.f16", false, "1, 1, 0")
  TCONV_WIDTHS(bf16, "bf16.bf16", false, "1, 1, 0")
  TCONV_WIDTHS(f16, "f16.f16", true, "1, 1, 1")
  TCONV_WIDTHS(bf16, "bf16.bf16", true, "1, 1, 1")
#undef TCONV_CASE
#undef TCONV_WIDTHS
}

#endif

}  // namespace tconv::cuda::ptx
