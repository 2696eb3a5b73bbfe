#include "cuda/host/expected_ms.hpp"

#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/host/transposed_form.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/plan/tensor.hpp"
#include "cuda/simt/dense_plan.hpp"
#include "cuda/simt/depthwise.hpp"
#include "cuda/simt/depthwise_plan.hpp"
#include "cuda/simt/flipped.hpp"
#include "cuda/simt/gather.hpp"
#include "cuda/simt/longk.hpp"
#include "cuda/simt/narrow_plan.hpp"
#include "cuda/simt/strided.hpp"
#include "cuda/sm80/dense_plan.hpp"
#include "cuda/sm80/overlap_plan.hpp"
#include "cuda/sm80/pointwise_plan.hpp"
#include "cuda/sm80/thin_plan.hpp"
#include "cuda/sm80/window_plan.hpp"
#include "cuda/sm90/blocked_plan.hpp"
#include "cuda/sm90/dense_plan.hpp"
#include "cuda/sm90/pointwise_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;
using plan::KernelEntry;

// Families' models choose among their own plans; between families they are off by up to 2. So the parts of a
// model are weighted here, fitted to all kernels of 825 problems (drawn layers of both products, large random
// ones and convolutions of stride 1, in tf32, bf16 and ieee; H200, packed weights, in a graph): half of the
// times are within 10% (narrow and longk, older fits: 19%).

// Of a plan of cuda.sm90.dense, gathered or by tensor copies, in tf32, 16 bit and ieee; gap: the bytes of
// outputs without taps; planes: the pass over a strided product's dy. Fitted where this kernel is among the
// fastest. Those of tf32 and 16 bit: gathered ones to 325 drawn layers of both products, half of the packing
// included, off by 15% and 13% (standard deviation); by tensor copies in tf32 to 602 layers, off by 14%
// (H100). ieee: to 757 drawn layers of both products with raw weights, off by 11%, each predicted from the
// other four fifths. Of 845 layers that both this kernel and cuda.sm90.blocked can take, the one chosen takes
// 1.012 times as long as the faster one (1.016 before). A refit of 16 bit to 500 such layers chose better
// among these two (1.017 instead of 1.023), but against other families worse: 12 drawn layers whose choice
// changed took 1.06 times as long (H200).
struct Sm90Weights {
  double start, tensor, load, l2, store, dram, gap, launch, planes;
};
constexpr Sm90Weights kSm90[2][3] = {{{0.9e-3, 0.04, 1.25, 0.32, 0.61, 0.33, 0.72, 0.77, 0.56},
                                      {3.2e-3, 0.20, 0.74, 0.86, 0.06, 0.68, 0, 0.61, 0.62},
                                      {3.0e-3, 0.73, 0.44, 0.15, 1.36, 0.22, 1, 1.15, 1.34}},
                                     {{9.9e-3, 0.56, 0.13, 0.68, 0.53, 0.49, 0, 1.67, 0.95},
                                      {3.6e-3, 0, 0.94, 0, 0.63, 0.77, 0, 1.11, 1.86},
                                      {0, 0.79, 0.08, 0.91, 1.11, 0.22, 0, 1.22, 1.09}}};
