#include "launch.hpp"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

// In libtorch_cuda.so, so absent in a PyTorch without CUDA.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index,
                                                                                   void** ret_stream);

namespace tconv::torch_binding {
namespace {

using torch::stable::accelerator::DeviceGuard;

// The current device and stream of a CUDA call; nothing on the CPU.
class Queue {
 public:
  explicit Queue(const PlanKey& key) {
    if (key.device != TCONV_CUDA) return;
    if (aoti_torch_get_current_cuda_stream == nullptr) {
      throw std::runtime_error("tconv: input is on a CUDA device, but this PyTorch has no CUDA");
    }
    guard_.emplace(key.device_index);
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(key.device_index, &stream_));
  }
  void* stream() const { return stream_; }

 private:
  std::optional<DeviceGuard> guard_;
  void* stream_ = nullptr;
};

}  // namespace

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
    throw std::runtime_error(std::string("tconv: out of memory: PyTorch's allocator refused the ") + what +
                             " of " + std::to_string(elements) + " elements");
  }
  return Tensor(handle);
}

Tensor allocate_bytes(const char* what, const PlanKey& key, std::size_t bytes) {
  static const int32_t uint8 = aoti_torch_dtype_uint8();
  const int64_t size = static_cast<int64_t>(bytes);
  return allocate(what, key, uint8, 1, &size);
}

std::size_t padded(std::size_t bytes) {
  return bytes + TCONV_BUFFER_ALIGNMENT - 1;
}

void* aligned(void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return reinterpret_cast<void*>((address + TCONV_BUFFER_ALIGNMENT - 1) / TCONV_BUFFER_ALIGNMENT *
                                 TCONV_BUFFER_ALIGNMENT);
}

void launch(const PlanKey& key, const CachedPlan& cached, tconv_arguments& arguments) {
  const Queue queue(key);
  arguments.stream = queue.stream();
  arguments.workspace_bytes =
      arguments.packed_weight == nullptr ? cached.workspace_raw : cached.workspace_packed;
  // A tiny problem's workspace is on the stack: an allocation would cost as much as its arithmetic.
  alignas(TCONV_BUFFER_ALIGNMENT) std::byte small[4096];
  if (key.device == TCONV_CPU && arguments.workspace_bytes <= sizeof(small)) {
    arguments.workspace = small;
    cached.plan.run(arguments);
    return;
  }
  std::optional<Tensor> workspace;
  if (arguments.workspace_bytes > 0) {
    workspace = allocate_bytes("workspace", key, padded(arguments.workspace_bytes));
    arguments.workspace = aligned(workspace->data_ptr());
  }
  cached.plan.run(arguments);
}

std::pair<Tensor, int64_t> pack_weight(const PlanKey& key, const CachedPlan& cached, const Tensor& weight) {
  const Queue queue(key);
  Tensor packed = allocate_bytes("packed weights", key, padded(cached.packed_bytes));
  cached.plan.pack(weight.data_ptr(),
                   {static_cast<std::byte*>(aligned(packed.data_ptr())), cached.packed_bytes},
                   queue.stream());
  return {packed, cached.packed_id()};
}

const void* packed_address(const CachedPlan& cached, const Tensor& packed) {
  if (packed.numel() < static_cast<int64_t>(padded(cached.packed_bytes))) {
    throw std::runtime_error("tconv: packed is too small for its packed_id");
  }
  return aligned(packed.data_ptr());
}

}  // namespace tconv::torch_binding
