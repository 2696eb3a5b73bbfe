// operator new of the whole program, the library's calls among them: counted, and failing on demand.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tconv::test {

// Of this thread.
extern thread_local int64_t t_left;      // allocations that still succeed; negative: all
extern thread_local bool t_once;         // only the next one fails
extern thread_local std::size_t t_held;  // bytes that are allocated now, malloc's headers included

}  // namespace tconv::test
