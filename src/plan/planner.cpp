#include "plan/planner.hpp"

#include <algorithm>
#include <cstdlib>

#include "plan/float_environment.hpp"
#include "plan/registry.hpp"
#include "plan/with_copies.hpp"
#include "plan/with_grad_bias.hpp"

namespace tconv::plan {
namespace {

using core::Code;
using core::Result;
using core::Status;

constexpr const char* kVariable = "TCONV_FORCE_KERNEL";

// Elements with gaps from which on copies pay: for kernels that read rows, and for those whose own pass
// writes the operand as they need it. Of 180 problems in place and copied, the choice takes at most 1.1 times
// as long as the faster way for all but 6, and at worst 1.33 times (H200).
constexpr int64_t kMany = 1 << 19, kManyInPasses = 1 << 21;
constexpr double kSure = 0.9;  // of the time: what another kernel has to promise to be worth the copies

const KernelEntry* entry_of(const std::string& name) {
  for (const KernelEntry* entry : registry()) {
    if (name == entry->name) return entry;
  }
  return nullptr;
}

Status unknown(const std::string& what, const std::string& name) {
  std::string known;
  for (const KernelEntry* entry : registry()) known += (known.empty() ? "" : ", ") + std::string(entry->name);
  return {Code::invalid_argument, what + " is '" + name + "': no such kernel; the kernels are " + known};
}

// Whether a problem has no gradient of a bias, or the entry's kernel writes it.
bool adds_grad_bias(const KernelEntry& entry, const core::Problem& problem, const core::DeviceInfo& device) {
  return !problem.writes_grad_bias() || (entry.grad_bias != nullptr && entry.grad_bias(problem, device));
}

// What an entry sees of the problem: kernels that leave the gradient of the bias to another know nothing of
// it.
core::Problem own_part(const KernelEntry& entry, const core::Problem& problem,
                       const core::DeviceInfo& device) {
  core::Problem part = problem;
  if (!adds_grad_bias(entry, problem, device)) part.has_bias = part.bias_of_x = false;
  return part;
}

// What the kernel must have is checked first, so that supports() need not know about it.
Support supports(const KernelEntry& entry, const core::Problem& problem, const core::DeviceInfo& device,
                 const PlanOptions& options) {
  const epilogue::Features missing = options.features.without(entry.features);
  if (!missing.empty()) return Support::no("it has no " + missing.text());
  if (!entry.y_steps && !problem.y_contiguous) return Support::no("y is not contiguous");
  const bool bias = problem.operation == core::Operation::strided && problem.has_bias;
  if (!entry.strided_bias && bias) return Support::no("it does not add the bias of a strided product");
  return entry.supports(own_part(entry, problem, device), device, options);
}

// Features that no kernel of the device has, whatever the problem.
Status check_features(const core::DeviceInfo& device, const PlanOptions& options) {
  epilogue::Features missing = options.features;
  for (const KernelEntry* entry : registry()) {
    if (entry->device == device.kind) missing = missing.without(entry->features);
  }
  if (missing.empty()) return {};
  return {Code::unsupported,
          "the plan needs " + missing.text() + ", which no kernel on " + device.name + " has"};
}

// Takes the entry if it supports the problem. `by` says who forces it.
Status force(Plan& plan, const KernelEntry* entry, const std::string& by) {
  const std::string start = std::string("kernel ") + entry->name + " is forced" + by + ", but ";
  if (entry->device != plan.device.kind) {
    return {Code::unsupported, start + "it does not run on " + plan.device.name};
  }
  plan.options.force_kernel = entry->name;
  const Support support = supports(*entry, plan.problem, plan.device, plan.options);
  if (!support.ok) return {Code::unsupported, start + "it refuses: " + support.reason};
  plan.entry = entry;
  return {};
}

// A build without CUDA does not know the names of CUDA kernels, and leaves them to builds that do.
bool of_absent_cuda(const std::string& name) {
  if (name.rfind("cuda.", 0) != 0) return false;
  for (const KernelEntry* entry : registry()) {
    if (entry->device == core::DeviceKind::cuda) return false;
  }
  return true;
}

// The environment names one kernel, and the process may plan for several devices: plans for the others stay
// as they are, and say so.
Status force_by_environment(Plan& plan, const std::string& name) {
  const KernelEntry* entry = entry_of(name);
  if (entry == nullptr && !of_absent_cuda(name)) return unknown(kVariable, name);
  if (entry != nullptr && entry->device == plan.device.kind) {
    return force(plan, entry, std::string(" by ") + kVariable);
  }
  plan.note =
      std::string(kVariable) + " is " + name + ", which does not run on this device: it changes nothing";
  return {};
}

// The first entry that takes the problem, or null; the reasons of those before it.
const KernelEntry* first_of(const core::Problem& problem, const core::DeviceInfo& device,
                            const PlanOptions& options, std::vector<Refused>& refused) {
  for (const KernelEntry* entry : registry()) {
    if (entry->device != device.kind) continue;
    Support support = supports(*entry, problem, device, options);
    if (support.ok) return entry;
    refused.push_back({entry, std::move(support.reason)});
  }
  return nullptr;
}

Status none_takes(const char* what, const core::DeviceInfo& device, const std::vector<Refused>& refused) {
  std::string why;
  for (const Refused& r : refused) why += std::string("; ") + r.entry->name + ": " + r.reason;
  return {Code::unsupported, "no kernel on " + device.name + " takes " + what + why};
}

// The problem that the kernels see.
core::Problem seen(const Plan& plan) {
  return plan.copies ? on_copies(plan.problem) : plan.problem;
}

std::unique_ptr<const Kernel> made(const KernelEntry& entry, const core::Problem& problem, const Plan& plan) {
  return entry.make(own_part(entry, problem, plan.device), plan.device, plan.options);
}

// What decides whether operands are copied: one sample, if the bits must not depend on the batch.
core::Problem deciding(const Plan& plan) {
  core::Problem problem = plan.problem;
  if (plan.options.batch_invariant) problem.n = std::min<int64_t>(problem.n, 1);
  return problem;
}

// Whether copies and `entry` behind them take less time than the plan's entry, which reads what lies there. A
// kernel's model does not know gaps.
bool copies_pay(const Plan& plan, const KernelEntry& entry) {
  const core::Problem problem = deciding(plan);
  const bool gaps = has_gaps(problem);
  if (&entry == plan.entry && !gaps) return false;
  const std::unique_ptr<const Kernel> here = made(*plan.entry, problem, plan);
  if (gaps) {
    const int64_t bytes = copied_bytes(problem),
                  elements = bytes / static_cast<int64_t>(size_of(problem.dtype));
    const bool copies_itself = here->workspace_bytes() >= static_cast<std::size_t>(bytes);
    if (elements >= (copies_itself ? kManyInPasses : kMany)) return true;
  }
  if (&entry == plan.entry) return false;
  const double here_ms = here->predicted_ms();
  const double there_ms = made(entry, on_copies(problem), plan)->predicted_ms();
  return here_ms == 0 || (there_ms > 0 && there_ms + copies_ms(problem, plan.device) < kSure * here_ms);
}

// The whole batch has to fit: one beyond memory is read in place, even if the bits must not depend on it.
void choose_copies(Plan& plan) {
  if (!may_copy(plan.problem, plan.device)) return;
  std::vector<Refused> refused;
  const KernelEntry* const entry = first_of(on_copies(plan.problem), plan.device, plan.options, refused);
  if (entry == nullptr || !copies_pay(plan, *entry)) return;
  plan.copies = true;
  plan.entry = entry;
  plan.refused = std::move(refused);
}

Status choose(Plan& plan) {
  plan.entry = first_of(plan.problem, plan.device, plan.options, plan.refused);
  if (plan.entry == nullptr) return none_takes("the problem", plan.device, plan.refused);
  choose_copies(plan);
  return {};
}

// Makes the kernel; with one for the gradient of the bias behind it, where the entry does not compute it. Who
// forces a kernel forces that of the weight.
Status make_kernel(Plan& plan) {
  const core::Problem problem = seen(plan);
  plan.kernel = plan.entry->make(own_part(*plan.entry, problem, plan.device), plan.device, plan.options);
  if (adds_grad_bias(*plan.entry, problem, plan.device)) return {};
  const core::Problem sums = grad_bias_of(problem);
  PlanOptions options = plan.options;
  options.force_kernel.clear();
  options.features = {};
  std::vector<Refused> refused;
  plan.bias_entry = first_of(sums, plan.device, options, refused);
  if (plan.bias_entry == nullptr) {
    return none_takes("the gradient of the bias", plan.device, refused);
  }
  plan.kernel =
      with_grad_bias(problem, std::move(plan.kernel), plan.bias_entry->make(sums, plan.device, options));
  return {};
}

}  // namespace

const std::string& kernel_of_environment() {
  static const std::string name = [] {
    const char* value = std::getenv(kVariable);
    return std::string(value == nullptr ? "" : value);
  }();
  return name;
}

std::size_t buffer_bytes(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

std::string Plan::name() const {
  return std::string(entry->name) + (bias_entry == nullptr ? "" : std::string(" + ") + bias_entry->name);
}

std::size_t Plan::packed_bytes() const {
  if (packs()) return kernel->packed_bytes();
  return problem.reads_weight() ? static_cast<std::size_t>(problem.weight_elements()) * size_of(problem.dtype)
                                : 0;
}

std::string Plan::pack_key() const {
  if (packs() || !problem.reads_weight()) return kernel->pack_key();
  return std::string("raw ") + name_of(problem.dtype) + " ci" + std::to_string(problem.cin) + " co" +
         std::to_string(problem.cout_per_group()) + " k" + std::to_string(problem.k);
}

std::size_t Plan::workspace_bytes(bool packed_weights) const {
  if (problem.output_elements() == 0) return 0;
  const std::size_t scratch = kernel->workspace_bytes();
  // Never less than with packed weights: a caller may use one workspace for both.
  if (!packed_weights && kernel->reads_raw()) return std::max(scratch, kernel->raw_workspace_bytes());
  return packed_weights ? scratch : buffer_bytes(kernel->packed_bytes()) + scratch;
}

std::size_t Plan::host_bytes() const {
  std::size_t bytes = sizeof(Plan) + kKernelBytes + kernel->table_bytes();
  for (const std::string* text : {&device.name, &device.simd, &options.force_kernel})
    bytes += text->capacity();
  bytes += refused.capacity() * sizeof(Refused);
  for (const Refused& r : refused) bytes += r.reason.capacity();
  return bytes;
}

Result<Plan> make_plan(const core::Problem& problem, const core::DeviceInfo& device,
                       const PlanOptions& options, const std::string& environment) {
  const PlanningFloatEnvironment float_environment;
  Status status = validate(problem);
  if (status.ok()) status = device.usable;
  if (status.ok()) status = check_features(device, options);
  if (!status.ok()) return status;
  Plan plan{problem, device, options, nullptr, nullptr, {}};
  if (plan.options.threads <= 0) plan.options.threads = device.threads;
  if (!options.force_kernel.empty()) {
    const KernelEntry* entry = entry_of(options.force_kernel);
    status = entry == nullptr ? unknown("force_kernel", options.force_kernel) : force(plan, entry, "");
  } else if (!environment.empty()) {
    status = force_by_environment(plan, environment);
  }
  if (status.ok() && plan.entry == nullptr) status = choose(plan);
  if (!status.ok()) return status;
  status = make_kernel(plan);
  if (!status.ok()) return status;
  if (plan.copies) plan.kernel = with_copies(plan.problem, plan.device, std::move(plan.kernel));
  return plan;
}

std::vector<const KernelEntry*> supporting(const core::Problem& problem, const core::DeviceInfo& device,
                                           const PlanOptions& options) {
  std::vector<const KernelEntry*> found;
  for (const KernelEntry* entry : registry()) {
    if (entry->device != device.kind) continue;
    PlanOptions forced = options;
    forced.force_kernel = entry->name;
    if (supports(*entry, problem, device, forced).ok) found.push_back(entry);
  }
  return found;
}

}  // namespace tconv::plan
