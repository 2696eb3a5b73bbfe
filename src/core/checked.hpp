// Sizes, offsets and counts computed from a problem, without overflow.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace tconv::core {

// A non-negative number. Sums and products that exceed 63 bits saturate at the largest value, so that a
// comparison with a limit is correct however large the problem's numbers are.
class Size {
 public:
  static constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

  constexpr Size(int64_t value) : value_(value) {}
  constexpr int64_t value() const { return value_; }
  constexpr bool fits() const { return value_ < kLargest; }  // false: it may have left 63 bits

  friend constexpr Size operator*(Size a, Size b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a.value_, b.value_, &product) ? kLargest : product;
  }
  friend constexpr Size operator+(Size a, Size b) {
    int64_t sum = 0;
    return __builtin_add_overflow(a.value_, b.value_, &sum) ? kLargest : sum;
  }
  friend constexpr auto operator<=>(Size, Size) = default;

 private:
  int64_t value_;
};

}  // namespace tconv::core
