"""Turns the description of a call's tensors into a problem and the shape of its result, for the ctypes backend. Each
function raises an error if the call is invalid: kinds of tensors are checked here, and the library checks shapes and
numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from tconv import _rules
from tconv._backends.capi import (
    FORWARD,
    GRAD_BIAS,
    GRAD_BIAS_OF_X,
    GRAD_BIAS_OF_Y,
    GRAD_WEIGHT,
    STRIDED,
    Error,
    Library,
    Problem,
)

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
    library: Library, x: Seen, steps: Steps, w: Seen, b: Seen | None,
    stride: int, padding: int, output_padding: int, groups: int, dilation: int,
) -> Asked:  # fmt: skip
    numbers = _numbers(
        stride=stride, padding=padding, output_padding=output_padding, dilation=dilation, groups=groups
    )
    problem = _with_weight(library, FORWARD, x, w, b, None, numbers)
    _set_x(problem, steps)
    return problem, (*x[0][:-2], problem.cout, library.output_length(problem))


def strided(
    library: Library, y: Seen, steps: Steps, w: Seen, b: Seen | None,
    length: int | None, stride: int, padding: int, groups: int, dilation: int,
) -> Asked:  # fmt: skip
    numbers = _numbers(stride=stride, padding=padding, dilation=dilation, groups=groups)
    problem = _with_weight(library, STRIDED, y, w, b, length, numbers)
    _set_y(problem, steps)
    return problem, (*y[0][:-2], problem.cin, problem.l)


def weight(
    library: Library, x: Seen, x_steps: Steps, y: Seen, y_steps: Steps,
    kernel_size: int, stride: int, padding: int, groups: int, dilation: int,
) -> Asked:  # fmt: skip
    input, grad = Operand(*x), Operand(*y)
    if input.shape[:-2] != grad.shape[:-2] or x[1:] != y[1:] or input.dim() not in (2, 3):
        raise Error(f"weight: input {list(x[0])} and grad {list(y[0])} must have one batch, dtype and device")
    numbers = _numbers(stride=stride, padding=padding, dilation=dilation, groups=groups)
    problem = Problem(
        operation=GRAD_WEIGHT, dtype=_rules.DTYPES.index(input.dtype), x_contiguous=1,
        n=_batch(input), cin=input.shape[-2], cout=grad.shape[-2], l=input.shape[-1], k=kernel_size, **numbers,
    )  # fmt: skip
    library.set_output_length(problem, grad.shape[-1])
    _set_x(problem, x_steps)
    _set_y(problem, y_steps)
    return problem, (input.shape[-2], grad.shape[-2] // groups, kernel_size)


def weight_bias(
    library: Library, x: Seen, x_steps: Steps, y: Seen, y_steps: Steps,
    kernel_size: int, stride: int, padding: int, groups: int, dilation: int, bias_of_input: bool,
) -> Asked:  # fmt: skip
    problem, shape = weight(library, x, x_steps, y, y_steps, kernel_size, stride, padding, groups, dilation)
    problem.grad_bias = GRAD_BIAS_OF_X if bias_of_input else GRAD_BIAS_OF_Y
    return problem, shape


def bias(library: Library, y: Seen, steps: Steps) -> Asked:
    grad = Operand(*y)
    if grad.dim() not in (2, 3):
        raise Error(
            f"bias: grad has shape {list(y[0])}: it must be (batch, channels, length) or (channels, length)"
        )
    problem = Problem(
        operation=GRAD_BIAS, dtype=_rules.DTYPES.index(grad.dtype), x_contiguous=1,
        n=_batch(grad), cin=1, cout=grad.shape[-2], l=grad.shape[-1], k=1, stride=1,
        dilation=1, groups=1,
    )  # fmt: skip
    _set_y(problem, steps)
    return problem, (grad.shape[-2],)


def _numbers(**values: int) -> dict[str, int]:
    for name, value in values.items():  # ctypes cuts larger numbers silently
        if value > _MAX:
            raise Error(f"tconv: {name} is {value}: it overflows 63 bits")
    return values


def _with_weight(
    library: Library, operation: int, input: Seen, weight: Seen, bias: Seen | None, length: int | None,
    numbers: dict[str, int],
) -> Problem:  # fmt: skip
    tensors: Any = [None if seen is None else Operand(*seen) for seen in (input, weight, bias)]
    _rules.check_kinds("tconv", *tensors)
    problem = Problem(operation=operation, dtype=_rules.DTYPES.index(input[1]), x_contiguous=1, **numbers)
    if length is not None and length < 0:  # -1 means that there is none
        raise Error(f"tconv: length is {length}: it must be 1 or more")
    library.take_shapes(problem, input[0], weight[0], None if bias is None else bias[0], length)
    return problem


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
