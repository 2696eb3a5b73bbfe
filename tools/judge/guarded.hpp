// A buffer of a target with margins before and after it. The margins of operands are NaN (all bits set), so
// that a read out of bounds shows in the result. The margins of buffers that a kernel writes hold a pattern
// that no kernel writes. Both must be unchanged after the run.
#pragma once

#include <cstring>
#include <memory>

#include "judge/target.hpp"

namespace tconv::judge {

class Guarded {
 public:
  enum class Kind { read, written };
  static constexpr std::size_t kMargin = 4096;

  // shift moves the data off the 256-byte alignment.
  static core::Result<Guarded> make(Target& target, Kind kind, std::size_t bytes, std::size_t shift = 0) {
    auto block = target.allocate(2 * kMargin + shift + bytes);
    if (!block.ok()) return block.status();
    Guarded guarded;
    guarded.block_ = std::move(block.value());
    guarded.bytes_ = bytes;
    guarded.front_ = kMargin + shift;
    guarded.pattern_ = kind == Kind::read ? 0xff : 0xa5;
    std::memset(guarded.block_->host(), guarded.pattern_, guarded.total());
    guarded.poison();
    return guarded;
  }

  std::byte* host() const { return block_->host() + front_; }
  std::byte* device() const { return block_->device() + front_; }
  std::size_t bytes() const { return bytes_; }
  void poison() { std::memset(host(), 0xff, bytes_); }  // NaN in every dtype
  core::Status push() { return block_->push(); }
  core::Status pull() { return block_->pull(); }

  void forbid_margins(Target& target) {
    target.forbid(block_->host(), front_);
    target.forbid(host() + bytes_, kMargin);
  }
  void allow_margins(Target& target) {
    target.allow(block_->host(), front_);
    target.allow(host() + bytes_, kMargin);
  }

  // The offset from the data to the first changed byte of the margins (negative: before the data), or 0 if
  // they are intact. The host's copy must be up to date.
  int64_t changed() const {
    for (std::size_t i = 0; i < front_; ++i) {
      if (block_->host()[i] != std::byte{pattern_}) {
        return static_cast<int64_t>(i) - static_cast<int64_t>(front_);
      }
    }
    for (std::size_t i = 0; i < kMargin; ++i) {
      if (host()[bytes_ + i] != std::byte{pattern_}) return static_cast<int64_t>(bytes_ + i) + 1;
    }
    return 0;
  }

 private:
  std::size_t total() const { return front_ + bytes_ + kMargin; }

  std::unique_ptr<Block> block_;
  std::size_t bytes_ = 0, front_ = 0;
  uint8_t pattern_ = 0;
};

// A checksum of a buffer's data, to detect changes.
inline uint64_t checksum(const std::byte* data, std::size_t bytes) {
  uint64_t sum[4] = {1, 2, 3, 4};
  std::size_t i = 0;
  for (; i + 32 <= bytes; i += 32) {
    uint64_t words[4];
    std::memcpy(words, data + i, 32);
    for (int j = 0; j < 4; ++j) sum[j] = (sum[j] ^ words[j]) * 0x9e3779b97f4a7c15u;
  }
  for (; i < bytes; ++i) sum[0] = (sum[0] ^ static_cast<uint64_t>(data[i])) * 0x9e3779b97f4a7c15u;
  return sum[0] ^ (sum[1] << 1) ^ (sum[2] << 2) ^ (sum[3] << 3);
}

}  // namespace tconv::judge
