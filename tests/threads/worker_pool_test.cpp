// The pool alone: how callers share workers, and what its threads are. Tasks sleep rather than compute,
// so that pools of more cores than the machine has behave as they would there.
#include "cpu/threads/worker_pool.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cpu/threads/pool.hpp"

namespace tconv::cpu {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Body = std::function<void(int64_t, int32_t)>;

// Never destroyed, as pools are; reachable, so that no tool calls it a leak.
WorkerPool& new_pool(int cores) {
  static std::vector<WorkerPool*> pools;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  return *pools.emplace_back(new WorkerPool(cores));
}

void run(WorkerPool& pool, int threads, int64_t count, Body body) {
  pool.run(
      threads, count, [](void* f, int64_t i, int32_t slot) { (*static_cast<Body*>(f))(i, slot); }, &body);
}

void nap(milliseconds time = milliseconds(1)) {
  std::this_thread::sleep_for(time);
}

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 500; ++i) {
    if (holds()) return true;
    nap(milliseconds(10));
  }
  return holds();
}

// Counts, and sees slots that two tasks hold at once.
struct Watch {
  Watch(int threads, int64_t count)
      : inside(static_cast<std::size_t>(threads)), times(static_cast<std::size_t>(count)) {}
  void enter(int64_t i, int32_t slot) {
    wrong += slot < 0 || slot >= static_cast<int32_t>(inside.size());
    wrong += inside[static_cast<std::size_t>(slot)].fetch_add(1) != 0;
    times[static_cast<std::size_t>(i)].fetch_add(1);
  }
  void leave(int32_t slot) { inside[static_cast<std::size_t>(slot)].fetch_sub(1); }
  bool all_once() const {
    for (const auto& t : times) {
      if (t != 1) return false;
    }
    return wrong == 0;
  }
  std::vector<std::atomic<int>> inside, times;
  std::atomic<int> wrong{0};
};

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

#if !defined(__SANITIZE_THREAD__)  // which uses the CPU by itself, and does not follow forks
double cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(WorkerPool, IdleWorkersSleepWithinAMillisecond) {
  WorkerPool& pool = new_pool(8);
  run(pool, 8, 100, [](int64_t, int32_t) { nap(); });
  ASSERT_EQ(pool.workers(), 7);
  nap();
  const double before = cpu_seconds();
  nap(milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 1e-3);
}

void busy_while(const std::atomic<bool>& goes_on) {
  const core::Executor executor = pool_executor(3);
  while (goes_on) executor.run(64, [](int64_t, int32_t) {});
}

TEST(Fork, AChildComputesThoughThePoolWasBusy) {
  std::atomic<bool> goes_on{true};
  std::thread callers[] = {std::thread([&] { busy_while(goes_on); }),
                           std::thread([&] { busy_while(goes_on); })};
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(30);  // a child that hangs ends by this signal
      std::atomic<int> done{0};
      pool_executor(3).run(100, [&](int64_t, int32_t) { ++done; });
      _exit(done == 100 ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
  goes_on = false;
  for (std::thread& caller : callers) caller.join();
}

// Static destructors and atexit handlers still find the pool, and its sleeping threads do not hold the end
// up.
TEST(Exit, ThePoolWorksUntilTheProcessEnds) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        alarm(30);
        const auto compute = [] {
          std::atomic<int> done{0};
          pool_executor(3).run(100, [&](int64_t, int32_t) { ++done; });
          if (done != 100) _exit(1);
        };
        std::atexit(compute);
        compute();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}
#endif

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

// f() on a worker of a pool that `maker` has made the first run on.
void on_a_worker(const std::function<void()>& prepare, const std::function<void()>& f) {
  WorkerPool& pool = new_pool(3);
  std::thread maker([&] {
    prepare();
    std::atomic<bool> seen{false};
    for (int i = 0; i < 100 && !seen; ++i) {
      run(pool, 3, 8, [&](int64_t, int32_t slot) {
        if (slot != 0 && !seen.exchange(true)) f();
        nap();
      });
    }
    EXPECT_TRUE(seen);
  });
  maker.join();
}

TEST(Worker, BlocksTheHostsSignals) {
  on_a_worker([] {},
              [] {
                sigset_t blocked;
                ASSERT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &blocked), 0);
                for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD,
                                         SIGPIPE, SIGPROF, SIGVTALRM, SIGWINCH, SIGRTMIN, SIGRTMAX}) {
                  EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
                }
                // Handlers of crash reports must see a thread's own faults.
                for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
                  EXPECT_EQ(sigismember(&blocked, fault), 0);
              });
}

TEST(Worker, LeavesTheCallersMaskAsItWas) {
  sigset_t before, after;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  run(new_pool(3), 3, 8, [](int64_t, int32_t) { nap(); });
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal < 32; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
}

TEST(Worker, IsNotPinnedWithItsMaker) {
  cpu_set_t process;
  ASSERT_EQ(sched_getaffinity(getpid(), sizeof(process), &process), 0);
  const auto pin = [] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  };
  // new_pool() is called on this thread; the threads are made by the pinned one.
  on_a_worker(pin, [&] {
    cpu_set_t own;
    ASSERT_EQ(sched_getaffinity(0, sizeof(own), &own), 0);
    EXPECT_TRUE(CPU_EQUAL(&own, &process)) << CPU_COUNT(&own) << " of " << CPU_COUNT(&process);
  });
}

}  // namespace
}  // namespace tconv::cpu
