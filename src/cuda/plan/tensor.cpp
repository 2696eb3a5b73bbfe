#include "cuda/plan/tensor.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/device/ordered_sum.hpp"
#include "cuda/host/phases.hpp"

namespace tconv::cuda {
namespace {

using core::ceil_div;
using core::DType;
using core::Problem;
using plan::Support;

// What the kernels count with 32 bits.
Support countable(const Problem& p) {
  if (std::string far = core::beyond_tiles(p); !far.empty()) return Support::no(std::move(far));
  constexpr int64_t kCount = int64_t{1} << 30;
  const int64_t phases = core::Polyphase(p).count;
  if (p.stride > kTensorMaxStride) return Support::no("stride above " + std::to_string(kTensorMaxStride));
  if ((phases - 1) * p.dilation > 1 << 15)
    return Support::no("dilation skews the phases beyond 2^15 outputs");
  if (p.k >= kCount / p.dilation || p.lout() >= kCount - p.padding || p.l >= kCount / 2) {
    return Support::no("a row's positions reach 2^30");
  }
  const int64_t columns = p.lout() / p.stride + p.dilation * (p.k + 1) / p.stride + 512;
  if (p.n >= kCount / columns || p.n * p.cout >= kCount / ceil_div(p.lout() + 1, kSumChunk)) {
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

Arithmetic arithmetic_of(const Problem& p) {
  switch (p.dtype) {
    case DType::f64:
      return Arithmetic::f64;
    case DType::f16:
      return Arithmetic::f16;
    case DType::bf16:
      return Arithmetic::bf16;
    case DType::f32:
      break;
  }
  return p.precision == core::Precision::tf32 ? Arithmetic::tf32 : Arithmetic::ieee;
}

const char* name_of(Arithmetic arithmetic) {
  constexpr const char* kNames[] = {"tf32", "ieee as 3 products of tf32", "f16", "bf16", "f64"};
  return kNames[static_cast<int>(arithmetic)];
}

std::string too_few_terms(const Problem& p, int64_t at_most) {
  constexpr int64_t kTerms = 16;
  // Taps that meet no position of a short sample make no terms.
  const bool strided = p.operation == core::Operation::strided;
  const int64_t terms = strided ? p.cout_per_group() * std::min(p.k, p.lout())
                                : p.cin_per_group() * std::min(core::Polyphase(p).taps, p.l);
  if (arithmetic_of(p) != Arithmetic::ieee || std::min(terms, at_most) >= kTerms) return "";
  return "ieee float32 with sums of fewer than 16 terms: too few to hide the error of split products";
}

Support tensor_supports(const Problem& p) {
  if (!p.positions_contiguous()) return Support::no("x's positions are not contiguous");
  // hi*hi + hi*lo + lo*hi differs from a product by a few units of 2^-24: within the promise for a sum of 16
  // terms more, not of a product alone.
  if (arithmetic_of(p) == Arithmetic::ieee && p.cin_per_group() < 16) {
    return Support::no(
        "ieee float32 with fewer than 16 channels a group: too few to hide the error of split products");
  }
  return countable(p);
}

std::string tensor_pack_key(const char* kernel, const Problem& p, const Phases& phases) {
  return std::string(kernel) + " " + name_of(p.operation) + " " + name_of(p.dtype) + " " +
         name_of(p.precision) + " ci" + std::to_string(p.cin) + " co" + std::to_string(p.cout) + " k" +
         std::to_string(p.k) + " g" + std::to_string(p.groups) + " phases" + std::to_string(phases.count) +
         "," + std::to_string(phases.tap_stride);
}

std::string rows_and_depth(const Problem& p, const Phases& f) {
  return ", rows (" + std::to_string(p.cout_per_group()) + " cout, " + std::to_string(f.count) +
         " phases), depth " + std::to_string(p.cin_per_group()) + " channels x " + std::to_string(f.taps) +
         " taps";
}

}  // namespace tconv::cuda
