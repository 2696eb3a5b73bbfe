#include <algorithm>

#include "core/polyphase.hpp"
#include "cuda/device/phase_fours.cuh"
#include "cuda/device/phase_tiles.cuh"
#include "cuda/device/row_sum.cuh"
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

Divisor divisor(int64_t value) {
  return Divisor::of(static_cast<uint32_t>(value));
}

// Whether sums are added by tiles.
bool in_tiles(const PhaseSumParams& p) {
  return p.phases > kSumTilePhases && p.dilation == 1 && p.phases == p.stride;
}

PhaseTilesParams tiles_of(const PhaseSumParams& p) {
  PhaseTilesParams t{p, p.padding / p.stride, 0, {}, {}};
  t.last_u = static_cast<int>((p.lout - 1 + p.padding) / p.stride);
  t.position_tiles_div =
      Divisor::of(static_cast<uint32_t>(ceil_div(std::max(1, t.last_u - t.tiles_u + 1), kSumTilePositions)));
  t.phase_tiles_div = Divisor::of(static_cast<uint32_t>(ceil_div(p.phases, kSumTilePhases)));
  return t;
}

// Whether sums are added by fours: all rows of partial sums begin on fours.
bool in_fours(const PhaseSumParams& p, int64_t rows) {
  const int64_t begin = p.padding - p.first_u;
  const bool whole = (begin | p.partial_columns | p.sample_columns | p.split_size) % kSumFour == 0;
  const bool counted = p.lout > 0 && rows * p.lout < int64_t{1} << 31;
  return whole && counted && !p.wide && p.stride == 1 && p.phases == 1;
}

// The same for a few phases, if every output has one and a row keeps half of a block's threads busy.
bool in_phase_fours(const PhaseSumParams& p) {
  constexpr int64_t kLeast = kSumThreads / 2 * kSumFour;
  const bool whole = (p.partial_columns | p.sample_columns | p.split_size) % kSumFour == 0;
  return whole && !p.wide && p.lout >= kLeast && p.phases > 1 && p.phases <= kSumTilePhases &&
         p.dilation == 1 && p.phases == p.stride;
}

PhaseFoursParams phase_fours_of(const PhaseSumParams& p) {
  const auto first_column = static_cast<int>(p.padding / p.stride - p.first_u);
  PhaseFoursParams t{p, kSumTile / p.phases / kSumFour * kSumFour, 0, 0, {}, {}};
  t.tiles_u = static_cast<int>(p.first_u) + first_column / kSumFour * kSumFour;
  t.last_u = static_cast<int>((p.lout - 1 + p.padding) / p.stride);
  t.tiles_div = divisor(ceil_div(std::max(1, t.last_u - t.tiles_u + 1), t.positions));
  t.fours_div = divisor(t.positions / kSumFour);
  return t;
}

core::Status sum_phase_fours(const Launcher& launcher, DType dtype, const PhaseSumParams& params) {
  const PhaseFoursParams t = phase_fours_of(params);
  const auto function =
      by_dtype<void (*)(PhaseFoursParams)>(dtype, phase_fours_kernel<float>, nullptr,
                                           phase_fours_kernel<__half>, phase_fours_kernel<__nv_bfloat16>);
  return launcher.run(function, {int64_t{params.rows} * t.tiles_div.value, kSumThreads}, t);
}

// Fours of a thread: one if there are few.
int fours_each(int64_t fours) {
  return fours < 1024 * kSumThreads ? 1 : 2;
}

template <int kCount>
void (*row_function(DType dtype))(RowSumParams) {
  return by_dtype<void (*)(RowSumParams)>(dtype, row_sum_kernel<float, kCount>, nullptr,
                                          row_sum_kernel<__half, kCount>,
                                          row_sum_kernel<__nv_bfloat16, kCount>);
}

