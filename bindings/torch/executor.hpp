// PyTorch's threads for tconv's tasks: a model's layers alternate between the two, and two pools on the same
// cores would wait for each other.
#pragma once

#include "tconv/tconv.h"

namespace tconv::torch_binding {

// Lets plans made with these options run on PyTorch's intra-op threads, if options.threads is more than one.
// A child of fork() uses the library's own threads: PyTorch's (GNU OpenMP's) do not survive the fork, and
// waiting for them would never end.
void use_torch_threads(tconv_plan_options& options);

// Whether this process is a child of fork() from one that had loaded the binding.
bool forked();

}  // namespace tconv::torch_binding
