#include "views.hpp"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/ops.h>

#include <atomic>
#include <stdexcept>

namespace tconv::torch_binding {
namespace {

std::atomic<PrecisionQuery> g_precision_query{nullptr};

int32_t dtype_of(const char* name, const View& tensor) {
  static const int32_t f32 = aoti_torch_dtype_float32(), f64 = aoti_torch_dtype_float64(),
                       f16 = aoti_torch_dtype_float16(), bf16 = aoti_torch_dtype_bfloat16();
  if (tensor.dtype == f32) return TCONV_F32;
  if (tensor.dtype == f64) return TCONV_F64;
  if (tensor.dtype == f16) return TCONV_F16;
  if (tensor.dtype == bf16) return TCONV_BF16;
  refuse(std::string(name) + " has an unsupported dtype: it must be float32, float64, float16 or bfloat16");
}

int32_t resolve(int64_t precision, int32_t dtype, bool cuda) {
  if (precision < TCONV_IEEE || precision > kAmbientPrecision) {
    refuse("precision is " + std::to_string(precision) +
           ": must be 0 (ieee), 1 (tf32) or 2 (as PyTorch is set)");
  }
  if (dtype != TCONV_F32 || !cuda) return TCONV_IEEE;
  if (precision != kAmbientPrecision) return static_cast<int32_t>(precision);
  const PrecisionQuery query = g_precision_query.load(std::memory_order_relaxed);
  return query != nullptr && query() == TCONV_TF32 ? TCONV_TF32 : TCONV_IEEE;
}

}  // namespace

void refuse(const std::string& message) {
  throw std::runtime_error("tconv: " + message);
}

View::View(const Tensor& tensor) : sizes(tensor.sizes()), strides(tensor.strides()), dim(tensor.dim()) {
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &device_type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(tensor.get(), &device_index));
}

std::string View::shape() const {
  std::string text = "[";
  for (int64_t i = 0; i < dim; ++i) text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return text + "]";
}

bool View::on_cuda() const {
  static const int32_t cuda = aoti_torch_device_type_cuda();
  return device_type == cuda;
}

PlanKey key_of(const char* name, const View& first, int64_t precision) {
  PlanKey key{};
  tconv_problem_init(&key.problem);
  key.problem.dtype = dtype_of(name, first);
  const bool cuda = first.on_cuda();
  key.problem.precision = resolve(precision, key.problem.dtype, cuda);
  key.device = cuda ? TCONV_CUDA : TCONV_CPU;
  key.device_index = cuda ? first.device_index : 0;
  key.threads = cuda ? 0 : torch::stable::get_num_threads();
  return key;
}

void check_same(const char* name, const View& tensor, const char* first_name, const View& first) {
  if (tensor.dtype != first.dtype) {
    refuse(std::string(name) + " has another dtype than " + first_name + ": they must be equal");
  }
  if (tensor.device_type != first.device_type || tensor.device_index != first.device_index) {
    refuse(std::string(name) + " is on another device than " + first_name + ": all must be on one");
  }
}

void check_dimensions(const char* name, const View& tensor) {
  if (tensor.dim == 2 || tensor.dim == 3) return;
  refuse(std::string(name) + " has shape " + tensor.shape() +
         ": it must be (batch, channels, length) or (channels, length)");
}

}  // namespace tconv::torch_binding

void tconv_torch_set_precision_query(tconv::torch_binding::PrecisionQuery query) {
  tconv::torch_binding::g_precision_query.store(query);
}
