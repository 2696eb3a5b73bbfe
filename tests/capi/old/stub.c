/* The library as programs of the old header were linked: the names without versions. Nothing here runs. */
#define FUNCTION(name) \
  void name(void);     \
  void name(void) {}

FUNCTION(tconv_problem_init)
FUNCTION(tconv_problem_parse)
FUNCTION(tconv_problem_text)
FUNCTION(tconv_problem_check)
FUNCTION(tconv_output_length)
FUNCTION(tconv_plan_options_init)
FUNCTION(tconv_plan_create)
FUNCTION(tconv_plan_destroy)
FUNCTION(tconv_plan_kernel)
FUNCTION(tconv_plan_explain)
FUNCTION(tconv_plan_packed_bytes)
FUNCTION(tconv_plan_workspace_bytes)
FUNCTION(tconv_pack)
FUNCTION(tconv_plan_pack_key)
FUNCTION(tconv_arguments_init)
FUNCTION(tconv_run)
FUNCTION(tconv_kernel_name)
FUNCTION(tconv_last_error)
FUNCTION(tconv_status_name)
FUNCTION(tconv_version)
FUNCTION(tconv_build_info)
