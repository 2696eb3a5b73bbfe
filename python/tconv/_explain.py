"""tconv.explain: which kernel runs a call, and why."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tconv import _functional, _rules, _shapes
from tconv._functional import precision
from tconv._library import backend

_WORDS = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16"}


class _Passes(NamedTuple):
    """A kind of layer: its words for the text of a problem, forward first, and its numbers in order."""

    words: tuple[str, ...]
    numbers: tuple[str, ...]


_TRANSPOSED = _Passes(
    ("", "gx ", "gw ", "gb "), ("stride", "padding", "output_padding", "groups", "dilation")
)
_CONV1D = _Passes(
    ("conv1d ", "conv1d_gx ", "conv1d_gw ", "conv1d_gb "), ("stride", "padding", "dilation", "groups")
)


def explain(what: nn.Module | Callable[..., Any] | Tensor, *args: Any, device: str | None = None, **kwargs: Any) -> str:
    """The plan in words: the kernel, its configuration, why each kernel before it in the list refused, and which
    kernels compute the gradients.

    explain(layer, input) for an nn.ConvTranspose1d, an nn.Conv1d or tconv's own, where input is a tensor or a shape;
    explain(tconv.conv1d, input, weight, bias=None, stride=1, ...) as conv1d is called, and conv_transpose1d likewise,
    whose name may be left out. Nothing is computed.
    `device` plans for another device: "cpu", "cuda:0", or a GPU that need not be there, such as "h200".
    """
    if isinstance(what, (nn.ConvTranspose1d, nn.Conv1d)):
        return _explain_layer(what, device, *args, **kwargs)
    if what is _functional.conv1d:
        return _explain_conv1d(device, *args, **kwargs)
    if what is _functional.conv_transpose1d:
        return _explain_transposed(device, *args, **kwargs)
    return _explain_transposed(device, what, *args, **kwargs)


def _explain_layer(layer: Any, device: str | None, input: Tensor | Sequence[int]) -> str:
    weight, bias = layer.weight, layer.bias
    if not isinstance(input, Tensor):
        input = torch.empty(tuple(input), dtype=weight.dtype, device="meta")
        device = device or str(weight.device)
        weight, bias = _on_meta(weight), _on_meta(bias)
    if isinstance(layer, nn.ConvTranspose1d):
        text = _explain_transposed(
            device, input, weight, bias, layer.stride, layer.padding, layer.output_padding, layer.groups,
            layer.dilation,
        )  # fmt: skip
    else:
        padding = layer.padding
        if layer.padding_mode != "zeros":
            input, padding = _padded(input, sum(layer._reversed_padding_repeated_twice)), 0
        text = _explain_conv1d(device, input, weight, bias, layer.stride, padding, layer.dilation, layer.groups)
    if layer.__dict__.get("_tconv_packed") is not None:
        text += "weights  prepacked: packed once for each state of the weight\n"
    return text


def _on_meta(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().to("meta")


def _padded(input: Tensor, more: int) -> Tensor:
    return input.new_empty((*input.shape[:-1], input.shape[-1] + more), device="meta")


def _bound(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """A call's arguments in the order of the function's parameters."""
    call = inspect.signature(function).bind(*args, **kwargs)
    call.apply_defaults()
    return list(call.arguments.values())


def _explain_transposed(device: str | None, *args: Any, **kwargs: Any) -> str:
    input, weight, bias, *given = _bound(_functional.conv_transpose1d, args, kwargs)
    where = _device_word(device, input)
    numbers = _rules.numbers(tuple(given))
    _rules.check_types("conv_transpose1d", input, weight, bias)
    _shapes.output_shape(input, weight, bias, *numbers)
    return _explain(_TRANSPOSED, where, input, weight, bias, numbers)


def _explain_conv1d(device: str | None, *args: Any, **kwargs: Any) -> str:
    input, weight, bias, stride, padding, dilation, groups = _bound(_functional.conv1d, args, kwargs)
    where = _device_word(device, input)
    if isinstance(padding, str):
        input, padding = _rules.padded_by_name(input, weight, padding, stride, dilation)
    numbers = _rules.conv1d_numbers((stride, padding, dilation, groups))
    _rules.check_types("conv1d", input, weight, bias)
    _shapes.conv1d_shape(input, weight, bias, *numbers)
    return _explain(_CONV1D, where, input, weight, bias, numbers)


def _explain(
    passes: _Passes, where: str, input: Tensor, weight: Tensor, bias: Tensor | None, numbers: Sequence[int]
) -> str:
    text = _problem_text(passes, input, weight, bias, numbers)
    if where != "cpu" and input.dtype is torch.float32:
        text += f" {precision('cuda')}"
    threads = torch.get_num_threads() if where == "cpu" else 0
    explained = backend.explain(passes.words[0] + text + _strides_word(input), where, threads)
    if passes is _CONV1D and where != "cpu" and _is_slow(_kernels_of(explained)[0]):
        explained += "slow path: PyTorch's own convolution runs instead\n"
    of_input, of_weight, of_bias = (
        _kernels_of(backend.explain(word + text, where, threads)) for word in passes.words[1:]
    )
    rows = {"input": of_input[0], "weight": of_weight[0]}
    if bias is not None:  # the plan of the weight has its kernel, if PyTorch does not run in its place
        rows["bias"] = of_bias[0] if where != "cpu" and _is_slow(of_weight[0]) else of_weight[-1]
    return explained + "".join(_gradient_line(where, name, kernel) for name, kernel in rows.items())


def _gradient_line(where: str, name: str, kernel: str) -> str:
    if where != "cpu" and _is_slow(kernel):
        kernel = f"PyTorch's own, because {kernel} is the slow path"
    return f"gradient   of {name}: {kernel}\n"


def _kernels_of(explained: str) -> list[str]:
    """One, or those of the gradients of weight and bias."""
    line = next(line for line in explained.splitlines() if line.startswith("kernel "))
    return line.removeprefix("kernel").split(": ")[0].strip().removesuffix(" (forced)").split(" + ")


def _is_slow(kernel: str) -> bool:
    return kernel == "cuda.simt.plain" or kernel.startswith("reference")


def _device_word(device: str | None, input: Tensor) -> str:
    if device is None:
        device = str(input.device)
        if device == "meta":
            raise ValueError("tconv.explain: input is on the meta device: pass device='cpu', 'cuda:0' or 'h200'")
    return "cuda:0" if device == "cuda" else device


def _problem_text(
    passes: _Passes, input: Tensor, weight: Tensor, bias: Tensor | None, numbers: Sequence[int]
) -> str:
    given = dict(zip(passes.numbers, numbers, strict=True))
    outer, inner = weight.shape[0], weight.shape[1] * given["groups"]
    cin, cout = (outer, inner) if passes is _TRANSPOSED else (inner, outer)
    n = input.shape[0] if input.dim() == 3 else 1
    words = [
        f"n{n} ci{cin} co{cout} l{input.shape[-1]} k{weight.shape[2]} s{given['stride']} p{given['padding']}",
        f"op{given.get('output_padding', 0)} d{given['dilation']} g{given['groups']}",
        *([] if bias is None else ["bias"]),
        _WORDS[input.dtype],
    ]
    return " ".join(words)


def _strides_word(input: Tensor) -> str:
    if input.is_contiguous():
        return ""
    steps = input.stride() if input.dim() == 3 else (0, *input.stride())
    return f" xs{steps[0]},{steps[1]},{steps[2]}"
