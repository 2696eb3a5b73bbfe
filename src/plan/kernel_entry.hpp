// What the planner sees of a kernel: one KernelEntry, listed once in registry.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/device_info.hpp"
#include "core/executor.hpp"
#include "core/problem.hpp"
#include "core/status.hpp"
#include "epilogue/feature.hpp"

namespace tconv::plan {

struct PlanOptions {
  std::string force_kernel;  // empty: choose
  int threads = 0;           // CPU; 0: device's
  bool batch_invariant = false;
  epilogue::Features features;  // the kernel must have these; entries without them are passed over
};

// Operands of one run; what the operation does not read is null. weight is what the kernel reads: packed
// where packed_bytes() > 0, else raw. In run_raw() it is raw.
struct Operands {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  const void* grad_output = nullptr;
  void* output = nullptr;
  void* grad_bias = nullptr;  // of a weight problem with a bias: Problem::grad_bias_elements() elements
};

struct RunContext {
  std::byte* workspace = nullptr;  // workspace_bytes() of the kernel, 256-byte aligned
  core::Executor executor;         // CPU kernels
  void* stream = nullptr;          // CUDA kernels: cudaStream_t
  bool pack_once = false;          // pack(): only the next run of this kernel reads what it writes
  bool just_packed = false;        // run(): nothing was queued since this kernel's pack() for this run
};

// One stage that an element passes through, e.g. {"source", "x by tensor copies, 4 slots of 16 channels"}.
struct StageLine {
  std::string stage, words;
};

// A kernel configured for one problem. Immutable, so any number of threads may use it at once. Constructors
// compute the configuration (tile sizes, splits, residue tables); run() only launches.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Size of the kernel's own layout; 0: it reads raw weights, and plan::pack() copies them.
  virtual std::size_t packed_bytes() const { return 0; }
  // Names that layout; equal keys mean interchangeable buffers. Never depends on n or l.
  virtual std::string pack_key() const { return "raw"; }
  virtual std::size_t workspace_bytes() const { return 0; }  // in addition to the packed weights
  // Heap memory of its tables, if they grow with the problem; less than 4 kB need not be reported.
  virtual std::size_t table_bytes() const { return 0; }
  virtual std::string describe() const = 0;  // the configuration in words, one line, for explain
  // Its stages in the order of the data, for explain; empty: describe() says it all.
  virtual std::vector<StageLine> stages() const { return {}; }
  // Which part of the machine computes an element of the output: block, tile, warp, lane, register. Empty if
  // the kernel does not say.
  virtual std::string where(int64_t element) const;
  // Milliseconds that the kernel's cost model predicts for run() with packed weights; 0: it has no model.
  virtual double predicted_ms() const { return 0; }
  virtual core::Status pack(const void* weight, void* packed, const RunContext& context) const;
  virtual core::Status run(const Operands& operands, const RunContext& context) const = 0;
  // A kernel that reads packed weights, but runs faster on raw ones than by packing them first, has
  // run_raw(), with a workspace of its own.
  virtual bool reads_raw() const { return false; }
  virtual std::size_t raw_workspace_bytes() const { return workspace_bytes(); }
  virtual core::Status run_raw(const Operands& operands, const RunContext& context) const;
};

// Whether a kernel takes a problem and, if not, why: the reason is one clause, e.g. "dtype f64: tensor cores
// hold f32".
struct Support {
  bool ok = true;
  std::string reason;
  static Support yes() { return {}; }
  static Support no(std::string reason) { return {false, std::move(reason)}; }
};

// Empty, or why a kernel that is for one operation refuses a problem.
inline std::string other_operation(const core::Problem& problem, core::Operation wanted) {
  if (problem.operation == wanted) return {};
  return std::string("operation ") + name_of(problem.operation) + ": this kernel is for " + name_of(wanted);
}

struct KernelEntry {
  const char* name;     // "cpu.dense", "cuda.simt.dense", "reference"
  const char* summary;  // one line for `tconv info`
  core::DeviceKind device;
  // Whether the kernel can run the problem and should: unless forced, an entry refuses a problem that a later
  // one computes faster. Cheap and pure.
  Support (*supports)(const core::Problem&, const core::DeviceInfo&, const PlanOptions&);
  std::unique_ptr<const Kernel> (*make)(const core::Problem&, const core::DeviceInfo&, const PlanOptions&);
  epilogue::Features features = {};  // that it has in addition to the bias
  bool y_steps = false;              // reads y with any steps; else it is passed over where y has some
  bool strided_bias = false;         // adds the bias of a strided product; else it is passed over there
  // Whether it writes the bias gradient of a weight problem that has one; null: never. Else the planner adds
  // a kernel for it.
  bool (*grad_bias)(const core::Problem&, const core::DeviceInfo&) = nullptr;
};

}  // namespace tconv::plan
