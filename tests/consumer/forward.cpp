// The same layer through the C++ API, its weights packed once for many runs.
#include <iostream>
#include <tconv/tconv.hpp>
#include <vector>

int main() {
  const auto problem = tconv::Problem::parse("n1 ci2 co1 l4 k3 s2 p1 bias f32");
  const tconv::Plan plan(problem);

  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> weight = {1, 0, -1, 2, 1, 2};
  const std::vector<float> bias = {0.5f};
  std::vector<float> y(static_cast<std::size_t>(problem.output_elements()));

  const tconv::PackedWeights packed(plan, weight.data());
  const tconv::Buffer workspace(plan.workspace_bytes(true));
  plan.run<float>({.x = x, .packed = packed, .bias = bias, .output = y}, workspace.span());

  for (float value : y) std::cout << value << " ";
  std::cout << "\n";
}
