/* One layer through the C API: 2 channels to 1, kernel 3, stride 2. */
#include <stdio.h>
#include <stdlib.h>
#include <tconv/tconv.h>

static int failed(const char* step) {
  fprintf(stderr, "%s: %s\n", step, tconv_last_error());
  return 1;
}

int main(void) {
  tconv_problem problem;
  if (tconv_problem_parse("n1 ci2 co1 l4 k3 s2 p1 bias f32", &problem)) return failed("parse");
  tconv_plan* plan = NULL;
  if (tconv_plan_create(&problem, NULL, &plan)) return failed("plan");

  const float x[2 * 4] = {1, 2, 3, 4, 5, 6, 7, 8};
  const float weight[2 * 1 * 3] = {1, 0, -1, 2, 1, 2};
  const float bias[1] = {0.5f};
  float y[7]; /* lout = (4-1)*2 - 2*1 + (3-1) + 1 */

  tconv_arguments run;
  tconv_arguments_init(&run);
  run.x = x;
  run.weight = weight; /* raw: packed into the workspace inside the call */
  run.bias = bias;
  run.output = y;
  run.workspace_bytes = tconv_plan_workspace_bytes(plan, 0);
  run.workspace = aligned_alloc(TCONV_BUFFER_ALIGNMENT, run.workspace_bytes);
  if (tconv_run(plan, &run)) return failed("run");

  for (int i = 0; i < 7; ++i) printf("%g ", (double)y[i]);
  printf("\n");
  free(run.workspace);
  tconv_plan_destroy(plan);
  return 0;
}
