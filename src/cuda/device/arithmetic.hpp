// The arithmetics of the tensor cores: what is stored, in how many parts an operand is multiplied, and the
// depth of a product. Written once, for plans and kernels; arithmetic.cuh has the operands themselves.
#pragma once

#include "cuda/device/accumulator.hpp"

namespace tconv::cuda {

// ieee: float32 as three products of tf32.
enum class Arithmetic : int { tf32, ieee, f16, bf16, f64 };

struct ArithmeticShape {
  int element, sum;  // bytes of a stored element, and of a sum
  int parts;         // of an operand
  int products;      // mma instructions for one product of operands

  constexpr int unit() const { return 16 / element; }  // channels in 16 bytes
  constexpr int depth() const { return 2 * unit(); }   // channels of one mma
  constexpr int slab() const { return 4 * unit(); }    // channels that lie in shared memory together
};

constexpr ArithmeticShape shape_of(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::tf32:
      return {4, 4, 1, 1};
    case Arithmetic::ieee:
      return {4, 4, 2, 3};
    case Arithmetic::f64:
      return {8, 8, 1, 1};
    case Arithmetic::f16:
    case Arithmetic::bf16:
      break;
  }
  return {2, 4, 1, 1};
}

// A lane's 16 bytes of packed weights are its A fragment of an mma (in f64, of two). These two say which row
// and which channel of the step element e of them is.
template <int kUnit>
struct WeightFragment {
  static constexpr int kRows = MmaAccumulator::kRows, kRegisters = kUnit, kColumns = 2 * kUnit;

  static constexpr int row(int lane, int e) { return lane / 4 + (kUnit == 8 ? e / 2 % 2 : e % 2) * 8; }
  static constexpr int channel(int lane, int e) {
    return kUnit == 8 ? lane % 4 * 2 + e % 2 + e / 4 * 8 : lane % 4 + e / 2 * 4;
  }
  static constexpr TilePlace place(LaneRegister at) {
    return {row(at.lane, at.index), channel(at.lane, at.index)};
  }
  static constexpr LaneRegister holder(TilePlace at) {
    const int c = at.column, lane = at.row % 8 * 4;
    if (kUnit == 8) return {lane + c % 8 / 2, c % 2 + at.row / 8 * 2 + c / 8 * 4};
    return {lane + c % 4, at.row / 8 + c / 4 * 2};
  }
};
static_assert(is_accumulator_map<WeightFragment<8>>() && is_accumulator_map<WeightFragment<4>>() &&
              is_accumulator_map<WeightFragment<2>>());

}  // namespace tconv::cuda
