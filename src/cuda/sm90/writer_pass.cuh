// PassWriter: if x is gathered, a warpgroup's sums become rows of y, or partial sums in the workspace.
//
// A warpgroup holds whole couts with all their phases, so its share of a cout's row of y is one run of
// outputs. It stages some columns at a time as [cout][output] in shared memory, with residues interleaved,
// the bias where an output has no taps, and each row shifted so that its 16-byte vectors are those of y; then
// it stores vectors: of long rows by bulk copies, which go on while the next pass is staged in another place
// and the next tile is multiplied. (All SMs store at once otherwise, at 16 to 20 bytes a cycle each.) What a
// pass leaves over of its last vector begins the next pass; single elements remain at a tile's ends. If
// phases lie more than a stride apart, a pass also leaves over those outputs of which it has only some
// phases. If a cout has more than 64 phases, and so several row blocks, all sums are partial ones.
#pragma once

#include "cuda/device/writers.cuh"
#include "cuda/sm90/blocked_repair.cuh"
#include "cuda/sm90/pass_rows.cuh"
#include "cuda/sm90/repair.cuh"

namespace tconv::cuda::sm90 {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class S>
class PassWriter : PassRows<S> {
 public:
  using Mode = typename S::Mode;
  using T = typename Mode::T;
  using Sums = float[S::kN / 2];
  using Params = typename S::Params;
  using Later = LaterSums<S>;
  static constexpr bool kScaled = kIsScaled<Mode>;
  // Whether staged outputs show that some sums are NaN and must be made again. A separate search over the
  // sums would be a chain in which each step waits for the one before.
  static constexpr bool kSeesNan =
      Mode::kParts == 1 && !kScaled && std::is_same_v<typename S::Activation, epilogue::Identity>;
  using PassRows<S>::kVector, PassRows<S>::kPass, PassRows<S>::kLeadsAt;

  // The table of rows; and, if phases are skewed, the lead of each place modulo the stride: its column is
  // (place - lead) / stride.
  __device__ static void prepare_rows(const Params& p, const Block& block, unsigned char* shared) {
    make_rows<S>(p, block, shared, [&p](int inner, int phase, bool there) {
      return there ? (inner * p.writer.row_pitch + phase * p.sizes.dilation) * static_cast<int>(sizeof(T))
                   : -1;
    });
    if (!p.sizes.skewed || static_cast<int>(threadIdx.x) >= p.sizes.phases) return;
    const int phase = threadIdx.x, lead = phase * p.sizes.dilation, slot = lead % p.sizes.stride;
    int* leads = reinterpret_cast<int*>(shared + p.writer.shared_rows) + kLeadsAt;
    const int gap = gap_behind<S>(p.sizes, phase);
    for (int r = 0; r <= gap; ++r) leads[slot + r] = lead + r;
  }

  __device__ PassWriter(const Params& p, const Block& block, unsigned char* shared)
      : PassRows<S>(p, shared, row_block_of(block)), block_(block), row_block_(row_block_of(block)) {
    first_column_ = S::kRowBlocks == 2 ? 0 : warpgroup_ * S::kN;
    channel_ = int64_t{block.group} * p.sizes.cout_group + row_block_ * p.sizes.block_couts;
  }

  // Stores a tile's outputs. True: some sums must be made again, which `later` has.
  template <bool Repairs>
  __device__ bool store(Sums& sums, int tile, const Seen& seen, Later& later) {
    unscale_ = seen.unscale;
    if constexpr (kMarksTiles<S>) {
      if (thread_ == 0) block_.marks(p_)[2 * tile + warpgroup_] = seen.marked || marks() != 0;
    }
    constexpr bool kWatches = Repairs && kSeesNan;
    if (p_.writer.partial) {
      store_partial(sums, tile);
    } else {
      const bool any = store_passes<kWatches>(sums, tile);
      if constexpr (kWatches) {
        if (!any) return false;
        stores_done();
        later = sums_that(sums, [](float sum) { return sum != sum; });
        return true;
      }
    }
    if constexpr (kMarksTiles<S> || !Repairs) return false;
    if constexpr (kScaledBlocks<S>) {
      later = Later(sums, seen.least, written_columns<S>(p_, tile, first_column_));
      settle(later.any());
      return later.any();
    } else {
      const bool marked = seen.marked || marks() != 0, found = find_again<S>(p_, sums, marked, later);
      if (p_.sizes.ragged || marked) settle(found);
      return found;
    }
  }