// For tf32 by tensor copies, where memory and stores bind rather than L2: the longer of the two times counts.
constexpr Sm90Weights kSm90Stored = {8.0e-3, 0, 0.81, 0, 0.67, 0.58, 0, 1.13, 1.01};
// Where tensor copies bring rows that all begin on 16 bytes, these models expect too much: this is for tf32,
// and for what kAligned16 leaves out. Of 68 such layers in tf32 (stride 1, 8 to 900 MB, H200) that
// cuda.sm90.blocked takes too, the one chosen of the two takes 1.016 times as long as the faster one, without
// this 1.026.
struct Aligned {
  double share = 0.92, less = 1e-3;
  double of(double ms) const { return std::max(0.0, share * ms - less); }
} constexpr kAligned;
// 16 bit, where no output lacks taps and no pass makes planes; more where several runs of row blocks read x.
// Fitted to 1,014 layers of stride 1 to 10 and 2 to 1,200 MB that cuda.sm90.blocked takes too, off by 19%;
// then times 0.97. Of the two, the one chosen takes 1.030 times as long as the faster one (each predicted
// from five sixths of the others), before 1.052; 63 more whose choice between the two changed take 0.88 of
// the time, packed and raw (H200).
struct AlignedWeights {
  Sm90Weights weights = {5.0e-3, 0.63, 0.375, 0.018, 0.82, 0.25, 0, 0.34, 0};
  double runs = 1.145;
} constexpr kAligned16;
// Of cuda.sm80.dense: tf32, 16 bit, ieee.
struct Sm80Weights {
  double waves, l2, dram, gap, planes;
};
constexpr Sm80Weights kSm80[3] = {
    {2.69, 0.69, 1.38, 4.41, 1.45}, {3.38, 0.29, 1.80, 0, 2.28}, {3.20, 1.54, 1.53, 0, 1.83}};
// Of cuda.sm90.blocked, transposed and strided products: its model, and parts of it once more; packing.
// Fitted to 860 drawn layers, all modes (H200): off by 15% and 11%; then times 0.97 and 0.96, since others'
// models expect as little of theirs. Of 140 and 200 more drawn layers the kernel chosen takes 1.02 and 1.007
// times as long as the fastest. The first weights serve transposed products with a pass over x; where warps
// turn x, the model itself is newer, and the second ones do.
struct BlockedWeights {
  double start, total, tensor, blocking;
};
constexpr BlockedWeights kBlocked[2] = {{2.06e-3, 0.87, 0.1, 0.29}, {0, 0.96, 0, 0}};
constexpr double kBlockedPack = 0.87;
// Of cuda.simt.dense: its model, milliseconds an element of y, and a block of each SM.
struct DenseWeights {
  double model = 1.13, output = 2.5e-9, block = 0.36e-3;
} constexpr kDense;
// Of narrow and longk; cycles of a multiply-add that a scheduler issues, and of an iteration's latency;
// milliseconds of a channel's where x does not come ahead through a ring, and of the second launch. Fitted to
// 1,919 times of 5,600 drawn products (H100): half are within 17%. GB/s of stores of pieces of sectors, of
// float32 and of 16 bits: from 7 products (580 to 950, and 410 to 430).
struct NarrowWeights {
  double start = 2.3e-3, memory = 0.2, product = 1.43, iteration = 186, chunk = 2.7e-3, sum = 3.7;
  double channel = 0.39e-3, second = 4e-3, clock = 1.7e9;
  double pieces = 750, half_pieces = 420;
} constexpr kNarrow;
// What packing takes: milliseconds, and a byte of weights. cuda.sm90.dense packs float32 in two layouts.
// Fitted to the difference between raw and packed weights on some 340 drawn layers of both products, those of
// cuda.sm90.dense on 331 gathered ones (H100, in a graph).
struct PackWeights {
  double start, byte;
};
constexpr PackWeights kPackSm90[3] = {{1.75e-3, 1.12e-9}, {1.3e-3, 0.84e-9}, {1.7e-3, 1.38e-9}};
constexpr PackWeights kPackSm80[3] = {{2.4e-3, 0.9e-9}, {2.5e-3, 1.2e-9}, {4.0e-3, 1.1e-9}};
constexpr PackWeights kPackSimt[2] = {{2.3e-3, 0.9e-9}, {2.1e-3, 1.7e-9}};

// Of cuda.simt.gather: seconds of a warp, of each of its loads and outputs; milliseconds of a term of a
// thread's chain. Fitted to 184 drawn problems, within 5% on half of them.
struct GatherWeights {
  double start = 2.8e-3, memory = 0.64, warp = 0.6e-9, load = 17e-12, output = 18e-12, term = 0.11e-3;
} constexpr kGather;

