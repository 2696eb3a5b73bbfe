// Short rows one after another in vectors (contract.hpp).
#if defined(TCONV_DEPTHWISE_FLAT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TCONV_DEPTHWISE_FLAT_INL
#undef TCONV_DEPTHWISE_FLAT_INL
#else
#define TCONV_DEPTHWISE_FLAT_INL
#endif

#include <algorithm>

#include "cpu/depthwise/contract.hpp"
#include "cpu/simd/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::depthwise::HWY_NAMESPACE {
using namespace simd::HWY_NAMESPACE;  // NOLINT: the helpers of this target
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using PlaceVec = hn::Vec<hn::RebindToSigned<D>>;

template <class D>
HWY_INLINE PlaceVec<D> LoadPlace(D, const int32_t* at) {
  const hn::RebindToSigned<D> di;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::LoadU(di, at);
  } else {
    return hn::PromoteTo(di, hn::LoadU(hn::Rebind<int32_t, D>(), at));
  }
}

// from[at[lane]]; from[0] where `at` is negative.
template <class D, class A = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> GatherPlaces([[maybe_unused]] D d, const A* from, const int32_t* at) {
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  const hn::RebindToSigned<D> di;
  return hn::GatherIndex(d, from, hn::Max(LoadPlace(d, at), hn::Zero(di)));
#elif HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  // A vector that is stored lane by lane and then loaded would wait for the stores.
  const auto lane = [&](int i) HWY_ATTR { return from[std::max(at[i], 0)]; };
  static_assert(sizeof(hn::Vec<D>) == 16);
  hn::Vec<D> v;
  if constexpr (sizeof(A) == 4) {
    v.raw = decltype(v.raw){lane(0), lane(1), lane(2), lane(3)};
  } else {
    v.raw = decltype(v.raw){lane(0), lane(1)};
  }
  return v;
#else
  A lanes[hn::MaxLanes(D())];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = from[std::max(at[i], 0)];
  return hn::LoadU(d, lanes);
#endif
}

// Whether Picker knows windows: two neighbouring vectors of x hold all that a vector needs.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
template <class D>
constexpr bool kWindows = sizeof(hn::Vec<D>) == 64;
#elif HWY_TARGET == HWY_AVX2
template <class D>
constexpr bool kWindows = sizeof(hn::TFromD<D>) == 4;
#else
template <class D>
constexpr bool kWindows = false;
#endif

// Whether vectors of this width find their operands in windows: the plan may be one of another width.
template <class D>
HWY_INLINE bool HasWindows(D d, const Flat& flat, const Places& places) {
  return kWindows<D> && flat.lanes == static_cast<int64_t>(hn::Lanes(d)) && !places.base.empty();
}

// Where one product of a vector of outputs has its x; 0 where there is none.
template <bool kWindow, class D>
struct Picker {
  const int32_t* at;
  hn::Mask<D> missing;
  HWY_INLINE Picker(D d, const int32_t* places, const int32_t*) : at(places) {
    missing = hn::RebindMask(d, hn::Lt(LoadPlace(d, places), hn::Zero(hn::RebindToSigned<D>())));
  }
  template <class A>
  HWY_INLINE hn::Vec<D> Pick(D d, const A* x) const {
    return hn::IfThenZeroElse(missing, GatherPlaces(d, x, at));
  }
};

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
// The permutation of two vectors has no name in Highway 1.0.3.
HWY_INLINE hn::Vec512<float> FromTwo(hn::Mask512<float> m, hn::Vec512<float> a, __m512i at,
                                     hn::Vec512<float> b) {
  return hn::Vec512<float>{_mm512_maskz_permutex2var_ps(m.raw, a.raw, at, b.raw)};
}
HWY_INLINE hn::Vec512<double> FromTwo(hn::Mask512<double> m, hn::Vec512<double> a, __m512i at,
                                      hn::Vec512<double> b) {
  return hn::Vec512<double>{_mm512_maskz_permutex2var_pd(m.raw, a.raw, at, b.raw)};
}

