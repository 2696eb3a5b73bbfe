// Saved results of tconv bench, and the words for their numbers.
#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <ctime>

#include "bench.hpp"
#include "command.hpp"
#include "table.hpp"
#include "tconv/tconv.h"

namespace tconv::cli {

Json result_head(const char* benchmark, const core::DeviceInfo& device) {
  const std::time_t now = std::time(nullptr);
  char date[16] = "";
  std::tm utc{};
  if (gmtime_r(&now, &utc) != nullptr) std::strftime(date, sizeof date, "%Y-%m-%d", &utc);
  const bool cpu = device.kind == core::DeviceKind::cpu;
  const std::string machine = cpu ? fmt::format("cpu, {} threads, SIMD {}", device.threads, device.simd)
                                  : fmt::format("{}, {} SMs", device.name, device.sm_count);
  Json head = Json::object();
  head.set("benchmark", benchmark).set("date", date).set("machine", machine);
  return head.set("versions", Json::object().set("tconv", tconv_build_info()));
}

namespace {

// Puts each member of the outermost object and each element of its arrays on a line of its own.
std::string in_lines(const std::string& json) {
  std::string out, open;  // open: the brackets that are open
  bool quoted = false, escaped = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"' && !escaped) quoted = !quoted;
    escaped = c == '\\' && !escaped;
    if (!quoted && (c == '}' || c == ']')) open.pop_back();
    if (!quoted && (c == '{' || c == '[')) open += c;
    out += c;
    const bool parts = open == "{" || open == "{[";
    if (quoted || !parts || (c != ',' && c != '[')) continue;
    out += open == "{" ? "\n" : "\n ";
    if (c == ',') ++i;  // the space behind it
  }
  return out + "\n";
}

}  // namespace

Saved::Saved(const BenchArguments& a) {
  if (!a.save.empty()) destination_ = demand(Destination::make(a.save, a.no_clobber));
}

void Saved::save(const Json& json) const {
  if (!destination_) return;
  const std::string text = in_lines(json.dump());
  demand(destination_->write({std::as_bytes(std::span(text))}));
}

std::string milliseconds_text(double seconds) {
  return figure(seconds * 1e3).text;
}

std::string percent_text(double share) {
  return fmt::format("{:.0f}%", share * 100);
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return values.empty() ? 0 : std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace tconv::cli
