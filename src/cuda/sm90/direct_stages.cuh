// Of the kernel of direct.cuh: its shapes, barriers and half tiles, the lanes that have x and weights copied,
// and the other end of both rings.
#pragma once

#include "cuda/sm90/direct_store.cuh"

namespace tconv::cuda::sm90 {

// Group: taps; 0: any, by operands in shared memory. A shape each, because ptxas has wgmma take turns where
// the loops of several are in one kernel.
template <class M, int RowBlocks, int Group>
struct DirectShape {
  using Mode = M;
  static constexpr int kGroup = Group;
  static constexpr int kRowBlocks = RowBlocks;
  static constexpr bool kSplit = Mode::kParts == 2;
  static constexpr Sm90DirectTile kTile =
      sm90_direct_tile(RowBlocks, Group, Mode::kParts, sizeof(typename Mode::T));
  static constexpr int kOwn = kTile.own, kWarpPositions = kTile.warp_positions();
  static constexpr int kHalfTile = kTile.half_tile(), kWarpgroups = kTile.warpgroups;
  static constexpr int kChannels = kTile.channels;
  static constexpr int kApart = Group == 0 ? 8 : 1;    // positions from one of a lane's to the next
  static constexpr int kReaders = Group == 0 ? 2 : 4;  // warps that read a raw stage
  static constexpr int kFirst = Group == 0 ? 2 : 1;    // stages that tell the tile: of all warps
  static constexpr int kColumns = kSm90MarkedColumns;  // of a tile that is marked
  static constexpr int kThreads = 128 * (kWarpgroups + 1), kConsumers = 128 * kWarpgroups;
  // Registers of a thread that multiplies, and of another: 384 threads have 168 each to begin with, 512 128.
  static constexpr bool kMost = Group == 4 && RowBlocks == 2 && sizeof(typename Mode::T) == 4;
  static constexpr int kConsumer = kWarpgroups == 3 ? 160 : kMost ? 240 : 232;
  static constexpr int kProducer = kWarpgroups == 3 ? 32 : kMost ? 24 : 40;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Addresses of the barriers: of each warpgroup's raw stages full, empty; of the ring of slabs full, empty.
template <class S>
struct DirectBarriers {
  uint32_t base;
  int stages, buffers;
  int lanes;  // of a warp that arrive at a raw stage's barriers: all of them where its elements are loaded
              // one by one

  __device__ DirectBarriers(const Sm90Params& p, const unsigned char* shared)
      : base(ptx::shared_address(shared + p.shared_barriers)),
        stages(p.stages),
        buffers(p.slots),
        lanes(p.by_elements ? 32 : 1) {}
  __device__ uint32_t full(int warpgroup, int i) const { return base + 8 * (warpgroup * stages + i); }
  __device__ uint32_t empty(int warpgroup, int i) const { return full(S::kWarpgroups + warpgroup, i); }
  __device__ uint32_t weights_full(int i) const { return full(2 * S::kWarpgroups, i); }
  __device__ uint32_t weights_empty(int i) const { return weights_full(buffers + i); }

  __device__ void init() const {
    for (int i = 0; i < S::kWarpgroups * stages; ++i) {
      ptx::barrier_init(full(0, i), lanes);
      ptx::barrier_init(empty(0, i), S::kReaders * lanes);
    }
    for (int i = 0; i < buffers; ++i) {
      ptx::barrier_init(weights_full(i), S::kRowBlocks);  // warps that bring them
      ptx::barrier_init(weights_empty(i), S::kConsumers / 32);
    }
    ptx::barrier_init_done();
  }
};

// The half tiles of a warpgroup, in order. Where they go by turns, all warpgroups have as many: the last ones
// may be of a sample that does not exist, of zeros.
template <class S>
class HalfTiles {
 public:
  // takes: whether this lane takes them.
  __device__ HalfTiles(const Sm90Params& p, const Share& share, int warpgroup, bool takes = true)
      : counter_(p.counters == nullptr || !takes ? nullptr
                                                 : p.counters + share.group * p.row_runs + share.run),
        end_(p.counters == nullptr ? S::kWarpgroups * p.half_rounds
                                   : p.samples * static_cast<int>(p.half_tiles.value)),
        step_(S::kWarpgroups * p.walkers),
        next_(S::kWarpgroups * share.walker + warpgroup) {
    if (counter_ != nullptr) next_ = atomicAdd(counter_, 1);
  }
  // -1: no more. Drawn one ahead: its latency is hidden.
  __device__ int take() {
    const int now = next_;
    if (now >= end_) return -1;
    next_ = counter_ != nullptr ? atomicAdd(counter_, 1) : now + step_;
    return now;
  }

