#include "cuda/host/tensor_map.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace tconv::cuda {

using core::Code;
using core::Status;

namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

Encode find_encode() {
  constexpr unsigned kSince = 12000;  // CUDA 12.0
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince,
                                                             cudaEnableDefault, &found);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function)
                                                                      : nullptr;
}

CUtensorMapDataType type_of(const TensorShape& shape) {
  if (shape.element == 8) return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
  if (shape.element == 2) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  return shape.rounded ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

}  // namespace

Status make_tensor_map(const TensorShape& shape, TensorMap& map) {
  static const Encode encode = find_encode();
  if (encode == nullptr) return {Code::unsupported, "the driver has no cuTensorMapEncodeTiled"};
  const int rank = shape.sizes[4] > 0 ? 5 : 4;
  cuuint64_t sizes[5], steps[4];
  cuuint32_t box[5], every[5] = {1, 1, 1, 1, 1};
  for (int i = 0; i < rank; ++i) {
    sizes[i] = static_cast<cuuint64_t>(shape.sizes[i]);
    box[i] = static_cast<cuuint32_t>(shape.box[i]);
    if (i + 1 < rank) steps[i] = static_cast<cuuint64_t>(shape.steps[i]);
  }
  CUtensorMap made;
  const CUresult result = encode(&made, type_of(shape), rank, const_cast<void*>(shape.address), sizes, steps,
                                 box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 shape.swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return {Code::internal_error,
            "cuTensorMapEncodeTiled refused a tensor: error " + std::to_string(static_cast<int>(result))};
  }
  static_assert(sizeof(made) == sizeof(map));
  std::memcpy(&map, &made, sizeof map);
  return {};
}

int64_t begin_on_boundary(TensorShape& shape) {
  constexpr uintptr_t kBoundary = 16;
  const auto late = static_cast<int64_t>(reinterpret_cast<uintptr_t>(shape.address) % kBoundary);
  shape.address = static_cast<const std::byte*>(shape.address) - late;
  shape.sizes[0] += late / shape.element;
  return late / shape.element;
}

Status make_rows_map(const core::Problem& product, const void* x, const int64_t (&steps)[2], int width,
                     int channels, TensorMap& map) {
  const auto element = static_cast<int64_t>(core::size_of(product.dtype));
  const int64_t row = steps[1] * element, sample = product.n > 1 ? steps[0] * element : row;
  const int64_t cin = product.cin_per_group();
  return make_tensor_map({x,
                          static_cast<int>(element),
                          {product.l, cin, product.groups, product.n},
                          {row, row * cin, sample},
                          {width, channels, 1, 1}},
                         map);
}

}  // namespace tconv::cuda