  // At the end: shared memory is no longer read.
  __device__ static void finish() { ptx::bulk_stores_read<0>(); }

  // For sums that are made again: the output of which sum i of a lane is one; `to`: in a sample's rows of y,
  // or in rows of partial sums.
  __device__ OutputSpot spot(int tile, int i, int lane) const {
    const auto [row, column] = place_of_register(i, lane);
    if (p_.writer.partial) return partial_spot(row, partial_column(tile) + column);
    const Place at = place_of_column(tile, column);
    const int cout = row / p_.sizes.phases;
    const int64_t o =
        at.u * p_.sizes.stride + int64_t{row % p_.sizes.phases} * p_.sizes.dilation - p_.sizes.padding;
    const bool there = cout < couts_ && at.n < p_.sizes.samples && o >= 0 && o < p_.sizes.lout;
    return {row, at.n, at.u, there ? cout * p_.sizes.lout + o : -1};
  }
  __device__ void store_again(const OutputSpot& spot, float sum) const {
    if (p_.writer.partial) {
      partial_rows()[spot.to] = sum;
    } else {
      first_row(static_cast<int>(spot.n))[spot.to] = epilogue_of_exact<S>(rows_[spot.row])(sum);
    }
  }
  __device__ int row_block() const { return row_block_; }

 private:
  using Registers = WgmmaAccumulator<S::kN>;

  __device__ static int row_block_of(const Block& block) {
    return block.run * S::kRowBlocks + (S::kRowBlocks == 2 ? threadIdx.x / 128 : 0);
  }
  // In the row block: the thread's rows, for registers i and, with half, i + 2.
  __device__ int row_of(int half) const {
    return thread_ / 32 * Registers::kRows + Registers::row(thread_ % 32, 2 * half);
  }

  __device__ uint32_t marks() const { return weight_marks(p_, block_, row_block_); }

  // Before outputs are stored again; any: whether this warp has some. Unless sums are partial, other threads
  // store this warp's sums, and bulk copies may be under way.
  __device__ void settle(bool any) const {
    if (p_.writer.partial) {
      __syncwarp();
    } else if (any_of_warpgroup(warpgroup_, any)) {
      stores_done();
    }
  }
  // By all threads.
  __device__ void stores_done() const {
    ptx::bulk_stores_done();
    sync();
  }

  // A column of a tile, `at` columns after the warpgroup's first one.
  struct Place {
    int n;      // if folded, a sample that may not exist
    int64_t u;  // of the sample
  };
  __device__ Place place_of_column(int tile, int at) const {
    if (p_.columns.folded) {
      const uint32_t column = tile * S::kColumns + first_column_ + at;
      const uint32_t n = p_.columns.sample_pitch.divide(column);
      return {static_cast<int>(n), p_.columns.first_u + column - n * p_.columns.sample_columns};
    }
    const int n = static_cast<int>(p_.columns.sample_tiles.divide(tile));
    return {n, p_.columns.first_u +
                   int64_t{tile - n * static_cast<int>(p_.columns.sample_tiles.value)} * S::kColumns +
                   first_column_ + at};
  }
  // y at the sample's and the row block's first cout.
  __device__ T* first_row(int n) const {
    return static_cast<T*>(p_.operands.output) + (int64_t{n} * p_.sizes.cout + channel_) * p_.sizes.lout;
  }

  // Watches: returns whether some of the warpgroup's outputs are NaN.
  template <bool Watches>
  __device__ bool store_passes(Sums& sums, int tile) {
    // If samples are folded, a pass begins at a column, not at an output, and finds its samples itself.
    const bool folded = p_.columns.folded;
    const Place at =
        folded ? Place{0, int64_t{tile} * S::kColumns + first_column_} : place_of_column(tile, 0);
    T* const y = first_row(at.n);
    // The output of the first column's phase 0.
    const int64_t first = folded ? at.u : at.u * p_.sizes.stride - p_.sizes.padding;
    // Elements from the last 16-byte boundary to the first cout's first output.
    const int shift = p_.writer.by_elements
                          ? 0
                          : static_cast<int>(reinterpret_cast<uintptr_t>(y + first) / sizeof(T) % kVector);
    return store_passes<Watches>(sums, y, first, shift, this->lane_at(y + first));
  }

