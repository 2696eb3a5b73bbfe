// Seeded random numbers with the same sequence on every platform (SplitMix64).
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace tconv::judge {

inline uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

inline double unit_of(uint64_t bits) {  // [0, 1)
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

class Rng {
 public:
  // Streams of one seed are independent: problem i of a run draws from Rng(seed, i).
  explicit Rng(uint64_t seed, uint64_t stream = 0)
      : state_(mix(seed + 0x9e3779b97f4a7c15u) ^ mix(stream + 1)) {}

  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  double unit() { return unit_of(next()); }
  int64_t between(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  int64_t log_between(int64_t low, int64_t high) {  // small numbers as likely as large ones
    const double ratio = static_cast<double>(high + 1) / static_cast<double>(low);
    const auto value = static_cast<int64_t>(static_cast<double>(low) * std::pow(ratio, unit()));
    return value < low ? low : value > high ? high : value;
  }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return list.begin()[static_cast<std::size_t>(next() % list.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace tconv::judge
