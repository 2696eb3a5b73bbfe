// tconv: transposed 1-D convolution. The C++20 API: a header over the C API (tconv.h has shapes, units and
// the formula), so that one binary serves every compiler. Standard library only.
//
//   tconv::Problem problem = tconv::Problem::parse("n1 ci512 co256 l800 k16 s8 p4 bias f32");
//   tconv::Plan plan(problem);
//   tconv::PackedWeights packed(plan, w.data());             // once; w is not needed any more
//   tconv::Buffer workspace(plan.workspace_bytes(true));
//   plan.run<float>({.x = x, .packed = packed, .bias = b, .output = y}, workspace.span());
//
// Errors are exceptions: InvalidProblem (the problem breaks a rule), InvalidArgument (a span or option does),
// OutOfMemory (a std::bad_alloc, not an Error), Error for the rest; each carries the library's one-line text.
// A Plan may be run from many threads at once, each with its own workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tconv/tconv.h"

namespace tconv {
// Programs may join parts that were compiled with different headers. Raised with any change of a class or a C
// struct, so that the linker never takes one part's inline functions for the other's.
inline namespace header_4 {

class Error : public std::runtime_error {
 public:
  Error(tconv_status status, const std::string& what) : std::runtime_error(what), status_(status) {}
  tconv_status status() const noexcept { return status_; }

 private:
  tconv_status status_;
};
struct InvalidArgument : Error {
  using Error::Error;
};
struct InvalidProblem : Error {
  using Error::Error;
};

// No Error: with std::exception as a base by both ways, nobody could catch it as that.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(const char* what) : text_(what) {}
  const char* what() const noexcept override { return text_.what(); }
  tconv_status status() const noexcept { return TCONV_OUT_OF_MEMORY; }

 private:
  std::runtime_error text_;  // copies without throwing
};

// Throws what a status other than TCONV_OK stands for, with tconv_last_error() as its text.
inline void check(tconv_status status) {
  switch (status) {
    case TCONV_OK:
      return;
    case TCONV_INVALID_ARGUMENT:
      throw InvalidArgument(status, tconv_last_error());
    case TCONV_INVALID_PROBLEM:
      throw InvalidProblem(status, tconv_last_error());
    case TCONV_OUT_OF_MEMORY:
      throw OutOfMemory(tconv_last_error());
    default:
      throw Error(status, tconv_last_error());
  }
}

// tconv_problem with its defaults set; all fields are those of the C struct.
struct Problem : tconv_problem {
  Problem() noexcept : tconv_problem() { tconv_problem_init_sized(this, sizeof(tconv_problem)); }

  static Problem parse(std::string_view line) {
    Problem problem;
    check(tconv_problem_parse_sized(std::string(line).c_str(), &problem, sizeof(tconv_problem)));
    return problem;
  }
  // The problem of a Conv1d whose numbers `call` has; its operation is the pass (tconv_conv1d_problem).
  static Problem conv1d(const Problem& call) {
    Problem problem;
    check(tconv_conv1d_problem_sized(&call, &problem, sizeof(tconv_problem)));
    return problem;
  }
  std::string text() const {
    std::size_t length = 0;
    check(tconv_problem_text(this, nullptr, 0, &length));
    std::string line(length + 1, '\0');
    check(tconv_problem_text(this, line.data(), line.size(), &length));
    line.resize(length);
    return line;
  }
  void validate() const { check(tconv_problem_check(this)); }
  std::int64_t output_length() const {
    std::int64_t lout = 0;
    check(tconv_output_length(this, &lout));
    return lout;
  }
  // Of valid problems; x with steps of its own counts from its first element to one past its last.
  std::int64_t elements(tconv_tensor tensor) const {
    std::int64_t count = 0;
    check(tconv_tensor_elements(this, tensor, &count));
    return count;
  }
  std::int64_t x_elements() const { return elements(TCONV_X); }
  std::int64_t weight_elements() const { return elements(TCONV_WEIGHT); }
  std::int64_t bias_elements() const { return elements(TCONV_BIAS); }
  std::int64_t y_elements() const { return elements(TCONV_Y); }
  std::int64_t output_elements() const { return elements(TCONV_OUTPUT); }
};

struct PlanOptions : tconv_plan_options {
  PlanOptions() noexcept : tconv_plan_options() {
    tconv_plan_options_init_sized(this, sizeof(tconv_plan_options));
  }
};

struct Arguments : tconv_arguments {
  Arguments() noexcept : tconv_arguments() { tconv_arguments_init_sized(this, sizeof(tconv_arguments)); }
};

// Memory aligned as tconv_pack and the workspace need it; host memory.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : bytes_(bytes),
        data_(bytes == 0 ? nullptr : static_cast<std::byte*>(::operator new(bytes, kAlignment))) {}
  std::span<std::byte> span() const { return {data_.get(), bytes_}; }
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return bytes_; }

 private:
  static constexpr std::align_val_t kAlignment{TCONV_BUFFER_ALIGNMENT};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, kAlignment); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

