#include "cpu/dense/compute.hpp"
#include "cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dense/compute_f32.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/dense/compute-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

void RunF32(const Job& job, const Task& task, const Task* next, const Buffers& buffers, void* scratch) {
  Compute<float, float>(job, task, next, buffers, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::dense {
namespace {

HWY_EXPORT(RunF32);

}  // namespace

void compute_f32(const Job& job, const Task& task, const Task* next, const Buffers& buffers, void* scratch) {
  TCONV_DISPATCH(RunF32)(job, task, next, buffers, scratch);
}

}  // namespace tconv::cpu::dense
#endif
