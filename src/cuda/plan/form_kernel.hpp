// What the tensor-core kernels of a transposed form have in common: the problem that the caller asked for,
// its form, and a plan for the form's product.
#pragma once

#include <string>
#include <vector>

#include "cuda/host/transposed_form.hpp"
#include "cuda/plan/plan_words.hpp"
#include "cuda/plan/tensor.hpp"

namespace tconv::cuda {

// Plan: has packed_bytes, phases and cost; describe(), stages() and where() take it together with the form's
// product.
template <class Plan>
class FormKernel : public plan::Kernel {
 public:
  FormKernel(const char* name, const core::Problem& problem, const core::DeviceInfo& device, const Plan& plan)
      : asked_(problem),
        form_(transposed_form(problem)),
        problem_(form_.product),
        device_(device),
        plan_(plan),
        name_(name) {
    plan_.cost.total += form_.planes_ms(device);
  }

  std::size_t packed_bytes() const override { return static_cast<std::size_t>(plan_.packed_bytes); }
  std::string pack_key() const override {
    return tensor_pack_key(name_, asked_, plan_.phases) + key_of(form_);
  }
  std::string describe() const override { return words_of_plan(plan_, problem_) + words_of(form_); }
  std::vector<plan::StageLine> stages() const override { return stages_of_plan(plan_, problem_); }
  std::string where(int64_t element) const override { return maker_in_plan(plan_, problem_, element); }
  double predicted_ms() const override { return plan_.cost.total; }

 protected:
  core::Problem asked_;
  TransposedForm form_;
  core::Problem problem_;  // the form's
  core::DeviceInfo device_;
  Plan plan_;

 private:
  const char* name_;
};

}  // namespace tconv::cuda
