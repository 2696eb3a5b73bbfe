#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/device/ordered_sum.cuh"
#include "cuda/host/by_dtype.cuh"
#include "cuda/host/ordered_sum.hpp"

namespace tconv::cuda {

using core::ceil_div;
using core::DType;

namespace {

template <SumPlace Place, class Part = void>
void (*function_of(DType dtype))(typename Place::Params) {
  return by_dtype(dtype, [](auto type) -> void (*)(typename Place::Params) {
    using T = decltype(type);
    using Sum = std::conditional_t<std::is_void_v<Part>, Accumulator<T>, Part>;
    return ordered_sum_kernel<T, Sum, Sum, Place>;
  });
}

// One output for each thread if there are few.
int64_t chunk_of(int64_t outputs) {
  return outputs < 512 * kSumChunk ? kSumThreads : kSumChunk;
}

Divisor divisor(int64_t value) {
  return Divisor::of(static_cast<uint32_t>(value));
}

}  // namespace

FlatSumParams flat_sum_params(const core::Problem& problem, const plan::Operands& operands,
                              const void* workspace, int splits) {
  FlatSumParams params{};
  params.partial = workspace;
  params.bias = problem.has_bias ? operands.bias : nullptr;
  params.output = operands.output;
  params.split_size = params.elements = problem.y_elements();
  params.splits = splits;
  params.lout = problem.lout();
  params.cout = problem.cout;
  return params;
}

FlatSumParams flat_sum_params(const void* partial, void* output, int64_t elements, int64_t splits) {
  FlatSumParams params{};
  params.partial = partial;
  params.output = output;
  params.split_size = params.elements = params.lout = elements;
  params.cout = 1;
  params.splits = static_cast<int>(splits);
  return params;
}

core::Status sum_partials(const Launcher& launcher, DType dtype, Parts parts, FlatSumParams params) {
  const int64_t chunk = chunk_of(params.elements);
  params.chunk = static_cast<int>(chunk);
  const auto function =
      parts == Parts::float64 ? function_of<FlatPlace, double>(dtype) : function_of<FlatPlace>(dtype);
  return launcher.run(function, {ceil_div(params.elements, chunk), kSumThreads}, params);
}

core::Status sum_partials(const Launcher& launcher, const core::Problem& problem,
                          const plan::Operands& operands, const void* workspace, PhaseSumParams params) {
  params.partial = workspace;
  params.bias = problem.has_bias ? operands.bias : nullptr;
  params.output = operands.output;
  const int64_t rows = problem.n * problem.cout, lout = std::max<int64_t>(1, problem.lout());
  const int64_t chunk = chunk_of(rows * lout);
  const int64_t chunks = ceil_div(lout, chunk), chunk_rows = std::max<int64_t>(1, chunk / lout);
  params.rows = static_cast<uint32_t>(rows);
  params.chunk = static_cast<uint32_t>(chunk);
  params.chunk_rows = static_cast<uint32_t>(chunk_rows);
  params.chunks_div = divisor(chunks);
  params.lout_div = divisor(lout);
  params.cout_div = divisor(problem.cout);
  params.cout_group_div = divisor(params.cout_group);
  params.block_couts_div = divisor(params.block_couts);
  return launcher.run(function_of<PhasePlace>(problem.dtype),
                      {ceil_div(rows, chunk_rows) * chunks, kSumThreads}, params);
}

SumPosition sum_position(int64_t elements, int64_t element) {
  const int64_t chunk = chunk_of(elements);
  const int inside = static_cast<int>(element % chunk);
  return {element / chunk, inside % kSumThreads, inside / kSumThreads};
}

SumPosition sum_position(int64_t rows, int64_t lout, int64_t row, int64_t o) {
  const int64_t chunk = chunk_of(rows * lout), chunk_rows = std::max<int64_t>(1, chunk / lout);
  const int64_t chunks = ceil_div(lout, chunk), e = row % chunk_rows * lout + o;
  const int inside = static_cast<int>(e % chunk);
  return {row / chunk_rows * chunks + e / chunk, inside % kSumThreads, inside / kSumThreads};
}

}  // namespace tconv::cuda
