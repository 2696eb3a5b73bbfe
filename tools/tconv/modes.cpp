#include "modes.hpp"

#include "command.hpp"

namespace tconv::cli {

using core::DType;
using core::Precision;

const std::vector<std::string>& mode_names() {
  static const std::vector<std::string> names = {"tf32", "ieee", "f16", "bf16", "f64"};
  return names;
}

std::vector<Mode> modes_of(const std::vector<std::string>& names) {
  static constexpr Mode kModes[] = {{DType::f32, Precision::tf32},
                                    {DType::f32, Precision::ieee},
                                    {DType::f16, Precision::ieee},
                                    {DType::bf16, Precision::ieee},
                                    {DType::f64, Precision::ieee}};
  std::vector<Mode> modes;
  for (const std::string& name : names) {
    const std::size_t before = modes.size();
    for (std::size_t i = 0; i < mode_names().size(); ++i) {
      if (name == mode_names()[i]) modes.push_back(kModes[i]);
    }
    if (modes.size() == before) throw UsageError("mode '" + name + "' is not known");
  }
  return modes;
}

core::Problem in_mode(core::Problem problem, const Mode& mode) {
  problem.dtype = mode.dtype;
  problem.precision = mode.precision;
  return problem;
}

}  // namespace tconv::cli
