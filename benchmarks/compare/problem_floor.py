"""A problem's text as numbers, and the least time that it can take; standard library only."""

import re
from types import SimpleNamespace

WORDS = {"n": "n", "ci": "cin", "co": "cout", "l": "l", "k": "k", "s": "stride", "p": "padding", "op": "output_padding",
         "d": "dilation", "g": "groups"}
ELEMENT = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}


def parse(text):
    """n, cin, ... as docs/problem-text.md has them, of a transposed convolution; mode: tf32, ieee, f16, bf16 or f64."""
    p = SimpleNamespace(text=text, n=1, stride=1, padding=0, output_padding=0, dilation=1, groups=1, bias=False,
                        dtype="f32", mode="")
    for word in text.split():
        number = re.fullmatch(r"([a-z]+)(\d+)", word)
        if number and number[1] in WORDS:
            setattr(p, WORDS[number[1]], int(number[2]))
        elif word in ELEMENT:
            p.dtype = word
        elif word in ("tf32", "ieee"):
            p.mode = word
        elif word == "bias":
            p.bias = True
        else:
            raise ValueError(f"{word!r} in {text!r}")
    p.mode = p.mode or ("ieee" if p.dtype == "f32" else p.dtype)
    p.lout = (p.l - 1) * p.stride - 2 * p.padding + p.dilation * (p.k - 1) + p.output_padding + 1
    return p


def products(p):
    """x*w terms that meet an output."""
    total = 0
    for k in range(p.k):
        first = max(0, -((k * p.dilation - p.padding) // p.stride))
        last = min(p.l - 1, (p.lout - 1 + p.padding - k * p.dilation) // p.stride)
        total += max(0, last - first + 1)
    return total * p.n * p.cin * (p.cout // p.groups)


def data_bytes(p):
    """x, y and weights."""
    elements = p.n * p.cin * p.l + p.n * p.cout * p.lout + p.cin * (p.cout // p.groups) * p.k
    return ELEMENT[p.dtype] * elements


def floor_ms(p, mode, rates):
    """The larger of bytes over the copy rate and products over the mode's matrix rate.

    ieee float32 runs on multiply-adds, or on tensor cores as three products of 16-bit parts: whichever is faster.
    """
    rate = rates[f"{mode}_tflops"]
    if mode == "ieee":
        rate = max(rate, rates["f16_tflops"] / 3)
    return max(data_bytes(p) / rates["copy_gbps"] / 1e6, 2 * products(p) / rate / 1e9)
