#include "faulty.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/float16.hpp"
#include "core/polyphase.hpp"
#include "reference/reference.hpp"

namespace tconv::judge::testing {
namespace {

using core::DType;
using core::Problem;

float cut_tf32(float v) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(v) & ~0x1fffu);
}

double coarse(Fault fault, double v) {
  if (fault == Fault::coarse_operands) return core::bf16_to_float(core::double_to_bf16(v));
  if (fault == Fault::truncates_tf32) return cut_tf32(static_cast<float>(v));
  if (fault == Fault::rounds_tf32) return round_tf32(v);
  return v;
}

class FaultyKernel final : public plan::Kernel {
 public:
  FaultyKernel(const Problem& problem, Fault fault, int threads)
      : p_(problem), fault_(fault), threads_(threads) {}

  std::size_t packed_bytes() const override {
    const bool packs = fault_ == Fault::packs_wrong || fault_ == Fault::beyond_packed;
    return packs ? static_cast<std::size_t>(p_.weight_elements()) * size_of(p_.dtype) : 0;
  }
  std::size_t workspace_bytes() const override { return 64; }
  std::string describe() const override { return "faulty"; }

  core::Status pack(const void* weight, void* packed, const plan::RunContext& context) const override {
    std::memcpy(packed, weight, packed_bytes());
    const bool own_buffer = context.workspace != packed;
    if (fault_ == Fault::beyond_packed && own_buffer)
      static_cast<std::byte*>(packed)[packed_bytes()] = std::byte{1};
    if (fault_ == Fault::packs_wrong && own_buffer) store(packed, 0, load(weight, 0) + 1);
    return {};
  }

  core::Status run(const plan::Operands& in, const plan::RunContext& context) const override {
    const int64_t count = p_.y_elements(), last = count - 1, middle = count / 2;
    std::atomic<int64_t> first_task{-1};
    context.executor.run(count, [&](int64_t i, int32_t) {
      int64_t none = -1;
      first_task.compare_exchange_strong(none, i);
      if (fault_ == Fault::unwritten && i == middle) return;
      write(in.output, i, sum_at(in, i));
    });
    auto nudge = [&](int64_t i, double by) { store(in.output, i, load(in.output, i) + by); };
    if (fault_ == Fault::wrong_element) nudge(last, unit(load(in.output, last)));
    if (fault_ == Fault::wrong_by_one) nudge(middle, 1);
    if (fault_ == Fault::beyond_output) store(in.output, count, 0);
    if (fault_ == Fault::before_output) store(in.output, -1, 0);
    if (fault_ == Fault::beyond_workspace) context.workspace[64] = std::byte{0};
    if (fault_ == Fault::changes_x) store(const_cast<void*>(in.x), 0, 99);
    if (fault_ == Fault::reads_before_x) nudge(0, 0 * load(in.x, -1));
    if (fault_ == Fault::reads_behind_weight) nudge(last, 0 * load(in.weight, p_.weight_elements()));
    if (fault_ == Fault::threads_show && threads_ % 2 == 1) flip_last_bit(in.output);
    if (fault_ == Fault::order_shows && first_task != 0) flip_last_bit(in.output);
    if (fault_ == Fault::strange_nan) turn_nan_negative(in.output, count);
    if (fault_ == Fault::leans_on_workspace) nudge(0, load(context.workspace, 0));
    return {};
  }

 private:
  double load(const void* data, int64_t i) const { return reference::load(p_.dtype, data, i); }
  void store(void* data, int64_t i, double v) const { reference::store(p_.dtype, data, i, v); }
  double unit(double v) const {  // a little more than the bound allows
    const double digits = p_.dtype == DType::f64 ? 0x1p-48 : p_.dtype == DType::f32 ? 0x1p-17 : 0x1p-6;
    return std::fabs(v) * digits + digits;
  }
  void flip_last_bit(void* output) const { static_cast<std::byte*>(output)[0] ^= std::byte{1}; }

  void turn_nan_negative(void* output, int64_t count) const {
    const std::size_t element = size_of(p_.dtype);
    for (int64_t i = 0; i < count; ++i) {
      auto* top = static_cast<std::byte*>(output) + static_cast<std::size_t>(i + 1) * element - 1;
      if (std::isnan(load(output, i))) *top |= std::byte{0x80};
    }
  }

  void write(void* output, int64_t i, double v) const {
    store(output, i, v);
    if (fault_ != Fault::truncates || std::fabs(load(output, i)) <= std::fabs(v)) return;
    auto* bits = static_cast<uint16_t*>(output) + i;  // 16-bit dtypes: one step towards zero
    *bits = static_cast<uint16_t>(*bits - 1);
  }

  double sum_at(const plan::Operands& in, int64_t index) const {
    const bool by_formula = fault_ == Fault::coarse_operands || fault_ == Fault::coarse_sums ||
                            fault_ == Fault::truncates_tf32 || fault_ == Fault::rounds_tf32 ||
                            fault_ == Fault::multiplies_padding;
    if (!by_formula) return reference::element_at(p_, in, index).value;
    const int64_t lout = p_.lout(), o = index % lout, co = index / lout % p_.cout, n = index / lout / p_.cout;
    double sum = 0;
    for (int64_t ci = 0; ci < p_.cin; ++ci) {
      for (int64_t k = 0; k < p_.k; ++k) {
        const int64_t reach = o + p_.padding - k * p_.dilation;
        const bool outside = reach < 0 || reach / p_.stride >= p_.l;
        if (outside && fault_ == Fault::multiplies_padding) {
          sum += 0 * load(in.weight, (ci * p_.cout + co) * p_.k + k);
        }
        if (outside || reach % p_.stride != 0) continue;
        sum += coarse(fault_, load(in.x, (n * p_.cin + ci) * p_.l + reach / p_.stride)) *
               coarse(fault_, load(in.weight, (ci * p_.cout + co) * p_.k + k));
        if (fault_ == Fault::coarse_sums) sum = core::f16_to_float(core::double_to_f16(sum));
      }
    }
    return sum + (p_.has_bias ? load(in.bias, co) : 0);
  }

  Problem p_;
  Fault fault_;
  int threads_;
};

constexpr int kFaults = static_cast<int>(Fault::rounds_tf32) + 1;

plan::Support always(const Problem&, const core::DeviceInfo&, const plan::PlanOptions&) {
  return plan::Support::yes();
}

template <int F>
std::unique_ptr<const plan::Kernel> make(const Problem& p, const core::DeviceInfo&,
                                         const plan::PlanOptions& options) {
  return std::make_unique<FaultyKernel>(p, static_cast<Fault>(F), options.threads);
}

template <int... F>
std::array<plan::KernelEntry, kFaults> entries(std::integer_sequence<int, F...>) {
  return {plan::KernelEntry{"faulty", "a kernel with a fault", core::DeviceKind::cpu, always, make<F>}...};
}

}  // namespace

const plan::KernelEntry& faulty(Fault fault) {
  static const auto list = entries(std::make_integer_sequence<int, kFaults>());
  return list[static_cast<std::size_t>(fault)];
}

}  // namespace tconv::judge::testing
