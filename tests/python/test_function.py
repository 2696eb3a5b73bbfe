"""tconv.conv_transpose1d: the right numbers for every dtype, layout and shape."""

import pytest
import torch
import torch.nn.functional as F

import tconv
from support import DTYPES, Problem, assert_close, for_random_problems, integers, normal, reference
from tconv._pytorch import VERSION

SHAPES = [
    Problem(2, 3, 5, 17, 4, stride=2, padding=1),
    Problem(1, 1, 1, 1, 1, bias=False),
    Problem(3, 4, 6, 1, 7, stride=3, padding=2, output_padding=2, groups=2),
    Problem(2, 4, 4, 30, 5, padding=3, dilation=3),
    Problem(2, 6, 6, 11, 3, stride=5, groups=6),
    Problem(1, 2, 3, 9, 3, stride=2, padding=1, output_padding=1, dilation=2),
    Problem(2, 2, 2, 5, 3, stride=2, output_padding=3, dilation=4),
    Problem(1, 33, 1, 20, 16, stride=8, padding=4),
    Problem(0, 3, 4, 10, 3, stride=2),
    Problem(2, 3, 4, 2, 5, padding=3),  # Lout is 0
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("problem", SHAPES, ids=str)
def test_small_integers_are_exact(problem, dtype, device):
    operands = problem.operands(integers, dtype, device)
    y = tconv.conv_transpose1d(*operands, *problem.numbers)
    assert y.dtype == dtype and y.shape == (problem.n, problem.cout, problem.lout) and y.is_contiguous()
    torch.testing.assert_close(y.cpu().double(), reference(*operands, *problem.numbers)[0], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("problem", SHAPES, ids=str)
def test_random_data_is_within_its_bound(problem, dtype, device):
    operands = problem.operands(normal, dtype, device)
    y = tconv.conv_transpose1d(*operands, *problem.numbers)
    assert_close(y, operands, problem.numbers, tf32=tconv.precision(device) == "tf32")
    assert torch.equal(y, tconv.conv_transpose1d(*operands, *problem.numbers))


@for_random_problems(150)
def test_any_valid_problem_is_exact_and_equals_torch(problem, device):
    operands = problem.operands(integers, torch.float32, device)
    y = tconv.conv_transpose1d(*operands, *problem.numbers)
    torch.testing.assert_close(y.cpu().double(), reference(*operands, *problem.numbers)[0], rtol=0, atol=0)
    if y.numel() > 0:
        # cuDNN may choose an algorithm that is not exact on integers (FFT).
        inexact = 1e-3 if device == "cuda" else 0
        if VERSION < (2, 1) and problem.l == problem.k == 1:
            return  # oneDNN finds no format for some of these there
        torch.testing.assert_close(y, F.conv_transpose1d(*operands, *problem.numbers), rtol=0, atol=inexact)


@for_random_problems(40)
def test_16_bit_types_round_once(problem, device):
    """PyTorch's own rounds several times where output_padding >= stride."""
    for dtype in (torch.float16, torch.bfloat16):
        operands = problem.operands(normal, dtype, device)
        assert_close(tconv.conv_transpose1d(*operands, *problem.numbers), operands, problem.numbers)


def layouts(x):
    """The same values in other memory: (name, tensor)."""
    n, c, length = x.shape
    wide = torch.full((n, c + 2, 2 * length + 3), float("nan"), dtype=x.dtype, device=x.device)
    wide[:, 1:-1, 1 : 2 * length : 2] = x
    yield "channels last", x.transpose(1, 2).contiguous().transpose(1, 2)
    yield "batch last", x.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    yield "sliced with an offset", wide[:, 1:-1, 1 : 2 * length : 2]
    padded = torch.full((n, c, length + 5), float("nan"), dtype=x.dtype, device=x.device)
    padded[..., 2:-3] = x
    yield "cut from a longer signal", padded[..., 2:-3]


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_and_offsets_of_the_input(dtype, device):
    problem = Problem(3, 4, 5, 21, 6, stride=3, padding=2)
    x, w, b = problem.operands(integers, dtype, device)
    expected = tconv.conv_transpose1d(x, w, b, *problem.numbers)
    for name, view in layouts(x):
        assert not view.is_contiguous() and torch.equal(view, x), name
        y = tconv.conv_transpose1d(view, w, b, *problem.numbers)
        assert y.is_contiguous() and torch.equal(y, expected), name
    single = x[:, :1, :1]
    y = tconv.conv_transpose1d(single.expand(x.shape), w, b, *problem.numbers)
    assert torch.equal(y, tconv.conv_transpose1d(single.expand(x.shape).contiguous(), w, b, *problem.numbers))


def test_strides_of_weight_and_bias(device):
    problem = Problem(2, 4, 6, 13, 5, stride=2)
    x, w, b = problem.operands(integers, torch.float32, device)
    expected = tconv.conv_transpose1d(x, w, b, *problem.numbers)
    transposed = w.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    twice = torch.stack([b, b], 1)[:, 0]
    y = tconv.conv_transpose1d(x, transposed, twice, *problem.numbers)
    assert y.is_contiguous() and torch.equal(y, expected)  # PyTorch's own gives a channels-last output here


def test_unbatched_input(device):
    problem = Problem(1, 4, 6, 13, 5, stride=2, padding=1)
    x, w, b = problem.operands(integers, torch.float32, device)
    y = tconv.conv_transpose1d(x[0], w, b, *problem.numbers)
    assert y.dim() == 2 and torch.equal(y, tconv.conv_transpose1d(x, w, b, *problem.numbers)[0])
    view = x[0].t().contiguous().t()
    assert torch.equal(tconv.conv_transpose1d(view, w, b, *problem.numbers), y)


def test_numbers_as_pytorch_takes_them(device):
    x, w, b = Problem(1, 2, 4, 7, 3).operands(integers, torch.float32, device)
    expected = F.conv_transpose1d(x, w, b, 2, 1, 1, 1, 1)
    for one in (lambda v: [v], lambda v: (v,), torch.tensor, lambda v: torch.Size([v])):
        y = tconv.conv_transpose1d(x, w, b, one(2), one(1), one(1), 1, one(1))
        assert torch.equal(y, expected)
    y = tconv.conv_transpose1d(input=x, weight=w, bias=b, stride=2, padding=1, output_padding=True)
    assert torch.equal(y, expected)


def test_a_sample_does_not_depend_on_its_batch(device):
    if device == "cuda":
        pytest.skip("on CUDA only with the plan option batch_invariant")
    problem = Problem(5, 8, 8, 50, 7, stride=3, padding=2)
    x, w, b = problem.operands(normal)
    y = tconv.conv_transpose1d(x, w, b, *problem.numbers)
    for i in range(problem.n):
        assert torch.equal(tconv.conv_transpose1d(x[i : i + 1], w, b, *problem.numbers), y[i : i + 1])


@pytest.mark.cpu_only
def test_the_bits_do_not_depend_on_the_number_of_threads():
    problem = Problem(2, 16, 16, 300, 8, stride=4, padding=2)
    operands = problem.operands(normal)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            assert "n2 ci16" in tconv.explain(*operands, *problem.numbers)
            results.append(tconv.conv_transpose1d(*operands, *problem.numbers))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(y, results[0]) for y in results)


@pytest.mark.cpu_only
def test_the_bits_do_not_depend_on_flushing_of_subnormals():
    """torch.set_flush_denormal sets it for the calling thread, and for PyTorch's that begin later."""
    problem = Problem(2, 16, 16, 300, 8, stride=4, padding=2, bias=False)
    operands = problem.operands(lambda shape: normal(shape) * 1e-20)
    expected = tconv.conv_transpose1d(*operands, *problem.numbers)
    tiny = torch.finfo(torch.float32).tiny
    assert ((expected != 0) & (expected.abs() < tiny)).any()
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            assert torch.set_flush_denormal(True)
            flushed = tconv.conv_transpose1d(*operands, *problem.numbers)
            torch.set_flush_denormal(False)
            assert torch.equal(flushed.view(torch.int32), expected.view(torch.int32))
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)


