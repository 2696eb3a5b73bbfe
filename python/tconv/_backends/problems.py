"""Turns the description of a call's tensors into a problem and the shape of its result, for the ctypes backend. Each
function raises an error if the rules refuse the call."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from tconv import _rules
from tconv._backends.capi import GRAD_BIAS, GRAD_WEIGHT, STRIDED, Error, Problem

_DTYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 3}  # tconv_dtype
_MAX = 2**63 - 1

Seen = tuple[torch.Size, torch.dtype, torch.device]
Steps = tuple[int, ...] | None  # of a tensor that is not contiguous
Asked = tuple[Problem, tuple[int, ...]]


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


def transposed(
    x: Seen, steps: Steps, w: Seen, b: Seen | None,
    stride: int, padding: int, output_padding: int, groups: int, dilation: int,
) -> Asked:  # fmt: skip
    input, weight = Operand(*x), Operand(*w)
    bias: Any = None if b is None else Operand(*b)
    numbers = (stride, padding, output_padding, groups, dilation)
    shape = _rules.output_shape(input, weight, bias, *numbers)  # type: ignore[arg-type]
    problem = _problem(
        dtype=_DTYPES[input.dtype], has_bias=int(b is not None),
        n=_batch(input), cin=weight.shape[0], cout=weight.shape[1] * groups, l=input.shape[-1], k=weight.shape[2],
        stride=stride, padding=padding, output_padding=output_padding, dilation=dilation, groups=groups,
    )  # fmt: skip
    _set_x(problem, steps)
    return problem, tuple(shape)


def strided(
    y: Seen, steps: Steps, w: Seen, b: Seen | None,
    length: int, stride: int, padding: int, groups: int, dilation: int,
) -> Asked:  # fmt: skip
    input, weight = Operand(*y), Operand(*w)
    bias: Any = None if b is None else Operand(*b)
    _rules.check_strided(input, weight, bias, stride, padding, dilation, groups)  # type: ignore[arg-type]
    problem = _problem(
        operation=STRIDED, dtype=_DTYPES[input.dtype], has_bias=int(b is not None),
        n=_batch(input), cin=weight.shape[0], cout=weight.shape[1] * groups, l=length, k=weight.shape[2],
        stride=stride, padding=padding, dilation=dilation, groups=groups,
        output_padding=_output_padding(input, length, weight.shape[2], stride, padding, dilation),
    )  # fmt: skip
    _set_y(problem, steps)
    return problem, (*input.shape[:-2], weight.shape[0], length)


def weight(
    x: Seen, x_steps: Steps, y: Seen, y_steps: Steps,
    kernel_size: int, stride: int, padding: int, groups: int, dilation: int,
) -> Asked:  # fmt: skip
    input, grad = Operand(*x), Operand(*y)
    if input.shape[:-2] != grad.shape[:-2] or x[1:] != y[1:] or input.dim() not in (2, 3):
        raise Error(f"weight: input {list(x[0])} and grad {list(y[0])} must have one batch, dtype and device")
    problem = _problem(
        operation=GRAD_WEIGHT, dtype=_DTYPES[input.dtype],
        n=_batch(input), cin=input.shape[-2], cout=grad.shape[-2], l=input.shape[-1], k=kernel_size,
        stride=stride, padding=padding, dilation=dilation, groups=groups,
        output_padding=_output_padding(grad, input.shape[-1], kernel_size, stride, padding, dilation),
    )  # fmt: skip
    _set_x(problem, x_steps)
    _set_y(problem, y_steps)
    return problem, (input.shape[-2], grad.shape[-2] // groups, kernel_size)


def bias(y: Seen, steps: Steps) -> Asked:
    grad = Operand(*y)
    if grad.dim() not in (2, 3):
        raise Error(
            f"bias: grad has shape {list(y[0])}: it must be (batch, channels, length) or (channels, length)"
        )
    problem = _problem(
        operation=GRAD_BIAS, dtype=_DTYPES[grad.dtype], n=_batch(grad), cin=1, cout=grad.shape[-2], l=grad.shape[-1],
        k=1, stride=1, padding=0, output_padding=0, dilation=1, groups=1,
    )  # fmt: skip
    _set_y(problem, steps)
    return problem, (grad.shape[-2],)


def _problem(**values: int) -> Problem:
    for name, value in values.items():  # ctypes cuts larger numbers silently
        if value > _MAX:
            raise Error(f"tconv: {name} is {value}: it overflows 63 bits")
    return Problem(x_contiguous=1, **values)


def _set_x(problem: Problem, steps: Steps) -> None:
    if steps is not None:
        problem.x_contiguous = 0
        problem.x_stride[:] = _three(steps)


def _set_y(problem: Problem, steps: Steps) -> None:
    if steps is not None:
        problem.y_strided = 1
        problem.y_stride[:] = _three(steps)


def _batch(tensor: Operand) -> int:
    return tensor.shape[0] if len(tensor.shape) == 3 else 1


def _three(steps: tuple[int, ...]) -> tuple[int, ...]:
    return steps if len(steps) == 3 else (0, *steps)


def _output_padding(y: Operand, length: int, kernel_size: int, stride: int, padding: int, dilation: int) -> int:
    """What y's length has beyond the least that x's length gives."""
    rest = y.shape[-1] - ((length - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + 1)
    if rest < 0:
        raise Error(f"strided: length is {length}: it does not belong to an input of length {y.shape[-1]}")
    return rest
