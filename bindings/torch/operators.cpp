// The operators of namespace tconv. Python's torch.ops.tconv.* reach them through PyTorch's dispatcher.
//
//   conv_transpose1d   what users and exported graphs call; Python registers its gradient, autocast and vmap
//   forward            the same without a gradient: a call that needs none is spared the Python of autograd
//   pack               weights in the layout that the plan reads, and that layout's id (0: raw weights)
//   forward_packed     forward with packed weights. Where the plan reads another layout than packed_id,
//   nothing
//                      is computed: the result is an empty tensor and the id that is needed
//   explain            the plan of a problem, in words
//   cache_use          plans kept, the bytes that they hold, packed layouts among them
//   build_info         what the library holds
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/ops.h>

#include <stdexcept>
#include <string>
#include <tuple>

#include "operands.hpp"

// In libtorch_cuda.so, hence absent in a PyTorch without CUDA.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index,
                                                                                   void** ret_stream);

namespace tconv::torch_binding {
namespace {

using torch::stable::accelerator::DeviceGuard;

// A dense tensor of this dtype on the device of the plan.
Tensor allocate(const char* what, const PlanKey& key, int32_t dtype, int64_t dim, const int64_t* sizes) {
  static const int32_t cpu = aoti_torch_device_type_cpu(), cuda = aoti_torch_device_type_cuda();
  int64_t strides[3];
  int64_t elements = 1;
  for (int64_t i = dim - 1; i >= 0; --i) {
    strides[i] = elements;
    elements *= sizes[i] > 0 ? sizes[i] : 1;
  }
  AtenTensorHandle handle = nullptr;
  const bool on_cuda = key.device == TCONV_CUDA;
  if (aoti_torch_empty_strided(dim, sizes, strides, dtype, on_cuda ? cuda : cpu, key.device_index, &handle) !=
      TORCH_SUCCESS) {
    throw std::runtime_error(
        std::string("conv_transpose1d: out of memory: PyTorch's allocator refused the ") + what + " of " +
        std::to_string(elements) + " elements");
  }
  return Tensor(handle);
}

Tensor allocate_bytes(const char* what, const PlanKey& key, std::size_t bytes) {
  static const int32_t uint8 = aoti_torch_dtype_uint8();
  const int64_t size = static_cast<int64_t>(bytes);
  return allocate(what, key, uint8, 1, &size);
}

// Room for the alignment that PyTorch's CPU allocator does not give.
std::size_t padded(std::size_t bytes) {
  return bytes + TCONV_BUFFER_ALIGNMENT - 1;
}
void* aligned(void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return reinterpret_cast<void*>((address + TCONV_BUFFER_ALIGNMENT - 1) / TCONV_BUFFER_ALIGNMENT *
                                 TCONV_BUFFER_ALIGNMENT);
}

// The current device and stream of a CUDA call; nothing on the CPU.
class Queue {
 public:
  explicit Queue(const PlanKey& key) {
    if (key.device != TCONV_CUDA) return;
    if (aoti_torch_get_current_cuda_stream == nullptr) {
      throw std::runtime_error("conv_transpose1d: input is on a CUDA device, but this PyTorch has no CUDA");
    }
    guard_.emplace(key.device_index);
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(key.device_index, &stream_));
  }
  void* stream() const { return stream_; }

