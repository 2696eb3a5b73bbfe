"""tconv.conv_transpose1d, tconv.conv1d and the float32 mode."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import handle_torch_function, has_torch_function

from tconv import _operators, _registrations, _rules, _shapes  # noqa: F401
from tconv._library import backend
from tconv._pytorch import autocast_enabled as _autocast_enabled
from tconv._pytorch import convolution_precision, is_compiling, traced
from tconv._pytorch import is_grad_enabled as _is_grad_enabled
from tconv._pytorch import transforms_active as _transforms_active

_IntOrOne = int | list[int] | tuple[int, ...]

_float32 = torch.float32
_single = _rules.single
_transposed_op = torch.ops.tconv.conv_transpose1d.default
_conv1d_op = torch.ops.tconv.conv1d.default
_forward = backend.forward
_strided = backend.strided
_recorded_transposed = _operators.recorded_transposed
_recorded_conv1d = _operators.recorded_conv1d
_MODES = ("ieee", "tf32", "auto")


def precision(device: torch.device | str = "cuda") -> str:
    """How float32 products are made now on `device`: "ieee" or "tf32".

    On a GPU it is PyTorch's own setting for convolutions, read at every call:
    torch.backends.cudnn.conv.fp32_precision, else torch.backends.cudnn.fp32_precision, else
    torch.backends.fp32_precision; before PyTorch 2.9, torch.backends.cudnn.allow_tf32. On a CPU it is always "ieee".
    """
    return "tf32" if torch.device(device).type == "cuda" and _ambient_precision() == 1 else "ieee"


def _ambient_precision() -> int:
    return 1 if convolution_precision() == "tf32" else 0


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _IntOrOne = 1,
    padding: _IntOrOne = 0,
    output_padding: _IntOrOne = 0,
    groups: int = 1,
    dilation: _IntOrOne = 1,
) -> Tensor:
    """Transposed 1-D convolution: arguments and meaning of torch.nn.functional.conv_transpose1d.

    input (N, Cin, L) or (Cin, L), weight (Cin, Cout/groups, K), bias (Cout). The result is contiguous:
    (N, Cout, Lout) with Lout = (L-1)*stride - 2*padding + dilation*(K-1) + output_padding + 1.
    """
    # A call costs a few microseconds, so the order here is: what is cheap and usual first.
    if type(stride) is not int:
        stride = _single(stride, "stride")
    if type(padding) is not int:
        padding = _single(padding, "padding")
    if type(output_padding) is not int:
        output_padding = _single(output_padding, "output_padding")
    if type(groups) is not int:
        groups = _single(groups, "groups")
    if type(dilation) is not int:
        dilation = _single(dilation, "dilation")
    if is_compiling():  # one operator in graphs, which resolves the float32 mode when it runs
        return _transposed_op(input, weight, bias, stride, padding, output_padding, groups, dilation, "auto")
    try:
        recorded = traced()
        mode = 2 if recorded else _ambient_precision() if input.is_cuda and input.dtype is _float32 else 0
        if forward_ad._current_level >= 0 or _transforms_active():
            return _operators.transformed(
                input, weight, bias, stride, padding, output_padding, groups, dilation, mode
            )
        if recorded or _autocast_enabled():
            return _transposed_op(
                input, weight, bias, stride, padding, output_padding, groups, dilation, _MODES[mode]
            )
        if _is_grad_enabled() and (
            input.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
        ):
            return _recorded_transposed(  # type: ignore[no-any-return]
                input, weight, bias, (stride, padding, output_padding, groups, dilation, mode)
            )
        return _forward(input, weight, bias, stride, padding, output_padding, groups, dilation, mode)
    except Exception as error:
        if not isinstance(input, Tensor) and has_torch_function((input,)):  # torch.fx's stand-ins
            return handle_torch_function(  # type: ignore[no-any-return]
                conv_transpose1d, (input,), input, weight, bias, stride, padding, output_padding, groups, dilation
            )
        raise _shapes.refusal(
            error, input, weight, bias, stride, padding, output_padding, groups, dilation
        ) from None


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _IntOrOne = 1,
    padding: _IntOrOne | str = 0,
    dilation: _IntOrOne = 1,
    groups: int = 1,
) -> Tensor:
    """1-D convolution: arguments and meaning of torch.nn.functional.conv1d.

    input (N, Cin, L) or (Cin, L), weight (Cout, Cin/groups, K), bias (Cout); padding a number, 'same' or 'valid'.
    The result is contiguous: (N, Cout, Lout) with Lout = (L + 2*padding - dilation*(K-1) - 1) // stride + 1.
    """
    if type(padding) is not int:
        if isinstance(padding, str):
            input, padding = _rules.padded_by_name(input, weight, padding, stride, dilation)
        else:
            padding = _single(padding, "padding", "conv1d")
    if type(stride) is not int:
        stride = _single(stride, "stride", "conv1d")
    if type(dilation) is not int:
        dilation = _single(dilation, "dilation", "conv1d")
    if type(groups) is not int:
        groups = _single(groups, "groups", "conv1d")
    if is_compiling():
        return _conv1d_op(input, weight, bias, stride, padding, dilation, groups, "auto")
    try:
        recorded = traced()
        mode = 2 if recorded else _ambient_precision() if input.is_cuda and input.dtype is _float32 else 0
        if forward_ad._current_level >= 0 or _transforms_active():
            return _operators.transformed_conv1d(input, weight, bias, stride, padding, dilation, groups, mode)
        if recorded or _autocast_enabled():
            return _conv1d_op(input, weight, bias, stride, padding, dilation, groups, _MODES[mode])
        if _is_grad_enabled() and (
            input.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
        ):
            return _recorded_conv1d(  # type: ignore[no-any-return]
                input, weight, bias, (stride, padding, dilation, groups, mode)
            )
        return _strided(input, weight, bias, None, stride, padding, groups, dilation, mode)
    except Exception as error:
        if not isinstance(input, Tensor) and has_torch_function((input,)):
            return handle_torch_function(  # type: ignore[no-any-return]
                conv1d, (input,), input, weight, bias, stride, padding, dilation, groups
            )
        raise _shapes.conv1d_refusal(error, input, weight, bias, stride, padding, dilation, groups) from None
