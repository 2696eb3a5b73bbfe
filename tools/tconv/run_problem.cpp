// The arrays of tconv run and the problem that they form.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "command.hpp"
#include "core/conv1d.hpp"
#include "problems.hpp"
#include "run.hpp"

namespace tconv::cli {
namespace {

using core::Conv1dPass;
using core::DType;
using core::Operation;
using core::Problem;
using Wide = __int128;  // sums and products of two sizes fit

// What an --op names: an operation, or one of a Conv1d's passes. Such a pass reads the files that the pass of
// the same name of a transposed convolution reads, which is `operation`.
struct Named {
  const char* name;
  Operation operation;
  bool bias = false;  // may be given
  std::optional<Conv1dPass> conv1d = {};
};
constexpr Named kNames[] = {{"forward", Operation::transposed, true},
                            {"grad_input", Operation::strided},
                            {"grad_weight", Operation::weight},
                            {"grad_bias", Operation::bias},
                            {"transposed", Operation::transposed, true},
                            {"strided", Operation::strided, true},
                            {"weight", Operation::weight},
                            {"bias", Operation::bias},
                            {"conv1d", Operation::transposed, true, Conv1dPass::forward},
                            {"conv1d_grad_input", Operation::strided, false, Conv1dPass::grad_input},
                            {"conv1d_grad_weight", Operation::weight, false, Conv1dPass::grad_weight},
                            {"conv1d_grad_bias", Operation::bias, false, Conv1dPass::grad_bias}};

Named named(const std::string& op) {
  return *std::find_if(std::begin(kNames), std::end(kNames), [&](const Named& n) { return n.name == op; });
}

void demand_shape(bool right, const std::string& path, const Array& array, const std::string& wanted) {
  if (right) return;
  throw UsageError(
      fmt::format("{}: its shape is {}, and {} is needed", path, shape_text(array.shape), wanted));
}

// Every file that is read is given, and no other file.
void demand_files(const RunArguments& a, const Named& asked) {
  Problem p;
  p.operation = asked.operation;
  const struct {
    const char* option;
    const std::string& path;
    bool read, optional;
  } files[] = {{"--input", a.input, p.reads_x(), false},
               {"--weight", a.weight, p.reads_weight(), false},
               {"--bias", a.bias, asked.bias, true},
               {"--grad-output", a.grad_output, p.reads_y(), false}};
  if (!a.grad_bias.empty() && asked.operation != Operation::weight) {
    throw UsageError(fmt::format("--op {} does not write --grad-bias", a.op));
  }
  int from_standard_input = 0;
  for (const auto& file : files) {
    if (file.read && !file.optional && file.path.empty()) {
      throw UsageError(fmt::format("--op {} needs {}", a.op, file.option));
    }
    if (!file.read && !file.path.empty()) {
      throw UsageError(fmt::format("--op {} does not read {}", a.op, file.option));
    }
    if (file.path == "-") ++from_standard_input;
  }
  if (from_standard_input > 1) throw UsageError("only one array can come from standard input");
}

int64_t narrowed(Wide value, const std::string& path, const char* what) {
  if (value < 1 || value > INT64_MAX) {
    throw UsageError(fmt::format("{}: no {} of the forward call gives an output of this length", path, what));
  }
  return static_cast<int64_t>(value);
}

// The output's length without what x's length and the kernel size add to it:
//   lout - 1 - output_padding + 2 padding = (l - 1) stride + (k - 1) dilation
Wide reach_of(const Problem& p, int64_t lout) {
  return static_cast<Wide>(lout) - 1 - p.output_padding + 2 * static_cast<Wide>(p.padding);
}

int64_t divided(Wide reach, int64_t step, const std::string& path, const char* what, const char* step_name) {
  if (reach >= 0 && reach % step != 0) {
    throw UsageError(fmt::format(
        "{}: no {} of the forward call gives an output of this length: {} more than a multiple of the {}; "
        "is --output-padding right?",
        path, what, static_cast<int64_t>(reach % step), step_name));
  }
  return narrowed(reach / step + (reach >= 0 ? 1 : 0), path, what);
}

void take_sample_sizes(Problem& p, const Array& array, bool batched, int64_t Problem::*channels) {
  p.n = batched ? array.shape[0] : 1;
  p.*channels = array.shape[array.shape.size() - 2];
}

void take_weight_sizes(const RunArguments& a, Problem& p, const Array& weight) {
  if (p.operation == Operation::transposed) {
    demand_shape(weight.shape[0] == p.cin, a.weight, weight, fmt::format("({}, cout/groups, k)", p.cin));
  }
  p.cin = weight.shape[0];
  p.k = weight.shape[2];
  int64_t cout = 0;
  if (__builtin_mul_overflow(weight.shape[1], std::max<int64_t>(p.groups, 1), &cout)) {
    throw UsageError(fmt::format("groups is {}: cout overflows 63 bits", p.groups));
  }
  if (p.operation == Operation::strided && p.groups >= 1 && p.cout % p.groups == 0) {
    demand_shape(cout == p.cout, a.weight, weight, fmt::format("(cin, {}, k)", p.cout / p.groups));
  }
  if (p.operation == Operation::transposed) p.cout = cout;
}

// grad_bias sums grad_output over samples and positions: one of many forward calls that have this output.
void take_any_forward_call(const RunArguments& a, Problem& p, int64_t lout) {
  if (a.stride || a.padding || a.output_padding || a.dilation || a.groups) {
    throw UsageError(
        "--op " + a.op +
        " sums grad_output as it is: it takes no stride, padding, output padding, dilation or groups");
  }
  p.cin = p.k = 1;
  p.l = lout;
  if (lout > 0) return;
  p.l = p.padding = 1;  // (1 - 1) * 1 - 2 + (2 - 1) + 1 = 0
  p.k = 2;
}

void take_weight_of_conv1d(const RunArguments& a, Problem& call, Conv1dPass pass, const Array& weight) {
  const int64_t groups = std::max<int64_t>(call.groups, 1);
  if (pass == Conv1dPass::grad_input) {
    demand_shape(weight.shape[0] == call.cout, a.weight, weight,
                 fmt::format("({}, cin/groups, k)", call.cout));
    if (__builtin_mul_overflow(weight.shape[1], groups, &call.cin)) {
      throw UsageError(fmt::format("groups is {}: cin overflows 63 bits", call.groups));
    }
  } else if (call.cin % groups == 0) {
    demand_shape(weight.shape[1] == call.cin / groups, a.weight, weight,
                 fmt::format("(cout, {}, k)", call.cin / groups));
  }
  call.cout = weight.shape[0];
  call.k = weight.shape[2];
}

// The numbers of the call are complete except for those that the arrays of its gradients do not show. The
// outputs of a Conv1d leave `rest` positions of the padded input unread; for the gradients that is
// --output-padding.
void take_lengths_of_conv1d(const RunArguments& a, Problem& call, Conv1dPass pass, int64_t lout) {
  const Wide rest = a.output_padding.value_or(0);
  if (call.stride < 1 || call.dilation < 1) return;  // refused later
  const Wide outputs = (static_cast<Wide>(lout) - 1) * call.stride + rest,
             cut = 2 * static_cast<Wide>(call.padding);
  if (pass == Conv1dPass::grad_input) {
    call.l = narrowed(outputs + static_cast<Wide>(call.k - 1) * call.dilation + 1 - cut, a.grad_output,
                      "input length");
  } else if (pass == Conv1dPass::grad_weight) {
    call.k = divided(call.l + cut - 1 - outputs, call.dilation, a.grad_output, "kernel size", "dilation");
  }
}

// call: holds all numbers that the options and the sizes of samples give.
Problem conv1d_of(const RunArguments& a, Arrays& in, Problem call, Conv1dPass pass) {
  const bool forward = pass == Conv1dPass::forward;
  if (forward && a.output_padding) throw UsageError("--op conv1d takes no --output-padding");
  call.output_padding = 0;
  const int64_t lout = in.grad_output.shape.empty() ? 0 : in.grad_output.shape.back();
  if (!in.weight.shape.empty()) take_weight_of_conv1d(a, call, pass, in.weight);
  call.k = std::max<int64_t>(call.k, 1), call.l = std::max<int64_t>(call.l, 1);
  if (!forward) take_lengths_of_conv1d(a, call, pass, lout);
  const Problem p = demand(conv1d_problem(call, pass));
  if (!forward && p.l != lout) {
    throw UsageError(
        fmt::format("{}: its length is {}, and the forward call gives {}; is --output-padding right?",
                    a.grad_output, lout, p.l));
  }
  if (!in.bias.shape.empty()) {
    demand_shape(in.bias.shape[0] == call.cout, a.bias, in.bias, fmt::format("({})", call.cout));
  }
  std::swap(in.x, in.grad_output);
  return p;
}

}  // namespace

const std::vector<std::string>& run_operations() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Named& each : kNames) all.emplace_back(each.name);
    return all;
  }();
  return names;
}

