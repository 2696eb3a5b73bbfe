// A line of progress on standard error, if that is a terminal. A terminal that has gone away is not an error.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace tconv::cli {

class Progress {
 public:
  ~Progress() { clear(); }
  void show(const std::string& line) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    shown_ = true;
    std::fputs(("\r\x1b[K" + line).c_str(), stderr);
    std::fflush(stderr);
  }
  // Before anything else is printed.
  void clear() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
    shown_ = false;
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace tconv::cli
