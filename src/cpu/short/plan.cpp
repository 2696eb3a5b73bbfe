// The choice of Config, and the tables of a Job.
#include <algorithm>
#include <iterator>

#include "core/polyphase.hpp"
#include "cpu/common/round_up.hpp"
#include "cpu/common/short_vectors.hpp"
#include "cpu/common/storage.hpp"
#include "cpu/short/contract.hpp"

namespace tconv::cpu::short_l {

using core::Problem;

namespace {

constexpr int64_t kFewColumns = 24;  // up to here weights are read in place, in order
constexpr int64_t kOneBlock = 6;     // columns that fit in one block on every target: weights are read once

// Channels of a task: about `rows` rows, with little of the last panel unused, and of the last of vectors of
// `lanes` channels.
int64_t channels_of(const Problem& p, int64_t rows, int64_t lanes = 1) {
  const int64_t cout = p.cout_per_group(), most = std::clamp<int64_t>(rows / p.k, 1, cout);
  int64_t best = most;
  double best_waste = 1e9;
  for (int64_t c = most; c >= std::max<int64_t>(1, most / 2); --c) {
    const double waste =
        static_cast<double>(round_up(c * p.k, kPanel)) / static_cast<double>(std::min(c * p.k, cout * p.k)) +
        static_cast<double>(round_up(c, lanes)) / static_cast<double>(c);
    if (waste < best_waste - 0.01) {
      best = c;
      best_waste = waste;
    }
  }
  return best;
}

// Input channels at a time. The tile is read and written once for each of these blocks. But raw rows often
// lie a power of two apart, in few sets of L1, from which a second block of columns reads them again; and
// with few columns, which wait for memory, the prefetchers of a core follow eight streams better than more.
// 512 -> 256, K16 s8 on a Zen 5, ms with 8, 16 and 32: L4 0.16, 0.19, 0.19; L8 0.23, 0.21, 0.20; L12 0.33,
// 0.29, 0.37.
int64_t depth_of(int64_t columns, bool pack_panels) {
  if (pack_panels) return 128;
  return columns <= kOneBlock ? 8 : columns <= 8 ? 32 : 16;
}

// Channels of a task with few columns. Its tile stays in L1 while the weights stream past, and every thread
// gets some tasks. Several blocks of columns read the same weights, which must then stay in L1 too.
//
// With short vectors and one block, the tile may take part of L2, so that weights are read in longer runs: a
// Zen 3 reads eight streams of 64 KiB each 1.2 times as fast as pieces of 8 KiB. A single column only waits
// for memory and gets one task a thread: 2048 -> 1024, K16 s8 L1 takes 5.7 ms with 16384 rows a task and 7.8
// with 2048; 7 such layers are 1.14 times as fast with one thread, 6 layers 1.2 times with two. With long
// vectors, and weights fetched ahead, 8 layers take 0.93 of the time with one thread and 0.87 with two (Xeon
// with AVX-512; without fetching 0.96 and 0.87).
int64_t channels_of_few_columns(const Problem& p, int64_t columns, int64_t threads, int vector_bytes) {
  constexpr int64_t kLeastRows = 256, kRowsInL1 = 2048, kTileInL1 = 6144, kTileInL2 = 32768;
  const int64_t cout = p.cout_per_group();
  const bool streams = (columns == 1 || short_vectors(vector_bytes)) && columns <= kOneBlock;
  if (streams && columns == 1) {
    const int64_t blocks = std::max(core::ceil_div(threads, p.groups), core::ceil_div(cout * p.k, kTileInL2));
    return std::min(cout, std::max(core::ceil_div(cout, blocks), core::ceil_div(kLeastRows, p.k)));
  }
  const int64_t share = threads == 1 ? p.cout * p.k : p.cout * p.k / (3 * threads);
  const int64_t most = streams ? kTileInL2 / columns : std::min(kTileInL1 / columns, kRowsInL1);
  return channels_of(p, std::max(kLeastRows, std::min(most, share)));
}

// Whether vectors along co save more than rows cost that are turned. Cycles of a Zen 5: 1.1 a weight; an
// output of stride 1 to 4 saves 13, 5, 3.5 and 3. They must save 1.6 times as much: 512 -> 512 K6 s3, 16
// times L32, is 1.04 times slower turned. 32 -> 512 K3, 32 times L4: 0.31 -> 0.11 ms, 256 -> 512: 0.72 ->
// 0.58.
bool turning_pays(const Problem& p, int64_t samples) {
  constexpr double kWeight = 1.1, kAtLeast = 1.6, kSaved[] = {13, 5, 3.5, 3};
  constexpr int64_t kMostOutputs = kBuffer / 128;  // of a channel: sixteen of them twice, in L2
  if (p.stride > static_cast<int64_t>(std::size(kSaved)) || p.lout() > kMostOutputs) return false;
  const double saved = kSaved[p.stride - 1] * static_cast<double>(samples * p.lout());
  return saved > kAtLeast * kWeight * static_cast<double>(p.k * p.cin_per_group());
}

void configure(Job& job, int64_t threads, int vector_bytes) {
  const Problem& p = job.problem;
  Config& c = job.config;
  const int64_t n = std::max<int64_t>(1, p.n);
  const int64_t most =
      std::min({512 / p.l, kBuffer / (p.l * p.cin), kBuffer / (p.l * round_up(p.k, kPanel))});
  c.samples = std::clamp<int64_t>(most, 1, n);
  job.chunks = core::ceil_div(p.n, c.samples);
  if (job.chunks > 0) c.samples = core::ceil_div(p.n, job.chunks);
  const int64_t columns = job.columns();
  c.by_tap = turning_pays(p, c.samples);
  c.pack_panels = columns > kFewColumns || c.by_tap;
  const int64_t bytes = p.weight_elements() * static_cast<int64_t>(size_of(p.dtype));
  c.fetch_ahead = !c.pack_panels && (columns > 1 || !short_vectors(vector_bytes)) && bytes > 1 << 20;
  c.depth = std::min<int64_t>(p.cin_per_group(), depth_of(columns, c.pack_panels));
  const int64_t lanes = c.by_tap ? vector_bytes / static_cast<int64_t>(accumulator_size(p.dtype)) : 1;
  c.channels =
      c.pack_panels ? channels_of(p, 128, lanes) : channels_of_few_columns(p, columns, threads, vector_bytes);
  job.channel_blocks = core::ceil_div(p.cout_per_group(), c.channels);
  job.row_pitch = round_up(c.channels * p.k, kPanel);
  c.stage = std::clamp<int64_t>(kBuffer / (columns * p.cin), 1, std::max<int64_t>(1, job.chunks));
}

}  // namespace

Job job_of(const Problem& p, int64_t threads, int vector_bytes) {
  Job job;
  job.problem = p;
  job.lout = p.lout();
  job.full = (p.l - 1) * p.stride + p.dilation * (p.k - 1) + 1;
  configure(job, threads, vector_bytes);
  return job;
}

std::string Config::text() const {
  return std::to_string(samples) + " samples a chunk, " + std::to_string(channels) + " channels a task, " +
         std::to_string(depth) + " ci at a time, weights " + (pack_panels ? "in packed panels" : "in place") +
         (by_tap ? " by tap" : "") + ", " + std::to_string(stage) + " chunks staged";
}

std::size_t Job::stage_bytes() const {
  return static_cast<std::size_t>(columns() * problem.cin) * accumulator_size(problem.dtype);
}

int64_t Job::line_elements() const {
  if (config.by_tap) return 2 * kMostLanes * lout;
  return full + problem.output_padding + problem.stride + kPanel;  // a vector may overhang the line
}

std::size_t Job::scratch_bytes() const {
  // A vector may overhang the tile.
  const int64_t turned = config.by_tap ? row_pitch : 0;
  const int64_t elements = (columns() + 1 + config.depth) * row_pitch + turned + line_elements();
  return static_cast<std::size_t>(elements) * accumulator_size(problem.dtype);
}

}  // namespace tconv::cpu::short_l