Arrays read_arrays(const RunArguments& a) {
  static const std::map<std::string, DType> dtypes = {
      {"f32", DType::f32}, {"f64", DType::f64}, {"f16", DType::f16}, {"bf16", DType::bf16}};
  const Named asked = named(a.op);
  demand_files(a, asked);
  std::optional<DType> wanted, opaque;
  if (!a.dtype.empty()) wanted = dtypes.at(a.dtype);
  if (wanted == DType::bf16) opaque = wanted;
  Arrays in;
  std::vector<bool> batched;  // of x and grad_output
  const auto read = [&](const std::string& path, Array& array, bool sample, const std::string& wanted_shape) {
    if (path.empty()) return;
    array = demand(read_npy(path, opaque));
    if (!wanted) wanted = array.dtype;
    if (array.dtype != *wanted) {
      throw UsageError(
          fmt::format("{}: holds {}, and {} is needed", path, name_of(array.dtype), name_of(*wanted)));
    }
    const std::size_t dims = array.shape.size();
    const std::size_t most =
        1 + static_cast<std::size_t>(std::count(wanted_shape.begin(), wanted_shape.end(), ','));
    if (sample) batched.push_back(dims == 3);
    if (sample ? dims != 2 && dims != 3 : dims != most) demand_shape(false, path, array, wanted_shape);
  };
  read(a.input, in.x, true, "(n, cin, l) or (cin, l)");
  read(a.weight, in.weight, false, asked.conv1d ? "(cout, cin/groups, k)" : "(cin, cout/groups, k)");
  read(a.bias, in.bias, false, asked.operation == Operation::strided ? "(cin)" : "(cout)");
  read(a.grad_output, in.grad_output, true, "(n, cout, lout) or (cout, lout)");
  in.batched = batched.front();
  if (batched.back() != in.batched)
    throw UsageError("either both of x and grad_output have samples (three dimensions), or neither");
  return in;
}

