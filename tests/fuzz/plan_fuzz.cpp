// Problems over the whole 63-bit range: validated, planned by every kernel of the CPU's list, their sizes
// held against the tensors', and where the tensors are small, run and compared with the definition.
//
// An input is a problem's text, or bytes that draw one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/checked.hpp"
#include "plan/planner.hpp"
#include "reference/reference.hpp"
#include "support/planning.hpp"

namespace {

using namespace tconv;
using core::DType;
using core::Operation;
using core::Problem;
using core::Size;

constexpr int kThreads = 3;
constexpr int64_t kProducts = 1 << 16, kElements = 1 << 14;  // of what is run

void demand(bool right, const Problem& p, const char* what) {
  if (right) return;
  std::fprintf(stderr, "%s: %s\n", text(p).c_str(), what);
  std::abort();
}

// Numbers from the input's bytes; zeros when they are used up.
class Bytes {
 public:
  Bytes(const uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  int64_t byte() { return left_ == 0 ? 0 : (--left_, *data_++); }
  int64_t below(int64_t end) { return byte() % end; }
  bool chance(int64_t of_256) { return byte() < of_256; }
  int64_t raw() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | static_cast<uint64_t>(byte());
    return static_cast<int64_t>(value >> 1);
  }
  // Small, a power of two or one beside it, or anything of any length.
  int64_t number() {
    const int64_t kind = below(4);
    if (kind == 0) return below(20);
    if (kind == 1) return (int64_t{1} << below(63)) + below(3) - 1;
    if (kind == 2) return raw() >> below(63);
    return Size::kLargest - raw() % 40 * (below(3) - 1 > 0 ? 1 : 0);
  }

