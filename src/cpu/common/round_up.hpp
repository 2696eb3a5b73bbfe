#pragma once

#include <cstdint>

namespace tconv::cpu {

template <class T>
constexpr T round_up(T value, T step) {
  return (value + step - 1) / step * step;
}

}  // namespace tconv::cpu
