"""Layers as models have them, drawn at random: the seed alone decides. Standard library only.

A kind of layer is drawn first, then its channels, K and stride, its length and its batch; what needs less or more work
than asked is drawn again. Work is the floor of a layer on a nominal machine (its products or its bytes, whichever take
longer), so that a seed means the same layers wherever it is drawn.

    python benchmarks/compare/draw.py --count 20 --seed 1 --machine cpu
"""

import argparse
import math
import random
from dataclasses import dataclass, replace
from pathlib import Path

from layers import Layer
from problem_floor import ELEMENT, data_bytes, parse, products

OPERATIONS = ("transposed", "strided", "weight")


@dataclass(frozen=True)
class Machine:
    """Nominal rates, and the span of work that its benchmark draws; seconds."""

    operations: float
    bytes: float
    least: float
    most: float
    largest: float  # bytes of a problem's tensors


MACHINES = {"cpu": Machine(200e9, 20e9, 10e-6, 300e-3, 1 << 29), "gpu": Machine(400e12, 3.5e12, 1e-6, 3e-3, 8 << 30)}


def between(random_, low, high):
    """A whole number, its logarithm spread evenly."""
    return min(high, int(math.exp(random_.uniform(math.log(low), math.log(high + 1)))))


def channels(random_, low=1, high=2048):
    """Mostly powers of two, then 3*2^n, multiples of 8, and any number."""
    while True:
        way = random_.random()
        if way < 0.6:
            count = 2 ** random_.randint(0, 11)
        elif way < 0.75:
            count = 3 * 2 ** random_.randint(0, 9)
        elif way < 0.88:
            count = 8 * between(random_, 1, 256)
        else:
            count = between(random_, 1, 2048)
        if low <= count <= high:
            return count


