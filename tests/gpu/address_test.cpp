// The same numbers at other addresses give the same bits: x, weight, bias and y moved by every element offset
// within 16 bytes. Tensor copies and vector stores begin on 16 bytes, so that other code runs elsewhere.
#include "cuda/entries.hpp"
#include "gpu/device.hpp"
#include "gpu/sm90_configs.hpp"

namespace tconv::gpu_test {
namespace {

class Addresses : public Gpu {};

// Elements that each of x, weight, bias and y is moved by.
struct Moves {
  int64_t of[4] = {0, 0, 0, 0};
};
constexpr const char* kNames[] = {"x", "weight", "bias", "y"};

std::vector<Moves> all_moves(const core::Problem& p) {
  const int64_t vector = static_cast<int64_t>(16 / core::size_of(p.dtype));
  std::vector<Moves> list;
  for (int operand = 0; operand < 4; ++operand) {
    if (operand == 2 && !p.has_bias) continue;
    for (int64_t by = 1; by < vector; ++by) {
      Moves moves;
      moves.of[operand] = by;
      list.push_back(moves);
    }
  }
  for (int64_t by = 1; by < vector; ++by) list.push_back({{by, vector - by, by, vector - by}});
  return list;
}

std::string text(const Moves& moves) {
  std::string out;
  for (int i = 0; i < 4; ++i) {
    if (moves.of[i] > 0) out += std::string(" ") + kNames[i] + " by " + std::to_string(moves.of[i]);
  }
  return out;
}

// One problem's operands, each with room to be moved in, and a kernel's runs on them.
class Runner {
 public:
  explicit Runner(const DeviceOperands& o)
      : o_(o),
        data_{Buffer(o.x.size() + 16), Buffer(o.weight.size() + 16), Buffer(o.bias.size() + 16),
              Buffer(o.output_bytes() + 32)} {}

  // What lies around y stays as it is.
  std::vector<std::byte> run(const plan::Kernel& kernel, const Moves& moves) {
    const std::size_t size = core::size_of(o_.problem.dtype);
    std::byte* at[4];
    const std::vector<std::byte>* hosts[] = {&o_.x, &o_.weight, &o_.bias};
    for (std::size_t i = 0; i < 4; ++i) {
      at[i] = static_cast<std::byte*>(data_[i].get()) + static_cast<std::size_t>(moves.of[i]) * size;
      data_[i].fill(0xff);
      if (i == 3) continue;
      EXPECT_EQ(cudaMemcpy(at[i], hosts[i]->data(), hosts[i]->size(), cudaMemcpyHostToDevice), cudaSuccess);
    }
    Buffer packed(kernel.packed_bytes()), workspace(kernel.workspace_bytes());
    workspace.fill(0xff);
    packed.fill(0xff);
    plan::RunContext context;
    context.workspace = static_cast<std::byte*>(workspace.get());
    const bool packs = kernel.packed_bytes() > 0;
    if (packs) {
      EXPECT_TRUE(kernel.pack(at[1], packed.get(), context).ok());
    }
    const plan::Operands operands{at[0], packs ? packed.get() : at[1], o_.problem.has_bias ? at[2] : nullptr,
                                  nullptr, at[3]};
    const core::Status status = kernel.run(operands, context);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::vector<std::byte> all = data_[3].take();
    const auto begin = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(moves.of[3]) * size),
               end = begin + static_cast<std::ptrdiff_t>(o_.output_bytes());
    for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(all.size()); ++i) {
      if (i >= begin && i < end) continue;
      EXPECT_EQ(all[static_cast<std::size_t>(i)], std::byte{0xff}) << "wrote beside y";
      if (all[static_cast<std::size_t>(i)] != std::byte{0xff}) break;
    }
    return {all.begin() + begin, all.begin() + end};
  }

 private:
  const DeviceOperands& o_;
  Buffer data_[4];
};

void expect_same_bits(const DeviceOperands& o, const plan::Kernel& kernel, const std::string& name) {
  Runner runner(o);
  const std::vector<std::byte> expected = runner.run(kernel, {});
  // Operands rounded to tf32 are off by 2^-10 of a product, the bound's unit by 2^-24 a term: 2^13 of them
  // with one.
  EXPECT_LE(o.worst(expected), o.problem.precision == core::Precision::tf32 ? 0x1p13 : 300.0) << name;
  int wrong = 0;
  for (const Moves& moves : all_moves(o.problem)) {
    if (runner.run(kernel, moves) == expected || ++wrong > 3) continue;
    ADD_FAILURE() << core::text(o.problem) << " " << name << ": other bits with" << text(moves);
  }
}

