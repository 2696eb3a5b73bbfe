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

Status check_strides(const Problem& c, Conv1dPass pass, int64_t lout) {
  const std::string name = name_of(pass);
  const bool reads_x = pass == Conv1dPass::forward || pass == Conv1dPass::grad_weight;
  const bool reads_y = pass != Conv1dPass::forward;
  Status status;
  if (!c.x_contiguous) status = check_steps(c, "x", reads_x, name, {c.n, c.cin, c.l}, c.x_stride);
  if (status.ok() && !c.y_contiguous) {
    status = check_steps(c, "y", reads_y, name, {c.n, c.cout, lout}, c.y_stride);
  }
  return status;
}

Operation operation_of(Conv1dPass pass) {
  switch (pass) {
    case Conv1dPass::forward:
      return Operation::strided;
    case Conv1dPass::grad_input:
      return Operation::transposed;
    case Conv1dPass::grad_weight:
      return Operation::weight;
    case Conv1dPass::grad_bias:
      return Operation::bias;
  }
  return {};
}

// Conv1d's dy summed over samples and positions.
Problem sums_of_rows(const Problem& c, int64_t lout) {
  Problem p = c;
  p.has_bias = false;
  p.cin = p.k = p.stride = p.dilation = p.groups = 1;
  p.padding = 0;
  p.l = lout;
  return p;
}

}  // namespace

const char* name_of(Conv1dPass pass) {
  switch (pass) {
    case Conv1dPass::forward:
      return "conv1d";
    case Conv1dPass::grad_input:
      return "conv1d_gx";
    case Conv1dPass::grad_weight:
      return "conv1d_gw";
    case Conv1dPass::grad_bias:
      return "conv1d_gb";
  }
  return "?";
}

Result<Problem> conv1d_problem(const Problem& call, Conv1dPass pass) {
  Problem c = call;
  c.operation = operation_of(pass);

  int64_t lout = 0;
  Status status = check_words(c);
  if (status.ok() && c.bias_of_x) {
    status = {
        Code::invalid_problem,
        "xbias is given: the gradient of a Conv1d's bias sums the gradient of its output, as bias says"};
  }
  if (status.ok()) status = check_ranges(c);
  if (status.ok() && c.output_padding != 0) {
    status = refuse("output_padding", c.output_padding, "must be 0: a Conv1d has none");
  }
  if (status.ok()) status = check_lengths(c, lout);
  if (status.ok()) status = check_sizes(c, lout);
  if (status.ok() && Size(c.n) * c.cin * 8 > kMaxBytes) status = too_large("n*cin*8");
  if (status.ok()) status = check_strides(c, pass, lout);
  if (!status.ok()) return status;
  if (pass == Conv1dPass::grad_bias) return sums_of_rows(c, lout);
  Problem p = c;
  p.cin = c.cout, p.cout = c.cin;
  p.l = lout;
  p.output_padding = (c.l + 2 * c.padding - c.dilation * (c.k - 1) - 1) % c.stride;
  p.x_contiguous = c.y_contiguous, p.x_stride = c.y_stride;
  p.y_contiguous = c.x_contiguous, p.y_stride = c.x_stride;
  p.has_bias = c.has_bias && pass != Conv1dPass::grad_input;
  p.bias_of_x = p.writes_grad_bias();  // its dy
  return p;
}

}  // namespace tconv::core
