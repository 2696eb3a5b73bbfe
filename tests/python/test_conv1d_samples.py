"""tconv.conv1d on PyTorch's samples, and its refusals."""


import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db

import tconv
from support import DTYPES

# --- PyTorch's samples, and refusals ----------------------------------------------------------------------

OPERATOR = next(op for op in op_db if op.name == "nn.functional.conv1d")
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10, torch.float16: 0.5, torch.bfloat16: 4.0}


@pytest.mark.needs((2, 1), "samples as these")
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_opinfo_samples(dtype, gradient, device):
    samples = list(OPERATOR.sample_inputs(device, dtype, requires_grad=gradient))
    assert len(samples) >= 10
    for sample in samples:
        if 0 in sample.input.shape[-2:]:
            continue  # no channels: refused
        ours = tconv.conv1d(sample.input, *sample.args, **sample.kwargs)
        theirs = F.conv1d(sample.input, *sample.args, **sample.kwargs)
        atol = 4.0 if device == "cuda" and dtype is torch.float32 else TOLERANCE[dtype]
        torch.testing.assert_close(ours, theirs, rtol=3e-2 if atol > 0.1 else atol, atol=atol)
        assert ours.requires_grad == gradient and ours.is_contiguous()
        if gradient and dtype in (torch.float32, torch.float64):
            leaves = [t for t in (sample.input, *sample.args) if isinstance(t, torch.Tensor)]
            leaves += [t for t in sample.kwargs.values() if isinstance(t, torch.Tensor)]
            for a, b in zip(
                torch.autograd.grad(ours.sum(), leaves), torch.autograd.grad(theirs.sum(), leaves), strict=True
            ):
                torch.testing.assert_close(a, b, rtol=3e-2 if atol > 0.1 else atol, atol=atol)


@pytest.mark.cpu_only
@pytest.mark.needs((2, 1), "samples as these")
def test_bad_samples():
    refused = 0
    for sample in OPERATOR.error_inputs("cpu"):
        call = (sample.sample_input.input, *sample.sample_input.args)
        with pytest.raises(sample.error_type):
            tconv.conv1d(*call, **sample.sample_input.kwargs)
        refused += 1
    assert refused >= 8


X, W = torch.ones(2, 3, 9), torch.ones(4, 3, 3)


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "call, error, words",
    [
        ((X[0, 0], W), RuntimeError, "input has shape"),
        ((X, W[0]), RuntimeError, "weight has shape"),
        ((X, torch.ones(4, 2, 3)), RuntimeError, "has 3 channels"),
        ((X[:, :2], torch.ones(3, 1, 3), None, 1, 0, 1, 2), RuntimeError, "groups is 2"),
        ((X, W, torch.ones(3)), RuntimeError, "bias has shape"),
        ((X, W, None, 0), RuntimeError, "stride is 0"),
        ((X, W, None, 1, -1), RuntimeError, "padding is -1"),
        ((X, W, None, 1, 0, 0), RuntimeError, "dilation is 0"),
        ((X, W, None, 1, 0, 5), RuntimeError, "shorter than the kernel"),
        ((X, W, None, 2, "same"), RuntimeError, "'same'"),
        ((X, W, None, 1, "other"), RuntimeError, "'other'"),
        ((X, W, None, 1.5), TypeError, "stride must be an int"),
        ((X, W, None, (1, 2)), RuntimeError, "stride is"),
        ((X, W.double()), RuntimeError, "must be the same"),
        ((X.to(torch.complex64), W.to(torch.complex64)), NotImplementedError, "complex64"),
        ((X.int(), W.int()), NotImplementedError, "int32"),
        ((None, W), TypeError, "input must be a Tensor"),
        ((X, W.to_sparse()), NotImplementedError, "sparse"),
    ],
    ids=range(18),
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        tconv.conv1d(*call)
    leaves = [
        t.clone().requires_grad_() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in call
    ]
    with pytest.raises(error, match="conv1d"):
        tconv.conv1d(*leaves)