  // The passes are unrolled, because the sums of a pass are in registers.
  template <bool Watches, int Pass = 0>
  __device__ bool store_passes(Sums& sums, T* y, int64_t first, int shift, typename PassRows<S>::Lane lane) {
    constexpr bool kFirst = Pass == 0, kLast = Pass == S::kN / kPass - 1;
    const bool folded = p_.columns.folded;
    const int64_t o = first + int64_t{Pass} * kPass * (folded ? 1 : p_.sizes.stride);
    const T* const before = staged_;
    const uint4 carry = kFirst ? uint4{} : this->carry();
    this->wait_for_place();
    if constexpr (!kFirst) {
      staged_ += Pass % 2 != 0 ? p_.writer.second : -p_.writer.second;
      if (p_.writer.carried > 0) {
        this->move_skewed_carry(before);
        sync();
      } else {
        this->put_carry(shift, carry);
      }
    }
    stage<Watches, Pass>(sums, 0, shift);
    stage<Watches, Pass>(sums, 1, shift);
    if (p_.writer.bulk) ptx::fence_async();
    bool any = false;
    if constexpr (Watches && kLast) {
      any = any_of_warpgroup(warpgroup_, saw_nan());
    } else {
      sync();
    }
    if (folded) {
      this->store_samples(y, static_cast<int>(o));
    } else if (p_.writer.by_elements) {
      this->store_elements(y, o);
    } else {
      const bool inside = o >= kVector && o + int64_t{kPass} * p_.sizes.stride <= p_.sizes.lout;
      if (inside && p_.writer.bulk) {
        this->template store_bulk<kFirst>(y, o);
      } else if (inside && lane.usual) {
        this->template store_usual<kFirst>(lane);
      } else {
        this->template store_vectors<kFirst>(y, o);
      }
      if (p_.writer.bulk) ptx::bulk_store_group();
      if (p_.writer.carried > 0) {
        if constexpr (kFirst || kLast) this->template store_skewed_ends<kFirst, kLast>(y, o, shift);
      } else if constexpr (kFirst || kLast) {
        this->template store_ends<kFirst, kLast>(y, o, shift);
      }
    }
    lane.to += kPass * sizeof(T) * p_.sizes.stride;
    if constexpr (!kLast) return store_passes<Watches, Pass + 1>(sums, y, first, shift, lane);
    return any;
  }

