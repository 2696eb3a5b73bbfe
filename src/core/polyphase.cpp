#include "core/polyphase.hpp"

#include <algorithm>

namespace tconv::core {

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

std::vector<Residue> residues_of(const Problem& p) {
  const int64_t s = p.stride, lout = p.lout();
  const int64_t occurring = std::min(s, lout);  // a stride far beyond lout must not cost memory
  std::vector<Residue> residues(static_cast<std::size_t>(std::max<int64_t>(0, occurring)));
  for (int64_t first = 0; first < occurring; ++first) {
    const int64_t q = first + p.padding;
    residues[static_cast<std::size_t>(first)] = {q % s, first, q / s, ceil_div(lout - first, s), {}};
  }
  for (int64_t k = 0; k < p.k; ++k) {
    const int64_t reach = k * p.dilation;
    const int64_t offset = reach % s - p.padding % s;
    const int64_t first = offset < 0 ? offset + s : offset;
    if (first < occurring) residues[static_cast<std::size_t>(first)].taps.push_back({k, -(reach / s)});
  }
  return residues;
}

}  // namespace tconv::core
