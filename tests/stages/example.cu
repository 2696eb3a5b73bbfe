// Two new stages: an activation for the epilogue, and a layout of partial sums.
#include "cuda/device/ordered_sum.cuh"

namespace tconv::cuda {

// The activation slot takes any function of one number; its parameters are members.
struct LeakyRelu {
  float slope;
  TCONV_FUNCTOR float operator()(float v) const { return v < 0 ? slope * v : v; }
};
static_assert(epilogue::ActivationSlot<LeakyRelu, float>);
using LeakyEpilogue = Epilogue<__half, epilogue::Unscaled, LeakyRelu>;

// A kernel makes one epilogue for each output channel and stores only what it returns.
__global__ void finish_rows(const float* sums, const void* bias, float slope, __half* y, int64_t lout) {
  const LeakyEpilogue finish{load_bias_to_add<__half>(bias, blockIdx.x), {}, {slope}};
  for (int64_t o = threadIdx.x; o < lout; o += blockDim.x) {
    y[blockIdx.x * lout + o] = finish(sums[blockIdx.x * lout + o]);
  }
}

// The partial sums of an output lie side by side: [output][split]. The ordered sum takes any type that fulfils this contract.
class SideBySide {
 public:
  struct Params : OrderedSumParams {
    int64_t elements;
  };

  __device__ explicit SideBySide(const Params& p) : p_(p), first_(int64_t{blockIdx.x} * kSumChunk) {}
  __device__ bool there(uint32_t e) const { return e < kSumChunk && first_ + e < p_.elements; }
  __device__ int64_t partial(uint32_t e) const { return (first_ + e) * p_.splits; }  // and split_size is 1
  __device__ int64_t channel(uint32_t) const { return 0; }
  __device__ int64_t first() const { return first_; }

 private:
  const Params& p_;
  int64_t first_;
};
static_assert(SumPlace<SideBySide>);

template __global__ void ordered_sum_kernel<__half, float, float, SideBySide>(
    const __grid_constant__ SideBySide::Params);

}  // namespace tconv::cuda
