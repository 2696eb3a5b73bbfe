// What tconv calls of Highway's library; the programs that link with this one run the baseline SIMD target.
#include <hwy/targets.h>

namespace hwy {

int64_t SupportedTargets() {
  return HWY_STATIC_TARGET | HWY_SCALAR;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
