// The arguments of tconv bench, and its three kinds of run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/device_info.hpp"
#include "files.hpp"
#include "json.hpp"

namespace tconv::cli {

struct BenchArguments {
  std::vector<std::string> problems;
  std::string file, device = "cpu", kernel, save, simd;
  std::vector<std::string> modes;
  int threads = 0;
  double seconds = 0;  // 0: the default of the kind of run
  bool json = false, model = false, list = false, no_clobber = false;
  int64_t random_large = 0;
  uint64_t seed = 1;
  double least_mb = 100, most_mb = 1500, most_tflop = 2;
};

// Each returns the exit status.
int bench_large(const BenchArguments& arguments);  // --random-large
int bench_model(const BenchArguments& arguments);  // --model

// The head of a saved result: what was measured, when, where, with which build.
Json result_head(const char* benchmark, const core::DeviceInfo& device);

// The file of --save, if given: made before the measurement, so that a path that cannot be written costs
// none.
class Saved {
 public:
  explicit Saved(const BenchArguments& arguments);
  void save(const Json& json) const;

 private:
  std::optional<Destination> destination_;
};

std::string milliseconds_text(double seconds);
std::string percent_text(double share);
double geometric_mean(const std::vector<double>& values);  // of positive values; 0 of none

}  // namespace tconv::cli
