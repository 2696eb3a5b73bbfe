#include "plan/with_copies.hpp"

#include <utility>

#include "core/checked.hpp"
#include "cuda/entries.hpp"
#include "plan/planner.hpp"

namespace tconv::plan {
namespace {

bool x_has_gaps(const core::Problem& p) {
  return p.reads_x() && !p.positions_contiguous();
}

bool y_has_gaps(const core::Problem& p) {
  return p.reads_y() && p.lout() > 1 && p.y_steps()[2] != 1;
}

bool copies_x(const core::Problem& p) {
  return x_has_gaps(p) || (p.reads_x() && !p.x_contiguous && !has_gaps(p));
}

bool copies_y(const core::Problem& p) {
  return y_has_gaps(p) || (p.reads_y() && !p.y_contiguous && !has_gaps(p));
}

int64_t bytes_of(const core::Problem& p, int64_t elements) {
  return elements * static_cast<int64_t>(size_of(p.dtype));
}

class WithCopies final : public Kernel {
 public:
  WithCopies(const core::Problem& problem, const core::DeviceInfo& device,
             std::unique_ptr<const Kernel> kernel)
      : problem_(problem), device_(device), kernel_(std::move(kernel)) {
    if (copies_x(problem)) {
      x_bytes_ = buffer_bytes(static_cast<std::size_t>(bytes_of(problem, problem.x_elements())));
    }
    if (copies_y(problem)) {
      y_bytes_ = buffer_bytes(static_cast<std::size_t>(bytes_of(problem, problem.y_elements())));
    }
  }

  std::size_t packed_bytes() const override { return kernel_->packed_bytes(); }
  std::string pack_key() const override { return kernel_->pack_key(); }
  std::size_t workspace_bytes() const override { return copies_bytes() + kernel_->workspace_bytes(); }
  std::size_t table_bytes() const override { return kKernelBytes + kernel_->table_bytes(); }
  std::string describe() const override {
    const char* what = x_bytes_ == 0 ? "y" : y_bytes_ == 0 ? "x" : "x and y";
    return std::string(what) + " copied first, to be contiguous; " + kernel_->describe();
  }
  std::vector<StageLine> stages() const override { return kernel_->stages(); }
  std::string where(int64_t element) const override { return kernel_->where(element); }
  double predicted_ms() const override {
    const double ms = kernel_->predicted_ms();
    return ms > 0 ? ms + copies_ms(problem_, device_) : 0;
  }
  core::Status pack(const void* weight, void* packed, const RunContext& context) const override {
    return kernel_->pack(weight, packed, context);
  }
  core::Status run(const Operands& operands, const RunContext& context) const override {
    return run_by(&Kernel::run, operands, context);
  }
  bool reads_raw() const override { return kernel_->reads_raw(); }
  std::size_t raw_workspace_bytes() const override { return copies_bytes() + kernel_->raw_workspace_bytes(); }
  core::Status run_raw(const Operands& operands, const RunContext& context) const override {
    return run_by(&Kernel::run_raw, operands, context);
  }

 private:
  using Run = core::Status (Kernel::*)(const Operands&, const RunContext&) const;

  std::size_t copies_bytes() const { return x_bytes_ + y_bytes_; }

  core::Status run_by(Run way, const Operands& operands, const RunContext& context) const {
    Operands copied = operands;
    std::byte* const y = context.workspace + x_bytes_;
    if (x_bytes_ > 0) {
      copied.x = context.workspace;
      core::Status status = cuda::copy_rows(problem_, device_, true, operands, context.workspace, context);
      if (!status.ok()) return status;
    }
    if (y_bytes_ > 0) {
      copied.grad_output = y;
      core::Status status = cuda::copy_rows(problem_, device_, false, operands, y, context);
      if (!status.ok()) return status;
    }
    RunContext behind = context;
    behind.workspace = y + y_bytes_;
    behind.just_packed = false;
    return (*kernel_.*way)(copied, behind);
  }

  core::Problem problem_;
  core::DeviceInfo device_;
  std::unique_ptr<const Kernel> kernel_;
  std::size_t x_bytes_ = 0, y_bytes_ = 0;  // of the copies; 0: read where it lies
};

}  // namespace

bool has_gaps(const core::Problem& problem) {
  return x_has_gaps(problem) || y_has_gaps(problem);
}

int64_t copied_bytes(const core::Problem& p) {
  core::Size bytes = 0;
  if (copies_x(p)) bytes = bytes + bytes_of(p, p.x_elements());
  if (copies_y(p)) bytes = bytes + bytes_of(p, p.y_elements());
  return bytes.value();
}

bool may_copy(const core::Problem& p, const core::DeviceInfo& device) {
  const int64_t bytes = copied_bytes(p), memory = device.memory_bytes;
  const bool fits = bytes > 0 && (memory == 0 || bytes <= memory / 4);
  return device.kind == core::DeviceKind::cuda && fits &&
         (!copies_y(p) || core::Size(p.l) * p.k * 4 >= p.lout());
}

core::Problem on_copies(const core::Problem& problem) {
  core::Problem p = problem;
  if (copies_x(problem)) p.x_contiguous = true, p.x_stride = {0, 0, 0};
  if (copies_y(problem)) p.y_contiguous = true, p.y_stride = {0, 0, 0};
  return p;
}

double copies_ms(const core::Problem& p, const core::DeviceInfo& device) {
  const int copies = (copies_x(p) ? 1 : 0) + (copies_y(p) ? 1 : 0);
  return copies * 2e-3 + 2 * static_cast<double>(copied_bytes(p)) / device.copy_gbps * 1e-6;
}

std::unique_ptr<const Kernel> with_copies(const core::Problem& problem, const core::DeviceInfo& device,
                                          std::unique_ptr<const Kernel> kernel) {
  return std::make_unique<WithCopies>(problem, device, std::move(kernel));
}

}  // namespace tconv::plan
