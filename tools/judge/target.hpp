// Where a judged kernel runs. The judge does not know devices: it asks a Target for memory, for a context to
// run in, and for the arithmetic to expect there.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "core/device_info.hpp"
#include "plan/kernel_entry.hpp"

namespace tconv::judge {

// Memory that the host and the device see. On a CPU both see the same bytes; on a GPU the host has a copy.
class Block {
 public:
  virtual ~Block() = default;
  virtual std::byte* host() = 0;
  virtual std::byte* device() = 0;
  virtual core::Status push() = 0;  // host -> device
  virtual core::Status pull() = 0;  // device -> host, after everything that was queued
};

// What rounding an accumulation does, for the error bound (bound.hpp).
struct Arithmetic {
  double unit = 0x1p-24;    // relative error of one addition
  bool unbiased = true;     // rounds to nearest: errors cancel as in a random walk
  bool tf32 = false;        // operands may have been rounded at 10 mantissa bits
  double floor = 0x1p-149;  // absolute error of one addition among subnormals
};

// What the device attains, measured on the spot.
struct Attained {
  double gflops = 0;  // of multiply-adds in the dtype's accumulation type, without tensor cores
  double gbps = 0;    // of a copy beyond the caches, bytes read plus written
};

class Target {
 public:
  using Call = std::function<core::Status(int call, const plan::RunContext&)>;

  virtual ~Target() = default;
  virtual const core::DeviceInfo& info() const = 0;

  // At least `bytes` bytes, aligned to 256; refused if there is not enough memory.
  virtual core::Result<std::unique_ptr<Block>> allocate(std::size_t bytes) = 0;
  virtual std::size_t memory_limit() const = 0;  // bytes that one judged problem may take

  // A problem is run more than once, and the bits must be the same. The target decides what differs between
  // run 0 and run 1: on a CPU, the threads and the order of tasks.
  virtual plan::PlanOptions options(int run) const = 0;
  virtual plan::RunContext context(int run) = 0;
  virtual core::Status finish() = 0;  // waits for the run, carries its late errors

  // Around a run: memory that it must not read (margins). Nothing by default.
  virtual void forbid(std::byte*, std::size_t) {}
  virtual void allow(std::byte*, std::size_t) {}

  virtual Arithmetic arithmetic(const core::Problem& problem) const = 0;

  // Seconds for one call, measured over `calls` of them back to back: on a CPU by the clock, including the
  // wait for the end; on a GPU by events around a graph of them, so that the host's launches do not count.
  virtual core::Result<double> timed(int calls, const Call& call);
  // Only a GPU's; a CPU's rates depend on threads and sizes.
  virtual core::Result<Attained> attained(core::DType dtype);
};

// This machine. threads: of run 0, 0 for all cores. memory_limit 0: half of what is free now.
std::unique_ptr<Target> cpu_target(int threads = 0, std::size_t memory_limit = 0);

// The CUDA device of that ordinal, or why it cannot be used.
core::Result<std::unique_ptr<Target>> cuda_target(int index = 0, std::size_t memory_limit = 0);

}  // namespace tconv::judge
