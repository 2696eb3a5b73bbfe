// The operators of namespace tconv. Python's torch.ops.tconv.* reach them through PyTorch's dispatcher.
//
// clang-format off
//   conv_transpose1d, conv1d       what users and exported graphs call; Python registers gradient, autocast and vmap
//   forward                        conv_transpose1d without a gradient: the transposed product
//   strided                        the strided product of a given length, the input gradient of conv_transpose1d;
//                                  or of conv1d's length
//   weight                         the weight product: both weight gradients
//   bias                           the sum over batch and length: both bias gradients
//   weight_bias                    the gradients of weight and bias in one call
//   pack, strided_pack             weights in the layout that the plan reads, and that layout's id
//   forward_packed, strided_packed with packed weights. Where the plan reads another layout than packed_id,
//                                  nothing is computed: the result is an empty tensor and the id that is needed
//   explain                        the plan of a problem, in words
//   cache_use                      plans kept, the bytes that they hold, packed layouts among them
//   build_info                     what the library holds
// clang-format on
#include <torch/csrc/stable/ops.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "gradients.hpp"
#include "launch.hpp"
#include "operands.hpp"
#include "pytorch_convolution.hpp"

namespace tconv::torch_binding {
namespace {

using OptionalTensor = std::optional<Tensor>;
using OptionalLength = std::optional<int64_t>;

// --- products that read a weight --------------------------------------------------------------------------

Tensor output_of(const ProductOperands& o, int64_t channels, int64_t length) {
  const int64_t sizes[] = {o.key.problem.n, channels, length};
  return o.batched ? allocate("output", o.key, o.dtype, 3, sizes)
                   : allocate("output", o.key, o.dtype, 2, sizes + 1);
}

// packed is null where the weights are raw.
void set_weights(tconv_arguments& a, const ProductOperands& o, const void* packed) {
  tconv_arguments_init(&a);
  a.weight = packed == nullptr ? o.weight.data_ptr() : nullptr;
  a.packed_weight = packed;
  a.bias = o.bias ? o.bias->data_ptr() : nullptr;
}

Tensor run_transposed(const ProductOperands& o, const CachedPlan& cached, const void* packed) {
  Tensor output = output_of(o, o.key.problem.cout, cached.lout);
  tconv_arguments a;
  set_weights(a, o, packed);
  a.x = o.moving.data_ptr();
  a.output = output.data_ptr();
  launch(o.key, cached, a);
  return output;
}

// On a GPU a y without elements has no address, and x is its bias, -0.0 included, or zeros.
Tensor strided_of_nothing(const ProductOperands& o) {
  const tconv_problem& p = o.key.problem;
  const Tensor zeros = o.batched ? torch::stable::new_zeros(o.moving, {p.n, p.cin, p.l})
                                 : torch::stable::new_zeros(o.moving, {p.cin, p.l});
  return o.bias ? torch::stable::subtract(torch::stable::unsqueeze(*o.bias, 1), zeros, 1.0) : zeros;
}

Tensor run_strided(const ProductOperands& o, const CachedPlan& cached, const void* packed) {
  if (o.moving.numel() == 0 && o.key.device == TCONV_CUDA) return strided_of_nothing(o);
  if (cached.slow_path) return pytorch_strided(o.key, o.moving, o.weight, o.bias);
  Tensor output = output_of(o, o.key.problem.cin, o.key.problem.l);
  tconv_arguments a;
  set_weights(a, o, packed);
  a.grad_output = o.moving.data_ptr();
  a.output = output.data_ptr();
  launch(o.key, cached, a);
  return output;
}

// With packed weights: run(their address) where the plan reads that layout.
template <class Run>
std::tuple<Tensor, int64_t> run_packed(const ProductOperands& o, const CachedPlan& cached,
                                       const Tensor& packed, int64_t packed_id, const Run& run) {
  if (cached.packed_id() != packed_id) return {allocate_bytes("answer", o.key, 0), cached.packed_id()};
  return {run(packed_address(cached, packed)), packed_id};
}

Tensor forward(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, int64_t stride,
               int64_t padding, int64_t output_padding, int64_t groups, int64_t dilation, int64_t precision) {
  const ProductOperands o = transposed_operands(
      input, weight, bias, {stride, padding, output_padding, groups, dilation, precision});
  return run_transposed(o, *plan_for(o.key), nullptr);
}

std::tuple<Tensor, int64_t> pack(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                                 int64_t stride, int64_t padding, int64_t output_padding, int64_t groups,
                                 int64_t dilation, int64_t precision) {
  const ProductOperands o = transposed_operands(
      input, weight, bias, {stride, padding, output_padding, groups, dilation, precision});
  return pack_weight(o.key, *plan_for(o.key), o.weight);
}

std::tuple<Tensor, int64_t> forward_packed(const Tensor& input, const Tensor& weight,
                                           const OptionalTensor& bias, int64_t stride, int64_t padding,
                                           int64_t output_padding, int64_t groups, int64_t dilation,
                                           int64_t precision, const Tensor& packed, int64_t packed_id) {
  const ProductOperands o = transposed_operands(
      input, weight, bias, {stride, padding, output_padding, groups, dilation, precision});
  const auto cached = plan_for(o.key);
  return run_packed(o, *cached, packed, packed_id,
                    [&](const void* address) { return run_transposed(o, *cached, address); });
}

Tensor strided(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, OptionalLength length,
               int64_t stride, int64_t padding, int64_t groups, int64_t dilation, int64_t precision) {
  const ProductOperands o =
      strided_operands(input, weight, bias, length, {stride, padding, 0, groups, dilation, precision});
  return run_strided(o, *plan_for(o.key), nullptr);
}

std::tuple<Tensor, int64_t> strided_pack(const Tensor& input, const Tensor& weight,
                                         const OptionalTensor& bias, OptionalLength length, int64_t stride,
                                         int64_t padding, int64_t groups, int64_t dilation,
                                         int64_t precision) {
  const ProductOperands o =
      strided_operands(input, weight, bias, length, {stride, padding, 0, groups, dilation, precision});
  return pack_weight(o.key, *plan_for(o.key), o.weight);
}

std::tuple<Tensor, int64_t> strided_packed(const Tensor& input, const Tensor& weight,
                                           const OptionalTensor& bias, OptionalLength length, int64_t stride,
                                           int64_t padding, int64_t groups, int64_t dilation,
                                           int64_t precision, const Tensor& packed, int64_t packed_id) {
  const ProductOperands o =
      strided_operands(input, weight, bias, length, {stride, padding, 0, groups, dilation, precision});
  const auto cached = plan_for(o.key);
  return run_packed(o, *cached, packed, packed_id,
                    [&](const void* address) { return run_strided(o, *cached, address); });
}

// --- what users call --------------------------------------------------------------------------------------

// TORCH_BOX's own conversion to std::string leaks one string a call in PyTorch 2.10 and 2.11; the handle is
// taken as it is and freed here.
std::string take(StringHandle handle) {
  std::size_t length = 0;
  const char* data = nullptr;
  TORCH_ERROR_CODE_CHECK(torch_string_length(handle, &length));
  TORCH_ERROR_CODE_CHECK(torch_string_c_str(handle, &data));
  std::string text(data, length);
  TORCH_ERROR_CODE_CHECK(torch_delete_string(handle));
  return text;
}

int64_t number_of(const std::string& word) {
  if (word == "ieee") return TCONV_IEEE;
  if (word == "tf32") return TCONV_TF32;
  if (word == "auto") return kAmbientPrecision;
  refuse("precision is '" + word + "': must be 'ieee', 'tf32' or 'auto'");
}

Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, int64_t stride,
                        int64_t padding, int64_t output_padding, int64_t groups, int64_t dilation,
                        StringHandle precision) {
  return forward(input, weight, bias, stride, padding, output_padding, groups, dilation,
                 number_of(take(precision)));
}

Tensor conv1d(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, int64_t stride,
              int64_t padding, int64_t dilation, int64_t groups, StringHandle precision) {
  const int64_t number = number_of(take(precision));
  return strided(input, weight, bias, std::nullopt, stride, padding, groups, dilation, number);
}

// device: "cpu", "cuda:<index>", or the name of a GPU that need not be there ("h200").
std::string explain(StringHandle problem_text, StringHandle device_text, int64_t threads) {
  const std::string text = take(problem_text), device = take(device_text);
  tconv::PlanOptions options;
  options.threads = static_cast<int32_t>(threads);
  if (device != "cpu") options.device = TCONV_CUDA;
  if (device.starts_with("cuda:")) {
    options.device_index = std::stoi(device.substr(5));
  } else if (device != "cpu") {
    options.device_name = device.c_str();
  }
  return std::string(tconv::Plan(tconv::Problem::parse(text), options).explain());
}

std::tuple<int64_t, int64_t, int64_t> cache_use_now() {
  const CacheUse use = cache_use();
  return {use.plans, use.bytes, use.layouts};
}

std::string build_info() {
  return tconv_build_info();
}

}  // namespace
}  // namespace tconv::torch_binding

