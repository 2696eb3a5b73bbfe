// A file's bytes, in and out. "-" is standard input, or standard output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "core/status.hpp"

namespace tconv::cli {

// These two build every message about a file, open or not: the path, what is wrong, and the system's message.
core::Status refused_file(const std::string& path, const std::string& why);  // what the user gave is wrong
core::Status failed_file(const std::string& path, const std::string& what);  // reads errno

// A file that is read from its beginning to its end.
class Input {
 public:
  static core::Result<Input> open(const std::string& path);
  Input(Input&& other) noexcept;
  ~Input();

  const std::string& path() const { return path_; }  // for messages
  // The whole file's size; nothing for a pipe or a device.
  std::optional<uint64_t> size() const { return size_; }
  // Reads until the buffer is full or the file ends; what came.
  core::Result<std::size_t> read(std::span<std::byte> buffer);
  core::Result<std::string> read_rest();

 private:
  Input(int fd, std::string path, std::optional<uint64_t> size)
      : fd_(fd), path_(std::move(path)), size_(size) {}
  int fd_;
  std::string path_;
  std::optional<uint64_t> size_;
};

// Where a result goes. A regular file is written completely or not at all: into a temporary file next to it,
// which is then renamed. Pipes, devices and standard output are written directly.
class Destination {
 public:
  // Refuses, before anything is computed, a file that could not be written later. no_clobber: never replaces
  // an existing regular file.
  static core::Result<Destination> make(const std::string& path, bool no_clobber);
  bool is_standard_output() const { return kind_ == Kind::standard_output; }
  core::Status write(std::initializer_list<std::span<const std::byte>> parts) const;

 private:
  enum class Kind { regular, special, standard_output };
  core::Status replace(std::initializer_list<std::span<const std::byte>> parts) const;

  std::string path_;    // as the user gave it
  std::string target_;  // behind symbolic links
  Kind kind_ = Kind::regular;
  bool no_clobber_ = false;
};

// Call these first in main. If descriptors 0 to 2 are closed, the next files to be opened would get them, and
// printed text would end up there; so they get a file that refuses writes. A signal that ends the program
// removes the temporary file. A file that exceeds its size limit is an error like a full disk.
void keep_standard_streams_apart();
void clean_up_at_signals();

// Flushes what was printed so far; throws Failure with a message if that fails.
void flush_output();

}  // namespace tconv::cli
