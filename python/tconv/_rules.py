"""What a valid call is: one set of rules for meta and fake tensors and for the messages of refusals.

The binding has its own checks before it touches memory. When it refuses, refusal() finds the rule that was broken and
states it in the terms of the Python call, with the exception type that PyTorch uses.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tconv._pytorch import OutOfMemoryError, check

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_TRANSPOSED = ("stride", "padding", "output_padding", "groups", "dilation")
_CONV1D = ("stride", "padding", "dilation", "groups")


def single(value: Any, name: str, who: str = "conv_transpose1d") -> int:
    """The number that `value` stands for: an int, or a list or tuple of one, as PyTorch takes it."""
    if isinstance(value, (list, tuple, torch.Size)):
        if name == "groups":
            raise TypeError(f"{who}(): groups must be an int, not {type(value).__name__}")
        if len(value) != 1:
            raise RuntimeError(f"{who}: {name} is {tuple(value)}: it must be one number, or a list of one")
        value = value[0]
    if isinstance(value, torch.SymInt):
        return value  # type: ignore[return-value]
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{who}(): {name} must be an int, not {type(value).__name__}") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{who}: {name} is {number}: it does not fit in 64 bits")
    return number


def numbers(values: Iterable[Any]) -> tuple[int, ...]:
    """stride, padding, output_padding, groups and dilation, each by single()."""
    return tuple(single(value, name) for value, name in zip(values, _TRANSPOSED, strict=True))


def conv1d_numbers(values: Iterable[Any]) -> tuple[int, ...]:
    """stride, padding, dilation and groups, each by single()."""
    return tuple(single(value, name, "conv1d") for value, name in zip(values, _CONV1D, strict=True))


def check_types(who: str, input: Any, weight: Any, bias: Any) -> None:
    for name, value in (("input", input), ("weight", weight), ("bias", bias)):
        if not isinstance(value, Tensor) and not (name == "bias" and value is None):
            raise TypeError(f"{who}(): {name} must be a Tensor, not {type(value).__name__}")


def _check_kinds(who: str, input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    tensors = [("input", input), ("weight", weight)] + ([] if bias is None else [("bias", bias)])
    for name, tensor in tensors:
        if tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided:
            kind = "nested" if tensor.is_nested else "quantised" if tensor.is_quantized else "sparse"
            if str(tensor.layout) == "torch._mkldnn":
                kind = "oneDNN"
            raise NotImplementedError(f"{who}: {name} is a {kind} tensor: it must be dense")
    if input.dtype not in DTYPES:
        raise NotImplementedError(
            f"{who}: input is {input.dtype}: it must be float32, float64, float16 or bfloat16"
        )
    for name, tensor in tensors[1:]:
        if tensor.dtype != input.dtype:
            raise RuntimeError(
                f"{who}: {name} is {tensor.dtype} and input is {input.dtype}: they must be the same"
            )
        if tensor.device != input.device:
            raise RuntimeError(
                f"{who}: {name} is on {tensor.device} and input is on {input.device}: they must be on one device"
            )


def _check_shapes(who: str, input: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> None:
    transposed = who == "conv_transpose1d"
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"{who}: input has shape {list(input.shape)}: it must be (batch, channels, length) or "
            "(channels, length)"
        )
    if weight.dim() != 3:
        meant = "in_channels, out_channels/groups" if transposed else "out_channels, in_channels/groups"
        raise RuntimeError(f"{who}: weight has shape {list(weight.shape)}: it must be ({meant}, kernel_size)")
    if groups < 1:
        raise RuntimeError(f"{who}: groups is {groups}: it must be 1 or more")
    outer, inner = weight.shape[0], weight.shape[1] * groups
    cin, cout = (outer, inner) if transposed else (inner, outer)
    if input.shape[-2] != cin:
        raise RuntimeError(
            f"{who}: input has {input.shape[-2]} channels (shape {list(input.shape)}): weight of shape "
            f"{list(weight.shape)}{'' if groups == 1 else f' and groups {groups}'} needs {cin}"
        )
    if outer % groups != 0:
        side = "input" if transposed else "output"
        raise RuntimeError(f"{who}: groups is {groups}: it must divide the {outer} {side} channels")
    if 0 in weight.shape:
        raise RuntimeError(f"{who}: weight has shape {list(weight.shape)}: it must not be empty")
    if bias is not None and (bias.dim() != 1 or bias.shape[0] != cout):
        raise RuntimeError(
            f"{who}: bias has shape {list(bias.shape)}: weight of shape {list(weight.shape)} and groups {groups} "
            f"need [{cout}]"
        )


def _check_numbers(who: str, stride: int, padding: int, dilation: int, output_padding: int = 0) -> None:
    for name, value, least in (
        ("stride", stride, 1),
        ("dilation", dilation, 1),
        ("padding", padding, 0),
        ("output_padding", output_padding, 0),
    ):
        if value < least:
            raise RuntimeError(f"{who}: {name} is {value}: it must be {least} or more")
    if output_padding >= stride and output_padding >= dilation:
        raise RuntimeError(
            f"{who}: output_padding is {output_padding}: it must be less than stride ({stride}) or dilation "
            f"({dilation})"
        )


def _check_length(who: str, input: Tensor) -> None:
    check(
        input.shape[-1] >= 1,
        lambda: f"{who}: input has shape {list(input.shape)}: its length must be 1 or more",
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
    """Shape of conv_transpose1d's result; raises where the call is invalid. Sizes may be symbolic."""
    who = "conv_transpose1d"
    _check_kinds(who, input, weight, bias)
    _check_shapes(who, input, weight, bias, groups)
    _check_numbers(who, stride, padding, dilation, output_padding)
    _check_length(who, input)
    lout = (input.shape[-1] - 1) * stride - 2 * padding + dilation * (weight.shape[2] - 1) + output_padding + 1
    check(
        lout >= 0,
        lambda: f"{who}: padding is {padding}: it leaves an output length of {lout}, which must be 0 or more",
    )
    return (*input.shape[:-2], weight.shape[1] * groups, lout)


