// A block of at most 8 rows over the positions of a part.
#if defined(TCONV_NARROW_PRODUCT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_NARROW_PRODUCT_INL
#undef TCONV_NARROW_PRODUCT_INL
#else
#define TCONV_NARROW_PRODUCT_INL
#endif

#include "cpu/narrow/contract.hpp"
#include "cpu/simd/tiles-inl.hpp"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::narrow::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of positions for R rows: as many as the registers allow, of which R*V + V + 1 are in use.
constexpr int VectorsFor(int rows) {
#if TCONV_32_REGISTERS
  constexpr int kVectors[] = {8, 8, 6, 6, 4, 4, 3, 3};
#else
  constexpr int kVectors[] = {4, 4, 3, 2, 2, 2, 1, 1};
#endif
  return kVectors[rows - 1];
}

// What the sums become: accumulators, or y, either made canonical or known to be numbers.
enum class Last { accumulators, canonical, numbers };

// What a block reads, and where its sums go.
template <class A>
struct BlockOperands {
  const A* x;  // of the first channel and output
  int64_t pitch, depth, taps, x_step;
  const A* w;
  A* const* rows;
  Last last;
  // What is prefetched meanwhile: if x is in place, where it continues after this part; if copied, where the
  // next part will be copied from. Null: nothing.
  const A* ahead;
  int64_t ahead_pitch;
  bool ahead_of_copy;
};

template <int R, int V, class D, class A>
HWY_INLINE void Product(D d, const BlockOperands<A>& in, int64_t at, const A* bias, const A* ahead) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      acc[r][v] = bias != nullptr ? hn::Set(d, bias[r]) : hn::LoadU(d, in.rows[r] + at + v * lanes);
    }
  }
  const A* x = in.x + at;
  const A* w = in.w;
  for (int64_t ci = in.depth; ci > 0; --ci, x += in.pitch) {
    if (ahead != nullptr) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) hwy::Prefetch(ahead + v * lanes);
      ahead += in.ahead_pitch;
    }
    const A* xj = x;
    for (int64_t j = in.taps; j > 0; --j, xj -= in.x_step, w += R) {
      hn::Vec<D> xv[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) xv[v] = hn::LoadU(d, xj + v * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const auto weight = hn::Set(d, w[r]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(weight, xv[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      if (in.last == Last::canonical) acc[r][v] = Canonical(d, acc[r][v]);
      hn::StoreU(acc[r][v], d, in.rows[r] + at + v * lanes);
    }
  }
}

// One block over [0, count) of a part.
template <int R, class D, class A>
HWY_NOINLINE void RunBlock(D d, const BlockOperands<A>& in, int64_t count, const A* bias) {
  constexpr int kV = VectorsFor(R);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t q = 0;
  for (; q + kV * lanes <= count; q += kV * lanes) {
    const A* next = in.ahead;
    if (next != nullptr) {
      if (in.ahead_of_copy) {
        next += q;
      } else if (q + 2 * kV * lanes <= count) {
        next = in.x + q + kV * lanes;
      }
    }
    Product<R, kV>(d, in, q, bias, next);
  }
  for (; q < count; q += lanes) Product<R, 1>(d, in, q, bias, static_cast<const A*>(nullptr));
}

template <class D, class A>
HWY_INLINE void AnyBlock(D d, const BlockOperands<A>& in, std::size_t rows, int64_t count, const A* bias) {
  switch (rows) {
    case 1:
      return RunBlock<1>(d, in, count, bias);
    case 2:
      return RunBlock<2>(d, in, count, bias);
    case 3:
      return RunBlock<3>(d, in, count, bias);
    case 4:
      return RunBlock<4>(d, in, count, bias);
    case 5:
      return RunBlock<5>(d, in, count, bias);
    case 6:
      return RunBlock<6>(d, in, count, bias);
    case 7:
      return RunBlock<7>(d, in, count, bias);
    default:
      return RunBlock<8>(d, in, count, bias);
  }
}

}  // namespace tconv::cpu::narrow::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
