// Host side of strided_residues.cuh.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device_info.hpp"
#include "cuda/simt/strided_staged.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::cuda {

struct Holder;

namespace simt {

inline constexpr int kResidueThreads = 128;
// As compiled: pairs (ci, tap of a residue), each of which takes a sum for an element of dy.
inline constexpr int kResiduePairs[] = {1, 2, 3, 4, 6, 8, 12, 16};
constexpr int residue_outputs(int pairs) {  // elements of dy that a thread has at once
  return pairs <= 8 ? 8 : 4;
}
constexpr int residue_ahead(int pairs) {  // channels whose loads are under way, as registers allow
  return pairs <= 4 ? 2 : 1;
}

struct StridedResidueParams : StridedOperands {
  int32_t taps, more;      // a residue has `taps` taps; the first `more` ones; the others one less
  int32_t live, columns;   // threads with elements, a multiple of the stride; positions among them
  int32_t outputs, parts;  // positions of dx that a block stores; blocks of a row
  int32_t pitch;           // of a position's parts in shared memory: odd, so that lanes meet all banks
};

using StridedResidueFunction = void (*)(StridedResidueParams);
StridedResidueFunction strided_residue_function(core::DType dtype, int pairs);

struct StridedResidueConfig {
  int pairs = 1;  // of kResiduePairs: cin a group * taps, or more
  int64_t taps = 1, live = 0, outputs = 0, parts = 1, blocks = 1, shared_bytes = 0;
  double ms = 0;  // expected
  bool operator==(const StridedResidueConfig&) const = default;
  std::string text() const;
};

// Empty, or why a problem cannot run in this way.
std::string strided_residue_refusal(const core::Problem& problem);
StridedResidueConfig plan_strided_residues(const core::Problem& problem, const core::DeviceInfo& device);
Holder holder_of(const StridedResidueConfig& config, const core::Problem& problem, int64_t element);
std::unique_ptr<const plan::Kernel> strided_residue_kernel(const core::Problem& problem,
                                                           const core::DeviceInfo& device,
                                                           const StridedResidueConfig& config);

}  // namespace simt
}  // namespace tconv::cuda
