// Strided products on the device: every kernel that takes one is exact on integers, gives the same bits twice
// and from any address, and the weights that it packed serve other lengths.
#include "gpu/device.hpp"

namespace tconv::gpu_test {
namespace {

class Strided : public Gpu {};

struct StridedOperands {
  core::Problem problem;
  std::vector<std::byte> dy, weight;

  explicit StridedOperands(const std::string& text)
      : problem(core::parse(text).value()),
        dy(DeviceOperands::integers(problem, problem.y_elements(), 1)),
        weight(DeviceOperands::integers(problem, problem.weight_elements(), 2)) {}

  std::size_t bytes() const {
    return static_cast<std::size_t>(problem.x_elements()) * size_of(problem.dtype);
  }
  std::vector<std::byte> expected() const {
    plan::Operands host;
    host.weight = weight.data();
    host.grad_output = dy.data();
    return rounded_reference(problem, host);
  }
};

// dy and dx begin `late` elements behind an allocation's begin.
std::vector<std::byte> run_strided(const tconv_plan* plan, const StridedOperands& o, std::size_t late,
                                   const void* packed) {
  const std::size_t shift = late * size_of(o.problem.dtype);
  std::vector<std::byte> shifted(shift + o.dy.size(), std::byte{0xff});
  std::copy(o.dy.begin(), o.dy.end(), shifted.begin() + static_cast<std::ptrdiff_t>(shift));
  const Buffer dy(shifted), weight(o.weight);
  Buffer dx(shift + o.bytes()), workspace(tconv_plan_workspace_bytes(plan, packed != nullptr));
  dx.fill(0xff);
  workspace.fill(0xff);
  tconv_arguments a;
  tconv_arguments_init(&a);
  a.weight = packed == nullptr ? weight.get() : nullptr;
  a.packed_weight = packed;
  a.grad_output = static_cast<const std::byte*>(dy.get()) + shift;
  a.output = static_cast<std::byte*>(dx.get()) + shift;
  a.workspace = workspace.get();
  a.workspace_bytes = workspace.bytes();
  EXPECT_EQ(tconv_run(plan, &a), TCONV_OK) << tconv_last_error();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<std::byte> got = dx.take();
  got.erase(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(shift));
  return got;
}

const char* const kProblems[] = {
    "gx n2 ci40 co48 l301 k16 s8 p4 f32 tf32", "gx n3 ci70 co40 l61 k7 s3 p2 d2 bf16",
    "gx n2 ci130 co34 l257 k5 s1 p9 d2 f16",   "gx n2 ci24 co24 l999 k4 s2 p1 g24 f32",
    "gx n1 ci130 co1 l24 k1024 s256 f32 tf32", "gx n2 ci20 co36 l140 k4 s2 p1 g2 f64",
    "gx n16 ci64 co64 l20 k3 s2 p1 op1 bf16",  "gx n1 ci96 co33 l700 k41 s4 p20 f32"};

TEST_F(Strided, ExactTheSameTwiceAndFromAnyAddress) {
  int runs = 0;
  for (const char* text : kProblems) {
    const StridedOperands o(text);
    const std::vector<std::byte> expected = o.expected();
    for (const std::string& kernel : kernels_of(text)) {
      const PlanPointer plan = plan_of(text, kernel.c_str());
      for (const std::size_t late : {0, 1, 3}) {
        EXPECT_TRUE(run_strided(plan.get(), o, late, nullptr) == expected)
            << kernel << ", " << late << ": " << text;
        ++runs;
      }
    }
  }
  EXPECT_GT(runs, 3 * 16);
}

TEST_F(Strided, PackedWeightsServeLengthsOfTheSameKey) {
  const StridedOperands o("gx n2 ci40 co48 l301 k16 s8 p4 f32 tf32");
  for (const char* kernel : {"cuda.sm80.dense", "cuda.sm90.dense", "cuda.sm90.blocked"}) {
    const std::vector<std::string> able = kernels_of("gx n2 ci40 co48 l301 k16 s8 p4 f32 tf32");
    if (std::find(able.begin(), able.end(), kernel) == able.end()) continue;
    const PlanPointer plan = plan_of("gx n2 ci40 co48 l301 k16 s8 p4 f32 tf32", kernel);
    const Buffer weight(o.weight);
    int served = 0;
    for (const int l : {17, 120, 290, 400}) {
      const PlanPointer other =
          plan_of("gx n2 ci40 co48 l" + std::to_string(l) + " k16 s8 p4 f32 tf32", kernel);
      if (std::string(tconv_plan_pack_key(other.get())) != tconv_plan_pack_key(plan.get())) continue;
      ++served;
      ASSERT_EQ(tconv_plan_packed_bytes(plan.get()), tconv_plan_packed_bytes(other.get()));
      Buffer packed(tconv_plan_packed_bytes(plan.get()));
      ASSERT_EQ(tconv_pack(other.get(), weight.get(), packed.get(), packed.bytes(), nullptr), TCONV_OK);
      EXPECT_TRUE(run_strided(plan.get(), o, 0, packed.get()) == o.expected()) << kernel << " of " << l;
    }
    EXPECT_GT(served, 0) << kernel;
  }
}

}  // namespace
}  // namespace tconv::gpu_test
