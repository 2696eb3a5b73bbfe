#include <algorithm>
#include <vector>

#include "cuda/host/runtime.hpp"
#include "judge/cuda/timing.hpp"

namespace tconv::judge {
namespace {

using core::Result;
using core::Status;
using cuda::status_of;

constexpr int kChains = 8, kRounds = 4096, kThreads = 256;

// Eight independent chains a thread: covers the latency of a multiply-add.
template <class T>
__global__ void multiply_add_kernel(T* sink, T a, T b) {
  T v[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) v[c] = static_cast<T>(threadIdx.x + c);
  for (int i = 0; i < kRounds; ++i) {
#pragma unroll
    for (int c = 0; c < kChains; ++c) v[c] = fma(v[c], a, b);
  }
  T sum = 0;
#pragma unroll
  for (int c = 0; c < kChains; ++c) sum += v[c];
  if (sum == static_cast<T>(-1)) *sink = sum;  // never, but the compiler cannot know
}

// A copy by the SMs: the driver's own copies may take a slower engine.
__global__ void copy_kernel(const uint4* from, uint4* to, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + 3 * step < count; i += 4 * step) {
    uint4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = from[i + j * step];
#pragma unroll
    for (int j = 0; j < 4; ++j) to[i + j * step] = v[j];
  }
  for (; i < count; i += step) to[i] = from[i];
}

// What a graph run needs, freed on every way out.
struct Session {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  ~Session() {
    if (exec != nullptr) (void)cudaGraphExecDestroy(exec);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    if (begin != nullptr) (void)cudaEventDestroy(begin);
    if (end != nullptr) (void)cudaEventDestroy(end);
  }
};

struct DeviceMemory {
  void* data = nullptr;
  ~DeviceMemory() { (void)cudaFree(data); }
};

Result<double> best_of(cudaStream_t stream, int times, const std::function<Status()>& queue) {
  double best = 0;
  for (int i = 0; i < times; ++i) {
    auto seconds = time_graph(stream, queue, 1);
    if (!seconds.ok()) return seconds;
    if (i == 0 || seconds.value() < best) best = seconds.value();
  }
  return best;
}

}  // namespace

Result<double> time_graph(cudaStream_t stream, const std::function<Status()>& queue, int parts) {
  Session s;
  cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return status_of(error, "capture");
  Status queued = queue();
  error = cudaStreamEndCapture(stream, &s.graph);
  if (!queued.ok()) return queued;
  if (error == cudaSuccess) error = cudaGraphInstantiate(&s.exec, s.graph, 0);
  if (error == cudaSuccess) error = cudaEventCreate(&s.begin);
  if (error == cudaSuccess) error = cudaEventCreate(&s.end);
  if (error == cudaSuccess) error = cudaGraphLaunch(s.exec, stream);
  if (error == cudaSuccess) error = cudaEventRecord(s.begin, stream);
  if (error == cudaSuccess) error = cudaGraphLaunch(s.exec, stream);
  if (error == cudaSuccess) error = cudaEventRecord(s.end, stream);
  if (error == cudaSuccess) error = cudaEventSynchronize(s.end);
  float milliseconds = 0;
  if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, s.begin, s.end);
  if (error != cudaSuccess) return status_of(error, "timing a graph");
  return static_cast<double>(milliseconds) * 1e-3 / parts;
}

Result<Attained> measure_rates(cudaStream_t stream, bool f64, int sm_count) {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  DeviceMemory from, to;
  cudaError_t error = cudaMalloc(&from.data, kBytes);
  if (error == cudaSuccess) error = cudaMalloc(&to.data, kBytes);
  if (error == cudaSuccess) error = cudaMemset(from.data, 1, kBytes);
  if (error != cudaSuccess) return status_of(error, "memory for measuring the copy rate");
  const int blocks = sm_count * 8;
  auto multiply = [&]() -> Status {
    if (f64) {
      multiply_add_kernel<double>
          <<<blocks, kThreads, 0, stream>>>(static_cast<double*>(to.data), 0.999, 0.001);
    } else {
      multiply_add_kernel<float>
          <<<blocks, kThreads, 0, stream>>>(static_cast<float*>(to.data), 0.999f, 0.001f);
    }
    return status_of(cudaGetLastError(), "measuring the multiply-add rate");
  };
  auto copy = [&]() -> Status {
    copy_kernel<<<blocks, 2 * kThreads, 0, stream>>>(static_cast<const uint4*>(from.data),
                                                     static_cast<uint4*>(to.data), kBytes / sizeof(uint4));
    return status_of(cudaGetLastError(), "measuring the copy rate");
  };
  const auto fma = best_of(stream, 5, multiply), copied = best_of(stream, 5, copy);
  if (!fma.ok()) return fma.status();
  if (!copied.ok()) return copied.status();
  const double operations = 2.0 * kChains * kRounds * kThreads * blocks;
  return Attained{operations / fma.value() * 1e-9, 2.0 * static_cast<double>(kBytes) / copied.value() * 1e-9};
}

}  // namespace tconv::judge
