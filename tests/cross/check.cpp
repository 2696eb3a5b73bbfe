// cross_check FILE [RANDOM]: the problems of FILE on every kernel with every kind of data, then RANDOM drawn
// ones. For machines that are emulated, where neither GoogleTest nor the command line's libraries exist.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "cpu/simd/dispatch.hpp"
#include "judge/draw.hpp"
#include "judge/judge.hpp"

namespace tconv::judge {
namespace {

struct Tally {
  int problems = 0, wrong = 0;
  std::map<std::string, int> kernels;

  void judge_on_all(const core::Problem& problem, Target& target, const JudgeOptions& options) {
    ++problems;
    for (const Verdict& v : judge(problem, "all", target, options)) {
      ++kernels[v.kernel];
      if (v.right) continue;
      ++wrong;
      std::printf("%s: %s: %s\n", text(problem).c_str(), v.kernel.c_str(), v.failure.c_str());
    }
  }
};

bool judge_file(const char* name, Target& target, Tally& tally) {
  std::ifstream file(name);
  JudgeOptions options;
  options.fills = {Fill::integers, Fill::uniform, Fill::positive, Fill::spread, Fill::special};
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(' ') == std::string::npos) continue;
    const auto parsed = core::parse(line);
    if (!parsed.ok()) {
      std::printf("%s: %s\n", line.c_str(), parsed.status().message().c_str());
      return false;
    }
    tally.judge_on_all(core::Result(parsed).value(), target, options);
  }
  return tally.problems > 0;
}

int check(const char* file, uint64_t random) {
  const auto target = cpu_target(2);
  Tally tally;
  if (!judge_file(file, *target, tally)) {
    std::printf("%s holds no problems that can be judged\n", file);
    return 2;
  }
  for (uint64_t i = 0; i < random; ++i) {
    Rng rng(41, i);
    JudgeOptions options;
    options.seed = i;
    tally.judge_on_all(draw_valid(rng, {.tf32 = false, .typical = 3'000}), *target, options);
  }
  std::printf("SIMD target %s: %d problems, %d wrong;", cpu::simd::target_name().c_str(), tally.problems,
              tally.wrong);
  for (const auto& [kernel, count] : tally.kernels) std::printf(" %s %d", kernel.c_str(), count);
  std::printf("\n");
  return tally.wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tconv::judge

int main(int argc, char** argv) {
  if (argc < 2) {
    std::printf("usage: cross_check FILE [RANDOM]\n");
    return 2;
  }
  return tconv::judge::check(argv[1], argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0);
}
