// cuda.simt.longk: a long reduction Cin*K with few outputs (an inverse STFT, a mask decoder). The positions
// of y alone do not fill the machine, so the reduction is split over blocks.
//
//   pass 1, the kernels of cuda.simt.narrow with splits > 1:
//     for split in 0..splits-1                                     grid
//       partial[split, n, co, o] = sum over ci of the split, taps t    float32 or float64
//   pass 2, cuda/device/ordered_sum.cuh:
//     for each output (n, co, o)                                   threads
//       y = bias[co] + partial[0] + partial[1] + ...               in this order, no atomics
//
// Pass 1 is bound by FMA (iSTFT) or by reading x (mask decoders); pass 2 reads `splits` times y, from L2.
#pragma once

namespace tconv::plan {
struct KernelEntry;
}

namespace tconv::cuda {

extern const plan::KernelEntry kSimtLongk;

}  // namespace tconv::cuda
