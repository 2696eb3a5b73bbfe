"""tconv.h for ctypes: structs, functions, errors. Independent of PyTorch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any

BUFFER_ALIGNMENT = 256
CPU, CUDA = 0, 1
FORWARD, GRAD_WEIGHT, GRAD_BIAS, STRIDED = 0, 2, 3, 4  # tconv_operation
GRAD_BIAS_OF_Y, GRAD_BIAS_OF_X = 1, 2  # tconv_grad_bias
OUT_OF_MEMORY = 4  # tconv_status


class Problem(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("operation", c_int32), ("dtype", c_int32), ("precision", c_int32),
        ("has_bias", c_int32), ("x_contiguous", c_int32),
        ("n", c_int64), ("cin", c_int64), ("cout", c_int64), ("l", c_int64), ("k", c_int64),
        ("stride", c_int64), ("padding", c_int64), ("output_padding", c_int64), ("dilation", c_int64),
        ("groups", c_int64), ("x_stride", c_int64 * 3), ("y_strided", c_int32), ("grad_bias", c_int32),
        ("y_stride", c_int64 * 3),
    ]  # fmt: skip


class PlanOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("device", c_int32), ("device_index", c_int32), ("device_name", c_char_p),
        ("force_kernel", c_char_p), ("threads", c_int32), ("batch_invariant", c_int32),
        ("parallel_for", c_void_p), ("executor_context", c_void_p),
    ]  # fmt: skip


class Arguments(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("x", c_void_p), ("weight", c_void_p), ("packed_weight", c_void_p),
        ("bias", c_void_p), ("grad_output", c_void_p), ("output", c_void_p), ("workspace", c_void_p),
        ("workspace_bytes", c_size_t), ("stream", c_void_p), ("grad_bias", c_void_p),
    ]  # fmt: skip


# What tconv_run reads; it is handed over as bytes, from struct.pack.
ARGUMENTS_SIZE = ctypes.sizeof(Arguments)

_FUNCTIONS = {
    "tconv_problem_parse_sized": (c_int, [c_char_p, POINTER(Problem), c_size_t]),
    "tconv_problem_from_shapes": (
        c_int,
        [POINTER(Problem), POINTER(c_int64), c_int32, POINTER(c_int64), c_int32, POINTER(c_int64), c_int32, c_int64],
    ),
    "tconv_problem_set_output_length": (c_int, [POINTER(Problem), c_int64]),
    "tconv_output_length": (c_int, [POINTER(Problem), POINTER(c_int64)]),
    "tconv_plan_create": (c_int, [POINTER(Problem), POINTER(PlanOptions), POINTER(c_void_p)]),
    "tconv_plan_destroy": (None, [c_void_p]),
    "tconv_plan_kernel": (c_char_p, [c_void_p]),
    "tconv_plan_explain": (c_char_p, [c_void_p]),
    "tconv_plan_packed_bytes": (c_size_t, [c_void_p]),
    "tconv_plan_workspace_bytes": (c_size_t, [c_void_p, c_int]),
    "tconv_plan_host_bytes": (c_size_t, [c_void_p]),
    "tconv_plan_pack_key": (c_char_p, [c_void_p]),
    "tconv_pack": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p]),
    "tconv_run": (c_int, [c_void_p, c_char_p]),
    "tconv_last_error": (c_char_p, []),
    "tconv_build_info": (c_char_p, []),
}


class Error(RuntimeError):
    """A refusal in the library's words."""


def declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """A library through which the functions of tconv.h are found, with their types."""
    for function, (result, arguments) in _FUNCTIONS.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    return library


def _sizes(shape: Sequence[int] | None) -> tuple[Any, int]:
    return (None, -1) if shape is None else ((c_int64 * len(shape))(*shape), len(shape))


def open_library(folder: Path) -> ctypes.CDLL:
    """libtconv of `folder`, else (a system's package) of the loader's path."""
    found = sorted(folder.glob("libtconv.so*"))
    name = str(found[0]) if found else "libtconv.so.0"
    try:
        library = declared(ctypes.CDLL(name))
    except (OSError, AttributeError) as error:
        where = f"{name} does not load" if found else f"there is no libtconv.so in {folder}, nor in the loader's path"
        raise ImportError(
            f"tconv: {where} ({error}): install the wheel (pip install .), or set TCONV_LIBRARY_DIR to the folder "
            "of libtconv.so"
        ) from None
    return library


class Library:
    def __init__(self, calls: ctypes.CDLL) -> None:
        self.calls = calls

    def check(self, status: int, who: str = "tconv") -> None:
        if status == 0:
            return
        message = self.calls.tconv_last_error().decode()
        raise Error(f"{who}: {'out of memory: ' if status == OUT_OF_MEMORY else ''}{message}")

    def take_shapes(
        self, problem: Problem, input: Sequence[int], weight: Sequence[int], bias: Sequence[int] | None,
        length: int | None = None, who: str = "tconv",
    ) -> None:  # fmt: skip
        """tconv_problem_from_shapes; without a length a strided product is a conv1d."""
        problem.struct_size = ctypes.sizeof(Problem)
        shapes = (*_sizes(input), *_sizes(weight), *_sizes(bias))
        self.check(
            self.calls.tconv_problem_from_shapes(byref(problem), *shapes, -1 if length is None else length), who
        )

    def set_output_length(self, problem: Problem, length: int) -> None:
        problem.struct_size = ctypes.sizeof(Problem)
        self.check(self.calls.tconv_problem_set_output_length(byref(problem), length))

    def output_length(self, problem: Problem) -> int:
        length = c_int64()
        self.check(self.calls.tconv_output_length(byref(problem), byref(length)))
        return length.value

    def build_info(self) -> str:
        return self.calls.tconv_build_info().decode()  # type: ignore[no-any-return]

    def parse(self, text: str) -> Problem:
        problem = Problem()
        self.check(self.calls.tconv_problem_parse_sized(text.encode(), byref(problem), ctypes.sizeof(problem)))
        return problem


class Plan:
    """A tconv_plan and the numbers that a call needs. Destroyed with the last reference, so that a call on another
    thread keeps it alive."""

    def __init__(self, library: Library, problem: Problem, options: PlanOptions) -> None:
        self._calls = calls = library.calls
        self.handle = c_void_p()
        problem.struct_size = ctypes.sizeof(Problem)
        options.struct_size = ctypes.sizeof(PlanOptions)
        library.check(calls.tconv_plan_create(byref(problem), byref(options), byref(self.handle)))
        self.packed_bytes = calls.tconv_plan_packed_bytes(self.handle)
        self.host_bytes = calls.tconv_plan_host_bytes(self.handle)
        self.pack_key = calls.tconv_plan_pack_key(self.handle).decode()
        self.workspace_raw = calls.tconv_plan_workspace_bytes(self.handle, 0)
        self.workspace_packed = calls.tconv_plan_workspace_bytes(self.handle, 1)

    @property
    def is_slow(self) -> bool:
        """Whether its kernel, or one of its two, is a simple one that takes every problem."""
        kernel = self._calls.tconv_plan_kernel(self.handle).decode()
        return "cuda.simt.plain" in kernel or kernel.startswith("reference")  # type: ignore[no-any-return]

    def explain(self) -> str:
        return self._calls.tconv_plan_explain(self.handle).decode()  # type: ignore[no-any-return]

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._calls.tconv_plan_destroy(self.handle)
