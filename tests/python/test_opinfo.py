"""PyTorch's own samples for the operator, and its bad ones."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db

import tconv
from support import DTYPES

OPERATORS = {op.name: op for op in op_db if op.name in ("nn.functional.conv_transpose1d", "nn.functional.conv1d")}
TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    # PyTorch rounds some of these several times: two units in the last place of sums of products up to 81.
    torch.float16: {"rtol": 4e-3, "atol": 0.5},
    torch.bfloat16: {"rtol": 3e-2, "atol": 4.0},
}


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_samples(dtype, gradient, device):
    samples = list(OPERATORS["nn.functional.conv_transpose1d"].sample_inputs(device, dtype, requires_grad=gradient))
    assert len(samples) >= 10
    for sample in samples:
        ours = tconv.conv_transpose1d(sample.input, *sample.args, **sample.kwargs)
        theirs = F.conv_transpose1d(sample.input, *sample.args, **sample.kwargs)
        loose = TOLERANCE[torch.bfloat16] if device == "cuda" and dtype is torch.float32 else TOLERANCE[dtype]
        torch.testing.assert_close(ours, theirs, **loose)
        assert ours.requires_grad == gradient and ours.is_contiguous()
        if gradient and dtype in (torch.float32, torch.float64):
            leaves = [t for t in (sample.input, *sample.args) if t is not None]
            grads = zip(
                torch.autograd.grad(ours.sum(), leaves), torch.autograd.grad(theirs.sum(), leaves), strict=True
            )
            for a, b in grads:
                torch.testing.assert_close(a, b, **loose)


@pytest.mark.cpu_only
def test_bad_samples():
    """Those of conv1d: conv_transpose1d has none of its own. Where PyTorch refuses, so does tconv."""
    refused = 0
    for sample in OPERATORS["nn.functional.conv1d"].error_inputs("cpu"):
        call = (sample.sample_input.input, *sample.sample_input.args)
        try:
            F.conv_transpose1d(*call, **sample.sample_input.kwargs)
        except Exception as theirs:
            with pytest.raises(type(theirs)):
                tconv.conv_transpose1d(*call, **sample.sample_input.kwargs)
            refused += 1
    assert refused >= 8
