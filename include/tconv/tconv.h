/* tconv: transposed 1-D convolution. The C API (C11), version 0.1.
 *
 * The operation is torch.nn.functional.conv_transpose1d. Tensors, contiguous unless said otherwise:
 *   x (n, cin, l)     weight (cin, cout/groups, k)     bias (cout) or NULL     y (n, cout, lout)
 *   lout = (l-1)*stride - 2*padding + dilation*(k-1) + output_padding + 1
 * Formula: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose1d.html
 *
 * A problem says what is computed, a plan says how. A plan is immutable: it may be run from many threads at
 * once, each call with a workspace of its own. The library holds no cache and keeps no pointer after a call.
 *
 * Ownership. Every buffer is the caller's. Strings that the library returns live as long as the plan they
 * came from; tconv_last_error() until the next failing call on the same thread.
 *
 * Errors. Every call that can fail returns a tconv_status and, unless it is TCONV_OK, leaves one line of
 * text for tconv_last_error(). A refused call has touched no output memory. No exception leaves the library,
 * and it neither prints nor aborts.
 *
 * Structs and versions. Every struct begins with its size in the caller's header, which the inline *_init and
 * parse functions below pass on. Later headers add fields at the end; zero in them means what the library
 * does without them. So a library accepts the structs of older headers, and those of newer ones if the fields
 * that it does not know are zero (docs/capi.md has the rules). Callers without this header (another language)
 * use the *_sized functions.
 */
#ifndef TCONV_TCONV_H
#define TCONV_TCONV_H

#include <stddef.h>
#include <stdint.h>

#define TCONV_VERSION_MAJOR 0
#define TCONV_VERSION_MINOR 1
#define TCONV_VERSION_PATCH 0

#if defined(_WIN32)
#define TCONV_API
#else
#define TCONV_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tconv_status {
  TCONV_OK = 0,
  TCONV_INVALID_ARGUMENT = 1, /* a null or misaligned pointer, a wrong size, an unknown word or value */
  TCONV_INVALID_PROBLEM = 2,  /* the problem breaks a rule of the operation */
  TCONV_UNSUPPORTED = 3,      /* valid, but not by the kernel or device that was asked for */
  TCONV_OUT_OF_MEMORY = 4,
  TCONV_DEVICE_ERROR = 5, /* the CUDA driver or runtime refused; the text carries its words */
  TCONV_INTERNAL_ERROR = 6
} tconv_status;

/* The transposed convolution, its gradients, and the strided product, which is the gradient of x and also
 * Conv1d. grad_output has y's shape. */
typedef enum tconv_operation {
  TCONV_FORWARD = 0,     /* x, weight, bias (cout) -> y (n, cout, lout) */
  TCONV_GRAD_INPUT = 1,  /* grad_output, weight -> (n, cin, l); has_bias is that of the forward pass, and no
                            bias is read */
  TCONV_GRAD_WEIGHT = 2, /* x, grad_output -> (cin, cout/groups, k); with grad_bias of the problem set, the
                            gradient of the bias too */
  TCONV_GRAD_BIAS = 3,   /* grad_output -> (cout) */
  TCONV_STRIDED = 4      /* grad_output, weight, bias (cin) -> (n, cin, l) */
} tconv_operation;

typedef enum tconv_dtype { TCONV_F32 = 0, TCONV_F64 = 1, TCONV_F16 = 2, TCONV_BF16 = 3 } tconv_dtype;

/* How float32 products are made; other dtypes take only IEEE. TF32 permits, but does not require, operands
 * rounded to nearest at 10 mantissa bits; on a CPU the arithmetic is IEEE in either case. */
typedef enum tconv_precision { TCONV_IEEE = 0, TCONV_TF32 = 1 } tconv_precision;

typedef enum tconv_device_kind { TCONV_CPU = 0, TCONV_CUDA = 1 } tconv_device_kind;

/* Which gradient of a bias TCONV_GRAD_WEIGHT writes next to that of the weight: the sum over samples and
 * positions of the tensor that is the gradient of the output. */
typedef enum tconv_grad_bias {
  TCONV_GRAD_BIAS_NONE = 0,
  TCONV_GRAD_BIAS_OF_Y = 1, /* of grad_output, (cout): a transposed convolution's */
  TCONV_GRAD_BIAS_OF_X = 2  /* of x, (cin): a Conv1d's, whose dy is x */
} tconv_grad_bias;

