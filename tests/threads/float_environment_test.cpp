// A thread's own floating-point environment (flushed subnormals, another rounding, traps) changes no bit of a
// result, and no run changes it.
#include "core/float_environment.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>

#include "cpu/threads/worker_pool.hpp"
#include "judge/rng.hpp"
#include "reference/reference.hpp"
#include "runner.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tconv::judge {
namespace {

uint64_t registers() {
#if defined(__x86_64__)
  return _mm_getcsr();
#elif defined(__aarch64__)
  uint64_t control, status;
  asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status));
  return control << 32 | status;
#endif
}

// Without the flags of exceptions.
uint64_t control() {
#if defined(__x86_64__)
  return registers() & ~uint64_t{0x3f};
#elif defined(__aarch64__)
  return registers() >> 32;
#endif
}

void flush_subnormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // FTZ and DAZ
#elif defined(__aarch64__)
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  asm volatile("msr fpcr, %0" ::"r"(fpcr | uint64_t{1} << 24 | uint64_t{1} << 19));  // FZ and FZ16
#endif
}

struct Environment {
  const char* name;
  void (*set)();
};

constexpr Environment kEnvironments[] = {{"subnormals flushed", flush_subnormals},
                                         {"rounding toward zero", [] { std::fesetround(FE_TOWARDZERO); }},
                                         {"rounding upward, subnormals flushed", [] {
                                            std::fesetround(FE_UPWARD);
                                            flush_subnormals();
                                          }}};

// On this thread until the end of the scope.
class In {
 public:
  explicit In(const Environment& environment) {
    std::fegetenv(&saved_);
    environment.set();
  }
  ~In() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
};

// Normal and subnormal operands, products and sums in one problem.
void fill_about_the_least(Case& c) {
  const core::DType dtype = c.problem.dtype;
  const int depth = dtype == core::DType::f64 ? 520 : dtype == core::DType::f16 ? 8 : 68;
  Rng rng(3);
  for (auto& operand : c.operands) {
    if (!operand) continue;
    const auto count = static_cast<int64_t>(operand->bytes() / size_of(dtype));
    for (int64_t i = 0; i < count; ++i) {
      const double value = std::ldexp(rng.unit() * 2 - 1, -depth * static_cast<int>(rng.between(0, 2)));
      reference::store(dtype, operand->host(), i, value);
    }
  }
}

// Two tasks or more for every kind of kernel, small enough for the float64 reference.
constexpr const char* kSmallLines[] = {
    "n1 ci20 co36 l150 k4 s2 p1 bias f32", "n2 ci24 co24 l90 k4 s2 p1 g24 bias f32",
    "n1 ci33 co1 l60 k64 s16 p0 f32",      "n1 ci1 co30 l200 k5 s3 p1 bias f32",
    "n2 ci20 co20 l80 k5 s2 p1 d2 f16",    "n1 ci20 co36 l80 k4 s2 p1 bf16",
    "n1 ci20 co36 l80 k4 s2 p1 f64",       "gw n2 ci8 co8 l60 k4 s2 p1 f32",
    "gx n1 ci8 co8 l60 k4 s2 p1 f32",      "gb n2 ci8 co300 l60 k4 s2 p1 f32"};

template <class F>  // F: void(Case&, const std::string& kernel)
void for_each_kernel(F&& f) {
  const auto target = cpu_target(1);
  for (const char* line : kSmallLines) {
    SCOPED_TRACE(line);
    const core::Problem p = core::parse(line).value();
    const auto c = make_case(p, *target);
    fill_about_the_least(*c);
    for (const std::string& kernel : kernels_of(p)) f(*c, kernel);
  }
}

TEST(FloatEnvironment, TheCallersChangesNoBits) {
  for_each_kernel([](Case& c, const std::string& kernel) {
    const Bytes expected = Runner(c, kernel, 1).run();
    for (const Environment& environment : kEnvironments) {
      const In in(environment);
      for (const int threads : {1, 2}) {
        EXPECT_EQ(Runner(c, kernel, threads).run(), expected)
            << kernel << " " << threads << " " << environment.name;
      }
    }
  });
}

TEST(FloatEnvironment, ThatOfAnExecutorsThreadsChangesNoBits) {
  for_each_kernel([](Case& c, const std::string& kernel) {
    const Runner runner(c, kernel, 2);
    const Bytes expected = runner.run();
    for (const Environment& environment : kEnvironments) {
      OwnExecutor own{2, environment.set};
      EXPECT_EQ(runner.run(own.executor()), expected) << kernel << " " << environment.name;
    }
  });
}

