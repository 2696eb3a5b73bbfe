"""tconv against PyTorch on the CPU, layer by layer, in one process.

Each layer is timed for each thread count in rounds that take turns: PyTorch's conv_transpose1d, tconv with
raw weights (packing inside the call, as a drop-in pays it) and tconv with packed weights. All three allocate
their output through PyTorch in the timed region, tconv its workspace too. Reported: medians, the spread
(interquartile range over median), and the ratio PyTorch / tconv raw. A matrix product of 1024 cubed,
measured beside every layer, tells how fast the machine was just then.

    python benchmarks/compare/torch_cpu.py --json benchmarks/results/torch_cpu.json
"""

import argparse
import datetime
import json
import math
import platform
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import layers as layer_table
import tconv_ctypes

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
ALIGNMENT = 256


def aligned(size):
    """A byte tensor and an aligned pointer into it."""
    buffer = torch.empty(size + ALIGNMENT, dtype=torch.uint8)
    return buffer, (buffer.data_ptr() + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


class Case:
    """One layer's data and the three ways to run it."""

    def __init__(self, layer, threads):
        dtype = DTYPES[layer.dtype]
        self.layer = layer
        self.x = torch.rand(layer.n, layer.cin, layer.l, dtype=torch.float32).to(dtype)
        bound = 1 / math.sqrt(layer.cout // layer.groups * layer.k)
        self.w = ((torch.rand(layer.cin, layer.cout // layer.groups, layer.k) * 2 - 1) * bound).to(dtype)
        self.bias = torch.rand(layer.cout).to(dtype) if layer.bias else None
        self.plan = tconv_ctypes.Plan(layer.text(), threads=threads)
        self.packed, self.packed_pointer = aligned(self.plan.packed_bytes)
        if self.plan.packed_bytes:
            self.plan.pack(self.w.data_ptr(), self.packed_pointer)

    def torch(self):
        layer = self.layer
        return F.conv_transpose1d(self.x, self.w, self.bias, layer.stride, layer.padding, layer.output_padding,
                                  layer.groups, layer.dilation)

    def _run(self, **weights):
        y = torch.empty(self.layer.n, self.layer.cout, self.plan.lout, dtype=self.x.dtype)
        size = self.plan.workspace_bytes("packed" in weights)
        workspace, pointer = aligned(size)
        self.plan.run(self.plan.arguments(
            self.x.data_ptr(), y.data_ptr(), bias=self.bias.data_ptr() if self.bias is not None else None,
            workspace=pointer, workspace_bytes=size, **weights))
        return y

    def raw(self):
        return self._run(weight=self.w.data_ptr())

    def prepacked(self):
        if not self.plan.packed_bytes:
            return self.raw()
        return self._run(packed=self.packed_pointer)

    def largest_difference(self):
        """Over sum|x*w|, so that 1e-6 means float32's own rounding whatever the layer."""
        layer = self.layer
        scale = F.conv_transpose1d(self.x.abs().double(), self.w.abs().double(), None, layer.stride, layer.padding,
                                   layer.output_padding, layer.groups, layer.dilation).clamp_min(1e-30)
        return ((self.torch().double() - self.raw().double()).abs() / scale).max().item()


def time_rounds(functions, seconds, rounds):
    """Medians and spreads of functions run in turns: at least so many rounds, else until the time is spent."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    calls, slow = {}, False
    for name, function in functions.items():
        start = time.perf_counter()
        function()
        taken = time.perf_counter() - start
        calls[name] = max(1, min(50, int(0.01 / max(1e-6, taken))))
        slow |= taken > 0.2
    end = time.perf_counter() + seconds
    while len(times["torch"]) < rounds or (time.perf_counter() < end and len(times["torch"]) < 60):
        for name, function in functions.items():
            # The other side's idle threads spin for a moment after their work: let them sleep first.
            time.sleep(0.002)
            if not slow:
                function()
            start = time.perf_counter()
            for _ in range(calls[name]):
                function()
            times[name].append((time.perf_counter() - start) / calls[name])
    return {name: summary(values) for name, values in times.items()}


def summary(values):
    quartiles = statistics.quantiles(values, n=4)
    median = statistics.median(values)
    return {"median_ms": median * 1e3, "min_ms": min(values) * 1e3,
            "spread": (quartiles[2] - quartiles[0]) / median}


def matmul_gflops():
    a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
    best = min(timed(lambda: a @ b) for _ in range(3))
    return 2 * 1024**3 / best / 1e9


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(layer, threads, seconds, rounds, verify):
    torch.set_num_threads(threads)
    case = Case(layer, threads)
    row = {"layer": layer.name, "problem": layer.text(), "threads": threads, "kernel": case.plan.kernel,
           "matmul_gflops": matmul_gflops()}
    if verify:
        row["largest_difference"] = case.largest_difference()
    functions = {"torch": case.torch, "tconv": case.raw, "tconv_packed": case.prepacked}
    row.update(time_rounds(functions, seconds, rounds))
    row["ratio"] = row["torch"]["median_ms"] / row["tconv"]["median_ms"]
    row["ratio_packed"] = row["torch"]["median_ms"] / row["tconv_packed"]["median_ms"]
    return row


def cpu_name():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")


def report(rows, threads):
    ratios = [row["ratio"] for row in rows if row["threads"] == threads]
    if not ratios:
        return {}
    geomean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return {"threads": threads, "layers": len(ratios), "geomean": geomean, "minimum": min(ratios),
            "under_0.8": sum(ratio < 0.8 for ratio in ratios)}


def write(path, rows, threads):
    result = {"benchmark": "torch_cpu", "date": datetime.date.today().isoformat(), "machine": cpu_name(),
              "versions": {"tconv": tconv_ctypes.LIB.tconv_build_info().decode(), "torch": torch.__version__,
                           "python": platform.python_version()},
              "floor": {}, "summary": [report(rows, count) for count in threads], "rows": rows}
    with open(path, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", default=layer_table.TABLE)
    parser.add_argument("--match", default="", help="only layers whose name or problem has this text")
    parser.add_argument("--batch", type=int, default=1, help="batch of every layer; 0 takes the table's own")
    parser.add_argument("--dtype", default="f32", choices=DTYPES)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=0.6, help="measuring time of a layer and thread count")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of a layer at the least")
    parser.add_argument("--no-verify", action="store_true", help="skip the comparison of the two results")
    parser.add_argument("--json", help="write the results here")
    options = parser.parse_args()

    torch.manual_seed(7)
    torch.set_grad_enabled(False)
    rows = []
    print(f"{'ratio':>6} {'packed':>6} {'torch ms':>9} {'tconv ms':>9} {'spread':>6} t kernel         layer")
    for layer in layer_table.table(options.file, batch=options.batch or None, dtype=options.dtype):
        if options.match not in layer.name and options.match not in layer.text():
            continue
        for threads in options.threads:
            row = measure(layer, threads, options.seconds, options.rounds, not options.no_verify and threads == options.threads[0])
            rows.append(row)
            if options.json:
                write(options.json, rows, options.threads)  # row by row: a run that is stopped keeps its rows
            print(f"{row['ratio']:6.2f} {row['ratio_packed']:6.2f} {row['torch']['median_ms']:9.3f} "
                  f"{row['tconv']['median_ms']:9.3f} {row['tconv']['spread']:6.2f} {threads} {row['kernel']:<14} "
                  f"{layer.name} [{layer.text()}]", flush=True)
    for line in (report(rows, threads) for threads in options.threads):
        if line:
            print(f"threads {line['threads']}: {line['layers']} layers, geomean {line['geomean']:.2f}, minimum "
                  f"{line['minimum']:.2f}, {line['under_0.8']} under 0.8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
