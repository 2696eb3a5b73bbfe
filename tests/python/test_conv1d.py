"""tconv.conv1d: values, gradients, operands of every kind."""


import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck

import tconv
from conv1d_cases import SHAPES, definition, drawn, numbers, operands
from support import DTYPES, ROUNDING, integers, normal


def own(device, shape, dtype):
    """Whether each of output, input, weight and bias gradient is made by a kernel of tconv's, and not by cuDNN."""
    if device == "cpu":
        return [True] * 4
    text = tconv.explain(tconv.conv1d, *operands(shape, normal, dtype, device), *numbers(shape))
    return ["slow path: PyTorch" not in text] + [
        f"gradient   of {name}: PyTorch" not in text for name in ("input", "weight", "bias")
    ]


def check_exact(shape, dtype, device):
    call = [t.requires_grad_() for t in operands(shape, integers, dtype, device)]
    y = tconv.conv1d(*call, *numbers(shape))
    exact = [t.detach().cpu().double().requires_grad_() for t in call]
    # The zero is for problems none of whose taps lie in x: there autograd finds no graph.
    expected = definition(*exact, *numbers(shape)) + 0 * sum(t.sum() for t in exact)
    grad = integers(y.shape)
    ours = [y, *torch.autograd.grad(y, call, grad.to(dtype).to(device))]
    theirs = [expected, *torch.autograd.grad(expected, exact, grad)]
    for a, b, is_own in zip(ours, theirs, own(device, shape, dtype), strict=True):
        loose = {"rtol": 0.02, "atol": 0.02 * float(b.detach().abs().max() if b.numel() else 0)}
        allowed = {"rtol": 0, "atol": 0} if is_own else loose
        assert a.dtype == dtype and a.is_contiguous()
        torch.testing.assert_close(a.detach().cpu().double(), b.detach().to(dtype).double(), **allowed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_small_integers_are_exact(shape, dtype, device):
    check_exact(shape, dtype, device)


@pytest.mark.parametrize("shape", drawn(60), ids=range(60))
def test_any_valid_problem_is_exact(shape, device):
    for dtype in (torch.float32, torch.bfloat16):
        check_exact(shape, dtype, device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_data_is_within_its_bound(shape, dtype, device):
    x, w, b = operands(shape, normal, dtype, device)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        y = tconv.conv1d(x, w, b, *numbers(shape))
    value = definition(*(t.cpu().double() for t in (x, w, b)), *numbers(shape))
    size = definition(*(t.cpu().double().abs() for t in (x, w, b)), *numbers(shape))
    accumulate = ROUNDING[torch.float64 if dtype is torch.float64 else torch.float32]
    bound = (w.shape[1] * w.shape[2] + 3) * accumulate * size
    if dtype in (torch.float16, torch.bfloat16):
        bound = bound + ROUNDING[dtype] * value.abs() + 2**-25
    assert ((y.cpu().double() - value).abs() <= bound).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_same_bits_twice(shape, device):
    call = [t.requires_grad_() for t in operands(shape, normal, torch.float32, device)]

    def once():
        y = tconv.conv1d(*call, *numbers(shape))
        return [y.detach(), *torch.autograd.grad(y.square().sum(), call)]

    torch.use_deterministic_algorithms(True)
    try:
        first, second = once(), once()
    finally:
        torch.use_deterministic_algorithms(False)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    if device == "cpu":
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        alone = once()
        torch.set_num_threads(before)
        assert all(torch.equal(a, b) for a, b in zip(first, alone, strict=True))


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_infinities_and_nan_are_where_the_definition_has_them(shape, dtype):
    x, w, b = operands(shape, integers, dtype)
    x.flatten()[:: max(1, x.numel() // 5)] = torch.tensor(float("inf"), dtype=dtype)
    w.flatten()[0], w.flatten()[-1] = float("nan"), float("-inf")
    y = tconv.conv1d(x, w, b, *numbers(shape))
    expected = definition(*(t.double() for t in (x, w, b)), *numbers(shape)).to(dtype)
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)


LAYOUTS = {
    "channels last": lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2),
    "expanded": lambda t: t[:, :1, :1].expand(t.shape),
    "sliced": lambda t: torch.cat((t, t), -1).repeat_interleave(2, -1)[..., : 2 * t.shape[-1] : 2],
    "permuted": lambda t: t.permute(1, 2, 0).contiguous().permute(2, 0, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES[2:5], ids=str)
def test_operands_that_are_not_contiguous(shape, layout, device):
    x, w, b = operands(shape, integers, torch.float32, device)
    grad = integers(F.conv1d(x, w, b, *numbers(shape)).shape).float().to(device)
    for which in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)):
        call = [LAYOUTS[layout](t) if other else t for t, other in zip((x, w, grad), which, strict=True)]
        leaves = [call[0].detach().requires_grad_(), call[1].detach().requires_grad_()]
        y = tconv.conv1d(*leaves, b, *numbers(shape))
        exact = [t.detach().cpu().double().requires_grad_() for t in call[:2]]
        expected = definition(*exact, b.cpu().double(), *numbers(shape))
        ours = [y, *torch.autograd.grad(y, leaves, call[2])]
        theirs = [expected, *torch.autograd.grad(expected, exact, call[2].cpu().double())]
        loose = {"rtol": 0, "atol": 0} if device == "cpu" else {"rtol": 0.01, "atol": 0.1}
        for a, c in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a.detach().cpu().double(), c.detach(), **loose)


