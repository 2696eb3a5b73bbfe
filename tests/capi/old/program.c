/* A program of the first header (tconv/tconv.h beside this file, as it was) on today's library: every
 * function, every field, and nothing written behind the structs that it has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tconv/tconv.h"

static int failures = 0;

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      ++failures;                                                                     \
      printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, tconv_last_error()); \
    }                                                                                 \
  } while (0)

enum { kGuard = 64 };

/* A struct of the old size with bytes behind it that nobody may touch. */
#define GUARDED(type)             \
  struct {                        \
    type it;                      \
    unsigned char behind[kGuard]; \
  }

static int untouched(const unsigned char* behind) {
  for (int i = 0; i < kGuard; ++i) {
    if (behind[i] != 0xa5) return 0;
  }
  return 1;
}

static void fills_no_more_than_it_was_given(void) {
  GUARDED(tconv_problem) problem;
  GUARDED(tconv_plan_options) options;
  GUARDED(tconv_arguments) arguments;
  memset(&problem, 0xa5, sizeof problem);
  memset(&options, 0xa5, sizeof options);
  memset(&arguments, 0xa5, sizeof arguments);
  tconv_problem_init(&problem.it);
  CHECK(problem.it.struct_size == sizeof(tconv_problem) && untouched(problem.behind));
  CHECK(problem.it.n == 1 && problem.it.groups == 1 && problem.it.x_contiguous == 1 && problem.it.k == 0);
  tconv_plan_options_init(&options.it);
  CHECK(options.it.struct_size == sizeof(tconv_plan_options) && untouched(options.behind));
  CHECK(options.it.device == TCONV_CPU && options.it.force_kernel == NULL &&
        options.it.executor_context == NULL);
  tconv_arguments_init(&arguments.it);
  CHECK(arguments.it.struct_size == sizeof(tconv_arguments) && untouched(arguments.behind));
  CHECK(arguments.it.x == NULL && arguments.it.stream == NULL);
  memset(&problem, 0xa5, sizeof problem);
  CHECK(tconv_problem_parse("ci1 co1 l1 k1", &problem.it) == TCONV_OK);
  CHECK(problem.it.struct_size == sizeof(tconv_problem) && untouched(problem.behind));
}

static void every_field_of_a_problem(void) {
  tconv_problem p;
  tconv_problem_init(&p);
  p.operation = TCONV_FORWARD, p.dtype = TCONV_F32, p.precision = TCONV_TF32, p.has_bias = 1,
  p.x_contiguous = 0;
  p.n = 2, p.cin = 4, p.cout = 8, p.l = 7, p.k = 5;
  p.stride = 3, p.padding = 2, p.output_padding = 1, p.dilation = 2, p.groups = 4;
  p.x_stride[0] = 100, p.x_stride[1] = 20, p.x_stride[2] = 2;
  char text[200];
  size_t length = 0;
  CHECK(tconv_problem_text(&p, text, sizeof text, &length) == TCONV_OK);
  CHECK(strcmp(text, "n2 ci4 co8 l7 k5 s3 p2 op1 d2 g4 bias xs100,20,2 f32 tf32") == 0);
  CHECK(length == strlen(text));
  tconv_problem again;
  CHECK(tconv_problem_parse(text, &again) == TCONV_OK && memcmp(&again, &p, sizeof p) == 0);
  CHECK(tconv_problem_check(&p) == TCONV_OK);
  int64_t lout = 0;
  CHECK(tconv_output_length(&p, &lout) == TCONV_OK && lout == 24);
  p.struct_size -= 8;
  CHECK(tconv_problem_check(&p) == TCONV_INVALID_ARGUMENT);
}

static void backwards(void* context, int64_t count, tconv_task task, void* task_context) {
  for (int64_t i = count - 1; i >= 0; --i) task(task_context, i, (int32_t)(i % 2));
  *(int64_t*)context += count;
}

static const float kX[8] = {1, 2, 3, 4, 5, 6, 7, 8}, kWeight[6] = {1, 0, -1, 2, 1, 2}, kBias[1] = {0.5f};
static const float kY[7] = {5.5f, 23.5f, 6.5f, 27.5f, 7.5f, 31.5f, 8.5f};

