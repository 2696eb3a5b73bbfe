// Plans that copy operands first, on a GPU: right, and of the bits of the same problem on contiguous
// operands.
#include "gpu/judged.hpp"
#include "plan/planner.hpp"
#include "plan/with_copies.hpp"

namespace tconv::gpu_test {
namespace {

class Copies : public Judged {
 protected:
  // What the planner chooses; whether it copies.
  bool judged(const core::Problem& p) {
    for (const judge::Verdict& v : judge::judge(p, "", *target_, {.seed = 9, .fills = {}})) {
      EXPECT_TRUE(v.right) << text(p) << ": " << v.kernel << ": " << v.failure;
    }
    return plan::make_plan(p, target_->info(), {}).value().copies;
  }
};

TEST_F(Copies, ChannelsLastOfEveryOperation) {
  for (const char* dtype : {"f32 tf32", "f32", "f16", "bf16", "f64"}) {
    for (const char* rest : {
             "n49 ci130 co130 l259 k7 p3 g130 xs33670,1,130",  // tiles that end early
             "strided n49 ci130 co130 l259 k7 p3 g130 ys33670,1,130",
             "weight n49 ci130 co130 l259 k7 p3 g130 bias xs33670,1,130 ys33670,1,130",
             "weight n9 ci40 co24 l9000 k5 s2 p1 xbias xs360000,1,40",
             "dbias n3 ci1 co33 l17000 k1 ys561000,1,33",
             "n2 ci16 co3 l51000 k5 s2 p2 xs1632000,102000,2",   // every second position
             "strided n7 ci24 co16 l12001 k4 s4 bias ys0,1,16",  // one sample for all
         }) {
      EXPECT_TRUE(judged(core::parse(rest + (" " + std::string(dtype))).value())) << rest << " " << dtype;
    }
  }
}

TEST_F(Copies, PackedAndRawWeightsOfTensorKernels) {
  int copies = 0;
  for (const char* line : {"n2 ci64 co32 l20000 k7 p3 f32 tf32 xs1280000,1,64",
                           "n2 ci64 co32 l20000 k4 s2 p1 bf16 xs1280000,1,64",
                           "strided n2 ci64 co32 l20000 k7 p3 f32 bias ys640000,1,32",
                           "weight n2 ci64 co32 l20000 k7 p3 bf16 bias ys640000,1,32",
                           "strided n64 ci256 co512 l12 k3 p1 f16 ys6144,1,512"}) {
    copies += judged(core::parse(line).value()) ? 1 : 0;
  }
  EXPECT_GE(copies, 2);
}

}  // namespace
}  // namespace tconv::gpu_test
