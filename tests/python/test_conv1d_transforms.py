"""tconv.conv1d under torch.func, torch.compile, torch.export and autocast."""


import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad

import tconv
from conv1d_cases import SHAPES, numbers, operands
from support import integers, normal
from tconv._pytorch import VERSION

# --- transforms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batched", range(1, 8))
@pytest.mark.parametrize("unbatched", [False, True])
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[2]], ids=str)
def test_vmap_is_a_loop(shape, unbatched, batched, device):
    many = [torch.stack([t + i for i in range(3)]) for t in operands(shape, integers, torch.float64, device)]
    if unbatched:
        many[0] = many[0][:, 0]
    dims = [0 if batched & 1 << i else None for i in range(3)]
    call = [t if d == 0 else t[0] for t, d in zip(many, dims, strict=True)]

    def each(i):
        return [t[i] if d == 0 else t for t, d in zip(call, dims, strict=True)]

    def run(x, w, b):
        return tconv.conv1d(x, w, b, *numbers(shape))

    expected = torch.stack([run(*each(i)) for i in range(3)])
    torch.testing.assert_close(torch.vmap(run, tuple(dims))(*call), expected)
    if VERSION >= (2, 5):

        def operator(x, w, b):
            return torch.ops.tconv.conv1d(x, w, b, *numbers(shape), "ieee")

        torch.testing.assert_close(torch.vmap(operator, tuple(dims))(*call), expected)

    def gradients(x, w, b):
        return torch.func.grad(lambda *t: run(*t).square().sum(), (0, 1, 2))(x, w, b)

    ours = torch.vmap(gradients, tuple(dims))(*call)
    for i in range(3):
        for a, c in zip(ours, gradients(*each(i)), strict=True):
            torch.testing.assert_close(a[i], c)


def test_forward_mode_and_higher_order(device):
    shape = (1, 2, 2, 6, 3, 2, 1, 1, 1)
    call = operands(shape, normal, torch.float64, device)
    tangents = tuple(torch.randn_like(t) for t in call)

    def ours(*t):
        return tconv.conv1d(*t, *numbers(shape))

    def theirs(*t):
        return F.conv1d(*t, *numbers(shape))

    for a, b in zip(torch.func.jvp(ours, tuple(call), tangents), torch.func.jvp(theirs, tuple(call), tangents),
                    strict=True):  # fmt: skip
        torch.testing.assert_close(a, b)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(call[0], tangents[0])
        tangent = forward_ad.unpack_dual(ours(dual, *call[1:])).tangent
    torch.testing.assert_close(tangent, F.conv1d(tangents[0], call[1], None, *numbers(shape)))
    every = (0, 1, 2)
    for a, b in zip(torch.func.jacfwd(ours, every)(*call), torch.func.jacrev(theirs, every)(*call), strict=True):
        torch.testing.assert_close(a, b)

    def loss(conv):
        return lambda *t: conv(*t).pow(3).sum()

    hessians = (torch.func.hessian(loss(f), (0, 1))(*call) for f in (ours, theirs))
    for row, expected in zip(*hessians, strict=True):
        for a, b in zip(row, expected, strict=True):
            torch.testing.assert_close(a, b)


# --- graphs -----------------------------------------------------------------------------------------------


@pytest.mark.needs((2, 4), "torch.library.opcheck")
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[2]], ids=str)
def test_opcheck(shape, device):
    x, w, b = (t.requires_grad_() for t in operands(shape, normal, torch.float32, device))
    stride, padding, dilation, groups = numbers(shape)
    torch.library.opcheck(torch.ops.tconv.conv1d.default, (x, w, b, stride, padding, dilation, groups, "ieee"))
    with torch.no_grad():
        y = F.conv1d(x, w, b, *numbers(shape))
    x, w, b = (t.detach() for t in (x, w, b))
    call = (stride, padding, groups, dilation, 0)
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.tconv.strided.default, (x, w, b, y.shape[-1], *call), test_utils=checks)
    torch.library.opcheck(torch.ops.tconv.weight.default, (y, x, w.shape[-1], *call), test_utils=checks)
    torch.library.opcheck(torch.ops.tconv.bias.default, (y,), test_utils=checks)


@pytest.mark.needs((2, 4), "dynamic shapes of operators without recompiling")
@pytest.mark.parametrize("stride", [1, 2])
def test_compiled_with_gradients_and_new_lengths(stride, device):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    w = torch.randn(4, 3, 5, device=device, requires_grad=True)

    def call(x, w):
        return tconv.conv1d(x, w, None, stride, 2).tanh()

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend=counter)
    for length in (21, 34, 57, 80):
        x = torch.randn(2, 3, length, device=device, requires_grad=True)
        y, expected = compiled(x, w), F.conv1d(x, w, None, stride, 2).tanh()
        loose = {"rtol": 1e-2, "atol": 1e-2} if device == "cuda" else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(y, expected, **loose)
        for a, b in zip(
            torch.autograd.grad(y.sum(), (x, w)), torch.autograd.grad(expected.sum(), (x, w)), strict=True
        ):
            torch.testing.assert_close(a, b, **loose)
    assert counter.frame_count <= stride  # what the division leaves is part of a graph


@pytest.mark.needs((2, 5), "torch.export with a derived length")
def test_exported(device):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = tconv.Conv1d(3, 4, 5, stride=2, padding=1)

        def forward(self, x):
            return self.conv(x)

    layer = Layer().to(device)
    x = torch.randn(2, 3, 30, device=device)
    length = torch.export.Dim("length", min=8, max=4000)
    program = torch.export.export(layer, (x,), dynamic_shapes=({2: length},))
    assert any("tconv.conv1d" in str(node.target) for node in program.graph.nodes)
    longer = torch.randn(2, 3, 47, device=device)
    assert torch.equal(program.module()(longer), layer(longer))


@pytest.mark.cpu_only
def test_meta_and_autocast():
    x, w = torch.empty(2, 3, 9, device="meta"), torch.empty(4, 3, 3, device="meta")
    assert tconv.conv1d(x, w, None, 2, 1).shape == (2, 4, 5)
    x, w, b = torch.randn(2, 3, 9), torch.randn(4, 3, 3, requires_grad=True), torch.randn(4)
    with torch.autocast("cpu", torch.bfloat16):
        y = tconv.conv1d(x, w, b)
        assert y.dtype is torch.bfloat16 and y.grad_fn is not None
        with torch.no_grad():
            assert torch.equal(tconv.conv1d(x, w, b), y)
        assert tconv.conv1d(x.double(), w.double(), b.double()).dtype is torch.float64
    (grad,) = torch.autograd.grad(y.float().sum(), w)
    assert grad.dtype is torch.float32
    assert torch.equal(y, tconv.conv1d(x.bfloat16(), w.bfloat16(), b.bfloat16()))