def conv1d_length(length: int, kernel_size: int, stride: int, padding: int, dilation: int) -> int:
    return (length + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1


def conv1d_shape(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int, dilation: int, groups: int
) -> Sequence[int]:
    """The same of conv1d."""
    who = "conv1d"
    check_strided(input, weight, bias, stride, padding, dilation, groups)
    _check_length(who, input)
    lout = conv1d_length(input.shape[-1], weight.shape[2], stride, padding, dilation)
    check(
        lout >= 1,
        lambda: (
            f"{who}: input has length {input.shape[-1]}: with padding {padding} it is shorter than the kernel, "
            f"which reaches over {dilation * (weight.shape[2] - 1) + 1}"
        ),
    )
    return (*input.shape[:-2], weight.shape[0], lout)


def check_strided(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int, dilation: int, groups: int
) -> None:
    """For the strided product, whose length is given: refuses what conv1d refuses, except for lengths."""
    who = "conv1d"
    _check_kinds(who, input, weight, bias)
    _check_shapes(who, input, weight, bias, groups)
    _check_numbers(who, stride, padding, dilation)


def padded_by_name(input: Tensor, weight: Tensor, padding: str, stride: Any, dilation: Any) -> tuple[Tensor, int]:
    """What conv1d's 'same' and 'valid' mean: an input, and the padding at both of its ends."""
    if padding == "valid":
        return input, 0
    if padding != "same":
        raise RuntimeError(f"conv1d: padding is {padding!r}: it must be a number, 'same' or 'valid'")
    if single(stride, "stride", "conv1d") != 1:
        raise RuntimeError(f"conv1d: padding is 'same' and stride is {stride}: 'same' needs a stride of 1")
    total = single(dilation, "dilation", "conv1d") * (weight.shape[-1] - 1)
    return (F.pad(input, (0, 1)) if total % 2 else input), total // 2  # the odd one goes to the right


def refusal(error: Exception, *call: Any) -> Exception:
    """The exception to raise for a conv_transpose1d that failed with `error`."""
    return _refusal(error, "conv_transpose1d", output_shape, numbers, *call)


def conv1d_refusal(error: Exception, *call: Any) -> Exception:
    """The same of conv1d."""
    return _refusal(error, "conv1d", conv1d_shape, conv1d_numbers, *call)


def _refusal(
    error: Exception, who: str, rule: Callable[..., Any], named: Callable[..., Any],
    input: Any, weight: Any, bias: Any, *given: Any,
) -> Exception:  # fmt: skip
    try:
        check_types(who, input, weight, bias)
        rule(input, weight, bias, *named(given))
    except (RuntimeError, TypeError, ValueError) as better:
        return better
    if "out of memory" in str(error) and input.is_cuda:
        return OutOfMemoryError(str(error))
    return error
