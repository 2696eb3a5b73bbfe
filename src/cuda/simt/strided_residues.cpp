// How the way of strided_residues.cuh cuts a problem, and its kernel object.
#include "cuda/simt/strided_residues.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "cuda/host/expected_ms.hpp"
#include "cuda/simt/cube.hpp"
#include "cuda/simt/strided_way.hpp"

namespace tconv::cuda::simt {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;
using std::to_string;

namespace {

int64_t pitch_of(const Problem& p) {
  return p.stride | 1;
}

constexpr int kMostPairs = *std::rbegin(kResiduePairs);

int compiled_pairs(int64_t pairs) {
  return *std::ranges::lower_bound(kResiduePairs, pairs);
}

// Fitted to 216 drawn layers with 8 or more channels of dy a group, in float32 and bf16 (H200): half of the
// times are within 6%, 90% within 14%. Of float32 and 16 bit: the time of memory, and of a load. Slots of a
// scheduler: of a warp's product, a channel, a block; of 32 reads of a part, and of 32 outputs. edge:
// products at a row's ends.
struct ResidueRates {
  double start = 4.1e-3, memory[2] = {1.0, 1.2}, load[2] = {0.61, 0};
  double product = 1.91, channel = 44.5, block = 32, part = 6.9, output = 52, edge = 1.6;
  double wait = 875;     // cycles of a channel, where loads of one are under way
  double clock = 1.7e6;  // cycles in a millisecond
} constexpr kRates;

double expected(const StridedResidueConfig& c, const Problem& p, const DeviceInfo& d) {
  constexpr double kResident = 4;  // blocks of an SM
  const ResidueRates& w = kRates;
  const bool half = size_of(p.dtype) == 2;
  const double pairs = c.pairs, elements = residue_outputs(c.pairs),
               channels = static_cast<double>(p.cout_per_group());
  const auto outputs = static_cast<double>(p.cin_per_group() * c.outputs),
             parts = static_cast<double>(c.parts);
  const double ends = std::min(1.0, 2 / parts);
  const double products = pairs * elements * w.product * (1 + (w.edge - 1) * ends);
  const double slots = channels * (products + (pairs + elements) * w.load[half] + w.channel) + w.block +
                       outputs * (static_cast<double>(p.k) * w.part + w.output) / 32;
  const double blocks = static_cast<double>(c.blocks) / std::max(1, d.sm_count), depth = std::ceil(blocks);
  const double busy = slower(d) * (blocks + depth) / 2 * slots / w.clock;
  const double wait = std::ceil(depth / kResident) * channels * w.wait / residue_ahead(c.pairs) / w.clock;
  const double again = static_cast<double>(c.outputs + c.taps - 1) / static_cast<double>(c.outputs);
  return w.start + std::cbrt(cube(busy) + cube(w.memory[half] * again * memory_ms(p, d)) + cube(wait));
}

}  // namespace

std::string StridedResidueConfig::text() const {
  return "residues, a thread " + to_string(residue_outputs(pairs)) + " elements of dy x " + to_string(pairs) +
         " pairs (ci, tap), " + to_string(live) + " of " + to_string(kResidueThreads) + " threads, " +
         to_string(outputs) + " positions a block, " + to_string(blocks) + " blocks, " +
         to_string(shared_bytes) + " bytes of shared memory";
}

std::string strided_residue_refusal(const Problem& p) {
  if (p.dtype == core::DType::f64) return "float64";
  if (p.k > 1 && p.dilation > 1) return "a dilation";
  if (p.stride < 2 || p.stride > kResidueThreads) return "stride " + to_string(p.stride);
  if (p.lout() > 1 && p.y_steps()[2] != 1) return "positions of dy do not lie side by side";
  const int64_t taps = ceil_div(p.k, p.stride), pairs = (core::Size(p.cin_per_group()) * taps).value();
  if (pairs > kMostPairs) return "more than " + to_string(kMostPairs) + " pairs of ci and tap";
  const int64_t positions = kResidueThreads / p.stride * residue_outputs(compiled_pairs(pairs));
  if (4 * (taps - 1) > positions) return "a tile of positions would mostly be read twice";
  constexpr int64_t kCount = 1 << 30;
  const core::Size reach = core::Size(p.stride) * (p.l + 2 * positions) + p.k;
  if (reach >= kCount || p.padding >= kCount || p.lout() >= kCount) return "positions reach 2^30";
  if (p.weight_elements() >= kCount) return "2^30 weights or more";
  if (p.lout() < 1) return "no positions";
  if (core::Size(p.n) * p.groups * p.l >= kMaxBlocks) return "blocks reach 2^31";
  return "";
}

StridedResidueConfig plan_strided_residues(const Problem& p, const DeviceInfo& device) {
  StridedResidueConfig c;
  c.taps = ceil_div(p.k, p.stride);
  c.pairs = compiled_pairs(p.cin_per_group() * c.taps);
  c.live = kResidueThreads / p.stride * p.stride;
  const int64_t elements = residue_outputs(c.pairs);
  c.outputs = c.live / p.stride * elements - (c.taps - 1);
  c.parts = ceil_div(p.l, c.outputs);
  c.blocks = p.n * p.groups * c.parts;
  c.shared_bytes = p.cin_per_group() * c.taps * (c.live / p.stride) * elements * pitch_of(p) *
                   static_cast<int64_t>(sizeof(float));
  c.ms = expected(c, p, device);
  return c;
}

// The thread of strided_residue_kernel that sums the parts of it.
Holder holder_of(const StridedResidueConfig& c, const Problem& p, int64_t element) {
  const auto [n, group, row, i] = strided_output(p, element);
  const int64_t inside = row * c.outputs + i % c.outputs;
  return {(n * p.groups + group) * c.parts + i / c.outputs, static_cast<int>(inside % kResidueThreads),
          "output " + to_string(inside / kResidueThreads)};
}

namespace {

class StridedResidueKernel final : public StridedWay<StridedResidueConfig> {
 public:
  using StridedWay::StridedWay;

