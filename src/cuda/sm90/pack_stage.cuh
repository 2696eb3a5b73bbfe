// Stages of raw weights in shared memory, on their way to packed ones (pack.cuh).
//
// A stage is some couts by some channels with all their taps. The caller's weights are w[cout][channel][k],
// in the names of the transposed form: a line of a stage is what lies together in memory, a cout's channels.
// Lines come by asynchronous copies of 16 bytes from the 16-byte boundary at or before their beginning, so
// any address will do. They lie an odd number of 16 bytes apart, so that 8 couts of a warp read different
// banks.
//
// A weight of the product then lies at the sum of three offsets: its cout's, its tap's, and its channel's,
// which a table holds for every channel of the product in a stage. To compute the last for each weight, whose
// channel may be a pair of channel and phase, or in units, takes 380 instructions for 8 weights; with the
// table they are about 80.
#pragma once

#include "cuda/sm90/pack_share.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class Word>
struct PackStages {
  static constexpr int kSize = sizeof(Word);

  const Sm90PackParams& p;
  const PackShare& share;
  unsigned char* shared;
  int chunks, count;  // stages along the channels; all

  struct Stage {
    int part;                    // of the share's couts
    int cout, couts;             // of the share's
    int row, rows;               // of the share's
    int channel, channels;       // of the group
    int first_block, end_block;  // of 8 channels of the product
    int64_t begin;               // elements of w before the first line
    int length;                  // of a line
    int buffer;                  // byte offset
  };

  __device__ PackStages(const Sm90PackParams& p, const PackShare& share, unsigned char* shared)
      : p(p), share(share), shared(shared) {
    chunks = (share.end_block - share.first_block + p.stage.blocks - 1) / p.stage.blocks;
    count = chunks * ((p.part_couts + p.stage.couts - 1) / p.stage.couts);
  }

  __device__ Stage stage(int index) const {
    Stage s;
    s.part = index / chunks;
    s.cout = s.part * p.stage.couts;
    s.couts = max(0, min(p.stage.couts, share.couts - s.cout));
    s.row = s.cout * p.phases;
    s.rows = (s.part + 1) * chunks == count ? share.rows - s.row : p.stage.couts * p.phases;
    s.first_block = share.first_block + (index - s.part * chunks) * p.stage.blocks;
    s.end_block = min(s.first_block + p.stage.blocks, share.end_block);
    s.channel = static_cast<int>(p.steps.phases_div.divide(s.first_block * 8));
    s.channels = max(0, min(p.stage.channels, p.channels - s.channel));
    const int64_t cout = share.cout + s.cout;
    s.begin = share.group * p.steps.group + s.channel * p.steps.cin + cout * p.steps.cout;
    s.length = s.channels * p.steps.k;
    s.buffer = index % kSm90PackBuffers * p.stage.bytes;
    return s;
  }

