#include "core/conv1d.hpp"

#include "core/rules.hpp"

namespace tconv::core {
namespace {

// For numbers that check_ranges has accepted.
Status check_lengths(const Problem& c, int64_t& lout) {
  const Size padded = Size(2) * c.padding + c.l;
  const Size reach = Size(c.dilation) * (c.k - 1) + 1;
  if (!padded.fits()) return too_large("the padded length");
  if (reach > padded) {
    const std::string positions = reach.fits() ? std::to_string(reach.value()) : "2^63 or more";
    return refuse("k", c.k,
                  "l+2*padding is " + std::to_string(padded.value()) +
                      ", shorter than the kernel, which reaches over dilation*(k-1)+1 = " + positions +
                      " positions");
  }
  lout = (padded.value() - reach.value()) / c.stride + 1;
  return {};
}

Status check_sizes(const Problem& c, int64_t lout) {
  const Size element(static_cast<int64_t>(size_of(c.dtype)));
  return check_bytes({{"the size of x in bytes", Size(c.n) * c.cin * c.l * element},
                      {"the size of the weight in bytes", Size(c.cout) * (c.cin / c.groups) * c.k * element},
                      {"the size of y in bytes", Size(c.n) * c.cout * lout * element},
                      {"n*cin*8", Size(c.n) * c.cin * 8},
                      {"n*cout*8", Size(c.n) * c.cout * 8},
                      {"cin*l*8", Size(c.cin) * c.l * 8},
                      {"cout*lout*8", Size(c.cout) * lout * 8},
                      {"cin*cout*k*8", Size(c.cin) * c.cout * c.k * 8}});
}

Status check_strides(const Problem& c, int64_t lout) {
  const std::string pass = conv1d_name_of(c.operation);
  const bool reads_x = c.operation == Operation::forward || c.operation == Operation::grad_weight;
  const bool reads_y = c.operation != Operation::forward;
  Status status;
  if (!c.x_contiguous) status = check_steps(c, "x", reads_x, pass, {c.n, c.cin, c.l}, c.x_stride);
  if (status.ok() && !c.y_contiguous) {
    status = check_steps(c, "y", reads_y, pass, {c.n, c.cout, lout}, c.y_stride);
  }
  return status;
}

// Conv1d's dy summed over samples and positions.
Problem sums_of_rows(const Problem& c, int64_t lout) {
  Problem p = c;
  p.operation = Operation::bias;
  p.has_bias = false;
  p.cin = p.k = p.stride = p.dilation = p.groups = 1;
  p.padding = 0;
  p.l = lout;
  return p;
}

}  // namespace

const char* conv1d_name_of(Operation pass) {
  switch (pass) {
    case Operation::forward:
      return "conv1d";
    case Operation::grad_input:
      return "conv1d_gx";
    case Operation::grad_weight:
      return "conv1d_gw";
    case Operation::grad_bias:
      return "conv1d_gb";
  }
  return "?";
}

Result<Problem> conv1d_problem(const Problem& c) {
  int64_t lout = 0;
  Status status = check_words(c);
  if (status.ok()) status = check_ranges(c);
  if (status.ok() && c.output_padding != 0) {
    status = refuse("output_padding", c.output_padding, "must be 0: a Conv1d has none");
  }
  if (status.ok()) status = check_lengths(c, lout);
  if (status.ok()) status = check_sizes(c, lout);
  if (status.ok()) status = check_strides(c, lout);
  if (!status.ok()) return status;
  if (c.operation == Operation::grad_bias) return sums_of_rows(c, lout);
  Problem p = c;
  p.cin = c.cout, p.cout = c.cin;
  p.l = lout;
  p.output_padding = (c.l + 2 * c.padding - c.dilation * (c.k - 1) - 1) % c.stride;
  p.x_contiguous = c.y_contiguous, p.x_stride = c.y_stride;
  p.y_contiguous = c.x_contiguous, p.y_stride = c.x_stride;
  p.has_bias = c.has_bias && c.operation == Operation::forward;
  if (c.operation == Operation::forward) p.operation = Operation::strided;
  if (c.operation == Operation::grad_input) p.operation = Operation::transposed;
  return p;
}

}  // namespace tconv::core