typedef enum tconv_tensor {
  TCONV_X = 0,
  TCONV_WEIGHT = 1,
  TCONV_BIAS = 2,  /* of cin elements in TCONV_STRIDED and with TCONV_GRAD_BIAS_OF_X, of cout in the others */
  TCONV_Y = 3,     /* and grad_output */
  TCONV_OUTPUT = 4 /* what the problem's operation writes */
} tconv_tensor;

/* Fields that hold an enum are int32_t, and a returned tconv_status must have the same size. */
#ifdef __cplusplus
static_assert(sizeof(tconv_status) == 4, "tconv needs enums of 32 bits: compile without -fshort-enums");
#else
_Static_assert(sizeof(tconv_status) == 4, "tconv needs enums of 32 bits: compile without -fshort-enums");
#endif

/* One problem. Fill it with tconv_problem_init or tconv_problem_parse, then set fields.
 * x_stride: steps of x in elements from one sample, channel and position to the next; zero or more.
 * With x_contiguous != 0 they are ignored and x is (n, cin, l) without gaps. y_strided and y_stride do
 * the same for grad_output (n, cout, lout). Tensors that are written have no gaps. */
typedef struct tconv_problem {
  uint32_t struct_size; /* set by tconv_problem_init and tconv_problem_parse */
  int32_t operation;    /* tconv_operation */
  int32_t dtype;        /* tconv_dtype, of every tensor */
  int32_t precision;    /* tconv_precision */
  int32_t has_bias;     /* 0 or 1; TCONV_GRAD_WEIGHT does not read it: grad_bias says what it writes */
  int32_t x_contiguous; /* 0 or 1 */
  int64_t n, cin, cout, l, k;
  int64_t stride, padding, output_padding, dilation, groups;
  int64_t x_stride[3];
  int32_t y_strided; /* 0: grad_output is contiguous, y_stride is ignored; 1: it has these strides */
  int32_t grad_bias; /* tconv_grad_bias, of TCONV_GRAD_WEIGHT; else 0 */
  int64_t y_stride[3];
} tconv_problem;

/* n 1, stride 1, padding 0, output_padding 0, dilation 1, groups 1, no bias, float32, ieee, contiguous x,
 * TCONV_FORWARD; cin, cout, l and k are 0 and must be set. */
TCONV_API tconv_status tconv_problem_init_sized(tconv_problem* problem, size_t struct_size);
static inline tconv_status tconv_problem_init(tconv_problem* problem) {
  return tconv_problem_init_sized(problem, sizeof(*problem));
}

/* Reads the one-line text, e.g. "n64 ci128 co128 l65536 k3 s1 p0 f32 tf32" (docs/problem-text.md).
 * A refusal names the word and its column. */
TCONV_API tconv_status tconv_problem_parse_sized(const char* text, tconv_problem* problem,
                                                 size_t struct_size);
static inline tconv_status tconv_problem_parse(const char* text, tconv_problem* problem) {
  return tconv_problem_parse_sized(text, problem, sizeof(*problem));
}

/* The problem of a torch.nn.functional.conv1d. `call` has the numbers of the Conv1d: x (n, cin, l), weight
 * (cout, cin/groups, k), bias (cout), y (n, cout, lout), stride, padding, dilation, groups; output_padding is
 * 0; x_stride belongs to its x, and y_stride to its dy, the gradient of its y. call->operation is the pass:
 *
 *   pass               problem's operation   operands of the run
 *   TCONV_FORWARD      TCONV_STRIDED         grad_output is its x
 *   TCONV_GRAD_INPUT   TCONV_FORWARD         x is its dy
 *   TCONV_GRAD_WEIGHT  TCONV_GRAD_WEIGHT     grad_output is its x, x is its dy; grad_bias is 0, or 1 in the
 *                                            call (sums of its dy) and TCONV_GRAD_BIAS_OF_X in the problem
 *   TCONV_GRAD_BIAS    TCONV_GRAD_BIAS       grad_output is its dy
 *
 * Weight, bias and output keep shape and memory. A refusal names the call's arguments; the problem is valid.
 * call and problem may be the same struct. */
TCONV_API tconv_status tconv_conv1d_problem_sized(const tconv_problem* call, tconv_problem* problem,
                                                  size_t struct_size);
