"""Shapes and operands of conv1d, and its definition."""

import random

import torch

# n, cin, cout, length, k, stride, padding, dilation, groups
SHAPES = [
    (2, 3, 5, 9, 4, 2, 1, 1, 1),
    (1, 1, 1, 1, 1, 1, 0, 1, 1),
    (2, 4, 6, 12, 5, 3, 2, 2, 2),
    (2, 2, 2, 8, 3, 1, 2, 3, 1),
    (3, 4, 4, 7, 3, 5, 4, 1, 4),
    (1, 6, 3, 11, 11, 1, 0, 1, 3),
    (2, 1, 8, 20, 2, 4, 0, 3, 1),
]


def operands(shape, make, dtype=torch.float64, device="cpu"):
    n, cin, cout, length, k, *_, groups = shape
    shapes = (n, cin, length), (cout, cin // groups, k), (cout,)
    return [make(s).to(dtype).to(device) for s in shapes]


def numbers(shape):
    return shape[5:]


def definition(x, w, b, stride=1, padding=0, dilation=1, groups=1):
    """Tap by tap over what lies in x; differentiable. Taps outside are no products, whatever the weight."""
    n, cin, length = x.shape
    cout, _, k = w.shape
    lout = (length + 2 * padding - dilation * (k - 1) - 1) // stride + 1
    y = x.new_zeros(n, cout, lout)
    x, w = x.unflatten(1, (groups, cin // groups)), w.unflatten(0, (groups, cout // groups))
    for tap in range(k):
        first = tap * dilation - padding  # of x, for output 0
        low = max(0, -(first // stride))
        high = min(lout, (length - 1 - first) // stride + 1)
        if high > low:
            part = x[..., first + low * stride : first + (high - 1) * stride + 1 : stride]
            y[..., low:high] += torch.einsum("ngcl,gdc->ngdl", part, w[..., tap]).flatten(1, 2)
    return y if b is None else y + b[:, None]


def drawn(count):
    shapes = []
    for seed in range(count):
        draw = random.Random(seed).randint
        groups, stride, dilation, k, padding = draw(1, 3), draw(1, 5), draw(1, 4), draw(1, 9), draw(0, 6)
        least = max(1, dilation * (k - 1) + 1 - 2 * padding)
        shapes.append((draw(0, 3), groups * draw(1, 5), groups * draw(1, 5), least + draw(0, 30), k, stride, padding,
                       dilation, groups))  # fmt: skip
    return shapes
