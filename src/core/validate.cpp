#include "core/checked.hpp"
#include "core/rules.hpp"

namespace tconv::core {
namespace {

Status check_relations(const Problem& p) {
  if (p.output_padding >= p.stride && p.output_padding >= p.dilation) {
    return refuse("output_padding", p.output_padding,
                  "must be less than stride or dilation, which are " + std::to_string(p.stride) + " and " +
                      std::to_string(p.dilation));
  }
  return {};
}

Status check_lengths(const Problem& p) {
  const Size full = full_length(p);
  const Size cut = Size(2) * p.padding;
  if (!full.fits() || !cut.fits()) return too_large("the output length");
  const int64_t lout = full.value() - cut.value();
  if (lout < 0) {
    return refuse("padding", p.padding,
                  "leaves an output length of " + std::to_string(lout) + ", which must be 0 or more");
  }
  return check_sizes(p, lout);
}

Status check_strides(const Problem& p) {
  Status status;
  if (!p.x_contiguous) {
    status = check_steps(p, "x", p.reads_x(), name_of(p.operation), {p.n, p.cin, p.l}, p.x_stride);
  }
  if (status.ok() && !p.y_contiguous) {
    status = check_steps(p, "y", p.reads_y(), name_of(p.operation), {p.n, p.cout, p.lout()}, p.y_stride);
  }
  return status;
}

}  // namespace

Status validate(const Problem& p) {
  Status status = check_words(p);
  if (status.ok()) status = check_ranges(p);
  if (status.ok()) status = check_relations(p);
  if (status.ok()) status = check_lengths(p);
  if (status.ok()) status = check_strides(p);
  return status;
}

}  // namespace tconv::core