 private:
  int* counter_;
  int end_, step_, next_;
};

// One lane a warpgroup.
template <class S>
__device__ inline void feed_direct(const Sm90Params& p, const Share& share, const DirectBarriers<S>& barriers,
                                   unsigned char* shared, int warpgroup) {
  const uint32_t to = ptx::shared_address(shared) + warpgroup * p.stages * p.raw_bytes;
  volatile int* tiles = reinterpret_cast<int*>(shared + p.shared_small) + warpgroup * kSm90MaxStages;
  Place raw;
  HalfTiles<S> turns(p, share, warpgroup);
  const int steps = p.slabs * (32 / S::kChannels);
  for (int tile = turns.take();; tile = turns.take()) {
    const int n = static_cast<int>(p.half_tiles.divide(max(tile, 0)));
    const int half = tile - n * static_cast<int>(p.half_tiles.value);
    const int first = static_cast<int>(p.first_u) - p.halo + half * p.half_step;
    for (int step = 0; step < steps; ++step) {
      ptx::barrier_wait(barriers.empty(warpgroup, raw.at), raw.parity ^ 1);
      if (step < S::kFirst) tiles[raw.at] = tile;
      if (tile < 0) {
        ptx::barrier_arrive(barriers.full(warpgroup, raw.at));
        if (step == S::kFirst - 1) return;
        raw.advance(p.stages);
        continue;
      }
      ptx::barrier_arrive_expect(barriers.full(warpgroup, raw.at), S::kChannels * p.raw_pitch);
      const uint32_t stage = to + raw.at * p.raw_bytes;
      if (S::kGroup > 0 || p.row_classes == 1) {
        const int at[4] = {first, step * S::kChannels, share.group, n};
        ptx::tensor_load(stage, &p.x_maps[0], at, barriers.full(warpgroup, raw.at));
      } else {
        const int row = n * p.sample_rows + share.group * p.cin_group + step * S::kChannels;
        const int shift = __ffs(p.row_classes) - 1;
#pragma unroll 1
        for (int m = 0; m < p.row_classes; ++m) {
          const int at[4] = {first, (row - m + p.row_classes - 1) >> shift, 0,
                             0};  // its first row from there on
          ptx::tensor_load(stage + m * p.region_bytes, &p.x_maps[m], at, barriers.full(warpgroup, raw.at));
        }
      }
      raw.advance(p.stages);
    }
  }
}

// The same where x does not begin on 16 bytes, as tensor copies must: a warp loads a stage's elements one by
// one, each to where its copy would bring it.
template <class S>
class ElementFeed {
 public:
  __device__ ElementFeed(const Sm90Params& p, const Share& share, unsigned char* shared, int warpgroup)
      : p_(p), share_(share), lane_(threadIdx.x % 32) {
    to_ = shared + warpgroup * p.stages * p.raw_bytes;
    tiles_ = reinterpret_cast<int*>(shared + p.shared_small) + warpgroup * kSm90MaxStages;
  }

  __device__ void run(const DirectBarriers<S>& barriers, int warpgroup) const {
    const int steps = p_.slabs * (32 / S::kChannels);
    Place raw;
    HalfTiles<S> turns(p_, share_, warpgroup, lane_ == 0);
    for (;;) {
      const int tile = __shfl_sync(0xffffffffu, lane_ == 0 ? turns.take() : 0, 0);
      for (int step = 0; step < steps; ++step) {
        ptx::barrier_wait(barriers.empty(warpgroup, raw.at), raw.parity ^ 1);
        if (lane_ == 0 && step < S::kFirst) tiles_[raw.at] = tile;
        if (tile >= 0) fill(to_ + raw.at * p_.raw_bytes, tile, step);
        ptx::barrier_arrive(barriers.full(warpgroup, raw.at));
        if (tile < 0 && step == S::kFirst - 1) return;
        raw.advance(p_.stages);
      }
    }
  }

