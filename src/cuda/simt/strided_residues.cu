#include <iterator>
#include <utility>

#include "cuda/host/by_dtype.hpp"
#include "cuda/simt/strided_residues.cuh"

namespace tconv::cuda::simt {
namespace {

template <class T, std::size_t... I>
StridedResidueFunction by_pairs(int pairs, std::index_sequence<I...>) {
  StridedResidueFunction found = nullptr;
  ((pairs == kResiduePairs[I]
        ? void(found = strided_residue_kernel<T, kResiduePairs[I], residue_outputs(kResiduePairs[I])>)
        : void()),
   ...);
  return found;
}

}  // namespace

StridedResidueFunction strided_residue_function(core::DType dtype, int pairs) {
  constexpr std::make_index_sequence<std::size(kResiduePairs)> kAll;
  return by_dtype<StridedResidueFunction>(dtype, by_pairs<float>(pairs, kAll), nullptr,
                                          by_pairs<__half>(pairs, kAll),
                                          by_pairs<__nv_bfloat16>(pairs, kAll));
}

}  // namespace tconv::cuda::simt