class Plan;

// Weights on the host in the layout that a plan's kernel reads. They serve every plan with that pack key:
// other lengths, batches and numbers of threads.
class PackedWeights {
 public:
  PackedWeights(const Plan& plan, const void* weight);  // (cin, cout/groups, k), not needed afterwards
  std::span<const std::byte> span() const { return buffer_.span(); }
  const std::string& key() const { return key_; }
  bool serve(const Plan& plan) const;

 private:
  std::string key_;
  Buffer buffer_;
};

// Packed weights of a run: PackedWeights, whose layout the run checks, or a span of bytes.
struct PackedSpan {
  std::span<const std::byte> bytes = {};
  std::string_view key = {};  // empty: unknown

  PackedSpan() = default;
  PackedSpan(const PackedWeights& weights) : bytes(weights.span()), key(weights.key()) {}
  template <class Bytes>
  requires std::is_convertible_v<const Bytes&, std::span<const std::byte>> PackedSpan(const Bytes& span)
      : bytes(span) {}
};

// Operands of a forward pass on the host, of a transposed convolution or of a Conv1d (Problem::conv1d); the
// input of both is x. 16-bit types are std::uint16_t holding the format's bits. Exactly one of weight
// and packed is given.
template <class T>
struct Forward {
  std::span<const T> x = {};
  std::span<const T> weight = {};
  PackedSpan packed = {};
  std::span<const T> bias = {};
  std::span<T> output = {};
};

class Plan {
 public:
  explicit Plan(const Problem& problem, const PlanOptions& options = {})
      : problem_(problem), device_(options.device) {
    tconv_plan* plan = nullptr;
    check(tconv_plan_create(&problem, &options, &plan));
    plan_.reset(plan);
    input_ = problem.operation == TCONV_FORWARD ? problem.x_elements() : problem.y_elements();
    input_gaps_ = problem.operation == TCONV_FORWARD ? problem.x_contiguous == 0 : problem.y_strided != 0;
    weight_ = problem.weight_elements();
    bias_ = problem.bias_elements();
    output_ = problem.output_elements();
  }

  const Problem& problem() const { return problem_; }
  bool on_host() const { return device_ == TCONV_CPU; }
  const tconv_plan* get() const { return plan_.get(); }  // for the C API
  std::string_view kernel() const { return tconv_plan_kernel(plan_.get()); }
  std::string_view explain() const { return tconv_plan_explain(plan_.get()); }
  std::string_view pack_key() const { return tconv_plan_pack_key(plan_.get()); }
  std::size_t host_bytes() const { return tconv_plan_host_bytes(plan_.get()); }
  std::size_t packed_bytes() const { return tconv_plan_packed_bytes(plan_.get()); }
  std::size_t workspace_bytes(bool packed_weights) const {
    return tconv_plan_workspace_bytes(plan_.get(), packed_weights ? 1 : 0);
  }