def pair(random_):
    """Channels in and out: a decoder halves them, keeps them, or neither."""
    cin, way = channels(random_), random_.random()
    if way < 0.45:
        return cin, max(1, cin // 2)
    return (cin, cin) if way < 0.6 else (cin, channels(random_))


def base(random_, cin, cout, k, stride, padding, **rest):
    rest = {"output_padding": 0, "dilation": 1, "groups": 1, "dtype": "f32", "bias": random_.random() < 0.75} | rest
    return Layer(name="", n=1, cin=cin, cout=cout, l=1, k=k, stride=stride, padding=padding, **rest)


def upsampling(random_):
    """K = 2s, sometimes 2s + 1 or so: what vocoders and codecs stack."""
    cin, cout = pair(random_)
    s = random_.choice((2, 2, 2, 3, 4, 4, 5, 5, 6, 8, 8, 10))
    k = 2 * s + random_.choice((0, 0, 0, 0, 1, -1, s // 2))
    trimmed = random_.random() < 0.7
    output_padding = (k - s) % 2 if trimmed and random_.random() < 0.8 else 0
    return base(random_, cin, cout, k, s, (k - s + output_padding) // 2 if trimmed else 0, output_padding=output_padding)


def disjoint(random_):
    """K = s: patches that do not overlap."""
    cin, cout = pair(random_)
    s = random_.choice((2, 2, 2, 3, 4, 4, 5, 8, 10, 12, 16))
    return base(random_, cin, cout, s, s, 0)


def doubling(random_):
    """K = 4 and s = 2, or K = 3 and an output_padding: U-Nets."""
    cin, cout = pair(random_)
    if random_.random() < 0.6:
        return base(random_, cin, cout, 4, 2, 1)
    return base(random_, cin, cout, random_.choice((3, 3, 5)), 2, 1, output_padding=1)


def same_length(random_):
    """Odd K, stride 1, p = d*(K-1)/2: residual blocks."""
    cin, cout = pair(random_)
    k, d = random_.choice((1, 3, 3, 3, 5, 7, 7, 9, 11)), random_.choice((1, 1, 1, 2, 3, 5, 9))
    return base(random_, cin, cout, k, 1, d * (k - 1) // 2, dilation=d)


def long_kernel(random_):
    cin, cout = pair(random_)
    k, s = random_.randint(7, 41), random_.choice((1, 1, 2, 3, 4, 6, 7, 8, 10, 12, 16, 20))
    return base(random_, cin, cout, k, s, random_.choice((0, max(0, k - s) // 2, k // 2)))


def ends_of_models(random_):
    """One channel, or a few, on one side: waveforms in or out."""
    few, many = random_.choice((1, 1, 1, 2, 3, 4)), channels(random_, 8, 512)
    cin, cout = (many, few) if random_.random() < 0.6 else (few, many)
    if random_.random() < 0.5:
        k = random_.choice((3, 5, 7, 7, 9))
        return base(random_, cin, cout, k, 1, k // 2)
    s = random_.choice((2, 2, 3, 4, 5, 8, 12, 16))
    k = random_.choice((s, 2 * s, 2 * s + 1, 7, 21))
    return base(random_, cin, cout, k, s, max(0, k - s) // 2)


def inverse_stft(random_):
    """Windowed bases as weights: n_fft/2 + 1 bins, real and imaginary, to one channel; or a learned filter bank."""
    size = random_.choice((256, 400, 512, 640, 800, 1024, 1024, 1200, 1920, 2048))
    hop = random_.choice((size // 4, size // 4, size // 2, 160, 200, 240, 256, 300))
    cin = size + 2 if random_.random() < 0.7 else channels(random_, 8, 512)
    return base(random_, cin, 1, size, min(hop, size), random_.choice((0, size // 2)), bias=False)


def depthwise(random_):
    c = channels(random_, 8)
    if random_.random() < 0.3:
        k, d = random_.choice((3, 5, 7, 9, 31)), random_.choice((1, 1, 2, 3))
        return base(random_, c, c, k, 1, d * (k - 1) // 2, groups=c, dilation=d)
    s = random_.choice((2, 2, 2, 3, 4, 5, 8))
    k = random_.choice((s, 2 * s, 2 * s, 2 * s, 12))
    return base(random_, c, c, k, s, max(0, k - s) // 2, groups=c)


def grouped(random_):
    g = random_.choice((2, 2, 3, 4, 4, 8, 16, 32))
    layer = random_.choice((upsampling, doubling, same_length))(random_)
    return replace(layer, cin=g * max(1, layer.cin // g), cout=g * max(1, layer.cout // g), groups=g)


KINDS = ((upsampling, 30), (disjoint, 10), (doubling, 10), (same_length, 12), (long_kernel, 8), (ends_of_models, 10),
         (inverse_stft, 6), (depthwise, 8), (grouped, 6))


def batch(random_, largest):
    if random_.random() < 0.6:
        return 1
    return min(largest, random_.choice((2, 4, 8, 16, 32, 64, 128, 256, between(random_, 2, 256))))


def work(layer, machine):
    """Seconds at the machine's nominal rates."""
    layer = WithOutput(layer)
    return max(2 * products(layer) / machine.operations, data_bytes(layer) / machine.bytes)


class WithOutput:
    """A layer with its output's length, as problem_floor takes it."""

    def __init__(self, layer):
        self.__dict__.update(layer.__dict__)
        self.lout = ((layer.l - 1) * layer.stride - 2 * layer.padding + layer.dilation * (layer.k - 1) +
                     layer.output_padding + 1)


def one(random_, machine, largest_batch):
    kinds, weights = zip(*KINDS)
    while True:
        kind = random_.choices(kinds, weights)[0]
        layer = kind(random_)
        layer = replace(layer, name=kind.__name__, n=batch(random_, largest_batch), l=between(random_, 1, 300000))
        whole = WithOutput(layer)
        if whole.lout < 1 or data_bytes(whole) > machine.largest:
            continue
        if machine.least <= work(layer, machine) <= machine.most:
            return layer


def draw(count, seed, machine="cpu", dtype="f32", largest_batch=256):
    """`count` layers; the first ones of a longer draw are the same."""
    assert dtype in ELEMENT
    random_ = random.Random(f"tconv {seed}")
    return [replace(one(random_, MACHINES[machine], largest_batch), dtype=dtype) for _ in range(count)]


def problem_text(layer, operation="transposed", precision=""):
    """The line of a product of the layer: its weight gradient has no bias."""
    if operation == "weight":
        layer = replace(layer, bias=False)
    return ("" if operation == "transposed" else f"{operation} ") + layer.text(precision)


def read(text):
    """The layer of a problem's line, of whichever operation."""
    p = parse(" ".join(word for word in text.split() if word not in OPERATIONS))
    return Layer("", p.n, p.cin, p.cout, p.l, p.k, p.stride, p.padding, p.output_padding, p.dilation, p.groups, p.bias,
                 p.dtype)


def listed(path):
    """The layers of a file: the line of a product each, and behind # whose it is."""
    layers = []
    for line in Path(path).read_text().splitlines():
        text, _, name = line.partition("#")
        if text.strip():
            layers.append(replace(read(text), name=name.strip()))
    return layers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--machine", choices=MACHINES, default="cpu")
    parser.add_argument("--op", choices=OPERATIONS, default="transposed")
    options = parser.parse_args()
    for layer in draw(options.count, options.seed, options.machine):
        print(f"{problem_text(layer, options.op):<70} {work(layer, MACHINES[options.machine]) * 1e3:9.3f} ms  {layer.name}")


if __name__ == "__main__":
    main()
