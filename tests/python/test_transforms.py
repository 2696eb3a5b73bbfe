"""torch.compile, torch.export, vmap, autocast."""

import io

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

import tconv
from support import Problem, assert_close, close, integers, normal


class Decoder(nn.Module):
    """Two layers with something between them, as in a vocoder; smooth, so that rounding changes gradients little."""

    def __init__(self, layer):
        super().__init__()
        self.up1 = layer(6, 4, 8, stride=4, padding=2)
        self.up2 = layer(4, 2, 5, stride=2, padding=1, output_padding=1, groups=2, bias=False)

    def forward(self, x):
        return torch.tanh(self.up2(F.silu(self.up1(x))))


def decoders(device):
    torch.manual_seed(3)
    theirs = Decoder(nn.ConvTranspose1d).to(device)
    torch.manual_seed(3)
    return Decoder(tconv.ConvTranspose1d).to(device), theirs


# --- torch.compile ----------------------------------------------------------------------------------------


@pytest.mark.needs((2, 1), "dynamic shapes")
@pytest.mark.parametrize("gradient", [False, True])
def test_compile_without_graph_breaks_and_without_recompiling_for_a_new_length(gradient, device):
    torch._dynamo.reset()
    ours, theirs = decoders(device)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(ours, fullgraph=True, dynamic=True, backend=counter)
    with torch.set_grad_enabled(gradient):
        for length in (7, 30, 31, 64, 5):
            x = torch.randn(2, 6, length, device=device)
            y, expected = compiled(x), theirs(x)
            close(y, expected)
            if gradient:
                close(
                    torch.autograd.grad(y.square().sum(), ours.up1.weight)[0],
                    torch.autograd.grad(expected.square().sum(), theirs.up1.weight)[0],
                )
    assert counter.frame_count == 1
    names = [str(n.target) for graph in counter.graphs for n in graph.graph.nodes if n.op == "call_function"]
    assert names.count("tconv.conv_transpose1d.default") == 2


@pytest.mark.needs((2, 1), "dynamic shapes")
def test_automatic_dynamic_shapes_settle_after_one_recompile(device):
    torch._dynamo.reset()
    ours, theirs = decoders(device)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(ours, fullgraph=True, backend=counter)
    with torch.no_grad():
        for length in (7, 30, 31, 64, 5):
            x = torch.randn(2, 6, length, device=device)
            close(compiled(x), theirs(x))
    assert counter.frame_count == 2


def test_compile_with_inductor(device):
    torch._dynamo.reset()
    ours, theirs = decoders(device)
    compiled = torch.compile(ours, fullgraph=True)
    x = torch.randn(2, 6, 20, device=device, requires_grad=True)
    y, expected = compiled(x), theirs(x)
    close(y, expected)
    ours_grads = torch.autograd.grad(y.square().sum(), (x, *ours.parameters()))
    theirs_grads = torch.autograd.grad(expected.square().sum(), (x, *theirs.parameters()))
    for a, b in zip(ours_grads, theirs_grads, strict=True):
        close(a, b)


def test_compiled_call_of_the_function_with_autocast_and_lists(device):
    torch._dynamo.reset()

    def call(x, w, b):
        with torch.autocast(device, torch.bfloat16):
            return tconv.conv_transpose1d(x, w, b, [2], (1,), groups=1)

    operands = Problem(2, 4, 6, 9, 5).operands(normal, torch.float32, device)
    y = torch.compile(call, fullgraph=True, backend="aot_eager")(*operands)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, call(*operands))


def test_prepacked_and_patched_models_compile(device):
    torch._dynamo.reset()
    ours, theirs = decoders(device)
    tconv.unpatch(ours)
    layers = tconv.patch(ours)
    assert layers.conv_transpose1d == 2 and tconv.prepack(ours) == layers
    x = torch.randn(2, 6, 20, device=device)
    with torch.no_grad():
        close(torch.compile(ours, fullgraph=True, backend="aot_eager")(x), theirs(x))


# --- torch.export -----------------------------------------------------------------------------------------


@pytest.mark.needs((2, 2), "torch.export with dynamic shapes")
@pytest.mark.parametrize("strict", [False, True])
def test_export_with_a_dynamic_length_and_its_serialisation(strict, device):
    ours, theirs = decoders(device)
    x = torch.randn(2, 6, 20, device=device)
    length = torch.export.Dim("length", min=2, max=4096)
    program = torch.export.export(ours, (x,), dynamic_shapes=({2: length},), strict=strict)
    assert sum("tconv.conv_transpose1d" in str(n.target) for n in program.graph.nodes) == 2
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for new in (20, 33, 2):
        x = torch.randn(2, 6, new, device=device)
        close(loaded(x), theirs(x))
    decomposed = program.run_decompositions()
    close(decomposed.module()(x), theirs(x))


# --- vmap and torch.func ----------------------------------------------------------------------------------