// The numbers of every operator but the lengths are plain: PyTorch compiles anew where they change.
#define TCONV_TRANSPOSED                                                                         \
  "(Tensor input, Tensor weight, Tensor? bias, int stride, int padding, SymInt output_padding, " \
  "int groups, int dilation, "
#define TCONV_STRIDED                                                                                 \
  "(Tensor input, Tensor weight, Tensor? bias, SymInt? length, int stride, int padding, int groups, " \
  "int dilation, int precision"

STABLE_TORCH_LIBRARY(tconv, m) {
  m.def("conv_transpose1d" TCONV_TRANSPOSED "str precision) -> Tensor");
  m.def(
      "conv1d(Tensor input, Tensor weight, Tensor? bias, int stride, int padding, int dilation, int groups, "
      "str precision) -> Tensor");
  m.def("forward" TCONV_TRANSPOSED "int precision) -> Tensor");
  m.def("pack" TCONV_TRANSPOSED "int precision) -> (Tensor, int)");
  m.def("forward_packed" TCONV_TRANSPOSED "int precision, Tensor packed, int packed_id) -> (Tensor, int)");
  m.def("strided" TCONV_STRIDED ") -> Tensor");
  m.def("strided_pack" TCONV_STRIDED ") -> (Tensor, int)");
  m.def("strided_packed" TCONV_STRIDED ", Tensor packed, int packed_id) -> (Tensor, int)");
  m.def(
      "weight(Tensor input, Tensor grad, int kernel_size, int stride, int padding, int groups, int dilation, "
      "int precision) -> Tensor");
  m.def("bias(Tensor grad) -> Tensor");
  m.def(
      "weight_bias(Tensor input, Tensor grad, int kernel_size, int stride, int padding, int groups, "
      "int dilation, int precision, bool bias_of_input) -> (Tensor, Tensor)");
  m.def("explain(str problem, str device, int threads) -> str");
  m.def("cache_use() -> (int, int, int)");
  m.def("build_info() -> str");
}

