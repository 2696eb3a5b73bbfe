#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "npy.hpp"

namespace tconv::cli {
namespace {

using core::Code;
using core::DType;
using core::Result;
using core::Status;

Status refuse(std::string why) {
  return {Code::invalid_argument, std::move(why)};
}

// The header's text: a Python dictionary with the keys descr, fortran_order and shape, each once.
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : text_(text) {}

  Status read() {
    if (!take('{')) return malformed();
    while (!take('}')) {
      Status status = member();
      if (!status.ok()) return status;
      if (take(',')) continue;
      if (!take('}')) return malformed();
      break;
    }
    skip();
    if (!text_.empty()) return malformed();
    if (!descr || !fortran || !shape) return refuse("its header lacks descr, fortran_order or shape");
    return {};
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<int64_t>> shape;

 private:
  static Status malformed() { return refuse("its header is not NumPy's dictionary"); }

  void skip() {
    const std::size_t first = text_.find_first_not_of(" \t\n\r\f");
    text_.remove_prefix(std::min(first, text_.size()));
  }
  bool take(char c) {
    skip();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    skip();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> take_string() {
    skip();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return {};
    const std::size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return {};
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }

  Status member() {
    const std::optional<std::string> key = take_string();
    if (!key || !take(':')) return malformed();
    if (*key == "descr" && !descr) {
      descr = take_string();
      return descr ? Status() : refuse("its elements are not plain numbers");
    }
    if (*key == "fortran_order" && !fortran) {
      if (take_word("True")) fortran = true;
      if (!fortran && take_word("False")) fortran = false;
      return fortran ? Status() : malformed();
    }
    if (*key == "shape" && !shape) return read_shape();
    return malformed();
  }

  Status read_shape() {
    if (!take('(')) return malformed();
    std::vector<int64_t> sizes;
    while (!take(')')) {
      skip();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error == std::errc::result_out_of_range) return refuse("its shape does not fit in 63 bits");
      if (error != std::errc() || size < 0) return malformed();
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      sizes.push_back(size);
      if (sizes.size() > 64) return refuse("its shape has more than 64 dimensions");
      if (take(',')) continue;
      if (!take(')')) return malformed();
      break;
    }
    shape = std::move(sizes);
    return {};
  }

  std::string_view text_;
};

Status read_dtype(const std::string& descr, NpyHeader& header) {
  if (descr == "<V2" || descr == "|V2") return {};
  const struct {
    const char* descr;
    DType dtype;
  } known[] = {{"<f2", DType::f16}, {"<f4", DType::f32}, {"<f8", DType::f64}};
  for (const auto& k : known) {
    if (descr == k.descr) {
      header.dtype = k.dtype;
      return {};
    }
  }
  if (descr == ">f2" || descr == ">f4" || descr == ">f8") {
    return refuse("its numbers are big-endian ('" + descr + "'): save them as little-endian");
  }
  return refuse("its elements are '" + descr + "': only little-endian f2, f4, f8 and bfloat16 are taken");
}

Status read_size(NpyHeader& header, std::optional<uint64_t> file_bytes) {
  uint64_t bytes = header.dtype ? size_of(*header.dtype) : 2;
  if (std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end()) bytes = 0;
  for (const int64_t size : header.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) || bytes >> 62 != 0) {
      return refuse("its shape needs more than 2^62 bytes");
    }
  }
  header.data_bytes = static_cast<std::size_t>(bytes);
  if (!file_bytes) return {};
  const uint64_t there = *file_bytes - header.data_offset;
  if (there < bytes) {
    return refuse("it is truncated: its header says " + std::to_string(bytes) + " bytes of data, and " +
                  std::to_string(there) + " are there");
  }
  if (there > bytes) {
    return refuse("it has " + std::to_string(there - bytes) + " bytes more than its header says");
  }
  return {};
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::span<const std::byte> beginning, std::optional<uint64_t> file_bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(beginning[i]); };
  static constexpr char kMagic[] = "\x93NUMPY";
  if (beginning.size() < 10 || std::memcmp(beginning.data(), kMagic, 6) != 0) {
    return refuse("it is not a .npy file");
  }
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) {
    return refuse("its format version is " + std::to_string(version) + ": 1, 2 and 3 are known");
  }
  const std::size_t before = version == 1 ? 10 : 12;
  if (beginning.size() < before) return refuse("it is truncated within its header");
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kNpyHeaderLimit - before) return refuse("its header is longer than 64 KiB");
  if (beginning.size() < before + length) return refuse("it is truncated within its header");
  Dictionary dictionary({reinterpret_cast<const char*>(beginning.data()) + before, length});
  Status status = dictionary.read();
  if (!status.ok()) return status;
  NpyHeader header;
  header.shape = *dictionary.shape;
  header.fortran_order = *dictionary.fortran;
  header.data_offset = before + length;
  status = read_dtype(*dictionary.descr, header);
  if (status.ok()) status = read_size(header, file_bytes);
  if (!status.ok()) return status;
  return header;
}

}  // namespace tconv::cli
