"""tconv.explain: which kernel runs a call, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tconv import _rules
from tconv._functional import precision
from tconv._library import backend

_WORDS = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16"}


def explain(module_or_input: nn.ConvTranspose1d | Tensor, *args: Any, device: str | None = None, **kwargs: Any) -> str:
    """The plan in words: the kernel, its configuration, and why each kernel before it in the list refused.

    explain(layer, input) for an nn.ConvTranspose1d or tconv.ConvTranspose1d, where input is a tensor or a
    shape; explain(input, weight, bias=None, stride=1, ...) as conv_transpose1d is called. Nothing is computed.
    `device` plans for another device: "cpu", "cuda:0", or a GPU that need not be there, such as "h200".
    """
    if isinstance(module_or_input, nn.ConvTranspose1d):
        return _explain_layer(module_or_input, device, *args, **kwargs)
    return _explain_call(device, module_or_input, *args, **kwargs)


def _explain_layer(layer: nn.ConvTranspose1d, device: str | None, input: Tensor | Sequence[int]) -> str:
    if not isinstance(input, Tensor):
        input = torch.empty(tuple(input), dtype=layer.weight.dtype, device="meta")
        device = device or str(layer.weight.device)
        weight, bias = _on_meta(layer.weight), _on_meta(layer.bias)
    else:
        weight, bias = layer.weight, layer.bias
    text = _explain_call(
        device, input, weight, bias, layer.stride, layer.padding, layer.output_padding, layer.groups,
        layer.dilation,
    )  # fmt: skip
    if layer.__dict__.get("_tconv_packed") is not None:
        text += "weights  prepacked: packed once for each state of the weight\n"
    return text


def _on_meta(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().to("meta")


def _explain_call(
    device: str | None,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> str:
    given = {"stride": stride, "padding": padding, "output_padding": output_padding, "groups": groups,
             "dilation": dilation}  # fmt: skip
    numbers = [_rules.single(value, name) for name, value in given.items()]
    _rules._check_types(input, weight, bias)
    _rules.output_shape(input, weight, bias, *numbers)
    where = _device_word(device, input)
    text = _problem_text(input, weight, bias, numbers)
    if where != "cpu" and input.dtype is torch.float32:
        text += f" {precision('cuda')}"
    threads = torch.get_num_threads() if where == "cpu" else 0
    return backend.explain(text, where, threads) + f"gradient {_gradient_words(where, input.dtype)}\n"


def _device_word(device: str | None, input: Tensor) -> str:
    if device is None:
        device = str(input.device)
        if device == "meta":
            raise ValueError("tconv.explain: input is on the meta device: say device='cpu', 'cuda:0' or 'h200'")
    return "cuda:0" if device == "cuda" else device


def _problem_text(input: Tensor, weight: Tensor, bias: Tensor | None, numbers: Sequence[int]) -> str:
    stride, padding, output_padding, groups, dilation = numbers
    n = input.shape[0] if input.dim() == 3 else 1
    words = [
        f"n{n} ci{weight.shape[0]} co{weight.shape[1] * groups} l{input.shape[-1]} k{weight.shape[2]}",
        f"s{stride} p{padding} op{output_padding} d{dilation} g{groups}",
    ]
    if bias is not None:
        words.append("bias")
    if not input.is_contiguous():
        steps = input.stride() if input.dim() == 3 else (0, *input.stride())
        words.append(f"xs{steps[0]},{steps[1]},{steps[2]}")
    return " ".join([*words, _WORDS[input.dtype]])


def _gradient_words(where: str, dtype: torch.dtype) -> str:
    text = "PyTorch's convolution_backward"
    if where == "cpu" and dtype in (torch.float16, torch.bfloat16):
        text += ", computed in float32 and rounded once"
    return text
