"""What PyTorch must know of the operators beside their kernels: shapes, gradients, autocast, vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tconv import _gradients, _pytorch, _rules
from tconv._library import backend  # the operators exist once it is loaded

_op = torch.ops.tconv.conv_transpose1d.default
_forward = backend.forward
_MODES = ("ieee", "tf32", "auto")  # the int of `forward` indexes this

_FUNCTIONALIZE = torch._C._functorch.TransformType.Functionalize

_library_handle = backend.operators


# --- meta and fake tensors --------------------------------------------------------------------------------


def _conv_transpose1d_fake(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int,
    padding: int,
    output_padding: int,
    groups: int,
    dilation: int,
    precision: str,
) -> Tensor:
    return input.new_empty(
        _rules.output_shape(input, weight, bias, stride, padding, output_padding, groups, dilation)
    )


def _forward_fake(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int,
    padding: int,
    output_padding: int,
    groups: int,
    dilation: int,
    precision: int,
) -> Tensor:
    return input.new_empty(
        _rules.output_shape(input, weight, bias, stride, padding, output_padding, groups, dilation)
    )


_pytorch.register_fake(_library_handle, "conv_transpose1d", _conv_transpose1d_fake)
_pytorch.register_fake(_library_handle, "forward", _forward_fake)


# --- gradient ---------------------------------------------------------------------------------------------


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, weight, bias, stride, padding, output_padding, groups, dilation, precision = inputs
    # The gradient of the input reads the weight alone, and the other way round.
    needs_input, needs_weight = ctx.needs_input_grad[:2]
    ctx.save_for_backward(input if needs_weight else None, weight if needs_input else None)
    ctx.lengths = (input.shape[-1], weight.shape[-1])
    ctx.output_shape = output.shape
    mode = _MODES.index(precision) if isinstance(precision, str) else precision
    ctx.call = _gradients.Call(stride, padding, output_padding, groups, dilation, mode)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (input, weight), (length, kernel_size) = ctx.saved_tensors, ctx.lengths
    needs_input, needs_weight, needs_bias = ctx.needs_input_grad[:3]
    return (
        _gradients.InputGradient.apply(grad, weight, ctx.call, length) if needs_input else None,
        _gradients.WeightGradient.apply(grad, input, ctx.call, kernel_size) if needs_weight else None,
        _gradients.bias_gradient(grad) if needs_bias else None,
        *[None] * 6,
    )


_pytorch.register_autograd(_library_handle, "conv_transpose1d", _backward, _setup_context)


class Eager(torch.autograd.Function):
    """The same gradient for an eager call. Through the registration above a call costs four times as much
    (61 against 15 us where F.conv_transpose1d takes 11); it stays for compiled and exported graphs and for
    torch.func."""

    @staticmethod
    def forward(ctx: Any, *call: Any) -> Tensor:  # type: ignore[override]
        output: Tensor = _forward(*call)
        _setup_context(ctx, call, output)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return _backward(ctx, grad)


class Transformed(torch.autograd.Function):
    """The same again for torch.func's transforms, nested in any order, and for forward-mode gradients; the
    registration above does not take nested ones. The operation is linear in each of its operands."""

    @staticmethod
    def forward(*call: Any) -> Tensor:  # type: ignore[override]
        output: Tensor = _op(*call[:-1], _MODES[call[-1]])
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[0], inputs[1])
        ctx.rest = inputs[3:]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return _backward(ctx, grad)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor | None:  # type: ignore[override]
        (input, weight), (d_input, d_weight, d_bias) = ctx.saved_tensors, tangents[:3]
        result = None
        if d_input is not None:
            result = transformed(d_input, weight, None, *ctx.rest)
        if d_weight is not None:
            change = transformed(input, d_weight, None, *ctx.rest)
            result = change if result is None else result + change
        if d_bias is not None:
            result = d_bias[:, None].expand(ctx.output_shape) if result is None else result + d_bias[:, None]
        return result

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *call: Any) -> tuple[Tensor, int]:
        return _vmap(info, in_dims, *call)


def transformed(*call: Any) -> Tensor:
    """A call inside a transform: input, weight, bias, five numbers, the mode's number."""
    in_transform = _pytorch.transforms_active()
    if in_transform and torch._C._functorch.peek_interpreter_stack().key() == _FUNCTIONALIZE:
        return _op(*call[:-1], _MODES[call[-1]])  # type: ignore[no-any-return]
    if in_transform or torch.autograd.forward_ad._current_level >= 0:
        _pytorch.prepare_transform()
        return Transformed.apply(*call)  # type: ignore[no-any-return]
    return _op(*call[:-1], _MODES[call[-1]])  # type: ignore[no-any-return]


