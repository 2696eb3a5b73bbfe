// Runs a layer that examples/export_layer.py wrote, and compares with what PyTorch computed: run_layer FOLDER
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <tconv/tconv.hpp>
#include <vector>

std::vector<float> load(const std::string& path, std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  std::ifstream file(path, std::ios::binary);
  const auto bytes = static_cast<std::streamsize>(values.size() * sizeof(float));
  if (!file.read(reinterpret_cast<char*>(values.data()), bytes)) {
    throw std::runtime_error(path + ": cannot read " + std::to_string(elements) + " floats");
  }
  return values;
}

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : ".";
  std::string line;
  std::getline(std::ifstream(folder + "/layer.txt"), line);
  const auto problem = tconv::Problem::parse(line);
  const tconv::Plan plan(problem);  // microseconds; keep one for each length

  const auto weight = load(folder + "/weight.bin", problem.weight_elements());
  const auto bias = load(folder + "/bias.bin", problem.bias_elements());
  const auto x = load(folder + "/x.bin", problem.x_elements());
  std::vector<float> y(static_cast<std::size_t>(problem.output_elements()));

  const tconv::Buffer workspace(plan.workspace_bytes(false));
  plan.run(tconv::Forward<float>{.x = x, .weight = weight, .bias = bias, .output = y}, workspace.span());

  const auto expected = load(folder + "/y.bin", problem.output_elements());
  float difference = 0;
  for (std::size_t i = 0; i < y.size(); ++i) difference = std::max(difference, std::abs(y[i] - expected[i]));
  std::cout << y.size() << " outputs by " << plan.kernel() << ", largest difference " << difference << "\n";
  return difference < 1e-4f ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