static inline tconv_status tconv_conv1d_problem(const tconv_problem* call, tconv_problem* problem) {
  return tconv_conv1d_problem_sized(call, problem, sizeof(*problem));
}

/* The problem of a call whose tensors are known by their shapes, as a framework's binding has them. *problem
 * has the call's numbers, dtype and steps; n, cin, cout, l, k and has_bias come from the shapes:
 *   input   (n, channels, length) or (channels, length): x of TCONV_FORWARD, grad_output of TCONV_STRIDED
 *   weight  (cin, cout/groups, k)     bias  (channels of the output); bias_dims -1: none
 * With TCONV_STRIDED, length is the output's, from which output_padding follows; -1 means that the call is a
 * Conv1d, whose length follows from the rest. With TCONV_FORWARD it is -1. A refusal names input, weight or
 * bias and leaves *problem unchanged; otherwise the problem is valid. */
TCONV_API tconv_status tconv_problem_from_shapes(tconv_problem* problem, const int64_t* input,
                                                 int32_t input_dims, const int64_t* weight,
                                                 int32_t weight_dims, const int64_t* bias, int32_t bias_dims,
                                                 int64_t length);

/* Sets output_padding so that the output has length lout; the problem's other numbers must be set. */
TCONV_API tconv_status tconv_problem_set_output_length(tconv_problem* problem, int64_t lout);

/* Writes the canonical text, zero-terminated. *length receives its length without the zero; length may be
 * NULL if text is not. With capacity 0 nothing else is written. Too small a capacity is
 * TCONV_INVALID_ARGUMENT. */
TCONV_API tconv_status tconv_problem_text(const tconv_problem* problem, char* text, size_t capacity,
                                          size_t* length);

/* TCONV_OK, or TCONV_INVALID_PROBLEM with the argument, its value and the rule. */
TCONV_API tconv_status tconv_problem_check(const tconv_problem* problem);

/* lout of a valid problem, in positions. */
TCONV_API tconv_status tconv_output_length(const tconv_problem* problem, int64_t* lout);

/* How many elements the buffer of a tensor (tconv_tensor) of a valid problem must have: from the first that a
 * call may touch to one past the last. x: n*cin*l, or what its steps reach over, and y likewise; bias: 0 if
 * the problem has none. */
TCONV_API tconv_status tconv_tensor_elements(const tconv_problem* problem, int32_t tensor, int64_t* elements);

/* Work for an executor: call task(task_context, index, slot) once for every index in [0, count), on any
 * threads and in any order; two calls that run at the same time must have different slots in
 * [0, threads). The results have the same bits whatever the order and the number of threads. */
typedef void (*tconv_task)(void* task_context, int64_t index, int32_t slot);
typedef void (*tconv_parallel_for)(void* executor_context, int64_t count, tconv_task task,
                                   void* task_context);

typedef struct tconv_plan_options {
  uint32_t struct_size;     /* set by tconv_plan_options_init */
  int32_t device;           /* tconv_device_kind; default TCONV_CPU */
  int32_t device_index;     /* CUDA ordinal; default 0 */
  const char* device_name;  /* NULL: the device that is found. "h200", "a100", "t4", ...: plan for a GPU
                               that need not be present (such a plan can be explained, but not run) */
  const char* force_kernel; /* NULL: the planner chooses, or TCONV_FORCE_KERNEL in the environment, as it
                               was when the process made its first plan, names a kernel, which affects only
                               plans for its device. Otherwise a name of tconv_kernel_name; a problem that
                               the forced kernel does not support is refused */
  int32_t threads;          /* CPU threads; 0: one per core that the process may use */
  int32_t batch_invariant;  /* 1: the bits of a sample do not depend on n (on a CPU they never do) */
  tconv_parallel_for parallel_for; /* NULL: the library's own threads */
  void* executor_context;
} tconv_plan_options;

TCONV_API tconv_status tconv_plan_options_init_sized(tconv_plan_options* options, size_t struct_size);
static inline tconv_status tconv_plan_options_init(tconv_plan_options* options) {
  return tconv_plan_options_init_sized(options, sizeof(*options));
}

typedef struct tconv_plan tconv_plan;

