"""How calls that need a gradient, a graph or a transform reach the operators.

What else PyTorch must know about them (shapes, autocast, vmap) is in _registrations.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tconv import _batching, _gradients, _pytorch, _shapes
from tconv._gradients import Call, conv1d_call
from tconv._library import backend  # the operators exist once it is loaded

transposed_op = torch.ops.tconv.conv_transpose1d.default
conv1d_op = torch.ops.tconv.conv1d.default
_forward = backend.forward
_strided = backend.strided
MODES = ("ieee", "tf32", "auto")  # the int of a product's precision indexes this

_FUNCTIONALIZE = torch._C._functorch.TransformType.Functionalize

_library_handle = backend.operators


# --- gradients: what both kinds of layer save and compute -------------------------------------------------


def _save(ctx: Any, input: Tensor, weight: Tensor) -> None:
    """The gradient of the input reads only the weight, and the gradient of the weight only the input."""
    needs = ctx.needs_input_grad
    ctx.save_for_backward(input if needs[1] else None, weight if needs[0] else None)
    ctx.lengths = (input.shape[-1], weight.shape[-1])


def _weight_and_bias(
    needs: tuple[bool, ...], grad: Tensor, input: Tensor, call: Call, kernel_size: int, of_input: bool
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of weight and bias that are needed, in one call where both are."""
    if needs[1] and needs[2]:
        return _gradients.weight_and_bias(grad, input, call, kernel_size, of_input)
    return (
        _gradients.weight_product(grad, input, call, kernel_size) if needs[1] else None,
        _gradients.bias_gradient(input if of_input else grad) if needs[2] else None,
    )


def _transposed_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    (input, weight), (length, kernel_size), call = ctx.saved_tensors, ctx.lengths, ctx.call
    needs = ctx.needs_input_grad
    d_input = _gradients.strided_product(grad, weight, call, length) if needs[0] else None
    return d_input, *_weight_and_bias(needs, grad, input, call, kernel_size, of_input=False)


def _conv1d_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """A strided product of the input, which is y of the transposed convolution."""
    (input, weight), (length, kernel_size) = ctx.saved_tensors, ctx.lengths
    stride, padding, dilation, groups, mode = ctx.call
    call = conv1d_call(length, grad.shape[-1], kernel_size, stride, padding, dilation, groups, mode)
    needs = ctx.needs_input_grad
    d_input = _gradients.transposed(grad, weight, call) if needs[0] else None
    return d_input, *_weight_and_bias(needs, input, grad, call, kernel_size, of_input=True)


# --- eager calls ------------------------------------------------------------------------------------------
# Through the registration below, which serves compiled and exported graphs and torch.func, a call costs four times
# as much. torch.autograd.Function.apply checks in Python whether a transform is active. The callers have checked
# that already, so they use the apply in C++.


class _RecordedTransposed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None, call: Any) -> Tensor:  # type: ignore[override]
        _save(ctx, input, weight)
        ctx.call = call
        return _forward(input, weight, bias, *call)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        ctx.call = Call(*ctx.call)
        return (*_transposed_backward(ctx, grad), None)


class _RecordedConv1d(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None, call: Any
    ) -> Tensor:
        _save(ctx, input, weight)
        ctx.call = call
        stride, padding, dilation, groups, mode = call
        return _strided(input, weight, bias, None, stride, padding, groups, dilation, mode)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return (*_conv1d_backward(ctx, grad), None)


# (input, weight, bias, (stride, padding, output_padding, groups, dilation, mode))
recorded_transposed = super(torch.autograd.Function, _RecordedTransposed).apply
# (input, weight, bias, (stride, padding, dilation, groups, mode))
recorded_conv1d = super(torch.autograd.Function, _RecordedConv1d).apply


# --- compiled and exported graphs -------------------------------------------------------------------------


def _transposed_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, weight, _, *numbers, precision = inputs
    _save(ctx, input, weight)
    mode = precision if isinstance(precision, int) else MODES.index(precision)
    ctx.call = Call(*numbers, mode)  # type: ignore[call-arg]


