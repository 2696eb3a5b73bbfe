// tconv run: arrays from .npy files through the operation or one of its gradients.
#include "run.hpp"

#include <fmt/core.h>

#include <cstring>
#include <optional>

#include "command.hpp"
#include "devices.hpp"
#include "json.hpp"
#include "options.hpp"
#include "plan/planner.hpp"
#include "problems.hpp"
#include "words.hpp"

namespace tconv::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  tconv run --input x.npy --weight w.npy --bias b.npy --stride 8 --padding 4 --output y.npy\n"
    "  tconv run --input - --weight w.npy --stride 8 --padding 4 --output - < x.npy > y.npy\n"
    "  tconv run --op grad_input --grad-output y.npy --weight w.npy --stride 8 --padding 4 --output gx.npy\n"
    "  tconv run --op grad_weight --input x.npy --grad-output y.npy --stride 8 --padding 4 --output gw.npy "
    "--json\n"
    "  tconv run --op grad_weight --input x.npy --grad-output y.npy --output gw.npy --grad-bias gb.npy\n"
    "  tconv run --op grad_bias --grad-output y.npy --output sums.npy --no-clobber --threads 2 --simd SSE4\n"
    "  tconv run --op conv1d --input x.npy --weight u.npy --bias b.npy --padding 3 --output y.npy\n"
    "  tconv run --input x16.npy --weight w16.npy --dtype bf16 --groups 2 --dilation 3 --stride 2\n"
    "      --output-padding 1 --kernel cpu.dense --output y16.npy\n"
    "  tconv run --input x.npy --weight w.npy --precision tf32 --device cuda --output y.npy";

using BlockPointer = std::unique_ptr<judge::Block>;

BlockPointer block_of(judge::Target& target, std::size_t bytes, const std::byte* data = nullptr) {
  BlockPointer block = demand(target.allocate(std::max<std::size_t>(bytes, 1)));
  if (data != nullptr && bytes > 0) std::memcpy(block->host(), data, bytes);
  if (data != nullptr) demand(block->push());
  return block;
}

// The array in the target's memory; nothing if the operation does not read it.
BlockPointer block_of(judge::Target& target, const Array& array) {
  return array.shape.empty() ? nullptr : block_of(target, array.data.size(), array.data.data());
}

void report(const RunArguments& a, const plan::Plan& plan, const std::vector<int64_t>& shape,
            bool to_standard_output) {
  const std::string problem = text(plan.problem), kernel = plan.name();
  if (a.json) {
    Json result = Json::object();
    result.set("output", a.output).set("shape", shape).set("problem", problem).set("kernel", kernel);
    if (!a.grad_bias.empty()) result.set("grad_bias", a.grad_bias);
    result.set("device", plan.device.name).set("threads", plan.options.threads);
    fmt::print("{}\n", result.dump());
    return;
  }
  const std::string line = fmt::format("{}: {} by {}", a.output, problem, kernel);
  if (to_standard_output) return say(line);
  fmt::print("{}\n", printable(line));
}

// Of --grad-bias, checked before anything is read or computed.
std::optional<Destination> destination_of_bias(const RunArguments& a, const Destination& output) {
  if (a.grad_bias.empty()) return std::nullopt;
  Destination made = demand(Destination::make(a.grad_bias, a.no_clobber));
  if (made.is_standard_output() && (a.json || output.is_standard_output())) {
    throw UsageError(fmt::format("--grad-bias and {} both want standard output",
                                 output.is_standard_output() ? "--output" : "--json"));
  }
  if (a.grad_bias == a.output) throw UsageError("--grad-bias and --output name the same file");
  return made;
}

