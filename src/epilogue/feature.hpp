// What a plan may ask of a kernel in addition to the problem's bias: for its outputs, and for x before the
// product (prologue.hpp). A kernel lists what it can do (plan::KernelEntry::features); the planner refuses
// the rest, so that nothing is ever left out silently.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace tconv::epilogue {

enum class Feature : uint32_t { scale, residual, activation, prologue };
inline constexpr Feature kFeatures[] = {Feature::scale, Feature::residual, Feature::activation,
                                        Feature::prologue};

constexpr const char* name_of(Feature feature) {
  switch (feature) {
    case Feature::scale:
      return "scale";
    case Feature::residual:
      return "residual";
    case Feature::activation:
      return "activation";
    case Feature::prologue:
      return "prologue";
  }
  return "";
}

class Features {
 public:
  constexpr Features() = default;
  constexpr Features(std::initializer_list<Feature> features) {
    for (const Feature each : features) bits_ |= bit(each);
  }
  constexpr bool has(Feature feature) const { return (bits_ & bit(feature)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool operator==(const Features&) const = default;

  constexpr Features without(Features other) const {
    Features rest;
    rest.bits_ = bits_ & ~other.bits_;
    return rest;
  }

  // "scale, activation"
  std::string text() const {
    std::string out;
    for (const Feature each : kFeatures) {
      if (has(each)) out += (out.empty() ? "" : ", ") + std::string(name_of(each));
    }
    return out;
  }

 private:
  static constexpr uint32_t bit(Feature feature) { return uint32_t{1} << static_cast<uint32_t>(feature); }
  uint32_t bits_ = 0;
};

}  // namespace tconv::epilogue
