#include <memory>

#include "capi/convert.hpp"
#include "capi/structs.hpp"
#include "cpu/threads/pool.hpp"
#include "cuda/entries.hpp"
#include "plan/planner.hpp"
#include "plan/registry.hpp"

using tconv::capi::guarded;
using tconv::capi::refuse;
using tconv::core::DeviceInfo;
using tconv::core::DeviceKind;
using tconv::core::Result;
using tconv::core::Status;

struct tconv_plan {
  tconv::plan::Plan plan;
  tconv::core::Executor executor;
  std::string explanation;
  std::string pack_key, name;
};

namespace {

Result<DeviceInfo> device_of(const tconv_plan_options& options) {
  if (options.device_name != nullptr) {
    if (options.device == TCONV_CUDA) {
      auto named = tconv::core::named_device(options.device_name);
      if (named.ok()) return named;
      return Status(named.status().code(), "options->device_name: " + named.status().message());
    }
    return refuse("options->device_name is given: only device cuda has named devices");
  }
  if (options.device == TCONV_CUDA) return tconv::cuda::device_info(options.device_index);
  return tconv::cpu::host_device();
}

Status check_options(const tconv_plan_options& options) {
  if (options.device != TCONV_CPU && options.device != TCONV_CUDA) {
    return refuse("options->device is " + std::to_string(options.device) + ": must be 0 (cpu) or 1 (cuda)");
  }
  if (options.threads < 0 || options.threads > 4096) {
    return refuse("options->threads is " + std::to_string(options.threads) + ": must be 0 to 4096");
  }
  if (options.device_index < 0) {
    return refuse("options->device_index is " + std::to_string(options.device_index) + ": must be 0 or more");
  }
  return tconv::capi::check_flag("options->batch_invariant", options.batch_invariant);
}

Status create(const tconv_problem* problem, const tconv_plan_options* given, tconv_plan** out) {
  if (out == nullptr) return refuse("plan is null");
  *out = nullptr;
  tconv::core::Problem taken;
  Status status = tconv::capi::take_problem(problem, taken);
  tconv_plan_options options = {};
  if (status.ok() && given != nullptr) status = tconv::capi::read(given, options);
  if (status.ok()) status = check_options(options);
  if (!status.ok()) return status;
  Result<DeviceInfo> device = device_of(options);
  if (!device.ok()) return device.status();
  tconv::plan::PlanOptions plan_options;
  if (options.force_kernel != nullptr) plan_options.force_kernel = options.force_kernel;
  plan_options.threads = options.threads;
  plan_options.batch_invariant = options.batch_invariant != 0;
  auto made = tconv::plan::make_plan(taken, device.value(), plan_options);
  if (!made.ok()) return made.status();
  auto plan = std::make_unique<tconv_plan>(tconv_plan{std::move(made.value()), {}, {}, {}, {}});
  const int threads = plan->plan.options.threads;
  plan->executor = options.parallel_for == nullptr
                       ? tconv::cpu::pool_executor(threads)
                       : tconv::core::Executor{threads, options.parallel_for, options.executor_context};
  plan->explanation = explain(plan->plan);
  plan->pack_key = plan->plan.pack_key();
  plan->name = plan->plan.name();
  *out = plan.release();
  return {};
}

bool aligned(const void* pointer, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

// A tensor operand: not null if it is needed and not empty, and aligned to its elements.
Status check_tensor(const char* name, const void* pointer, bool needed, int64_t elements,
                    std::size_t element) {
  if (needed && elements > 0 && pointer == nullptr) return refuse(std::string(name) + " is null");
  if (!aligned(pointer, element)) {
    return refuse(std::string(name) + " is misaligned: it must be a multiple of its element's " +
                  std::to_string(element) + " bytes");
  }
  return {};
}

Status check_buffer(const char* name, const void* pointer) {
  if (aligned(pointer, TCONV_BUFFER_ALIGNMENT)) return {};
  return refuse(std::string(name) + " is misaligned: it must be a multiple of " +
                std::to_string(TCONV_BUFFER_ALIGNMENT) + " bytes");
}

std::size_t bytes_of_packed(const tconv::plan::Plan& plan) {
  return tconv::plan::buffer_bytes(plan.packed_bytes());
}

std::size_t bytes_of_workspace(const tconv::plan::Plan& plan, bool packed_weights) {
  return tconv::plan::buffer_bytes(plan.workspace_bytes(packed_weights));
}

Status check_workspace(const tconv::plan::Plan& plan, const tconv_arguments& a) {
  const std::size_t needed = bytes_of_workspace(plan, a.packed_weight != nullptr);
  if (a.workspace_bytes < needed) {
    return refuse("workspace_bytes is " + std::to_string(a.workspace_bytes) + ": the plan needs " +
                  std::to_string(needed));
  }
  if (needed > 0 && a.workspace == nullptr) {
    return refuse("workspace is null: the plan needs " + std::to_string(needed) + " bytes");
  }
  return check_buffer("workspace", a.workspace);
}

Status check_weights(const tconv::plan::Plan& plan, const tconv_arguments& a) {
  if (!plan.problem.reads_weight()) return {};
  if (a.weight == nullptr && a.packed_weight == nullptr)
    return refuse("weight is null, and packed_weight too");
  if (a.weight != nullptr && a.packed_weight != nullptr) {
    return refuse("weight and packed_weight are both given: give one of them");
  }
  return check_buffer("packed_weight", a.packed_weight);
}

Status check_arguments(const tconv::plan::Plan& plan, const tconv_arguments& a) {
  const tconv::core::Problem& p = plan.problem;
  const std::size_t element = size_of(p.dtype);
  const struct {
    const char* name;
    const void* pointer;
    bool needed;
    int64_t elements;
  } tensors[] = {{"x", a.x, p.reads_x(), p.x_elements()},
                 {"weight", a.weight, false, 0},
                 {"bias", a.bias, p.reads_bias(), p.bias_channels()},
                 {"grad_output", a.grad_output, p.reads_y(), p.y_elements()},
                 {"output", a.output, true, p.output_elements()},
                 {"grad_bias", a.grad_bias, p.writes_grad_bias(), p.grad_bias_elements()}};
  for (const auto& t : tensors) {
    Status status = check_tensor(t.name, t.pointer, t.needed, t.elements, element);
    if (!status.ok()) return status;
  }
  if (a.grad_bias != nullptr && !p.writes_grad_bias()) {
    return refuse("grad_bias is given: the problem writes no gradient of a bias");
  }
  Status status = check_weights(plan, a);
  return status.ok() ? check_workspace(plan, a) : status;
}

Status check_present(const tconv::plan::Plan& plan) {
  if (plan.device.present) return {};
  return {tconv::core::Code::unsupported,
          "the plan was made for a named device (" + plan.device.name + "): it can be explained, not run"};
}

}  // namespace

tconv_status tconv_plan_options_init_sized(tconv_plan_options* options, size_t struct_size) {
  return guarded([&] { return tconv::capi::write({}, options, struct_size); });
}

tconv_status tconv_arguments_init_sized(tconv_arguments* arguments, size_t struct_size) {
  return guarded([&] { return tconv::capi::write({}, arguments, struct_size); });
}

tconv_status tconv_plan_create(const tconv_problem* problem, const tconv_plan_options* options,
                               tconv_plan** plan) {
  return guarded([&] { return create(problem, options, plan); });
}

void tconv_plan_destroy(tconv_plan* plan) {
  delete plan;
}

const char* tconv_plan_kernel(const tconv_plan* plan) {
  return plan == nullptr ? "" : plan->name.c_str();
}

const char* tconv_plan_explain(const tconv_plan* plan) {
  return plan == nullptr ? "" : plan->explanation.c_str();
}

const char* tconv_plan_pack_key(const tconv_plan* plan) {
  return plan == nullptr ? "" : plan->pack_key.c_str();
}

size_t tconv_plan_packed_bytes(const tconv_plan* plan) {
  return plan == nullptr ? 0 : bytes_of_packed(plan->plan);
}

size_t tconv_plan_host_bytes(const tconv_plan* plan) {
  if (plan == nullptr) return 0;
  return plan->plan.host_bytes() + sizeof(tconv_plan) + plan->explanation.capacity() +
         plan->pack_key.capacity() + plan->name.capacity();
}

size_t tconv_plan_workspace_bytes(const tconv_plan* plan, int packed_weights) {
  return plan == nullptr ? 0 : bytes_of_workspace(plan->plan, packed_weights != 0);
}

tconv_status tconv_pack(const tconv_plan* plan, const void* weight, void* packed, size_t packed_bytes,
                        void* stream) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return refuse("plan is null");
    Status status = check_present(plan->plan);
    if (!status.ok()) return status;
    if (!plan->plan.problem.reads_weight()) return {};
    const std::size_t needed = bytes_of_packed(plan->plan);
    if (weight == nullptr) return refuse("weight is null");
    if (packed == nullptr) return refuse("packed is null");
    if (packed_bytes < needed) {
      return refuse("packed_bytes is " + std::to_string(packed_bytes) + ": the plan needs " +
                    std::to_string(needed));
    }
    status = check_tensor("weight", weight, true, 1, size_of(plan->plan.problem.dtype));
    if (status.ok()) status = check_buffer("packed", packed);
    if (!status.ok()) return status;
    return pack(plan->plan, weight, packed, {nullptr, plan->executor, stream});
  });
}

