"""The ctypes backend, where it is taken: what it must know of tconv.h, of PyTorch's modes, and of memory."""

import ctypes
import gc
import os
import re
import struct
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tconv
from support import Problem, integers, normal
from tconv._backends import capi
from tconv._library import backend

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(backend.name != "ctypes", reason="about the ctypes backend")


def test_structs_are_laid_out_as_the_library_has_them():
    problem = backend.library.parse("weight n2 ci6 co4 l9 k5 s3 p1 op2 d4 g2 xbias xs90,10,1 ys80,20,2 f16")
    found = {name: getattr(problem, name) for name, _ in problem._fields_}
    assert found.pop("struct_size") == ctypes.sizeof(problem) and list(found.pop("x_stride")) == [90, 10, 1]
    assert list(found.pop("y_stride")) == [80, 20, 2]
    assert found == {
        "operation": 2, "y_strided": 1, "grad_bias": 2, "dtype": 2, "precision": 0, "has_bias": 1, "x_contiguous": 0,
        "n": 2, "cin": 6, "cout": 4,
        "l": 9, "k": 5, "stride": 3, "padding": 1, "output_padding": 2, "dilation": 4, "groups": 2,
    }  # fmt: skip
    assert struct.calcsize("@IPPPPPPPNPP") == ctypes.sizeof(capi.Arguments)
    header = (ROOT / "include" / "tconv" / "tconv.h").read_text()
    structs = ((capi.Problem, "problem"), (capi.PlanOptions, "plan_options"), (capi.Arguments, "arguments"))
    for described, name in structs:
        body = header.split(f"typedef struct tconv_{name} {{")[1].split(f"}} tconv_{name};")[0]
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        names = [n for line in body.split(";") for n in re.findall(r"(\w+)(?:\[\d\])?(?=,|\s*$)", line)]
        assert names == [field for field, _ in described._fields_], name


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def test_a_mode_sees_the_operator(device):
    operands = Problem(2, 3, 4, 7, 5).operands(integers, torch.float32, device)
    expected = tconv.conv_transpose1d(*operands, 2)
    with Seen() as seen:
        y = tconv.conv_transpose1d(*operands, 2)
    assert "tconv.conv_transpose1d.default" in seen.names and torch.equal(y, expected)


@torch.no_grad()
def test_a_view_whose_sign_is_still_to_be_changed(device):
    x = torch.randn(2, 3, 7, dtype=torch.complex64, device=device)
    imaginary = x.conj().imag
    assert imaginary.is_neg()
    _, w, b = Problem(2, 3, 4, 7, 5).operands(normal, torch.float32, device)
    expected = tconv.conv_transpose1d(-x.imag.contiguous(), w, b, 2)
    assert torch.equal(tconv.conv_transpose1d(imaginary, w, b, 2), expected)
    negative = torch.complex(w, -w).conj().imag
    assert negative.is_neg() and torch.equal(tconv.conv_transpose1d(x.real, negative, b, 2),
                                             tconv.conv_transpose1d(x.real, w, b, 2))  # fmt: skip


@torch.no_grad()
def test_a_subclass_stays_one(device):
    class Named(torch.Tensor):
        pass

    x, w, b = Problem(2, 3, 4, 7, 5).operands(integers, torch.float32, device)
    y = tconv.conv_transpose1d(x.as_subclass(Named), w, b, 2)
    assert type(y) is Named and torch.equal(y.as_subclass(torch.Tensor), tconv.conv_transpose1d(x, w, b, 2))


@torch.no_grad()
def test_plans_that_are_dropped_are_destroyed():
    w = torch.ones(1, 1, 2)
    for length in range(1, 4000):
        tconv.conv_transpose1d(torch.ones(1, 1, length), w)
    plans, held, _ = backend.cache_use()
    assert plans < 3900 and held <= 16 << 20
    gc.collect()
    alive = [o for o in gc.get_objects() if type(o).__name__ == "CachedPlan"]
    assert len(alive) == plans and sum(plan.bytes for plan in alive) == held


@torch.no_grad()
def test_a_child_of_fork_computes(device):
    if device == "cuda":
        pytest.skip("CUDA does not survive fork()")
    operands = Problem(2, 16, 16, 900, 8).operands(integers)
    expected = tconv.conv_transpose1d(*operands, 4)
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # PyTorch's own threads do not survive
        same = torch.equal(tconv.conv_transpose1d(*operands, 4), expected)
        longer = tconv.conv_transpose1d(operands[0][..., 1:], *operands[1:], 4)
        os._exit(0 if same and longer.shape[-1] == expected.shape[-1] - 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@torch.no_grad()
def test_other_streams_and_devices_than_the_current(device):
    if device == "cpu":
        pytest.skip("about CUDA")
    x, w, b = Problem(4, 16, 16, 4000, 8).operands(integers, torch.float32, device)
    expected = tconv.conv_transpose1d(x * 2, w, b, 4)
    torch.cuda.synchronize()
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.cuda._sleep(10_000_000)
        y = tconv.conv_transpose1d(x * 2, w, b, 4)
    other.synchronize()
    assert torch.equal(y, expected)
    if torch.cuda.device_count() > 1:
        far = [t.to("cuda:1") for t in (x, w, b)]
        y = tconv.conv_transpose1d(far[0] * 2, *far[1:], 4)
        assert y.device == far[0].device and torch.equal(y.cpu(), expected.cpu())
        assert torch.cuda.current_device() == 0
