"""The judge: float64 from the definition, exact data, error bounds, random valid problems."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# Half the distance from 1 to the next number.
ROUNDING = {torch.float32: 2**-24, torch.float64: 2**-53, torch.float16: 2**-11, torch.bfloat16: 2**-8}


@dataclass(frozen=True)
class Problem:
    n: int
    cin: int
    cout: int
    l: int
    k: int
    stride: int = 1
    padding: int = 0
    output_padding: int = 0
    groups: int = 1
    dilation: int = 1
    bias: bool = True

    @property
    def numbers(self):
        return (self.stride, self.padding, self.output_padding, self.groups, self.dilation)

    @property
    def lout(self):
        reach = (self.l - 1) * self.stride + self.dilation * (self.k - 1) + self.output_padding + 1
        return reach - 2 * self.padding

    def operands(self, make, dtype=torch.float32, device="cpu"):
        """input, weight, bias; make(shape) gives float64 values."""
        shapes = [(self.n, self.cin, self.l), (self.cin, self.cout // self.groups, self.k), (self.cout,)]
        tensors = [make(shape).to(dtype).to(device) for shape in shapes]
        return (*tensors[:2], tensors[2] if self.bias else None)


def integers(shape):
    """Products and sums of these are exact in every dtype, in any order."""
    return torch.randint(-2, 3, shape, dtype=torch.float64)


def normal(shape):
    return torch.randn(shape, dtype=torch.float64)


def definition(x, w, b, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The formula, tap by tap, on batched operands; differentiable."""
    n, cin, length = x.shape
    cout, k = w.shape[1] * groups, w.shape[2]
    full = (length - 1) * stride + dilation * (k - 1) + output_padding + 1
    y = x.new_zeros(n, cout, full)
    x, w = x.unflatten(1, (groups, cin // groups)), w.unflatten(0, (groups, cin // groups))
    for tap in range(k):
        products = torch.einsum("ngcl,gcd->ngdl", x, w[..., tap]).flatten(1, 2)
        start = tap * dilation
        y[..., start : start + (length - 1) * stride + 1 : stride] += products
    y = y[..., padding : full - padding]
    return y if b is None else y + b[:, None]


def reference(x, w, b, *numbers):
    """In float64: the output, and the sum of |x*w| and |bias| behind each of its elements."""
    x, w, b = (None if t is None else t.detach().cpu().double() for t in (x, w, b))
    sizes = (None if t is None else t.abs() for t in (x, w, b))
    return definition(x, w, b, *numbers), definition(*sizes, *numbers)


def reference_gradients(grad, x, w, b, *numbers):
    """In float64: the gradients of x, w and b (None where there is none)."""
    leaves = [t.detach().cpu().double().requires_grad_() for t in (x, w, b) if t is not None]
    y = definition(*leaves, *([None] if b is None else []), *numbers)
    grads = torch.autograd.grad(y, leaves, grad.detach().cpu().double())
    return (*grads, *([None] if b is None else []))


def error_bound(magnitude, value, terms, dtype, tf32=False):
    """What one product after another, each rounded, and one rounding to the storage may err."""
    accumulate = ROUNDING[torch.float64 if dtype is torch.float64 else torch.float32]
    bound = (terms + 2) * accumulate * magnitude
    if tf32:
        bound = bound + 2.1 * 2**-11 * magnitude
    if dtype in (torch.float16, torch.bfloat16):
        bound = bound + ROUNDING[dtype] * value.abs() + (2**-25 if dtype is torch.float16 else 0)
    return bound


def assert_close(y, operands, numbers, tf32=False):
    """y is within its bound of the float64 reference, element by element."""
    x, w, b = operands
    value, magnitude = reference(x, w, b, *numbers)
    assert y.shape == value.shape
    terms = w.shape[0] // numbers[3] * w.shape[2] + 1
    over = (y.detach().cpu().double() - value).abs() - error_bound(magnitude, value, terms, y.dtype, tf32)
    assert not y.isnan().any()
    assert (over <= 0).all(), f"{(over > 0).sum()} of {over.numel()} outputs outside, by {over.max():.3g}"


def random_problem(integer) -> Problem:
    """integer(low, high) draws; every valid problem of small size can come."""
    groups = integer(1, 3)
    stride, dilation = integer(1, 5), integer(1, 4)
    output_padding = integer(0, max(stride, dilation) - 1)
    k, length = integer(1, 9), integer(1, 33)
    reach = (length - 1) * stride + dilation * (k - 1) + output_padding + 1
    return Problem(
        n=integer(0, 3), cin=groups * integer(1, 5), cout=groups * integer(1, 5), l=length, k=k, stride=stride,
        padding=integer(0, reach // 2), output_padding=output_padding, groups=groups, dilation=dilation,
        bias=integer(0, 1) == 1,
    )  # fmt: skip


def for_random_problems(count):
    """Runs a test with `problem` drawn `count` times: by hypothesis, or from seeds where that is missing."""
    try:
        from hypothesis import HealthCheck, given, settings
        from hypothesis import strategies as st
    except ImportError:
        drawn = [random_problem(random.Random(seed).randint) for seed in range(count)]
        return pytest.mark.parametrize("problem", drawn, ids=range(count))

    @st.composite
    def problems(draw):
        return random_problem(lambda low, high: draw(st.integers(low, high)))

    def decorate(test):
        checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
        limits = settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=checks)
        return limits(given(problem=problems())(test))

    return decorate


def close(a, b, **kwargs):
    """Loosely on a GPU, where float32 may be tf32: to a part of the largest value, as sums cancel."""
    largest = b.detach().abs().max().item() if b.is_cuda and b.numel() else 0
    loose = {"rtol": 2e-3, "atol": 2e-3 * max(1, largest)} if a.is_cuda else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(a, b, **{**loose, **kwargs})


def sliced(t):
    """The same values with NaN between them in memory."""
    wide = torch.full((*t.shape[:-1], 2 * t.shape[-1] + 3), float("nan"), dtype=t.dtype, device=t.device)
    wide[..., 1 : 2 * t.shape[-1] : 2] = t
    return wide[..., 1 : 2 * t.shape[-1] : 2]


def expanded(t):
    """The first value of each sample in every place, with strides of 0."""
    return t[:, :1, :1].expand(t.shape)