// Outputs that go to memory in pieces of sectors take at least this many times as long as a copy of the
// problem's bytes: 1.5 to 2.3 times on six layers of 270 MB to 3.8 GB (H100).
double pieces_ms(const Problem& p, const DeviceInfo& d) {
  constexpr double kPieces = 1.6;
  return writes_pieces(p, d) ? kPieces * memory_ms(p, d) : 0;
}

double gap_ms(const Problem& p, const DeviceInfo& d) {
  if (p.operation == core::Operation::strided) return 0;
  const auto stride = static_cast<double>(p.stride);
  return memory_ms(p, d) * std::max(0.0, stride - static_cast<double>(p.k)) / stride;
}

double half_of(const PackWeights& w, const Problem& p) {
  return 0.5 * (w.start +
                w.byte * static_cast<double>(p.weight_elements()) * static_cast<double>(size_of(p.dtype)));
}

// float32 (or float64), 16 bit.
int width_of(const Problem& p) {
  return size_of(p.dtype) == 2 ? 1 : 0;
}
// tf32, 16 bit, ieee.
int mode_of(const Problem& p) {
  return arithmetic_of(p) == Arithmetic::ieee ? 2 : width_of(p);
}

// Whether tensor copies bring rows that all begin on 16 bytes.
bool copies_aligned(const Sm90Plan& plan) {
  return plan.blocks > 0 && sm90_tile(plan.config).tma && plan.params.tma.row_classes == 1;
}

double sm90_ms(const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  const TransposedForm form = transposed_form(p);
  const Sm90Plan plan = sm90_plan(form.product, d, batch_invariant);
  if (plan.blocks == 0) return 0;
  const bool tma = sm90_tile(plan.config).tma;
  const int mode = mode_of(p);
  const Sm90Cost& c = plan.cost;
  const double gap = gap_ms(p, d), planes = form.planes_ms(d);
  const auto ms = [&](const Sm90Weights& w) {
    constexpr double kOneLaunch = 2.9e-3;
    return w.start + w.tensor * c.tensor + w.load * c.load + w.l2 * c.l2 + w.store * c.store +
           w.dram * c.dram + w.gap * gap + w.launch * std::max(0.0, c.launch - kOneLaunch) +
           w.planes * planes;
  };
  const double rest = c.sums + half_of(kPackSm90[mode], p);
  const bool aligned = copies_aligned(plan);
  if (mode == 1 && aligned && gap == 0 && planes == 0) {
    const double runs = plan.params.grid.row_runs > 1 ? kAligned16.runs : 1;
    return std::max(runs * ms(kAligned16.weights), pieces_ms(form.product, d)) + rest;
  }
  const double one = ms(kSm90[tma ? 1 : 0][mode]), other = tma && mode == 0 ? ms(kSm90Stored) : 0;
  const double copied = std::max(one, other);
  return std::max(aligned && mode < 2 ? kAligned.of(copied) : copied, pieces_ms(form.product, d)) + rest;
}

double sm80_ms(const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  const bool strided = p.operation == core::Operation::strided;
  const Arithmetic arithmetic = arithmetic_of(p);
  if (arithmetic == Arithmetic::f64) return strided ? simt::strided_tensor_ms(p, d) : 0;
  // On an H200, n64 ci128 co128 l65536 k3 takes 11.1 ms in ieee here, 10.7 in cuda.simt.dense.
  if (arithmetic == Arithmetic::ieee && !strided) return 0;
  const TransposedForm form = transposed_form(p);
  const Sm80Plan plan = sm80_plan(form.product, d, batch_invariant);
  if (plan.blocks == 0) return 0;
  const Sm80Weights& w = kSm80[mode_of(p)];
  const Sm80Cost& c = plan.cost;
  return w.waves * c.waves + w.l2 * c.l2 + w.dram * c.dram + w.gap * gap_ms(p, d) +
         w.planes * form.planes_ms(d) + half_of(kPackSm80[mode_of(p)], p);
}