namespace {

void register_kernels(torch::stable::detail::StableLibrary& m) {
  m.impl("conv_transpose1d", TORCH_BOX(&tconv::torch_binding::conv_transpose1d));
  m.impl("conv1d", TORCH_BOX(&tconv::torch_binding::conv1d));
  m.impl("forward", TORCH_BOX(&tconv::torch_binding::forward));
  m.impl("pack", TORCH_BOX(&tconv::torch_binding::pack));
  m.impl("forward_packed", TORCH_BOX(&tconv::torch_binding::forward_packed));
  m.impl("strided", TORCH_BOX(&tconv::torch_binding::strided));
  m.impl("strided_pack", TORCH_BOX(&tconv::torch_binding::strided_pack));
  m.impl("strided_packed", TORCH_BOX(&tconv::torch_binding::strided_packed));
  m.impl("weight", TORCH_BOX(&tconv::torch_binding::weight));
  m.impl("bias", TORCH_BOX(&tconv::torch_binding::bias));
  m.impl("weight_bias", TORCH_BOX(&tconv::torch_binding::weight_bias));
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(tconv, CPU, m) {
  register_kernels(m);
}
STABLE_TORCH_LIBRARY_IMPL(tconv, CUDA, m) {
  register_kernels(m);
}
STABLE_TORCH_LIBRARY_IMPL(tconv, CompositeExplicitAutograd, m) {
  m.impl("explain", TORCH_BOX(&tconv::torch_binding::explain));
  m.impl("cache_use", TORCH_BOX(&tconv::torch_binding::cache_use_now));
  m.impl("build_info", TORCH_BOX(&tconv::torch_binding::build_info));
}
