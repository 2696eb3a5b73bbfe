// How strided_sliding.cuh cuts the work, and what it is expected to take.
#include <algorithm>
#include <cmath>

#include "cuda/plan/geometry.hpp"
#include "cuda/simt/cube.hpp"
#include "cuda/simt/strided_sliding.hpp"

namespace tconv::cuda::simt {

using core::ceil_div;
using core::Problem;

namespace {

// Of a block: windows that stay; weights of several tiles of rows, and of one.
constexpr int64_t kResidentWords = 6144, kWeightWords = 3072, kMostWeightWords = 8192;

// Threads of a unit whose pieces have the fewest positions beyond the rows' ends, more if as few.
int64_t fewest_lanes(const Problem& p) {
  int64_t best = kStridedThreads, least = 0;
  for (int64_t lanes = kStridedThreads; lanes >= 32; lanes /= 2) {
    const int64_t units = kStridedThreads / lanes, parts = ceil_div(p.l, lanes * kSlidingPositions);
    const int64_t elements =
        ceil_div(p.n, units) * units * parts * (lanes * kSlidingPositions * p.stride + p.k - 1);
    if (least == 0 || elements < least) best = lanes, least = elements;
  }
  return best;
}

void set_lanes(StridedConfig& c, const Problem& p, int64_t lanes) {
  c.lanes = lanes;
  const int64_t piece = lanes * kSlidingPositions;
  c.parts = ceil_div(p.l, piece);
  c.window = p.stride * (piece - 1) + p.k;
  // The last thread reads whole vectors, up to what its last four taps reach.
  const int64_t last = p.stride * (piece - kSlidingPositions) + (p.k - 1) / 4 * 4;
  c.pitch = sliding_pitch(last + sliding_window(static_cast<int>(p.stride)));
}

int64_t tap_pitch(const Problem& p) {
  return round_up(p.k, int64_t{4});
}

void set_places(StridedConfig& c, const Problem& p) {
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  c.weights_at = c.units_a_block() * c.stages * c.channels * c.pitch;
  c.biases_at = c.weights_at + c.tiles * p.cout_per_group() * tap_pitch(p) * c.rows;
  c.outputs_at = round_up(c.biases_at + c.tiles * c.rows, int64_t{4});
  const int64_t piece = c.lanes * c.positions;
  c.output_pitch = element == 4 ? sliding_pitch(piece) : piece;
  c.unit_words = c.outputs_at + c.units_a_block() * c.rows * c.output_pitch * element / 4;
  c.shared_bytes = c.unit_words * 4;
}

}  // namespace

std::string strided_sliding_refusal(const Problem& p, const core::DeviceInfo& device) {
  if (p.dtype == core::DType::f64) return "float64";
  if (p.stride > kSlidingMostStride) return "stride " + std::to_string(p.stride);
  if (p.dilation > 1) return "a dilation";
  if (p.lout() > 1 && p.y_steps()[2] != 1) return "positions of dy do not lie side by side";
  if (p.k > 1 << 14 || p.l >= 1 << 28 || p.padding >= 1 << 28 || p.lout() >= 1 << 28)
    return "positions reach 2^28";
  const StridedConfig c = plan_strided_sliding(p);
  const int64_t loads = sliding_loads(size_of(p.dtype), p.stride) * (size_of(p.dtype) == 2 ? 2 : 1);
  if (c.window > loads * c.lanes)
    return "a window of more than " + std::to_string(loads) + " elements a thread";
  const int64_t weights = p.cout_per_group() * tap_pitch(p) * c.rows;
  if (weights > kMostWeightWords) return std::to_string(weights) + " weights of a tile of rows";
  constexpr int64_t kSharedBytes = 96 * 1024;
  if (c.shared_bytes > std::min(kSharedBytes, device.shared_per_block)) {
    return "a window of " + std::to_string(c.window) + " positions does not fit shared memory";
  }
  return "";
}

StridedConfig plan_strided_sliding(const Problem& p) {
  StridedConfig c;
  c.sliding = true;
  c.positions = kSlidingPositions;
  const int64_t ci = p.cin_per_group(), depth = p.cout_per_group();
  c.rows = ci == 1 ? 1 : ci == 2 ? 2 : kSlidingRows;
  c.row_tiles = ceil_div(ci, c.rows);
  set_lanes(c, p, kStridedThreads);
  c.resident = c.row_tiles > 1 && depth * c.pitch <= kResidentWords;
  if (c.resident) set_lanes(c, p, fewest_lanes(p));
  // Blocks that a device should have: three rounds of those that run at once on a large one.
  const int64_t enough = 3 * 132 * sliding_blocks(c.rows);
  const int64_t blocks = ceil_div(p.n, c.units_a_block()) * p.groups * c.row_tiles * c.parts;
  if (c.resident) {
    c.channels = depth;
    c.turns = std::clamp<int64_t>(blocks / enough, 1, c.row_tiles);
    c.tiles = std::clamp<int64_t>(kWeightWords / (depth * tap_pitch(p) * c.rows), 1, c.turns);
  } else {
    c.channels = sliding_group(size_of(p.dtype), p.stride);
    c.stages = 2;
    c.walk = std::clamp<int64_t>(blocks / enough, 1, std::min<int64_t>(c.parts, 16));
  }
  set_places(c, p);
  return c;
}

StridedSlidingFunction sliding_function_of(const Problem& p, const StridedConfig& c) {
  return c.resident ? strided_resident_function(p.dtype, p.stride, c.lanes)
                    : strided_sliding_function(p.dtype, c.rows, p.stride);
}

StridedSlidingParams strided_sliding_params(const Problem& p, const StridedConfig& c,
                                            const plan::Operands& operands) {
  StridedSlidingParams a{};
  static_cast<StridedParams&>(a) = strided_params(p, c, operands);
  a.reached_begin = static_cast<int32_t>(std::max<int64_t>(0, ceil_div(p.padding - (p.k - 1), p.stride)));
  a.reached_end = static_cast<int32_t>(ceil_div(p.lout() + p.padding, p.stride));
  a.walk = static_cast<int32_t>(c.walk), a.piece_runs = ceil_div(c.parts, c.walk);
  a.samples = p.n;
  a.blocks = ceil_div(p.n, c.units_a_block()) * p.groups * a.tile_runs * a.piece_runs;
  a.row_step = p.cout_per_group() * p.k, a.channel_step = p.k, a.tap_step = 1;
  a.tap_pitch = static_cast<int32_t>(tap_pitch(p));
  a.biases_at = static_cast<int32_t>(c.biases_at);
  a.outputs_at = static_cast<int32_t>(c.outputs_at);
  a.output_pitch = static_cast<int32_t>(c.output_pitch);
  return a;
}

StridedSlidingParams flipped_sliding_params(const Problem& p, const StridedConfig& c,
                                            const plan::Operands& operands) {
  StridedSlidingParams a = strided_sliding_params(p, c, operands);
  a.row_step = p.k, a.channel_step = p.cin_per_group() * p.k, a.tap_step = -1;
  return a;
}

namespace {

// Microseconds, fitted to 552 times of drawn layers of few channels in float32 and bf16 (H200): the median
// error is 7%. Of the family's ways, the one that is expected to be fastest takes 1.026 times as long as the
// fastest; without this way, the one chosen then took 1.096 times as long.
struct SlidingRates {
  double launch = 3.4, block = 0.357;
  double window[2] = {0.104, 0.129};      // of a piece's dy a channel, of float32 and of 16 bits
  double product[2] = {7.0e-3, 14.2e-3};  // of a thread's rows, each with 8 positions; of two rows
  double row = 0.075;                     // of a piece's outputs
  double weights = 0.27;                  // of a block's threads, one each
  // Latencies: of channels that are loaded at once; of each, of float32 and of 16 bits; of four taps.
  double group = 0.80, channel[2] = {0.275, 0.55}, four = 0.091;
  double memory = 0.84, again = 1.21;  // of the copy rate; of dy that other rows read again
} constexpr kSliding;

}  // namespace

double strided_sliding_ms(const Problem& p, const StridedConfig& c, const core::DeviceInfo& device) {
  const auto sms = static_cast<double>(std::max(1, device.sm_count));
  const int64_t depth = p.cout_per_group(), runs = ceil_div(c.row_tiles, c.turns);
  const int64_t groups = ceil_div(p.n, c.units_a_block()) * p.groups;  // of samples, and in each
  const double blocks = static_cast<double>(groups * runs * ceil_div(c.parts, c.walk));
  const auto tiles = static_cast<double>(groups * c.row_tiles * c.parts);
  const auto windows = static_cast<double>(groups * runs * c.parts * depth * p.stride);
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  const double terms = static_cast<double>(depth * p.k * c.rows);
  const double work = (kSliding.block * blocks + kSliding.window[element == 2] * windows +
                       tiles * kSliding.product[c.rows == 2] * terms +
                       kSliding.row * static_cast<double>(groups * p.cin_per_group() * c.parts) +
                       kSliding.weights * blocks * static_cast<double>(c.turns) * terms / kStridedThreads) /
                      sms;
  const int64_t group = sliding_group(size_of(p.dtype), p.stride), fours = ceil_div(p.k, 4);
  const auto channels = static_cast<double>(depth * c.walk);
  const double chain = std::max(1.0, blocks / sms / sliding_blocks(c.rows)) *
                       (kSliding.group * std::ceil(channels / static_cast<double>(group)) +
                        kSliding.channel[element == 2] * channels +
                        kSliding.four * channels * static_cast<double>(c.turns * fours));
  const double again = static_cast<double>(p.y_elements() * element) * static_cast<double>(runs - 1);
  const double memory = (kSliding.memory * problem_work(p).bytes + kSliding.again * again) /
                        std::max(1.0, device.copy_gbps) * 1e-3;
  return 1e-3 * (kSliding.launch + std::cbrt(cube(work) + cube(chain) + cube(memory)));
}

}  // namespace tconv::cuda::simt