 private:
  using Word = typename S::Mode::Word;
  static constexpr int kSize = sizeof(Word), kVector = 16 / kSize;

  // A channel of a stage: its element e is from[e], or zero where e is not in [begin, end).
  struct Row {
    const Word* from;
    unsigned char* to;
    int begin, end;
  };

  __device__ Row row_of(unsigned char* stage, int n, int first, int step, int c) const {
    const int classes = S::kGroup > 0 ? 1 : p_.row_classes, channel = step * S::kChannels + c;
    const int m = (n * p_.sample_rows + share_.group * p_.cin_group + channel) & (classes - 1);
    const int position = first - (m * p_.class_turn & (kVector - 1));  // of element 0
    const bool there = n < p_.samples && channel < p_.cin_group;
    Row row;
    row.from = static_cast<const Word*>(p_.x) + n * p_.x_step[0] +
               (int64_t{share_.group} * p_.cin_group + channel) * p_.x_step[1] + position;
    row.to = stage + m * p_.region_bytes + c / classes * p_.raw_pitch;
    row.begin = max(-position, 0);
    row.end = there ? static_cast<int>(min(p_.l - position, int64_t{p_.width})) : 0;
    return row;
  }

  __device__ void fill(unsigned char* stage, int tile, int step) const {
    const int n = static_cast<int>(p_.half_tiles.divide(tile));
    const int half = tile - n * static_cast<int>(p_.half_tiles.value);
    const int first = static_cast<int>(p_.first_u) - p_.halo + half * p_.half_step;
#pragma unroll 1
    for (int c = 0; c < S::kChannels; ++c) {
      const Row row = row_of(stage, n, first, step, c);
      if constexpr (kSize == 4) {
#pragma unroll 1
        for (int e = lane_; e < p_.width; e += 32) {
          const bool there = e >= row.begin && e < row.end;
          ptx::copy_async4(ptx::shared_address(row.to) + e * 4, there ? row.from + e : p_.x, there);
        }
      } else {
        load(row);
      }
    }
    if constexpr (kSize == 4) {
      ptx::copy_async_commit();
      ptx::copy_async_wait<0>();
    }
  }
  __device__ void load(const Row& row) const {
    constexpr int kLoads = 5;
#pragma unroll 1
    for (int first = lane_; first < p_.width; first += 32 * kLoads) {
      Word v[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int e = first + 32 * i;
        v[i] = e >= row.begin && e < row.end ? __ldg(row.from + e) : Word(0);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int e = first + 32 * i;
        if (e < p_.width) *reinterpret_cast<Word*>(row.to + e * kSize) = v[i];
      }
    }
  }

  const Sm90Params& p_;
  const Share& share_;
  int lane_;
  unsigned char* to_;
  volatile int* tiles_;
};

// One lane a row block: its weights, slab by slab, so that the 16-byte channel blocks of all row blocks lie
// together: [tap][channel block][row][16 bytes].
template <class S>
__device__ inline void feed_weights(const Sm90Params& p, const Share& share,
                                    const DirectBarriers<S>& barriers, unsigned char* shared, int r) {
  constexpr int kBytes = kSm90Rows * 16;
  const int blocks = p.taps * S::Mode::kParts * kSm90Blocks, run = blocks * kBytes;
  const uint32_t to = ptx::shared_address(shared + p.shared_weights) + r * kBytes;
  // A row block that does not exist is the last one again: nothing reads it.
  const int block = min(share.run * S::kRowBlocks + r, p.row_blocks - 1);
  const unsigned char* from = static_cast<const unsigned char*>(p.packed) +
                              (int64_t{share.group} * p.row_blocks + block) * p.row_block_bytes;
  Place buffer;
  for (int round = share.walker; p.resident || round < p.half_rounds; round += p.walkers) {
#pragma unroll 1
    for (int slab = 0; slab < p.slabs; ++slab) {
      const uint32_t full = barriers.weights_full(buffer.at);
      ptx::barrier_wait(barriers.weights_empty(buffer.at), buffer.parity ^ 1);
      ptx::barrier_arrive_expect(full, run);
#pragma unroll 4
      for (int i = 0; i < blocks; ++i) {
        ptx::bulk_load(to + (buffer.at * blocks + i) * S::kRowBlocks * kBytes,
                       from + int64_t{slab} * run + i * kBytes, kBytes, full);
      }
      buffer.advance(p.slots);
    }
    if (p.resident) return;
  }
}

// A warpgroup's way through raw stages and slabs of weights.
template <class S>
class DirectStages {
 public:
  using Mode = typename S::Mode;

