#include "cuda/simt/narrow.hpp"

#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/host/launch.hpp"
#include "cuda/simt/problem_class.hpp"

namespace tconv::cuda {
namespace simt {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::DType;
using core::Problem;
using plan::PlanOptions;

constexpr int64_t kSharedBytes = 48 * 1024;
constexpr int64_t kWeightBytes = 24 * 1024;  // of shared memory; a channel may take twice that
// Warps an SM for which the reduction is sliced. Tiles of many sums want fewer: they have more to do between
// loads. Half as many again, by more slices, was slower (H200, us): 512->1 k16 s8 57 against 52, 256->1 k16
// s8 in f16 33 against 24, 16->8 k4 s2 28 against 18, 64->1 k2 s1 25 against 22, and nowhere quicker.
constexpr int64_t kWarpsPerSm = 16, kWarpsPerSmLarge = 8;
constexpr int64_t kMostSplits = 64;

std::span<const NarrowCompiled> compiled(const Problem& p) {
  switch (p.dtype) {
    case DType::f64:
      return narrow_f64();
    case DType::f16:
      return narrow_f16();
    case DType::bf16:
      return narrow_bf16();
    case DType::f32:
      break;
  }
  return narrow_f32();
}

int64_t padded(int64_t value, int64_t step) {
  return ceil_div(value, step) * step;
}

// Rough time: the larger of bytes, where each block of output channels reads x again (from L2, at about half
// the cost), and products, padding included; and a part of the products, so that padding counts where memory
// binds. A tap of P positions and C columns takes C + 1.4*P cycles of the load pipe (an SM returns 128 bytes
// a cycle, broadcasts too, and rows are seldom aligned) and P*C/4 of FMA.
double cost(const Problem& p, const DeviceInfo& device, const NarrowTileShape& shape) {
  const double positions =
      static_cast<double>(padded((p.lout() - 1 + p.padding) / p.stride + 1, 32 * shape.p));
  const double products = static_cast<double>(p.n * p.cin * padded(p.cout_per_group(), shape.co)) *
                          static_cast<double>(padded(p.stride, shape.r) * ceil_div(p.k, p.stride)) *
                          positions;
  const double columns = shape.co * shape.r, fma = shape.p * columns / 4, loads = columns + 1.4 * shape.p;
  const double rate = (p.dtype == DType::f64 ? device.fp64_gflops : device.fp32_gflops) / 2 + 1;
  const double element = static_cast<double>(size_of(p.dtype));
  const double passes = static_cast<double>(ceil_div(p.cout_per_group(), shape.co));
  const double bytes = element * (static_cast<double>(p.n * p.cin * p.l) * (1 + 0.5 * (passes - 1)) +
                                  static_cast<double>(p.y_elements()));
  const double multiplying = products / rate * std::max(1.0, loads / fma);
  return std::max(bytes / (device.copy_gbps + 1), multiplying) + 0.25 * multiplying;
}

NarrowTileShape best_shape(const Problem& p, const DeviceInfo& device) {
  NarrowTileShape best = compiled(p)[0].shape;
  for (const NarrowCompiled& each : compiled(p)) {
    if (cost(p, device, each.shape) <= cost(p, device, best)) best = each.shape;
  }
  return best;
}

NarrowFunction function_of(const Problem& p, const NarrowTileShape& shape) {
  for (const NarrowCompiled& each : compiled(p)) {
    if (each.shape == shape) return each.function;
  }
  return nullptr;
}

int64_t sum_bytes(const Problem& p) {
  return p.dtype == DType::f64 ? 8 : 4;
}

// Rows that pass through shared memory must fit what every GPU has.
int64_t stage_bytes(const NarrowConfig& c, const Problem& p, int64_t r_warps, int64_t q_warps) {
  if (r_warps == 1 && c.shape.r == p.stride) return 0;
  return 32 * q_warps * c.shape.p * ((r_warps * c.shape.r) | 1) * sum_bytes(p);
}

void cut_residues(NarrowConfig& c, const Problem& p) {
  const int64_t blocks = ceil_div(p.stride, c.shape.r);
  int64_t most = kNarrowMaxWarps;
  while (stage_bytes(c, p, std::min(blocks, most), 1) > kSharedBytes) most /= 2;
  c.residue_groups = ceil_div(blocks, most);
  c.r_warps = static_cast<int>(ceil_div(blocks, c.residue_groups));
  c.residues = static_cast<int>(std::min<int64_t>(p.stride, c.r_warps * c.shape.r));
}

void cut_positions(NarrowConfig& c, const Problem& p) {
  c.q_first = p.padding / p.stride;
  const int64_t count = std::max<int64_t>(1, (p.lout() - 1 + p.padding) / p.stride - c.q_first + 1);
  const int64_t warps = ceil_div(count, 32 * c.shape.p);
  int64_t most = kNarrowMaxWarps / c.r_warps;
  while (stage_bytes(c, p, c.r_warps, most) > kSharedBytes) most /= 2;
  c.q_warps = static_cast<int>(std::min<int64_t>(warps, most));
  c.q_tiles = ceil_div(warps, c.q_warps);
}

// Slices the reduction over warps, at the expense of positions where a block has no warps left, then (where
// it may) over blocks, until there are enough warps or too few channels.
void cut_reduction(NarrowConfig& c, const Problem& p, int64_t rows, int64_t wanted, bool may_split) {
  const int64_t cin = p.cin_per_group();
  const auto warps = [&] { return rows * c.q_tiles * c.co_blocks * c.residue_groups * (c.threads() / 32); };
  while (warps() < wanted && c.slice_warps * 8 <= cin) {
    if (c.threads() / 32 * 2 <= kNarrowMaxWarps) {
      c.slice_warps *= 2;
    } else if (c.q_warps % 2 == 0) {
      c.q_warps /= 2;
      c.q_tiles *= 2;
      c.slice_warps *= 2;
    } else {
      break;
    }
  }
  c.splits = 1;
  if (may_split)
    c.splits = std::clamp<int64_t>(ceil_div(wanted, std::max<int64_t>(1, warps())), 1, kMostSplits);
  c.cin_per_split = std::max<int64_t>(ceil_div(cin, c.splits), std::min<int64_t>(cin, 2 * c.slice_warps));
  c.splits = ceil_div(cin, c.cin_per_split);
}

int64_t channel_bytes(const NarrowConfig& c, const Problem& p) {
  return c.taps * c.r_warps * c.shape.r * c.shape.co * sum_bytes(p);
}

}  // namespace

std::string NarrowConfig::text() const {
  std::string out = "a thread " + std::to_string(shape.p) + " positions x " + std::to_string(shape.r) +
                    " residues x " + std::to_string(shape.co) + " cout; a block " + std::to_string(q_warps) +
                    " x " + std::to_string(r_warps) + " warps (positions x residues)";
  if (slice_warps > 1) out += " x " + std::to_string(slice_warps) + " slices of cin";
  out += ", " + std::to_string(chunk) + " channels of weights in " + std::to_string(shared_bytes) +
         " bytes of shared memory";
  if (splits > 1) {
    out += "; cin cut into " + std::to_string(splits) + " splits of " + std::to_string(cin_per_split) +
           ", summed in order";
  }
  return out;
}

std::string narrow_refusal(const Problem& p, const DeviceInfo& device) {
  if (std::string words = simt_refusal(p, device); !words.empty()) return words;
  if (p.dilation != 1 && p.k > 1) return "dilation " + std::to_string(p.dilation) + ": taps of 1 alone";
  constexpr int64_t kMost = int64_t{1} << 30;
  if (p.k >= kMost || p.stride >= kMost || p.cin >= kMost || p.cout >= kMost) return "sizes above 2^30";
  NarrowConfig c;
  c.shape = best_shape(p, device);
  c.taps = ceil_div(p.k, p.stride);
  cut_residues(c, p);
  if (channel_bytes(c, p) > 2 * kWeightBytes) {
    return "one channel's weights take " + std::to_string(channel_bytes(c, p)) + " bytes of shared memory";
  }
  return "";
}

NarrowConfig plan_narrow(const Problem& p, const DeviceInfo& device, bool batch_invariant, bool may_split) {
  NarrowConfig c;
  Problem shape_of = p;  // the choice looks at one sample where the batch must not count
  if (batch_invariant) shape_of.n = std::min<int64_t>(p.n, 1);
  c.shape = best_shape(shape_of, device);
  c.taps = ceil_div(p.k, p.stride);
  c.co_blocks = ceil_div(p.cout_per_group(), c.shape.co);
  cut_residues(c, p);
  cut_positions(c, p);
  const int64_t sums = c.shape.co * c.shape.r * c.shape.p;
  const int64_t warps = (sums >= 64 ? kWarpsPerSmLarge : kWarpsPerSm) * std::max(1, device.sm_count);
  cut_reduction(c, p, shape_of.n * p.groups, warps, may_split);
  const int64_t each = channel_bytes(c, p);
  c.chunk = std::clamp<int64_t>(kWeightBytes / each, 1, c.cin_per_split);
  c.direct = c.r_warps == 1 && c.shape.r == p.stride;
  const int64_t slices =
      c.slice_warps == 1 ? 0
                         : 32LL * c.q_warps * c.r_warps * c.shape.p * c.shape.r * c.shape.co * sum_bytes(p);
  c.shared_bytes = std::max({c.chunk * each, stage_bytes(c, p, c.r_warps, c.q_warps), slices});
  return c;
}

core::Status launch_narrow(const Launcher& launcher, const Problem& p, const NarrowConfig& c,
                           const plan::Operands& operands, void* partial) {
  const auto steps = p.x_steps();
  NarrowParams a{};
  a.x = operands.x;
  a.weight = operands.weight;
  a.bias = p.has_bias ? operands.bias : nullptr;
  a.y = operands.output;
  a.partial = partial;
  a.x_sample = steps[0], a.x_channel = steps[1], a.x_position = steps[2];
  a.l = p.l, a.lout = p.lout(), a.padding = p.padding;
  a.q_first = c.q_first, a.q_tiles = c.q_tiles, a.co_blocks = c.co_blocks;
  a.residue_groups = c.residue_groups;
  a.groups = p.groups, a.rows = p.n * p.groups;
  a.tiles = a.q_tiles * a.co_blocks * a.residue_groups * a.rows * c.splits;
  a.row_elements = p.y_elements();
  a.cin_per_group = static_cast<int32_t>(p.cin_per_group());
  a.cout_per_group = static_cast<int32_t>(p.cout_per_group());
  a.k = static_cast<int32_t>(p.k), a.stride = static_cast<int32_t>(p.stride);
  a.taps = static_cast<int32_t>(c.taps);
  a.splits = static_cast<int32_t>(c.splits), a.cin_per_split = static_cast<int32_t>(c.cin_per_split);
  a.q_warps = c.q_warps, a.r_warps = c.r_warps, a.slice_warps = c.slice_warps;
  a.residues = c.residues, a.chunk = static_cast<int32_t>(c.chunk);
  a.by_residues = Divisor::of(static_cast<uint32_t>(c.residues));
  a.by_taps_residues = Divisor::of(static_cast<uint32_t>(c.taps * c.residues));
  a.direct = c.direct;
  const Grid grid{std::min(a.tiles, kMaxBlocks), c.threads(), static_cast<std::size_t>(c.shared_bytes)};
  return launcher.run(function_of(p, c.shape), grid, a);
}

namespace {

class NarrowKernel final : public plan::Kernel {
 public:
  NarrowKernel(const Problem& problem, const DeviceInfo& device, const PlanOptions& options)
      : problem_(problem),
        device_(device),
        config_(plan_narrow(problem, device, options.batch_invariant, false)) {}

