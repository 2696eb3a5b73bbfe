#include "cuda/sm90/dense.hpp"

#include "core/polyphase.hpp"
#include "cuda/host/bias_alone.hpp"
#include "cuda/host/choice.hpp"
#include "cuda/host/ordered_sum.hpp"
#include "cuda/host/tensor_map.hpp"
#include "cuda/host/zero.hpp"
#include "cuda/plan/form_kernel.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/sm90/cost.hpp"
#include "cuda/sm90/dense_plan.hpp"
#include "cuda/sm90/no_wgmma.hpp"
#include "cuda/sm90/pack_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

// One map of x, or several of all rows whatever their sample: each of every row_classes-th row, from the
// 16-byte boundary at or before its first element.
Status set_x_maps(Sm90TmaParams& k, const Problem& p, int channels) {
  const int classes = k.source.row_classes;
  if (classes == 1) {
    return make_rows_map(p, k.operands.x, k.sizes.x_step, k.source.width, channels, k.source.maps[0]);
  }
  const int64_t element = static_cast<int64_t>(core::size_of(p.dtype)), row = k.sizes.x_step[1] * element;
  const int64_t rows = (p.n - 1) * k.source.sample_rows + p.cin, step = row * classes;
  for (int m = 0; m < classes; ++m) {
    TensorShape shape{static_cast<const std::byte*>(k.operands.x) + m * row,
                      static_cast<int>(element),
                      {p.l, ceil_div(rows - m, int64_t{classes}), 1, 1},
                      {step, step, step},
                      {k.source.width, channels / classes, 1, 1}};
    begin_on_boundary(shape);
    if (const Status made = make_tensor_map(shape, k.source.maps[m]); !made.ok()) return made;
  }
  return {};
}

Sm90Kernels kernels_of(Arithmetic mode) {
  return {by_arithmetic(mode, sm90_tf32, sm90_ieee, sm90_f16, sm90_bf16)(),
          mode == Arithmetic::ieee ? sm90_split() : sm90_scaled()};
}

class Sm90Dense final : public FormKernel<Sm90Plan> {
 public:
  Sm90Dense(const Problem& problem, const core::DeviceInfo& device, const Sm90Plan& plan,
            const Sm90Kernels& kernels)
      : FormKernel(kSm90Dense.name, problem, device, plan), kernels_(kernels) {
    if (plan_.config.scaled) second_ = sm90_second(plan_, problem_, device_);
    set_deep(plan_);
    set_deep(second_);
  }

