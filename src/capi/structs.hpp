// Structs of callers whose header is older or newer than this library. The caller states the size. Fields
// that its struct lacks count as zero; fields that this library does not know must be zero (docs/capi.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/status.hpp"
#include "tconv/tconv.h"

namespace tconv::capi {

struct StructRule {
  const char* name;  // as a message calls the argument
  const char* type;
  std::size_t least;  // size of the oldest header's struct
  std::size_t known;  // size of this library's
};

// The end of the last field in version 0.1: these never move to later fields.
template <class T>
inline constexpr StructRule kRule{};
template <>
inline constexpr StructRule kRule<tconv_problem>{
    "problem", "tconv_problem", offsetof(tconv_problem, x_stride) + sizeof(tconv_problem::x_stride),
    sizeof(tconv_problem)};
template <>
inline constexpr StructRule kRule<tconv_plan_options>{
    "options", "tconv_plan_options", offsetof(tconv_plan_options, executor_context) + sizeof(void*),
    sizeof(tconv_plan_options)};
template <>
inline constexpr StructRule kRule<tconv_arguments>{"arguments", "tconv_arguments",
                                                   offsetof(tconv_arguments, stream) + sizeof(void*),
                                                   sizeof(tconv_arguments)};
static_assert(sizeof(void*) != 8 ||
              (kRule<tconv_problem>.least == 128 && kRule<tconv_plan_options>.least == 56 &&
               kRule<tconv_arguments>.least == 80));

// Copies the caller's struct, of the size that it states, into `known`; what the caller's lacks is zero.
core::Status read_struct(const StructRule& rule, const void* given, void* known);

// Writes `known` to a caller's struct of `size` bytes, and states that size in it. Refused if `known` holds
// something that such a struct cannot.
core::Status write_struct(const StructRule& rule, const void* known, void* given, std::size_t size);

template <class T>
core::Status read(const T* given, T& known) {
  return read_struct(kRule<T>, given, &known);
}
template <class T>
core::Status write(const T& known, T* given, std::size_t size) {
  return write_struct(kRule<T>, &known, given, size);
}

}  // namespace tconv::capi
