#include "judge/draw.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "core/conv1d.hpp"

namespace tconv::judge {
namespace {

using core::DType;
using core::Operation;
using core::Precision;
using core::Problem;

// Channels of a group: few, or about the edge of a tile.
int64_t draw_channels(Rng& rng) {
  const int64_t kind = rng.between(0, 9);
  if (kind < 4) return rng.between(1, 9);
  if (kind < 8) return std::max<int64_t>(1, rng.pick({8, 16, 24, 32, 48, 64, 96, 128}) + rng.between(-1, 1));
  return rng.log_between(1, 520);
}

void draw_shape(Rng& rng, Problem& p) {
  p.n = rng.chance(3) ? 0 : rng.chance(65) ? 1 : rng.between(2, 5);
  p.stride = rng.chance(40) ? 1 : rng.chance(85) ? rng.between(2, 8) : rng.log_between(9, 120);
  p.dilation = rng.chance(65) ? 1 : rng.chance(85) ? rng.between(2, 6) : rng.log_between(7, 60);
  p.k = rng.chance(15) ? 1 : rng.chance(75) ? rng.between(2, 9) : rng.log_between(10, 400);
  if (rng.chance(25)) p.k = std::min<int64_t>(400, p.stride * rng.between(1, 3));  // what upsamplers use
  p.l = rng.chance(8) ? 1 : rng.chance(40) ? rng.between(2, 40) : rng.log_between(20, 4000);
  int64_t cin = draw_channels(rng), cout = draw_channels(rng);
  p.groups = 1;
  if (rng.chance(15)) {  // depthwise, some with a multiplier on either side
    p.groups = draw_channels(rng);
    cin = rng.chance(85) ? 1 : rng.between(2, 3);
    cout = rng.chance(70) ? 1 : rng.between(2, 4);
  } else if (rng.chance(20)) {
    p.groups = rng.between(2, 8);
  }
  p.cin = cin * p.groups;
  p.cout = cout * p.groups;
}

int64_t full_length(const Problem& p) {  // lout with neither padding nor output_padding
  return (p.l - 1) * p.stride + p.dilation * (p.k - 1) + 1;
}

// What a plain loop over outputs, channels and taps costs.
double cost(const Problem& p) {
  return static_cast<double>(std::max<int64_t>(p.n, 1)) * static_cast<double>(p.cout) *
         static_cast<double>(full_length(p)) * static_cast<double>(p.cin_per_group()) *
         static_cast<double>(p.k);
}

// Reduces one random size at a time until the problem is affordable.
void shrink(Rng& rng, Problem& p, double budget) {
  while (cost(p) > budget) {
    const int64_t cin = p.cin_per_group(), cout = p.cout_per_group();
    const int64_t which = rng.between(0, 6);
    if (which <= 1) p.l = std::max<int64_t>(1, p.l * 2 / 3);
    if (which == 2) p.cin = std::max<int64_t>(1, cin * 2 / 3) * p.groups;
    if (which == 3) p.cout = std::max<int64_t>(1, cout * 2 / 3) * p.groups;
    if (which == 4) p.k = std::max<int64_t>(1, p.k * 2 / 3);
    if (which == 5) p.n = std::min<int64_t>(p.n, std::max<int64_t>(1, p.n - 1));
    if (which == 6 && rng.chance(30)) {  // seldom: many groups are worth keeping
      const int64_t groups = std::max<int64_t>(1, p.groups * 2 / 3);
      p.cin = cin * groups;
      p.cout = cout * groups;
      p.groups = groups;
    }
    if (which == 6) p.stride = std::max<int64_t>(1, p.stride * 3 / 4);
    if (which == 6) p.dilation = std::max<int64_t>(1, p.dilation * 3 / 4);
  }
}

void draw_padding(Rng& rng, Problem& p) {
  if (rng.chance(35)) p.output_padding = rng.between(0, std::max(p.stride, p.dilation) - 1);
  const int64_t most = (full_length(p) + p.output_padding) / 2;  // leaves an output length of 0 or 1
  const int64_t usual = std::min(most, p.dilation * (p.k - 1));
  p.padding = rng.chance(40)   ? 0
              : rng.chance(85) ? rng.between(0, usual)
              : rng.chance(90) ? rng.between(0, most)
                               : most;
}

// Steps of a tensor with these channels and positions.
std::array<int64_t, 3> draw_steps(Rng& rng, int64_t channels, int64_t positions) {
  switch (rng.between(0, 4)) {
    case 0:  // channels-last
      return {positions * channels, 1, channels};
    case 1: {  // one dimension expanded
      std::array<int64_t, 3> steps = {channels * positions, positions, 1};
      steps[static_cast<std::size_t>(rng.between(0, 2))] = 0;
      return steps;
    }
    case 2:  // a slice of a longer tensor
      return {channels * (positions + 3) + rng.between(0, 40), positions + 3, 1};
    case 3: {  // every other position
      const int64_t step = rng.between(2, 3);
      return {channels * positions * step, positions * step, step};
    }
    default: {  // anything, overlaps too
      const int64_t sample = rng.between(0, 9), channel = rng.between(0, 50);
      return {sample, channel, rng.between(0, 5)};
    }
  }
}

// Whether a weight problem's gradient of the bias is that of a Conv1d.
void draw_bias_of_x(Rng& rng, Problem& p) {
  p.bias_of_x = p.writes_grad_bias() && (p.bias_of_x || rng.chance(40));
}

// Gives the tensors that the operation reads strides of their own.
void draw_strides(Rng& rng, Problem& p) {
  if (p.reads_x() && rng.chance(20)) {
    p.x_contiguous = false;
    p.x_stride = draw_steps(rng, p.cin, p.l);
    if (p.bias_of_x) p.x_stride[2] = std::max<int64_t>(1, p.x_stride[2]);  // as of y below
  }
  if (p.reads_y() && rng.chance(20)) {
    p.y_contiguous = false;
    p.y_stride = draw_steps(rng, p.cout, p.lout());
    // A sum of equal terms rounds in the same direction at each term, which the bound for random data does
    // not allow for.
    if (p.operation != Operation::strided) p.y_stride[2] = std::max<int64_t>(1, p.y_stride[2]);
  }
}

// The numbers of the Conv1d whose problem is p; there is none if p's output_padding exceeds its stride.
void draw_conv1d(Rng& rng, Problem& p) {
  Problem call = p;
  std::swap(call.cin, call.cout);
  call.l = p.lout();
  call.output_padding = 0;
  using enum core::Conv1dPass;
  const auto made = core::conv1d_problem(call, rng.pick({forward, grad_input, grad_weight, grad_bias}));
  if (made.ok()) p = made.value();
}

}  // namespace

Problem draw_valid(Rng& rng, const DrawOptions& options) {
  if (options.far && rng.between(1, 40) == 1) return draw_far(rng, options);
  Problem p;
  draw_shape(rng, p);
  const int64_t largest = options.typical * (rng.chance(2) ? 40 : 4);
  shrink(rng, p, static_cast<double>(rng.log_between(200, largest)));
  draw_padding(rng, p);
  p.has_bias = rng.chance(50);
  p.dtype = rng.pick({DType::f32, DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16});
  if (options.tf32 && p.dtype == DType::f32 && rng.chance(30)) p.precision = Precision::tf32;
  if (options.gradients && rng.chance(10)) {
    p.operation = rng.pick({Operation::strided, Operation::weight, Operation::bias});
  }
  if (options.operation) p.operation = *options.operation;
  if (options.gradients && !options.operation && rng.chance(10)) draw_conv1d(rng, p);
  draw_bias_of_x(rng, p);
  draw_strides(rng, p);
  return p;
}

Invalid draw_invalid(Rng& rng) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  Problem p = draw_valid(rng, {.gradients = false});
  const int64_t bad = -rng.log_between(1, kHuge / 2);
  struct Field {
    const char* name;
    int64_t Problem::*value;
    bool positive;  // else it may be 0
  };
  static constexpr Field kFields[] = {
      {"n", &Problem::n, false},
      {"cin", &Problem::cin, true},
      {"cout", &Problem::cout, true},
      {"l", &Problem::l, true},
      {"k", &Problem::k, true},
      {"stride", &Problem::stride, true},
      {"padding", &Problem::padding, false},
      {"output_padding", &Problem::output_padding, false},
      {"dilation", &Problem::dilation, true},
      {"groups", &Problem::groups, true},
  };
  const auto kind = rng.between(0, 15);
  if (kind < std::ssize(kFields)) {
    const Field& field = kFields[kind];
    p.*field.value = field.positive && rng.chance(30) ? 0 : bad;
    return {p, field.name};
  }
  switch (kind) {
    case 10:
      return p.groups = p.cin + rng.between(1, 9), Invalid{p, "groups"};
    case 11:
      return p.groups = p.cin, p.cout = p.cin * 2 + (p.cin > 1 ? 1 : 0),
             p.cin == 1 ? (p.groups = 2, Invalid{p, "groups"}) : Invalid{p, "groups"};
    case 12:
      return p.output_padding = std::max(p.stride, p.dilation) + rng.between(0, 5),
             Invalid{p, "output_padding"};
    case 13:
      return p.padding = (full_length(p) + p.output_padding) / 2 + rng.between(1, 9), Invalid{p, "padding"};
    case 14:
      return p.dtype = DType::f16, p.precision = Precision::tf32, Invalid{p, "precision"};
    default:
      p.x_contiguous = false;
      p.x_stride = {1, 1, 1};
      const auto i = static_cast<std::size_t>(rng.between(0, 2));
      return p.x_stride[i] = bad, Invalid{p, "x_stride[" + std::to_string(i) + "]"};
  }
}

}  // namespace tconv::judge
