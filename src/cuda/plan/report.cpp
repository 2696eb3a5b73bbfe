#include "cuda/plan/report.hpp"

#include "core/polyphase.hpp"

namespace tconv::cuda {

using core::Problem;

OutputPlace output_place(const Problem& p, const Phases& phases, int64_t element) {
  const int64_t lout = p.lout();
  OutputPlace at{};
  at.o = element % lout;
  at.cout = element / lout % p.cout;
  at.n = element / lout / p.cout;
  at.group = at.cout / p.cout_per_group();
  at.inner = at.cout % p.cout_per_group();
  at.phase = -1;
  for (int64_t a = 0; a < phases.count; ++a) {
    const int64_t reach = at.o + p.padding - a * p.dilation;
    if (core::floor_div(reach, p.stride) * p.stride != reach) continue;
    at.phase = a;
    at.u = core::floor_div(reach, p.stride);
    break;
  }
  return at;
}

std::string element_text(const Problem& p, int64_t e) {
  using std::to_string;
  const auto sample = [&](const char* channel, int64_t channels, const char* position, int64_t length) {
    return "n " + to_string(e / length / channels) + ", " + channel + " " + to_string(e / length % channels) +
           ", " + position + " " + to_string(e % length);
  };
  switch (p.operation) {
    case core::Operation::transposed:
      return sample("cout", p.cout, "o", p.lout());
    case core::Operation::strided:
      return sample("ci", p.cin, "i", p.l);
    case core::Operation::weight: {
      const int64_t couts = p.cout_per_group(), ci = e / p.k / couts;
      const int64_t co = ci / p.cin_per_group() * couts + e / p.k % couts;
      return "ci " + to_string(ci) + ", co " + to_string(co) + ", k " + to_string(e % p.k);
    }
    case core::Operation::bias:
      break;
  }
  return "co " + to_string(e);
}

std::string text(const OutputPlace& at) {
  std::string out =
      "n " + std::to_string(at.n) + ", cout " + std::to_string(at.cout) + ", o " + std::to_string(at.o);
  if (!at.has_phase()) return out + ": no tap";
  return out + ": phase " + std::to_string(at.phase) + ", position " + std::to_string(at.u);
}

plan::StageLine epilogue_line(const Problem& p) {
  return {"epilogue", std::string(p.reads_bias() ? "bias, " : "") + "one rounding to " + name_of(p.dtype)};
}

std::string split_words(int64_t splits) {
  return splits > 1 ? ", split " + std::to_string(splits) + " ways and summed in order" : "";
}

plan::StageLine writer_line(const std::string& alone, int64_t splits) {
  if (splits == 1) return {"writer", alone};
  return {"writer",
          "partial sums as the output lies, then the ordered sum of " + std::to_string(splits) + " splits"};
}

plan::StageLine tiles_writer_line(const std::string& alone, bool direct, int64_t splits) {
  if (direct) return {"writer", alone};
  return {"writer", "tiles of partial sums, then a sum of " + std::to_string(splits) + " splits in order"};
}

std::string text(const Holder& h) {
  return "block " + std::to_string(h.block) + ", warp " + std::to_string(h.thread / 32) + ", lane " +
         std::to_string(h.thread % 32) + ", " + h.sum;
}

std::string blocks_text(int64_t block, int64_t apart, int64_t splits) {
  if (splits == 1) return "block " + std::to_string(block);
  return "blocks " + std::to_string(block) + ", " + std::to_string(block + apart) +
         (splits > 2 ? ", ..." : "") + " of " + std::to_string(splits) + " splits";
}

std::string text(const SumPosition& at, int splits) {
  return "then block " + std::to_string(at.block) + ", thread " + std::to_string(at.thread) + ", values[" +
         std::to_string(at.index) + "] of the ordered sum of " + std::to_string(splits) +
         (splits == 1 ? " split" : " splits");
}

}  // namespace tconv::cuda
