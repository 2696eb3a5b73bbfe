#include "cuda/entries.hpp"
#include "judge/target.hpp"

namespace tconv::judge {

core::Result<std::unique_ptr<Target>> cuda_target(int index, std::size_t) {
  const auto info = cuda::device_info(index);
  if (!info.ok()) return info.status();
  return core::Status(core::Code::unsupported, "device is cuda: the judge was built without a CUDA target");
}

}  // namespace tconv::judge