  // How many bytes behind 16 a line begins.
  __device__ uint32_t lead(const Stage& s, int line) const {
    const auto address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p.weight));
    return (address + static_cast<uint32_t>(s.begin + line * p.steps.cout) * kSize) & 15u;
  }

  // The thread's part of the copies of a stage. Loops are not unrolled, which keeps the kernel short.
  __device__ void copy(const Stage& s) const {
    if (s.length == 0) return;  // only channels that fill a slab
    const auto weights = reinterpret_cast<uintptr_t>(p.weight), end_of_all = weights + p.weights * kSize;
    const int threads = 1 << p.stage.log_line_threads, thread = threadIdx.x & (threads - 1);
    const uint32_t stage = ptx::shared_address(shared) + s.buffer;
#pragma unroll 1
    for (int line = threadIdx.x >> p.stage.log_line_threads; line < s.couts;
         line += kSm90PackThreads >> p.stage.log_line_threads) {
      const uintptr_t begin = weights + (s.begin + line * p.steps.cout) * kSize,
                      end = begin + s.length * kSize;
      const uintptr_t from = begin & ~uintptr_t{15};
      const uint32_t to = stage + line * p.stage.pitch;
      const int first = from < weights ? 1 : 0;
      const int all = static_cast<int>((end - from + 15) / 16),
                last = from + all * 16 > end_of_all ? all - 1 : all;
#pragma unroll 1
      for (int i = first + thread; i < last; i += threads) {
        ptx::copy_async16(to + i * 16, reinterpret_cast<const void*>(from + i * 16));
      }
      // Beside the ends of w, no bytes but its own.
      if (thread == 0 && first == 1) copy_elements(to - (from - begin), begin, min(end, from + 16));
      if (thread == 0 && last < all && last >= first) {
        copy_elements(to + last * 16, from + last * 16, end);
      }
    }
  }

  // One entry for each channel of the product in a stage: what its weights' offset has beside the cout's and
  // the tap's. Entries rise with the caller's channel. All stages share the table.
  __device__ void make_table(uint32_t* table) const {
    const WeightSteps& w = p.steps;
    const bool units = w.units.channels > 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < p.stage.blocks * 8; i += kSm90PackThreads) {
      int channel = static_cast<int>(w.phases_div.divide(i)), phase = i - channel * w.phases;
      if (units) {
        const auto place = w.place_of_unit(i / 8);
        channel = w.units.channel(place.block, i % 8), phase = place.phase;
      }
      table[i] = (channel * w.k + phase) * static_cast<uint32_t>(kSize);
    }
  }

  // Entries from this on are of channels that do not exist.
  __device__ uint32_t table_end(const Stage& s) const {
    return s.channels * static_cast<uint32_t>(p.steps.k * kSize);
  }

  // The shared address of a cout's weights, before the offsets of tap and channel.
  __device__ uint32_t cout_address(const Stage& s, int cout) const {
    return ptx::shared_address(shared) + s.buffer + cout * p.stage.pitch + lead(s, cout);
  }

  // The channels of a block at index k of the product's taps. table_end: 0 if there are none; zeros: the
  // shared address of a weight of 0.
  __device__ void take(const Stage& s, const uint32_t* table, uint32_t table_end, uint32_t cout_address,
                       int block, int k, uint32_t zeros, Word (&v)[8]) const {
    const int at = p.steps.first + p.steps.step * k, first = (block - s.first_block) * 8;
    const uint4 left = ptx::load_shared16(ptx::shared_address(table + first)),
                right = ptx::load_shared16(ptx::shared_address(table + first + 4));
    const uint32_t entries[8] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
    const uint32_t from = cout_address + at * kSize;
    uint32_t address[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) address[e] = entries[e] < table_end ? from + entries[e] : zeros;
    if (at + p.steps.phases > p.steps.k) {  // some phases lack the tap
      const bool units = p.steps.units.channels > 0;
      const int unit_phase = units ? p.steps.place_of_unit(block).phase : 0;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int channel = block * 8 + e;
        const int phase =
            units ? unit_phase
                  : channel - static_cast<int>(p.steps.phases_div.divide(channel)) * p.steps.phases;
        if (at + phase >= p.steps.k) address[e] = zeros;
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      v[e] = static_cast<Word>(kSize == 2 ? ptx::load_shared2(address[e]) : ptx::load_shared4(address[e]));
    }
  }

  // The same where there are no stages.
  __device__ void take_directly(int block, int cout, int k, Word (&v)[8]) const {
    const Word* weight = static_cast<const Word*>(p.weight);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int channel = block * 8 + e;
      const int64_t place =
          channel < p.cin_group ? p.steps.place<true>(share.group, channel, share.cout + cout, k) : -1;
      v[e] = place >= 0 ? __ldg(weight + place) : Word(0);
    }
  }

 private:
  __device__ static void copy_elements(uint32_t to, uintptr_t from, uintptr_t end) {
#pragma unroll 1
    for (; from < end; from += kSize, to += kSize) {
      const Word v = __ldg(reinterpret_cast<const Word*>(from));
      if constexpr (kSize == 2) {
        ptx::store_shared2(to, v);
      } else {
        ptx::store_shared4(to, v);
      }
    }
  }
};

#endif

}  // namespace tconv::cuda::sm90
