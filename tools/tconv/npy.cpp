#include "npy.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace tconv::cli {
namespace {

using core::Code;
using core::DType;
using core::Result;
using core::Status;

std::string header_text(DType dtype, const std::vector<int64_t>& shape) {
  static const char* const descrs[] = {"<f4", "<f8", "<f2", "<V2"};
  std::string sizes;
  for (const int64_t size : shape) sizes += std::to_string(size) + ", ";
  if (shape.size() > 1) sizes.resize(sizes.size() - 2);
  if (shape.size() == 1) sizes.resize(sizes.size() - 1);
  std::string text = std::string("{'descr': '") + descrs[static_cast<int>(dtype)] +
                     "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  // Data begin at a multiple of 64 bytes, behind a line end.
  const std::size_t total = (10 + text.size() + 1 + 63) / 64 * 64;
  text.resize(total - 11, ' ');
  return text + "\n";
}

}  // namespace

std::vector<std::byte> to_c_order(const std::vector<std::byte>& data, const std::vector<int64_t>& shape,
                                  std::size_t element) {
  if (data.empty()) return {};  // if a size is 0, the product of the others may overflow
  std::vector<std::byte> out(data.size());
  const std::size_t dims = shape.size();
  std::vector<int64_t> index(dims, 0), step(dims, 1);
  for (std::size_t d = 1; d < dims; ++d) step[d] = step[d - 1] * shape[d - 1];
  int64_t from = 0;
  for (std::size_t to = 0; to < data.size(); to += element) {
    std::memcpy(out.data() + to, data.data() + static_cast<std::size_t>(from) * element, element);
    for (std::size_t d = dims; d-- > 0;) {
      from += step[d];
      if (++index[d] < shape[d]) break;
      from -= step[d] * shape[d];
      index[d] = 0;
    }
  }
  return out;
}

namespace {

// Reads as many bytes as the header says: those that came with it, then the rest. Memory grows with the bytes
// that arrive, so a false header cannot make it allocate.
Result<std::vector<std::byte>> read_data(const std::string& path, Input& file,
                                         std::span<const std::byte> beginning, const NpyHeader& header) {
  constexpr std::size_t kPart = std::size_t{16} << 20;
  const auto first = beginning.subspan(header.data_offset);
  std::vector<std::byte> data(first.begin(), first.begin() + std::min(first.size(), header.data_bytes));
  if (file.size()) data.reserve(header.data_bytes);
  while (data.size() < header.data_bytes) {
    const std::size_t done = data.size(), part = std::min(kPart, header.data_bytes - done);
    data.resize(done + part);
    const auto came = file.read(std::span(data).subspan(done));
    if (!came.ok()) return came.status();
    if (came.value() == part) continue;
    return refused_file(path, "it ends before the " + std::to_string(header.data_bytes) +
                                  " bytes of data that its header asks for");
  }
  std::byte more;
  const auto came = file.read({&more, 1});
  if (!came.ok()) return came.status();
  if (first.size() > header.data_bytes || came.value() > 0) {
    return refused_file(path, "it has more bytes than its header says");
  }
  return data;
}

}  // namespace

Result<Array> read_npy(const std::string& path, std::optional<DType> opaque) {
  auto opened = Input::open(path);
  if (!opened.ok()) return opened.status();
  Input& file = opened.value();
  const std::string& name = file.path();
  std::vector<std::byte> beginning(kNpyHeaderLimit);
  const auto came = file.read(beginning);
  if (!came.ok()) return came.status();
  beginning.resize(came.value());
  const auto header = parse_npy_header(beginning, file.size());
  if (!header.ok()) return refused_file(name, header.status().message());
  const NpyHeader& h = header.value();
  if (!h.dtype && !opaque) {
    return refused_file(name,
                        "its elements are two bytes without a type: if they are bfloat16, use --dtype bf16");
  }
  Array array{h.dtype ? *h.dtype : *opaque, h.shape, {}};
  try {
    auto data = read_data(name, file, beginning, h);
    if (!data.ok()) return data.status();
    array.data = std::move(data.value());
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory,
                  name + ": no memory for its " + std::to_string(h.data_bytes) + " bytes");
  }
  if (h.fortran_order && array.shape.size() > 1) {
    array.data = to_c_order(array.data, array.shape, size_of(array.dtype));
  }
  return array;
}

Status write_npy(const Destination& destination, DType dtype, const std::vector<int64_t>& shape,
                 const std::byte* data) {
  const std::string text = header_text(dtype, shape);
  std::vector<std::byte> header(10);
  std::memcpy(header.data(), "\x93NUMPY\x01\x00", 8);
  header[8] = static_cast<std::byte>(text.size() & 255);
  header[9] = static_cast<std::byte>(text.size() >> 8);
  for (const char c : text) header.push_back(static_cast<std::byte>(c));
  std::size_t bytes = size_of(dtype);
  for (const int64_t size : shape) bytes *= static_cast<std::size_t>(size);
  return destination.write({header, {data, bytes}});
}

}  // namespace tconv::cli
