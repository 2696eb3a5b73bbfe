// A .npy file: a header that is taken describes exactly the bytes that are there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "npy.hpp"

namespace {

void demand(bool right) {
  if (!right) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace tconv;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto header = cli::parse_npy_header(file.first(std::min(size, cli::kNpyHeaderLimit)), size);
  if (!header.ok()) {
    demand(!header.status().message().empty());
    return 0;
  }
  const cli::NpyHeader& h = header.value();
  demand(h.data_offset + h.data_bytes == size);
  const std::size_t element = h.dtype ? size_of(*h.dtype) : 2;
  demand(h.data_bytes % element == 0);
  const auto content = file.subspan(h.data_offset);
  const auto ordered = cli::to_c_order({content.begin(), content.end()}, h.shape, element);
  demand(ordered.size() == content.size());
  return 0;
}
