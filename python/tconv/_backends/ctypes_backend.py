"""The C API through ctypes, for every PyTorch from 2.0 on.

A call in steps: what the tensors look like (`_seen`), the plan for that (plans.py, which also refuses), output
and workspace from PyTorch's allocator, addresses into a tconv_arguments, tconv_run on the current stream.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import Any

import torch
from torch import Tensor, nn

from tconv._backends import library_folder, openmp, plans
from tconv._backends.capi import ARGUMENTS_SIZE, BUFFER_ALIGNMENT, Library, Plan, PlanOptions
from tconv._pytorch import autocast_enabled, convolution_precision, traced, transforms_active

_SCHEMA = (
    "(Tensor input, Tensor weight, Tensor? bias, int stride, int padding, int output_padding, int groups, "
    "int dilation, {})"
)
_DEFINITIONS = {
    "conv_transpose1d": "str precision) -> Tensor",
    "forward": "int precision) -> Tensor",
    "pack": "int precision) -> (Tensor, int)",
    "forward_packed": "int precision, Tensor packed, int packed_id) -> (Tensor, int)",
}
_MODES = {"ieee": 0, "tf32": 1, "auto": 2}
_pack_arguments = struct.Struct("@IPPPPPPPNP").pack  # a tconv_arguments, in a fifth of the time of the ctypes one
_SMALL = 1 << 16  # bytes of workspace that a thread keeps: allocating costs as much as so small a problem

_get_num_threads = torch.get_num_threads
_uint8 = torch.uint8
_float32 = torch.float32
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a PyTorch without CUDA has none
_function_modes = torch._C._len_torch_function_stack
_PLAIN = (Tensor, nn.Parameter)


def _aligned(address: int) -> int:
    return -(-address // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT


class _Scratch(threading.local):
    """A thread's own small workspace. A call on the CPU is done with it on return."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(_SMALL + BUFFER_ALIGNMENT)
        self.address = _aligned(ctypes.addressof(self._memory))


