/* A layer that serves requests of many lengths: plans come from a cache, and the weights are packed once for
 * each layout that the plans read. Compares each answer with the definition: serve_lengths [REQUESTS] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tconv/cache.h>

enum { CIN = 16, COUT = 8, K = 8, STRIDE = 4, PADDING = 2, MOST = 3000 };

static float x[CIN * MOST], y[COUT * (STRIDE * MOST + K)], weight[CIN * COUT * K], bias[COUT];

static int failed(const char* step) {
  fprintf(stderr, "%s: %s\n", step, tconv_last_error());
  return 1;
}

static float number(unsigned* state) { /* in [-1, 1) */
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* y[co][o] by the formula. */
static double defined(int64_t l, int64_t co, int64_t o) {
  double sum = bias[co];
  for (int64_t k = 0; k < K; ++k) {
    const int64_t at = o + PADDING - k;
    if (at < 0 || at % STRIDE != 0 || at / STRIDE >= l) continue;
    for (int64_t ci = 0; ci < CIN; ++ci) {
      sum += (double)x[ci * l + at / STRIDE] * (double)weight[(ci * COUT + co) * K + k];
    }
  }
  return sum;
}

static int serve(tconv_cache* cache, tconv_weights* weights, tconv_problem problem, int64_t l) {
  problem.l = l;
  tconv_cached_plan* cached = NULL;
  if (tconv_cache_get(cache, &problem, &cached)) return failed("plan");
  const tconv_plan* plan = tconv_cached_plan_of(cached);

  tconv_arguments run;
  tconv_arguments_init(&run);
  if (tconv_weights_packed(weights, cached, NULL, &run.packed_weight)) return failed("pack");
  run.x = x;
  run.bias = bias;
  run.output = y;
  run.workspace_bytes = tconv_plan_workspace_bytes(plan, 1);
  run.workspace = aligned_alloc(TCONV_BUFFER_ALIGNMENT, run.workspace_bytes + TCONV_BUFFER_ALIGNMENT);
  const tconv_status status = tconv_run(plan, &run);
  free(run.workspace);
  tconv_cached_plan_release(cached);
  if (status) return failed("run");

  int64_t lout = 0;
  if (tconv_output_length(&problem, &lout)) return failed("length");
  for (int64_t co = 0; co < COUT; ++co) {
    for (int64_t o = 0; o < lout; o += 1 + lout / 50) {
      const double difference = fabs(defined(l, co, o) - (double)y[co * lout + o]);
      if (difference > 1e-4) return fprintf(stderr, "l %lld: off by %g\n", (long long)l, difference), 1;
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  const int requests = argc > 1 ? atoi(argv[1]) : 200;
  unsigned state = 1;
  for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); ++i) x[i] = number(&state);
  for (size_t i = 0; i < sizeof(weight) / sizeof(weight[0]); ++i) weight[i] = number(&state);
  for (size_t i = 0; i < sizeof(bias) / sizeof(bias[0]); ++i) bias[i] = number(&state);

  tconv_problem problem;
  tconv_problem_init(&problem);
  problem.cin = CIN, problem.cout = COUT, problem.k = K, problem.stride = STRIDE, problem.padding = PADDING;
  problem.has_bias = 1;

  tconv_cache* cache = NULL;
  tconv_weights* weights = NULL;
  if (tconv_cache_create(NULL, 0, &cache)) return failed("cache");
  if (tconv_weights_create(weight, NULL, &weights)) return failed("weights");
  for (int i = 0; i < requests; ++i) { /* short lengths and long ones, which other kernels may take */
    const double share = (number(&state) + 1) / 2;
    if (serve(cache, weights, problem, 1 + (int64_t)(share * share * share * (MOST - 1)))) return 1;
  }
  tconv_weights_destroy(weights);
  tconv_cache_destroy(cache);
  printf("%d requests served\n", requests);
  return 0;
}
