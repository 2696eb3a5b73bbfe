"""One layer's data on the CPU, its product by PyTorch and by tconv's C API, and the timing of ways that take turns.

transposed: conv_transpose1d. strided: conv1d, the layer backwards (it reads what the layer writes). weight: the
gradient of the layer's weight.
"""

import ctypes
import json
import math
import statistics
import subprocess
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import draw
import problem_floor
import tconv_ctypes

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
ALIGNMENT = 256


def keep_memory():
    """Freed memory stays with the process. Else each large output is made of fresh pages, whose faults take longer than
    many a layer, with both libraries alike."""
    libc = ctypes.CDLL(None)
    trim_threshold, mmap_max = -1, -4  # M_TRIM_THRESHOLD, M_MMAP_MAX
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 2**31 - 1)


def aligned(size):
    """A byte tensor and an aligned pointer into it."""
    buffer = torch.empty(size + ALIGNMENT, dtype=torch.uint8)
    return buffer, (buffer.data_ptr() + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


class Case:
    """A product of one layer, ready to run."""

    def __init__(self, layer, threads, operation="transposed", kernel=None):
        self.layer, self.operation = layer, operation
        self.text = draw.problem_text(layer, operation)
        self.plan = tconv_ctypes.Plan(self.text, threads=threads, kernel=kernel)
        dtype = DTYPES[layer.dtype]
        per_group = layer.cout // layer.groups

        def make(*shape, scale=1.0):
            return ((torch.rand(*shape) * 2 - 1) * scale).to(dtype)

        self.shapes = {"x": (layer.n, layer.cin, layer.l), "y": (layer.n, layer.cout, self.plan.lout),
                       "w": (layer.cin, per_group, layer.k)}
        self.x = make(*self.shapes["x"]) if operation != "strided" else None
        self.y = make(*self.shapes["y"]) if operation != "transposed" else None
        self.w = make(*self.shapes["w"], scale=1 / math.sqrt(per_group * layer.k))
        bias = layer.bias and operation != "weight"
        self.bias = make(layer.cin if operation == "strided" else layer.cout) if bias else None
        self.result = {"transposed": "y", "strided": "x", "weight": "w"}[operation]
        self.packed_buffer, self.packed_pointer = aligned(self.plan.packed_bytes)
        if self.plan.packed_bytes:
            self.plan.pack(self.w.data_ptr(), self.packed_pointer)
        self.warm = None

    def torch(self):
        return self.theirs(self.x, self.y, self.w, self.bias)

    def theirs(self, x, y, w, bias):
        c = self.layer
        if self.operation == "transposed":
            return F.conv_transpose1d(x, w, bias, c.stride, c.padding, c.output_padding, c.groups, c.dilation)
        if self.operation == "strided":
            return F.conv1d(y, w, bias, c.stride, c.padding, c.dilation, c.groups)
        return torch.ops.aten.convolution_backward(y, x, w, None, [c.stride], [c.padding], [c.dilation], True,
                                                   [c.output_padding], c.groups, [False, True, False])[1]

    def _arguments(self, output, weights, pointer, size):
        address = lambda tensor: None if tensor is None else tensor.data_ptr()
        if self.operation == "weight":
            weights = {}
        return self.plan.arguments(address(self.x), output.data_ptr(), bias=address(self.bias),
                                   grad_output=address(self.y), workspace=pointer, workspace_bytes=size, **weights)

    def _run(self, **weights):
        output = torch.empty(self.shapes[self.result], dtype=self.w.dtype)
        size = self.plan.workspace_bytes("packed" in weights)
        workspace, pointer = aligned(size)
        self.plan.run(self._arguments(output, weights, pointer, size))
        return output

    def raw(self):
        return self._run(weight=self.w.data_ptr())

    def prepacked(self):
        if not self.plan.packed_bytes:
            return self.raw()
        return self._run(packed=self.packed_pointer)

    def kernel_alone(self):
        """Packed weights, output and workspace that are there: what a C caller pays."""
        if self.warm is None:
            packed = self.plan.packed_bytes > 0
            size = self.plan.workspace_bytes(packed)
            output = torch.zeros(self.shapes[self.result], dtype=self.w.dtype)
            workspace, pointer = aligned(size)
            weights = {"packed": self.packed_pointer} if packed else {"weight": self.w.data_ptr()}
            self.warm = (self._arguments(output, weights, pointer, size), output, workspace)
        self.plan.run(self.warm[0])

    def pack_alone(self):
        if self.plan.packed_bytes:
            self.plan.pack(self.w.data_ptr(), self.packed_pointer)

    def largest_difference(self):
        """Over sum|a*b|, so that 1e-6 means float32's own rounding whatever the layer."""
        size = [None if tensor is None else tensor.abs().double() for tensor in (self.x, self.y, self.w)]
        scale = self.theirs(*size, None).clamp_min(1e-30)
        return ((self.torch().double() - self.raw().double()).abs() / scale).max().item()

    def floor_seconds(self, rates):
        """The larger of products over the multiply-add rate and bytes over the rate of copies of so many bytes."""
        whole = draw.WithOutput(self.layer)
        fma = rates["f64" if self.layer.dtype == "f64" else "f32"]
        size = problem_floor.data_bytes(whole)
        return max(2 * problem_floor.products(whole) / fma, size / copy_rate(rates, size))


COPIES = (1 << 17, 1 << 20, 1 << 23, 1 << 25, 1 << 28)  # bytes read and written


def rates(threads, simd=None):
    """Operations a second of f32 and f64 multiply-adds, and bytes a second of copies by size, by `tconv bench`."""
    found = {"copy": []}
    program = Path(tconv_ctypes.find_library()).parent / "tconv"
    for dtype in ("f32", "f64"):
        for size in COPIES if dtype == "f32" else COPIES[:1]:
            problem = f"ci1 co1 l{size // 8} k1 {dtype}"
            command = [program, "bench", "--json", "--seconds", "0.001", "--threads", str(threads), problem]
            command += ["--simd", simd] if simd else []
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[0]
            found[dtype] = max(found.get(dtype, 0), row["fma_gflops"] * 1e9)
            if dtype == "f32":
                found["copy"].append(row["copy_gbps"] * 1e9)
    return found


def copy_rate(rates, size):
    """Between the measured sizes, by their logarithms."""
    place = [math.log(each) for each in COPIES]
    at = min(max(math.log(max(1, size)), place[0]), place[-1])
    i = min(sum(each <= at for each in place), len(place) - 1)
    part = (at - place[i - 1]) / (place[i] - place[i - 1])
    return rates["copy"][i - 1] * (1 - part) + rates["copy"][i] * part


def read_rate(rates, size):
    """Bytes a second of reading `size` bytes that were read before: a copy that moves twice as much moves each byte
    once in either direction, and the slower of the two counts."""
    return copy_rate(rates, 2 * size)


def timed(function, calls=1):
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def in_turns(functions, seconds, rounds):
    """Medians and spreads of functions run in turns: at least so many rounds, else until the time is spent."""
    times = {name: [] for name in functions}
    calls, taken = {}, {}
    for name, function in functions.items():
        function()
        taken[name] = timed(function)
        calls[name] = max(1, min(50, int(0.004 / max(1e-6, taken[name]))))
    end = time.perf_counter() + seconds
    while len(times["torch"]) < rounds or (time.perf_counter() < end and len(times["torch"]) < 60):
        for name, function in functions.items():
            # The other side's idle threads spin after their work, libgomp's for 10 ms: let them sleep first. In PyTorch
            # tconv runs on PyTorch's own threads; here it has its pool, as from C.
            time.sleep(0.012)
            if taken[name] < 0.05:
                function()
            times[name].append(timed(function, calls[name]))
    return {name: summary(values) for name, values in times.items()}


def summary(values):
    quartiles = statistics.quantiles(values, n=4)
    median = statistics.median(values)
    return {"median_ms": median * 1e3, "min_ms": min(values) * 1e3,
            "spread": (quartiles[2] - quartiles[0]) / median}


def matmul_gflops():
    """How fast the machine is just now."""
    a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
    return 2 * 1024**3 / min(timed(lambda: a @ b) for _ in range(2)) / 1e9
