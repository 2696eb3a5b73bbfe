#include <charconv>
#include <optional>

#include "core/conv1d.hpp"

namespace tconv::core {
namespace {

struct Word {
  std::string_view text;
  std::size_t column;  // from 1
};

Status refuse(const Word& word, const std::string& why) {
  return {Code::invalid_argument,
          "column " + std::to_string(word.column) + ": '" + std::string(word.text) + "' " + why};
}

// The number that `digits` spells; anything else is refused with the word.
Status read_number(const Word& word, std::string_view digits, int64_t& value) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool starts_with_digit = !digits.empty() && digits.front() >= '0' && digits.front() <= '9';
  if (starts_with_digit && error == std::errc::result_out_of_range) {
    return refuse(word, "does not fit in 63 bits");
  }
  if (!starts_with_digit || error != std::errc() || end != digits.data() + digits.size()) {
    return refuse(word, "needs only digits after its letters");
  }
  return {};
}

struct NumberField {
  std::string_view key;
  int64_t Problem::*field;
};

// Longer keys come before their own prefixes.
constexpr NumberField kNumbers[] = {
    {"ci", &Problem::cin},   {"co", &Problem::cout},   {"op", &Problem::output_padding},
    {"n", &Problem::n},      {"l", &Problem::l},       {"k", &Problem::k},
    {"s", &Problem::stride}, {"p", &Problem::padding}, {"d", &Problem::dilation},
    {"g", &Problem::groups}};

// Words that say what is computed: an operation, or a pass of a Conv1d, whose numbers the line then has.
struct OperationWord {
  std::string_view text;
  Operation operation;
  bool own_bias = true;  // else "bias" says that the transposed convolution has one, which this does not read
};
struct Conv1dWord {
  std::string_view text;
  Conv1dPass pass;
};
constexpr OperationWord kOperations[] = {{"transposed", Operation::transposed},
                                         {"strided", Operation::strided},
                                         {"weight", Operation::weight},
                                         {"dbias", Operation::bias},
                                         {"fwd", Operation::transposed},
                                         {"gx", Operation::strided, false},
                                         {"gw", Operation::weight},
                                         {"gb", Operation::bias}};
constexpr Conv1dWord kConv1dPasses[] = {{"conv1d", Conv1dPass::forward},
                                        {"conv1d_gx", Conv1dPass::grad_input},
                                        {"conv1d_gw", Conv1dPass::grad_weight},
                                        {"conv1d_gb", Conv1dPass::grad_bias}};

class Parser {
 public:
  Result<Problem> parse(std::string_view line) {
    std::size_t at = 0;
    while (true) {
      at = line.find_first_not_of(" \t", at);
      if (at == std::string_view::npos) break;
      const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
      Status status = take({line.substr(at, end - at), at + 1});
      if (!status.ok()) return status;
      at = end;
    }
    for (const char* needed : {"ci", "co", "l", "k"}) {
      if (!seen(needed)) {
        return Status(Code::invalid_argument,
                      "column " + std::to_string(line.size() + 1) + ": the word " + needed + "# is missing");
      }
    }
    if (!own_bias_ && !problem_.bias_of_x) problem_.has_bias = false;  // xbias stays, to be refused
    return conv1d_ ? conv1d_problem(problem_, *conv1d_) : problem_;
  }

 private:
  Status take(const Word& word) {
    if (word.text == "bias" || word.text == "xbias") {
      problem_.has_bias = true;
      problem_.bias_of_x = word.text == "xbias";
      return once(word, "bias");
    }
    for (const OperationWord& o : kOperations) {
      if (word.text == o.text) {
        problem_.operation = o.operation;
        own_bias_ = o.own_bias;
        return once(word, "operation");
      }
    }
    for (const Conv1dWord& c : kConv1dPasses) {
      if (word.text == c.text) {
        conv1d_ = c.pass;
        return once(word, "operation");
      }
    }
    for (DType d : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      if (word.text == name_of(d)) {
        problem_.dtype = d;
        return once(word, "dtype");
      }
    }
    for (Precision p : {Precision::ieee, Precision::tf32}) {
      if (word.text == name_of(p)) {
        problem_.precision = p;
        return once(word, "precision");
      }
    }
    if (word.text.starts_with("xs")) return take_strides(word, problem_.x_contiguous, problem_.x_stride);
    if (word.text.starts_with("ys")) return take_strides(word, problem_.y_contiguous, problem_.y_stride);
    return take_number(word);
  }

  Status take_number(const Word& word) {
    for (const NumberField& number : kNumbers) {
      if (!word.text.starts_with(number.key)) continue;
      const std::string_view digits = word.text.substr(number.key.size());
      // "nonsense" is an unknown word, "n" and "n-3" are bad numbers.
      const bool letters = !digits.empty() && digits.front() >= 'a' && digits.front() <= 'z';
      if (letters) continue;
      Status status = read_number(word, digits, problem_.*number.field);
      return status.ok() ? once(word, number.key) : status;
    }
    return refuse(word, "is not a word of a problem");
  }

  Status take_strides(const Word& word, bool& contiguous, std::array<int64_t, 3>& strides) {
    const std::string key(word.text.substr(0, 2));
    std::string_view rest = word.text.substr(2);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t comma = i < 2 ? rest.find(',') : rest.size();
      if (comma == std::string_view::npos) return refuse(word, "needs three numbers, " + key + "#,#,#");
      Status status = read_number(word, rest.substr(0, comma), strides[i]);
      if (!status.ok()) return status;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    contiguous = false;
    return once(word, key);
  }

  bool seen(std::string_view key) const {
    return seen_.find(" " + std::string(key) + " ") != std::string::npos;
  }

  Status once(const Word& word, std::string_view key) {
    if (seen(key)) return refuse(word, "repeats a word that was already given");
    seen_ += std::string(key) + " ";
    return {};
  }

  Problem problem_;
  std::optional<Conv1dPass> conv1d_;
  bool own_bias_ = true;
  std::string seen_ = " ";  // keys met so far, each between blanks
};

}  // namespace

Result<Problem> parse(std::string_view line) {
  return Parser().parse(line);
}

std::string text(const Problem& p) {
  std::string out;
  auto number = [&](const char* key, int64_t value) { out += key + std::to_string(value) + " "; };
  if (p.operation != Operation::transposed) out += std::string(name_of(p.operation)) + " ";
  number("n", p.n);
  number("ci", p.cin);
  number("co", p.cout);
  number("l", p.l);
  number("k", p.k);
  number("s", p.stride);
  number("p", p.padding);
  if (p.output_padding != 0) number("op", p.output_padding);
  if (p.dilation != 1) number("d", p.dilation);
  if (p.groups != 1) number("g", p.groups);
  if (p.has_bias) out += p.bias_of_x ? "xbias " : "bias ";
  auto strides = [&](const char* key, const std::array<int64_t, 3>& steps) {
    out += key + std::to_string(steps[0]) + "," + std::to_string(steps[1]) + "," + std::to_string(steps[2]) +
           " ";
  };
  if (!p.x_contiguous) strides("xs", p.x_stride);
  if (!p.y_contiguous) strides("ys", p.y_stride);
  out += name_of(p.dtype);
  if (p.precision != Precision::ieee) out += std::string(" ") + name_of(p.precision);
  return out;
}

}  // namespace tconv::core