def _conv1d_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, weight, _, *numbers, precision = inputs
    _save(ctx, input, weight)
    ctx.call = (*numbers, MODES.index(precision))


_pytorch.register_autograd(
    _library_handle,
    "conv_transpose1d",
    lambda ctx, grad: (*_transposed_backward(ctx, grad), *[None] * 6),
    _transposed_context,
)
_pytorch.register_autograd(
    _library_handle, "conv1d", lambda ctx, grad: (*_conv1d_backward(ctx, grad), *[None] * 5), _conv1d_context
)


# --- torch.func and forward mode --------------------------------------------------------------------------


class Transformed(torch.autograd.Function):
    """conv_transpose1d for torch.func's transforms, nested in any order, and for forward-mode gradients; the
    registration above does not take nested ones. The operation is linear in each of its operands. (conv1d is
    _gradients.Strided.)"""

    @staticmethod
    def forward(*call: Any) -> Tensor:  # type: ignore[override]
        output: Tensor = transposed_op(*call[:-1], MODES[call[-1]])
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _transposed_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[0], inputs[1])
        ctx.rest = inputs[3:]
        ctx.output_shape = output.shape

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return (*_transposed_backward(ctx, grad), *[None] * 6)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor | None:  # type: ignore[override]
        (input, weight), (d_input, d_weight, d_bias) = ctx.saved_tensors, tangents[:3]
        parts = []
        if d_input is not None:
            parts.append(transformed(d_input, weight, None, *ctx.rest))
        if d_weight is not None:
            parts.append(transformed(input, d_weight, None, *ctx.rest))
        if d_bias is not None:
            parts.append(d_bias[:, None].expand(ctx.output_shape))
        return sum(parts[1:], parts[0]) if parts else None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], input: Tensor, weight: Tensor, bias: Tensor | None,
        stride: int, padding: int, output_padding: int, groups: int, dilation: int, mode: int,
    ) -> tuple[Tensor, int]:  # fmt: skip
        def run(input: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
            return transformed(input, weight, bias, stride, padding, output_padding, groups, dilation, mode)

        return _batching.convolution(run, info.batch_size, in_dims, input, weight, bias, groups, transposed=True)


def _functionalizing() -> bool:
    """Whether torch.func.functionalize is the innermost transform: it accepts only operators."""
    return _pytorch.transforms_active() and torch._C._functorch.peek_interpreter_stack().key() == _FUNCTIONALIZE


def _in_transform() -> bool:
    return _pytorch.transforms_active() or torch.autograd.forward_ad._current_level >= 0


def transformed(*call: Any) -> Tensor:
    """A call inside a transform: input, weight, bias, five numbers, the mode's number."""
    if _in_transform() and not _functionalizing():
        _pytorch.prepare_transform()
        return Transformed.apply(*call)  # type: ignore[no-any-return]
    return transposed_op(*call[:-1], MODES[call[-1]])  # type: ignore[no-any-return]


def transformed_conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None,
    stride: int, padding: int, dilation: int, groups: int, mode: int,
) -> Tensor:  # fmt: skip
    if not _in_transform() or _functionalizing():
        return conv1d_op(input, weight, bias, stride, padding, dilation, groups, MODES[mode])  # type: ignore[no-any-return]
    _pytorch.prepare_transform()
    length = _shapes.conv1d_shape(input, weight, bias, stride, padding, dilation, groups)[-1]
    call = conv1d_call(input.shape[-1], length, weight.shape[-1], stride, padding, dilation, groups, mode)
    return _gradients.Strided.apply(input, weight, bias, call, length)  # type: ignore[no-any-return]


def _transposed(input: Tensor, weight: Tensor, call: Call) -> Tensor:
    if not _gradients.recorded():
        return _forward(input, weight, None, *call)
    with _pytorch.without_autocast():  # in a backward, operands have the dtypes that the call had
        return transformed(input, weight, None, *call)


_gradients.transposed = _transposed
