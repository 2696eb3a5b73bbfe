#include "cuda/sm90/blocked.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/entries.hpp"
#include "cuda/host/bias_alone.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/ordered_sum.hpp"
#include "cuda/host/tensor_map.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/no_wgmma.hpp"
#include "cuda/sm90/pack_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

class Sm90Blocked final : public plan::Kernel {
 public:
  Sm90Blocked(const Problem& problem, const core::DeviceInfo& device, const Sm90BlockedPlan& plan)
      : asked_(problem),
        device_(device),
        plan_(plan),
        packing_(sm90_packing(plan.form.product, plan.main.mode, plan.main.config.scaled)) {}

  // Where operands are scaled: raw weights, then packed ones.
  std::size_t packed_bytes() const override { return static_cast<std::size_t>(packed_at() + packing_.bytes); }
  std::string pack_key() const override {
    return tensor_pack_key(kSm90Blocked.name, asked_, plan_.main.phases) + key_of(plan_.form) +
           (scaled() ? " scaled" : "");
  }
  bool reads_raw() const override { return scaled(); }
  std::size_t raw_workspace_bytes() const override {
    return static_cast<std::size_t>(raw_packed_size()) + workspace_bytes();
  }
  std::size_t table_bytes() const override { return sizeof(*this); }
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(blocks_at() + plan_.bytes + plan_.tail_bytes);
  }
  std::string describe() const override { return cuda::describe(plan_); }
  std::vector<plan::StageLine> stages() const override {
    return sm90_with_packing(cuda::stages(plan_, asked_), plan_.main, plan_.form, device_);
  }
  std::string where(int64_t element) const override {
    return cuda::where(plan_.main, plan_.form.product, element);
  }
  double predicted_ms() const override { return plan_.total_ms(); }

  Status pack(const void* weight, void* packed, const plan::RunContext& context) const override {
    const Launcher launcher(kSm90Blocked.name, asked_, device_, context);
    if (!scaled()) {
      return sm90_pack(launcher, plan_.main, plan_.form, device_, weight, packed, Sm90Packs::plain,
                       context.pack_once);
    }
    const Status packs = sm90_pack(launcher, plan_.main, plan_.form, device_, weight, packed,
                                   Sm90Packs::scaled, context.pack_once);
    const std::size_t bytes = static_cast<std::size_t>(asked_.weight_elements()) * size_of(asked_.dtype);
    return packs.ok() ? copy(device_, packed, weight, bytes, context.stream) : packs;
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm90Blocked.name, asked_, device_, context);
    const Status status = launcher.check(operands);
    return status.ok() ? run_packed(launcher, operands, operands.weight, context) : status;
  }

  Status run_raw(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm90Blocked.name, asked_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    status = sm90_pack(launcher, plan_.main, plan_.form, device_, operands.weight, context.workspace,
                       Sm90Packs::scaled, true);
    if (!status.ok()) return status;
    plan::Operands packed = operands;
    packed.weight = context.workspace;
    plan::RunContext rest = context;
    rest.workspace += raw_packed_size();
    rest.just_packed = true;
    return run_packed(launcher, packed, operands.weight, rest);
  }

 private:
  bool scaled() const { return plan_.main.config.scaled; }
  int64_t packed_at() const { return scaled() ? plan_.main.packed_at : 0; }
  int64_t raw_packed_size() const { return round_up<int64_t>(static_cast<int64_t>(packed_bytes()), 256); }

  // raw: the weights as the caller has them, if operands are scaled.
  Status run_packed(const Launcher& launcher, const plan::Operands& operands, const void* raw,
                    const plan::RunContext& context) const {
    Status status = plan_.main.config.turned ? run_turned(launcher, operands, context)
                    : scaled()               ? run_scaled(launcher, operands, raw, context)
                                             : run_blocks(launcher, operands, context);
    const Problem& f = plan_.form.product;
    if (status.ok() && plan_.main.params.pass.partial) {
      status = sum_partials(launcher, f, operands, context.workspace, sm90_sum_params(plan_.main, f));
    }
    return status.ok() ? store_bias_alone(launcher, asked_, operands, BiasStored::none) : status;
  }

  const void* input(const plan::Operands& operands) const {
    return asked_.operation == core::Operation::transposed ? operands.x : operands.grad_output;
  }
  Sm90Operands main_operands(const void* x, const plan::Operands& operands,
                             const plan::RunContext& context) const {
    return {x, static_cast<const std::byte*>(operands.weight) + packed_at(),
            asked_.has_bias ? operands.bias : nullptr,
            plan_.main.params.pass.partial ? context.workspace : operands.output};
  }

  // If the pass is longer, what waits for it hinders it.
  static constexpr int64_t kShortPass = 64'000'000;  // bytes

  // The pass and the main kernel.
  Status run_blocks(const Launcher& launcher, const plan::Operands& operands,
                    const plan::RunContext& context) const {
    std::byte* const first = context.workspace + blocks_at() + 16 * plan_.slack;
    Sm90BlockingParams blocking = plan_.blocking;
    blocking.from = input(operands);
    blocking.to = first;
    blocking.order = {context.just_packed, plan_.bytes < kShortPass};
    const Sm90BlockedFunctions functions =
        by_arithmetic(plan_.main.mode, sm90_blocked_tf32, sm90_blocked_f16, sm90_blocked_bf16)();
    const auto log = static_cast<std::size_t>(blocked_words(blocking, size_of(asked_.dtype)));
    const Status status =
        launcher.run(functions.blocking[log], {plan_.blocking_blocks, kSm90BlockingThreads}, blocking);
    if (!status.ok()) return status;
    Sm90GatherParams params = gather_params(plan_.main.params);
    params.operands = main_operands(first + 16 * int64_t{blocking.front}, operands, context);
    return launcher.run(
        functions.tiles[plan_.main.params.pass.lines][plan_.main.config.tile],
        {plan_.main.blocks, sm90_blocked_threads(sm90_tile(plan_.main.config).n), plan_.main.shared_bytes},
        params);
  }

  // The look, the pass, the pass that stands by (if the look is at a sample), and the main kernel.
  Status run_scaled(const Launcher& launcher, const plan::Operands& operands, const void* raw,
                    const plan::RunContext& context) const {
    const bool split = plan_.main.mode == Arithmetic::ieee;
    const Sm90ScaledFunctions functions = split ? sm90_blocked_split() : sm90_blocked_scaled();
    Sm90BlockedLookParams look = sm90_look_params(plan_, input(operands));
    look.seen = sm90_seen_at(plan_, context.workspace + seen_at());
    look.order.beside = context.just_packed;
    Status status = launcher.run(functions.look[static_cast<int>(sm90_look_way(look))],
                                 {plan_.scales * plan_.seen.shares, kSm90BlockingThreads}, look);
    if (!status.ok()) return status;
    std::byte* const first = context.workspace + blocks_at() + 16 * plan_.slack;
    Sm90ScaledBlockingParams blocking{plan_.blocking, look.seen, plan_.part_units};
    blocking.from = input(operands);
    blocking.to = first;
    const bool sampled = plan_.main.config.sampled;
    blocking.order.lets_begin = !sampled && plan_.bytes < kShortPass;
    const auto log = static_cast<std::size_t>(blocked_words(blocking, size_of(asked_.dtype)));
    status = launcher.run(functions.blocking[log], {plan_.blocking_blocks, kSm90BlockingThreads}, blocking);
    if (status.ok() && sampled)
      status = launcher.run(functions.again[log], {again_blocks(), kSm90BlockingThreads}, blocking);
    if (!status.ok()) return status;
    Sm90ScaledParams params = scaled_params(look.seen);
    params.operands = main_operands(first + 16 * int64_t{blocking.front}, operands, context);
    params.raw.x = input(operands);
    params.raw.weight = raw;
    const int threads = sm90_blocked_threads(sm90_tile(plan_.main.config).n, split ? 2 : 1);
    return launcher.run(functions.tiles[plan_.main.params.pass.lines][plan_.main.config.tile],
                        {plan_.main.blocks, threads, plan_.main.shared_bytes}, params);
  }
  // Of the pass that stands by: few, since they mostly find nothing to do.
  int64_t again_blocks() const {
    return std::min<int64_t>(plan_.blocking_blocks, 4LL * std::max(1, device_.sm_count));
  }
  Sm90ScaledParams scaled_params(const Sm90BlockedSeen& seen) const {
    const Sm90BlockingParams& b = plan_.blocking;
    const Sm90Sizes& sizes = plan_.main.params.sizes;
    Sm90ScaledParams k{
        gather_params(plan_.main.params), seen, plan_.part_units, b.row_samples, b.pitch, b.front,
        sizes.step * (sizes.taps - 1),    {}};
    k.marks.least_sum = sm90_least_sum(plan_.main);
    std::copy_n(b.from_step, 3, k.raw.x_step);
    k.raw.channels = b.channels;
    k.raw.weights = plan_.form.weights;
    return k;
  }

  // The main kernel alone.
  Status run_turned(const Launcher& launcher, const plan::Operands& operands,
                    const plan::RunContext& context) const {
    Sm90TurnedParams params{gather_params(plan_.main.params), plan_.raw};
    params.operands = main_operands(input(operands), operands, context);
    params.order.beside = context.just_packed;
    if (const Status made = make_maps(params); !made.ok()) return made;
    const Sm90TurnedFunctions functions =
        by_arithmetic(plan_.main.mode, sm90_turned_tf32, sm90_turned_f16, sm90_turned_bf16)();
    return launcher.run(
        functions.tiles[plan_.main.params.pass.lines][plan_.main.config.tile],
        {plan_.main.blocks, sm90_blocked_threads(sm90_tile(plan_.main.config).n), plan_.main.shared_bytes},
        params);
  }

  // One map for each class of rows, from the 16 bytes on in which the class's first row begins.
  Status make_maps(Sm90TurnedParams& params) const {
    constexpr int kRows = 8;
    const int bytes = static_cast<int>(size_of(asked_.dtype));
    Sm90RawSource& raw = params.raw;
    const int64_t classes = int64_t{1} << raw.log_classes, channels = plan_.form.deep.units.channels;
    const int64_t row = params.sizes.x_step[1] * bytes, step = row * classes;
    const int64_t groups = plan_.form.product.groups, samples = plan_.form.product.n;
    for (int64_t i = 0; i < classes; ++i) {
      TensorShape rows{
          static_cast<const std::byte*>(params.operands.x) + i * row,
          bytes,
          {plan_.form.deep.length, ceil_div(channels - i, classes), groups, samples},
          {step, groups > 1 ? row * channels : step, samples > 1 ? params.sizes.x_step[0] * bytes : step},
          {raw.box, kRows, 1, 1}};
      rows.rounded = plan_.main.mode == Arithmetic::tf32;
      raw.late[i] = static_cast<int32_t>(begin_on_boundary(rows));
      if (const Status made = make_tensor_map(rows, raw.maps[i].box); !made.ok()) return made;
      if (raw.inner < 0) continue;
      // Boxes that follow each other, as a dimension of their own.
      TensorShape shares{
          rows.address,
          bytes,
          {rows.sizes[0] - int64_t{raw.share - 1} * raw.step, rows.sizes[1], raw.share, groups, samples},
          {step, int64_t{raw.step} * bytes, rows.steps[1], rows.steps[2]},
          {raw.box, kRows, raw.share, 1, 1}};
      shares.rounded = rows.rounded;
      if (const Status made = make_tensor_map(shares, raw.maps[i].share); !made.ok()) return made;
    }
    return {};
  }

  // The workspace holds partial sums, then what is known of x, then channel blocks.
  int64_t seen_at() const { return round_up<int64_t>(plan_.main.partial_bytes, 256); }
  int64_t blocks_at() const { return seen_at() + sm90_seen_bytes(plan_); }

  Problem asked_;
  core::DeviceInfo device_;
  Sm90BlockedPlan plan_;
  Sm90Packing packing_;
};