@pytest.mark.cpu_only
def test_a_strided_input_is_read_in_place():
    """Its steps are the problem's, and what is saved is the input itself."""
    x = torch.randn(2, 50, 8).transpose(1, 2)
    w = torch.randn(4, 8, 3, requires_grad=True)
    assert "ys400,1,8" in tconv.explain(tconv.conv1d, x, w)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.data_ptr()) or t, lambda t: t):
        tconv.conv1d(x, w)
    assert saved == [x.data_ptr()]  # for the gradient of the weight, and nothing else


@pytest.mark.parametrize("wanted", range(1, 8))
def test_only_what_is_wanted_is_computed_and_saved(wanted, device):
    shape = SHAPES[0]
    call = operands(shape, integers, torch.float64, device)
    mask = [bool(wanted & 1 << i) for i in range(3)]
    for tensor, wants in zip(call, mask, strict=True):
        tensor.requires_grad_(wants)
    stride, padding, dilation, groups = numbers(shape)
    for run in (tconv.conv1d, lambda *a: torch.ops.tconv.conv1d(*a, "ieee")):
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
            y = run(*call, stride, padding, dilation, groups)
        assert {t.data_ptr() for t in saved} == {
            t.data_ptr() for t, used in ((call[0], mask[1]), (call[1], mask[0])) if used
        }
        leaves = [t for t, wants in zip(call, mask, strict=True) if wants]
        expected = torch.autograd.grad(F.conv1d(*call, *numbers(shape)).sum(), leaves)
        for ours, theirs in zip(torch.autograd.grad(y.sum(), leaves), expected, strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradcheck_and_gradgradcheck(shape, device):
    call = [t.requires_grad_() for t in operands(shape, normal, torch.float64, device)]
    fast = {"fast_mode": True, "nondet_tol": 0.0 if device == "cpu" else 1e-6}

    def ours(*leaves):
        return tconv.conv1d(*leaves, *numbers(shape))

    assert gradcheck(ours, call, check_forward_ad=True, **fast)
    assert gradgradcheck(ours, call, **fast)

    def registered(*leaves):
        return torch.ops.tconv.conv1d(*leaves, *numbers(shape), "ieee")

    assert gradcheck(registered, call, **fast)
    assert gradgradcheck(registered, call, **fast)


def test_empty_batches(device):
    x = torch.ones(0, 3, 7, device=device, requires_grad=True)
    w = torch.ones(2, 3, 4, device=device, requires_grad=True)
    b = torch.ones(2, device=device, requires_grad=True)
    y = tconv.conv1d(x, w, b)
    assert y.shape == (0, 2, 4)
    for g, t in zip(torch.autograd.grad(y.sum(), (x, w, b)), (x, w, b), strict=True):
        assert g.shape == t.shape and not g.any()


@pytest.mark.parametrize("k", [1, 2, 5, 6])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_padding_by_name(k, dilation, device):
    x, w = torch.randn(2, 3, 20, device=device, dtype=torch.float64), torch.randn(4, 3, k, device=device).double()
    for padding in ("same", "valid"):
        for input in (x, x[0]):
            y = tconv.conv1d(input, w, None, 1, padding, dilation)
            torch.testing.assert_close(y, F.conv1d(input, w, None, 1, padding, dilation))
    leaf = x.clone().requires_grad_()
    assert gradcheck(lambda t: tconv.conv1d(t, w, None, 1, "same", dilation), (leaf,), fast_mode=True)


def test_numbers_in_lists_and_by_name(device):
    x, w, b = operands(SHAPES[2], normal, torch.float64, device)
    expected = F.conv1d(x, w, b, stride=3, padding=2, dilation=2, groups=2)
    for y in (
        tconv.conv1d(x, w, b, (3,), [2], (2,), 2),
        tconv.conv1d(input=x, weight=w, bias=b, groups=2, dilation=2, padding=2, stride=3),
    ):
        torch.testing.assert_close(y, expected)
    torch.testing.assert_close(tconv.conv1d(x[0], w, None, 3, 2, 2, 2), expected[0] - b[:, None])
