"""What PyTorch must know about the operators, next to their kernels: shapes, autocast, vmap. Importing this is enough.

Gradients are in _operators.py."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tconv import _batching, _pytorch, _shapes
from tconv._library import backend
from tconv._operators import MODES, conv1d_op, transposed_op

_library_handle = backend.operators


# --- meta and fake tensors --------------------------------------------------------------------------------


def _transposed_fake(input: Tensor, weight: Tensor, bias: Tensor | None, *numbers: Any) -> Tensor:
    return input.new_empty(_shapes.output_shape(input, weight, bias, *numbers[:5]))


def _conv1d_fake(input: Tensor, weight: Tensor, bias: Tensor | None, *numbers: Any) -> Tensor:
    return input.new_empty(_shapes.conv1d_shape(input, weight, bias, *numbers[:4]))


def _strided_fake(input: Tensor, weight: Tensor, bias: Tensor | None, length: int | None, *numbers: Any) -> Tensor:
    stride, padding, groups, dilation, _ = numbers
    if length is None:
        return _conv1d_fake(input, weight, bias, stride, padding, dilation, groups)
    return input.new_empty((*input.shape[:-2], weight.shape[0], length))


def _weight_fake(
    input: Tensor, grad: Tensor, kernel_size: int, stride: int, padding: int, groups: int, *numbers: Any
) -> Tensor:
    return input.new_empty((input.shape[-2], grad.shape[-2] // groups, kernel_size))


def _bias_fake(grad: Tensor) -> Tensor:
    return grad.new_empty(grad.shape[-2])


def _weight_bias_fake(input: Tensor, grad: Tensor, *numbers: Any) -> tuple[Tensor, Tensor]:
    return _weight_fake(input, grad, *numbers[:-1]), _bias_fake(input if numbers[-1] else grad)


for _name, _fake in (
    ("conv_transpose1d", _transposed_fake),
    ("conv1d", _conv1d_fake),
    ("forward", _transposed_fake),
    ("strided", _strided_fake),
    ("weight", _weight_fake),
    ("bias", _bias_fake),
    ("weight_bias", _weight_bias_fake),
):
    _pytorch.register_fake(_library_handle, _name, _fake)
for _name in ("forward", "strided", "weight", "bias", "weight_bias"):
    _pytorch.register_no_autograd(_library_handle, _name)


# --- autocast ---------------------------------------------------------------------------------------------


def _register_autocast(name: str, device: str, key: str) -> None:
    """As PyTorch's own operator: floating-point operands other than float64 take the autocast dtype."""
    op = getattr(torch.ops.tconv, name).default

    def cast(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        if tensor is None or not tensor.is_floating_point() or tensor.dtype is torch.float64:
            return tensor
        return tensor.to(dtype) if tensor.device.type == device else tensor

    def kernel(input: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
        dtype = _pytorch.autocast_dtype(device)
        with _pytorch.without_autocast():
            return op(cast(input, dtype), cast(weight, dtype), cast(bias, dtype), *rest)  # type: ignore[no-any-return]

    _library_handle.impl(name, kernel, key)


for _name in ("conv_transpose1d", "conv1d", "forward"):
    _register_autocast(_name, "cpu", "AutocastCPU")
    _register_autocast(_name, "cuda", "AutocastCUDA")


# --- vmap over the operators themselves -------------------------------------------------------------------
# These are called below the transform, where an autograd.Function has no level of its own.


def _vmap_of_transposed(info: Any, in_dims: Any, *call: Any) -> tuple[Tensor, int]:
    input, weight, bias, stride, padding, output_padding, groups, dilation, precision = call
    word = precision if isinstance(precision, str) else MODES[precision]

    def run(input: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
        return transposed_op(input, weight, bias, stride, padding, output_padding, groups, dilation, word)  # type: ignore[no-any-return]

    return _batching.convolution(run, info.batch_size, in_dims, input, weight, bias, groups, transposed=True)


def _vmap_of_conv1d(info: Any, in_dims: Any, *call: Any) -> tuple[Tensor, int]:
    input, weight, bias, stride, padding, dilation, groups, precision = call

    def run(input: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
        return conv1d_op(input, weight, bias, stride, padding, dilation, groups, precision)  # type: ignore[no-any-return]

    return _batching.convolution(run, info.batch_size, in_dims, input, weight, bias, groups, transposed=False)


_pytorch.register_vmap(_library_handle, "conv_transpose1d", _vmap_of_transposed)
_pytorch.register_vmap(_library_handle, "forward", _vmap_of_transposed)
_pytorch.register_vmap(_library_handle, "conv1d", _vmap_of_conv1d)
