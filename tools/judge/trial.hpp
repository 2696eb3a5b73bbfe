// One kernel on one case, run twice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "judge/case.hpp"
#include "plan/planner.hpp"

namespace tconv::judge {

// Which kernel: by name ("" is the planner's choice), or an entry that need not be in the list.
struct Subject {
  std::string name;
  const plan::KernelEntry* entry = nullptr;
};

class Trial {
 public:
  explicit Trial(Case& problem_case) : case_(problem_case) {}
  // One line about the first error; empty if everything is correct.
  std::string run(const Subject& subject);
  const std::string& kernel() const { return kernel_; }
  // The places of the first wrong elements, and which part of the machine computed them.
  const std::vector<std::string>& where() const { return where_; }

 private:
  std::string make_plan(int run, const Subject& subject);
  std::string run_once(int run);
  std::string allocate(std::optional<Guarded>& buffer, std::size_t bytes, std::size_t shift);
  core::Status launch(int run, bool packed);
  void margins(bool forbid);
  std::string pull_all();
  std::string untouched();
  std::string judge_values();
  std::string unwritten() const;
  std::string strange_nan() const;
  std::string judge_bits() const;
  std::vector<std::byte> written() const;  // the bytes of the output, then those of the bias gradient
  uint64_t written_checksum() const;
  bool right(double got, const Exact& exact, const Bound& bound) const;
  std::string place(int64_t index) const;
  const std::byte* output_place(int64_t index) const;
  double output_at(int64_t index) const;
  uint64_t output_bits(int64_t index) const;
  bool strange(
      int64_t index) const;  // a NaN other than the canonical one: left of the poison, or a kernel's own

  Case& case_;
  std::optional<plan::Plan> plan_;
  std::string kernel_;
  std::vector<std::string> where_;
  std::optional<Guarded> output_, grad_bias_, workspace_, packed_;  // grad_bias_ is empty if none is written
  std::vector<std::byte> bits_;  // what run 0 wrote, or nothing if it is large
  uint64_t bits_checksum_ = 0;
};

}  // namespace tconv::judge