TEST(FloatEnvironment, OfPackingIsTheDefault) {
  for_each_kernel([](Case& c, const std::string& kernel) {
    const Runner runner(c, kernel, 2);
    const std::size_t bytes = runner.plan().kernel->packed_bytes();
    if (bytes == 0) return;
    const auto packed = [&] {
      auto block = c.target.allocate(bytes);
      std::memset(block.value()->host(), 0, bytes);
      const plan::RunContext context{nullptr, cpu::pool_executor(2), nullptr};
      EXPECT_TRUE(plan::pack(runner.plan(), c.device_operands().weight, block.value()->host(), context).ok());
      return Bytes(block.value()->host(), block.value()->host() + bytes);
    };
    const Bytes expected = packed();
    for (const Environment& environment : kEnvironments) {
      const In in(environment);
      EXPECT_EQ(packed(), expected) << kernel << " " << environment.name;
    }
  });
}

// Rounds in every way that a cost model or its printing may.
TEST(FloatEnvironment, OfPlanningIsTheDefault) {
  for (const char* device : {"h200", "a100"}) {
    const core::DeviceInfo info = core::named_device(device).value();
    for (const char* line :
         {"n64 ci128 co128 l65536 k3 s1 p0 f32 tf32", "n3 ci77 co99 l12345 k7 s3 p1 f16"}) {
      const core::Problem p = core::parse(line).value();
      const auto explained = [&] {
        const auto made = plan::make_plan(p, info, {});
        return made.ok() ? explain(made.value())
                         : made.status().message();  // refused where built without CUDA
      };
      const std::string expected = explained();
      for (const Environment& environment : kEnvironments) {
        const In in(environment);
        EXPECT_EQ(explained(), expected) << environment.name;
      }
    }
  }
}

TEST(FloatEnvironment, TheCallersIsItsOwnAgain) {
  for_each_kernel([](Case& c, const std::string& kernel) {
    for (const int threads : {1, 2}) {
      const Runner runner(c, kernel, threads);
      std::feclearexcept(FE_ALL_EXCEPT);
      const uint64_t before = registers();
      runner.run();
      EXPECT_EQ(registers(), before) << kernel << ": flags that the run raised";
      for (const Environment& environment : kEnvironments) {
        const In in(environment);
        std::feraiseexcept(FE_INVALID);
        const uint64_t own = registers();
        runner.run();
        EXPECT_EQ(registers(), own) << kernel << " " << environment.name;
      }
    }
  });
}

TEST(FloatEnvironment, TasksLeaveAnExecutorsThreadAsItWas) {
  struct Serial {
    static void parallel_for(void*, int64_t count, core::Executor::Task task, void* context) {
      const In in(kEnvironments[2]);
      const uint64_t own = registers();
      for (int64_t i = 0; i < count; ++i) {
        task(context, i, 0);
        EXPECT_EQ(registers(), own);
      }
    }
  };
  for_each_kernel([](Case& c, const std::string& kernel) {
    Runner(c, kernel, 2).run({2, Serial::parallel_for, nullptr});
  });
}

#if defined(__x86_64__) && defined(__GLIBC__)  // AArch64 machines may lack traps
TEST(FloatEnvironment, TheCallersTrapsDoNotFire) {
  for_each_kernel([](Case& c, const std::string& kernel) {
    for (const int threads : {1, 2}) {
      const Runner runner(c, kernel, threads);
      const In in({"traps", [] { feenableexcept(FE_INEXACT | FE_UNDERFLOW | FE_OVERFLOW | FE_INVALID); }});
      runner.run();
    }
  });
}
#endif

// Called without an executor, whose tasks would set the environment themselves.
TEST(FloatEnvironment, WorkersDoNotInheritTheirMakers) {
  static cpu::WorkerPool& pool = *new cpu::WorkerPool(3);
  uint64_t plain = 0;
  {
    const core::DefaultFloatEnvironment environment;
    plain = control();
  }
  const In in(kEnvironments[2]);
  struct Seen {
    uint64_t plain;
    std::atomic<int> workers{0}, others{0};
  } seen{plain};
  for (int i = 0; i < 100 && seen.workers == 0; ++i) {
    const auto look = [](void* context, int64_t, int32_t slot) {
      auto& s = *static_cast<Seen*>(context);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (slot == 0) return;
      ++s.workers;
      s.others += control() == s.plain ? 0 : 1;
    };
    pool.run(3, 8, look, &seen);
  }
  EXPECT_GT(seen.workers, 0);
  EXPECT_EQ(seen.others, 0);
}

TEST(FloatEnvironment, NestsAndIsWrittenBack) {
  const In in(kEnvironments[2]);
  const uint64_t own = registers();
  {
    const core::DefaultFloatEnvironment outer;
    volatile float third = 1;
    third = third / 3;
    EXPECT_EQ(third, 0x1.555556p-2f) << "rounded to nearest, which is above here";
    volatile float least = -0x1p-149f;
    EXPECT_EQ(least * 1, -0x1p-149f);
    const uint64_t plain = registers();
    {
      const core::DefaultFloatEnvironment inner;
      EXPECT_EQ(registers(), plain);
    }
    EXPECT_EQ(registers(), plain);
  }
  EXPECT_EQ(registers(), own);
}

}  // namespace
}  // namespace tconv::judge
