// tconv plan: what a problem computes, which kernel takes it, and why the earlier ones refused.
#include <fmt/core.h>

#include <algorithm>

#include "command.hpp"
#include "devices.hpp"
#include "floor.hpp"
#include "json.hpp"
#include "options.hpp"
#include "plan/planner.hpp"
#include "problems.hpp"

namespace tconv::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  tconv plan \"n1 ci512 co256 l800 k16 s8 p4 bias f32\" --threads 2 --simd SSE4\n"
    "  tconv plan \"n64 ci128 co128 l65536 k3 s1 p0 f32 tf32\" --device h200 --batch-invariant --json\n"
    "  tconv plan \"ci8 co8 l100 k4 s2\" --kernel reference";

struct PlanArguments {
  std::string problem, device = "cpu", kernel, simd;
  int threads = 0;
  bool batch_invariant = false, json = false;
};

std::string duration(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.1f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string size_text(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.2f} GB", bytes / 1e9);
}

void print_line(const std::string& label, const std::string& words) {
  fmt::print("{:<11}{}\n", label, words);
}

void print_work(const core::Problem& p, const core::Work& work) {
  const int64_t channels = p.grad_bias_elements();
  print_line("output", shape_text(output_shape(p)) +
                           (channels > 0 ? fmt::format(", and a bias gradient ({})", channels) : ""));
  print_line("work",
             fmt::format("{:.4g} GFLOP, {} read and written", work.flops / 1e9, size_text(work.bytes)));
}

void print_floor(const Rates& rates, const Floor& floor, bool cpu) {
  print_line("floor", fmt::format("{}, bound by {}: {:.4g} GFLOP/s, {:.4g} GB/s ({})",
                                  duration(floor.seconds()), floor.binds(), rates.gflops, rates.gbps,
                                  cpu ? "measured now" : "from the device table"));
}

void print_costs(const plan::Plan& p) {
  const double predicted = p.kernel->predicted_ms();
  if (predicted > 0) print_line("predicted", duration(predicted * 1e-3) + ", by the kernel's cost model");
  print_line("memory",
             fmt::format("packed weights {} bytes, workspace {} bytes (raw weights: {})",
                         plan::buffer_bytes(p.packed_bytes()), plan::buffer_bytes(p.workspace_bytes(true)),
                         plan::buffer_bytes(p.workspace_bytes(false))));
}

// What explain() says, with lines in between that only this program knows.
void print_text(const plan::Plan& p, const core::Work& work, const Rates& rates, const Floor& floor) {
  const bool cpu = p.device.kind == core::DeviceKind::cpu;
  const std::vector<plan::Explained> lines = plan::explained(p);
  std::size_t widest = 0;  // the stages of two kernels have long names
  for (const plan::Explained& line : lines) widest = std::max(widest, line.stage ? line.label.size() : 0);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const plan::Explained& line = lines[i];
    const bool device = line.label == "device" && cpu;
    const std::string label = line.stage ? fmt::format("  {:<{}}", line.label, widest + 1) : line.label;
    print_line(label, line.words + (device ? fmt::format(", {} threads", p.options.threads) : ""));
    if (line.label == "problem") print_work(p.problem, work);
    if (line.label == "device") print_floor(rates, floor, cpu);
    const bool configured = line.label == "config" || line.stage;
    if (configured && (i + 1 == lines.size() || !lines[i + 1].stage)) print_costs(p);
  }
}

void print_json(const plan::Plan& p, const core::Work& work, const Rates& rates, const Floor& floor) {
  Json refused = Json::array();
  for (const plan::Refused& r : p.refused) {
    refused.push(Json::object().set("kernel", r.entry->name).set("reason", r.reason));
  }
  Json floor_json = Json::object();
  floor_json.set("seconds", floor.seconds()).set("bound_by", floor.binds());
  floor_json.set("gflops", rates.gflops).set("gbps", rates.gbps);
  Json result = Json::object();
  result.set("problem", text(p.problem)).set("output_shape", output_shape(p.problem));
  const int64_t channels = p.problem.grad_bias_elements();
  result.set("grad_bias_shape", channels > 0 ? Json(std::vector<int64_t>{channels}) : Json());
  result.set("flops", work.flops).set("bytes", work.bytes).set("device", p.device.name);
  result.set("threads", p.options.threads).set("floor", floor_json).set("kernel", p.name());
  result.set("forced", !p.options.force_kernel.empty()).set("config", p.kernel->describe());
  Json stages = Json::object();
  for (const plan::StageLine& line : p.kernel->stages()) stages.set(line.stage, line.words);
  result.set("stages", stages);
  const double predicted = p.kernel->predicted_ms();
  result.set("predicted_ms", predicted > 0 ? Json(predicted) : Json());
  result.set("packed_bytes", static_cast<uint64_t>(plan::buffer_bytes(p.packed_bytes())));
  result.set("workspace_bytes", static_cast<uint64_t>(plan::buffer_bytes(p.workspace_bytes(true))));
  result.set("workspace_bytes_raw", static_cast<uint64_t>(plan::buffer_bytes(p.workspace_bytes(false))));
  result.set("note", p.note.empty() ? Json() : Json(p.note));
  fmt::print("{}\n", result.set("refused", refused).dump());
}

int plan_problem(const PlanArguments& a) {
  const core::Problem problem = read_problem(a.problem);
  const core::DeviceInfo device = demand(device_of(a.device));
  plan::PlanOptions options;
  options.force_kernel = a.kernel;
  options.threads = a.threads;
  options.batch_invariant = a.batch_invariant;
  const plan::Plan plan = demand(plan::make_plan(problem, device, options));
  const core::Work work = work_of(problem);
  constexpr std::size_t kBeyondCache = std::size_t{128} << 20;
  const Rates rates = device.kind == core::DeviceKind::cpu
                          ? measure_cpu(problem.dtype, plan.options.threads, kBeyondCache, 1)
                          : rates_of(device, problem);
  (a.json ? print_json : print_text)(plan, work, rates, floor_of(work, rates));
  return 0;
}

}  // namespace

Command plan_command(CLI::App& app) {
  CLI::App* sub =
      app.add_subcommand("plan", "Which kernel takes a problem, why, and the least time it can take");
  auto a = std::make_shared<PlanArguments>();
  sub->add_option("problem", a->problem, "In quotes, e.g. \"n64 ci128 co128 l65536 k3 s1 p0 f32 tf32\"")
      ->required();
  add_device(*sub, a->device)
      ->description("cpu, cuda, or the name of a GPU, which need not be present: h200, a100, t4, ...");
  add_kernel(*sub, a->kernel);
  add_threads(*sub, a->threads);
  add_simd(*sub, a->simd);
  sub->add_flag("--batch-invariant", a->batch_invariant, "The bits of a sample must not depend on n");
  add_json(*sub, a->json);
  sub->footer(kExamples);
  return {sub, [a] { return plan_problem(*a); }};
}

}  // namespace tconv::cli