template <class D>
struct Picker<true, D> {
  int64_t base;
  PlaceVec<D> at;
  hn::Mask<D> present;
  HWY_INLINE Picker(D d, const int32_t* places, const int32_t* lowest) : base(*lowest) {
    const hn::RebindToSigned<D> di;
    const auto loaded = LoadPlace(d, places);
    present = hn::RebindMask(d, hn::Gt(loaded, hn::Set(di, -1)));
    at = hn::Sub(loaded, hn::Set(di, static_cast<hn::TFromD<decltype(di)>>(base)));
  }
  template <class A>
  HWY_INLINE hn::Vec<D> Pick(D d, const A* x) const {
    x += base;
    return FromTwo(present, hn::LoadU(d, x), at.raw, hn::LoadU(d, x + hn::MaxLanes(d)));
  }
};
#elif HWY_TARGET == HWY_AVX2
template <class D>
struct Picker<true, D> {
  int64_t base;
  PlaceVec<D> at;
  hn::Mask<D> missing, second;
  HWY_INLINE Picker(D d, const int32_t* places, const int32_t* lowest) : base(*lowest) {
    const hn::RebindToSigned<D> di;
    constexpr auto kLast = static_cast<int32_t>(hn::MaxLanes(D())) - 1;
    const auto loaded = LoadPlace(d, places);
    const auto from_base = hn::Sub(loaded, hn::Set(di, *lowest));
    missing = hn::RebindMask(d, hn::Lt(loaded, hn::Zero(di)));
    second = hn::RebindMask(d, hn::Gt(from_base, hn::Set(di, kLast)));
    at = hn::And(from_base, hn::Set(di, kLast));
  }
  template <class A>
  HWY_INLINE hn::Vec<D> Pick(D d, const A* x) const {
    const auto lanes = hn::IndicesFromVec(d, at);
    x += base;
    const auto a = hn::TableLookupLanes(hn::LoadU(d, x), lanes);
    const auto b = hn::TableLookupLanes(hn::LoadU(d, x + hn::MaxLanes(d)), lanes);
    return hn::IfThenZeroElse(missing, hn::IfThenElse(second, b, a));
  }
};
#endif

// Operands of a task's groups.
template <class A>
struct FlatTask {
  A *raw, *w, *x;         // raw weights and biases of a block; those of the task by output; samples of x
  int64_t first, groups;  // groups of the problem
};

// One block of N samples. w: of the block; x, y: of its first sample; outputs: that exist.
template <int N, bool kWindow, class D, class A, class T>
HWY_NOINLINE void FlatBlock(D d, const Flat& flat, const A* w, const A* x, int64_t x_pitch, int64_t outputs,
                            T* y, int64_t y_pitch) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), vectors = flat.outputs / lanes;
  for (int64_t v = 0; v * lanes < outputs; ++v) {
    const int64_t e = v * lanes;
    hn::Vec<D> acc[N];
    const auto start = hn::LoadU(d, w + flat.taps * flat.outputs + e);
#pragma GCC unroll 8
    for (int s = 0; s < N; ++s) acc[s] = start;
    const A* wj = w + e;
    const int32_t* place = flat.x.at() + e;
    for (int64_t j = 0; j < flat.taps; ++j, wj += flat.outputs, place += flat.outputs) {
      const Picker<kWindow, D> picker(d, place, kWindow ? flat.x.base.data() + (j * vectors + v) : nullptr);
      const auto weight = hn::LoadU(d, wj);
#pragma GCC unroll 8
      for (int s = 0; s < N; ++s) {
        acc[s] = hn::MulAdd(weight, picker.Pick(d, x + s * x_pitch), acc[s]);
      }
    }
    if (e + lanes <= outputs) {
#pragma GCC unroll 8
      for (int s = 0; s < N; ++s) StoreAs(d, acc[s], y + s * y_pitch + e);
    } else {
#pragma GCC unroll 8
      for (int s = 0; s < N; ++s) {  // unrolled, or the sums would live in memory
        const hn::Vec<D> one[1] = {acc[s]};
        StoreInterleavedPart<1>(d, one, 0, outputs - e, y + s * y_pitch + e);
      }
    }
  }
}

// A block's raw weights and biases in the order of outputs. Picking them where they are used instead made a
// single sample 0.87 to 1.2 times as fast, which is not worth a second path.
template <bool kWindow, class D, class A>
HWY_NOINLINE void FlatOrder(D d, const Places& places, const A* raw, A* w) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int32_t* base = kWindow ? places.base.data() : nullptr;
  const int64_t size = places.size();
  for (int64_t e = 0; e < size; e += lanes) {
    const Picker<kWindow, D> picker(d, places.at() + e, base);
    hn::StoreU(picker.Pick(d, raw), d, w + e);
    if (kWindow) ++base;
  }
}

