// The gradients of weight and bias from one plan against those of two, on any of the judge's targets.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "judge/case.hpp"
#include "judge/draw.hpp"
#include "plan/planner.hpp"

namespace tconv {

using Bytes = std::vector<std::byte>;

// All ones at first: a NaN that no kernel writes.
struct Written {
  Written(judge::Target& target, std::size_t bytes)
      : bytes_(bytes), block_(std::move(target.allocate(bytes + 1).value())) {
    std::memset(block_->host(), 0xff, bytes);
    EXPECT_TRUE(block_->push().ok());
  }
  std::byte* device() const { return block_->device(); }
  Bytes take() const {
    EXPECT_TRUE(block_->pull().ok());
    return {block_->host(), block_->host() + bytes_};
  }

 private:
  std::size_t bytes_;
  std::unique_ptr<judge::Block> block_;
};

struct BothGradients {
  Bytes output, grad_bias;
  bool operator==(const BothGradients&) const = default;
};

// in: on the target's device. kernel "": the planner's choice.
inline BothGradients gradients_of(const core::Problem& p, const std::string& kernel, const plan::Operands& in,
                                  judge::Target& target) {
  plan::PlanOptions options = target.options(0);
  options.force_kernel = kernel;
  const auto made = plan::make_plan(p, target.info(), options, "");
  EXPECT_TRUE(made.ok()) << text(p) << ": " << made.status().message();
  if (!made.ok()) return {};
  const std::size_t bytes = made.value().workspace_bytes(false), element = size_of(p.dtype);
  const Written workspace(target, bytes),
      output(target, static_cast<std::size_t>(p.output_elements()) * element),
      grad_bias(target, static_cast<std::size_t>(p.grad_bias_elements()) * element);
  plan::Operands operands = in;
  operands.output = output.device(), operands.grad_bias = grad_bias.device();
  plan::RunContext context = target.context(0);
  context.workspace = workspace.device();
  core::Status status = plan::run(made.value(), operands, false, context, bytes);
  if (status.ok()) status = target.finish();
  EXPECT_TRUE(status.ok()) << text(p) << ": " << status.message();
  return {output.take(), grad_bias.take()};
}

// p: a weight problem with a bias. Every kernel that takes it and leaves the bias to another.
inline void expect_bits_of_two_plans(const core::Problem& p, judge::Target& target, uint64_t seed) {
  const auto made = judge::Case::operands_only(p, judge::Fill::spread, target, {.seed = seed, .fills = {}});
  ASSERT_TRUE(made.ok()) << made.status().message();
  const plan::Operands in = made.value()->device_operands();
  plan::Operands summed;
  summed.grad_output = p.bias_of_x ? in.x : in.grad_output;
  const Bytes bias = gradients_of(grad_bias_of(p), "", summed, target).output;
  core::Problem alone = p;
  alone.has_bias = alone.bias_of_x = false;
  for (const plan::KernelEntry* entry : plan::supporting(p, target.info(), target.options(0))) {
    if (entry->grad_bias != nullptr && entry->grad_bias(p, target.info())) continue;
    const BothGradients expected{gradients_of(alone, entry->name, in, target).output, bias};
    EXPECT_EQ(gradients_of(p, entry->name, in, target), expected) << entry->name << ": " << text(p);
  }
}

// Draws until so many problems have a bias.
inline void expect_bits_of_two_plans(int problems, judge::Target& target, uint64_t seed) {
  for (uint64_t i = 0; problems > 0 && !::testing::Test::HasFailure(); ++i) {
    judge::Rng rng(seed, i);
    const core::Problem p = judge::draw_valid(rng, {.operation = core::Operation::weight, .typical = 20'000});
    if (!p.has_bias) continue;
    --problems;
    expect_bits_of_two_plans(p, target, i);
  }
}

}  // namespace tconv