@pytest.mark.parametrize("batched", ["x", "w", "b", "xw", "xb", "wb", "xwb"])
@pytest.mark.parametrize("unbatched_input", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_vmap(batched, unbatched_input, dtype, device):
    problem = Problem(3, 4, 6, 7, 5, stride=2, padding=1, output_padding=1, groups=2)
    shapes = {"x": (3, 4, 7)[unbatched_input:], "w": (4, 3, 5), "b": (6,)}
    where = {"x": 1, "w": -1, "b": 0}
    operands, dims = [], []
    for name, shape in shapes.items():
        value = normal((5, *shape) if name in batched else shape).to(dtype).to(device)
        dims.append(where[name] if name in batched else None)
        operands.append(value.movedim(0, where[name]) if name in batched else value)

    def call(x, w, b):
        return tconv.conv_transpose1d(x, w, b, *problem.numbers)

    y = torch.vmap(call, tuple(dims))(*operands)
    assert y.dtype == dtype
    for i in range(5):
        one = [t if d is None else t.select(d, i) for t, d in zip(operands, dims, strict=True)]
        if device == "cpu" and batched == "x":
            assert torch.equal(y[i], call(*one))  # a larger batch: the same bits
        if unbatched_input:
            one[0] = one[0][None]
        assert_close(y[i][None] if unbatched_input else y[i], one, problem.numbers, tconv.precision(device) == "tf32")
    no_bias = torch.vmap(lambda x, w: call(x, w, None), tuple(dims[:2])) if dims[:2] != [None, None] else None
    if no_bias is not None:
        assert no_bias(*operands[:2]).shape == y.shape


def test_vmap_of_vmap_and_of_a_gradient(device):
    x = torch.randn(2, 3, 1, 4, 6, dtype=torch.float64, device=device)
    w = torch.randn(3, 4, 2, 5, dtype=torch.float64, device=device)
    ours = torch.vmap(torch.vmap(tconv.conv_transpose1d), (0, None))(x, w)
    theirs = torch.vmap(torch.vmap(F.conv_transpose1d), (0, None))(x, w)
    torch.testing.assert_close(ours, theirs)

    def per_sample(conv):
        return torch.vmap(torch.func.grad(lambda w, x: conv(x, w).square().sum()), (None, 0))

    torch.testing.assert_close(
        per_sample(tconv.conv_transpose1d)(w[0], x[0]), per_sample(F.conv_transpose1d)(w[0], x[0])
    )


def test_vmap_of_the_operator_itself(device):
    x, w, b = Problem(3, 4, 6, 7, 5).operands(normal, torch.float32, device)

    def call(x):
        return torch.ops.tconv.conv_transpose1d(x, w, b, 2, 0, 0, 1, 1, "ieee")

    expected = call(x)
    close(torch.vmap(call)(x), expected)
    close(torch.vmap(torch.vmap(call))(x[None])[0], expected)


@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.jacfwd])
def test_jacobians(transform, device):
    operands = Problem(2, 2, 3, 4, 3, stride=2).operands(normal, torch.float64, device)
    ours = transform(lambda *t: tconv.conv_transpose1d(*t, 2), (0, 1, 2))(*operands)
    theirs = transform(lambda *t: F.conv_transpose1d(*t, 2), (0, 1, 2))(*operands)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_functional_call_and_ensembles(device):
    models = [decoders(device)[0] for _ in range(3)]
    for model in models:
        for p in model.parameters():
            p.data.normal_()
    parameters, buffers = torch.func.stack_module_state(models)
    x = torch.randn(2, 6, 9, device=device)

    def call(p, b):
        return torch.func.functional_call(models[0], (p, b), (x,))

    y = torch.vmap(call)(parameters, buffers)
    for i, model in enumerate(models):
        close(y[i], model(x))


# --- autocast ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.needs((2, 3), "float16 on a CPU"))],
)
def test_autocast_as_pytorch(dtype, device):
    operands = Problem(2, 4, 6, 9, 5, stride=2).operands(integers, torch.float32, device)
    halves = [t.to(dtype) for t in operands]
    with torch.autocast(device, dtype):
        y = tconv.conv_transpose1d(*operands, 2)
        assert y.dtype == F.conv_transpose1d(*operands, 2).dtype == dtype
        mixed = tconv.conv_transpose1d(operands[0], halves[1], operands[2], 2)
        direct = torch.ops.tconv.conv_transpose1d(*operands, 2, 0, 0, 1, 1, "ieee")
        with torch.autocast(device, enabled=False):
            assert tconv.conv_transpose1d(*operands, 2).dtype == torch.float32
        doubles = [t.double() for t in operands]
        assert tconv.conv_transpose1d(*doubles, 2).dtype == torch.float64
    assert torch.equal(y, tconv.conv_transpose1d(*halves, 2)) and torch.equal(y, mixed) and torch.equal(y, direct)


def test_autocast_gradients_have_the_parameters_dtype(device):
    ours, theirs = decoders(device)
    x = torch.randn(2, 6, 9, device=device)
    for model in (ours, theirs):
        with torch.autocast(device, torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert a.grad.dtype == torch.float32
        close(a.grad, b.grad, rtol=0.1, atol=0.02)