def _direct(input: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether the dispatcher, here and now, would do nothing but call the kernel. It costs more than a small
    layer, so such calls do not go through it. A view of a complex tensor may have a sign still to be changed."""
    return (
        type(input) in _PLAIN
        and type(weight) in _PLAIN
        and (bias is None or (type(bias) in _PLAIN and not bias.is_neg()))
        and not (input.is_neg() or weight.is_neg() or _function_modes() or autocast_enabled())
        and (input.is_cpu or input.is_cuda)
        and not (transforms_active() or traced())
    )


def _resolved(mode: int, input: Tensor) -> int:
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"conv_transpose1d: precision is {mode}: must be 0 (ieee), 1 (tf32) or 2 (as PyTorch is set)"
        )
    if not input.is_cuda or input.dtype is not _float32:
        return 0
    return int(convolution_precision() == "tf32") if mode == 2 else mode


def _out_of_memory(error: RuntimeError, shape: tuple[int, ...], workspace: int) -> RuntimeError:
    if "out of memory" in str(error):  # CUDA's allocator says it, and what is taken
        return error
    return RuntimeError(
        "conv_transpose1d: out of memory: PyTorch's allocator refused the output of shape "
        f"{list(shape)} or its workspace of {workspace} bytes: {error}"
    )


class Ctypes:
    name = "ctypes"

    def __init__(self) -> None:
        self._library = Library(library_folder())
        parallel_for = openmp.parallel_for(library_folder())
        self._threads = "tconv's own" if parallel_for is None else "PyTorch's"
        self._plans = plans.PlanCache(self._library, parallel_for)
        self._find = self._plans.find
        self._run_plan = self._library.calls.tconv_run
        self._scratch = _Scratch()
        self.operators = self._define()
        ops = torch.ops.tconv
        self._forward_op = ops.forward.default
        self._pack_op = ops.pack.default
        self._forward_packed_op = ops.forward_packed.default

    # --- what the package calls ---------------------------------------------------------------------------

    def forward(self, input: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
        if _direct(input, weight, bias):
            return self._forward(input, weight, bias, *rest)
        return self._forward_op(input, weight, bias, *rest)  # type: ignore[no-any-return]

    def pack(self, input: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> tuple[Tensor, int]:
        if _direct(input, weight, bias):
            return self._pack(input, weight, bias, *rest)
        return self._pack_op(input, weight, bias, *rest)  # type: ignore[no-any-return]

    def forward_packed(self, input: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> tuple[Tensor, int]:
        if _direct(input, weight, bias):
            return self._forward_packed(input, weight, bias, *rest)
        return self._forward_packed_op(input, weight, bias, *rest)  # type: ignore[no-any-return]

    def explain(self, problem: str, device: str, threads: int) -> str:
        """device: "cpu", "cuda:<index>", or the name of a GPU that need not be there."""
        options = PlanOptions(threads=threads, device=int(device != "cpu"))
        if device.startswith("cuda:"):
            options.device_index = int(device[5:])
        elif device != "cpu":
            options.device_name = device.encode()
        return Plan(self._library, self._library.parse(problem), options).explain()

    def build_info(self) -> str:
        return f"{self._library.build_info()}, CPU work on {self._threads} threads"

    def cache_use(self) -> tuple[int, int, int]:
        """Plans that are kept, the bytes that they hold, their packed layouts."""
        return self._plans.use()

    # --- kernels: dense tensors on the CPU or on CUDA -----------------------------------------------------

    def _forward(
        self, input: Tensor, weight: Tensor, bias: Tensor | None,
        stride: int, padding: int, output_padding: int, groups: int, dilation: int, mode: int,
    ) -> Tensor:  # fmt: skip
        plan = self._plan(input, weight, bias, stride, padding, output_padding, groups, dilation, mode)
        return self._run(plan, input, weight, bias, None)

    def _conv_transpose1d(self, *call: Any) -> Tensor:
        word = call[-1]
        if word not in _MODES:
            raise RuntimeError(
                f"conv_transpose1d: precision is {word!r}: must be 'ieee', 'tf32' or 'auto'"
            )
        return self._forward(*call[:-1], _MODES[word])

    def _pack(self, input: Tensor, weight: Tensor, bias: Tensor | None, *rest: int) -> tuple[Tensor, int]:
        plan = self._plan(input, weight, bias, *rest)
        if plan.packed_id == 0:
            return weight.new_empty(0, dtype=_uint8), 0
        packed = weight.new_empty(plan.packed_bytes + BUFFER_ALIGNMENT - 1, dtype=_uint8)
        raw = weight.contiguous()
        self._library.check(
            self._library.calls.tconv_pack(
                plan.handle, raw.data_ptr(), _aligned(packed.data_ptr()), plan.packed_bytes,
                _current_stream(weight.device.index) if weight.is_cuda else None,
            )
        )  # fmt: skip
        return packed, plan.packed_id

    def _forward_packed(
        self, input: Tensor, weight: Tensor, bias: Tensor | None,
        stride: int, padding: int, output_padding: int, groups: int, dilation: int, mode: int,
        packed: Tensor, packed_id: int,
    ) -> tuple[Tensor, int]:  # fmt: skip
        plan = self._plan(input, weight, bias, stride, padding, output_padding, groups, dilation, mode)
        if plan.packed_id == 0:
            return self._run(plan, input, weight, bias, None), packed_id
        if plan.packed_id != packed_id:
            return weight.new_empty(0, dtype=_uint8), plan.packed_id
        if packed.numel() < plan.packed_bytes + BUFFER_ALIGNMENT - 1:
            raise RuntimeError("conv_transpose1d: packed is too small for its packed_id")
        return self._run(plan, input, weight, bias, packed), packed_id

    def _plan(
        self, input: Tensor, weight: Tensor, bias: Tensor | None,
        stride: int, padding: int, output_padding: int, groups: int, dilation: int, mode: int,
    ) -> plans.CachedPlan:  # fmt: skip
        if mode:
            mode = _resolved(mode, input)
        return self._find(
            input.shape, input.dtype, input.device, None if input.is_contiguous() else input.stride(),
            weight.shape, weight.dtype, weight.device,
            *((None, None, None) if bias is None else (bias.shape, bias.dtype, bias.device)),
            stride, padding, output_padding, groups, dilation, mode,
            0 if input.is_cuda else _get_num_threads(),
        )  # fmt: skip

    def _run(
        self, plan: plans.CachedPlan, input: Tensor, weight: Tensor, bias: Tensor | None, packed: Tensor | None
    ) -> Tensor:
        size = plan.workspace_raw if packed is None else plan.workspace_packed
        cuda = input.is_cuda
        try:
            output = input.new_empty(plan.output_shape)
            if size > _SMALL or (cuda and size):
                # Freed on return: the allocator gives it again only to work that is queued behind this call.
                memory = input.new_empty(size + BUFFER_ALIGNMENT - 1, dtype=_uint8)
                workspace = _aligned(memory.data_ptr())
            else:
                workspace = self._scratch.address
        except RuntimeError as error:
            raise _out_of_memory(error, plan.output_shape, size) from None
        if packed is None and not weight.is_contiguous():
            weight = weight.contiguous()
        if bias is not None and not bias.is_contiguous():
            bias = bias.contiguous()
        status = self._run_plan(
            plan.handle,
            _pack_arguments(
                ARGUMENTS_SIZE,
                input.data_ptr(),
                weight.data_ptr() if packed is None else 0,
                0 if packed is None else _aligned(packed.data_ptr()),
                0 if bias is None else bias.data_ptr(),
                0,
                output.data_ptr(),
                workspace,
                size,
                _current_stream(input.device.index) if cuda else 0,
            ),
        )
        if status:
            self._library.check(status)
        return output

    # --- operators ----------------------------------------------------------------------------------------

    def _define(self) -> torch.library.Library:
        library = torch.library.Library("tconv", "DEF")
        kernels = {
            "conv_transpose1d": self._conv_transpose1d,
            "forward": self._forward,
            "pack": self._pack,
            "forward_packed": self._forward_packed,
        }
        for name, end in _DEFINITIONS.items():
            library.define(name + _SCHEMA.format(end[: end.index(")")]) + end[end.index(")") + 1 :])
            for key in ("CPU", "CUDA"):
                library.impl(name, kernels[name], key)
        return library
