#include "files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "command.hpp"

namespace tconv::cli {
namespace {

using core::Code;
using core::Result;
using core::Status;

// The name of the current temporary file, for the signal handler, which may call unlink and little else.
std::array<char, 4096> temporary_name;
volatile std::sig_atomic_t temporary_is_there = 0;

extern "C" void remove_and_die(int signal) {
  if (temporary_is_there != 0) ::unlink(temporary_name.data());
  ::raise(signal);  // its default action: SA_RESETHAND
}

bool write_all(int fd, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t went = ::write(fd, data.data(), data.size());
    if (went < 0 && errno == EINTR) continue;
    if (went < 0) return false;
    data = data.subspan(static_cast<std::size_t>(went));
  }
  return true;
}

bool write_parts(int fd, std::initializer_list<std::span<const std::byte>> parts) {
  return std::all_of(parts.begin(), parts.end(), [&](auto part) { return write_all(fd, part); });
}

// A file next to its target, with the target's permissions; removed unless it was renamed to the target.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : target_(target) {
    // The handler knows the name before the file exists, so that no signal can come in between.
    for (int turn = 0; turn < 100 && fd_ < 0; ++turn) {
      const std::string name = fmt::format("{}.{}.{}.tmp", target, ::getpid(), turn);
      if (name.size() >= temporary_name.size()) {
        errno = ENAMETOOLONG;
        return;
      }
      std::copy_n(name.c_str(), name.size() + 1, temporary_name.begin());
      fd_ = open_exclusively();
      if (fd_ < 0 && errno != EEXIST) return;
    }
  }
  ~TemporaryFile() {
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    if (temporary_is_there != 0) ::unlink(temporary_name.data());
    temporary_is_there = 0;
    errno = error;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }
  // With no_clobber the target must not exist, even if it was created a moment ago.
  bool take_name(bool no_clobber) {
    const unsigned flags = no_clobber ? RENAME_NOREPLACE : 0;
    int moved = ::renameat2(AT_FDCWD, temporary_name.data(), AT_FDCWD, target_.c_str(), flags);
    if (moved == 0) temporary_is_there = 0;
    // Not every file system supports the flag; a hard link does not replace an existing file either.
    if (moved != 0 && errno == EINVAL) moved = ::link(temporary_name.data(), target_.c_str());
    return moved == 0;
  }

 private:
  // An existing file of this name is another program's: the handler must not take it for ours.
  static int open_exclusively() {
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before);
    const int fd = ::open(temporary_name.data(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) temporary_is_there = 1;
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return fd;
  }

  std::string target_;
  int fd_ = -1;
};

// Names of open descriptors, such as /dev/stdout: the files behind them are written to, never replaced.
bool is_descriptor(const std::string& path) {
  return path.starts_with("/proc/") || path.starts_with("/dev/fd/");
}

// For /dev/stdout and the like: if it were opened again, a file would be overwritten from its beginning.
bool names_standard_output(const std::string& path) {
  struct stat named = {}, open = {};
  return is_descriptor(path) && ::stat(path.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

// The target behind symbolic links, even if the last one points to a file that does not exist yet.
std::string followed(std::string path) {
  std::error_code error;
  for (int links = 0; links < 40 && !is_descriptor(path); ++links) {
    const std::filesystem::path link = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = (std::filesystem::path(path).parent_path() / link).string();
  }
  return path;
}

constexpr const char* kCannotBeWritten = "cannot be written";

}  // namespace

Status refused_file(const std::string& path, const std::string& why) {
  return {Code::invalid_argument, path + ": " + why};
}

Status failed_file(const std::string& path, const std::string& what) {
  return {Code::internal_error, path + ": " + what + ": " + std::strerror(errno)};
}

Result<Input> Input::open(const std::string& path) {
  const bool standard = path == "-";
  const int fd = standard ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  Input input(fd, standard ? "standard input" : path, {});
  struct stat info = {};
  if (fd < 0 || ::fstat(fd, &info) != 0) {
    return refused_file(input.path_, std::string("cannot be read: ") + std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) return refused_file(input.path_, "is a directory, not a file");
  // Standard input may have been read from before.
  if (S_ISREG(info.st_mode) && !standard) input.size_ = static_cast<uint64_t>(info.st_size);
  return input;
}

Input::Input(Input&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), size_(other.size_) {}

Input::~Input() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::size_t> Input::read(std::span<std::byte> buffer) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t came = ::read(fd_, buffer.data() + done, buffer.size() - done);
    if (came < 0 && errno == EINTR) continue;
    if (came < 0) return refused_file(path_, std::string("cannot be read: ") + std::strerror(errno));
    if (came == 0) break;
    done += static_cast<std::size_t>(came);
  }
  return done;
}

