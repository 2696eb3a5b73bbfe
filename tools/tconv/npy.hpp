// NumPy's .npy format: versions 1 to 3, little-endian f2, f4, f8, C and Fortran order; bfloat16 as ml_dtypes
// saves it ('<V2'), which does not name the type: the reader returns it as "two opaque bytes".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "files.hpp"

namespace tconv::cli {

struct NpyHeader {
  std::optional<core::DType> dtype;  // nothing: '<V2' or '|V2'
  std::vector<int64_t> shape;
  bool fortran_order = false;
  std::size_t data_offset = 0;  // bytes before the data
  std::size_t data_bytes = 0;   // as the shape asks for
};

// Reads the header at the beginning of a file; file_bytes is the size of the whole file, or nothing if it is
// not known until the end. Every refusal is one clause, without the file's name.
core::Result<NpyHeader> parse_npy_header(std::span<const std::byte> beginning,
                                         std::optional<uint64_t> file_bytes);

// The most bytes that a header needs.
inline constexpr std::size_t kNpyHeaderLimit = std::size_t{1} << 16;

struct Array {
  core::DType dtype = core::DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;  // C order
};

// Reads a whole file, or standard input ("-"); a refusal begins with the path. opaque: what a file of two
// opaque bytes holds, or nothing to refuse it.
core::Result<Array> read_npy(const std::string& path, std::optional<core::DType> opaque);

// Fortran order to C order.
std::vector<std::byte> to_c_order(const std::vector<std::byte>& data, const std::vector<int64_t>& shape,
                                  std::size_t element);

core::Status write_npy(const Destination& destination, core::DType dtype, const std::vector<int64_t>& shape,
                       const std::byte* data);

}  // namespace tconv::cli
