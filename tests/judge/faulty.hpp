// Kernels with one fault each: what the judge has to catch.
#pragma once

#include "judge/judge.hpp"

namespace tconv::judge::testing {

enum class Fault {
  none,
  wrong_element,        // the last output is one unit in the last place and a bit off
  wrong_by_one,         // one output in the middle is off by one
  unwritten,            // one output is left as it was
  beyond_output,        // writes one element behind the output
  before_output,        // writes one element before it
  beyond_workspace,     // writes one byte behind the workspace
  beyond_packed,        // writes one byte behind the packed weights
  changes_x,            // writes to its input
  reads_before_x,       // the element before x, times zero, goes into an output
  reads_behind_weight,  // the element behind the weights, times zero, goes into an output
  threads_show,         // bits depend on the number of threads
  order_shows,          // bits depend on the order of tasks
  packs_wrong,          // right with raw weights, wrong with packed ones
  leans_on_workspace,   // takes what it finds in the workspace for zero
  truncates,            // the result is cut off, not rounded
  coarse_operands,      // operands rounded to bfloat16
  coarse_sums,          // running sums rounded to float16
  truncates_tf32,       // operands cut off at 10 mantissa bits
  strange_nan,          // a NaN keeps the sign that the processor gave it
  multiplies_padding,   // positions outside x are zeros, and times an infinite weight a NaN
  rounds_tf32           // operands rounded at 10 mantissa bits: right where tf32 is permitted
};

// An entry whose kernel has the fault; static storage.
const plan::KernelEntry& faulty(Fault fault);

}  // namespace tconv::judge::testing
