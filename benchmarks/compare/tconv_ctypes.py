"""tconv's C API for the benchmark scripts, through ctypes: needs the built library, not the PyTorch binding.

Structures mirror include/tconv/tconv.h; each call that fills one is told its size.
"""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p, sizeof
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPU, CUDA = 0, 1


class Problem(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("operation", c_int32), ("dtype", c_int32), ("precision", c_int32),
        ("has_bias", c_int32), ("x_contiguous", c_int32),
        *[(name, c_int64) for name in ("n", "cin", "cout", "l", "k", "stride", "padding", "output_padding",
                                       "dilation", "groups")],
        ("x_stride", c_int64 * 3),
    ]


class PlanOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("device", c_int32), ("device_index", c_int32), ("device_name", c_char_p),
        ("force_kernel", c_char_p), ("threads", c_int32), ("batch_invariant", c_int32),
        ("parallel_for", c_void_p), ("executor_context", c_void_p),
    ]


class Arguments(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("x", c_void_p), ("weight", c_void_p), ("packed_weight", c_void_p),
        ("bias", c_void_p), ("grad_output", c_void_p), ("output", c_void_p), ("workspace", c_void_p),
        ("workspace_bytes", c_size_t), ("stream", c_void_p),
    ]


def find_library():
    """TCONV_LIBRARY, else the newest of the build folders' libraries."""
    if "TCONV_LIBRARY" in os.environ:
        return os.environ["TCONV_LIBRARY"]
    found = [ROOT / "build" / preset / "libtconv.so" for preset in ("release", "cpu", "release-all")]
    found = sorted((path for path in found if path.exists()), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SystemExit("libtconv.so was not found: run `make build`, or set TCONV_LIBRARY")
    return str(found[-1])


def load():
    lib = ctypes.CDLL(find_library())
    for name, result, arguments in (
        ("tconv_problem_parse_sized", c_int, [c_char_p, POINTER(Problem), c_size_t]),
        ("tconv_problem_check", c_int, [POINTER(Problem)]),
        ("tconv_output_length", c_int, [POINTER(Problem), POINTER(c_int64)]),
        ("tconv_plan_options_init_sized", c_int, [POINTER(PlanOptions), c_size_t]),
        ("tconv_arguments_init_sized", c_int, [POINTER(Arguments), c_size_t]),
        ("tconv_kernel_name", c_char_p, [c_int32]),
        ("tconv_plan_create", c_int, [POINTER(Problem), POINTER(PlanOptions), POINTER(c_void_p)]),
        ("tconv_plan_destroy", None, [c_void_p]),
        ("tconv_plan_kernel", c_char_p, [c_void_p]),
        ("tconv_plan_explain", c_char_p, [c_void_p]),
        ("tconv_plan_packed_bytes", c_size_t, [c_void_p]),
        ("tconv_plan_workspace_bytes", c_size_t, [c_void_p, c_int]),
        ("tconv_pack", c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p]),
        ("tconv_run", c_int, [c_void_p, POINTER(Arguments)]),
        ("tconv_last_error", c_char_p, []),
        ("tconv_version", c_char_p, []),
        ("tconv_build_info", c_char_p, []),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


LIB = load()


def check(status):
    if status != 0:
        raise RuntimeError(LIB.tconv_last_error().decode())


def kernels():
    """Names of all kernels, in the planner's order."""
    names = []
    while name := LIB.tconv_kernel_name(len(names)):
        names.append(name.decode())
    return names


class Plan:
    """One problem text planned for one device; pointers are the caller's."""

    def __init__(self, text, device=CPU, threads=0, kernel=None, device_index=0):
        self.problem = Problem()
        check(LIB.tconv_problem_parse_sized(text.encode(), byref(self.problem), sizeof(Problem)))
        options = PlanOptions()
        check(LIB.tconv_plan_options_init_sized(byref(options), sizeof(PlanOptions)))
        options.device, options.threads, options.device_index = device, threads, device_index
        options.force_kernel = kernel.encode() if kernel else None
        handle = c_void_p()
        check(LIB.tconv_plan_create(byref(self.problem), byref(options), byref(handle)))
        self.handle = handle
        lout = c_int64()
        check(LIB.tconv_output_length(byref(self.problem), byref(lout)))
        self.lout = lout.value
        self.kernel = LIB.tconv_plan_kernel(handle).decode()
        self.packed_bytes = LIB.tconv_plan_packed_bytes(handle)

    def __del__(self):
        if getattr(self, "handle", None):
            LIB.tconv_plan_destroy(self.handle)

    def workspace_bytes(self, packed):
        return LIB.tconv_plan_workspace_bytes(self.handle, 1 if packed else 0)

    def explain(self):
        return LIB.tconv_plan_explain(self.handle).decode()

    def pack(self, weight, packed, stream=None):
        check(LIB.tconv_pack(self.handle, weight, packed, self.packed_bytes, stream))

    def arguments(self, x, output, weight=None, packed=None, bias=None, workspace=None, workspace_bytes=0,
                  stream=None, grad_output=None):
        a = Arguments()
        check(LIB.tconv_arguments_init_sized(byref(a), sizeof(Arguments)))
        a.x, a.output, a.weight, a.packed_weight, a.bias = x, output, weight, packed, bias
        a.grad_output = grad_output
        a.workspace, a.workspace_bytes, a.stream = workspace, workspace_bytes, stream
        return a

    def run(self, arguments):
        check(LIB.tconv_run(self.handle, byref(arguments)))