double blocked_ms(const Problem& p, const DeviceInfo& d) {
  const Sm90BlockedPlan plan = sm90_blocked_plan(p, d);
  if (plan.main.blocks == 0) return 0;
  const bool strided = p.operation == core::Operation::strided;
  const BlockedWeights& w = strided || plan.main.config.turned ? kBlocked[1] : kBlocked[0];
  return w.start + w.total * plan.total_ms() + w.tensor * plan.main.cost.tensor +
         w.blocking * plan.blocking_ms +
         0.5 * kBlockedPack * sm90_blocked_pack_ms(p, plan.main.config.scaled);
}

double least_blocked_ms(const Problem& p, const DeviceInfo& d) {
  const Sm90BlockedLeast least = sm90_blocked_least(p, d);
  const bool strided = p.operation == core::Operation::strided;
  const BlockedWeights &passed = kBlocked[strided], &turned = kBlocked[1];
  double ms = 0;
  if (least.passed_ms > 0) ms = passed.start + passed.total * least.passed_ms;
  if (least.turned_ms > 0) {
    const double without = turned.start + turned.total * least.turned_ms;
    ms = ms == 0 ? without : std::min(ms, without);
  }
  const bool scaled = arithmetic_of(p) == Arithmetic::ieee;  // always, or maybe
  return ms + 0.5 * kBlockedPack * sm90_blocked_pack_ms(p, scaled);
}

double dense_ms(const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  const DensePlan plan = plan_dense(p, d, batch_invariant);
  return kDense.model * slower(d) * plan.ms + kDense.output * static_cast<double>(p.y_elements()) +
         kDense.block * static_cast<double>(plan.blocks(p)) / std::max(1, d.sm_count) +
         half_of(kPackSimt[width_of(p)], p);
}

double narrow_ms(const Problem& p, const DeviceInfo& d, bool batch_invariant, bool split) {
  const simt::NarrowConfig c = simt::plan_narrow(p, d, batch_invariant, split);
  const double columns = c.shape.co * c.shape.r, sums = columns * c.shape.p;
  const double tiles = static_cast<double>(p.n * p.groups * c.q_tiles) *
                       static_cast<double>(c.co_blocks * c.residue_groups * c.splits);
  const double warps = std::ceil(tiles / std::max(1, d.sm_count)) * c.threads() / 32;
  const double waves = std::ceil(tiles / static_cast<double>(std::max<int64_t>(1, c.blocks)));
  const auto channels = static_cast<double>(ceil_div(c.cin_per_split, c.slice_warps));
  const double iterations = channels * static_cast<double>(c.taps);
  const double cycles = kNarrow.product * slower(d) * iterations * sums * warps / 4 +
                        kNarrow.iteration * waves * iterations + kNarrow.sum * 2 * warps * sums;
  const double ms = kNarrow.start + kNarrow.memory * memory_ms(p, d) + cycles / kNarrow.clock * 1e3 +
                    kNarrow.chunk * waves * static_cast<double>(ceil_div(c.cin_per_split, c.chunk)) +
                    (c.ring ? 0 : kNarrow.channel * waves * channels) + (c.splits > 1 ? kNarrow.second : 0);
  // Unless a thread's outputs of a position are one vector and lie beside the next thread's, stores are of
  // pieces of sectors.
  const auto element = static_cast<int64_t>(size_of(p.dtype)), piece = c.shape.r * element;
  if (c.shape.r == p.stride && piece <= 16 && (piece & (piece - 1)) == 0) return ms;
  const double rate = element == 2 ? kNarrow.half_pieces : kNarrow.pieces;
  return std::max(ms,
                  kNarrow.start + static_cast<double>(p.y_elements() * element) / rate * slower(d) * 1e-6);
}

double gather_ms(const Problem& p, const DeviceInfo& d) {
  const simt::GatherWork work = simt::gather_work(p);
  const auto terms = static_cast<double>(p.cin_per_group() * core::Polyphase(p).taps);
  const double loads = terms * (work.couts + work.positions), outputs = work.couts * work.positions;
  const double seconds = kGather.warp + kGather.load * loads + kGather.output * outputs;
  return kGather.start + kGather.memory * memory_ms(p, d) + 1e3 * slower(d) * work.warps * seconds +
         kGather.term * terms;
}

