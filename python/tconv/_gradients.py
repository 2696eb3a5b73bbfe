"""Gradients of a call, differentiable in their turn, in any order and under every transform.

    y = T(x, w)     dx = I(g, w)     dw = W(g, x)     db = sum of g            g: the gradient of y

T, I and W are the three ways to contract one trilinear form, so each one's derivatives are the other two: with
u the gradient of dx, that of g is T(u, w) and that of w is W(g, u). A double backward is therefore made of these
functions and of tconv's own forward, and never of PyTorch's, which hands transposed operands to cuDNN.

_input_gradient and _weight_gradient alone compute: today with PyTorch's convolution_backward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Call(NamedTuple):
    """What a call has beside its operands. precision: index into "ieee", "tf32", "auto"."""

    stride: int
    padding: int
    output_padding: int
    groups: int
    dilation: int
    precision: int

    def split(self, size: int) -> Call:
        """`size` calls with operands of their own, as one: each has its own groups."""
        return self._replace(groups=self.groups * size)


# T(x, w) without bias, differentiable; _operators sets it.
transposed: Callable[[Tensor, Tensor, Call], Tensor]


# --- arithmetic -------------------------------------------------------------------------------------------


def _dense(tensor: Tensor) -> Tensor:
    """With the strides of a fresh tensor, also where a size is 1: others make cuDNN take another memory format,
    for which it may find no engine, or one that faults ("misaligned address")."""
    expected, step = [], 1
    for size in reversed(tensor.shape):
        expected.insert(0, step)
        step = step * size if size > 1 else step
    if list(tensor.stride()) == expected:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _unread(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Stands for an operand whose values are not read."""
    if like.device.type == "cpu":
        return like.new_zeros(()).expand(shape)
    return like.new_empty(shape)


def _convolution_backward(
    grad: Tensor, input: Tensor | None, weight: Tensor | None, call: Call, shape: tuple[int, ...]
) -> Tensor:
    """The gradient of the operand that is None, which has `shape`."""
    dtype, device = grad.dtype, grad.device.type
    # On the CPU, PyTorch 2.11's 16-bit gradients are wrong, or crash, or do not return, depending on the
    # shape: there the arithmetic is float32's, rounded once at the end.
    widen = device == "cpu" and dtype in (torch.bfloat16, torch.float16)
    operands = [_unread(grad, shape) if t is None else t for t in (grad, input, weight)]
    if widen:
        operands = [t.float() for t in operands]
    if device != "cpu":
        operands = [_dense(t) for t in operands]
    result = torch.ops.aten.convolution_backward.default(
        *operands, None, [call.stride], [call.padding], [call.dilation], True, [call.output_padding], call.groups,
        [input is None, weight is None, False],
    )[0 if input is None else 1]  # fmt: skip
    return result.to(dtype) if widen else result


def _input_gradient(grad: Tensor, weight: Tensor, call: Call, length: int) -> Tensor:
    shape = (*grad.shape[:-2], weight.shape[0], length)
    if grad.shape[-1] == 0:  # cuDNN refuses an output without positions; nothing flows back from it
        return grad.new_zeros(shape)
    if grad.dim() == 2:
        return _convolution_backward(grad[None], None, weight, call, (1, *shape))[0]
    return _convolution_backward(grad, None, weight, call, shape)


def _weight_gradient(grad: Tensor, input: Tensor, call: Call, kernel_size: int) -> Tensor:
    shape = (input.shape[-2], grad.shape[-2] // call.groups, kernel_size)
    if grad.shape[-1] == 0:
        return grad.new_zeros(shape)
    if grad.dim() == 2:
        grad, input = grad[None], input[None]
    return _convolution_backward(grad, input, None, call, shape)


def bias_gradient(grad: Tensor) -> Tensor:
    return grad.sum((0, 2) if grad.dim() == 3 else 1)


# --- what autograd knows of it ----------------------------------------------------------------------------


class InputGradient(torch.autograd.Function):
    """I(grad, weight): of x, whose length the shapes alone do not say."""

    @staticmethod
    def forward(grad: Tensor, weight: Tensor, call: Call, length: int) -> Tensor:  # type: ignore[override]
        return _input_gradient(grad, weight, call, length)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])
        ctx.rest = inputs[2:]

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (grad, weight), (call, _) = ctx.saved_tensors, ctx.rest
        of_grad = transposed(change, weight, call) if ctx.needs_input_grad[0] else None
        of_weight = None
        if ctx.needs_input_grad[1]:
            of_weight = WeightGradient.apply(grad, change, call, weight.shape[-1])
        return of_grad, of_weight, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor | None:  # type: ignore[override]
        return _product_rule(InputGradient, ctx, tangents)

    @staticmethod
    def vmap(info: Any, in_dims: Any, grad: Tensor, weight: Tensor, call: Call, length: int) -> tuple[Tensor, int]:
        size = info.batch_size
        grad, unbatched = _to_batch(grad, in_dims[0], size)
        if in_dims[1] is None:  # a larger batch
            result = InputGradient.apply(grad.flatten(0, 1), weight, call, length)
            result = result.unflatten(0, (size, grad.shape[1]))
        else:
            own = weight.movedim(in_dims[1], 0)
            result = InputGradient.apply(_to_groups(grad), own.flatten(0, 1), call.split(size), length)
            result = result.unflatten(1, (size, own.shape[1])).transpose(0, 1)
        return (result.squeeze(1) if unbatched else result), 0


class WeightGradient(torch.autograd.Function):
    """W(grad, input): of the weight, whose kernel size the shapes alone do not say."""

    @staticmethod
    def forward(grad: Tensor, input: Tensor, call: Call, kernel_size: int) -> Tensor:  # type: ignore[override]
        return _weight_gradient(grad, input, call, kernel_size)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])
        ctx.rest = inputs[2:]

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (grad, input), (call, _) = ctx.saved_tensors, ctx.rest
        of_grad = transposed(input, change, call) if ctx.needs_input_grad[0] else None
        of_input = None
        if ctx.needs_input_grad[1]:
            of_input = InputGradient.apply(grad, change, call, input.shape[-1])
        return of_grad, of_input, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor | None:  # type: ignore[override]
        return _product_rule(WeightGradient, ctx, tangents)

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, grad: Tensor, input: Tensor, call: Call, kernel_size: int
    ) -> tuple[Tensor, int]:
        size = info.batch_size
        grad, input = (_to_batch(t, dim, size)[0] for t, dim in zip((grad, input), in_dims[:2], strict=True))
        result = WeightGradient.apply(_to_groups(grad), _to_groups(input), call.split(size), kernel_size)
        return result.unflatten(0, (size, input.shape[2])), 0


def _product_rule(function: Any, ctx: Any, tangents: tuple[Any, ...]) -> Tensor | None:
    first, second = ctx.saved_tensors
    parts = []
    if tangents[0] is not None:
        parts.append(function.apply(tangents[0], second, *ctx.rest))
    if tangents[1] is not None:
        parts.append(function.apply(first, tangents[1], *ctx.rest))
    return sum(parts[1:], parts[0]) if parts else None


def _to_batch(tensor: Tensor, dim: int | None, size: int) -> tuple[Tensor, bool]:
    """(size, n, channels, length), and whether the examples had no n."""
    tensor = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    unbatched = tensor.dim() == 3
    return (tensor.unsqueeze(1) if unbatched else tensor), unbatched


def _to_groups(tensor: Tensor) -> Tensor:
    """(n, size*channels, length): each example's channels are groups of their own."""
    return tensor.transpose(0, 1).flatten(1, 2)
