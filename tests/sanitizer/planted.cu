// Faults planted for compute-sanitizer: scripts/gpu_sanitize runs each tool over its own first, so that the
// tool's silence over the library means something.
//
//   planted FAULT [sound]     FAULT: out-of-bounds, race, uninitialised, barrier; sound: without it
//
// Ends with 0 whatever the GPU says of the faulty kernel: the tool has to tell. 2: bad usage; 3: no GPU to
// run on.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

namespace {

constexpr int kThreads = 64;  // two warps

// memcheck: the last thread writes one element past the end.
__global__ void planted_out_of_bounds(int* data, int shift) {
  data[threadIdx.x + shift] = static_cast<int>(threadIdx.x);
}

// racecheck: what one warp writes to shared memory the other reads, without a barrier between.
__global__ void planted_race(int* data, bool sound) {
  __shared__ int staged[kThreads];
  staged[threadIdx.x] = data[threadIdx.x] + 1;
  if (sound) __syncthreads();
  data[threadIdx.x] = staged[kThreads - 1 - threadIdx.x];
}

// initcheck: reads memory that nothing has written.
__global__ void planted_uninitialised(const int* from, int* data) {
  data[threadIdx.x] = from[threadIdx.x] + 1;
}

// synccheck: half of the second warp does not come to the block's barrier, and waits for the other half
// behind it. (Threads that have ended by then do not count as missing.) The tool ends the kernel there.
__global__ void planted_barrier(int* data, int arriving) {
  __shared__ int staged[kThreads];
  staged[threadIdx.x] = data[threadIdx.x];
  if (static_cast<int>(threadIdx.x) < arriving) {
    __syncthreads();
    staged[threadIdx.x] += staged[(threadIdx.x + 1) % kThreads];
  }
  __syncwarp();
  data[threadIdx.x] = staged[threadIdx.x ^ 1];
}

int run(const char* fault, bool sound, int* data, int* raw) {
  if (std::strcmp(fault, "out-of-bounds") == 0) {
    planted_out_of_bounds<<<1, kThreads>>>(data, sound ? 0 : 1);
  } else if (std::strcmp(fault, "race") == 0) {
    planted_race<<<1, kThreads>>>(data, sound);
  } else if (std::strcmp(fault, "uninitialised") == 0) {
    if (sound && cudaMemset(raw, 0, kThreads * sizeof(int)) != cudaSuccess) return 3;
    planted_uninitialised<<<1, kThreads>>>(raw, data);
  } else if (std::strcmp(fault, "barrier") == 0) {
    planted_barrier<<<1, kThreads>>>(data, sound ? kThreads : kThreads - 16);
  } else {
    std::fprintf(stderr, "planted: fault '%s' is not known\n", fault);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool sound = argc == 3 && std::strcmp(argv[2], "sound") == 0;
  if (argc < 2 || argc > 3 || (argc == 3 && !sound)) {
    std::fprintf(stderr,
                 "planted: FAULT [sound], FAULT one of out-of-bounds, race, uninitialised, barrier\n");
    return 2;
  }
  int *data = nullptr, *raw = nullptr;
  if (cudaMalloc(&data, kThreads * sizeof(int)) != cudaSuccess ||
      cudaMalloc(&raw, kThreads * sizeof(int)) != cudaSuccess ||
      cudaMemset(data, 0, kThreads * sizeof(int)) != cudaSuccess) {
    std::fprintf(stderr, "planted: no GPU to run on: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 3;
  }
  const int status = run(argv[1], sound, data, raw);
  (void)cudaDeviceSynchronize();
  (void)cudaFree(data);
  (void)cudaFree(raw);
  if (status == 0) std::printf("planted %s%s ran\n", argv[1], sound ? ", sound," : "");
  return status;
}
