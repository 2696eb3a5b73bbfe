"""The gradients of weight and bias from one call: the bits of two, and differentiable as they are."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

import tconv
from support import DTYPES, Problem, expanded, integers, normal, sliced
from tconv import _gradients
from tconv._gradients import Call

PROBLEMS = [
    Problem(2, 3, 5, 9, 4, stride=2, padding=1),
    Problem(1, 1, 1, 1, 1),
    Problem(2, 4, 6, 3, 5, stride=3, padding=2, output_padding=2, groups=2),
    Problem(1, 4, 4, 6, 3, stride=3, groups=4),
    Problem(3, 33, 20, 301, 3, padding=1),
]


def tensors(problem, make, dtype, device):
    """x and y of the transposed product, and the numbers that the operators take behind them."""
    x = make((problem.n, problem.cin, problem.l)).to(dtype).to(device)
    y = make((problem.n, problem.cout, problem.lout)).to(dtype).to(device)
    return x, y, (problem.k, problem.stride, problem.padding, problem.groups, problem.dilation)


class Operators(TorchDispatchMode):
    """Which operators of tconv run."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if op.namespace == "tconv":
            self.names.append(op.overloadpacket.__name__)
        return op(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("of_input", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_bits_are_those_of_two_calls(problem, of_input, dtype, device):
    x, y, numbers = tensors(problem, normal, dtype, device)
    for layout in (lambda t: t, sliced, expanded, lambda t: t[0]):
        a, b = layout(x), layout(y)
        w, sums = torch.ops.tconv.weight_bias(a, b, *numbers, 0, of_input)
        assert torch.equal(w, torch.ops.tconv.weight(a, b, *numbers, 0))
        assert torch.equal(sums, torch.ops.tconv.bias(a if of_input else b))
        assert w.is_contiguous() and sums.is_contiguous() and sums.dtype == dtype


def test_without_elements_both_are_zeros(device):
    x, y, numbers = tensors(Problem(0, 3, 5, 9, 4), normal, torch.float32, device)
    for of_input in (False, True):
        w, sums = torch.ops.tconv.weight_bias(x, y, *numbers, 0, of_input)
        assert w.shape == (3, 5, 4) and sums.shape == (3 if of_input else 5,) and not w.any() and not sums.any()
    x, y = torch.ones(2, 3, 1, device=device), torch.ones(2, 5, 0, device=device)
    w, sums = torch.ops.tconv.weight_bias(x, y, 4, 1, 2, 1, 1, 0, False)
    assert w.shape == (3, 5, 4) and sums.shape == (5,) and not w.any() and not sums.any()


def layers(device):
    x, w, b = Problem(2, 4, 6, 9, 5, stride=2).operands(normal, torch.float32, device)
    u, c = w.transpose(0, 1).contiguous(), normal((6,)).float().to(device)
    return [(lambda *t: tconv.conv_transpose1d(*t, 2), (x, w, b)), (lambda *t: tconv.conv1d(*t, 2), (x, u, c))]


def test_a_backward_makes_two_calls(device):
    for layer, operands in layers(device):
        leaves = [t.requires_grad_() for t in operands]
        y = layer(*leaves)
        grad = torch.randn_like(y)
        with Operators() as seen:
            grads = torch.autograd.grad(y, leaves, grad)
        assert len(seen.names) == 2 and seen.names.count("weight_bias") == 1, seen.names
        # What one of them needs by itself is one product or one sum, of the same bits.
        for which, name in ((1, "weight"), (2, "bias")):
            call = [t if i == which else t.detach() for i, t in enumerate(leaves)]
            y = layer(*call)
            with Operators() as seen:
                (alone,) = torch.autograd.grad(y, call[which], grad)
            assert seen.names == [name] and torch.equal(alone, grads[which])


def test_a_recorded_backward_has_the_same_bits(device):
    for layer, operands in layers(device):
        leaves = [t.requires_grad_() for t in operands]
        y = layer(*leaves)
        grad = torch.randn_like(y)
        plain = torch.autograd.grad(y, leaves, grad, retain_graph=True)
        recorded = torch.autograd.grad(y, leaves, grad, create_graph=True)
        for a, b in zip(plain, recorded, strict=True):
            assert torch.equal(a, b)


def differentiable(problem, of_input, which):
    call = Call(problem.stride, problem.padding, problem.output_padding, problem.groups, problem.dilation, 0)

    def run(y, x):
        both = _gradients.weight_and_bias(y, x, call, problem.k, of_input)
        return tuple(both[i] for i in which)

    return run


@pytest.mark.parametrize("which", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("of_input", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS[:4], ids=str)
def test_gradcheck_and_gradgradcheck(problem, of_input, which, device):
    x, y, _ = tensors(problem, normal, torch.float64, device)
    run = differentiable(problem, of_input, which)
    fast = {"fast_mode": True, "nondet_tol": 0.0 if device == "cpu" else 1e-6}
    for wanted in ((True, True), (True, False), (False, True)):
        operands = [t.clone().requires_grad_(need) for t, need in zip((y, x), wanted, strict=True)]
        if which == (1,) and not wanted[1 if of_input else 0]:
            continue  # the sum of the other tensor
        assert gradcheck(run, operands, check_forward_ad=True, **fast)
    if which != (1,):  # the sum is linear, and what it is the sum of has no second gradient
        assert gradgradcheck(run, [t.clone().requires_grad_() for t in (y, x)], **fast)


def test_third_order_and_forward_over_reverse(device):
    for layer, operands in layers(device):
        leaves = [t.double() for t in operands]

        def loss(*t, layer=layer):
            return layer(*t).pow(3).sum()

        every = (0, 1, 2)
        ours = torch.func.hessian(loss, every)(*leaves)  # forward over reverse
        twice = torch.func.jacrev(torch.func.jacrev(loss, every), every)(*leaves)
        for row, expected in zip(ours, twice, strict=True):
            for a, b in zip(row, expected, strict=True):
                torch.testing.assert_close(a, b)
        leaves = [t.requires_grad_() for t in leaves]
        first = torch.autograd.grad(loss(*leaves), leaves, create_graph=True)
        second = torch.autograd.grad(first[2].square().sum() + first[1].sum(), leaves, create_graph=True)
        torch.autograd.grad(sum(t.square().sum() for t in second), leaves)


@pytest.mark.parametrize("of_input", [False, True])
@pytest.mark.parametrize("dims", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("unbatched", [False, True])
def test_vmap_is_a_loop(of_input, dims, unbatched, device):
    problem = PROBLEMS[2]
    x, y, _ = tensors(problem, integers, torch.float64, device)
    many = [torch.stack([t + i for i in range(3)]) for t in (y, x)]
    if unbatched:
        many = [t[:, 0] for t in many]
    call = [t if d == 0 else t[0] for t, d in zip(many, dims, strict=True)]
    run = differentiable(problem, of_input, (0, 1))
    got = torch.vmap(run, dims)(*call)
    for i in range(3):
        each = run(*(t[i] if d == 0 else t for t, d in zip(call, dims, strict=True)))
        for a, b in zip(got, each, strict=True):
            assert torch.equal(a[i], b)


@pytest.mark.needs((2, 4), "torch.library.opcheck")
@pytest.mark.parametrize("of_input", [False, True])
def test_opcheck(of_input, device):
    x, y, numbers = tensors(PROBLEMS[0], normal, torch.float32, device)
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    for a, b in ((x, y), (x[0], y[0])):
        torch.library.opcheck(
            torch.ops.tconv.weight_bias.default, (a, b, *numbers, 0, of_input), test_utils=checks
        )


@pytest.mark.needs((2, 4), "backends of AOTAutograd in one line")
def test_a_compiled_backward_has_one_call_for_both(device):
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    for layer, operands in layers(device):
        torch._dynamo.reset()
        backwards = []

        def keep(graph, inputs, backwards=backwards):
            backwards.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
            return make_boxed_func(graph)

        backend = aot_autograd(fw_compiler=lambda graph, inputs: make_boxed_func(graph), bw_compiler=keep)
        compiled = torch.compile(layer, fullgraph=True, backend=backend)
        leaves = [t.requires_grad_() for t in operands]
        y = layer(*leaves)
        grad = torch.randn_like(y)
        expected = torch.autograd.grad(y, leaves, grad)
        got = torch.autograd.grad(compiled(*leaves), leaves, grad)
        for a, b in zip(got, expected, strict=True):
            assert torch.equal(a, b)
        (names,) = backwards
        assert names.count("tconv.weight_bias.default") == 1, names
        assert not {"tconv.weight.default", "tconv.bias.default", "aten.sum.dim_IntList"} & set(names), names
