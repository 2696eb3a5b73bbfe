"""What Python checks in a call by itself: the types of the arguments and the kinds of the tensors. Rules about shapes
are the library's (_shapes.py)."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# In the order of tconv_dtype.
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


def check_kinds(who: str, input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
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
