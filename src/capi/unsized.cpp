// Entry points for programs whose header passes no sizes: their structs have the sizes of the first 0.1.
// tconv.h has inline functions of the same names, so the symbols are named here by hand.
#include "capi/structs.hpp"

namespace {
using tconv::capi::kRule;
}

extern "C" {

TCONV_API void tconv_unsized_problem_init(tconv_problem* problem) __asm__("tconv_problem_init");
TCONV_API tconv_status tconv_unsized_problem_parse(const char* text,
                                                   tconv_problem* problem) __asm__("tconv_problem_parse");
TCONV_API void tconv_unsized_plan_options_init(tconv_plan_options* options) __asm__(
    "tconv_plan_options_init");
TCONV_API void tconv_unsized_arguments_init(tconv_arguments* arguments) __asm__("tconv_arguments_init");

void tconv_unsized_problem_init(tconv_problem* problem) {
  tconv_problem_init_sized(problem, kRule<tconv_problem>.least);
}

tconv_status tconv_unsized_problem_parse(const char* text, tconv_problem* problem) {
  return tconv_problem_parse_sized(text, problem, kRule<tconv_problem>.least);
}

void tconv_unsized_plan_options_init(tconv_plan_options* options) {
  tconv_plan_options_init_sized(options, kRule<tconv_plan_options>.least);
}

void tconv_unsized_arguments_init(tconv_arguments* arguments) {
  tconv_arguments_init_sized(arguments, kRule<tconv_arguments>.least);
}

}  // extern "C"
