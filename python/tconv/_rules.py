"""What a valid call is. One set of rules for meta and fake tensors, and for the words of a refusal.

The binding has its own checks before it touches memory; when it refuses, refusal() finds the rule that was
broken and says it in the terms of the Python call, with the exception type that PyTorch uses.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from tconv._pytorch import OutOfMemoryError, check

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_NUMBERS = ("stride", "padding", "output_padding", "groups", "dilation")


def single(value: Any, name: str) -> int:
    """The number that `value` stands for: an int, or a list or tuple of one, as PyTorch takes it."""
    if isinstance(value, (list, tuple, torch.Size)):
        if name == "groups":
            raise TypeError(f"conv_transpose1d(): groups must be an int, not {type(value).__name__}")
        if len(value) != 1:
            raise RuntimeError(
                f"conv_transpose1d: {name} is {tuple(value)}: it must be one number, or a list of one"
            )
        value = value[0]
    if isinstance(value, torch.SymInt):
        return value  # type: ignore[return-value]
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"conv_transpose1d(): {name} must be an int, not {type(value).__name__}") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"conv_transpose1d: {name} is {number}: it does not fit in 64 bits")
    return number


def numbers(values: Iterable[Any]) -> tuple[int, ...]:
    """stride, padding, output_padding, groups and dilation, each by single()."""
    return tuple(single(value, name) for value, name in zip(values, _NUMBERS, strict=True))


def _check_types(input: Any, weight: Any, bias: Any) -> None:
    for name, value in (("input", input), ("weight", weight), ("bias", bias)):
        if not isinstance(value, Tensor) and not (name == "bias" and value is None):
            raise TypeError(f"conv_transpose1d(): {name} must be a Tensor, not {type(value).__name__}")


def _check_kinds(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    tensors = [("input", input), ("weight", weight)] + ([] if bias is None else [("bias", bias)])
    for name, tensor in tensors:
        if tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided:
            kind = "nested" if tensor.is_nested else "quantised" if tensor.is_quantized else "sparse"
            if str(tensor.layout) == "torch._mkldnn":
                kind = "oneDNN"
            raise NotImplementedError(f"conv_transpose1d: {name} is a {kind} tensor: it must be dense")
    if input.dtype not in DTYPES:
        raise NotImplementedError(
            f"conv_transpose1d: input is {input.dtype}: it must be float32, float64, float16 or bfloat16"
        )
    for name, tensor in tensors[1:]:
        if tensor.dtype != input.dtype:
            raise RuntimeError(
                f"conv_transpose1d: {name} is {tensor.dtype} and input is {input.dtype}: they must be the same"
            )
        if tensor.device != input.device:
            raise RuntimeError(
                f"conv_transpose1d: {name} is on {tensor.device} and input is on {input.device}: "
                "they must be on one device"
            )


def _check_shapes(input: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> None:
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"conv_transpose1d: input has shape {list(input.shape)}: it must be (batch, channels, length) or "
            "(channels, length)"
        )
    if weight.dim() != 3:
        raise RuntimeError(
            f"conv_transpose1d: weight has shape {list(weight.shape)}: it must be "
            "(in_channels, out_channels/groups, kernel_size)"
        )
    if groups < 1:
        raise RuntimeError(f"conv_transpose1d: groups is {groups}: it must be 1 or more")
    if input.shape[-2] != weight.shape[0]:
        raise RuntimeError(
            f"conv_transpose1d: input has {input.shape[-2]} channels (shape {list(input.shape)}): weight of "
            f"shape {list(weight.shape)} needs {weight.shape[0]}"
        )
    if weight.shape[0] % groups != 0:
        raise RuntimeError(
            f"conv_transpose1d: groups is {groups}: it must divide the {weight.shape[0]} input channels"
        )
    if 0 in weight.shape:
        raise RuntimeError(f"conv_transpose1d: weight has shape {list(weight.shape)}: it must not be empty")
    if bias is not None and (bias.dim() != 1 or bias.shape[0] != weight.shape[1] * groups):
        raise RuntimeError(
            f"conv_transpose1d: bias has shape {list(bias.shape)}: weight of shape {list(weight.shape)} and "
            f"groups {groups} need [{weight.shape[1] * groups}]"
        )


def _check_numbers(stride: int, padding: int, output_padding: int, dilation: int) -> None:
    for name, value, least in (
        ("stride", stride, 1),
        ("dilation", dilation, 1),
        ("padding", padding, 0),
        ("output_padding", output_padding, 0),
    ):
        if value < least:
            raise RuntimeError(f"conv_transpose1d: {name} is {value}: it must be {least} or more")
    if output_padding >= stride and output_padding >= dilation:
        raise RuntimeError(
            f"conv_transpose1d: output_padding is {output_padding}: it must be less than stride ({stride}) or "
            f"dilation ({dilation})"
        )


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
    """Shape of the result; raises where the call is invalid. Sizes may be symbolic."""
    _check_kinds(input, weight, bias)
    _check_shapes(input, weight, bias, groups)
    _check_numbers(stride, padding, output_padding, dilation)
    length = input.shape[-1]
    check(
        length >= 1,
        lambda: f"conv_transpose1d: input has shape {list(input.shape)}: its length must be 1 or more",
    )
    lout = (length - 1) * stride - 2 * padding + dilation * (weight.shape[2] - 1) + output_padding + 1
    check(
        lout >= 0,
        lambda: f"conv_transpose1d: padding is {padding}: it leaves an output length of {lout}, which must be "
        "0 or more",
    )
    return (*input.shape[:-2], weight.shape[1] * groups, lout)


def refusal(error: Exception, *call: Any) -> Exception:
    """The exception to raise for a call that failed with `error`."""
    try:
        input, weight, bias, *given = call
        _check_types(input, weight, bias)
        output_shape(input, weight, bias, *numbers(given))
    except (RuntimeError, TypeError, ValueError) as better:
        return better
    if "out of memory" in str(error) and input.is_cuda:
        return OutOfMemoryError(str(error))
    return error
