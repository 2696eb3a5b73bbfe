#include "npy.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace tconv::cli {
namespace {

using core::Code;
using core::DType;
using core::Result;
using core::Status;

// A file descriptor that closes itself.
class File {
 public:
  File(const std::string& path, int flags, mode_t mode = 0)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

Status refuse(const std::string& path, const std::string& why) {
  return {Code::invalid_argument, path + ": " + why};
}

Status system_error(const std::string& path, const char* what) {
  return {Code::internal_error, path + ": " + what + ": " + std::strerror(errno)};
}

// Reads until the buffer is full or the file ends; the bytes that came, or -1.
int64_t read_all(int fd, std::byte* data, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t came = ::read(fd, data + done, bytes - done);
    if (came < 0 && errno == EINTR) continue;
    if (came < 0) return -1;
    if (came == 0) break;
    done += static_cast<std::size_t>(came);
  }
  return static_cast<int64_t>(done);
}

bool write_all(int fd, const std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t went = ::write(fd, data, bytes);
    if (went < 0 && errno == EINTR) continue;
    if (went <= 0) return false;
    data += went;
    bytes -= static_cast<std::size_t>(went);
  }
  return true;
}

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
  if (data.empty()) return {};  // where a size is 0, the products of the others may overflow
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

Result<Array> read_npy(const std::string& path, std::optional<DType> opaque) {
  File file(path, O_RDONLY);
  struct stat info = {};
  if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) {
    return refuse(path, std::string("cannot be read: ") + std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return refuse(path, "is no regular file");
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  std::vector<std::byte> beginning(std::min<uint64_t>(file_bytes, kNpyHeaderLimit));
  const int64_t came = read_all(file.fd(), beginning.data(), beginning.size());
  if (came < 0) return system_error(path, "cannot be read");
  beginning.resize(static_cast<std::size_t>(came));
  const auto header = parse_npy_header(beginning, file_bytes);
  if (!header.ok()) return refuse(path, header.status().message());
  const NpyHeader& h = header.value();
  if (!h.dtype && !opaque) {
    return refuse(path, "its elements are two bytes of no type: where they are bfloat16, say --dtype bf16");
  }
  Array array{h.dtype ? *h.dtype : *opaque, h.shape, {}};
  try {
    array.data.resize(h.data_bytes);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory,
                  path + ": no memory for its " + std::to_string(h.data_bytes) + " bytes");
  }
  if (::lseek(file.fd(), static_cast<off_t>(h.data_offset), SEEK_SET) < 0)
    return system_error(path, "cannot seek");
  if (read_all(file.fd(), array.data.data(), h.data_bytes) != static_cast<int64_t>(h.data_bytes)) {
    return refuse(path, "it became shorter while it was read");
  }
  if (h.fortran_order && array.shape.size() > 1) {
    array.data = to_c_order(array.data, array.shape, size_of(array.dtype));
  }
  return array;
}

Status write_npy(const std::string& path, DType dtype, const std::vector<int64_t>& shape,
                 const std::byte* data) {
  const std::string text = header_text(dtype, shape);
  std::vector<std::byte> header(10);
  std::memcpy(header.data(), "\x93NUMPY\x01\x00", 8);
  header[8] = static_cast<std::byte>(text.size() & 255);
  header[9] = static_cast<std::byte>(text.size() >> 8);
  for (const char c : text) header.push_back(static_cast<std::byte>(c));
  std::size_t bytes = size_of(dtype);
  for (const int64_t size : shape) bytes *= static_cast<std::size_t>(size);

  std::string temporary = path + ".XXXXXX";
  File file(::mkstemp(temporary.data()));
  if (file.fd() < 0) return system_error(path, "cannot be written");
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const bool written = ::fchmod(file.fd(), 0666 & ~mask) == 0 &&
                       write_all(file.fd(), header.data(), header.size()) &&
                       write_all(file.fd(), data, bytes) && ::fsync(file.fd()) == 0 && file.close() &&
                       ::rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return {};
  Status status = system_error(path, "cannot be written");
  ::unlink(temporary.c_str());
  return status;
}

}  // namespace tconv::cli
