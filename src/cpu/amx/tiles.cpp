// The only code with AMX intrinsics. It is compiled on every x86-64, and runs where available() says so.
#include "cpu/amx/tiles.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TCONV_AMX __attribute__((target("amx-tile,amx-bf16")))
#endif

namespace tconv::cpu::amx {

#if defined(__x86_64__)

namespace {

// What LDTILECFG reads: 8 tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

bool cpu_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
  if ((d & kBf16) == 0 || (d & kTiles) == 0) return false;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return false;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3u << 17;  // configuration and data
  return (low & kTileState) == kTileState;
}

// Linux grants tile registers only to processes that ask for them.
bool granted() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// Tiles 0 to 3 hold sums, 4 and 5 weights, 6 and 7 columns of the panel. Four independent sums hide the
// latency of a product; a step of 2x2 reads each operand once for two products.
TCONV_AMX void multiply_2x2(const Product& p) {
  const long line = p.line * 4, sums_line = p.sums_line * 4;
  float *upper = p.sums, *lower = p.sums + kTile * p.sums_line;
  if (p.add) {
    _tile_loadd(0, upper, sums_line);
    _tile_loadd(1, upper + kTile, sums_line);
    _tile_loadd(2, lower, sums_line);
    _tile_loadd(3, lower + kTile, sums_line);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const uint16_t* w = p.weights;
  const uint32_t* pairs = p.panel;
  for (int64_t step = 0; step < p.steps; ++step, pairs += p.step) {
    for (int64_t tap = 0; tap < p.taps; ++tap, w += 2 * kWeights) {
      const uint32_t* x = pairs + p.offsets[tap];
      _tile_loadd(6, x, line);
      _tile_loadd(7, x + kTile, line);
      _tile_loadd(4, w, 64);
      _tile_loadd(5, w + kWeights, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, upper, sums_line);
  _tile_stored(1, upper + kTile, sums_line);
  _tile_stored(2, lower, sums_line);
  _tile_stored(3, lower + kTile, sums_line);
}

// Two row tiles, one column tile.
TCONV_AMX void multiply_2x1(const Product& p) {
  const long line = p.line * 4, sums_line = p.sums_line * 4;
  float *upper = p.sums, *lower = p.sums + kTile * p.sums_line;
  if (p.add) {
    _tile_loadd(0, upper, sums_line);
    _tile_loadd(2, lower, sums_line);
  } else {
    _tile_zero(0);
    _tile_zero(2);
  }
  const uint16_t* w = p.weights;
  const uint32_t* pairs = p.panel;
  for (int64_t step = 0; step < p.steps; ++step, pairs += p.step) {
    for (int64_t tap = 0; tap < p.taps; ++tap, w += 2 * kWeights) {
      _tile_loadd(6, pairs + p.offsets[tap], line);
      _tile_loadd(4, w, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, w + kWeights, 64);
      _tile_dpbf16ps(2, 5, 6);
    }
  }
  _tile_stored(0, upper, sums_line);
  _tile_stored(2, lower, sums_line);
}

// One row tile, two column tiles.
TCONV_AMX void multiply_1x2(const Product& p) {
  const long line = p.line * 4, sums_line = p.sums_line * 4;
  if (p.add) {
    _tile_loadd(0, p.sums, sums_line);
    _tile_loadd(1, p.sums + kTile, sums_line);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  const uint16_t* w = p.weights;
  const uint32_t* pairs = p.panel;
  for (int64_t step = 0; step < p.steps; ++step, pairs += p.step) {
    for (int64_t tap = 0; tap < p.taps; ++tap, w += kWeights) {
      const uint32_t* x = pairs + p.offsets[tap];
      _tile_loadd(4, w, 64);
      _tile_loadd(6, x, line);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, x + kTile, line);
      _tile_dpbf16ps(1, 4, 7);
    }
  }
  _tile_stored(0, p.sums, sums_line);
  _tile_stored(1, p.sums + kTile, sums_line);
}

TCONV_AMX void multiply_1x1(const Product& p) {
  const long line = p.line * 4, sums_line = p.sums_line * 4;
  if (p.add) {
    _tile_loadd(0, p.sums, sums_line);
  } else {
    _tile_zero(0);
  }
  const uint16_t* w = p.weights;
  const uint32_t* pairs = p.panel;
  for (int64_t step = 0; step < p.steps; ++step, pairs += p.step) {
    for (int64_t tap = 0; tap < p.taps; ++tap, w += kWeights) {
      _tile_loadd(4, w, 64);
      _tile_loadd(6, pairs + p.offsets[tap], line);
      _tile_dpbf16ps(0, 4, 6);
    }
  }
  _tile_stored(0, p.sums, sums_line);
}

}  // namespace

bool available() {
  static const bool value = cpu_has_amx() && granted();
  return value;
}

TCONV_AMX void begin_tiles() {
  static constexpr TileConfig kConfig;
  _tile_loadconfig(&kConfig);
}

TCONV_AMX void end_tiles() {
  _tile_release();
}

void multiply_in_tiles(const Product& p) {
  __asm__ volatile("" ::: "memory");  // tile loads do not tell the compiler what they read
  if (p.row_tiles == 2) return p.column_tiles == 2 ? multiply_2x2(p) : multiply_2x1(p);
  return p.column_tiles == 2 ? multiply_1x2(p) : multiply_1x1(p);
}

TCONV_AMX double multiply_registers(int64_t rounds) {
  begin_tiles();
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  end_tiles();
  return static_cast<double>(rounds) * 4 * kTile * kTile * kStep;
}

#else

bool available() {
  return false;
}
void begin_tiles() {}
void end_tiles() {}
void multiply_in_tiles(const Product&) {}
double multiply_registers(int64_t) {
  return 0;
}

#endif

}  // namespace tconv::cpu::amx
