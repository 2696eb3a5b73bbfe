"""Timing on a GPU: events, rounds that take turns, CUDA graphs, and the machine's own ceilings."""

import datetime
import json
import os
import shlex
import signal
import statistics
import sys
import time

import torch

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}


def command():
    """What repeats this run, from the root of the sources."""
    return shlex.join(["python", f"benchmarks/compare/{os.path.basename(sys.argv[0])}", *sys.argv[1:]])


def machine():
    """Where and with what the results of this run were measured, by the C API."""
    import tconv_ctypes  # not above: a process that uses the binding must not load a second build of the library first

    properties = torch.cuda.get_device_properties(0)
    return {"command": command(), "date": datetime.date.today().isoformat(),
            "machine": f"{properties.name}, {properties.multi_processor_count} SMs",
            "versions": {"tconv": tconv_ctypes.LIB.tconv_build_info().decode(), "torch": torch.__version__,
                         "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}}


def rounded(value):
    """Floats to five digits, which is more than a time is worth."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def write(path, result):
    """A row a line; whole or not at all: a run that is killed meanwhile leaves the file as it was."""
    head = json.dumps({key: rounded(value) for key, value in result.items() if key != "rows"}, indent=1)
    rows = ",\n  ".join(json.dumps(rounded(row)) for row in result["rows"])
    unfinished = f"{path}.unfinished"
    with open(unfinished, "w") as file:
        file.write(f"{head[:-2]},\n \"rows\": [\n  {rows}\n ]\n}}\n")
    os.replace(unfinished, path)


class Kept:
    """The results so far in a file, for a run that may be stopped: `with Kept(path, result) as kept`, and kept.row()
    after each row. result() is written every few seconds, which survives a kill, and when the block ends, also by an
    error or SIGTERM (which `timeout` sends). Nothing is written without a path."""

    SECONDS = 10  # writing takes up to a tenth of a second for hundreds of rows

    def __init__(self, path, result):
        self.path, self.result, self.written = path, result, time.perf_counter()

    def row(self):
        if self.path and time.perf_counter() - self.written > self.SECONDS:
            write(self.path, self.result())
            self.written = time.perf_counter()

    def __enter__(self):
        self.before = signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
        return self

    def __exit__(self, *_):
        signal.signal(signal.SIGTERM, self.before)
        if self.path:
            write(self.path, self.result())


def summary(values):
    """Milliseconds a call: median, minimum, and the interquartile range over the median."""
    median = statistics.median(values)
    quartiles = statistics.quantiles(values, n=4) if len(values) > 2 else [median] * 3
    return {"median_ms": median, "min_ms": min(values), "spread": (quartiles[2] - quartiles[0]) / median,
            "rounds": len(values)}


def timed(function, calls):
    """Milliseconds a call of `calls` calls between two events."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(calls):
        function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls


def calls_for(function, window_ms=1.0, most=200):
    function()
    return max(1, min(most, int(window_ms / max(1e-3, timed(function, 2)))))


def in_turns(functions, seconds, least=5, most=40):
    """Medians and spreads of functions run in turns until the time is spent. Each is warm before."""
    calls = {name: calls_for(function) for name, function in functions.items()}
    times = {name: [] for name in functions}
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < least or (rounds < most and time.perf_counter() < end):
        for name, function in functions.items():
            times[name].append(timed(function, calls[name]))
        rounds += 1
    return {name: summary(values) for name, values in times.items()}


class Graph:
    """`count` calls in one CUDA graph. function(stream) must queue on that stream."""

    def __init__(self, function, count):
        self.count = count
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            function()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(count):
                function()

    def __call__(self):
        self.graph.replay()


class Precision:
    """TF32 on or off for float32 convolutions and products."""

    def __init__(self, tf32):
        self.tf32 = tf32

    def __enter__(self):
        self.before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = self.tf32

    def __exit__(self, *_):
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = self.before


def floors(gib=1):
    """What this machine reaches just now: GB/s of a large copy (read plus written), TFLOP/s of products."""
    source = torch.rand(gib * 2**28, device="cuda")
    target = torch.empty_like(source)
    copy = in_turns({"copy": lambda: target.copy_(source)}, 0.1)["copy"]
    rates = {"copy_gbps": 2 * source.numel() * 4 / copy["median_ms"] / 1e6, "copy_spread": copy["spread"]}
    del source, target
    for name, dtype, size, tf32 in (("ieee", torch.float32, 8192, False), ("tf32", torch.float32, 8192, True),
                                    ("f16", torch.float16, 8192, False), ("bf16", torch.bfloat16, 8192, False),
                                    ("f64", torch.float64, 4096, False)):
        a = torch.rand(size, size, device="cuda", dtype=torch.float32).to(dtype)
        b = torch.rand(size, size, device="cuda", dtype=torch.float32).to(dtype)
        with Precision(tf32):
            took = in_turns({name: lambda: a @ b}, 0.15)[name]
        rates[f"{name}_tflops"] = 2 * size**3 / took["median_ms"] / 1e9
    torch.cuda.empty_cache()
    return rates
