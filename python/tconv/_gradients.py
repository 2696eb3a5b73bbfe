"""The three products of a 1-D convolution, differentiable in any order and under every transform.

    y = T(x, w)     transposed: conv_transpose1d, and conv1d's input gradient
    x = S(y, w)     strided: conv1d, and conv_transpose1d's input gradient
    w = W(y, x)     weight: both weight gradients

They are the three ways to contract one trilinear form, so the derivatives of each are the other two. A double backward
therefore uses the same kernels. transposed(), strided_product() and weight_product() choose between a call that will be
differentiated and the plain product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tconv import _batching, _shapes
from tconv._library import backend
from tconv._pytorch import is_grad_enabled, transforms_active


class Call(NamedTuple):
    """The numbers of a product, next to its operands. precision: index into "ieee", "tf32", "auto"."""

    stride: int
    padding: int
    output_padding: int
    groups: int
    dilation: int
    precision: int


def conv1d_call(
    input_length: int, output_length: int, kernel_size: int,
    stride: int, padding: int, dilation: int, groups: int, precision: int,
) -> Call:  # fmt: skip
    """The output_padding of the transposed convolution whose input has conv1d's output length."""
    least = _shapes.transposed_length(output_length, kernel_size, stride, padding, 0, dilation)
    # With a stride of 1 there is no remainder, and a symbolic length is not needed.
    return Call(stride, padding, 0 if stride == 1 else input_length - least, groups, dilation, precision)


# T(x, w) without bias, differentiable; _operators sets it.
transposed: Callable[[Tensor, Tensor, Call], Tensor]


def recorded() -> bool:
    """Whether the present computation may be differentiated or transformed."""
    return is_grad_enabled() or transforms_active() or forward_ad._current_level >= 0


# --- the products themselves ------------------------------------------------------------------------------


def _strided(input: Tensor, weight: Tensor, bias: Tensor | None, call: Call, length: int) -> Tensor:
    return backend.strided(
        input, weight, bias, length, call.stride, call.padding, call.groups, call.dilation, call.precision
    )


def _weight(grad: Tensor, input: Tensor, call: Call, kernel_size: int) -> Tensor:
    return backend.weight(
        input, grad, kernel_size, call.stride, call.padding, call.groups, call.dilation, call.precision
    )


def _weight_bias(grad: Tensor, input: Tensor, call: Call, kernel_size: int, of_input: bool) -> tuple[Tensor, Tensor]:
    return backend.weight_bias(
        input, grad, kernel_size, call.stride, call.padding, call.groups, call.dilation, call.precision, of_input
    )


def strided_product(grad: Tensor, weight: Tensor, call: Call, length: int) -> Tensor:
    """S(grad, weight), of this length."""
    if recorded():
        return Strided.apply(grad, weight, None, call, length)  # type: ignore[no-any-return]
    return _strided(grad, weight, None, call, length)


def weight_product(grad: Tensor, input: Tensor, call: Call, kernel_size: int) -> Tensor:
    """W(grad, input), of this kernel size."""
    if recorded():
        return Weight.apply(grad, input, call, kernel_size)  # type: ignore[no-any-return]
    return _weight(grad, input, call, kernel_size)


def weight_and_bias(
    grad: Tensor, input: Tensor, call: Call, kernel_size: int, of_input: bool
) -> tuple[Tensor, Tensor]:
    """W(grad, input) and, from the same call, the sum over batch and length of grad, or of input (of_input), which is
    the gradient of a conv1d's output."""
    if recorded():
        return WeightBias.apply(grad, input, call, kernel_size, of_input)  # type: ignore[no-any-return]
    return _weight_bias(grad, input, call, kernel_size, of_input)


def bias_gradient(grad: Tensor) -> Tensor:
    """The gradient of a bias: the sum over batch and length."""
    if recorded():
        return grad.sum((0, 2) if grad.dim() == 3 else 1)
    return backend.bias(grad)


# --- what autograd knows of them --------------------------------------------------------------------------