@pytest.mark.cpu_only
def test_many_threads_at_once_and_more_problems_than_the_cache_holds():
    from concurrent.futures import ThreadPoolExecutor

    w = integers((3, 2, 4)).float()

    def work(worker):
        wrong = 0
        for length in range(1, 900):
            x = torch.full((1, 3, length + worker), 1.0)
            y = tconv.conv_transpose1d(x, w, None, 2)
            wrong += y.sum() != w.sum() * (length + worker)
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, [0, 0, 300, 600])) == 0


def test_nan_and_infinity_stay_in_their_place(device):
    """oneDNN spreads them through taps that lie in the padding."""
    x = torch.zeros(1, 1, 8, device=device)
    x[0, 0, 0] = float("inf")
    x[0, 0, 4] = float("nan")
    w = torch.ones(1, 1, 3, device=device)
    y = tconv.conv_transpose1d(x, w, None, 2, 1)[0, 0].cpu()
    assert y.isinf().nonzero().flatten().tolist() == [0, 1]
    assert y.isnan().nonzero().flatten().tolist() == [7, 8, 9]


def test_empty_results_have_their_shape(device):
    w = torch.ones(3, 2, 4, device=device)
    assert tconv.conv_transpose1d(torch.ones(0, 3, 5, device=device), w).shape == (0, 2, 8)
    assert tconv.conv_transpose1d(torch.ones(2, 3, 1, device=device), w, None, 1, 2).shape == (2, 2, 0)


@pytest.mark.cpu_only
def test_float32_mode_follows_allow_tf32():
    from torch.backends import __allow_nonbracketed_mutation as allowed

    before = torch.backends.cudnn.allow_tf32
    try:
        for value in (True, False):
            with allowed():
                torch.backends.cudnn.allow_tf32 = value
            assert tconv.precision() == ("tf32" if value else "ieee") and tconv.precision("cpu") == "ieee"
    finally:
        with allowed():
            torch.backends.cudnn.allow_tf32 = before


@pytest.mark.cpu_only
@pytest.mark.needs((2, 9), "fp32_precision")
def test_float32_mode_is_read_at_call_time():
    from torch.backends import __allow_nonbracketed_mutation as allowed  # PyTorch's test helpers freeze flags

    levels = (torch.backends.cudnn.conv, torch.backends.cudnn, torch.backends)
    conv, cudnn, everything = levels
    with allowed():
        before = [level.fp32_precision for level in levels]
        try:
            conv.fp32_precision = cudnn.fp32_precision = everything.fp32_precision = "none"
            assert tconv.precision() == "ieee"
            everything.fp32_precision = "tf32"
            assert tconv.precision() == "tf32" and tconv.precision("cpu") == "ieee"
            cudnn.fp32_precision = "ieee"
            assert tconv.precision() == "ieee"
            conv.fp32_precision = "tf32"
            assert tconv.precision() == "tf32"
        finally:
            for level, value in zip(levels, before, strict=True):
                level.fp32_precision = value
