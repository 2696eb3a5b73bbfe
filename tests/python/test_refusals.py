"""Bad input: an exception of PyTorch's type that names the argument, from every way in."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tconv
from tconv._pytorch import VERSION

X, W, B = torch.randn(2, 4, 9), torch.randn(4, 3, 5), torch.randn(3)

# name: (arguments, the word that the message must hold)
REFUSED = {
    "list as input": (([1], W), "input"),
    "no weight": ((X, None), "weight"),
    "number as bias": ((X, W, 3), "bias"),
    "float stride": ((X, W, B, 1.5), "stride"),
    "text padding": ((X, W, B, 1, "same"), "padding"),
    "none dilation": ((X, W, B, 1, 0, 0, 1, None), "dilation"),
    "tuple groups": ((X, W, B, 1, 0, 0, (1,)), "groups"),
    "float groups": ((X, W, B, 1, 0, 0, 1.0), "groups"),
    "two strides": ((X, W, B, (1, 2)), "stride"),
    "no stride": ((X, W, B, ()), "stride"),
    "two dilations": ((X, W, B, 1, 0, 0, 1, (1, 1)), "dilation"),
    "rank 4": ((X[None], W), "input"),
    "rank 1": ((X[0, 0], W), "input"),
    "rank 0": ((X[0, 0, 0], W), "input"),
    "weight of rank 2": ((X, W[0]), "weight"),
    "weight of rank 4": ((X, W[None]), "weight"),
    "channels": ((X, W[:3]), "channels"),
    "bias length": ((X, W, B[:2]), "bias"),
    "bias rank": ((X, W, B[None]), "bias"),
    "groups 3": ((X, W, None, 1, 0, 0, 3), "groups"),
    "groups 0": ((X, W, None, 1, 0, 0, 0), "groups"),
    "groups -1": ((X, W, None, 1, 0, 0, -1), "groups"),
    "huge groups": ((X, W, None, 1, 0, 0, 2**62), "groups"),
    "stride 0": ((X, W, B, 0), "stride"),
    "stride -1": ((X, W, B, -1), "stride"),
    "padding -1": ((X, W, B, 1, -1), "padding"),
    "dilation 0": ((X, W, B, 1, 0, 0, 1, 0), "dilation"),
    "dilation -2": ((X, W, B, 1, 0, 0, 1, -2), "dilation"),
    "output_padding 1": ((X, W, B, 1, 0, 1), "output_padding"),
    "output_padding -1": ((X, W, B, 1, 0, -1), "output_padding"),
    "negative length": ((X, W, B, 1, 50), "padding"),
    "empty signal": ((X[..., :0], W, B), "length"),
    "empty kernel": ((X, W[..., :0], B), "weight"),
    "no channels": ((X[:, :0], W[:0], B), "weight"),
    "overflow": ((X, W, B, 2**62), "overflow"),
    "65 bits": ((X, W, B, 2**64), "stride"),
    "weight dtype": ((X.double(), W), "weight"),
    "bias dtype": ((X, W, B.double()), "bias"),
    "int32": ((X.int(), W.int()), "input"),
    "bool": ((X.bool(), W.bool()), "input"),
    "sparse input": ((X.to_sparse(), W), "input"),
    "sparse weight": ((X, W.to_sparse()), "weight"),
    "sparse csr": ((X[0].to_sparse_csr(), W), "input"),
    "quantised": ((torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), W), "input"),
}  # fmt: skip

if VERSION >= (2, 1):
    REFUSED["float8"] = ((X.to(torch.float8_e4m3fn), W.to(torch.float8_e4m3fn)), "input")

# PyTorch takes these; tconv does not, or PyTorch should not.
REFUSED_HERE_ALONE = {
    "complex": ((X.cfloat(), W.cfloat()), NotImplementedError, "input"),
    "int64": ((X.long(), W.long()), NotImplementedError, "input"),
    "weight on meta": ((X, W.to("meta")), RuntimeError, "weight"),
    "oneDNN layout": ((X.to_mkldnn(), W), NotImplementedError, "input"),
}


def exception_of(call):
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def moved(arguments, device):
    return [a.to(device) if isinstance(a, torch.Tensor) and a.device.type == "cpu" else a for a in arguments]


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_pytorch_refuses_and_by_name(name):
    arguments, word = REFUSED[name]
    if name == "huge groups" and VERSION < (2, 1):  # PyTorch divides by zero there, and the process ends
        assert word in str(exception_of(lambda: tconv.conv_transpose1d(*arguments)))
        return
    theirs = exception_of(lambda: F.conv_transpose1d(*arguments))
    ours = exception_of(lambda: tconv.conv_transpose1d(*arguments))
    assert word in str(ours)
    if name == "65 bits" and VERSION < (2, 10):
        return  # RuntimeError there, ValueError in later versions and here
    assert isinstance(ours, type(theirs)), f"{ours!r} where PyTorch has {theirs!r}"


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", REFUSED_HERE_ALONE)
def test_refused_here_alone(name):
    arguments, kind, word = REFUSED_HERE_ALONE[name]
    ours = exception_of(lambda: tconv.conv_transpose1d(*arguments))
    assert type(ours) is kind and word in str(ours)


CUDA_CASES = [k for k in REFUSED if k not in ("quantised", "sparse input", "sparse weight", "sparse csr")]


@pytest.mark.parametrize("name", CUDA_CASES)
def test_the_operator_itself_refuses(name, device):
    """No check in Python stands before the binding here."""
    arguments, _ = REFUSED[name]
    defaults = [None, None, None, 1, 0, 0, 1, 1]
    call = moved(list(arguments) + defaults[len(arguments) :], device)
    for op, mode in ((torch.ops.tconv.conv_transpose1d, "ieee"), (torch.ops.tconv.forward, 0)):
        exception_of(lambda: op(*call, mode))


@pytest.mark.parametrize("name", [k for k in REFUSED if "sparse" not in k and k != "quantised"])
def test_meta_tensors_are_refused_alike(name):
    arguments, word = REFUSED[name]
    meta = [a.to("meta") if isinstance(a, torch.Tensor) else a for a in arguments]
    assert word in str(exception_of(lambda: tconv.conv_transpose1d(*meta)))


def test_two_devices(device):
    other = "meta" if device == "cpu" else "cpu"
    error = exception_of(lambda: tconv.conv_transpose1d(X.to(device), W.to(device), B.to(other)))
    assert isinstance(error, RuntimeError) and "bias" in str(error)


@pytest.mark.cpu_only
def test_operator_arguments():
    call = (X, W, B, 1, 0, 0, 1, 1)
    assert "precision" in str(exception_of(lambda: torch.ops.tconv.conv_transpose1d(*call, "float16")))
    assert "precision" in str(exception_of(lambda: torch.ops.tconv.forward(*call, 7)))
    short = torch.empty(3, dtype=torch.uint8)
    y, needed = torch.ops.tconv.forward_packed(*call, 0, short, 0)
    if needed != 0:  # the kernel packs: a buffer that is too small for its id is refused
        assert "packed" in str(exception_of(lambda: torch.ops.tconv.forward_packed(*call, 0, short, needed)))


@pytest.mark.cpu_only
def test_modules_refuse_as_pytorchs():
    for output_size in ([99], [2, 2], [1]):
        theirs = exception_of(lambda: torch.nn.ConvTranspose1d(4, 3, 5, 2)(X, output_size))
        ours = exception_of(lambda: tconv.ConvTranspose1d(4, 3, 5, 2)(X, output_size))
        assert type(ours) is type(theirs)
    for bad in ({"groups": 3}, {"padding_mode": "reflect"}, {"kernel_size": "a"}):
        arguments = {"in_channels": 4, "out_channels": 4, "kernel_size": 3, **bad}
        theirs = exception_of(lambda: torch.nn.ConvTranspose1d(**arguments))
        assert type(exception_of(lambda: tconv.ConvTranspose1d(**arguments))) is type(theirs)


@pytest.mark.cpu_only
def test_not_a_tensor_of_numpy():
    assert isinstance(exception_of(lambda: tconv.conv_transpose1d(np.ones((1, 4, 9)), W)), TypeError)
