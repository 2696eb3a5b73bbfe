"""Plans by problem, for the ctypes backend. Making one costs tens of microseconds, finding one a fraction of one.

No lock is held while a plan is made, so fork() and other threads find nothing locked. The key is what a call's tensors look like, without their memory: finding the plan of a call is at the same
time the proof that the call is valid.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch

from tconv import _rules
from tconv._backends.capi import CPU, CUDA, Error, Library, Plan, PlanOptions, Problem

_CAPACITY = 1024  # a vocoder has under ten layers, and a server meets many lengths
_LAYOUTS = 4096
_DTYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 3}  # tconv_dtype
_MAX = 2**63 - 1


class Operand(NamedTuple):
    """A tensor without its memory, for the rules."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout = torch.strided  # of others PyTorch gives no address, so that none gets further
    is_nested: bool = False
    is_quantized: bool = False

    def dim(self) -> int:
        return len(self.shape)


FindPlan = Callable[..., "CachedPlan"]


class CachedPlan(Plan):
    """A plan with what Python computes once for it."""

    output_shape: tuple[int, ...]
    packed_id: int  # 0: the kernel reads raw weights; equal ids mean interchangeable packed buffers


class _Layouts:
    """A small number for each packed layout met, so that callers can hold packed weights by it."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, int] = OrderedDict()
        self._next = itertools.count(1)  # never used twice: who holds the number of a forgotten one packs again

    def id_of(self, pack_key: str) -> int:
        number = self._ids.setdefault(pack_key, next(self._next))
        if len(self._ids) > _LAYOUTS:
            self._ids.popitem(last=False)
        return number


def finder(library: Library) -> FindPlan:
    layouts = _Layouts()

    @lru_cache(maxsize=_CAPACITY)
    def find(
        x: torch.Size, x_dtype: torch.dtype, x_device: torch.device, steps: tuple[int, ...] | None,
        w: torch.Size, w_dtype: torch.dtype, w_device: torch.device,
        b: torch.Size | None, b_dtype: torch.dtype | None, b_device: torch.device | None,
        stride: int, padding: int, output_padding: int, groups: int, dilation: int, mode: int, threads: int,
    ) -> CachedPlan:  # fmt: skip
        """steps: of a non-contiguous input. Raises what the rules and the library refuse."""
        input, weight = Operand(x, x_dtype, x_device), Operand(w, w_dtype, w_device)
        bias = None if b is None else Operand(b, b_dtype, b_device)  # type: ignore[arg-type]
        numbers = (stride, padding, output_padding, groups, dilation)
        shape = _rules.output_shape(input, weight, bias, *numbers)  # type: ignore[arg-type]
        problem = _problem(input, weight, steps, numbers)
        problem.has_bias = bias is not None
        problem.precision = mode
        options = PlanOptions(threads=threads)
        if x_device.type == "cuda":
            options.device, options.device_index = CUDA, x_device.index
        else:
            options.device = CPU
        plan = CachedPlan(library, problem, options)
        plan.output_shape = tuple(shape)
        plan.packed_id = layouts.id_of(plan.pack_key) if plan.packed_bytes else 0
        return plan

    return find


def _problem(x: Operand, w: Operand, steps: tuple[int, ...] | None, numbers: tuple[int, ...]) -> Problem:
    stride, padding, output_padding, groups, dilation = numbers
    batched = len(x.shape) == 3
    values = {
        "dtype": _DTYPES[x.dtype], "x_contiguous": int(steps is None),
        "n": x.shape[0] if batched else 1, "cin": w.shape[0], "cout": w.shape[1] * groups, "l": x.shape[-1],
        "k": w.shape[2], "stride": stride, "padding": padding, "output_padding": output_padding,
        "dilation": dilation, "groups": groups,
    }  # fmt: skip
    for name, value in values.items():  # ctypes cuts larger numbers silently
        if value > _MAX:
            raise Error(f"conv_transpose1d: {name} is {value}: it overflows 63 bits")
    problem = Problem(**values)
    if steps is not None:
        problem.x_stride[:] = steps if batched else (0, *steps)
    return problem

