// What the tiles of a task share, and where its weights lie.
#if defined(TCONV_STRIDED_WORKER_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_STRIDED_WORKER_INL
#undef TCONV_STRIDED_WORKER_INL
#else
#define TCONV_STRIDED_WORKER_INL
#endif

#include <algorithm>

#include "cpu/dense/microkernel-inl.hpp"
#include "cpu/strided/contract.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::strided {
namespace HWY_NAMESPACE {

using dense::HWY_NAMESPACE::PackedRows;
using dense::HWY_NAMESPACE::RawRows;

struct Depth {
  int64_t co_begin, co_end, tap_begin, tap_end;
  int64_t channels() const { return co_end - co_begin; }
  int64_t taps() const { return tap_end - tap_begin; }
};

// What the tiles of a task share.
template <class T, class A>
struct Worker {
  const Job& job;
  const Task& task;
  const A* packed;   // of the group, or null
  const T* raw;      // likewise
  const void* bias;  // null: none
  T* dx;
  A *panel, *sums, *rows;  // rows: raw weights of a row block, packed
  int64_t sums_line;       // a tile's if there is one depth block, else the panel's
  Inside inside;
};

// Raw weights of a row block in a depth block, from its first channel and tap 0 on. Rows that do not exist
// repeat the last one that does; their sums are dropped.
template <class T>
struct BlockRows {
  const T* at[kRows];
};
template <class T, class A>
HWY_INLINE BlockRows<T> RowsOf(const Worker<T, A>& w, const Depth& depth, int64_t block) {
  const int64_t k = w.job.problem.k, row = w.job.cout * k, last = w.job.cin - block * kRows - 1;
  const T* first = w.raw + block * kRows * row + depth.co_begin * k;
  BlockRows<T> out;
  for (int64_t r = 0; r < kRows; ++r) out.at[r] = first + std::min(r, last) * row;
  return out;
}

template <class T, class A>
HWY_INLINE const A* PackedOf(const Worker<T, A>& w, const Depth& depth, int64_t block) {
  const Job& job = w.job;
  return w.packed +
         (block * job.cout * job.problem.k + depth.tap_begin * job.cout + depth.co_begin * depth.taps()) *
             kRows;
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::strided
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