std::string refusal(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = no_transposed_form(p); !words.empty()) return words;
  if (std::string far = core::beyond_tiles(p); !far.empty()) return far;  // of x as it lies in memory
  if (std::string words = no_wgmma(device); !words.empty()) return words;
  if (p.dtype == core::DType::f64) return "dtype f64: wgmma has no float64";
  const Problem f = transposed_form(p).product;
  if (options.batch_invariant) return "batch_invariant: the split depends on n";
  Problem plain = f;  // the pass takes x in any steps
  plain.x_contiguous = true;
  plain.x_stride = {0, 0, 0};
  if (Support takes = tensor_supports(plain); !takes.ok) return takes.reason;
  return "";
}

Support supports(const Problem& p, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  const bool forced = options.force_kernel == kSm90Blocked.name;
  if (std::string words = refusal(p, device, options); !words.empty()) return Support::no(std::move(words));
  const Sm90BlockedPlan plan = sm90_blocked_plan(p, device);
  if (plan.main.blocks == 0) return Support::no("its stages do not fit in shared memory");
  if (forced) return Support::yes();
  return supports_choice(kSm90Blocked, p, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions&) {
  return std::make_unique<Sm90Blocked>(problem, device, sm90_blocked_plan(problem, device));
}

}  // namespace

std::unique_ptr<const plan::Kernel> sm90_blocked_kernel(const Problem& problem,
                                                        const core::DeviceInfo& device,
                                                        const Sm90Config& config) {
  return std::make_unique<Sm90Blocked>(problem, device, sm90_blocked_plan_of(problem, device, config));
}

bool sm90_blocked_takes(const Problem& p, const core::DeviceInfo& device) {
  return refusal(p, device, {}).empty();
}

const plan::KernelEntry kSm90Blocked = {.name = "cuda.sm90.blocked",
                                        .summary = "many channels by wgmma, x in channel blocks",
                                        .device = core::DeviceKind::cuda,
                                        .supports = supports,
                                        .make = make,
                                        .y_steps = true,
                                        .strided_bias = true};

}  // namespace tconv::cuda
