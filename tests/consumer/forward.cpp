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

  const tconv::Buffer packed(plan.packed_bytes());
  const tconv::Buffer workspace(plan.workspace_bytes(!packed.span().empty()));
  tconv::Forward<float> operands{.x = x, .bias = bias, .output = y};
  if (packed.size() > 0) {
    plan.pack(weight.data(), packed.span());
    operands.packed = packed.span();
  } else {
    operands.weight = weight;  // the plan's kernel reads weights as they are
  }
  plan.run(operands, workspace.span());

  for (float value : y) std::cout << value << " ";
  std::cout << "\n";
}
