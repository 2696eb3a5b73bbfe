// Expected times of cuda.simt.strided, by whether threads read dy where it lies.
#include <algorithm>
#include <cmath>

#include "core/polyphase.hpp"
#include "cuda/host/transposed_form.hpp"
#include "cuda/plan/geometry.hpp"
#include "cuda/simt/cube.hpp"
#include "cuda/simt/strided_sliding.hpp"

namespace tconv::cuda::simt {

using core::ceil_div;
using core::DeviceInfo;
using core::Problem;

namespace {

double copy_ms(double bytes, const DeviceInfo& device) {
  return bytes / std::max(1.0, device.copy_gbps) * 1e-6;
}

// Microseconds, fitted to 460 drawn layers in float32 and bf16 (H100): the median error is 9%.
struct WindowsRates {
  double launch = 2.2;
  double block = 0.17, tile = 0.10;       // of a block: each time that it stages, and each tile of rows
  double staged = 0.0186;                 // of a block's threads, an element each into shared memory
  double x = 0.5e-3, product = 0.255e-3;  // of a warp: what is shared by a tile's rows, and each of them
  double output = 3.3e-3;                 // of a warp
  double apart = 2.0, float64 = 2.5;      // where positions have an address each; of products
  double load = 0.92;                     // latency of loads that wait for each other
  double memory = 1.19, again = 1.6;      // of the copy rate; of dy that other blocks read again
} constexpr kWindows;

double windows_ms(const Problem& p, const StridedConfig& c, const DeviceInfo& device) {
  constexpr int64_t kLoads = 9;
  const auto sms = static_cast<double>(std::max(1, device.sm_count));
  const int64_t rounds = ceil_div(p.cout_per_group(), c.channels) * ceil_div(c.turns, c.tiles);
  const int64_t runs = ceil_div(c.row_tiles, c.turns);
  const int64_t loads =
      c.tiles * ceil_div(c.channels * p.k, c.lanes) + c.channels * ceil_div(c.window, kLoads * c.lanes);
  const auto blocks = static_cast<double>(ceil_div(p.n * p.groups * runs, c.units_a_block()) * c.parts);
  const auto staged = static_cast<double>(c.units_a_block() * p.cout_per_group()) *
                      static_cast<double>(c.window + c.rows * c.turns * p.k) / kStridedThreads;
  const auto products = static_cast<double>(p.n * p.groups * c.row_tiles * c.rows * p.cout_per_group()) *
                        static_cast<double>(p.l) * static_cast<double>(p.k) / 32;
  const double each =
      (kWindows.x / c.rows + kWindows.product) * (c.lanes * p.stride % 32 == 0 ? 1 : kWindows.apart);
  const double block = kWindows.block * static_cast<double>(rounds) +
                       kWindows.tile * static_cast<double>(c.turns) + kWindows.staged * staged;
  const double work = (blocks * block + kWindows.output * static_cast<double>(p.x_elements()) / 32 +
                       products * each * (p.dtype == core::DType::f64 ? kWindows.float64 : 1)) /
                      sms;
  const double chain = kWindows.load * static_cast<double>(rounds * loads);
  const double dy = static_cast<double>(p.y_elements()) * static_cast<double>(size_of(p.dtype));
  const double memory = 1e3 * (kWindows.memory * copy_ms(problem_work(p).bytes, device) +
                               kWindows.again * copy_ms(dy * static_cast<double>(runs - 1), device));
  return 1e-3 * (kWindows.launch + std::cbrt(cube(work) + cube(chain) + cube(memory)));
}

// Microseconds, fitted to 727 times of 480 drawn layers in float32 and bf16, with both counts of positions
// (H100): the median error is 8%.
struct DirectRates {
  double launch = 2.67, begin = 0.7;           // of the grid; of the blocks that run at once
  double four = 0.148, four_load = 0.0161;     // latency of four taps, and for each of their loads
  double tap = 0.123, tap_load = 5.8e-3;       // the same of those that remain
  double line = 0.0272;                        // latency of a channel, for each of a warp's lines
  double x = 5.95e-4, apart = 0.211;           // of a warp's load, and for each word between its lanes
  double weight = 3.2e-4, product = 2.62e-4;   // of a warp
  double output = 7.06e-3;                     // of a warp
  double half = 1.11, float64 = 2;             // times as long: all of a warp's in 16 bits; products and
                                               // latencies in float64
  double cache = 300e3, missed = 8.6e-4;       // bytes of L1; of each of those words if it does not keep them
  double memory = 1.09, again = 0.7;           // of the copy rate; of dy that other rows read again
  double resident = 5.34, most_resident = 12;  // blocks of an SM
} constexpr kDirect;

double direct_ms(const Problem& p, const StridedConfig& c, const DeviceInfo& device) {
  const auto sms = static_cast<double>(std::max(1, device.sm_count));
  const double wide = p.dtype == core::DType::f64 ? kDirect.float64 : 1;
  const auto rows = static_cast<double>(c.rows), positions = static_cast<double>(c.positions);
  const auto depth = static_cast<double>(p.cout_per_group()), taps = static_cast<double>(p.k);
  const auto element = static_cast<int64_t>(size_of(p.dtype));
  constexpr int kWarps = kStridedThreads / 32, kLine = 128;
  const int64_t units = p.n * p.groups * c.row_tiles;
  const double blocks = static_cast<double>(ceil_div(units, c.units_a_block()) * c.parts) / sms;
  // What a warp reads of a channel: lines of one tap, and bytes of all taps.
  const auto span = static_cast<double>(std::min<int64_t>(32, c.lanes) * p.stride * element);
  const double lines = positions * std::clamp(span / kLine, 1.0, 32.0);
  const auto reach = static_cast<double>((p.dilation * (p.k - 1) + 1) * element);
  const double window = std::min(positions * (span + reach), lines * kLine * taps);
  const double held = std::min(blocks, kDirect.most_resident) * kWarps * window;
  const double missed = p.k > 1 ? std::clamp(held / kDirect.cache - 1, 0.0, 1.0) : 0;
  // Words from a lane's element to the next lane's: from a cache line on, more make no difference.
  const double apart = std::max(1.0, static_cast<double>(std::min<int64_t>(p.stride * element, kLine)) / 4);
  const double x = kDirect.x * (1 + kDirect.apart * (apart - 1)) + kDirect.missed * apart * missed;
  const double term = positions * x + rows * kDirect.weight + rows * positions * kDirect.product * wide;
  const double work = blocks * kWarps * (depth * taps * term + kDirect.output * rows * positions) *
                      (element == 2 ? kDirect.half : 1);
  const double loads = positions + 2 * rows;
  const double channel = static_cast<double>(p.k / 4) * (kDirect.four + kDirect.four_load * loads) +
                         static_cast<double>(p.k % 4) * (kDirect.tap + kDirect.tap_load * loads) +
                         kDirect.line * lines;
  const double chain = std::max(1.0, blocks / kDirect.resident) * (depth * channel * wide + kDirect.begin);
  const double dy = static_cast<double>(p.y_elements()) * static_cast<double>(element);
  const double memory = 1e3 * (kDirect.memory * copy_ms(problem_work(p).bytes, device) +
                               kDirect.again * copy_ms(dy * static_cast<double>(c.row_tiles - 1), device));
  return 1e-3 * (kDirect.launch + std::cbrt(cube(work) + cube(chain) + cube(memory)));
}

}  // namespace

double strided_tensor_ms(const Problem& p, const DeviceInfo& device) {
  constexpr double kRate = 6e12;  // what float64 reaches on layers of vocoders
  const TransposedForm form = transposed_form(p);
  const Problem& f = form.product;
  const auto padded = static_cast<double>(ceil_div(f.cout_per_group(), 64) * 64) *
                      static_cast<double>(ceil_div(f.cin_per_group(), 32) * 32) *
                      static_cast<double>(f.k * p.groups * p.n) * static_cast<double>(p.l);
  const double memory = problem_work(p).bytes / (0.7 * std::max(1.0, device.copy_gbps)) * 1e-6;
  return 0.008 + std::max(padded / kRate * 1e3, memory) + form.planes_ms(device);
}

double strided_ms(const Problem& p, const StridedConfig& c, const DeviceInfo& device) {
  if (c.staged) return c.staged->ms;
  if (c.residues) return c.residues->ms;
  if (c.sliding) return strided_sliding_ms(p, c, device);
  return c.direct ? direct_ms(p, c, device) : windows_ms(p, c, device);
}

}  // namespace tconv::cuda::simt
