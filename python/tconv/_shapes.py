"""Shapes of results, and the refusal of calls whose tensors do not fit together.

The rules are the library's (tconv_problem_from_shapes): every call whose sizes are numbers asks it, on fake and meta
tensors too. Only sizes that torch.compile or torch.export keeps symbolic need formulas in Python, because a C function
would turn them into numbers and so fix them in the graph. The two formulas are at the end of this file, and
test_shapes.py compares them with the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from tconv import _rules
from tconv._backends.capi import FORWARD, STRIDED, Problem
from tconv._library import backend
from tconv._pytorch import OutOfMemoryError, check


def output_shape(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int,
    padding: int,
    output_padding: int,
    groups: int,
    dilation: int,
) -> Sequence[int]:
    """Shape of conv_transpose1d's result; raises if the call is invalid. Sizes may be symbolic."""
    who = "conv_transpose1d"
    _rules.check_kinds(who, input, weight, bias)
    if _symbolic(input, weight, bias, output_padding):
        _check_channels(who, input, bias, weight.shape[0], weight.shape[1] * groups)
        lout = transposed_length(input.shape[-1], weight.shape[2], stride, padding, output_padding, dilation)
        check(
            lout >= 0,
            lambda: f"{who}: padding is {padding}: it leaves an output length of {lout}, which must be 0 or more",
        )
        return (*input.shape[:-2], weight.shape[1] * groups, lout)
    numbers = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
    problem = _problem(who, FORWARD, input, weight, bias, groups=groups, **numbers)
    return (*input.shape[:-2], problem.cout, backend.library.output_length(problem))


def conv1d_shape(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int, dilation: int, groups: int
) -> Sequence[int]:
    """The same of conv1d."""
    who = "conv1d"
    _rules.check_kinds(who, input, weight, bias)
    if _symbolic(input, weight, bias):
        _check_channels(who, input, bias, weight.shape[1] * groups, weight.shape[0])
        lout = conv1d_length(input.shape[-1], weight.shape[2], stride, padding, dilation)
        check(
            lout >= 1,
            lambda: f"{who}: input has length {input.shape[-1]}: with padding {padding} it is shorter than the kernel",
        )
        return (*input.shape[:-2], weight.shape[0], lout)
    numbers = {"stride": stride, "padding": padding, "dilation": dilation}
    problem = _problem(who, STRIDED, input, weight, bias, groups=groups, **numbers)
    return (*input.shape[:-2], problem.cin, problem.l)


def refusal(error: Exception, *call: Any) -> Exception:
    """The exception to raise for a conv_transpose1d that failed with `error`."""
    return _refusal(error, "conv_transpose1d", output_shape, _rules.numbers, *call)


def conv1d_refusal(error: Exception, *call: Any) -> Exception:
    """The same of conv1d."""
    return _refusal(error, "conv1d", conv1d_shape, _rules.conv1d_numbers, *call)


def _refusal(
    error: Exception, who: str, rule: Callable[..., Any], named: Callable[..., Any],
    input: Any, weight: Any, bias: Any, *given: Any,
) -> Exception:  # fmt: skip
    try:
        _rules.check_types(who, input, weight, bias)
        rule(input, weight, bias, *named(given))
    except (RuntimeError, TypeError, ValueError) as better:
        return better
    if "out of memory" in str(error) and input.is_cuda:
        return OutOfMemoryError(str(error))
    return error


def _problem(who: str, operation: int, input: Tensor, weight: Tensor, bias: Tensor | None, **numbers: int) -> Problem:
    problem = Problem(operation=operation, dtype=_rules.DTYPES.index(input.dtype), x_contiguous=1, **numbers)
    shapes = (input.shape, weight.shape, None if bias is None else bias.shape)
    backend.library.take_shapes(problem, *shapes, who=who)
    return problem


def _symbolic(input: Tensor, weight: Tensor, bias: Tensor | None, *numbers: Any) -> bool:
    sizes: Iterable[Any] = (*input.shape, *weight.shape, *(() if bias is None else bias.shape), *numbers)
    symbolic = any(isinstance(size, torch.SymInt) for size in sizes)
    # The library refuses a wrong number of dimensions, whatever the sizes are.
    return symbolic and input.dim() in (2, 3) and weight.dim() == 3


def _check_channels(who: str, input: Tensor, bias: Tensor | None, channels: Any, outputs: Any) -> None:
    check(
        input.shape[-2] == channels,
        lambda: f"{who}: input has {input.shape[-2]} channels: weight needs {channels}",
    )
    if bias is not None:
        check(
            bias.dim() == 1 and bias.shape[0] == outputs,
            lambda: f"{who}: bias has shape {list(bias.shape)}: weight needs [{outputs}]",
        )


def transposed_length(
    length: Any, kernel_size: Any, stride: int, padding: int, output_padding: Any, dilation: int
) -> Any:
    return (length - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1


def conv1d_length(length: Any, kernel_size: Any, stride: int, padding: int, dilation: int) -> Any:
    return (length + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1