Problem problem_of(const RunArguments& a, Arrays& in) {
  const Named asked = named(a.op);
  Problem p;
  p.operation = asked.operation;
  p.dtype = !in.x.shape.empty() ? in.x.dtype : in.grad_output.dtype;
  p.precision = a.precision == "tf32" ? core::Precision::tf32 : core::Precision::ieee;
  p.stride = a.stride.value_or(1);
  p.padding = a.padding.value_or(0);
  p.output_padding = a.output_padding.value_or(0);
  p.dilation = a.dilation.value_or(1);
  p.groups = a.groups.value_or(1);
  p.has_bias = !a.bias.empty() || !a.grad_bias.empty();
  if (!in.x.shape.empty()) {
    take_sample_sizes(p, in.x, in.batched, &Problem::cin);
    p.l = in.x.shape.back();
  }
  const int64_t samples = p.n;
  if (!in.grad_output.shape.empty()) take_sample_sizes(p, in.grad_output, in.batched, &Problem::cout);
  if (!in.x.shape.empty() && p.n != samples) {
    throw UsageError(fmt::format("{}: its n is {}, and that of x is {}", a.grad_output, p.n, samples));
  }
  if (asked.conv1d && asked.conv1d != Conv1dPass::grad_bias) return conv1d_of(a, in, p, *asked.conv1d);
  if (!in.weight.shape.empty()) take_weight_sizes(a, p, in.weight);
  const int64_t lout = in.grad_output.shape.empty() ? 0 : in.grad_output.shape.back();
  // The lengths below need steps above 0; validate() refuses others.
  const bool steps = p.stride >= 1 && p.dilation >= 1;
  if (p.operation == Operation::bias) take_any_forward_call(a, p, lout);
  if (p.operation == Operation::strided) {
    p.l = 1;
    const Wide rest = reach_of(p, lout) - static_cast<Wide>(p.k - 1) * p.dilation;
    if (steps) p.l = divided(rest, p.stride, a.grad_output, "input length", "stride");
  }
  if (p.operation == Operation::weight) {
    p.k = 1;
    const Wide rest = reach_of(p, lout) - static_cast<Wide>(p.l - 1) * p.stride;
    if (steps) p.k = divided(rest, p.dilation, a.grad_output, "kernel size", "dilation");
  }
  demand(validate(p));
  if (!in.bias.shape.empty()) {
    demand_shape(in.bias.shape[0] == p.bias_channels(), a.bias, in.bias,
                 fmt::format("({})", p.bias_channels()));
  }
  return p;
}

}  // namespace tconv::cli