tconv_status tconv_run(const tconv_plan* plan, const tconv_arguments* arguments) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return refuse("plan is null");
    tconv_arguments a;
    Status status = tconv::capi::read(arguments, a);
    if (status.ok()) status = check_present(plan->plan);
    if (!status.ok()) return status;
    if (plan->plan.problem.output_elements() == 0) return {};  // nothing is read, so nothing is checked
    status = check_arguments(plan->plan, a);
    if (!status.ok()) return status;
    const bool packed = a.packed_weight != nullptr;
    const tconv::plan::Operands operands{
        a.x, packed ? a.packed_weight : a.weight, a.bias, a.grad_output, a.output, a.grad_bias};
    return run(plan->plan, operands, packed, {static_cast<std::byte*>(a.workspace), plan->executor, a.stream},
               a.workspace_bytes);
  });
}

const char* tconv_kernel_name(int32_t index) {
  const auto list = tconv::plan::registry();
  return index >= 0 && static_cast<std::size_t>(index) < list.size()
             ? list[static_cast<std::size_t>(index)]->name
             : nullptr;
}

#define TCONV_TEXT2(x) #x
#define TCONV_TEXT(x) TCONV_TEXT2(x)

const char* tconv_version(void) {
  return TCONV_TEXT(TCONV_VERSION_MAJOR) "." TCONV_TEXT(TCONV_VERSION_MINOR) "." TCONV_TEXT(
      TCONV_VERSION_PATCH);
}

const char* tconv_build_info(void) {
  static const std::string info = std::string("tconv ") + tconv_version() + ", " + tconv::cuda::build_text() +
                                  ", SIMD " + tconv::cpu::host_device().simd;
  return info.c_str();
}
