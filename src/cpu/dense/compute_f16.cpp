#include "cpu/dense/compute.hpp"
#include "cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dense/compute_f16.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "cpu/dense/compute-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tconv::cpu::dense {
namespace HWY_NAMESPACE {

void RunF16(const Job& job, const Task& task, const Task* next, const Buffers& buffers, void* scratch) {
  Compute<F16, float>(job, task, next, buffers, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace tconv::cpu::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tconv::cpu::dense {
namespace {

HWY_EXPORT(RunF16);

}  // namespace

void compute_f16(const Job& job, const Task& task, const Task* next, const Buffers& buffers, void* scratch) {
  TCONV_DISPATCH(RunF16)(job, task, next, buffers, scratch);
}

}  // namespace tconv::cpu::dense
#endif
