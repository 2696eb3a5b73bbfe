// tconv run: arrays from .npy files through the operation.
#include <fmt/core.h>

#include <map>

#include "command.hpp"
#include "devices.hpp"
#include "npy.hpp"
#include "plan/planner.hpp"

namespace tconv::cli {
namespace {

struct RunArguments {
  std::string input, weight, bias, output, dtype, kernel, precision = "ieee", device = "cpu";
  int64_t stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1;
  int threads = 0;
};

std::string shape_text(const Array& array) {
  std::string text;
  for (const int64_t size : array.shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "(" + text + ")";
}

void demand_shape(bool right, const std::string& path, const Array& array, const char* wanted) {
  if (!right)
    throw UsageError(fmt::format("{}: its shape is {}, and {} is needed", path, shape_text(array), wanted));
}

struct Inputs {
  Array x, weight, bias;
  bool batched = true;
};

Inputs read_inputs(const RunArguments& a) {
  static const std::map<std::string, core::DType> dtypes = {{"f32", core::DType::f32},
                                                            {"f64", core::DType::f64},
                                                            {"f16", core::DType::f16},
                                                            {"bf16", core::DType::bf16}};
  std::optional<core::DType> wanted, opaque;
  if (!a.dtype.empty()) wanted = dtypes.at(a.dtype);
  if (wanted == core::DType::bf16) opaque = wanted;
  Inputs in;
  auto read = [&](const std::string& path) {
    Array array = demand(read_npy(path, opaque));
    if (!wanted) wanted = array.dtype;
    if (array.dtype != *wanted) {
      throw UsageError(
          fmt::format("{}: holds {}, and {} is needed", path, name_of(array.dtype), name_of(*wanted)));
    }
    return array;
  };
  in.x = read(a.input);
  in.weight = read(a.weight);
  if (!a.bias.empty()) in.bias = read(a.bias);
  demand_shape(in.x.shape.size() == 3 || in.x.shape.size() == 2, a.input, in.x, "(n, cin, l) or (cin, l)");
  demand_shape(in.weight.shape.size() == 3, a.weight, in.weight, "(cin, cout/groups, k)");
  in.batched = in.x.shape.size() == 3;
  return in;
}

core::Problem problem_of(const RunArguments& a, const Inputs& in) {
  core::Problem p;
  p.dtype = in.x.dtype;
  p.precision = a.precision == "tf32" ? core::Precision::tf32 : core::Precision::ieee;
  p.n = in.batched ? in.x.shape[0] : 1;
  p.cin = in.x.shape[in.x.shape.size() - 2];
  p.l = in.x.shape.back();
  demand_shape(in.weight.shape[0] == p.cin, a.weight, in.weight,
               fmt::format("({}, cout/groups, k)", p.cin).c_str());
  p.k = in.weight.shape[2];
  p.stride = a.stride;
  p.padding = a.padding;
  p.output_padding = a.output_padding;
  p.dilation = a.dilation;
  p.groups = a.groups;
  if (__builtin_mul_overflow(in.weight.shape[1], std::max<int64_t>(a.groups, 1), &p.cout)) {
    throw UsageError(fmt::format("groups is {}: cout overflows 63 bits", a.groups));
  }
  p.has_bias = !a.bias.empty();
  demand(validate(p));
  if (p.has_bias) {
    demand_shape(in.bias.shape.size() == 1 && in.bias.shape[0] == p.cout, a.bias, in.bias,
                 fmt::format("({})", p.cout).c_str());
  }
  return p;
}

using BlockPointer = std::unique_ptr<judge::Block>;

BlockPointer block_of(judge::Target& target, std::size_t bytes, const std::byte* data = nullptr) {
  BlockPointer block = demand(target.allocate(std::max<std::size_t>(bytes, 1)));
  if (data != nullptr && bytes > 0) std::memcpy(block->host(), data, bytes);
  if (data != nullptr) demand(block->push());
  return block;
}

int run_arrays(const RunArguments& a) {
  const Inputs in = read_inputs(a);
  const core::Problem p = problem_of(a, in);
  const auto target = demand(target_of(a.device, a.threads, 0));
  plan::PlanOptions options = target->options(0);
  options.force_kernel = a.kernel;
  const plan::Plan plan = demand(plan::make_plan(p, target->info(), options));
  const std::size_t workspace_bytes = plan.workspace_bytes(false);
  const BlockPointer x = block_of(*target, in.x.data.size(), in.x.data.data());
  const BlockPointer weight = block_of(*target, in.weight.data.size(), in.weight.data.data());
  const BlockPointer bias = block_of(*target, in.bias.data.size(), in.bias.data.data());
  const BlockPointer output = block_of(*target, static_cast<std::size_t>(p.y_elements()) * size_of(p.dtype));
  const BlockPointer workspace = block_of(*target, workspace_bytes);

  plan::RunContext context = target->context(0);
  context.workspace = workspace->device();
  const plan::Operands operands{x->device(), weight->device(), p.has_bias ? bias->device() : nullptr, nullptr,
                                output->device()};
  demand(plan::run(plan, operands, false, context, workspace_bytes));
  demand(target->finish());
  demand(output->pull());
  std::vector<int64_t> shape = {p.cout, p.lout()};
  if (in.batched) shape.insert(shape.begin(), p.n);
  demand(write_npy(a.output, p.dtype, shape, output->host()));
  fmt::print("{}: {} by {}\n", a.output, text(p), plan.entry->name);
  return 0;
}

}  // namespace

Command run_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("run", "Arrays from .npy files through the operation");
  auto a = std::make_shared<RunArguments>();
  sub->add_option("--input", a->input, "x: (n, cin, l) or (cin, l)")->required();
  sub->add_option("--weight", a->weight, "(cin, cout/groups, k)")->required();
  sub->add_option("--bias", a->bias, "(cout)");
  sub->add_option("--output", a->output, "Written whole or not at all")->required();
  sub->add_option("--stride", a->stride)->capture_default_str();
  sub->add_option("--padding", a->padding)->capture_default_str();
  sub->add_option("--output-padding", a->output_padding)->capture_default_str();
  sub->add_option("--dilation", a->dilation)->capture_default_str();
  sub->add_option("--groups", a->groups)->capture_default_str();
  sub->add_option("--dtype", a->dtype, "What the files must hold; needed for bfloat16")
      ->check(CLI::IsMember({"f32", "f64", "f16", "bf16"}));
  sub->add_option("--precision", a->precision)->check(CLI::IsMember({"ieee", "tf32"}))->capture_default_str();
  sub->add_option("--device", a->device, "cpu or cuda")->capture_default_str();
  sub->add_option("--kernel", a->kernel, "Force this kernel");
  sub->add_option("--threads", a->threads, "CPU threads; 0: one a core")->check(CLI::Range(0, 4096));
  return {sub, [a] { return run_arrays(*a); }};
}

}  // namespace tconv::cli