  std::string describe() const override { return config_.text() + tf32_words(problem_); }

  core::Status run(const plan::Operands& operands, const plan::RunContext& context) const override {
    const Launcher launcher(kSimtNarrow.name, problem_, device_, context);
    core::Status status = launcher.check(operands);
    return status.ok() ? launch_narrow(launcher, problem_, config_, operands, nullptr) : status;
  }

 private:
  Problem problem_;
  DeviceInfo device_;
  NarrowConfig config_;
};

plan::Support supports(const Problem& p, const DeviceInfo& device, const PlanOptions& options) {
  if (std::string words = narrow_refusal(p, device); !words.empty()) return plan::Support::no(words);
  if (options.force_kernel == kSimtNarrow.name) return plan::Support::yes();
  if (p.cin_per_group() >= 16 && p.cout_per_group() > 16) {
    return plan::Support::no("cin " + std::to_string(p.cin_per_group()) + " and cout " +
                             std::to_string(p.cout_per_group()) + " a group: for fewer than 16 of one");
  }
  // Where tiles fill, the dense kernel is quicker (H200, us against this one's): 64->8 k8 s4 87 and 130,
  // 48->8 39 and 63, 2->32 k16 s8 740 and 950; not yet at 16->8 k4 s2 (20 and 18) or 22->16 k7 s4 (107 and
  // 68).
  const int64_t columns = p.cout_per_group() * std::min(p.k, p.stride);
  if ((columns >= 32 && p.cin_per_group() >= 32) || columns >= 128) {
    return plan::Support::no(std::to_string(columns) + " columns (cout, residue): enough for tiles");
  }
  return plan::Support::yes();
}

std::unique_ptr<const plan::Kernel> make(const Problem& p, const DeviceInfo& device,
                                         const PlanOptions& options) {
  return std::make_unique<NarrowKernel>(p, device, options);
}

}  // namespace
}  // namespace simt

const plan::KernelEntry kSimtNarrow = {"cuda.simt.narrow", "few input or output channels, taps in registers",
                                       core::DeviceKind::cuda, simt::supports, simt::make};

}  // namespace tconv::cuda
