#include <algorithm>
#include <array>
#include <bit>

#include "core/checked.hpp"
#include "core/polyphase.hpp"
#include "core/reach.hpp"
#include "cuda/device/planes.cuh"
#include "cuda/host/transposed_form.hpp"
#include "cuda/plan/geometry.hpp"

namespace tconv::cuda {

using core::ceil_div;
using core::Operation;
using core::Problem;
using core::Status;

namespace {

constexpr int64_t kVector = 16;          // bytes
constexpr int64_t kEnoughChannels = 16;  // of tf32, for a slab

// How k is cut. It follows from the problem without n and l, because packed weights depend on it.
struct Cut {
  int64_t apart, phases, taps, step;
};

Cut cut_of(const Problem& p) {
  int64_t m = core::Polyphase(p).tap_stride;
  while (m < p.k && p.cout_per_group() * m < kEnoughChannels) m *= 2;
  return {m, std::min(p.k, m), ceil_div(p.k, m), p.dilation * m / p.stride};
}

template <class Word>
void (*planes_function(int phases))(PlanesParams) {
  if (phases == 1) return planes_kernel<Word, 1>;
  if (phases == 2) return planes_kernel<Word, 2>;
  return phases == 4 ? planes_kernel<Word, 4> : planes_kernel<Word, 8>;
}

Status make_planes(const TransposedForm& form, const Problem& p, const Launcher& launcher, const void* from,
                   void* to, LaunchOrder order) {
  const int64_t length = p.lout();
  PlanesParams k{};
  k.from = from;
  k.to = to;
  k.order = order;
  std::ranges::copy(p.y_steps(), k.from_step);
  k.channels = p.cout, k.length = length;
  k.stride = p.stride, k.dilation = p.dilation, k.padding = p.padding;
  k.rows = p.n * p.cout, k.pitch = form.product.x_stride[1];
  k.phases = form.deep.phases;
  const int at_once = k.phases <= 2 ? k.phases : k.phases <= 4 ? 4 : 8;
  const std::size_t element = size_of(p.dtype);
  const auto function = element == 2   ? planes_function<uint16_t>(at_once)
                        : element == 4 ? planes_function<uint32_t>(at_once)
                                       : planes_function<unsigned long long>(at_once);
  const int positions = 8 / at_once;
  k.lanes = 8;
  while (k.lanes < kPlanesThreads && k.lanes * positions < k.pitch) k.lanes *= 2;
  k.tiles = static_cast<int32_t>(ceil_div(k.pitch, int64_t{k.lanes} * positions));
  k.chunks = static_cast<int32_t>(ceil_div(k.phases, at_once));
  const int64_t row_blocks = ceil_div(k.rows, kPlanesThreads / k.lanes);
  return launcher.run(function, {row_blocks * k.tiles * k.chunks, kPlanesThreads}, k);
}

}  // namespace

std::string no_transposed_form(const Problem& p) {
  if (p.operation == Operation::transposed) return "";
  const std::string operation = std::string("operation ") + name_of(p.operation);
  if (p.operation != Operation::strided) return operation + ": this kernel is for transposed and strided";
  if (p.lout() < 1) return operation + " of no outputs";
  if (std::string far = core::beyond_tiles(p); !far.empty()) return far;
  const Cut cut = cut_of(p);
  // The kernels that make planes and pack weights count these with 32 bits.
  constexpr int64_t kCount = 1 << 26, kPlanes = int64_t{1} << 33;
  const core::Size positions = core::Size(p.l) + core::Size(cut.step) * cut.taps;
  const core::Size planes = positions * cut.phases * p.cout * p.n;
  if (p.k >= kCount || p.stride >= kCount || p.dilation >= kCount || p.cout * cut.phases >= kCount ||
      positions >= kCount || planes >= kPlanes) {
    return operation + ": its planes of phases have 2^33 elements or more";
  }
  // What lies between taps that are far apart would be read for nothing.
  const core::Size wanted = core::Size(std::min(p.l, p.lout())) * cut.taps * 4 + 4096;
  const bool read_as_it_is = p.stride == 1 && cut.apart == 1 && p.y_contiguous;
  if (!read_as_it_is && positions > wanted) return operation + ": taps far apart";
  return "";
}

TransposedForm transposed_form(const Problem& p) {
  TransposedForm form;
  form.product = p;
  WeightSteps& w = form.weights;
  const int64_t group = p.cin_per_group() * p.cout_per_group() * p.k, row = p.cout_per_group() * p.k;
  if (p.operation == Operation::transposed) {
    w = {group, row, p.k, static_cast<int32_t>(std::min<int64_t>(p.k, 1 << 30)), 0, 1, 1, Divisor::of(1)};
    return form;
  }
  const Cut cut = cut_of(p);
  const auto phases = static_cast<int32_t>(cut.phases), k = static_cast<int32_t>(p.k);
  const auto apart = static_cast<int32_t>(cut.apart),
             first = static_cast<int32_t>((cut.taps - 1) * cut.apart);
  w = {group, p.k, row, k, first, -apart, phases, Divisor::of(static_cast<uint32_t>(phases))};
  Problem& q = form.product;
  q.operation = Operation::transposed;
  q.cin = p.cout * cut.phases;
  q.cout = p.cin;
  q.k = cut.taps;
  q.stride = 1;
  q.dilation = cut.step;
  const bool side_by_side = p.y_steps()[2] == 1 || p.lout() == 1;
  form.planes = p.stride > 1 || cut.apart > 1 || !side_by_side;
  q.x_contiguous = p.y_contiguous;
  q.x_stride = p.y_stride;
  q.y_contiguous = true;
  q.y_stride = {0, 0, 0};
  if (!form.planes) {
    q.l = p.lout();
    q.padding = p.dilation * (p.k - 1) - p.padding;
    q.output_padding = -p.output_padding;
    return form;
  }
  q.padding = cut.step * (cut.taps - 1);
  q.output_padding = 0;
  q.l = p.l + q.padding;
  q.x_contiguous = false;
  const int64_t element = static_cast<int64_t>(size_of(p.dtype)), vector = kVector / element;
  const int64_t pitch = ceil_div(q.l, vector) * vector;
  q.x_stride = {q.cin * pitch, pitch, 1};
  form.planes_bytes = p.n * q.cin * pitch * element;
  form.deep = {phases,
               static_cast<int32_t>(p.stride),
               static_cast<int32_t>(p.dilation),
               k,
               first,
               -apart,
               p.padding,
               p.lout(),
               cut.apart * cut.taps != p.k && cut.taps > 1};
  return form;
}

namespace {

constexpr int kUnit = 8;  // channels of a unit

// Elements of 16 bytes.
int vector_of(const Problem& p) {
  return static_cast<int>(kVector) / static_cast<int>(size_of(p.dtype));
}

std::array<int64_t, 3> row_steps(const Problem& p) {
  return p.operation == Operation::transposed ? p.x_steps() : p.y_steps();
}

}  // namespace

std::string no_turned_form(const Problem& p) {
  constexpr int64_t kManyPhases = 31;  // a lane knows one, and a copy brings their positions 8 times
  if (p.dtype == core::DType::f64) return "dtype f64: wgmma has no float64";
  const int vector = vector_of(p);
  const auto steps = row_steps(p);
  const bool transposed = p.operation == Operation::transposed;
  const int64_t channels = transposed ? p.cin_per_group() : p.cout_per_group();
  if (steps[2] != 1) return "positions are not neighbours";
  if (p.n > 1 && (steps[0] <= 0 || steps[0] % vector != 0))
    return "samples begin differently behind 16 bytes";
  if (steps[1] <= 0) return "rows are the same or in falling order";
  const int classes = row_classes(steps[1], vector);
  if (p.groups > 1 && channels % classes != 0) return "groups begin differently behind 16 bytes";
  if (!copies_reach(p, steps[1], std::max<int64_t>(classes, channels), steps[0])) {
    return "rows lie too far apart for tensor copies";
  }
  if (channels < classes) return "fewer channels than row classes";
  if (transposed) return "";  // its phases are rows, not units
  const Cut cut = cut_of(p);
  const bool one = cut.phases == 1;  // all taps read positions of one residue, whatever the dilation is
  if (p.stride > 1 && ((p.dilation != 1 && !one) || p.stride > kManyPhases)) {
    return "planes of dilated taps, or of many phases";
  }
  return cut.apart == p.stride || one ? "" : "few channels: several phases read the same positions";
}

TransposedForm turned_form(const Problem& p) {
  TransposedForm form = transposed_form(p);
  const int64_t channels = p.operation == Operation::transposed ? p.cin_per_group() : p.cout_per_group();
  const int classes = row_classes(row_steps(p)[1], vector_of(p)), phases = form.planes ? form.deep.phases : 1;
  const int64_t blocks = round_up(ceil_div(channels, int64_t{kUnit}), int64_t{classes});
  form.product.cin = blocks * kUnit * phases * p.groups;
  form.planes_bytes = 0;
  if (!form.planes) {
    form.deep = {.phases = 1,
                 .stride = 1,
                 .dilation = 1,
                 .k = 1,
                 .first = 0,
                 .step = 0,
                 .padding = 0,
                 .length = form.product.l,
                 .ragged = false};
  }
  form.weights.units =
      form.deep.units = {static_cast<int32_t>(channels), std::countr_zero(unsigned(classes))};
  return form;
}

std::string no_phased_form(const Problem& p) {
  constexpr int64_t kManyPhases = 32;  // that pass over the same rows
  if (p.operation != Operation::strided) return "phases of a transposed product are rows, not slabs";
  const Cut cut = cut_of(p);
  if (cut.taps == 1 || cut.apart * cut.taps == p.k) return "all phases have all taps";
  return cut.phases > kManyPhases ? "many phases" : "";
}

TransposedForm phased_form(const Problem& p, int slab) {
  TransposedForm form = transposed_form(p);
  form.product.cin = p.groups * form.deep.phases * round_up<int64_t>(p.cout_per_group(), int64_t{slab});
  form.planes_bytes = 0;
  form.weights.units = form.deep.units = {static_cast<int32_t>(p.cout_per_group()), 0,
                                          std::countr_zero(unsigned(slab / kUnit))};
  return form;
}

double TransposedForm::planes_ms(const core::DeviceInfo& device) const {
  if (!planes || device.copy_gbps <= 0) return 0;
  return 0.003 + 2 * static_cast<double>(planes_bytes) / device.copy_gbps * 1e-6;
}

std::string key_of(const TransposedForm& form) {
  std::string key = " taps" + std::to_string(form.weights.first) + "," + std::to_string(form.weights.step);
  const UnitOrder& units = form.weights.units;
  if (units.channels > 0) {
    key += " units" + std::to_string(1 << units.log_classes) + "," + std::to_string(1 << units.log_run);
  }
  return key;
}

std::string words_of(const TransposedForm& form) {
  if (!form.planes) return "";
  return ", x in planes of " + std::to_string(form.deep.phases) + " phases (" +
         std::to_string((form.planes_bytes + 999'999) / 1'000'000) + " MB)";
}

Status form_input(const TransposedForm& form, const Problem& p, const Launcher& launcher,
                  const plan::Operands& operands, void* planes, LaunchOrder order, const void*& x) {
  x = p.operation == Operation::transposed ? operands.x : operands.grad_output;
  if (!form.planes) return {};
  const Status made = make_planes(form, p, launcher, x, planes, order);
  x = planes;
  return made;
}

}  // namespace tconv::cuda
