"""What the ctypes backend does around a call: how it gets there, what its tensors look like, where its memory is."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tconv._backends.capi import BUFFER_ALIGNMENT
from tconv._pytorch import autocast_enabled, convolution_precision, traced, transforms_active

_MODES = {"ieee": 0, "tf32": 1, "auto": 2}
SMALL = 1 << 16  # bytes of workspace that a thread keeps: allocating costs as much as so small a problem

_get_num_threads = torch.get_num_threads
uint8 = torch.uint8
_float32 = torch.float32
current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a PyTorch without CUDA has none
_function_modes = torch._C._len_torch_function_stack
_PLAIN = (Tensor, nn.Parameter)


def aligned(address: int) -> int:
    return -(-address // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT


class Scratch(threading.local):
    """A thread's own small workspace. A call on the CPU is done with it on return."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(SMALL + BUFFER_ALIGNMENT)
        self.address = aligned(ctypes.addressof(self._memory))


def direct(input: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether the dispatcher would do nothing but call the kernel at this moment. It costs more than a small
    layer, so such calls do not go through it. A view of a complex tensor may have a sign still to be changed."""
    return (
        type(input) in _PLAIN
        and type(weight) in _PLAIN
        and (bias is None or (type(bias) in _PLAIN and not bias.is_neg()))
        and not (input.is_neg() or weight.is_neg() or _function_modes() or autocast_enabled())
        and (input.is_cpu or input.is_cuda)
        and not (transforms_active() or traced())
    )


def way(kernel: Callable[..., Any], operator: Callable[..., Any]) -> Callable[..., Any]:
    def call(input: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Any:
        if direct(input, weight, bias):
            return kernel(input, weight, bias, *rest)
        return operator(input, weight, bias, *rest)

    return call


def steps(tensor: Tensor) -> tuple[int, ...] | None:
    return None if tensor.is_contiguous() else tensor.stride()


def seen(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, tensor.device


def address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def dense(tensor: Tensor | None) -> Tensor | None:
    return tensor if tensor is None or tensor.is_contiguous() else tensor.contiguous()


def resolved(mode: int, input: Tensor) -> int:
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"tconv: precision is {mode}: must be 0 (ieee), 1 (tf32) or 2 (as PyTorch is set)"
        )
    if not input.is_cuda or input.dtype is not _float32:
        return 0
    return int(convolution_precision() == "tf32") if mode == 2 else mode


def mode_of(word: str) -> int:
    if word not in _MODES:
        raise RuntimeError(f"tconv: precision is {word!r}: must be 'ieee', 'tf32' or 'auto'")
    return _MODES[word]


def threads(tensor: Tensor) -> int:
    return 0 if tensor.is_cuda else _get_num_threads()


def out_of_memory(error: RuntimeError, shape: tuple[int, ...], workspace: int) -> RuntimeError:
    if "out of memory" in str(error):  # CUDA's allocator says it, and what is taken
        return error
    return RuntimeError(
        "tconv: out of memory: PyTorch's allocator refused the output of shape "
        f"{list(shape)} or its workspace of {workspace} bytes: {error}"
    )