 private:
  const uint8_t* data_;
  std::size_t left_;
};

// As large as `most` allows, at least `least`.
int64_t within(int64_t value, int64_t least, int64_t most) {
  if (most <= least) return least;
  return value < least ? least : value > most ? least + value % (most - least + 1) : value;
}

// Often so that full lengths fit 63 bits and padding leaves a short output.
Problem draw(Bytes& in) {
  Problem p;
  const bool usual = !in.chance(16);
  p.operation = in.chance(160) ? Operation::transposed : static_cast<Operation>(in.below(4));
  p.dtype = static_cast<DType>(in.below(4));
  if (p.dtype == DType::f32 && in.chance(40)) p.precision = core::Precision::tf32;
  p.has_bias = in.chance(128);
  auto count = [&](int64_t small) { return in.chance(20) ? in.number() : 1 + in.below(small); };
  p.n = count(4) - (in.chance(20) ? 1 : 0);
  p.groups = in.chance(60) ? count(6) : 1;
  p.cin = (Size(p.groups) * count(20)).value();
  p.cout = (Size(p.groups) * count(20)).value();
  p.l = count(24);
  p.k = count(40);
  p.stride = in.chance(128) ? in.number() : 1 + in.below(12);
  p.dilation = in.chance(128) ? in.number() : 1 + in.below(6);
  if (in.chance(60)) p.dilation = (Size(p.stride / (1 + in.below(5))) * in.below(5)).value();
  if (usual) {
    p.l = std::max<int64_t>(1, p.l), p.k = std::max<int64_t>(1, p.k);
    constexpr int64_t kHalf = Size::kLargest / 2 - 64;
    p.stride = within(p.stride, 1, p.l == 1 ? Size::kLargest : kHalf / (p.l - 1));
    p.dilation = within(p.dilation, 1, p.k == 1 ? Size::kLargest : kHalf / (p.k - 1));
  }
  const int64_t most = std::max(p.stride, p.dilation);
  if (in.chance(80)) p.output_padding = usual ? within(in.number(), 0, most - 1) : in.number();
  const Size full =
      Size(p.l - (p.l > 0)) * p.stride + Size(p.dilation) * (p.k - (p.k > 0)) + p.output_padding + 1;
  if (in.chance(200) && full.fits()) {
    const int64_t wanted = in.chance(230) ? in.below(64) : in.number();
    p.padding = std::max<int64_t>(0, full.value() - wanted) / 2;
  } else if (in.chance(128)) {
    p.padding = in.number();
  }
  if (p.reads_x() && in.chance(40)) {
    p.x_contiguous = false;
    for (int64_t& step : p.x_stride) step = in.chance(40) ? in.number() : in.below(30);
  }
  if (p.reads_y() && in.chance(40)) {
    p.y_contiguous = false;
    for (int64_t& step : p.y_stride) step = in.chance(40) ? in.number() : in.below(30);
  }
  p.bias_of_x = p.writes_grad_bias() && in.chance(100);
  return p;
}

// Exactly so many bytes, so that AddressSanitizer sees the first beyond them.
struct Buffer {
  explicit Buffer(std::size_t bytes) : size(bytes) {
    void* at = nullptr;
    if (posix_memalign(&at, 256, std::max<std::size_t>(1, bytes)) != 0) std::abort();
    data.reset(static_cast<std::byte*>(at));
    std::fill_n(data.get(), bytes, std::byte{0xff});  // NaN in every type
  }
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data;
  std::size_t size;
};

Buffer integers(const Problem& p, int64_t elements, int64_t turn) {
  Buffer buffer(static_cast<std::size_t>(elements) * size_of(p.dtype));
  for (int64_t i = 0; i < elements; ++i) {
    reference::store(p.dtype, buffer.data.get(), i, static_cast<double>((i * 7 + turn) % 5 - 2));
  }
  return buffer;
}

// Every product of the definition, in any order: integers add up exactly. The gradient of a bias is last.
std::vector<double> defined(const Problem& p, const plan::Operands& in) {
  std::vector<double> out(static_cast<std::size_t>(p.output_elements() + p.grad_bias_elements()));
  const auto steps = p.x_steps(), y_steps = p.y_steps();
  const int64_t lout = p.lout(), cout_g = p.cout_per_group();
  auto at = [&](const void* data, int64_t index) { return reference::load(p.dtype, data, index); };
  auto add = [&](int64_t index, double v) { out[static_cast<std::size_t>(index)] += v; };
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t row = 0; row < p.cout * lout; ++row) {
      const int64_t y = n * p.cout * lout + row;
      if (p.operation == Operation::bias) {
        add(row / lout,
            at(in.grad_output, n * y_steps[0] + row / lout * y_steps[1] + row % lout * y_steps[2]));
      }
      if (p.operation == Operation::transposed && p.has_bias) add(y, at(in.bias, row / lout));
    }
    for (int64_t row = 0; row < p.cin * p.l && p.operation == Operation::strided && p.has_bias; ++row) {
      add(n * p.cin * p.l + row, at(in.bias, row / p.l));
    }
    const int64_t length = p.bias_of_x ? p.l : lout;
    for (int64_t row = 0; row < p.grad_bias_elements() * length; ++row) {
      const auto& step = p.bias_of_x ? steps : y_steps;
      add(p.output_elements() + row / length,
          at(p.bias_of_x ? in.x : in.grad_output,
             n * step[0] + row / length * step[1] + row % length * step[2]));
    }
    for (int64_t ci = 0; ci < p.cin && p.operation != Operation::bias; ++ci) {
      for (int64_t c = 0; c < cout_g; ++c) {
        const int64_t co = ci / p.cin_per_group() * cout_g + c;
        for (int64_t i = 0; i < p.l; ++i) {
          for (int64_t k = 0; k < p.k; ++k) {
            const __int128 o =
                static_cast<__int128>(p.stride) * i + static_cast<__int128>(p.dilation) * k - p.padding;
            if (o < 0 || o >= lout) continue;
            const int64_t x = n * steps[0] + ci * steps[1] + i * steps[2], w = (ci * cout_g + c) * p.k + k;
            const auto place = static_cast<int64_t>(o);
            const int64_t y = (n * p.cout + co) * lout + place;
            const int64_t dy = n * y_steps[0] + co * y_steps[1] + place * y_steps[2];
            if (p.operation == Operation::transposed) add(y, at(in.x, x) * at(in.weight, w));
            if (p.operation == Operation::strided) {
              add((n * p.cin + ci) * p.l + i, at(in.grad_output, dy) * at(in.weight, w));
            }
            if (p.operation == Operation::weight) add(w, at(in.x, x) * at(in.grad_output, dy));
          }
        }
      }
    }
  }
  return out;
}

// Tasks from the last to the first, on slots that jump about.
void backwards(void*, int64_t count, core::Executor::Task task, void* context) {
  for (int64_t i = count - 1; i >= 0; --i) task(context, i, static_cast<int32_t>(i * 5 % kThreads));
}

