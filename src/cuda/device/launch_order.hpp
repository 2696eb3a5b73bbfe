// What the host tells a kernel of the launches around it (launch_order.cuh).
#pragma once

namespace tconv::cuda {

struct LaunchOrder {
  bool beside = false;      // the launch before writes nothing that this one reads: both may run at once
  bool lets_begin = false;  // the launch after may begin early
};

}  // namespace tconv::cuda