class Strided(torch.autograd.Function):
    """S(input, weight) + bias; the shapes alone do not determine the length."""

    @staticmethod
    def forward(  # type: ignore[override]
        input: Tensor, weight: Tensor, bias: Tensor | None, call: Call, length: int
    ) -> Tensor:
        return _strided(input, weight, bias, call, length)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])
        ctx.rest = inputs[3:]
        ctx.output_shape = output.shape

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (input, kernel), (call, _), needs = ctx.saved_tensors, ctx.rest, ctx.needs_input_grad
        return (
            transposed(change, kernel, call) if needs[0] else None,
            weight_product(input, change, call, kernel.shape[-1]) if needs[1] else None,
            bias_gradient(change) if needs[2] else None,
            None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor | None:  # type: ignore[override]
        (input, kernel), (d_input, d_kernel, d_bias) = ctx.saved_tensors, tangents[:3]
        parts = []
        if d_input is not None:
            parts.append(Strided.apply(d_input, kernel, None, *ctx.rest))
        if d_kernel is not None:
            parts.append(Strided.apply(input, d_kernel, None, *ctx.rest))
        if d_bias is not None:
            parts.append(d_bias[:, None].expand(ctx.output_shape))
        return sum(parts[1:], parts[0]) if parts else None

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, input: Tensor, weight: Tensor, bias: Tensor | None, call: Call, length: int
    ) -> tuple[Tensor, int]:
        def run(input: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
            result: Tensor = Strided.apply(input, weight, bias, call._replace(groups=groups), length)
            return result

        return _batching.convolution(run, info.batch_size, in_dims, input, weight, bias, call.groups, transposed=False)


class Weight(torch.autograd.Function):
    """W(grad, input); the shapes alone do not determine the kernel size."""

    @staticmethod
    def forward(grad: Tensor, input: Tensor, call: Call, kernel_size: int) -> Tensor:  # type: ignore[override]
        return _weight(grad, input, call, kernel_size)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])
        ctx.rest = inputs[2:]

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return *_weight_changes(ctx, change), None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor | None:  # type: ignore[override]
        return _weight_tangent(ctx, *tangents[:2])

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, grad: Tensor, input: Tensor, call: Call, kernel_size: int
    ) -> tuple[Tensor, int]:
        size = info.batch_size
        grad, input, call = _weight_groups(size, in_dims, grad, input, call)
        return Weight.apply(grad, input, call, kernel_size).unflatten(0, (size, input.shape[1] // size)), 0


# What Weight and WeightBias have in common; ctx.rest begins with the call and the kernel size.


def _weight_changes(ctx: Any, change: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Of grad and input, whose product W changes so."""
    (grad, input), call, needs = ctx.saved_tensors, ctx.rest[0], ctx.needs_input_grad
    return (
        transposed(input, change, call) if needs[0] else None,
        strided_product(grad, change, call, input.shape[-1]) if needs[1] else None,
    )


def _weight_tangent(ctx: Any, d_grad: Tensor | None, d_input: Tensor | None) -> Tensor | None:
    (grad, input), rest = ctx.saved_tensors, ctx.rest[:2]
    parts = []
    if d_grad is not None:
        parts.append(Weight.apply(d_grad, input, *rest))
    if d_input is not None:
        parts.append(Weight.apply(grad, d_input, *rest))
    return sum(parts[1:], parts[0]) if parts else None


def _weight_groups(
    size: int, in_dims: Any, grad: Tensor, input: Tensor, call: Call
) -> tuple[Tensor, Tensor, Call]:
    """A batch of so many products as one, of so many times the groups."""
    grad, input = (_batching.to_groups(t, dim, size) for t, dim in zip((grad, input), in_dims[:2], strict=True))
    return grad, input, call._replace(groups=call.groups * size)


def _plus_rows(gradient: Tensor | None, change: Tensor | None, like: Tensor) -> Tensor | None:
    """The gradient of a tensor whose rows were summed as well: each row's change in every position."""
    if change is None:
        return gradient
    rows = change[:, None]
    return rows.expand(like.shape) if gradient is None else gradient + rows


class WeightBias(torch.autograd.Function):
    """W(grad, input) and the sum over batch and length of grad or of input, which the operator makes in one call."""

    @staticmethod
    def forward(  # type: ignore[override]
        grad: Tensor, input: Tensor, call: Call, kernel_size: int, of_input: bool
    ) -> tuple[Tensor, Tensor]:
        return _weight_bias(grad, input, call, kernel_size, of_input)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])
        ctx.rest = inputs[2:]
        ctx.set_materialize_grads(False)  # a product with zeros costs as much as any other

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, change: Tensor | None, sum_change: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        (grad, input), of_input, needs = ctx.saved_tensors, ctx.rest[2], ctx.needs_input_grad
        d_grad, d_input = (None, None) if change is None else _weight_changes(ctx, change)
        if of_input:
            d_input = _plus_rows(d_input, sum_change, input) if needs[1] else None
        else:
            d_grad = _plus_rows(d_grad, sum_change, grad) if needs[0] else None
        return d_grad, d_input, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Tensor | None, Tensor | None]:  # type: ignore[override]
        (grad, input), (d_grad, d_input), of_input = ctx.saved_tensors, tangents[:2], ctx.rest[2]
        summed = d_input if of_input else d_grad
        return (
            _weight_tangent(ctx, d_grad, d_input),
            input.new_zeros((input if of_input else grad).shape[-2]) if summed is None else bias_gradient(summed),
        )

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, grad: Tensor, input: Tensor, call: Call, kernel_size: int, of_input: bool
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        size = info.batch_size
        grad, input, call = _weight_groups(size, in_dims, grad, input, call)
        weight, sums = WeightBias.apply(grad, input, call, kernel_size, of_input)
        return (weight.unflatten(0, (size, -1)), sums.unflatten(0, (size, -1))), (0, 0)
