#include "operands.hpp"

#include <torch/csrc/stable/ops.h>

#include <atomic>
#include <stdexcept>
#include <string>

namespace tconv::torch_binding {
namespace {

std::atomic<PrecisionQuery> g_precision_query{nullptr};

[[noreturn]] void refuse(const std::string& message) {
  throw std::runtime_error("conv_transpose1d: " + message);
}

struct View {
  explicit View(const Tensor& t) : sizes(t.sizes()), strides(t.strides()), dim(t.dim()) {
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(t.get(), &dtype));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(t.get(), &device_type));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(t.get(), &device_index));
  }
  std::string shape() const {
    std::string text = "[";
    for (int64_t i = 0; i < dim; ++i) text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
    return text + "]";
  }
  torch::headeronly::IntHeaderOnlyArrayRef sizes, strides;
  int64_t dim;
  int32_t dtype = 0, device_type = 0, device_index = 0;
};

int32_t dtype_of(const View& input) {
  static const int32_t f32 = aoti_torch_dtype_float32(), f64 = aoti_torch_dtype_float64(),
                       f16 = aoti_torch_dtype_float16(), bf16 = aoti_torch_dtype_bfloat16();
  if (input.dtype == f32) return TCONV_F32;
  if (input.dtype == f64) return TCONV_F64;
  if (input.dtype == f16) return TCONV_F16;
  if (input.dtype == bf16) return TCONV_BF16;
  refuse("input has an unsupported dtype: it must be float32, float64, float16 or bfloat16");
}

void check_same(const char* name, const View& tensor, const View& input) {
  if (tensor.dtype != input.dtype)
    refuse(std::string(name) + " has another dtype than input: they must be equal");
  if (tensor.device_type != input.device_type || tensor.device_index != input.device_index) {
    refuse(std::string(name) + " is on another device than input: all must be on one");
  }
}

void check_shapes(const View& input, const View& weight, const View* bias, int64_t groups) {
  if (input.dim != 2 && input.dim != 3) {
    refuse("input has shape " + input.shape() +
           ": it must be (batch, channels, length) or (channels, length)");
  }
  if (weight.dim != 3) {
    refuse("weight has shape " + weight.shape() +
           ": it must be (in_channels, out_channels/groups, kernel_size)");
  }
  const int64_t cin = input.sizes[input.dim - 2];
  if (cin != weight.sizes[0]) {
    refuse("input has " + std::to_string(cin) + " channels (shape " + input.shape() + "): weight of shape " +
           weight.shape() + " needs " + std::to_string(weight.sizes[0]));
  }
  if (bias == nullptr) return;
  int64_t cout = 0;
  if (__builtin_mul_overflow(weight.sizes[1], groups, &cout) || bias->dim != 1 || bias->sizes[0] != cout) {
    refuse("bias has shape " + bias->shape() + ": weight of shape " + weight.shape() + " and groups " +
           std::to_string(groups) + " need [" + std::to_string(cout) + "]");
  }
}

int32_t resolve(Precision precision, int32_t dtype, bool cuda) {
  if (dtype != TCONV_F32 || !cuda) return TCONV_IEEE;
  if (precision != Precision::ambient) return static_cast<int32_t>(precision);
  const PrecisionQuery query = g_precision_query.load(std::memory_order_relaxed);
  return query != nullptr && query() == 1 ? TCONV_TF32 : TCONV_IEEE;
}

void set_sizes(tconv_problem& p, const View& input, const View& weight, const Settings& s) {
  const bool batched = input.dim == 3;
  p.n = batched ? input.sizes[0] : 1;
  p.cin = weight.sizes[0];
  p.l = input.sizes[input.dim - 1];
  p.k = weight.sizes[2];
  p.stride = s.stride;
  p.padding = s.padding;
  p.output_padding = s.output_padding;
  p.dilation = s.dilation;
  p.groups = s.groups;
  if (__builtin_mul_overflow(weight.sizes[1], s.groups, &p.cout)) {
    refuse("groups is " + std::to_string(s.groups) + ": out_channels overflows 63 bits");
  }
}

void set_strides(tconv_problem& p, const Tensor& input, const View& view) {
  if (input.is_contiguous()) return;
  p.x_contiguous = 0;
  const bool batched = view.dim == 3;
  p.x_stride[0] = batched ? view.strides[0] : 0;
  p.x_stride[1] = view.strides[view.dim - 2];
  p.x_stride[2] = view.strides[view.dim - 1];
}

}  // namespace

Operands check_operands(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                        const Settings& settings) {
  static const int32_t cuda_type = aoti_torch_device_type_cuda();
  const View x(input), w(weight);
  const std::optional<View> b = bias ? std::optional<View>(*bias) : std::nullopt;
  const int32_t dtype = dtype_of(x);
  check_same("weight", w, x);
  if (b) check_same("bias", *b, x);
  check_shapes(x, w, b ? &*b : nullptr, settings.groups);

  const bool cuda = x.device_type == cuda_type;
  PlanKey key{};
  tconv_problem_init(&key.problem);
  key.problem.dtype = dtype;
  key.problem.precision = resolve(settings.precision, dtype, cuda);
  key.problem.has_bias = bias ? 1 : 0;
  set_sizes(key.problem, x, w, settings);
  set_strides(key.problem, input, x);
  key.device = cuda ? TCONV_CUDA : TCONV_CPU;
  key.device_index = cuda ? x.device_index : 0;
  key.threads = cuda ? 0 : torch::stable::get_num_threads();
  return {input,
          weight.is_contiguous() ? weight : torch::stable::contiguous(weight),
          !bias || bias->is_contiguous() ? bias : std::optional<Tensor>(torch::stable::contiguous(*bias)),
          x.dim == 3,
          x.dtype,
          key};
}

}  // namespace tconv::torch_binding

void tconv_torch_set_precision_query(tconv::torch_binding::PrecisionQuery query) {
  tconv::torch_binding::g_precision_query.store(query);
}
