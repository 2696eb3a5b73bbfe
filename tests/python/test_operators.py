"""The operators under opcheck, on meta tensors, in CUDA graphs and on streams."""

import subprocess
import sys
import warnings

import pytest
import torch

import tconv
from support import Problem, integers, normal

# --- the operators themselves -----------------------------------------------------------------------------


@pytest.mark.needs((2, 4), "torch.library.opcheck")
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("unbatched", [False, True])
def test_opcheck(gradient, unbatched, device):
    problem = Problem(2, 4, 6, 9, 5, stride=2, padding=1, output_padding=1, groups=2)
    x, w, b = (t.requires_grad_(gradient) for t in problem.operands(normal, torch.float32, device))
    x = x[0].detach().requires_grad_(gradient) if unbatched else x
    for bias in (b, None):
        call = (x, w, bias, *problem.numbers)
        torch.library.opcheck(torch.ops.tconv.conv_transpose1d.default, (*call, "ieee"))
        if not gradient:
            torch.library.opcheck(torch.ops.tconv.forward.default, (*call, 0))


@pytest.mark.needs((2, 4), "torch.library.opcheck")
@pytest.mark.parametrize("bias", [False, True])
def test_opcheck_of_packed_weights(bias, device):
    """What prepack calls. How large packed weights are depends on the plan, so that these have no fake kernels; a layer
    that is traced calls the operators with raw weights."""
    problem = Problem(2, 4, 6, 9, 5, stride=2, padding=1, output_padding=1, groups=2, bias=bias)
    x, w, b = problem.operands(normal, torch.float32, device)
    stride, padding, _, groups, dilation = problem.numbers
    y = tconv.conv_transpose1d(x, w, b, *problem.numbers)
    calls = {"transposed": (x, w, b, *problem.numbers, 0),
             "strided": (y, w, None, x.shape[-1], stride, padding, groups, dilation, 0)}  # fmt: skip
    operators = {"transposed": (torch.ops.tconv.pack, torch.ops.tconv.forward_packed),
                 "strided": (torch.ops.tconv.strided_pack, torch.ops.tconv.strided_packed)}  # fmt: skip
    for name, call in calls.items():
        pack, run = (operator.default for operator in operators[name])
        packed, layout = pack(*call)
        for layout_asked in (layout, layout + 1):  # the right layout, and one that answers with its id
            full = (*call, packed, layout_asked)
            torch.library.opcheck(run, full, test_utils="test_schema")
        torch.library.opcheck(pack, call, test_utils="test_schema")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "problem",
    [
        Problem(2, 16, 24, 65, 8, stride=4, padding=2),
        Problem(1, 24, 24, 300, 4, stride=2, padding=1, groups=24),
        Problem(3, 40, 1, 501, 7, padding=3),
        Problem(16, 64, 32, 900, 3, dilation=3),  # a weight gradient in several parts
    ],
    ids=lambda problem: f"ci{problem.cin} co{problem.cout} l{problem.l}",
)
def test_deterministic_algorithms(problem, dtype, device):
    """Nothing refuses or warns under it, and outputs and gradients have the bits that they have without."""
    call = [t.requires_grad_() for t in problem.operands(normal, dtype, device)]

    def once():
        y = tconv.conv_transpose1d(*call, *problem.numbers)
        return [y.detach(), *torch.autograd.grad(y.float().square().sum(), call)]

    without = once()
    torch.use_deterministic_algorithms(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            first, second = once(), once()
    finally:
        torch.use_deterministic_algorithms(False)
    for a, b, c in zip(without, first, second, strict=True):
        assert torch.equal(a, b) and torch.equal(b, c)


def test_meta_and_fake_tensors(device):
    from torch._subclasses.fake_tensor import FakeTensorMode

    problem = Problem(2, 4, 6, 9, 5, stride=2, output_padding=1)
    operands = problem.operands(normal)
    meta = [t.to("meta") for t in operands]
    y = tconv.conv_transpose1d(*meta, *problem.numbers)
    assert y.device.type == "meta" and y.shape == (2, 6, problem.lout) and y.is_contiguous()
    real = [t.to(device) for t in operands]
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(t) for t in real]
        y = tconv.conv_transpose1d(*fake, *problem.numbers)
        assert y.device.type == device and y.shape == (2, 6, problem.lout)
    layer = tconv.ConvTranspose1d(4, 6, 5, device="meta")
    assert layer(meta[0]).shape == (2, 6, 13)


@pytest.mark.cpu_only
@pytest.mark.parametrize("transform", ["torch.vmap", "torch.func.grad", "torch.func.hessian"])
def test_the_first_transform_of_a_process(transform):
    """PyTorch imports what it needs for it inside of the transform."""
    code = f"""if True:
        import torch, tconv
        x, w = torch.randn(2, 4, 9), torch.randn(4, 3, 5)
        def loss(conv):
            return {transform}(lambda x: conv(x, w, None, 2).square().sum())(x)
        ours, theirs = loss(tconv.conv_transpose1d), loss(torch.nn.functional.conv_transpose1d)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)
        print("same")
    """
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300)
    assert ran.stdout == "same\n", ran.stderr[-2000:]


def test_cuda_graph_replays_with_new_values(device):
    if device == "cpu":
        pytest.skip("about CUDA")
    problem = Problem(2, 8, 8, 40, 8, stride=4, padding=2)
    x, w, b = problem.operands(integers, torch.float32, device)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            tconv.conv_transpose1d(x, w, b, *problem.numbers)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        y = tconv.conv_transpose1d(x, w, b, *problem.numbers)
    for _ in range(3):
        for t in (x, w, b):
            t.copy_(torch.randint(-2, 3, t.shape))  # weights too: packed anew inside the graph
        graph.replay()
        assert torch.equal(y, tconv.conv_transpose1d(x, w, b, *problem.numbers))


def test_streams(device):
    if device == "cpu":
        pytest.skip("about CUDA")
    x, w, b = Problem(4, 16, 16, 4000, 8).operands(integers, torch.float32, device)
    expected = tconv.conv_transpose1d(x * 2, w, b, 4)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(10_000_000)
        doubled = x * 2
        y = tconv.conv_transpose1d(doubled, w, b, 4)  # queued behind the sleep, not beside it
        torch.cuda.current_stream().synchronize()
    assert torch.equal(y, expected)
