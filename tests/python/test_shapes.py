"""The length formulas that symbolic tracing uses, against the library's rules."""

import random

import pytest
import torch

import tconv
from tconv import _shapes

pytestmark = pytest.mark.cpu_only


def test_formulas_agree_with_the_library():
    draw = random.Random(1)
    results = {"transposed": 0, "conv1d": 0, "refused": 0}
    for _ in range(4000):
        length, kernel = draw.randint(1, 40), draw.randint(1, 9)
        stride, padding, dilation = draw.randint(1, 6), draw.randint(0, 12), draw.randint(1, 4)
        extra = draw.randint(0, max(stride, dilation) - 1)
        x, w = torch.empty(2, 3, length, device="meta"), torch.empty(3, 3, kernel, device="meta")
        expected = _shapes.transposed_length(length, kernel, stride, padding, extra, dilation)
        if expected < 0:
            results["refused"] += 1
            with pytest.raises(RuntimeError, match="padding"):
                _shapes.output_shape(x, w, None, stride, padding, extra, 1, dilation)
        else:
            results["transposed"] += 1
            assert _shapes.output_shape(x, w, None, stride, padding, extra, 1, dilation) == (2, 3, expected)
        expected = _shapes.conv1d_length(length, kernel, stride, padding, dilation)
        if length + 2 * padding < dilation * (kernel - 1) + 1:
            assert expected < 1
            with pytest.raises(RuntimeError, match="shorter than the kernel"):
                _shapes.conv1d_shape(x, w, None, stride, padding, dilation, 1)
        else:
            results["conv1d"] += 1
            assert _shapes.conv1d_shape(x, w, None, stride, padding, dilation, 1) == (2, 3, expected)
    assert min(results.values()) > 100, results


@pytest.mark.needs((2, 5), "symbolic sizes as here")
def test_symbolic_sizes_take_the_formulas(monkeypatch):
    asked = []
    take = tconv._library.backend.library.take_shapes
    monkeypatch.setattr(
        tconv._library.backend.library, "take_shapes", lambda *a, **k: (asked.append(a), take(*a, **k))[1]
    )

    class Both(torch.nn.Module):
        def forward(self, x, w):
            y = tconv.conv_transpose1d(x, w, None, 3, 1, 2, 1, 2)
            return y, tconv.conv1d(y, w, None, 2, 1, 3)

    length = torch.export.Dim("length", min=8, max=4096)
    x, w = torch.randn(2, 3, 50), torch.randn(3, 3, 4)
    exported = torch.export.export(Both(), (x, w), dynamic_shapes=({2: length}, None)).module()
    assert not asked
    for other in (50, 8, 333):
        x = torch.randn(2, 3, other)
        for ours, theirs in zip(exported(x, w), Both()(x, w), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.needs((2, 5), "symbolic sizes as here")
def test_symbolic_calls_are_refused_while_tracing():
    class Bad(torch.nn.Module):
        def forward(self, x, w):
            return tconv.conv_transpose1d(x, w)

    length = torch.export.Dim("length", min=8, max=4096)
    call = (torch.randn(2, 4, 50), torch.randn(3, 3, 4))
    with pytest.raises(Exception, match="input has 4 channels"):
        torch.export.export(Bad(), call, dynamic_shapes=({2: length}, None))