core::Status sum_fours(const Launcher& launcher, DType dtype, const PhaseSumParams& params) {
  const int64_t row_fours = ceil_div(params.lout, int64_t{kSumFour}), fours = params.rows * row_fours;
  const auto address = reinterpret_cast<uintptr_t>(params.output);
  const bool vectors = params.lout % kSumFour == 0 && address % (kSumFour * core::size_of(dtype)) == 0;
  const RowSumParams r{params, static_cast<uint32_t>(fours), divisor(row_fours), vectors};
  const int each = fours_each(fours);
  return launcher.run(each == 1 ? row_function<1>(dtype) : row_function<2>(dtype),
                      {ceil_div(fours, int64_t{each} * kSumThreads), kSumThreads}, r);
}

// One output for each thread if there are few.
int64_t chunk_of(int64_t outputs) {
  return outputs < 512 * kSumChunk ? kSumThreads : kSumChunk;
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
  if (in_fours(params, rows)) return sum_fours(launcher, problem.dtype, params);
  if (in_phase_fours(params)) return sum_phase_fours(launcher, problem.dtype, params);
  if (in_tiles(params)) {
    const PhaseTilesParams tiles = tiles_of(params);
    const int64_t each = int64_t{tiles.position_tiles_div.value} * tiles.phase_tiles_div.value;
    const auto function = by_dtype(problem.dtype, [](auto type) -> void (*)(PhaseTilesParams) {
      using T = decltype(type);
      return phase_tiles_kernel<T, Accumulator<T>>;
    });
    return launcher.run(function, {rows * each, kSumThreads}, tiles);
  }
  return launcher.run(function_of<PhasePlace>(problem.dtype),
                      {ceil_div(rows, chunk_rows) * chunks, kSumThreads}, params);
}

SumPosition sum_position(int64_t elements, int64_t element) {
  const int64_t chunk = chunk_of(elements);
  const int inside = static_cast<int>(element % chunk);
  return {element / chunk, inside % kSumThreads, inside / kSumThreads};
}

SumPosition sum_position(const PhaseSumParams& params, int64_t rows, int64_t row, int64_t o) {
  if (in_fours(params, rows)) {
    const int64_t row_fours = ceil_div(params.lout, int64_t{kSumFour}), at = row * row_fours + o / kSumFour;
    const int64_t chunk = int64_t{kSumThreads} * fours_each(rows * row_fours);
    const auto inside = static_cast<int>(at % chunk);
    return {at / chunk, inside % kSumThreads,
            inside / kSumThreads * kSumFour + static_cast<int>(o % kSumFour)};
  }
  if (in_phase_fours(params)) {
    const PhaseFoursParams t = phase_fours_of(params);
    const int64_t turn = (o + t.padding) / t.stride, u = turn - t.tiles_u,
                  phase = o + t.padding - turn * t.stride;
    const auto four = static_cast<int>(phase * t.fours_div.value + u % t.positions / kSumFour);
    return {row * t.tiles_div.value + u / t.positions, four % kSumThreads,
            four / kSumThreads * kSumFour + static_cast<int>(u % kSumFour)};
  }
  if (!in_tiles(params)) return sum_position(rows, params.lout, row, o);
  constexpr int kWarps = kSumThreads / 32;
  const PhaseTilesParams t = tiles_of(params);
  const int64_t turn = (o + t.padding) / t.stride, u = turn - t.tiles_u,
                phase = o + t.padding - turn * t.stride;
  const int64_t tile = row * t.position_tiles_div.value + u / kSumTilePositions;
  const auto of_tile = static_cast<int>(u % kSumTilePositions);
  const auto in_phases = static_cast<int>(phase % kSumTilePhases);
  return {tile * t.phase_tiles_div.value + phase / kSumTilePhases, of_tile % kWarps * 32 + in_phases % 32,
          of_tile / kWarps * (kSumTilePhases / 32) + in_phases / 32};
}

SumPosition sum_position(int64_t rows, int64_t lout, int64_t row, int64_t o) {
  const int64_t chunk = chunk_of(rows * lout), chunk_rows = std::max<int64_t>(1, chunk / lout);
  const int64_t chunks = ceil_div(lout, chunk), e = row % chunk_rows * lout + o;
  const int inside = static_cast<int>(e % chunk);
  return {row / chunk_rows * chunks + e / chunk, inside % kSumThreads, inside / kSumThreads};
}

}  // namespace tconv::cuda