 private:
  std::optional<DeviceGuard> guard_;
  void* stream_ = nullptr;
};

Tensor output_of(const Operands& o, int64_t lout) {
  const int64_t sizes[] = {o.key.problem.n, o.key.problem.cout, lout};
  return o.batched ? allocate("output", o.key, o.dtype, 3, sizes)
                   : allocate("output", o.key, o.dtype, 2, sizes + 1);
}

// packed is null where the weights are raw.
Tensor run(const Operands& o, const CachedPlan& cached, const void* packed) {
  const Queue queue(o.key);
  Tensor output = output_of(o, cached.lout);
  tconv_arguments a;
  tconv_arguments_init(&a);
  a.x = o.input.data_ptr();
  a.weight = packed == nullptr ? o.weight.data_ptr() : nullptr;
  a.packed_weight = packed;
  a.bias = o.bias ? o.bias->data_ptr() : nullptr;
  a.output = output.data_ptr();
  a.workspace_bytes = packed == nullptr ? cached.workspace_raw : cached.workspace_packed;
  a.stream = queue.stream();
  // A tiny problem's workspace is on the stack: an allocation would cost as much as its arithmetic.
  alignas(TCONV_BUFFER_ALIGNMENT) std::byte small[4096];
  if (o.key.device == TCONV_CPU && a.workspace_bytes <= sizeof(small)) {
    a.workspace = small;
    cached.plan.run(a);
    return output;
  }
  std::optional<Tensor> workspace;
  if (a.workspace_bytes > 0) {
    workspace = allocate_bytes("workspace", o.key, padded(a.workspace_bytes));
    a.workspace = aligned(workspace->data_ptr());
  }
  cached.plan.run(a);
  return output;
}

Tensor forward(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, int64_t stride,
               int64_t padding, int64_t output_padding, int64_t groups, int64_t dilation, int64_t precision) {
  if (precision < 0 || precision > 2) {
    throw std::runtime_error("conv_transpose1d: precision is " + std::to_string(precision) +
                             ": must be 0 (ieee), 1 (tf32) or 2 (as PyTorch is set)");
  }
  const Operands operands =
      check_operands(input, weight, bias,
                     {stride, padding, output_padding, groups, dilation, static_cast<Precision>(precision)});
  return run(operands, *plan_for(operands.key), nullptr);
}

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

Precision precision_of(const std::string& word) {
  if (word == "ieee") return Precision::ieee;
  if (word == "tf32") return Precision::tf32;
  if (word == "auto") return Precision::ambient;
  throw std::runtime_error("conv_transpose1d: precision is '" + word + "': must be 'ieee', 'tf32' or 'auto'");
}

Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                        int64_t stride, int64_t padding, int64_t output_padding, int64_t groups,
                        int64_t dilation, StringHandle precision) {
  return forward(input, weight, bias, stride, padding, output_padding, groups, dilation,
                 static_cast<int64_t>(precision_of(take(precision))));
}

std::tuple<Tensor, int64_t> pack(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                                 int64_t stride, int64_t padding, int64_t output_padding, int64_t groups,
                                 int64_t dilation, int64_t precision) {
  const Operands o =
      check_operands(input, weight, bias,
                     {stride, padding, output_padding, groups, dilation, static_cast<Precision>(precision)});
  const auto cached = plan_for(o.key);
  if (cached->packed_id() == 0) return {allocate_bytes("packed weights", o.key, 0), 0};
  const Queue queue(o.key);
  Tensor packed = allocate_bytes("packed weights", o.key, padded(cached->packed_bytes));
  cached->plan.pack(o.weight.data_ptr(),
                    {static_cast<std::byte*>(aligned(packed.data_ptr())), cached->packed_bytes},
                    queue.stream());
  return {packed, cached->packed_id()};
}

std::tuple<Tensor, int64_t> forward_packed(const Tensor& input, const Tensor& weight,
                                           const std::optional<Tensor>& bias, int64_t stride, int64_t padding,
                                           int64_t output_padding, int64_t groups, int64_t dilation,
                                           int64_t precision, const Tensor& packed, int64_t packed_id) {
  const Operands o =
      check_operands(input, weight, bias,
                     {stride, padding, output_padding, groups, dilation, static_cast<Precision>(precision)});
  const auto cached = plan_for(o.key);
  if (cached->packed_id() == 0) return {run(o, *cached, nullptr), packed_id};
  if (cached->packed_id() != packed_id) return {allocate_bytes("answer", o.key, 0), cached->packed_id()};
  if (packed.numel() < static_cast<int64_t>(padded(cached->packed_bytes))) {
    throw std::runtime_error("conv_transpose1d: packed is too small for its packed_id");
  }
  return {run(o, *cached, aligned(packed.data_ptr())), packed_id};
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

STABLE_TORCH_LIBRARY(tconv, m) {
  m.def(
      "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias, int stride, int padding, int "
      "output_padding, "
      "int groups, int dilation, str precision) -> Tensor");
  m.def(
      "forward(Tensor input, Tensor weight, Tensor? bias, int stride, int padding, int output_padding, "
      "int groups, int dilation, int precision) -> Tensor");
  m.def(
      "pack(Tensor input, Tensor weight, Tensor? bias, int stride, int padding, int output_padding, "
      "int groups, int dilation, int precision) -> (Tensor, int)");
  m.def(
      "forward_packed(Tensor input, Tensor weight, Tensor? bias, int stride, int padding, int "
      "output_padding, "
      "int groups, int dilation, int precision, Tensor packed, int packed_id) -> (Tensor, int)");
  m.def("explain(str problem, str device, int threads) -> str");
  m.def("cache_use() -> (int, int, int)");
  m.def("build_info() -> str");
}

namespace {

void register_kernels(torch::stable::detail::StableLibrary& m) {
  m.impl("conv_transpose1d", TORCH_BOX(&tconv::torch_binding::conv_transpose1d));
  m.impl("forward", TORCH_BOX(&tconv::torch_binding::forward));
  m.impl("pack", TORCH_BOX(&tconv::torch_binding::pack));
  m.impl("forward_packed", TORCH_BOX(&tconv::torch_binding::forward_packed));
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
