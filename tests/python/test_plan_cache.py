"""The cache of plans: its bounds, fork(), and the threads that plans run on."""

import subprocess
import sys
import textwrap

import pytest
import torch

import tconv
from support import Problem, integers, normal
from tconv._library import backend

on_pytorchs_threads = pytest.mark.skipif(
    "tconv's own threads" in tconv.build_info(), reason="this package, or this PyTorch, lacks what it takes"
)
CAPACITY = 16 << 20


def use():
    return backend.cache_use()


def fill(count, first=100_000):
    """Plans of `count` lengths that no other test has."""
    w = torch.ones(1, 1, 1)
    with torch.no_grad():
        for length in range(first, first + count):
            tconv.conv_transpose1d(torch.ones(1, 1, 1).expand(0, 1, length), w)


@pytest.mark.cpu_only
def test_plans_are_bounded_in_bytes():
    before, _, _ = use()
    fill(100)
    plans, held, _ = use()
    assert plans == before + 100 or held > CAPACITY - (1 << 20)
    fill(4000)
    plans, held, _ = use()
    assert CAPACITY - (64 << 10) < held <= CAPACITY
    assert 3000 <= held / plans <= 16_000  # a plan of a small layer


@pytest.mark.cpu_only
def test_a_plan_that_is_in_use_stays():
    operands = Problem(1, 3, 2, 31, 5).operands(integers)
    for i in range(8):
        tconv.conv_transpose1d(*operands)
        fill(1000, 200_000 + 1000 * i)
    plans, held, _ = use()
    tconv.conv_transpose1d(*operands)
    assert use()[:2] == (plans, held)


def packing_problem():
    return Problem(2, 64, 128, 100, 4, stride=2)


@pytest.mark.cpu_only
def test_layouts_are_bounded_and_never_mistaken():
    problem = packing_problem()
    x, w, b = problem.operands(integers)
    packed, layout = torch.ops.tconv.pack(x, w, b, *problem.numbers, 0)
    assert layout > 0
    again = Problem(2, 64, 128, 140, 4, stride=2)
    longer = again.operands(integers)[0]
    assert torch.ops.tconv.pack(longer, w, b, *problem.numbers, 0)[1] == layout  # whatever the length
    fill(4000)
    assert use()[2] <= 1  # the fillers'
    expected = tconv.conv_transpose1d(x, w, b, *problem.numbers)
    answer, needed = torch.ops.tconv.forward_packed(x, w, b, *problem.numbers, 0, packed, layout)
    assert needed > layout and answer.numel() == 0
    output, same = torch.ops.tconv.forward_packed(x, w, b, *problem.numbers, 0, packed, needed)
    assert same == needed and torch.equal(output, expected)  # it is the same layout after all
    assert use()[2] <= use()[0]


@pytest.mark.cpu_only
def test_a_prepacked_layer_outlives_its_plans_and_keeps_few_buffers():
    layer = tconv.ConvTranspose1d(64, 128, 4, stride=2)
    x = torch.randn(2, 64, 100)
    with torch.no_grad():
        expected = layer(x)
        tconv.prepack(layer)
        for _ in range(20):
            assert torch.equal(layer(x), expected)
            fill(4000)
    assert 1 <= len(layer.__dict__["_tconv_packed"]._state.buffers) <= 16


def run_alone(script, timeout=300):
    """In a process of its own: fork() and thread counts mean something only there."""
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.cpu_only
def test_a_fork_while_another_thread_plans():
    """The child has the parent's problems, new ones and two threads, though PyTorch's do not survive the fork."""
    assert "30 children" in run_alone("""
        import multiprocessing, threading, torch, tconv

        torch.set_num_threads(2)
        torch.manual_seed(0)
        w, b = torch.randn(16, 16, 8), torch.randn(16)
        inputs = [torch.randn(8, 16, length) for length in (200, 201, 300)]

        def results():
            with torch.no_grad():
                return [tconv.conv_transpose1d(x, w, b, 4).numpy().tobytes() for x in inputs]

        expected = results()
        torch.randn(1 << 20).exp()  # PyTorch's threads exist, if they did not
        packed = tconv.ConvTranspose1d(16, 16, 8, 4)
        tconv.prepack(packed)
        with torch.no_grad():
            of_packed = packed(inputs[0]).numpy().tobytes()
        done = threading.Event()

        def plan():
            one, length = torch.ones(1, 1, 1), 0
            while not done.is_set():
                length = length % 1_000_000 + 1
                tconv.conv_transpose1d(one.expand(0, 1, length), one)

        def child(offset):
            assert results() == expected
            with torch.no_grad():
                assert packed(inputs[0]).numpy().tobytes() == of_packed
                new = torch.ones(2, 16, 50 + offset)
                assert tconv.conv_transpose1d(new, w, b, 4).shape[-1] == (50 + offset - 1) * 4 + 8

        planners = [threading.Thread(target=plan) for _ in range(2)]
        for thread in planners:
            thread.start()
        fork = multiprocessing.get_context("fork")
        try:
            for i in range(30):
                process = fork.Process(target=child, args=(i,))
                process.start()
                process.join(60)
                assert process.exitcode == 0, f"child {i}: {process.exitcode}"
                assert results() == expected
        finally:
            process.kill()
            done.set()
        print("30 children")
    """)


@on_pytorchs_threads
@pytest.mark.cpu_only
def test_work_goes_to_pytorchs_threads():
    assert "no thread of its own" in run_alone("""
        import os, torch, tconv

        def threads():
            return len(os.listdir("/proc/self/task"))

        def ours():
            with torch.no_grad():
                tconv.conv_transpose1d(x, w, None, 4)

        def theirs():
            torch.ones(1 << 22).exp_()

        x, w = torch.randn(8, 32, 2000), torch.randn(32, 32, 8)
        torch.set_num_threads(2)
        before = threads()
        theirs()
        two = threads()
        assert two == before + 1, (before, two)
        ours()
        assert threads() == two, (two, threads())
        torch.set_num_threads(4)  # the number of the moment; some PyTorch start threads of another pool here
        four = threads() + 2
        ours()
        assert threads() == four, (four, threads())
        theirs()
        assert threads() == four, (four, threads())
        print("no thread of its own")
    """)


@pytest.mark.cpu_only
def test_the_bits_are_the_same_inside_and_outside_of_parallel_regions():
    """torch.jit.fork runs in PyTorch's inter-op threads; there too each call has the number of the moment."""
    problem = Problem(4, 16, 16, 500, 8, stride=4, padding=2)
    operands = problem.operands(normal)
    before = torch.get_num_threads()
    expected = tconv.conv_transpose1d(*operands, *problem.numbers)
    traced = torch.jit.trace(lambda x, w, b: tconv.conv_transpose1d(x, w, b, *problem.numbers), operands)
    try:
        for threads in (1, 2, 7):
            torch.set_num_threads(threads)
            futures = [torch.jit.fork(traced, *operands) for _ in range(4)]
            assert all(torch.equal(torch.jit.wait(future), expected) for future in futures)
    finally:
        torch.set_num_threads(before)
