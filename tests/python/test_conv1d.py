"""tconv.conv1d: values, gradients of every order, transforms, tracing, refusals."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.testing._internal.common_methods_invocations import op_db

import tconv
from support import DTYPES, ROUNDING, integers, normal
from tconv._pytorch import VERSION

# n, cin, cout, length, k, stride, padding, dilation, groups
SHAPES = [
    (2, 3, 5, 9, 4, 2, 1, 1, 1),
    (1, 1, 1, 1, 1, 1, 0, 1, 1),
    (2, 4, 6, 12, 5, 3, 2, 2, 2),
    (2, 2, 2, 8, 3, 1, 2, 3, 1),
    (3, 4, 4, 7, 3, 5, 4, 1, 4),
    (1, 6, 3, 11, 11, 1, 0, 1, 3),
    (2, 1, 8, 20, 2, 4, 0, 3, 1),
]


def operands(shape, make, dtype=torch.float64, device="cpu"):
    n, cin, cout, length, k, *_, groups = shape
    shapes = (n, cin, length), (cout, cin // groups, k), (cout,)
    return [make(s).to(dtype).to(device) for s in shapes]


def numbers(shape):
    return shape[5:]


def definition(x, w, b, stride=1, padding=0, dilation=1, groups=1):
    """Tap by tap over what lies in x; differentiable. Taps outside are no products, whatever the weight."""
    n, cin, length = x.shape
    cout, _, k = w.shape
    lout = (length + 2 * padding - dilation * (k - 1) - 1) // stride + 1
    y = x.new_zeros(n, cout, lout)
    x, w = x.unflatten(1, (groups, cin // groups)), w.unflatten(0, (groups, cout // groups))
    for tap in range(k):
        first = tap * dilation - padding  # of x, for output 0
        low = max(0, -(first // stride))
        high = min(lout, (length - 1 - first) // stride + 1)
        if high > low:
            part = x[..., first + low * stride : first + (high - 1) * stride + 1 : stride]
            y[..., low:high] += torch.einsum("ngcl,gdc->ngdl", part, w[..., tap]).flatten(1, 2)
    return y if b is None else y + b[:, None]


def drawn(count):
    shapes = []
    for seed in range(count):
        draw = random.Random(seed).randint
        groups, stride, dilation, k, padding = draw(1, 3), draw(1, 5), draw(1, 4), draw(1, 9), draw(0, 6)
        least = max(1, dilation * (k - 1) + 1 - 2 * padding)
        shapes.append((draw(0, 3), groups * draw(1, 5), groups * draw(1, 5), least + draw(0, 30), k, stride, padding,
                       dilation, groups))  # fmt: skip
    return shapes


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