  template <bool Watches, int Pass>
  __device__ void stage(const Sums& sums, int half, int shift) {
    const Row row = rows_[row_of(half)];
    if (row.at < 0) return;
    const auto epilogue = epilogue_of<S>(row, unscale_);
    shift += row.skew;
    constexpr int kChunks = kPass / 8, kFrom = Pass * kChunks * 4;
    const int stride = p_.sizes.stride;
    T* at = staged_ + row.at / static_cast<int>(sizeof(T)) + shift % kVector +
            Registers::column(thread_ % 32, 0) * stride;
    if (stride == 1 && __all_sync(__activemask(), shift % 2 == 0)) {
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        if constexpr (sizeof(T) == 2) {
          *reinterpret_cast<uint32_t*>(at + 8 * j) = two_values<Watches>(sums, kFrom + 4 * j, half, epilogue);
        } else {
          store_pair(at + 8 * j, value<Watches>(sums, kFrom + 4 * j, half, epilogue),
                     value<Watches>(sums, kFrom + 4 * j + 1, half, epilogue));
        }
      }
      return;
    }
    uint32_t pair = ptx::shared_address(at);
    const uint32_t step = stride * static_cast<int>(sizeof(T));
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
      store_two<Watches>(pair, pair + step, sums, kFrom + 4 * j, half, epilogue);
      pair += 8 * step;
    }
    if (row.gap == 0) return;
    const T nothing = epilogue.alone();
    for (int g = 1; g <= row.gap; ++g) {
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        at[8 * j * stride + g] = nothing;
        at[(8 * j + 1) * stride + g] = nothing;
      }
    }
  }
  // half is a constant wherever these three are inlined. 16-bit outputs i and i + 1 in a word, rounded and
  // made canonical together.
  template <bool Watches>
  __device__ uint32_t two_values(const Sums& sums, int i, int half, const RowEpilogue<S>& epilogue) {
    const int at = half == 0 ? i : i + 2;
    const uint32_t two =
        canonical_pair<T>(rounded_pair<T>(epilogue.value(sums[at]), epilogue.value(sums[at + 1])));
    if constexpr (Watches) most_ = __vmaxs2(most_, two);
    return two;
  }
  // Those two outputs, to two places.
  template <bool Watches>
  __device__ void store_two(uint32_t first, uint32_t second, const Sums& sums, int i, int half,
                            const RowEpilogue<S>& epilogue) {
    if constexpr (sizeof(T) == 2) {
      const uint32_t two = two_values<Watches>(sums, i, half, epilogue);
      ptx::store_shared2(first, two);
      ptx::store_shared2(second, two >> 16);
    } else {
      ptx::store_shared4(first, __float_as_uint(value<Watches>(sums, i, half, epilogue)));
      ptx::store_shared4(second, __float_as_uint(value<Watches>(sums, i + 1, half, epilogue)));
    }
  }
  template <bool Watches>
  __device__ T value(const Sums& sums, int i, int half, const RowEpilogue<S>& epilogue) {
    const T v = epilogue(half == 0 ? sums[i] : sums[i + 2]);
    if constexpr (Watches) most_ = max(static_cast<int>(most_), __float_as_int(v));
    return v;
  }
  // Canonical ones are above all numbers, as signed integers.
  __device__ bool saw_nan() const {
    if constexpr (sizeof(T) == 4) {
      return static_cast<int>(most_) == kNanF32;
    } else {
      return (most_ & 0xffffu) == kNan16<T> || most_ >> 16 == kNan16<T>;
    }
  }

  // Partial sums: [split][row][column], every column of the tile. The row block's first row.
  __device__ float* partial_rows() const {
    const int64_t all_rows = int64_t{p_.sizes.groups} * p_.sizes.row_blocks * kSm90Rows;
    const int64_t row = int64_t{block_.split} * all_rows +
                        (int64_t{block_.group} * p_.sizes.row_blocks + row_block_) * kSm90Rows;
    return static_cast<float*>(p_.operands.output) + row * p_.columns.partial_columns;
  }
  __device__ int64_t partial_column(int tile) const {
    return int64_t{tile} * S::kColumns + first_column_;
  }
  __device__ void store_partial(const Sums& sums, int tile) const {
    if (row_block_ >= p_.sizes.row_blocks) return;
    float* const rows = partial_rows();
    const int64_t column = partial_column(tile) + Registers::column(thread_ % 32, 0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* to = rows + row_of(half) * p_.columns.partial_columns + column;
      const float scale = rows_[row_of(half)].scale;
      const ScaledTwice twice =
          kScaledBlocks<S> ? scaled_twice(scale, unscale_) : ScaledTwice{scale, unscale_};
#pragma unroll
      for (int j = 0; j < S::kN / 8; ++j) {
        float2 pair{sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]};
        if constexpr (kScaled) {
          pair.x = pair.x * twice.first * twice.second;
          pair.y = pair.y * twice.first * twice.second;
        }
        *reinterpret_cast<float2*>(to + 8 * j) = pair;
      }
    }
  }

  __device__ TilePlace place_of_register(int i, int lane) const {
    const TilePlace of_warp = Registers::place({lane, i});
    return {thread_ / 32 * Registers::kRows + of_warp.row, of_warp.column};
  }
  // The sum of parts reads only outputs; the sums of other columns depend on whatever was in memory.
  __device__ OutputSpot partial_spot(int row, int64_t column) const {
    const int64_t n = column / p_.columns.sample_columns;
    const int64_t u = column - n * p_.columns.sample_columns + p_.columns.first_u;
    const RowPlace of_row(p_.sizes, row_block_, row);
    const int64_t o = u * p_.sizes.stride + int64_t{of_row.phase} * p_.sizes.dilation - p_.sizes.padding;
    const bool there = row_block_ < p_.sizes.row_blocks && n < p_.sizes.samples && of_row.there(p_.sizes) &&
                       o >= 0 && o < p_.sizes.lout;
    return {row, n, u, there ? row * p_.columns.partial_columns + column : -1};
  }

  using PassRows<S>::p_, PassRows<S>::thread_, PassRows<S>::warpgroup_, PassRows<S>::couts_;
  using PassRows<S>::staged_, PassRows<S>::rows_, PassRows<S>::sync;

  const Block& block_;
  int row_block_, first_column_;
  float unscale_ = 1;
  uint32_t most_ = 0;  // the largest of the thread's outputs or, of 16 bits, the two largest, as integers
  int64_t channel_;    // of y, of the row block's first cout
};

#endif

}  // namespace tconv::cuda::sm90