static void runs(const tconv_plan* plan) {
  float y[7] = {0};
  tconv_arguments a;
  tconv_arguments_init(&a);
  a.x = kX, a.weight = kWeight, a.bias = kBias, a.output = y;
  a.workspace_bytes = tconv_plan_workspace_bytes(plan, 0);
  a.workspace = aligned_alloc(TCONV_BUFFER_ALIGNMENT, a.workspace_bytes + TCONV_BUFFER_ALIGNMENT -
                                                          a.workspace_bytes % TCONV_BUFFER_ALIGNMENT);
  CHECK(tconv_run(plan, &a) == TCONV_OK && memcmp(y, kY, sizeof y) == 0);
  const size_t bytes = tconv_plan_packed_bytes(plan);
  if (bytes > 0) {
    void* packed = aligned_alloc(TCONV_BUFFER_ALIGNMENT,
                                 bytes + TCONV_BUFFER_ALIGNMENT - bytes % TCONV_BUFFER_ALIGNMENT);
    CHECK(tconv_pack(plan, kWeight, packed, bytes, NULL) == TCONV_OK);
    memset(y, 0, sizeof y);
    a.weight = NULL, a.packed_weight = packed;
    CHECK(tconv_run(plan, &a) == TCONV_OK && memcmp(y, kY, sizeof y) == 0);
    free(packed);
  }
  a.weight = a.packed_weight = NULL;
  CHECK(tconv_run(plan, &a) == TCONV_INVALID_ARGUMENT);
  CHECK(strstr(tconv_last_error(), "weight is null") != NULL);
  free(a.workspace);
}

static void plans(void) {
  tconv_problem problem;
  CHECK(tconv_problem_parse("n1 ci2 co1 l4 k3 s2 p1 bias f32", &problem) == TCONV_OK);
  tconv_plan* plan = NULL;
  CHECK(tconv_plan_create(&problem, NULL, &plan) == TCONV_OK);
  runs(plan);
  CHECK(strlen(tconv_plan_pack_key(plan)) > 0);
  tconv_plan_destroy(plan);

  int64_t tasks = 0;
  tconv_plan_options options;
  tconv_plan_options_init(&options);
  options.device = TCONV_CPU, options.device_index = 0, options.force_kernel = "cpu.dense",
  options.threads = 2;
  options.batch_invariant = 1, options.parallel_for = backwards, options.executor_context = &tasks;
  CHECK(tconv_plan_create(&problem, &options, &plan) == TCONV_OK);
  CHECK(strcmp(tconv_plan_kernel(plan), "cpu.dense") == 0);
  CHECK(strstr(tconv_plan_explain(plan), "(forced)") != NULL);
  runs(plan);
  tconv_plan_destroy(plan);

  problem.n = 64, problem.cin = problem.cout = 64, problem.l = 200, problem.has_bias = 0;
  CHECK(tconv_plan_create(&problem, &options, &plan) == TCONV_OK);
  float* x = calloc(64 * 64 * 200, sizeof(float));
  float* y = calloc(64 * 64 * 399, sizeof(float));
  float* weight = calloc(64 * 64 * 3, sizeof(float));
  tconv_arguments a;
  tconv_arguments_init(&a);
  a.x = x, a.weight = weight, a.output = y, a.workspace_bytes = tconv_plan_workspace_bytes(plan, 0);
  a.workspace = aligned_alloc(TCONV_BUFFER_ALIGNMENT, a.workspace_bytes + TCONV_BUFFER_ALIGNMENT -
                                                          a.workspace_bytes % TCONV_BUFFER_ALIGNMENT);
  CHECK(tconv_run(plan, &a) == TCONV_OK && tasks > 0);
  free(x), free(y), free(weight), free(a.workspace);
  tconv_plan_destroy(plan);

  options.device_name = "h200";
  plan = NULL;
  CHECK(tconv_plan_create(&problem, &options, &plan) == TCONV_INVALID_ARGUMENT && plan == NULL);
  CHECK(strstr(tconv_last_error(), "device_name") != NULL);
}

int main(void) {
  fills_no_more_than_it_was_given();
  every_field_of_a_problem();
  plans();
  CHECK(tconv_kernel_name(0) != NULL && tconv_kernel_name(-1) == NULL);
  CHECK(strcmp(tconv_status_name(TCONV_UNSUPPORTED), "unsupported") == 0);
  CHECK(strlen(tconv_version()) > 0 && strstr(tconv_build_info(), tconv_version()) != NULL);
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
