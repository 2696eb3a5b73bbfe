#include "words.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace tconv::cli {
namespace {

// Length in bytes of the character that text begins with; 0 if it is not UTF-8 (an overlong form, a
// surrogate, beyond U+10FFFF, cut off).
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t bytes = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (byte(i) >> 6 != 2) return 0;
  }
  const bool longer_than_needed = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool surrogate = byte(0) == 0xed && byte(1) >= 0xa0;
  const bool beyond = byte(0) == 0xf4 && byte(1) >= 0x90;
  return longer_than_needed || surrogate || beyond ? 0 : bytes;
}

// C0 and C1 controls and DEL.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

// Calls take(character, whether it is UTF-8) along the text.
template <class F>
void each_character(std::string_view text, F&& take) {
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    take(text.substr(0, std::max<std::size_t>(bytes, 1)), bytes > 0);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
}

// The number of letters to insert, leave out, change or swap with the next.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const std::size_t changed = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + changed});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string out;
  each_character(text, [&](std::string_view character, bool valid) {
    out += valid ? character : std::string_view("\xef\xbf\xbd");
  });
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  each_character(text, [&](std::string_view character, bool valid) {
    if (character == "\n") {
      out += "\\n";
    } else if (character == "\t") {
      out += "\\t";
    } else if (valid && !is_control(character)) {
      out += character;
    } else {
      for (const char c : character) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  });
  return out;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 64;  // no name is as long
  if (word.empty() || word.size() > kLongest) return "";
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t d = distance(word, candidate);
    if (d >= least) continue;
    least = d;
    best = candidate;
  }
  if (!best.empty()) return best;
  // The beginning or the end alone: "dense" for cpu.dense, "batch" for batch-invariant.
  for (const std::string& candidate : candidates) {
    if (word.size() > 2 && (candidate.starts_with(word) || candidate.ends_with(word))) return candidate;
  }
  return "";
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string meant = nearest(word, candidates);
  return meant.empty() ? "" : ": did you mean " + meant + "?";
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return out;
}

void say(std::string_view line) {
  std::fputs((printable(line) + "\n").c_str(), stderr);
}

}  // namespace tconv::cli