/* Makes a plan: microseconds, no tuning, no device work. options may be NULL. */
TCONV_API tconv_status tconv_plan_create(const tconv_problem* problem, const tconv_plan_options* options,
                                         tconv_plan** plan);
/* No call with the plan may be running on another thread or begin later. Work that such calls have queued on
 * a CUDA stream, or captured in a graph, does not need the plan any more. NULL is allowed. */
TCONV_API void tconv_plan_destroy(tconv_plan* plan);

TCONV_API const char* tconv_plan_kernel(const tconv_plan* plan);
/* Several lines of text: the kernel, its configuration, and why each kernel before it refused. */
TCONV_API const char* tconv_plan_explain(const tconv_plan* plan);

/* Bytes of the buffer that tconv_pack fills: a multiple of TCONV_BUFFER_ALIGNMENT, as C11's aligned_alloc
 * demands; 0 if the operation reads no weights. */
TCONV_API size_t tconv_plan_packed_bytes(const tconv_plan* plan);
/* Bytes of workspace for a run with packed weights (1) or with raw ones (0), which are packed into the
 * workspace first. A multiple of TCONV_BUFFER_ALIGNMENT; 0 if the output is empty. On a CPU at most the
 * packed weights plus 8 MiB for each thread. */
TCONV_API size_t tconv_plan_workspace_bytes(const tconv_plan* plan, int packed_weights);
/* Bytes of memory that the plan itself holds until it is destroyed, for bounding a cache of plans. Never too
 * low; tables that grow with a long stride are counted. */
TCONV_API size_t tconv_plan_host_bytes(const tconv_plan* plan);

/* Alignment of packed and workspace pointers in bytes; tensors need their element's alignment only. */
#define TCONV_BUFFER_ALIGNMENT 256

/* Reorders weight (cin, cout/groups, k) into what the plan's kernel reads, or copies it if the kernel reads
 * raw weights: the raw weights are not needed afterwards. A packed buffer serves every plan with the same
 * tconv_plan_pack_key. packed_bytes is the buffer's size. stream: cudaStream_t, or NULL. Does nothing if the
 * operation reads no weights. */
TCONV_API tconv_status tconv_pack(const tconv_plan* plan, const void* weight, void* packed,
                                  size_t packed_bytes, void* stream);
/* Names the packed layout (kernel and the shape that it depends on; never n or l). */
TCONV_API const char* tconv_plan_pack_key(const tconv_plan* plan);

/* Operands of one run, in the memory of the plan's device. Those that the operation does not read stay NULL:
 * TCONV_FORWARD reads x, TCONV_STRIDED grad_output; both read the bias if the problem has one, and exactly
 * one of weight and packed_weight. If the output is empty (TCONV_FORWARD: n or lout is 0), nothing is read,
 * and all of them may be NULL. What is written must not overlap an input. */
typedef struct tconv_arguments {
  uint32_t struct_size; /* set by tconv_arguments_init */
  const void* x;
  const void* weight;
  const void* packed_weight;
  const void* bias;
  const void* grad_output;
  void* output;
  void* workspace;
  size_t workspace_bytes;
  void* stream; /* CUDA: the work is queued there and the call returns. CPU: ignored; all is done on return */
  void* grad_bias; /* written by TCONV_GRAD_WEIGHT if the problem's grad_bias is set: tconv_tensor_elements of
                      TCONV_BIAS; else NULL */
} tconv_arguments;

TCONV_API tconv_status tconv_arguments_init_sized(tconv_arguments* arguments, size_t struct_size);
static inline tconv_status tconv_arguments_init(tconv_arguments* arguments) {
  return tconv_arguments_init_sized(arguments, sizeof(*arguments));
}
TCONV_API tconv_status tconv_run(const tconv_plan* plan, const tconv_arguments* arguments);

/* A name of the ordered list that the planner walks; the reference is last. NULL past the end. */
TCONV_API const char* tconv_kernel_name(int32_t index);

/* Message of the calling thread's last failure; never NULL. */
TCONV_API const char* tconv_last_error(void);
TCONV_API const char* tconv_status_name(int32_t status);
/* "0.1.0", and one line that says what the build holds (CUDA or not, SIMD targets). */
TCONV_API const char* tconv_version(void);
TCONV_API const char* tconv_build_info(void);

#ifdef __cplusplus
}
#endif
#endif /* TCONV_TCONV_H */