// Every kernel as it is planned.
TEST_F(Addresses, EveryKernel) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  for (const char* shape : {"n2 ci64 co72 l520 k3 s1 p1 bias ", "n2 ci48 co40 l301 k4 s2 p1 bias ",
                            "n2 ci32 co40 l264 k8 s4 p2 ", "n1 ci64 co64 l511 k3 s1 p0 d2 bias ",
                            "n2 ci24 co24 l701 k4 s2 p1 g24 bias ", "n3 ci24 co48 l17 k5 s3 p1 g24 bias ",
                            "n3 ci5 co5 l2 k3 s1 p1 g5 ", "n1 ci70 co1 l900 k8 s4 p2 bias ",
                            "n2 ci130 co1 l24 k64 s16 p0 ", "n2 ci6 co6 l301 k5 s1 p2 d3 g6 bias "}) {
    for (const char* mode : {"f32", "f32 tf32", "f16", "bf16", "f64"}) {
      const DeviceOperands o(std::string(shape) + mode);
      for (const plan::KernelEntry* entry : cuda::entries()) {
        plan::PlanOptions options;
        options.force_kernel = entry->name;
        if (!entry->supports(o.problem, device, options).ok) continue;
        expect_same_bits(o, *entry->make(o.problem, device, options), entry->name);
      }
    }
  }
}

// cuda.sm90.dense where x comes by tensor copies, by elements where it does not begin on 16 bytes: from
// registers and by operands, rows of x and y that begin anywhere, outputs straight, staged and in windows.
TEST_F(Addresses, DirectConfigurations) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "not a GPU of compute capability 9.0";
  int ran = 0;
  for (const char* shape : {"n2 ci48 co70 l1000 k3 s1 p1 bias ", "n2 ci64 co64 l520 k4 s2 p1 ",
                            "n2 ci40 co40 l264 k8 s4 p2 bias ", "n1 ci48 co40 l1001 k3 s1 p1 ",
                            "n2 ci33 co64 l777 k9 s1 p4 bias ", "n2 ci32 co24 l1000 k6 s1 p0 d5 ",
                            "n3 ci99 co42 l301 k3 s2 p1 g3 bias ", "n2 ci64 co130 l512 k3 s2 p1 d2 op1 bias ",
                            "n2 ci32 co20 l264 k16 s8 p4 bias "}) {
    for (const char* mode : {"f32", "f32 tf32", "f16", "bf16"}) {
      const DeviceOperands o(std::string(shape) + mode);
      for (const cuda::Sm90Config& c : tma_configs(o.problem)) {
        if (cuda::sm90_plan_of(o.problem, device, c).blocks == 0) continue;
        ++ran;
        expect_same_bits(o, *cuda::sm90_kernel(o.problem, device, c), cuda::text(c));
      }
    }
  }
  EXPECT_GT(ran, 40);
}

// Few enough for compute-sanitizer.
TEST_F(Addresses, ElementsInsteadOfTensorCopies) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "not a GPU of compute capability 9.0";
  for (const char* text : {"n2 ci48 co70 l520 k3 s1 p1 bias f32 tf32", "n2 ci33 co40 l301 k3 s1 p1 bias f32",
                           "n2 ci40 co40 l264 k5 s2 p1 f16", "n1 ci33 co24 l263 k3 s1 p1 d3 bf16"}) {
    const DeviceOperands o(text);
    for (const cuda::Sm90Config& c : tma_configs(o.problem)) {
      if (cuda::sm90_plan_of(o.problem, device, c).blocks == 0) continue;
      const auto kernel = cuda::sm90_kernel(o.problem, device, c);
      Runner runner(o);
      EXPECT_TRUE(runner.run(*kernel, {{1, 0, 0, 0}}) == runner.run(*kernel, {}))
          << text << ": " << cuda::text(c);
    }
  }
}

// The same of data whose loudness falls from warpgroup tile to warpgroup tile, of which two may have an
// output, and of data that float16 does not hold: scales and marks depend on the numbers alone.
TEST_F(Addresses, ScalesAndMarks) {
  const core::DeviceInfo device = cuda::device_info(0).value();
  if (device.sm != 90) GTEST_SKIP() << "not a GPU of compute capability 9.0";
  for (const char* text :
       {"n2 ci48 co70 l1500 k3 s1 p1 bias f32 tf32", "n2 ci33 co64 l1777 k5 s1 p2 f32 tf32",
        "n2 ci64 co40 l1001 k4 s2 p1 bias f32", "n2 ci48 co64 l1501 k3 s1 p1 f32"}) {
    DeviceOperands o(text);
    auto* x = reinterpret_cast<float*>(o.x.data());
    const auto length = static_cast<std::size_t>(o.problem.l);
    for (const bool marks : {false, true}) {
      for (std::size_t i = 0; i < o.x.size() / 4; ++i) {
        if (!marks) x[i] = std::ldexp(x[i], -static_cast<int>(i % length / 61 % 9));
        if (marks && i % 997 == 5) x[i] *= 1e-12f;
      }
      for (const cuda::Sm90Config& c : tma_configs(o.problem)) {
        if (cuda::sm90_plan_of(o.problem, device, c).blocks == 0) continue;
        expect_same_bits(o, *cuda::sm90_kernel(o.problem, device, c), cuda::text(c));
      }
    }
  }
}

}  // namespace
}  // namespace tconv::gpu_test
