"""Gradients: values, gradients of gradients, what is saved, forward mode."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad, gradcheck, gradgradcheck

import tconv
from support import DTYPES, Problem, close, for_random_problems, integers, normal, reference_gradients

SHAPES = [
    Problem(2, 3, 5, 9, 4, stride=2, padding=1),
    Problem(1, 1, 1, 1, 1, bias=False),
    Problem(2, 4, 6, 3, 5, stride=3, padding=2, output_padding=2, groups=2),
    Problem(2, 2, 2, 8, 3, padding=2, dilation=3),
    Problem(1, 2, 3, 5, 3, stride=2, output_padding=3, dilation=4),
    Problem(1, 4, 4, 6, 3, stride=3, groups=4),
]
# Where PyTorch 2.11's own 16-bit gradients on the CPU are wrong, or worse.
HARD_IN_16_BITS = [
    Problem(1, 8, 8, 12, 8, stride=4, groups=4),
    Problem(1, 6, 6, 20, 40, groups=6),
    Problem(2, 16, 32, 33, 3, stride=2, padding=1),
]


def with_gradients(operands):
    return [None if t is None else t.clone().requires_grad_() for t in operands]


def check_exact(problem, dtype, device):
    operands = with_gradients(problem.operands(integers, dtype, device))
    y = tconv.conv_transpose1d(*operands, *problem.numbers)
    grad = integers(y.shape).to(dtype).to(device)
    leaves = [t for t in operands if t is not None]
    grads = torch.autograd.grad(y, leaves, grad)
    expected = [g for g in reference_gradients(grad, *operands, *problem.numbers) if g is not None]
    # On a GPU these are cuDNN's: it may choose an algorithm that is not exact on integers.
    exact = {"rtol": 0, "atol": 0}
    loose = {"rtol": 0.02 if dtype is torch.bfloat16 else 2e-3, "atol": 0.02} if device == "cuda" else exact
    for ours, theirs, leaf in zip(grads, expected, leaves, strict=True):
        assert ours.dtype == dtype and ours.shape == leaf.shape
        torch.testing.assert_close(ours.cpu().double(), theirs.to(dtype).double(), **loose)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("problem", SHAPES + HARD_IN_16_BITS, ids=str)
def test_small_integers_are_exact(problem, dtype, device):
    check_exact(problem, dtype, device)


@for_random_problems(60)
def test_any_valid_problem_is_exact(problem, device):
    check_exact(problem, torch.float32, device)
    check_exact(problem, torch.bfloat16, device)


@pytest.mark.parametrize("problem", SHAPES, ids=str)
def test_gradcheck_and_gradgradcheck(problem, device):
    operands = with_gradients(problem.operands(normal, torch.float64, device))

    def call(*leaves):
        return tconv.conv_transpose1d(*leaves, *problem.numbers)

    fast = {"fast_mode": True, "nondet_tol": 0.0 if device == "cpu" else 1e-6}
    assert gradcheck(call, operands, check_forward_ad=True, **fast)
    assert gradgradcheck(call, operands, **fast)
    # The same through the operator's own registration, which compiled graphs take.
    def registered(*leaves):
        return torch.ops.tconv.conv_transpose1d(*leaves, *problem.numbers, "ieee")

    assert gradcheck(registered, operands, **fast)
    assert gradgradcheck(registered, operands, **fast)


def test_unbatched_input(device):
    x, w, b = with_gradients(Problem(1, 3, 4, 7, 5, stride=2).operands(normal, torch.float64, device))
    assert gradcheck(lambda *t: tconv.conv_transpose1d(t[0][0], *t[1:], 2), (x, w, b), fast_mode=True)
    y = tconv.conv_transpose1d(x[0], w, b, 2)
    grads = torch.autograd.grad(y.sum(), (x, w, b))
    expected = torch.autograd.grad(F.conv_transpose1d(x[0], w, b, 2).sum(), (x, w, b))
    for ours, theirs in zip(grads, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("wanted", range(1, 8))
def test_only_what_is_wanted_is_computed_and_saved(wanted, device):
    problem = Problem(2, 3, 4, 7, 5, stride=2)
    operands = problem.operands(integers, torch.float32, device)
    mask = [bool(wanted & 1 << i) for i in range(3)]
    for tensor, wants in zip(operands, mask, strict=True):
        tensor.requires_grad_(wants)
    for call in (tconv.conv_transpose1d, lambda *a: torch.ops.tconv.conv_transpose1d(*a, "ieee")):
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
            y = call(*operands, *problem.numbers)
        addresses = {t.data_ptr() for t in saved}
        x, w, _ = operands
        assert addresses == {t.data_ptr() for t, used in ((x, mask[1]), (w, mask[0])) if used}
        grads = torch.autograd.grad(y.sum(), [t for t, wants in zip(operands, mask, strict=True) if wants])
        every = reference_gradients(torch.ones_like(y), *operands, *problem.numbers)
        expected = [g for g, wants in zip(every, mask, strict=True) if wants]
        for ours, theirs in zip(grads, expected, strict=True):
            torch.testing.assert_close(ours.cpu().double(), theirs, rtol=0, atol=0 if device == "cpu" else 0.02)


def test_nothing_is_saved_without_need(device):
    operands = with_gradients(Problem(2, 3, 4, 7, 5).operands(normal, torch.float32, device))
    with torch.no_grad():
        y = tconv.conv_transpose1d(*operands)
    assert y.grad_fn is None and not y.requires_grad
    with torch.inference_mode():
        assert tconv.conv_transpose1d(*operands).is_inference()
    assert tconv.conv_transpose1d(*(t.detach() for t in operands)).grad_fn is None


def test_a_strided_input_is_saved_as_it_is(device):
    base = torch.randn(2, 40, 3, device=device, requires_grad=True)
    w = torch.randn(3, 4, 5, device=device, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.data_ptr()) or t, lambda t: t):
        y = tconv.conv_transpose1d(base.transpose(1, 2), w, None, 2)
    assert base.data_ptr() in saved  # no hidden copy
    grads = torch.autograd.grad(y.square().sum(), (base, w))
    theirs = F.conv_transpose1d(base.transpose(1, 2), w, None, 2)
    for ours, expected in zip(grads, torch.autograd.grad(theirs.square().sum(), (base, w)), strict=True):
        close(ours, expected, rtol=2e-3)


def test_empty_batch_and_empty_output(device):
    w = torch.ones(3, 2, 4, device=device, requires_grad=True)
    b = torch.ones(2, device=device, requires_grad=True)
    for x, padding in ((torch.ones(0, 3, 5, device=device), 0), (torch.ones(2, 3, 1, device=device), 2)):
        x.requires_grad_()
        y = tconv.conv_transpose1d(x, w, b, 1, padding)
        assert y.numel() == 0
        grads = torch.autograd.grad(y.sum(), (x, w, b))
        for g, t in zip(grads, (x, w, b), strict=True):
            assert g.shape == t.shape and not g.any()


def test_changing_a_saved_tensor_in_place_is_noticed(device):
    x = torch.randn(1, 3, 5, device=device)
    w = torch.randn(3, 2, 4, device=device, requires_grad=True)
    y = tconv.conv_transpose1d(x, w)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_forward_mode(device):
    operands = Problem(2, 3, 4, 6, 5, stride=2).operands(normal, torch.float64, device)
    tangents = [torch.randn_like(t) for t in operands]

    def ours(*t):
        return tconv.conv_transpose1d(*t, 2)

    def theirs(*t):
        return F.conv_transpose1d(*t, 2)

    call = (operands, tuple(tangents))
    for a, b in zip(torch.func.jvp(ours, *call), torch.func.jvp(theirs, *call), strict=True):
        torch.testing.assert_close(a, b)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(operands[0], tangents[0])
        tangent = forward_ad.unpack_dual(ours(dual, *operands[1:])).tangent
    torch.testing.assert_close(tangent, F.conv_transpose1d(tangents[0], operands[1], None, 2))
    for a, b in zip(
        torch.func.jacfwd(ours, (0, 1, 2))(*operands), torch.func.jacrev(theirs, (0, 1, 2))(*operands), strict=True
    ):
        torch.testing.assert_close(a, b)


def test_higher_order_through_torch_func(device):
    x, w, b = Problem(1, 2, 2, 4, 3, stride=2).operands(normal, torch.float64, device)

    def loss(conv):
        return lambda x, w: conv(x, w, b, 2).pow(3).sum()

    ours = torch.func.hessian(loss(tconv.conv_transpose1d), (0, 1))(x, w)
    theirs = torch.func.hessian(loss(F.conv_transpose1d), (0, 1))(x, w)
    for row, expected in zip(ours, theirs, strict=True):
        for a, b2 in zip(row, expected, strict=True):
            torch.testing.assert_close(a, b2)
