// One floating-point environment for every kernel: rounding to nearest, subnormal numbers kept, no traps.
// Audio hosts flush subnormals on their threads, and other programs change the rounding mode; results must
// not depend on either.
#pragma once

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace tconv::core {

// Sets the default environment on this thread until the end of the scope, which restores the thread's own,
// including its exception flags. Registers are written only if they differ. x87 is not touched: no kernel
// uses it.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() noexcept : saved_(read()) {
    if (!is_default(saved_)) write(kDefault);
  }
  ~DefaultFloatEnvironment() {
    if (read() != saved_) write(saved_);
  }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  // Without a memory clobber, compilers move arithmetic across these instructions. Operands and results of a
  // task are in memory.
#if defined(__x86_64__)
  using Registers = uint32_t;  // MXCSR
  static constexpr Registers kDefault = 0x1f80, kFlags = 0x3f;

  static bool is_default(Registers r) {
    return (r & ~kFlags) == kDefault;
  }
  static Registers read() {
    Registers r;
    asm volatile("stmxcsr %0" : "=m"(r)::"memory");
    return r;
  }
  static void write(Registers r) {
    asm volatile("ldmxcsr %0" ::"m"(r) : "memory");
  }
#elif defined(__aarch64__)
  struct Registers {
    uint64_t control, status;  // FPCR, FPSR
    bool operator==(const Registers&) const = default;
  };
  static constexpr Registers kDefault = {0, 0};

  static bool is_default(const Registers& r) {
    return r.control == 0;
  }
  static Registers read() {
    Registers r;
    asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(r.control), "=r"(r.status)::"memory");
    return r;
  }
  static void write(const Registers& r) {
    asm volatile("msr fpcr, %0\n\tmsr fpsr, %1" ::"r"(r.control), "r"(r.status) : "memory");
  }
#else
  // The registers are unknown, so there is nothing to compare: both ends write.
  struct Registers {
    std::fenv_t environment;
    bool operator!=(const Registers&) const { return true; }
  };
  struct Default {};
  static constexpr Default kDefault = {};

  static bool is_default(const Registers&) {
    return false;
  }
  static Registers read() {
    Registers r;
    std::fegetenv(&r.environment);
    return r;
  }
  static void write(Default) {
    std::fesetenv(FE_DFL_ENV);
  }
  static void write(const Registers& r) {
    std::fesetenv(&r.environment);
  }
#endif

  Registers saved_;
};

}  // namespace tconv::core