  void pack(const void* weight, std::span<std::byte> packed, void* stream = nullptr) const {
    check(tconv_pack(plan_.get(), weight, packed.data(), packed.size(), stream));
  }

  // Any device and operation: pointers, unchecked sizes.
  void run(const tconv_arguments& arguments) const { check(tconv_run(plan_.get(), &arguments)); }

  // On the host, sizes checked. x may be longer than it must be if it has steps of its own.
  template <class T>
  void run(const Forward<T>& operands, std::span<std::byte> workspace) const {
    check_spans(operands);
    Arguments a;
    (problem_.operation == TCONV_STRIDED ? a.grad_output : a.x) = operands.x.data();
    a.weight = operands.weight.data();
    a.packed_weight = operands.packed.bytes.data();
    a.bias = operands.bias.data();
    a.output = operands.output.data();
    a.workspace = workspace.data();
    a.workspace_bytes = workspace.size();
    run(a);
  }

 private:
  struct Destroy {
    void operator()(tconv_plan* plan) const { tconv_plan_destroy(plan); }
  };

  [[noreturn]] static void refuse(const std::string& message) {
    throw InvalidArgument(TCONV_INVALID_ARGUMENT, message);
  }
  static void check_size(const char* name, std::size_t have, std::int64_t need) {
    if (have == static_cast<std::size_t>(need)) return;
    refuse(std::string(name) + " has " + std::to_string(have) + " elements: the problem needs " +
           std::to_string(need));
  }

  void check_packed(const PackedSpan& packed) const {
    if (!packed.key.empty() && packed.key != pack_key()) {
      refuse("packed has the layout '" + std::string(packed.key) + "': the plan needs '" +
             std::string(pack_key()) + "'");
    }
    if (packed.bytes.size() < packed_bytes()) {
      refuse("packed has " + std::to_string(packed.bytes.size()) + " bytes: the plan needs " +
             std::to_string(packed_bytes()));
    }
  }

  template <class T>
  void check_spans(const Forward<T>& f) const {
    static constexpr std::size_t kSizes[] = {4, 8, 2, 2};
    if (!on_host()) refuse("the plan is for CUDA: run(tconv_arguments) takes device pointers");
    if (problem_.operation != TCONV_FORWARD && problem_.operation != TCONV_STRIDED) {
      refuse("operation is neither transposed nor strided: run(tconv_arguments) takes it");
    }
    if (sizeof(T) != kSizes[problem_.dtype]) refuse("the spans' element type is not the problem's dtype");
    check_size("output", f.output.size(), output_);
    if (output_ == 0) return;  // nothing is read
    if (!input_gaps_ || f.x.size() < static_cast<std::size_t>(input_)) check_size("x", f.x.size(), input_);
    if (f.packed.bytes.empty()) {
      check_size("weight", f.weight.size(), weight_);
    } else {
      check_packed(f.packed);
    }
    check_size("bias", f.bias.size(), bias_);
  }

  Problem problem_;
  std::int32_t device_;
  bool input_gaps_ = false;
  std::int64_t input_ = 0, weight_ = 0, bias_ = 0, output_ = 0;  // elements
  std::unique_ptr<tconv_plan, Destroy> plan_;
};

inline PackedWeights::PackedWeights(const Plan& plan, const void* weight)
    : key_(plan.pack_key()), buffer_(plan.packed_bytes()) {
  if (!plan.on_host()) {
    throw InvalidArgument(TCONV_INVALID_ARGUMENT, "the plan is for CUDA: Plan::pack takes a device buffer");
  }
  plan.pack(weight, buffer_.span());
}

inline bool PackedWeights::serve(const Plan& plan) const {
  return plan.on_host() && plan.pack_key() == key_;
}

}  // namespace header_4
}  // namespace tconv
