// What the pool's threads are: asleep when idle, alive across fork() and at exit, without the host's signals
// and pins.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

#include "cpu/threads/relax.hpp"
#include "threads/pool_support.hpp"

namespace tconv::cpu {
namespace {

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

// In how many of 20 runs the second thread, which slept before, computes on another CPU than the first.
int runs_on_two_cpus(WorkerPool& pool) {
  int apart = 0;
  for (int round = 0; round < 20; ++round) {
    nap(milliseconds(100));  // the worker sleeps
    std::atomic<int> cpus[2] = {-1, -1};
    run(pool, 2, 2, [&](int64_t, int32_t slot) {
      cpus[slot] = current_cpu();
      // A task each, if the other thread comes at all.
      spin_for(std::chrono::milliseconds(2), [&] { return cpus[1 - slot] >= 0; });
    });
    apart += cpus[1] >= 0 && cpus[0] != cpus[1];
  }
  return apart;
}

// Where a scheduler would wake it beside its caller and leave it there. Under load either may be moved
// between, or the worker come too late, for seconds: hence three attempts.
TEST(Worker, WakesOnAnotherCpuThanItsCaller) {
  if (process_affinity().count() < 2) GTEST_SKIP() << "one CPU";
  WorkerPool& pool = new_pool(2);
  int apart = 0;
  for (int attempt = 0; attempt < 3 && apart < 14; ++attempt) apart = runs_on_two_cpus(pool);
  EXPECT_GE(apart, 14);
  cpu_set_t own;
  cpu_set_t process;
  ASSERT_EQ(sched_getaffinity(getpid(), sizeof(process), &process), 0);
  run(pool, 2, 2, [&](int64_t, int32_t slot) {
    nap(milliseconds(20));
    if (slot == 0) return;
    EXPECT_EQ(sched_getaffinity(0, sizeof(own), &own), 0);
    EXPECT_TRUE(CPU_EQUAL(&own, &process));
  });
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
