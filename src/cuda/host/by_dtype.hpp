// Which of a family's instantiations serves a dtype.
#pragma once

#include "core/problem.hpp"

namespace tconv::cuda {

template <class V>
V by_dtype(core::DType dtype, V f32, V f64, V f16, V bf16) {
  switch (dtype) {
    case core::DType::f64:
      return f64;
    case core::DType::f16:
      return f16;
    case core::DType::bf16:
      return bf16;
    case core::DType::f32:
      break;
  }
  return f32;
}

}  // namespace tconv::cuda
