#include "pytorch_convolution.hpp"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/ops.h>

#include <array>
#include <utility>

// In libtorch_cuda.so, so absent in a PyTorch without CUDA, which never calls this.
extern "C" {
__attribute__((weak)) AOTITorchError aoti_torch_cuda_convolution(
    AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const int64_t* stride,
    int64_t stride_len, const int64_t* padding, int64_t padding_len, const int64_t* dilation,
    int64_t dilation_len, int32_t transposed, const int64_t* output_padding, int64_t output_padding_len,
    int64_t groups, AtenTensorHandle* result);
__attribute__((weak)) AOTITorchError aoti_torch_cuda_convolution_backward(
    AtenTensorHandle grad, AtenTensorHandle input, AtenTensorHandle weight, const int64_t** bias_sizes,
    int64_t bias_sizes_len, const int64_t* stride, int64_t stride_len, const int64_t* padding,
    int64_t padding_len, const int64_t* dilation, int64_t dilation_len, int32_t transposed,
    const int64_t* output_padding, int64_t output_padding_len, int64_t groups, const int32_t* output_mask,
    int64_t output_mask_len, AtenTensorHandle* of_input, AtenTensorHandle* of_weight,
    AtenTensorHandle* of_bias);
}

namespace tconv::torch_binding {
namespace {

Tensor empty(const Tensor& like, const std::array<int64_t, 3>& sizes) {
  const std::array<int64_t, 3> strides = {sizes[1] * sizes[2], sizes[2], 1};
  int32_t dtype = 0, device_type = 0, device_index = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(like.get(), &dtype));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &device_index));
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_empty_strided(3, sizes.data(), strides.data(), dtype, device_type, device_index, &handle));
  return Tensor(handle);
}

// (n, channels, length) with the strides of a fresh tensor, also where a size is 1: others make cuDNN take
// another memory format, for which it may find no engine, or one that faults.
Tensor dense(Tensor tensor) {
  if (tensor.dim() == 2) tensor = torch::stable::unsqueeze(tensor, 0);
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  if (strides[2] == 1 && strides[1] == sizes[2] && strides[0] == sizes[1] * sizes[2]) return tensor;
  Tensor copy = empty(tensor, {sizes[0], sizes[1], sizes[2]});
  return torch::stable::copy_(copy, tensor);
}

}  // namespace

Tensor pytorch_strided(const PlanKey& key, const Tensor& y, const Tensor& weight,
                       const std::optional<Tensor>& bias) {
  const tconv_problem& p = key.problem;
  const Tensor input = dense(y), w = dense(weight);
  AtenTensorHandle bias_handle = bias ? bias->get() : nullptr, made = nullptr;
  const int64_t zero = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_cuda_convolution(input.get(), w.get(), bias ? &bias_handle : nullptr,
                                                     &p.stride, 1, &p.padding, 1, &p.dilation, 1, 0, &zero, 1,
                                                     p.groups, &made));
  Tensor output(made);
  if (output.sizes()[2] > p.l) {  // where output_padding is a stride or more
    output = torch::stable::contiguous(torch::stable::narrow(output, 2, 0, p.l));
  }
  return y.dim() == 2 ? torch::stable::squeeze(output, 0) : output;
}

Tensor pytorch_weight(const PlanKey& key, const Tensor& x, const Tensor& y) {
  const tconv_problem& p = key.problem;
  const Tensor input = dense(x), grad = dense(y);
  const Tensor unread = empty(x, {p.cin, p.cout / p.groups, p.k});
  const std::array<int32_t, 3> wanted = {0, 1, 0};
  AtenTensorHandle of_input = nullptr, of_weight = nullptr, of_bias = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_cuda_convolution_backward(
      grad.get(), input.get(), unread.get(), nullptr, 0, &p.stride, 1, &p.padding, 1, &p.dilation, 1, 1,
      &p.output_padding, 1, p.groups, wanted.data(), 3, &of_input, &of_weight, &of_bias));
  for (AtenTensorHandle unused : {of_input, of_bias}) {
    if (unused != nullptr) TORCH_ERROR_CODE_CHECK(aoti_torch_delete_tensor_object(unused));
  }
  return torch::stable::contiguous(Tensor(of_weight));
}

Tensor pytorch_bias(const Tensor& y) {
  const std::array<int64_t, 2> batch_and_length = {0, 2}, length = {1, 0};
  return torch::stable::sum(y, torch::headeronly::IntHeaderOnlyArrayRef(
                                   y.dim() == 3 ? batch_and_length.data() : length.data(), y.dim() - 1));
}

}  // namespace tconv::torch_binding