// Models that were fitted to layers of several taps expect too little of one tap, where an element that is
// copied takes part in few products: medians of measured over expected times of 450 random pointwise layers
// (H100; 16-bit types, tf32 and ieee together); of blocked and overlap, whose models are newer, of 15. But
// too much of cuda.sm90.dense where tensor copies bring much: 11 layers of 60 MB and more took 0.52 to 0.88
// of the expected time with that factor; and in 16 bits its model of aligned rows is fitted to such layers,
// though 18 of them that it took from cuda.sm90.pointwise without a factor took 1.02 times as long (H200).
double one_tap(const KernelEntry& entry, const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  if (p.k != 1 || p.stride != 1 || p.padding != 0) return 1;
  if (&entry == &kSm90Dense) {
    constexpr double kMuch = 60e6;  // bytes
    if (mode_of(p) == 2) return 1;  // fitted to such layers too
    const bool half = width_of(p) == 1, fitted = half || problem_work(p).bytes >= kMuch;
    if (!fitted || !copies_aligned(sm90_plan(transposed_form(p).product, d, batch_invariant))) return 1.28;
    return half ? 1.08 : 1;
  }
  if (&entry == &kSm90Blocked) return 1.03;
  if (&entry == &kSm80Overlap) return 1.1;
  return &entry == &kSimtFlipped ? 1.4 : 1;
}

double model_ms(const KernelEntry& entry, const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  if (&entry == &kSm90Pointwise) return sm90_pointwise_plan(p, d, batch_invariant).ms;
  if (&entry == &kSm80Pointwise) return pointwise_plan(p, d, batch_invariant).ms;
  if (&entry == &kSm80Overlap) return overlap_plan(p, d, batch_invariant).ms;
  if (&entry == &kSm80Window) return window_plan(p, d, batch_invariant).ms;
  if (&entry == &kSm80Thin) return thin_plan(p, d).ms;
  if (&entry == &kSm90Dense) return sm90_ms(p, d, batch_invariant);
  if (&entry == &kSm90Blocked) return blocked_ms(p, d);
  if (&entry == &kSm80Dense) return sm80_ms(p, d, batch_invariant);
  if (&entry == &kSimtDense) return dense_ms(p, d, batch_invariant);
  if (&entry == &kSimtGather) return gather_ms(p, d);
  if (&entry == &kSimtDepthwise) return simt::depthwise_ms(simt::plan_depthwise(p, d), p, d);
  if (&entry == &kSimtFlipped) return simt::flipped_ms(p, d);
  if (&entry == &kSimtStrided) return simt::strided_ms(p, simt::plan_strided(p, d, batch_invariant), d);
  if (&entry == &kSimtNarrow) return narrow_ms(p, d, batch_invariant, false);
  return narrow_ms(p, d, batch_invariant, true);
}

}  // namespace

double slower(const DeviceInfo& d) {
  constexpr double kRate = 50.6e3 / 132;  // GFLOP/s an SM
  const double rate = d.fp32_gflops / std::max(1, d.sm_count);
  return rate > 0 ? std::max(1.0, kRate / rate) : 1;
}

double tensor_gflops(const Problem& p, const DeviceInfo& d) {
  if (size_of(p.dtype) != 4) return d.half_gflops;
  return d.tf32_gflops / (p.precision == core::Precision::ieee ? 3 : 1);
}

double memory_ms(const Problem& p, const DeviceInfo& d) {
  return d.copy_gbps > 0 ? problem_work(p).bytes / d.copy_gbps * 1e-6 : 0;
}

double least_expected_ms(const KernelEntry& entry, const Problem& p, const DeviceInfo& d) {
  return &entry == &kSm90Blocked && sm90_blocked_takes(p, d) ? least_blocked_ms(p, d) : 0;
}

double expected_ms(const KernelEntry& entry, const Problem& p, const DeviceInfo& d, bool batch_invariant) {
  return one_tap(entry, p, d, batch_invariant) * model_ms(entry, p, d, batch_invariant);
}

}  // namespace tconv::cuda
