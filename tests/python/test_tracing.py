"""torch.jit.trace, make_fx, torch.fx and functionalize; prepacked layers among them, which trace as unpacked."""

import io

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import tconv
from tconv import _packing
from tconv._pytorch import OutOfMemoryError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def layer(device, packed):
    ours = tconv.ConvTranspose1d(16, 8, 8, stride=4, padding=2, device=device)
    if packed:
        assert tconv.prepack(ours) == 1
        with torch.no_grad():
            ours(torch.randn(1, 16, 5, device=device))  # packed weights are there when the trace begins
    return ours


def check_follows_weights(traced, ours, device, gradient):
    """Another length, and other weights than those of the trace."""
    for length in (9, 14):
        x = torch.randn(2, 16, length, device=device)
        assert torch.equal(traced(x), ours(x))
        with torch.no_grad():
            ours.weight.mul_(2)
        assert torch.equal(traced(x), ours(x))
    if gradient:
        got = torch.autograd.grad(traced(x).square().sum(), ours.weight)[0]
        torch.testing.assert_close(got, torch.autograd.grad(ours(x).square().sum(), ours.weight)[0])


def tconv_operators(graph):
    return [str(node.target) for node in graph.nodes if str(node.target).startswith("tconv.")]


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_jit_trace(packed, gradient, device):
    ours = layer(device, packed)
    with torch.set_grad_enabled(gradient):
        traced = torch.jit.trace(ours, (torch.randn(2, 16, 9, device=device),))
        kinds = [node.kind() for node in traced.inlined_graph.nodes() if node.kind().startswith("tconv::")]
        assert kinds == ["tconv::conv_transpose1d"]
        check_follows_weights(traced, ours, device, gradient)
        file = io.BytesIO()
        torch.jit.save(traced, file)
        file.seek(0)
        x = torch.randn(2, 16, 9, device=device)
        assert torch.equal(torch.jit.load(file)(x), ours(x))


PRE_DISPATCH = pytest.param({"pre_dispatch": True}, marks=pytest.mark.needs((2, 1), "pre_dispatch"))


@pytest.mark.parametrize("options", [{}, PRE_DISPATCH], ids=str)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_make_fx(packed, gradient, options, device):
    ours = layer(device, packed)
    with torch.set_grad_enabled(gradient):
        traced = make_fx(ours, **options)(torch.randn(2, 16, 9, device=device))
        assert tconv_operators(traced.graph) == ["tconv.conv_transpose1d.default"]
        # The one tensor beside the parameters would be packed weights.
        assert all(isinstance(t, nn.Parameter) for n, t in vars(traced).items() if isinstance(t, torch.Tensor))
        assert {id(p) for p in traced.parameters()} == {id(p) for p in ours.parameters()}
        check_follows_weights(traced, ours, device, gradient and not options)


@pytest.mark.needs((2, 1), "symbolic sizes")
def test_make_fx_of_a_gradient_and_with_symbolic_sizes(device):
    def loss(x, w):
        return tconv.conv_transpose1d(x, w, None, 4, 2).square().sum()

    x, w = torch.randn(2, 16, 9, device=device), torch.randn(16, 8, 8, device=device)
    gradient = torch.func.grad(loss, (0, 1))
    traced = make_fx(gradient, tracing_mode="symbolic")(x, w)
    longer = torch.randn(3, 16, 20, device=device)
    for got, expected in zip(traced(longer, w), gradient(longer, w), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)
    assert tconv_operators(traced.graph)[0] == "tconv.conv_transpose1d.default"


@pytest.mark.parametrize("packed", [False, True])
def test_symbolic_trace_and_functionalize(packed, device):
    ours = layer(device, packed)
    traced = torch.fx.symbolic_trace(nn.Sequential(ours))
    check_follows_weights(traced, ours, device, True)
    x = torch.randn(2, 16, 9, device=device)
    assert torch.equal(torch.func.functionalize(ours)(x), ours(x))
    functional = make_fx(torch.func.functionalize(lambda x: ours(x).add_(1)))(x)
    assert torch.equal(functional(x), ours(x) + 1)


@pytest.mark.cpu_only
@pytest.mark.needs((2, 5), "fake tensors of a device that is not there")
def test_the_float32_mode_is_not_part_of_a_trace():
    """It is read when the graph runs, as in compiled ones."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x, w = torch.empty(2, 16, 9, device="cuda"), torch.empty(16, 8, 8, device="cuda")
        traced = make_fx(lambda x, w: tconv.conv_transpose1d(x, w, None, 4))(x, w)
    (node,) = (n for n in traced.graph.nodes if str(n.target).startswith("tconv."))
    assert node.args[-1] == "auto"


# --- what a prepacked call does with errors ---------------------------------------------------------------

FAULTS = [
    OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("conv_transpose1d: out of memory: PyTorch's allocator refused the output of 9 elements"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("the CUDA runtime refused the launch: misaligned address"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("where", ["run", "pack"])
def test_a_prepacked_call_is_not_tried_again_after_a_fault(fault, where, device, monkeypatch):
    ours = layer(device, packed=False)
    tconv.prepack(ours)

    def fail(*_):
        raise fault

    def again(*_):
        raise AssertionError("tried again")

    kind = _packing._TRANSPOSED._replace(call=again)
    if where == "pack":  # whether or not this device's kernel packs: another layout is wanted
        kind = kind._replace(run=lambda *_: (None, 1))
    monkeypatch.setattr(_packing, "_TRANSPOSED", kind._replace(**{where: fail}))
    with torch.no_grad(), pytest.raises(RuntimeError) as raised:
        ours(torch.randn(2, 16, 9, device=device))
    assert str(raised.value) == str(fault)


def test_a_prepacked_call_out_of_memory(device, monkeypatch, capfd):
    ours = layer(device, packed=True)
    monkeypatch.setattr(_packing, "_TRANSPOSED", _packing._TRANSPOSED._replace(call=None))
    x = torch.zeros(1, 1, 1, device=device).expand(1 << 18, 16, 1 << 20)  # 32 TB of output
    with torch.no_grad(), pytest.raises(RuntimeError, match="out of memory"):
        ours(x)


def test_a_prepacked_call_takes_what_the_plain_one_takes(device):
    ours = layer(device, packed=True)
    x = torch.randn(2, 16, 9, device=device)
    with torch.no_grad():
        expected = ours(x)
        ours.stride, ours.padding = [4], [2]
        assert torch.equal(ours(x), expected)
        on_meta = layer("meta", packed=False)
        tconv.prepack(on_meta)
        assert on_meta(x.to("meta")).shape == expected.shape
