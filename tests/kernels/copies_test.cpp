// Operands that are not contiguous, on CUDA: what is copied before a kernel reads it, and when.
#include <gtest/gtest.h>

#include "judge/draw.hpp"
#include "plan/planner.hpp"
#include "plan/with_copies.hpp"

namespace tconv {
namespace {

using core::Problem;

const core::DeviceInfo& h200() {
  static const core::DeviceInfo device = core::named_device("h200").value();
  return device;
}

plan::Plan planned(const Problem& p, const plan::PlanOptions& options = {},
                   const core::DeviceInfo& device = h200()) {
  return std::move(plan::make_plan(p, device, options).value());
}

plan::Plan planned(const std::string& line, const plan::PlanOptions& options = {}) {
  return planned(core::parse(line).value(), options);
}

TEST(Copies, ChannelsLastIsCopiedForKernelsThatReadRows) {
  for (const std::string line : {"strided n16 ci512 co512 l500 k7 p3 g512 f32 ys256000,1,512",
                                 "weight n16 ci512 co512 l500 k7 p3 g512 bf16 bias xs256000,1,512",
                                 "n16 ci32 co32 l50000 k7 p3 f32 tf32 xs1600000,1,32",
                                 "dbias n16 ci1 co512 l500 k1 f32 ys256000,1,512"}) {
    const plan::Plan plan = planned(line), rows = planned(plan::on_copies(plan.problem));
    EXPECT_TRUE(plan.copies) << line;
    EXPECT_EQ(plan.name(), rows.name()) << line;
    EXPECT_EQ(plan.pack_key(), rows.pack_key()) << line;
    const auto copy = static_cast<std::size_t>(plan::copied_bytes(plan.problem));
    EXPECT_EQ(plan.workspace_bytes(true), plan::buffer_bytes(copy) + rows.workspace_bytes(true)) << line;
    EXPECT_NE(plan.kernel->describe().find("copied first, to be contiguous; " + rows.kernel->describe()),
              std::string::npos)
        << plan.kernel->describe();
  }
}

TEST(Copies, WhatCostsLittleIsReadWhereItLies) {
  for (const char* line : {"n1 ci8 co8 l50 k3 f32 xs400,1,8",  // few bytes
                           "n1 ci512 co512 l100 k3 p1 f32 tf32 xs51200,1,512",
                           "strided n16 ci512 co512 l500 k7 p3 g512 f32 ys512000,1000,1",  // a slice
                           "weight n16 ci256 co256 l2000 k7 p3 bf16 ys514048,2008,1",
                           "n16 ci512 co512 l500 k7 p3 g512 f32"}) {
    EXPECT_FALSE(planned(line).copies) << line;
  }
}

TEST(Copies, FewBytesAreCopiedForAMuchFasterKernel) {
  const plan::Plan plan = planned("weight n8 ci64 co64 l600 k7 p3 f32 tf32 ys38400,1,64");
  EXPECT_TRUE(plan.copies);
  EXPECT_EQ(plan.name().find("simt"), std::string::npos) << plan.name();
}

TEST(Copies, AForcedKernelAndACpuReadWhatLiesThere) {
  const std::string line = "strided n16 ci512 co512 l500 k7 p3 g512 f32 ys256000,1,512";
  plan::PlanOptions forced;
  forced.force_kernel = "cuda.simt.strided";
  EXPECT_FALSE(planned(line, forced).copies);
  EXPECT_FALSE(planned(core::parse(line).value(), {}, core::DeviceInfo{}).copies);
}

TEST(Copies, OnlyOperandsWithGapsIfOneHasSome) {
  const Problem p = core::parse("weight n16 ci64 co64 l500 k3 g64 f32 xs64000,1000,1 ys32128,1,64").value();
  const Problem copied = plan::on_copies(p);
  EXPECT_FALSE(copied.x_contiguous);
  EXPECT_TRUE(copied.y_contiguous);
  EXPECT_EQ(plan::copied_bytes(p), 4 * p.y_elements());
}

TEST(Copies, PlansOfAnyProblem) {
  judge::Rng rng(31, 1);
  int copies = 0;
  for (int i = 0; i < 3000; ++i) {
    Problem p = judge::draw_valid(rng);
    if (p.x_contiguous && p.y_contiguous) continue;
    const plan::Plan plan = planned(p);
    if (p.output_elements() == 0 || !plan.copies) continue;
    ++copies;
    EXPECT_GE(plan.workspace_bytes(true), static_cast<std::size_t>(plan::copied_bytes(p))) << text(p);
    EXPECT_FALSE(plan::has_gaps(plan::on_copies(p))) << text(p);
  }
  EXPECT_GT(copies, 20);
}

TEST(Copies, BatchInvariantPlansDoNotLookAtN) {
  plan::PlanOptions options;
  options.batch_invariant = true;
  for (const char* rest :
       {"ci512 co512 l500 k7 p3 g512 f32 xs256000,1,512", "ci64 co64 l700 k4 s2 f32 tf32 xs44800,1,64",
        "ci16 co16 l90 k4 g16 f32 xs1440,1,16"}) {
    const plan::Plan one = planned(std::string("n1 ") + rest, options),
                     many = planned(std::string("n64 ") + rest, options);
    EXPECT_EQ(one.copies, many.copies) << rest;
    EXPECT_EQ(one.name(), many.name()) << rest;
  }
}

}  // namespace
}  // namespace tconv