  double predicted_ms() const override { return config_.ms; }
  std::vector<plan::StageLine> stages() const override {
    const StridedResidueConfig& c = config_;
    return {{"schedule", to_string(c.parts) + " blocks a row, of " + to_string(c.outputs) + " positions"},
            {"source", "dy where it lies, each element by one thread, lanes side by side"},
            {"weights", "raw, through the L1 cache"},
            {"operand", "widened in registers"},
            {"product", "fused multiply-adds, a thread " + to_string(residue_outputs(c.pairs)) +
                            " elements of dy x " + to_string(c.pairs) +
                            " pairs (ci, tap); residues summed through shared memory in order"},
            epilogue_line(problem_),
            {"writer", "from registers, element by element"}};
  }

 private:
  core::Status launch(const Launcher& launcher, const plan::Operands& operands) const override {
    const StridedResidueConfig& c = config_;
    StridedResidueParams a{};
    set_operands(a, problem_, operands);
    a.taps = static_cast<int32_t>(c.taps);
    a.more = static_cast<int32_t>(problem_.k - (c.taps - 1) * problem_.stride);
    a.live = static_cast<int32_t>(c.live), a.columns = static_cast<int32_t>(c.live / problem_.stride);
    a.outputs = static_cast<int32_t>(c.outputs), a.parts = static_cast<int32_t>(c.parts);
    a.pitch = static_cast<int32_t>(pitch_of(problem_));
    return launcher.run(strided_residue_function(problem_.dtype, c.pairs),
                        {c.blocks, kResidueThreads, static_cast<std::size_t>(c.shared_bytes)}, a);
  }
};

}  // namespace

std::unique_ptr<const plan::Kernel> strided_residue_kernel(const Problem& problem, const DeviceInfo& device,
                                                           const StridedResidueConfig& config) {
  return std::make_unique<StridedResidueKernel>(problem, device, config);
}

}  // namespace tconv::cuda::simt