// The weights and biases of a task, in the order in which FlatBlock meets them.
template <class T, class D, class A>
HWY_INLINE void FlatWeights(D d, const Job& job, const plan::Operands& in, const FlatTask<A>& task) {
  const core::Problem& p = job.problem;
  const Flat& flat = job.flat;
  const int64_t cout = p.cout_per_group(), per_group = job.weights_per_group();
  A* const bias = task.raw + kFlatGroups * per_group;
  std::fill_n(task.raw, job.flat_raw_elements(), A{0});
  A* w = task.w;
  for (int64_t g = 0; g < task.groups; g += kFlatGroups, w += (flat.taps + 1) * flat.outputs) {
    const int64_t first = task.first + g, count = std::min(kFlatGroups, task.groups - g);
    WidenRow(d, static_cast<const T*>(in.weight) + first * per_group, 1, count * per_group, task.raw);
    for (int64_t co = 0; p.has_bias && co < count * cout; ++co) {
      bias[co] = start_of<T>(true, in.bias, first * cout + co);
    }
    if (HasWindows(d, flat, flat.w)) {
      FlatOrder<kWindows<D>>(d, flat.w, task.raw, w);
    } else {
      FlatOrder<false>(d, flat.w, task.raw, w);
    }
  }
}

// N samples from n on.
template <int N, class T, class D, class A>
HWY_INLINE void FlatSamples(D d, const Job& job, const plan::Operands& in, const FlatTask<A>& task,
                            int64_t n) {
  const core::Problem& p = job.problem;
  const Flat& flat = job.flat;
  const auto steps = p.x_steps();
  const int64_t group_x = p.cin_per_group() * p.l, group_y = p.cout_per_group() * job.lout;
  const int64_t rows = task.groups * p.cin_per_group(), y_pitch = p.groups * group_y;
  const T* raw = static_cast<const T*>(in.x) + n * steps[0] + task.first * p.cin_per_group() * steps[1];
  const A* x = task.x;
  int64_t x_pitch = job.flat_x_pitch();
  const bool dense = steps[2] == 1 && steps[1] == p.l;
  bool in_place = false;
  if constexpr (std::is_same_v<T, A>) {
    // What vectors load beyond their x, and for outputs of groups beyond the last, must belong to the tensor.
    const int64_t after = ((p.n - n - N) * p.groups + p.groups - task.first - task.groups) * group_x;
    in_place = dense && steps[0] == p.groups * group_x && after >= kFlatOverrun + kFlatGroups * group_x;
    if (in_place) x = raw, x_pitch = steps[0];
  }
  for (int64_t s = 0; !in_place && s < N; ++s) {
    A* to = task.x + s * x_pitch;
    const T* from = raw + s * steps[0];
    if (dense) {
      WidenRow(d, from, 1, rows * p.l, to);
    } else {
      for (int64_t row = 0; row < rows; ++row)
        WidenRow(d, from + row * steps[1], steps[2], p.l, to + row * p.l);
    }
    std::fill_n(to + rows * p.l, x_pitch - rows * p.l, A{0});
  }
  T* y = static_cast<T*>(in.output) + n * y_pitch + task.first * group_y;
  const bool windows = HasWindows(d, flat, flat.x);
  const A* w = task.w;
  for (int64_t g = 0; g < task.groups; g += kFlatGroups) {
    const int64_t outputs = std::min(kFlatGroups, task.groups - g) * group_y;
    if (windows) {
      FlatBlock<N, kWindows<D>>(d, flat, w, x, x_pitch, outputs, y, y_pitch);
    } else {
      FlatBlock<N, false>(d, flat, w, x, x_pitch, outputs, y, y_pitch);
    }
    w += (flat.taps + 1) * flat.outputs;
    x += kFlatGroups * group_x;
    y += outputs;
  }
}

template <class T>
HWY_INLINE void RunFlat(const Job& job, const plan::Operands& in, int64_t index, void* scratch) {
  using A = Accumulator<T>;
  const hn::ScalableTag<A> d;
  const core::Problem& p = job.problem;
  const Flat& flat = job.flat;
  const int64_t parts = core::ceil_div(p.n, flat.samples);
  FlatTask<A> task;
  task.raw = static_cast<A*>(scratch);
  task.w = task.raw + job.flat_raw_elements();
  task.x = task.w + flat.blocks * (flat.taps + 1) * flat.outputs;
  task.first = index / parts * flat.blocks * kFlatGroups;
  task.groups = std::min(flat.blocks * kFlatGroups, p.groups - task.first);
  FlatWeights<T>(d, job, in, task);
  const int64_t end = std::min(p.n, (index % parts + 1) * flat.samples);
  int64_t n = index % parts * flat.samples;
  for (; n + kFlatSamples <= end; n += kFlatSamples) FlatSamples<kFlatSamples, T>(d, job, in, task, n);
  for (; n < end; ++n) FlatSamples<1, T>(d, job, in, task, n);
}

}  // namespace tconv::cpu::depthwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