int run_arrays(const RunArguments& a) {
  const Destination destination = demand(Destination::make(a.output, a.no_clobber));
  if (a.json && destination.is_standard_output()) {
    throw UsageError("--json and --output both want standard output");
  }
  const std::optional<Destination> bias_destination = destination_of_bias(a, destination);
  Arrays in = read_arrays(a);
  const core::Problem p = problem_of(a, in);
  const auto target = demand(target_of(a.device, a.threads, 0));
  plan::PlanOptions options = target->options(0);
  options.force_kernel = a.kernel;
  const plan::Plan plan = demand(plan::make_plan(p, target->info(), options));
  const std::size_t workspace_bytes = plan.workspace_bytes(false);
  const BlockPointer x = block_of(*target, in.x), weight = block_of(*target, in.weight);
  const BlockPointer bias = block_of(*target, in.bias), grad_output = block_of(*target, in.grad_output);
  const BlockPointer output =
      block_of(*target, static_cast<std::size_t>(p.output_elements()) * size_of(p.dtype));
  const BlockPointer grad_bias =
      block_of(*target, static_cast<std::size_t>(p.grad_bias_elements()) * size_of(p.dtype));
  const BlockPointer workspace = block_of(*target, workspace_bytes);

  plan::RunContext context = target->context(0);
  context.workspace = workspace->device();
  const auto at = [](const BlockPointer& block) { return block ? block->device() : nullptr; };
  const plan::Operands operands{at(x),           at(weight),       at(bias),
                                at(grad_output), output->device(), grad_bias->device()};
  demand(plan::run(plan, operands, false, context, workspace_bytes));
  demand(target->finish());
  demand(output->pull());
  demand(grad_bias->pull());
  std::vector<int64_t> shape = output_shape(p);
  if (!in.batched && shape.size() == 3 && p.operation != core::Operation::weight) {
    shape.erase(shape.begin());
  }
  demand(write_npy(destination, p.dtype, shape, output->host()));
  if (bias_destination) {
    demand(write_npy(*bias_destination, p.dtype, {p.grad_bias_elements()}, grad_bias->host()));
  }
  report(a, plan, shape,
         destination.is_standard_output() || (bias_destination && bias_destination->is_standard_output()));
  return 0;
}

void add_geometry(CLI::App& sub, RunArguments& a) {
  add_whole(sub, "--stride", a.stride, INT64_MIN, kMostSize,
            "Output positions from one input position to the next")
      ->default_str("1");
  add_whole(sub, "--padding", a.padding, INT64_MIN, kMostSize, "Output positions cut off at either end")
      ->default_str("0");
  add_whole(sub, "--output-padding", a.output_padding, INT64_MIN, kMostSize,
            "Output positions added at the end")
      ->default_str("0");
  add_whole(sub, "--dilation", a.dilation, INT64_MIN, kMostSize, "Output positions from one tap to the next")
      ->default_str("1");
  add_whole(sub, "--groups", a.groups, INT64_MIN, kMostSize, "Groups of channels, each computed separately")
      ->default_str("1");
}

}  // namespace

Command run_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("run", "Arrays from .npy files through the operation or a gradient");
  auto a = std::make_shared<RunArguments>();
  sub->add_option(
         "--op", a->op,
         "forward, grad_input, grad_weight or grad_bias, also called transposed, strided (with a bias), "
         "weight and bias; conv1d, conv1d_grad_input, conv1d_grad_weight or conv1d_grad_bias")
      ->type_name("NAME")
      ->check(one_of(run_operations()))
      ->capture_default_str();
  add_file(*sub, "--input", a->input, "x: (n, cin, l) or (cin, l); - for standard input");
  add_file(*sub, "--weight", a->weight, "(cin, cout/groups, k); of a Conv1d (cout, cin/groups, k)");
  add_file(*sub, "--bias", a->bias, "(cout)");
  add_file(*sub, "--grad-output", a->grad_output,
           "For gradients: the gradient of the output, (n, cout, lout) or (cout, lout)");
  add_file(*sub, "--output", a->output,
           "Written completely or not at all; devices and pipes are written to, - is standard output")
      ->required();
  add_file(*sub, "--grad-bias", a->grad_bias,
           "Also written by grad_weight and conv1d_grad_weight: the gradient of the bias");
  sub->add_flag("--no-clobber", a->no_clobber, "Refuse to replace an existing output file");
  add_geometry(*sub, *a);
  sub->add_option("--dtype", a->dtype,
                  "What the files must hold: f32, f64, f16 or bf16; bf16 must be given explicitly")
      ->type_name("TYPE")
      ->check(one_of({"f32", "f64", "f16", "bf16"}));
  sub->add_option("--precision", a->precision,
                  "Precision of float32 products: ieee, or tf32 if the device supports it")
      ->type_name("NAME")
      ->check(one_of({"ieee", "tf32"}))
      ->capture_default_str();
  add_device(*sub, a->device);
  add_kernel(*sub, a->kernel);
  add_threads(*sub, a->threads);
  add_simd(*sub, a->simd);
  add_json(*sub, a->json);
  sub->footer(kExamples);
  return {sub, [a] { return run_arrays(*a); }};
}

}  // namespace tconv::cli