Result<std::string> Input::read_rest() {
  std::string text;
  std::array<std::byte, 1 << 16> buffer;
  while (true) {
    const auto came = read(buffer);
    if (!came.ok()) return came.status();
    text.append(reinterpret_cast<const char*>(buffer.data()), came.value());
    if (came.value() < buffer.size()) return text;
  }
}

Result<Destination> Destination::make(const std::string& path, bool no_clobber) {
  Destination made;
  made.path_ = path;
  made.no_clobber_ = no_clobber;
  made.target_ = followed(path);
  if (path == "-" || names_standard_output(made.target_)) {
    made.path_ = "standard output";
    made.kind_ = Kind::standard_output;
    return made;
  }
  struct stat info = {};
  if (::stat(made.target_.c_str(), &info) == 0) {
    if (S_ISREG(info.st_mode) && no_clobber && !is_descriptor(made.target_)) {
      return Status(Code::internal_error, path + ": is there already, and --no-clobber keeps it");
    }
    if (S_ISDIR(info.st_mode)) errno = EISDIR;
    if (S_ISDIR(info.st_mode) || ::access(made.target_.c_str(), W_OK) != 0) {
      return failed_file(path, kCannotBeWritten);
    }
    made.kind_ = S_ISREG(info.st_mode) && !is_descriptor(made.target_) ? Kind::regular : Kind::special;
  }
  if (made.kind_ == Kind::regular && TemporaryFile(made.target_).fd() < 0) {
    return failed_file(path, kCannotBeWritten);
  }
  return made;
}

Status Destination::write(std::initializer_list<std::span<const std::byte>> parts) const {
  if (kind_ == Kind::regular) return replace(parts);
  if (kind_ == Kind::standard_output) {
    flush_output();
    return write_parts(STDOUT_FILENO, parts) ? Status() : failed_file(path_, kCannotBeWritten);
  }
  const int fd = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  const bool written = fd >= 0 && write_parts(fd, parts);
  const int error = errno;
  const bool closed = fd >= 0 && ::close(fd) == 0;
  if (!written) errno = error;
  return written && closed ? Status() : failed_file(path_, kCannotBeWritten);
}

Status Destination::replace(std::initializer_list<std::span<const std::byte>> parts) const {
  TemporaryFile file(target_);
  struct stat old = {};
  const bool replaces = ::stat(target_.c_str(), &old) == 0;
  const bool written = file.fd() >= 0 && (!replaces || ::fchmod(file.fd(), old.st_mode & 0777) == 0) &&
                       write_parts(file.fd(), parts) && ::fsync(file.fd()) == 0 && file.close() &&
                       file.take_name(no_clobber_);
  return written ? Status() : failed_file(path_, kCannotBeWritten);
}

void keep_standard_streams_apart() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free descriptor, which is this one; opened for the wrong direction, so that its use fails.
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
  }
}

void clean_up_at_signals() {
  ::signal(SIGXFSZ, SIG_IGN);  // write() then says EFBIG
  struct sigaction action = {}, before = {};
  action.sa_handler = remove_and_die;
  action.sa_flags = SA_RESETHAND;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    // One that is ignored (nohup, a job in the background) stays ignored.
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
  }
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  if (errno == 0) errno = EIO;  // an earlier write failed
  throw Failure(failed_file("standard output", kCannotBeWritten).message());
}

}  // namespace tconv::cli
