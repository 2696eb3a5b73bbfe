#include "judge/judge.hpp"

namespace tconv::judge {

Verdict judge(Case& problem_case, const Subject& subject) {
  Trial trial(problem_case);
  Verdict verdict;
  verdict.failure = trial.run(subject);
  verdict.right = verdict.failure.empty();
  if (!verdict.right) verdict.failure = std::string(name_of(problem_case.fill)) + ": " + verdict.failure;
  verdict.where = trial.where();
  verdict.kernel = trial.kernel();
  verdict.sampled = problem_case.sampled;
  verdict.fill = problem_case.fill;
  return verdict;
}

std::vector<Fill> fills_of(const JudgeOptions& options) {
  if (!options.fills.empty()) return options.fills;
  Rng rng(options.seed, 79);
  return {Fill::integers, rng.pick({Fill::uniform, Fill::positive, Fill::spread, Fill::special})};
}

std::vector<Verdict> judge(const core::Problem& problem, const std::string& kernel, Target& target,
                           const JudgeOptions& options) {
  std::vector<std::string> names = {kernel};
  if (kernel == "all") {
    names.clear();
    for (const plan::KernelEntry* entry : supporting(problem, target.info(), target.options(0))) {
      names.push_back(entry->name);
    }
    if (names.empty()) return {Verdict{false, "", "no kernel supports it", false}};
  }
  std::vector<Verdict> verdicts(names.size());
  for (const Fill fill : fills_of(options)) {
    auto made = Case::make(problem, fill, target, options);
    if (!made.ok()) return {Verdict{false, "", made.status().message(), false}};
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (verdicts[i].right) verdicts[i] = judge(*made.value(), {names[i], nullptr});
    }
  }
  return verdicts;
}

}  // namespace tconv::judge
