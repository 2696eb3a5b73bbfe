// A plan in words.
#include <algorithm>

#include "plan/float_environment.hpp"
#include "plan/planner.hpp"

namespace tconv::plan {

std::vector<Explained> explained(const Plan& plan) {
  const PlanningFloatEnvironment environment;
  const std::string forced = plan.options.force_kernel.empty() ? "" : " (forced)";
  std::vector<Explained> lines = {{"problem", text(plan.problem)},
                                  {"device", plan.device.name},
                                  {"kernel", plan.name() + forced + ": " + plan.entry->summary},
                                  {"config", plan.kernel->describe()}};
  if (plan.bias_entry != nullptr) lines[2].words += std::string("; ") + plan.bias_entry->summary;
  for (const StageLine& line : plan.kernel->stages()) lines.push_back({line.stage, line.words, true});
  if (!plan.note.empty()) lines.push_back({"note", plan.note});
  for (const Refused& r : plan.refused) {
    lines.push_back({"refused", std::string(r.entry->name) + ": " + r.reason});
  }
  return lines;
}

std::string explain(const Plan& plan) {
  constexpr std::size_t kWidth = 9;
  std::string out;
  for (const Explained& line : explained(plan)) {
    out += line.stage ? "  " + line.label + ": "
                      : line.label + std::string(kWidth - std::min(kWidth, line.label.size()), ' ');
    out += line.words + "\n";
  }
  return out;
}

}  // namespace tconv::plan