  // Only the object: two plans of parameters and the forms of the problem take over 4 kB.
  std::size_t table_bytes() const override { return sizeof(*this); }
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(planes_at() + form_.planes_bytes);
  }

  // Scaled operands: of raw weights the other layout is packed only if the main kernel marks a tile. Small
  // weights are packed in less time than one more launch takes.
  bool reads_raw() const override {
    constexpr int64_t kLarge = 2 << 20;  // bytes
    return plan_.config.scaled && 4 * asked_.weight_elements() >= kLarge;
  }
  std::size_t raw_workspace_bytes() const override {
    return static_cast<std::size_t>(packed_size()) + workspace_bytes();
  }

  std::vector<plan::StageLine> stages() const override {
    return sm90_with_packing(FormKernel::stages(), plan_, form_, device_);
  }

  Status pack(const void* weight, void* packed, const plan::RunContext& context) const override {
    const Launcher launcher(kSm90Dense.name, asked_, device_, context);
    const bool both = sm90_scales(plan_.mode) && (plan_.config.scaled || !context.pack_once);
    return sm90_pack(launcher, plan_, form_, device_, weight, packed,
                     both ? Sm90Packs::both : Sm90Packs::plain, context.pack_once);
  }

  Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm90Dense.name, asked_, device_, context);
    const Status status = launcher.check(operands);
    return status.ok() ? run_packed(launcher, operands, nullptr, context) : status;
  }

  Status run_raw(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSm90Dense.name, asked_, device_, context);
    Status status = launcher.check(operands);
    if (!status.ok()) return status;
    status = sm90_pack(launcher, plan_, form_, device_, operands.weight, context.workspace, Sm90Packs::scaled,
                       true);
    if (!status.ok()) return status;
    plan::Operands packed = operands;
    packed.weight = context.workspace;
    plan::RunContext rest = context;
    rest.workspace += packed_size();
    rest.just_packed = true;
    return run_packed(launcher, packed, operands.weight, rest);
  }

 private:
  int64_t packed_size() const { return round_up<int64_t>(static_cast<int64_t>(packed_bytes()), 256); }

  // raw: where only the scaled layout has been packed, the weights as they came.
  Status run_packed(const Launcher& launcher, const plan::Operands& operands, const void* raw,
                    const plan::RunContext& context) const {
    plan::Operands of_form = operands;
    Status status = form_input(form_, asked_, launcher, operands, context.workspace + planes_at(),
                               {context.just_packed, true}, of_form.x);
    if (status.ok()) status = launch(launcher, plan_, of_form, context, false);
    if (status.ok() && raw != nullptr) {
      status = sm90_pack(launcher, plan_, form_, device_, raw, const_cast<void*>(operands.weight),
                         Sm90Packs::plain, false, tile_marks(context), plan_.tile_marks_bytes / 4);
    }
    if (status.ok() && plan_.config.scaled) status = launch(launcher, second_, of_form, context, true);
    if (status.ok() && plan_.params.pass.partial) {
      status =
          sum_partials(launcher, problem_, operands, context.workspace, sm90_sum_params(plan_, problem_));
    }
    return status.ok() ? store_bias_alone(launcher, asked_, operands, BiasStored::none) : status;
  }

  // A run's first launch may run beside the packing: planes of x, zeros of marks and counters, or the main
  // kernel.
  LaunchOrder main_order(bool just_packed) const {
    const bool first =
        !form_.planes && !(sm90_tile(plan_.config).tma && plan_.tile_marks_bytes + plan_.counter_bytes > 0);
    return {just_packed && first, plan_.config.scaled};
  }

  int* tile_marks(const plan::RunContext& context) const {
    return reinterpret_cast<int*>(context.workspace + plan_.partial_bytes);
  }

  void set_deep(Sm90Plan& plan) const {
    plan.params.sizes.deep = form_.deep;
    plan.params.sizes.ragged = plan.params.sizes.ragged || form_.deep.ragged;
  }

  // The workspace holds partial sums, then tile marks, then counters of tiles, then planes.
  int64_t planes_at() const {
    return round_up<int64_t>(plan_.partial_bytes + plan_.tile_marks_bytes + plan_.counter_bytes, 256);
  }

  // marked: only what the first launch marked.
  Status launch(const Launcher& launcher, const Sm90Plan& plan, const plan::Operands& operands,
                const plan::RunContext& context, bool marked) const {
    const Sm90Operands of_run = {operands.x,
                                 static_cast<const unsigned char*>(operands.weight) + plan.packed_at,
                                 problem_.has_bias ? operands.bias : nullptr,
                                 plan.params.pass.partial ? context.workspace : operands.output};
    const Sm90TileMarks marks = {tile_marks(context), marked, sm90_least_sum(plan)};
    const Sm90Functions& functions = plan.config.scaled ? kernels_.scaled : kernels_.plain;
    if (sm90_tile(plan.config).tma)
      return launch_tma(launcher, plan, of_run, marks, functions, context.just_packed);
    Sm90GatherParams params = gather_params(plan.params);
    params.operands = of_run;
    params.marks = marks;
    if (!marked) params.order = main_order(context.just_packed);
    return launcher.run(functions.gather[plan.params.pass.lines][static_cast<std::size_t>(plan.config.tile)],
                        {plan.blocks, kSm90Threads, plan.shared_bytes}, params);
  }
  Status launch_tma(const Launcher& launcher, const Sm90Plan& plan, const Sm90Operands& operands,
                    const Sm90TileMarks& marks, const Sm90Functions& functions, bool just_packed) const {
    Sm90TmaParams params = tma_params(plan.params);
    params.operands = operands;
    params.marks = marks;
    const Sm90Tile& tile = sm90_tile(plan.config);
    const Sm90WarpgroupTile warpgroup_tile = sm90_warpgroup_tile(plan, tile);
    // Tensor copies need 16-byte boundaries; elements make the same stages.
    params.source.by_elements = reinterpret_cast<uintptr_t>(operands.x) % 16 != 0;
    const Status made =
        params.source.by_elements ? Status() : set_x_maps(params, problem_, warpgroup_tile.channels);
    if (!made.ok()) return made;
    params.order = main_order(just_packed);
    if (plan.counter_bytes > 0) params.tiles.counters = marks.tiles + plan.tile_marks_bytes / 4;
    const auto bytes = static_cast<std::size_t>(plan.tile_marks_bytes + plan.counter_bytes);
    const Status zeroed =
        bytes > 0 ? zero(launcher, marks.tiles, bytes, {just_packed && !form_.planes, true}) : Status();
    if (!zeroed.ok()) return zeroed;
    return launcher.run(functions.tma[tile.row_blocks - 1][params.source.tap_group],
                        {plan.blocks, 128 * (warpgroup_tile.warpgroups + 1), plan.shared_bytes}, params);
  }

  Sm90Plan second_;
  Sm90Kernels kernels_;
};