bool small(const Problem& p) {
  const Size products = Size(p.n) * p.cin * p.cout_per_group() * p.k * p.l;
  return products < kProducts && p.x_span() < kElements && p.output_elements() < kElements &&
         p.y_elements() < kElements && p.y_span() < kElements && p.weight_elements() < kElements &&
         p.cin < kElements && p.cout < kElements;
}

void run(const plan::Plan& plan, const plan::Operands& operands, const std::vector<double>& expected) {
  const Problem& p = plan.problem;
  const Buffer workspace(plan.workspace_bytes(false));
  const std::size_t element = size_of(p.dtype);
  const Buffer output(static_cast<std::size_t>(p.output_elements()) * element);
  const Buffer grad_bias(static_cast<std::size_t>(p.grad_bias_elements()) * element);
  plan::RunContext context;
  context.workspace = workspace.data.get();
  context.executor.threads = kThreads;
  context.executor.parallel_for = backwards;
  plan::Operands all = operands;
  all.output = output.data.get(), all.grad_bias = grad_bias.data.get();
  demand(plan::run(plan, all, false, context, workspace.size).ok(), p, plan.entry->name);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double rounded[1];
    reference::store(p.dtype, rounded, 0, expected[i]);
    const auto at = static_cast<int64_t>(i), behind = at - p.output_elements();
    const double got = behind < 0 ? reference::load(p.dtype, output.data.get(), at)
                                  : reference::load(p.dtype, grad_bias.data.get(), behind);
    demand(got == reference::load(p.dtype, rounded, 0), p, plan.entry->name);
  }
}

// Every plan that can be made: soon, and of a size that suits the tensors.
std::vector<plan::Plan> plans_of(const Problem& p) {
  core::DeviceInfo cpu;
  cpu.name = "cpu";
  plan::PlanOptions options;
  options.threads = kThreads;
  std::vector<plan::Plan> plans;
  for (const std::string& name : names_to_force(p, cpu, options)) {
    options.force_kernel = name;
    const double start = cpu_seconds();
    auto made = plan::make_plan(p, cpu, options);
    demand(made.ok(), p, "no plan");
    const plan::Plan& plan = made.value();
    demand(!explain(plan).empty() && !plan.kernel->pack_key().empty(), p, plan.entry->name);
    demand(cpu_seconds() - start < 1, p, "planning took more than a second");
    // Gradients hold partial sums of their outputs.
    const Size sums = p.operation == Operation::transposed
                          ? Size(0)
                          : (Size(p.output_elements()) + p.grad_bias_elements()) * 64;
    const Size most = sums + (int64_t{kThreads + 1} << 23);
    demand(plan.workspace_bytes(true) <= static_cast<std::size_t>(most.value()), p, "too large a workspace");
    // cpu.amx pads a tap's weights to a tile: 16 rows of 32 channels in bf16.
    const int64_t each = std::string_view(plan.entry->name) == "cpu.amx" ? 16 * 32 * 2 : 16 * 8;
    const Size packed = Size(p.weight_elements()) * each + (1 << 20);
    demand(Size(static_cast<int64_t>(plan.kernel->packed_bytes())) <= packed, p, "too large packed weights");
    if (!name.empty()) plans.push_back(std::move(made.value()));
  }
  return plans;
}

void check(const Problem& p) {
  const core::Status valid = validate(p);
  demand(valid.ok() || !valid.message().empty(), p, "refused without words");
  if (!valid.ok()) return;
  demand(p.lout() >= 0 && p.x_span() >= 0 && p.output_elements() >= 0, p, "a negative size");
  const core::Work work = work_of(p);
  demand(work.flops >= 0 && work.bytes >= 0, p, "negative work");
  const std::vector<plan::Plan> plans = plans_of(p);
  if (!small(p)) return;
  const Buffer x = integers(p, p.x_span(), 1), w = integers(p, p.weight_elements(), 2);
  const Buffer bias = integers(p, p.bias_channels(), 3), dy = integers(p, p.y_span(), 4);
  const plan::Operands operands{x.data.get(), w.data.get(), p.has_bias ? bias.data.get() : nullptr,
                                dy.data.get(), nullptr};
  const std::vector<double> expected = defined(p, operands);
  for (const plan::Plan& plan : plans) run(plan, operands, expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const auto parsed = core::parse({reinterpret_cast<const char*>(data), size});
  if (parsed.ok()) {
    check(parsed.value());
  } else {
    Bytes bytes(data, size);
    check(draw(bytes));
  }
  return 0;
}
