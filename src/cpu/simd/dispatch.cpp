#include "cpu/simd/dispatch.hpp"

#include <cstdint>
#include <cstdlib>

#include "cpu/simd/targets.hpp"
#include "hwy/highway.h"

namespace tconv::cpu::simd {
namespace {

using core::Status;

int64_t host_targets() {
  return HWY_SUPPORTED_TARGETS & HWY_TARGETS;
}

int64_t best_target() {
  return host_targets() & -host_targets();  // a lower bit is a better target
}

// 0: there is none of that name.
int64_t find_target(std::string_view name) {
  for (int64_t rest = host_targets(); rest != 0; rest &= rest - 1) {
    if (name == hwy::TargetName(rest & -rest)) return rest & -rest;
  }
  return 0;
}

Status unknown(const std::string& what, std::string_view name) {
  std::string known;
  for (const std::string& target : target_names()) known += (known.empty() ? "" : ", ") + target;
  return {core::Code::invalid_argument, what + " is '" + std::string(name) +
                                            "': this machine and build have no such SIMD target; they have " +
                                            known};
}

// What TCONV_SIMD says.
struct Wanted {
  int64_t target = best_target();
  Status status;

  Wanted() {
    const char* name = std::getenv("TCONV_SIMD");
    if (name == nullptr || *name == '\0') return;
    const int64_t found = find_target(name);
    if (found != 0) {
      target = found;
    } else {
      status = unknown("TCONV_SIMD", name);
    }
  }
};

const Wanted& wanted() {
  static const Wanted value;
  return value;
}

struct Choice {
  hwy::ChosenTarget index;
  std::atomic<int64_t> target;
  std::atomic<bool> forced{false};

  Choice() { set(wanted().target); }
  void set(int64_t to) {
    target.store(to);
    index.Update(to);
  }
};

Choice& choice() {
  static Choice value;
  return value;
}

}  // namespace

const hwy::ChosenTarget& chosen_target() {
  return choice().index;
}

const std::vector<std::string>& target_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (int64_t rest = host_targets(); rest != 0; rest &= rest - 1) {
      list.emplace_back(hwy::TargetName(rest & -rest));
    }
    return list;
  }();
  return names;
}

std::string target_name() {
  return hwy::TargetName(choice().target.load());
}

int vector_bytes() {
#if HWY_ARCH_X86
  const int64_t target = choice().target.load();
  if (target <= HWY_AVX3) return 64;
  if (target == HWY_AVX2) return 32;
#endif
  return 16;
}

Status target_status() {
  return choice().forced.load() ? Status() : wanted().status;
}

Status choose_target(std::string_view name) {
  const int64_t target = name.empty() ? wanted().target : find_target(name);
  if (target == 0) return unknown("the SIMD target", name);
  choice().set(target);
  choice().forced.store(!name.empty());
  return {};
}

}  // namespace tconv::cpu::simd
