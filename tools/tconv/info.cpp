// tconv info: what this build holds and what this machine has.
#include <fmt/core.h>

#include "command.hpp"
#include "cpu/simd/dispatch.hpp"
#include "cpu/threads/pool.hpp"
#include "cuda/entries.hpp"
#include "json.hpp"
#include "options.hpp"
#include "plan/registry.hpp"
#include "table.hpp"
#include "tconv/tconv.h"

namespace tconv::cli {
namespace {

struct InfoArguments {
  std::string simd;
  bool json = false;
};

Table kernel_table() {
  Table table({{"name", "kernel"}, {"device", "device"}, {"summary", "what it is"}});
  for (const plan::KernelEntry* entry : plan::registry()) {
    table.add({entry->name, entry->device == core::DeviceKind::cuda ? "cuda" : "cpu", entry->summary});
  }
  return table;
}

Table gpu_table() {
  Table table({{"index", "gpu", true},
               {"name", "name"},
               {"sm", "sm", true},
               {"sm_count", "SMs", true},
               {"memory_bytes", "memory", true}});
  for (const core::DeviceInfo& gpu : cuda::devices()) {
    table.add({gpu.index, gpu.name, gpu.sm, gpu.sm_count,
               Cell(fmt::format("{:.0f} GiB", static_cast<double>(gpu.memory_bytes) / 0x1p30),
                    Json(gpu.memory_bytes))});
  }
  return table;
}

// The other SIMD targets that TCONV_SIMD may name.
std::string other_targets() {
  std::string names;
  for (const std::string& name : cpu::simd::target_names()) {
    if (name != cpu::simd::target_name()) names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "no other target" : "others: " + names;
}

int info(bool json) {
  const core::DeviceInfo& cpu = cpu::host_device();
  const Table kernels = kernel_table(), gpus = gpu_table();
  const bool any_gpu = !cuda::devices().empty();
  if (json) {
    Json processor = Json::object();
    Json targets = Json::array();
    for (const std::string& name : cpu::simd::target_names()) targets.push(name);
    processor.set("threads", cpu.threads)
        .set("simd", cpu.simd)
        .set("vector_bytes", cpu.vector_bytes)
        .set("tiles", cpu.tiles)
        .set("last_cache_bytes", cpu.last_cache_bytes);
    processor.set("simd_targets", targets);
    Json result = Json::object();
    result.set("version", tconv_version()).set("cuda", cuda::build_text()).set("cpu", processor);
    fmt::print("{}\n", result.set("gpus", gpus.json()).set("kernels", kernels.json()).dump());
    return 0;
  }
  fmt::print("tconv {}, {}\n\n", tconv_version(), cuda::build_text());
  fmt::print("cpu: {} threads, SIMD {} ({} bytes a vector{}; {})\n", cpu.threads, cpu.simd, cpu.vector_bytes,
             cpu.tiles ? ", AMX tiles" : "", other_targets());
  if (!cpu.usable.ok()) fmt::print("no plan can be made for it: {}\n", cpu.usable.message());
  fmt::print("{}\n{}", any_gpu ? gpus.text() : "no gpu in use\n", kernels.text());
  return 0;
}

}  // namespace

Command info_command(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("info", "This build, this machine, and the kernels in their order");
  auto a = std::make_shared<InfoArguments>();
  add_simd(*sub, a->simd);
  add_json(*sub, a->json);
  sub->footer("Examples:\n  tconv info\n  tconv info --json --simd SSE4");
  return {sub, [a] { return info(a->json); }};
}

}  // namespace tconv::cli
