// The pool alone: how callers share workers. Tasks sleep rather than compute, so that pools of more cores
// than the machine has behave as they would there.
#include "cpu/threads/worker_pool.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "threads/pool_support.hpp"

namespace tconv::cpu {
namespace {

TEST(WorkerPool, EveryIndexOnceWhileManyCallersComeAndGo) {
  for (const int cores : {1, 2, 4, 7}) {
    WorkerPool& pool = new_pool(cores);
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 6; ++caller) {
      callers.emplace_back([&, caller] {
        for (int round = 0; round < 150; ++round) {
          const int threads = 2 + (caller * 5 + round * 3) % 9;
          const int64_t count = 1 + (round * 7 + caller) % 60;
          Watch watch(threads, count);
          run(pool, threads, count, [&](int64_t i, int32_t slot) {
            watch.enter(i, slot);
            if ((i + round) % 16 == 0) std::this_thread::yield();
            if ((i + round + caller) % 97 == 0) {
              Watch inner(3, 5);
              run(pool, 3, 5, [&](int64_t j, int32_t s) {
                inner.enter(j, s);
                inner.leave(s);
              });
              wrong += !inner.all_once();
            }
            watch.leave(slot);
          });
          wrong += !watch.all_once();
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(wrong, 0) << cores << " cores";
  }
}

TEST(WorkerPool, ALoneCallerHasEveryCore) {
  WorkerPool& pool = new_pool(4);
  std::set<int32_t> slots;
  std::mutex mutex;
  run(pool, 4, 200, [&](int64_t, int32_t slot) {
    nap();
    const std::lock_guard<std::mutex> lock(mutex);
    slots.insert(slot);
  });
  EXPECT_EQ(slots.size(), 4u);
  EXPECT_EQ(pool.workers(), 3);
}

// The second caller comes in the middle of a long run: it must get helpers from the first.
TEST(WorkerPool, ALongRunGivesHelpersToASecondCaller) {
  WorkerPool& pool = new_pool(4);
  std::atomic<bool> second_runs{false}, second_done{false};
  std::atomic<int> first_helped{0}, second_helped{0}, first_ran{0};
  std::thread first([&] {
    run(pool, 4, 4000, [&](int64_t, int32_t slot) {
      if (second_done) return;
      nap();
      ++first_ran;
      first_helped += second_runs && slot != 0 ? 1 : 0;
    });
  });
  while (first_ran < 20) nap();
  second_runs = true;
  run(pool, 4, 200, [&](int64_t, int32_t slot) {
    nap();
    second_helped += slot != 0 ? 1 : 0;
  });
  second_done = true;
  first.join();
  EXPECT_GT(second_helped, 50) << "of 200 tasks; an even share is half of them";
  EXPECT_GT(first_helped, 25) << "the first caller keeps its share";
}

// It began alone, as the other caller was there; once that one is gone, it must not stay alone.
TEST(WorkerPool, ALongRunGetsHelpersWhenTheOtherCallerIsGone) {
  WorkerPool& pool = new_pool(2);
  std::atomic<bool> both{false};
  std::thread other([&] {
    run(pool, 2, 2, [&](int64_t, int32_t) {
      while (!both) nap();
    });
  });
  while (pool.workers() == 0) nap();
  int before = 0;
  std::atomic<int> helped{0};
  run(pool, 2, 200, [&](int64_t i, int32_t slot) {
    nap();
    if (i == 20) both = true;
    if (i <= 20) before += slot != 0 ? 1 : 0;
    helped += slot != 0 ? 1 : 0;
  });
  other.join();
  EXPECT_EQ(before, 0);
  EXPECT_GT(helped, 30);
}

// Tasks that each of so many callers got done in 400 ms on six cores: the least, the most and all.
struct Progress {
  int least, most, total;
};
Progress progress_of(int callers) {
  WorkerPool& pool = new_pool(6);
  std::vector<std::atomic<int>> done(static_cast<std::size_t>(callers));
  std::vector<std::thread> threads;
  const auto end = Clock::now() + milliseconds(400);
  for (auto& mine : done) {
    threads.emplace_back([&] {
      while (Clock::now() < end) {
        run(pool, 6, 24, [&](int64_t, int32_t) {
          nap();
          ++mine;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Progress progress{done[0], done[0], 0};
  for (const auto& d : done) {
    progress.least = std::min<int>(progress.least, d);
    progress.most = std::max<int>(progress.most, d);
    progress.total += d;
  }
  return progress;
}

TEST(WorkerPool, CallersMakeProgressAlike) {
  for (const int callers : {2, 3, 6}) {
    bool alike = false, busy = false;
    // A machine that is busy with other things may be unfair, and slow, once or twice.
    for (int attempt = 0; attempt < 5 && !(alike && busy); ++attempt) {
      const Progress p = progress_of(callers);
      alike = p.least * 2 > p.most;
      busy = p.total > 6 * 400 / 4;  // each task sleeps for 1 ms and a little
    }
    EXPECT_TRUE(alike) << callers << " callers";
    EXPECT_TRUE(busy) << callers << " callers: cores stay empty";
  }
}

TEST(WorkerPool, AnArrivingCallerNeverWaits) {
  WorkerPool& pool = new_pool(2);
  std::atomic<int> begun{0};
  std::thread first([&] {
    run(pool, 2, 2, [&](int64_t, int32_t) {
      ++begun;
      nap(milliseconds(1000));
    });
  });
  while (begun < 2) nap();
  const auto start = Clock::now();
  run(pool, 2, 8, [](int64_t, int32_t) {});
  EXPECT_LT(Clock::now() - start, milliseconds(500));
  first.join();
}

TEST(WorkerPool, EndsThreadsBeyondTheCores) {
  WorkerPool& pool = new_pool(2);
  run(pool, 1024, 1100, [](int64_t, int32_t) { nap(milliseconds(20)); });
  ASSERT_GT(pool.workers(), 500);

  // A run of two threads wakes one worker, not all of them.
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  std::atomic<int> highest{0};
  for (int i = 0; i < 100; ++i) {
    run(pool, 2, 4, [&](int64_t, int32_t slot) { highest = std::max<int>(highest, slot); });
  }
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LE(highest, 1);
  const auto switches = after.ru_nvcsw - before.ru_nvcsw;
  EXPECT_LT(switches, 100 * 20) << "voluntary switches in 100 runs of 2 threads";

  EXPECT_TRUE(eventually([&] { return pool.workers() <= 1; })) << pool.workers();
  std::atomic<int> done{0};
  run(pool, 16, 64, [&](int64_t, int32_t) {
    nap();
    ++done;
  });
  EXPECT_EQ(done, 64);
  EXPECT_GT(pool.workers(), 1) << "and makes them again where a plan asks for them";
}

}  // namespace
}  // namespace tconv::cpu