Support supports(const Problem& asked, const core::DeviceInfo& device, const plan::PlanOptions& options) {
  if (std::string words = no_transposed_form(asked); !words.empty()) return Support::no(std::move(words));
  const Problem p = transposed_form(asked).product;
  if (std::string words = no_wgmma(device); !words.empty()) return Support::no(std::move(words));
  if (p.dtype == core::DType::f64) return Support::no("dtype f64: wgmma has no float64");
  const Support takes = tensor_supports(p);
  if (!takes.ok) return takes;
  if (std::string few = too_few_terms(asked); !few.empty()) return Support::no(std::move(few));
  if (!sm90_fits(p, device, options.batch_invariant)) {
    return Support::no("its stages do not fit in shared memory: many outputs without taps");
  }
  if (options.force_kernel == kSm90Dense.name) return Support::yes();
  return supports_choice(kSm90Dense, asked, device, options);
}

std::unique_ptr<const plan::Kernel> make(const Problem& problem, const core::DeviceInfo& device,
                                         const plan::PlanOptions& options) {
  const Sm90Plan plan = sm90_plan(transposed_form(problem).product, device, options.batch_invariant);
  return std::make_unique<Sm90Dense>(problem, device, plan, kernels_of(plan.mode));
}

}  // namespace

Status sm90_pack(const Launcher& launcher, const Sm90Plan& plan, const TransposedForm& form,
                 const core::DeviceInfo& device, const void* weight, void* packed, Sm90Packs what,
                 bool others_beside, const int* only_if, int64_t marks) {
  const Sm90Packing plain = sm90_packing(form.product, plan.mode, false);
  unsigned char* const to = static_cast<unsigned char*>(packed);
  const Sm90PackLaunch launch = sm90_pack_launch(plan, form, device, what != Sm90Packs::plain);
  const Sm90Functions functions = kernels_of(plan.mode).plain;
  Sm90PackParams k = launch.params;
  k.weight = weight;
  k.others_beside = others_beside;
  k.only_if = only_if;
  k.marks_count = static_cast<int>(marks);
  if (what != Sm90Packs::scaled) {
    k.packed = to;
    k.marks = to + plain.marks_at;
  }
  if (what != Sm90Packs::plain) {
    const Sm90Packing scaled = sm90_packing(form.product, plan.mode, true);
    k.scaled = to + plain.bytes;
    k.scaled_marks = to + plain.bytes + scaled.marks_at;
    k.scales = reinterpret_cast<float*>(to + plain.bytes + scaled.scales_at);
    Sm90LookParams look = launch.look;
    look.weight = weight;
    look.looked = reinterpret_cast<Sm90Looked*>(to + plain.bytes + scaled.looked_at);
    k.looked = look.looked;
    const Status looked = launcher.run(functions.look, {launch.look_blocks, kSm90PackThreads}, look);
    if (!looked.ok()) return looked;
  }
  return launcher.run(launch.stream ? functions.pack_stream : functions.pack,
                      {launch.blocks, launch.threads, launch.shared_bytes}, k);
}

std::unique_ptr<const plan::Kernel> sm90_kernel(const Problem& problem, const core::DeviceInfo& device,
                                                const Sm90Config& config, const Sm90Kernels* kernels) {
  const Sm90Plan plan = sm90_plan_of(transposed_form(problem).product, device, config);
  return std::make_unique<Sm90Dense>(problem, device, plan,
                                     kernels != nullptr ? *kernels : kernels_of(plan.mode));
}

const plan::KernelEntry kSm90Dense = {.name = "cuda.sm90.dense",
                                      .summary = "implicit matrix product on Hopper's tensor cores (wgmma)",
                                      .device = core::DeviceKind::cuda,
                                      .supports = supports,
                                      .make = make,
                                      .y_steps = true,
                                      .strided_bias = true};

}  // namespace tconv::cuda
