#include "cpu_family.hpp"

namespace tconv::tests {
namespace {

constexpr const char* kKernel = "cpu.strided";

TEST(CpuStrided, ShapesOfModels) {
  judge_lines(kKernel, {"gx ci64 co32 l50 k16 s8 p4",         // HiFi-GAN's upsampling, trained
                        "gx ci40 co24 l130 k7 s1 p3",         // Conv1d of a vocoder
                        "gx ci33 co9 l70 k5 s1 p12 d6",       // the same, dilated
                        "gx n2 ci24 co16 l60 k41 s4 p20 g4",  // a discriminator
                        "gx ci9 co1 l30 k128 s32",            // STFT
                        "gx ci8 co80 l40 k3 s2 p1 op1"});
}

TEST(CpuStrided, Conv1dWithBiasAndStepsOfItsInput) {
  judge_lines(kKernel, {"conv1d n2 ci80 co64 l50 k7 p3 bias", "conv1d ci1 co32 l90 k15 s5 p7 bias",
                        "conv1d n2 ci32 co1 l90 k7 p3 bias", "conv1d n3 ci24 co24 l40 k7 p3 g24 bias",
                        "conv1d n2 ci16 co9 l30 k3 s2 p1 d2 bias xs480,1,16",
                        "conv1d n2 ci600 co20 l9 k3 p1 bias xs0,9,1", "conv1d ci3 co4 l2 k1 p9 s2 bias",
                        "strided ci4 co2 l9 k3 s4 d5000 p20 bias", "strided n0 ci4 co2 l9 k3 bias"});
}

TEST(CpuStrided, EndsBatchesAndGroups) {
  judge_lines(kKernel,
              {"gx ci1 co1 l1 k1", "gx n0 ci2 co2 l4 k2", "gx n40 ci8 co8 l3 k16 s8 p4",
               "gx n5 ci3 co4 l1 k9 s2 p3", "gx ci6 co9 g3 l7 k5 s3 op2", "gx n2 ci16 co16 g16 l90 k9 s4 p4",
               "gx ci4 co2 l9 k3 s4 p20 d50", "gx ci4 co2 l9 k3 s4 d5000 p20", "gx ci3 co3 l40 k1030 s7 p6",
               "gx n2 ci5 co2 l5 k6 s7 p11 op6", "gx ci9 co600 l30 k3 p1"});
}

// Tiles of few products, which go from registers to dx: any number of rows, tiles with a part of a vector,
// NaN at the ends by the judge's special values.
TEST(CpuStrided, FewProducts) {
  judge_lines(kKernel, {"conv1d ci3 co15 l160 k3 p1 bias", "conv1d n2 ci2 co7 l301 k5 s2 bias",
                        "conv1d n3 ci4 co22 l99 k4 s2 p1", "conv1d ci8 co6 l500 k16 s8 p4 bias",
                        "conv1d n2 ci2 co3 l260 k7 p9 d3 bias", "gx n2 ci12 co6 g2 l130 k6 s3 p1"});
}

// Samples of a few vectors or less, at strides of 1 and 2, phase by phase and tap by tap.
TEST(CpuStrided, ShortSamples) {
  judge_lines(kKernel, {"conv1d n40 ci9 co18 l15 k9 p4 bias", "conv1d n20 ci16 co40 l14 k4 s2 p1 bias",
                        "conv1d n20 ci6 co300 l14 k4 s2 p1 bias", "conv1d n9 ci5 co90 l34 k3 p9 d9",
                        "gx n30 ci60 co3 l7 k3 s2 p1 op1", "conv1d n6 ci8 co12 l33 k5 s2 p2 d2 xs264,1,8",
                        "conv1d n12 ci4 co9 l130 k2 s2", "conv1d n5 ci7 co70 l12 k7 s3 p2 bias"});
}

// Runs of columns in L1 and passes of row blocks; the other targets run plans made for the machine's vectors.
TEST(CpuStrided, SeveralRunsAndPasses) {
  judge_lines(kKernel, {"conv1d ci300 co40 l130 k3 p1 bias", "conv1d n3 ci200 co12 l400 k16 s8 p4 bias",
                        "conv1d n2 ci250 co33 l240 k5 s2 p2 d3", "conv1d ci300 co9 l200 k40 p3",
                        "conv1d ci16 co90 l700 k7 p3 bias", "conv1d n20 ci260 co20 l40 k3 p1 bias",
                        "gx n2 ci16 co180 l120 k7 s1 p9 d3 g2", "conv1d ci200 co1 l300 k3 p1 bias",
                        "conv1d n2 ci300 co30 l190 k1 bias", "gx ci20 co40 l300 k300 s1 p30"});
}

// Strips, tiles across samples, rows that do not fill a block, two depth blocks, raw and packed weights.
TEST(CpuStrided, OneTapWithoutPadding) {
  judge_lines(
      kKernel,
      {"conv1d ci64 co40 l1600 k1 bias", "conv1d ci24 co13 l257 k1", "conv1d ci5 co1 l800 k1 bias",
       "conv1d n9 ci30 co12 l103 k1 bias", "conv1d n30 ci20 co24 l16 k1", "conv1d ci4100 co9 l300 k1 bias",
       "conv1d n3 ci4100 co20 l97 k1", "conv1d n2 ci18 co12 l400 k1 g3 bias", "conv1d n2 ci9 co8 l901 k1 s2",
       "conv1d n2 ci16 co9 l300 k1 bias xs4800,1,16", "conv1d n2 ci600 co20 l900 k1 bias xs0,900,1"});
}

TEST(CpuStrided, OneTapRandom) {
  judge_random(kKernel, 400, 33, [](judge::Rng& rng, core::Problem& p) {
    p.operation = core::Operation::strided;
    draw_sizes(rng, p, {.n = 6, .cin = 40, .cout = 40, .l = 900, .k = 1, .stride = 3});
    p.k = 1, p.padding = 0;
  });
}

TEST(CpuStrided, Random) {
  judge_random(kKernel, 1500, 31, [](judge::Rng& rng, core::Problem& p) {
    p.operation = core::Operation::strided;
    draw_sizes(rng, p, {.n = 4, .cin = 60, .cout = 60, .l = 300, .k = 60, .stride = 20});
  });
}

TEST(CpuStrided, WorkspaceIsBounded) {
  expect_bounded_workspace(kKernel, 25, core::Operation::strided);
}

}  // namespace
}  // namespace tconv::tests
