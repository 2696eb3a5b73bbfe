#include "cuda/sm80/common.hpp"

#include <algorithm>
#include <numeric>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/host/phases.hpp"
#include "cuda/sm80/dense_plan.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::Problem;
using core::Status;
using plan::Support;

// What the kernels count in 32 bits.
Support countable(const Problem& p) {
  if (std::string far = core::beyond_tiles(p); !far.empty()) return Support::no(std::move(far));
  constexpr int64_t kCount = int64_t{1} << 30;
  const int64_t phases = std::min(p.k, p.stride / std::gcd(p.stride, p.dilation));
  if (p.stride > kSm80MaxStride) return Support::no("stride above " + std::to_string(kSm80MaxStride));
  if ((phases - 1) * p.dilation > 1 << 15)
    return Support::no("dilation skews the phases beyond 2^15 outputs");
  if (p.k >= kCount / p.dilation || p.lout() >= kCount - p.padding || p.l >= kCount / 2) {
    return Support::no("a row's positions reach 2^30");
  }
  const int64_t columns = p.lout() / p.stride + p.dilation * (p.k + 1) / p.stride + 512;
  if (p.n >= kCount / columns || p.n * p.cout >= kCount / ceil_div(p.lout() + 1, kSm80SumChunk)) {
    return Support::no("samples times positions reach 2^30");
  }
  const int64_t rows = (p.cout_per_group() + 16) * phases;
  const core::Size depth = core::Size(p.cin_per_group() + 32) * p.k;
  if (rows >= 1 << 24 || depth >= 1 << 26 || p.groups >= (1 << 20) / ceil_div(rows, 64)) {
    return Support::no("channels times k or groups reach 2^20");
  }
  const Phases f = phases_of(p);
  if (core::Size(f.positions) * f.count > core::Size(32) * p.lout() + 1024) {
    return Support::no("padding cuts nearly all outputs of " + std::to_string(f.count) + " phases");
  }
  return Support::yes();
}

}  // namespace

Sm80Functions sm80_functions(Sm80Mode mode) {
  switch (mode) {
    case Sm80Mode::ieee:
      return sm80_ieee();
    case Sm80Mode::f16:
      return sm80_f16();
    case Sm80Mode::bf16:
      return sm80_bf16();
    case Sm80Mode::f64:
      return sm80_f64();
    case Sm80Mode::tf32:
      break;
  }
  return sm80_tf32();
}

Support tensor_supports(const Problem& p) {
  if (!p.positions_contiguous()) return Support::no("x's positions do not lie side by side");
  // hi*hi + hi*lo + lo*hi is a few units of 2^-24 off a product: within the promise of a sum of 16 terms or
  // more, not of a product alone.
  if (sm80_mode(p) == Sm80Mode::ieee && p.cin_per_group() < 16) {
    return Support::no(
        "ieee float32 with fewer than 16 channels a group: a split product would be the error");
  }
  return countable(p);
}

std::string tensor_pack_key(const char* kernel, const Problem& p, const Phases& phases) {
  return std::string(kernel) + " " + name_of(p.operation) + " " + name_of(p.dtype) + " " + name_of(p.precision) + " ci" +
         std::to_string(p.cin) + " co" + std::to_string(p.cout) + " k" + std::to_string(p.k) + " g" +
         std::to_string(p.groups) + " phases" + std::to_string(phases.count) + "," +
         std::to_string(phases.tap_stride);
}

Status sum_partial(const Launcher& launcher, Sm80Mode mode, Sm80SumParams params, const Problem& problem,
                   const plan::Operands& operands, const plan::RunContext& context) {
  params.partial = context.workspace;
  params.bias = problem.has_bias ? operands.bias : nullptr;
  params.output = operands.output;
  const int64_t rows = problem.n * problem.cout, lout = std::max<int64_t>(1, problem.lout());
  // One output a thread where there are few.
  const int64_t chunk = rows * lout < 512 * kSm80SumChunk ? kSm80SumThreads : kSm80SumChunk;
  const int64_t chunks = ceil_div(lout, chunk), chunk_rows = std::max<int64_t>(1, chunk / lout);
  auto divisor = [](int64_t value) { return Divisor::of(static_cast<uint32_t>(value)); };
  params.rows = static_cast<uint32_t>(rows);
  params.chunk = static_cast<uint32_t>(chunk);
  params.chunk_rows = static_cast<uint32_t>(chunk_rows);
  params.chunks_div = divisor(chunks);
  params.lout_div = divisor(lout);
  params.cout_div = divisor(problem.cout);
  params.cout_group_div = divisor(params.cout_group);
  params.block_couts_div = divisor(params.block_couts);
  return launcher.run(sm80_functions(mode).sum, {ceil_div(rows, chunk_rows) * chunks, kSm80SumThreads},
                      params);
}

}  // namespace tconv::cuda
