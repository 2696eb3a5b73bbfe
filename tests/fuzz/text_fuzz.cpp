// A problem's text: whatever parses prints and parses back to itself; whatever is valid has sane sizes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/polyphase.hpp"
#include "core/problem.hpp"

namespace {

void demand(bool right) {
  if (!right) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace tconv::core;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse(line);
  if (!parsed.ok()) {
    demand(!parsed.status().message().empty());
    return 0;
  }
  const Problem& p = parsed.value();
  const auto again = parse(text(p));
  demand(again.ok() && again.value() == p && text(again.value()) == text(p));
  if (!validate(p).ok()) return 0;
  demand(p.lout() >= 0 && p.x_elements() >= 0 && p.y_elements() >= 0 && p.weight_elements() > 0);
  demand(p.output_elements() >= 0 && p.x_span() >= 0);
  const Polyphase form(p);
  demand(form.count > 0 && form.taps > 0 && form.taps_of(form.count - 1) > 0);
  demand(work_of(p).flops >= 0 && work_of(p).bytes >= 0);
  return 0;
}