  __device__ DirectStages(const Sm90Params& p, const DirectBarriers<S>& barriers, unsigned char* shared,
                          int warpgroup, int lane)
      : p_(p), barriers_(barriers), leader_(lane == 0) {
    first_ = {ptx::shared_address(shared) + warpgroup * p.stages * p.raw_bytes, barriers.full(warpgroup, 0)};
    stage_ = first_;
    last_full_ = barriers.full(warpgroup, p.stages - 1);
    to_empty_ = barriers.empty(warpgroup, 0) - barriers.full(warpgroup, 0);
    tiles_ = reinterpret_cast<const int*>(shared + p.shared_small) + warpgroup * kSm90MaxStages;
    weights_ = ptx::matrix_descriptor(ptx::shared_address(shared + p.shared_weights),
                                      S::kRowBlocks * kSm90Rows * 16, 128);
  }

  // The next half tile; -1: there are no more.
  __device__ int next() {
    ptx::barrier_wait(stage_.full, parity_);
    // By the lane that releases the stage.
    const int tile = leader_ ? tiles_[(stage_.full - first_.full) / 8] : 0;
    return __shfl_sync(0xffffffffu, tile, 0);
  }
  // Weights that nobody waited for are still on their way.
  __device__ void finish() const {
    if (!p_.resident || weights_there_) return;
    for (int i = 0; i < p_.slots; ++i) ptx::barrier_wait(barriers_.weights_full(i), 0);
  }

 protected:
  static constexpr int kN = S::kRowBlocks * kSm90Rows;
  // 16-byte units of a tap's weights, of each part: two steps of 16 channels.
  static constexpr uint32_t kPartUnits = kSm90Blocks * kN, kTapUnits = Mode::kParts * kPartUnits;
  struct Stage {
    uint32_t own, full;  // shared addresses: of what the lane reads first, and of its barrier
  };

  __device__ void advance_stage() {
    const bool last = stage_.full == last_full_;
    stage_ = last ? first_ : Stage{stage_.own + p_.raw_bytes, stage_.full + 8};
    parity_ ^= last;
  }
  // Its numbers are in registers, of all lanes. Where lanes write stages, each lane frees what it has read,
  // so that a race check, which does not follow a lane's reads through another's arrival, can vouch for it.
  __device__ void release_stage(uint32_t full) const {
    __syncwarp();
    if (leader_ || p_.by_elements) ptx::barrier_arrive(full + to_empty_);
  }

  __device__ void wait_weights() const {
    if (!weights_there_) ptx::barrier_wait(barriers_.weights_full(slab_), p_.resident ? 0 : weights_parity_);
  }
  // A slab's weights are free when the next one's first wgmma are issued and those before them are over.
  __device__ void advance_weights(int& before) {
    if (p_.resident) {
      ++slab_;
      return;
    }
    before = slab_;
    if (++slab_ == p_.slots) {
      slab_ = 0;
      weights_parity_ ^= 1;
    }
  }
  // Where its wgmma are over.
  __device__ void next_slab() {
    int used = -1;
    advance_weights(used);
    release_weights(used);
  }
  __device__ void release_weights(int slab) const {
    if (slab >= 0 && leader_) ptx::barrier_arrive(barriers_.weights_empty(slab));
  }

  const Sm90Params& p_;
  const DirectBarriers<S>& barriers_;
  bool leader_;
  Stage first_, stage_;
  uint32_t last_full_, to_empty_, parity_ = 0;
  const volatile int* tiles_;
  uint64_t weights_;
  int slab_ = 0;
  uint32_t weights_parity_ = 0;
  bool weights_there_ = false;
};

#endif

}  // namespace tconv::cuda::sm90