def _transposed(input: Tensor, weight: Tensor, call: _gradients.Call) -> Tensor:
    with _pytorch.without_autocast():  # in a backward, operands have the dtypes that the call had
        return transformed(input, weight, None, *call)


_gradients.transposed = _transposed


_pytorch.register_no_autograd(_library_handle, "forward")


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


for _each in ("conv_transpose1d", "forward"):
    _register_autocast(_each, "cpu", "AutocastCPU")
    _register_autocast(_each, "cuda", "AutocastCUDA")


# --- vmap -------------------------------------------------------------------------------------------------


def _vmap(
    info: Any,
    in_dims: tuple[int | None, ...],
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int,
    padding: int,
    output_padding: int,
    groups: int,
    dilation: int,
    precision: str | int,
    run: Callable[..., Tensor] = transformed,
) -> tuple[Tensor, int]:
    """One call for the whole batch: a batched input alone goes into N, batched weights into the channels."""
    x_dim, w_dim, b_dim = in_dims[:3]
    mode = _MODES.index(precision) if isinstance(precision, str) else precision
    size = info.batch_size
    x = input if x_dim is None else input.movedim(x_dim, 0)
    unbatched = x.dim() - (x_dim is not None) == 2
    if unbatched:
        x = x.unsqueeze(-3)

    if w_dim is None and b_dim is None:
        n = x.shape[1]
        y = run(x.flatten(0, 1), weight, bias, stride, padding, output_padding, groups, dilation, mode)
        y = y.unflatten(0, (size, n))
        return (y.squeeze(1) if unbatched else y), 0

    w = weight.expand(size, *weight.shape) if w_dim is None else weight.movedim(w_dim, 0)
    b = bias
    if bias is not None:
        b = bias.expand(size, *bias.shape) if b_dim is None else bias.movedim(b_dim, 0)
    cin, cout_g, k = w.shape[1:]
    if x_dim is None:
        # The input is shared: the batch multiplies the outputs of each group, (groups, size, cout/groups).
        w = w.movedim(0, 1).reshape(cin, size * cout_g, k)
        if b is not None:
            b = b.unflatten(1, (groups, cout_g)).movedim(0, 1).reshape(-1)
        y = run(x, w, b, stride, padding, output_padding, groups, dilation, mode)
        y = y.unflatten(1, (groups, size, cout_g)).movedim(2, 0).flatten(2, 3)
    else:
        # Each example has its own weights: more groups.
        x = x.movedim(0, 1).flatten(1, 2)
        b = None if b is None else b.reshape(-1)
        y = run(
            x, w.reshape(size * cin, cout_g, k), b, stride, padding, output_padding, groups * size,
            dilation, mode,
        )  # fmt: skip
        y = y.unflatten(1, (size, groups * cout_g)).movedim(1, 0)
    return (y.squeeze(1) if unbatched else y), 0


def _vmap_of_operator(*arguments: Any) -> tuple[Tensor, int]:
    """Called below the transform, where an autograd.Function finds no level to stand on."""
    return _vmap(*arguments, run=lambda *call: _op(*call[:-1], _MODES[call[-1]]))


_pytorch.register_vmap(_library_handle, "conv_transpose1d", _vmap_of_operator)
_pytorch.register_vmap(_library_handle, "forward", _vmap_of_operator)
