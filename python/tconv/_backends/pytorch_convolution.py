"""PyTorch's own kernels, on a GPU, for products whose plan is the slow path there. Below autograd."""

from __future__ import annotations

import torch
from torch import Tensor


def strided(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    length: int,
    stride: int,
    padding: int,
    groups: int,
    dilation: int,
) -> Tensor:
    y = dense(input if input.dim() == 3 else input[None])
    x = torch.ops.aten.convolution.default(
        y, dense(weight), bias, [stride], [padding], [dilation], False, [0], groups
    )
    x = x[..., :length].contiguous()  # longer where output_padding is a stride or more
    return x if input.dim() == 3 else x[0]


def weight(
    input: Tensor,
    grad: Tensor,
    output_padding: int,
    kernel_size: int,
    stride: int,
    padding: int,
    groups: int,
    dilation: int,
) -> Tensor:
    x, y = (dense(t if t.dim() == 3 else t[None]) for t in (input, grad))
    unread = x.new_empty(x.shape[1], y.shape[1] // groups, kernel_size)
    result: Tensor = torch.ops.aten.convolution_backward.default(
        y, x, unread, None, [stride], [padding], [dilation], True, [output_padding], groups, [False, True, False]
    )[1]
    return result.contiguous()


def bias(grad: Tensor) -> Tensor:
    return grad.sum((0, 2) if grad.dim() == 3 else 1)


def dense(tensor: Tensor) -> Tensor:
    """With the strides of a new tensor, even for sizes of 1: other strides make cuDNN choose another memory format,
    for which it may find no engine, or one that faults ("misaligned address")."""
    expected: list[int] = []
    step = 1
    for size in reversed(tensor.shape):
        expected.insert(0, step)
        step = step * size if size > 1 else step
    if list(tensor.stride()) == expected:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)
