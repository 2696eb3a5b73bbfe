#include "capi/structs.hpp"

#include <algorithm>
#include <cstring>

#include "capi/convert.hpp"

namespace tconv::capi {
namespace {

// Larger than the struct of any version: a struct_size beyond it is garbage, and nothing may be read.
constexpr std::size_t kMost = 4096;

bool possible(const StructRule& rule, std::size_t size) {
  return size >= rule.least && size <= kMost;
}

core::Status impossible(const StructRule& rule, const std::string& what, std::size_t size) {
  return refuse(what + " is " + std::to_string(size) + ": must be sizeof(" + rule.type + "), as " +
                rule.type + "_init sets it; " + std::to_string(rule.known) + " with this library's header");
}

// The first byte of bytes[begin, end) that is not zero; `end` if all are.
std::size_t first_set(const void* bytes, std::size_t begin, std::size_t end) {
  const auto* b = static_cast<const unsigned char*>(bytes);
  return static_cast<std::size_t>(
      std::find_if(b + begin, b + std::max(begin, end), [](unsigned char c) { return c != 0; }) - b);
}

}  // namespace

core::Status read_struct(const StructRule& rule, const void* given, void* known) {
  if (given == nullptr) return refuse(std::string(rule.name) + " is null");
  uint32_t stated = 0;
  std::memcpy(&stated, given, sizeof(stated));
  const std::size_t size = stated;
  if (!possible(rule, size)) return impossible(rule, std::string(rule.name) + "->struct_size", size);
  const std::size_t set = first_set(given, rule.known, size);
  if (set < size) {
    return refuse(std::string(rule.name) + "->struct_size is " + std::to_string(size) + ", and byte " +
                  std::to_string(set) + " is not 0: a field of a newer header is set that this library (" +
                  tconv_version() + ", " + std::to_string(rule.known) + " bytes) does not know");
  }
  std::memset(known, 0, rule.known);
  std::memcpy(known, given, std::min(size, rule.known));
  return {};
}

core::Status write_struct(const StructRule& rule, const void* known, void* given, std::size_t size) {
  if (given == nullptr) return refuse(std::string(rule.name) + " is null");
  if (!possible(rule, size)) return impossible(rule, "struct_size", size);
  const std::size_t set = first_set(known, size, rule.known);
  if (set < rule.known) {
    return refuse("struct_size is " + std::to_string(size) + ": the " + rule.name + " sets byte " +
                  std::to_string(set) + ", a field that the caller's header does not have");
  }
  std::memset(given, 0, size);
  std::memcpy(given, known, std::min(size, rule.known));
  const auto stated = static_cast<uint32_t>(size);
  std::memcpy(given, &stated, sizeof(stated));
  return {};
}

}  // namespace tconv::capi
