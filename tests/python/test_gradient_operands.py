"""Gradients where operands lie in memory in other ways: cuDNN faults on some that are not dense."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import tconv
from support import DTYPES, Problem, expanded, integers, reference_gradients, sliced
from tconv._backends import pytorch_convolution

PROBLEMS = [
    Problem(1, 1, 48, 1, 8, stride=9, padding=3, bias=False),  # a position, a channel: strides say little
    Problem(2, 4, 6, 5, 3, stride=2, padding=1, output_padding=1, groups=2),
    Problem(3, 4, 4, 7, 4, stride=2, groups=4),
    Problem(2, 3, 5, 6, 3, dilation=2),
]


def transposed(t):
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)


def outermost_last(t):
    return t.permute(1, 2, 0).contiguous().permute(2, 0, 1)


def odd(t):
    """Contiguous, but where a size is 1 its stride is one that no fresh tensor has."""
    strides = [7 if size == 1 else step for size, step in zip(t.shape, t.stride(), strict=True)]
    return t.contiguous().as_strided(t.shape, strides)


LAYOUTS = [transposed, outermost_last, sliced, expanded, odd]


def tolerance(dtype, device):
    """On a GPU these are cuDNN's, which promises nothing to the bit."""
    if device == "cpu":
        return {"rtol": 0, "atol": 0}
    loose = {torch.float64: 1e-9, torch.bfloat16: 0.05}.get(dtype, 0.01)
    return {"rtol": loose, "atol": loose * 8}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_layouts_of_every_operand(problem, layout, dtype, device):
    x, w, _ = problem.operands(integers, dtype, device)
    grad = integers((problem.n, problem.cout, problem.lout)).to(dtype).to(device)
    for which in ((True, False, False), (False, True, False), (False, False, True), (True, True, True)):
        operands = [layout(t) if other else t for t, other in zip((x, w, grad), which, strict=True)]
        leaves = [t.detach().requires_grad_() for t in operands[:2]]
        every = reference_gradients(operands[2], *operands[:2], None, *problem.numbers)
        for wanted in ((0,), (1,), (0, 1)):
            call = [t if i in wanted else t.detach() for i, t in enumerate(leaves)]
            y = tconv.conv_transpose1d(*call, None, *problem.numbers)
            grads = torch.autograd.grad(y, [call[i] for i in wanted], operands[2])
            for i, ours in zip(wanted, grads, strict=True):
                expected = every[i].to(dtype).double()
                torch.testing.assert_close(ours.cpu().double(), expected, **tolerance(dtype, device))


def second_order(conv, x, w, numbers):
    y = conv(x, w, None, *numbers)
    first = torch.autograd.grad(y.sum(), (x, w), create_graph=True)
    return torch.autograd.grad(sum((g * g).sum() for g in first), (x, w))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("problem", PROBLEMS[1:], ids=str)
def test_layouts_under_a_double_backward(problem, layout, dtype, device):
    x, w, _ = problem.operands(lambda shape: integers(shape).clamp(-1, 1), dtype, device)
    ours = second_order(tconv.conv_transpose1d, *(layout(t).requires_grad_() for t in (x, w)), problem.numbers)
    # PyTorch's, where it is right: on the CPU, in float64.
    exact = [layout(t).cpu().double().requires_grad_() for t in (x, w)]
    for a, b in zip(ours, second_order(F.conv_transpose1d, *exact, problem.numbers), strict=True):
        allowed = tolerance(dtype, device)
        if dtype in (torch.float16, torch.bfloat16):  # sums of several rounded tensors
            allowed = {"rtol": 0.02, "atol": 0.02 * b.abs().max().item()}
        torch.testing.assert_close(a.cpu().double(), b, **allowed)


class Operators(TorchDispatchMode):
    """What runs, and the strides of what PyTorch's convolutions are given."""

    def __init__(self):
        super().__init__()
        self.names, self.operands = [], []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        name = op.overloadpacket.__name__
        self.names.append(name)
        if name in ("convolution", "convolution_backward"):
            self.operands += [t for t in args[: 2 if name == "convolution" else 3] if t is not None]
        return op(*args, **(kwargs or {}))


@pytest.mark.needs((2, 7), "fake tensors of a device that is not there")
@pytest.mark.cpu_only
@pytest.mark.parametrize("unbatched", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_cudnn_is_given_the_strides_of_fresh_tensors(problem, layout, unbatched):
    """Where PyTorch's kernels stand in for the slow path. On fake tensors of a GPU that need not be there."""
    shapes = [(problem.n, problem.cout, problem.lout), (problem.n, problem.cin, problem.l)]
    stride, padding, output_padding, groups, dilation = problem.numbers
    with FakeTensorMode():
        grad, x = (layout(torch.empty(shape, device="cuda")) for shape in shapes)
        grad, x = (grad[0], x[0]) if unbatched else (grad, x)
        w = layout(torch.empty(problem.cin, problem.cout // problem.groups, problem.k, device="cuda"))
        with Operators() as seen:
            of_x = pytorch_convolution.strided(grad, w, None, problem.l, stride, padding, groups, dilation)
            of_w = pytorch_convolution.weight(x, grad, output_padding, problem.k, stride, padding, groups, dilation)
        assert of_x.shape == x.shape and of_w.shape == w.shape
        assert len(seen.operands) == 5
        for t in seen.operands:
            assert t.stride() == torch.empty(t.shape, device="cuda").stride()


@pytest.mark.cpu_only
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_what_stands_in_for_the_slow_path_computes_the_same(problem):
    stride, padding, output_padding, groups, dilation = problem.numbers
    x, w, _ = problem.operands(integers, torch.float64)
    grad = integers((problem.n, problem.cout, problem.lout))
    of_x, of_w, _ = reference_gradients(grad, x, w, None, *problem.numbers)
    ours = pytorch_convolution.strided(grad, w, None, problem.l, stride, padding, groups, dilation)
    torch.testing.assert_close(ours, of_x, rtol=0, atol=1e-9)
    ours = pytorch_convolution.weight(x, grad, output_padding, problem.k, stride, padding, groups, dilation)
    torch.testing.assert_close(ours, of_w, rtol=0, atol=1e-9)
    torch.testing.assert_close(pytorch_convolution.bias(grad), grad.sum((0, 2)))


@pytest.mark.parametrize("transform", [False, True])
def test_no_gradient_of_any_order_is_made_by_pytorch(transform, device):
    """Its double backward convolves transposed operands."""
    problem = Problem(2, 4, 6, 5, 3, stride=2, padding=1, groups=2)
    x, w, _ = problem.operands(integers, torch.float32, device)

    def loss(x, w):
        return tconv.conv_transpose1d(x, w, None, *problem.numbers).square().sum()

    with Operators() as seen:
        if transform:
            torch.func.hessian(loss, (0, 1))(x, w)
        else:
            leaves = [t.clone().requires_grad_() for t in (x, w)]
            grads = [loss(*leaves)]
            for _ in range(3):
                grads = torch.autograd.grad(sum(g.square().sum() for g in grads), leaves, create_graph=True)
    assert not {"convolution", "_convolution", "convolution_overrideable", "convolution_backward"} & set(seen.names)
