"""Whole decoders with random weights: PyTorch, tconv.patch, torch.compile, and both.

For each decoder: milliseconds of a forward pass and of a training step (forward, backward of a mean square, Adam),
eager and compiled, patched and not, in rounds that take turns; the ratio to the same without tconv, beside its target;
and where the time goes: convolutions, layout changes, elementwise work, the rest. PyTorch runs with
cudnn.benchmark. In inference the patched model is prepacked (tconv.prepack), with --weights raw it is not.
--batch 1 asks whether any decoder is slower at batch 1, --graph in a CUDA graph.

    python benchmarks/compare/decoders.py --device cuda --dtype tf32 bf16
    python benchmarks/compare/decoders.py --device cpu --threads 1 2 --batch 1 --frames 50
"""

import argparse
import copy
import datetime
import itertools
import platform
import statistics
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

import tconv
from cuda_timing import Kept, command, summary
from decoder_models import DECODERS

KINDS = {
    "convolution": ("tconv", "conv", "cudnn", "implicit", "xmma", "cutlass", "wgrad", "dgrad", "winograd", "fft",
                    "gradinput", "gradweight"),
    "layout": ("nchw", "nhwc", "transpose", "permute", "copy", "contiguous", "clone", "pad", "cat", "reorder"),
    "elementwise": ("elementwise", "triton_poi", "pointwise", "foreach", "multi_tensor", "aten::add", "aten::mul",
                    "aten::sin", "aten::tanh", "leaky", "elu", "aten::div", "aten::pow", "aten::reciprocal", "fill"),
}  # fmt: skip


def kind_of(name):
    """Of a kernel or operator, by its name; the first kind that fits."""
    name = name.lower()
    if "nchwtonhwc" in name or "nhwctonchw" in name:  # cuDNN's, around its kernels
        return "layout"
    return next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)), "other")


def by_kind(function, device):
    """Share of the time of one call, by kind of kernel."""
    activities = [ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU]
    with profile(activities=activities) as recorded:
        function()
        synchronise(device)
    times = dict.fromkeys([*KINDS, "other"], 0.0)
    for event in recorded.key_averages():
        taken = event.self_device_time_total if device == "cuda" else event.self_cpu_time_total
        times[kind_of(event.key)] += taken
    whole = sum(times.values()) or 1.0
    return {kind: taken / whole for kind, taken in times.items()}


def synchronise(device):
    if device == "cuda":
        torch.cuda.synchronize()


class Case:
    """A decoder in one way to run it: patched or not, compiled or not, a forward pass or a training step."""

    def __init__(self, model, x, patched, packed, compiled, training, graph):
        self.x, self.training = x, training
        self.model = copy.deepcopy(model)
        if patched:
            tconv.patch(self.model)
            if packed:
                tconv.prepack(self.model)
        self.run = torch.compile(self.model) if compiled else self.model
        if training:
            self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-5, fused=x.is_cuda)
        self.graph = self.captured() if graph else None

    def captured(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.forward()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.kept = self.forward()
        return graph

    @torch.no_grad()
    def forward(self):
        return self.run(self.x)

    def step(self):
        self.optimiser.zero_grad(set_to_none=True)
        self.run(self.x).float().square().mean().backward()
        self.optimiser.step()

    def __call__(self):
        if self.graph is not None:
            self.graph.replay()
        elif self.training:
            self.step()
        else:
            self.forward()


def in_turns(cases, device, seconds, least=3):
    """Milliseconds: median, least, and the interquartile range over the median."""
    for case in cases.values():
        case()
        case()
    synchronise(device)
    times = {name: [] for name in cases}
    end = time.perf_counter() + seconds
    while len(next(iter(times.values()))) < least or time.perf_counter() < end:
        for name, case in cases.items():
            start = time.perf_counter()
            case()
            synchronise(device)
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: summary(values) for name, values in times.items()}


def set_arithmetic(word, device):
    """The model's dtype. tf32 and ieee are PyTorch's setting for convolutions, which tconv follows."""
    torch.backends.cudnn.allow_tf32 = word == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = word == "tf32"
    return {"bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}.get(word, torch.float32)


def row_of(decoder, options, word, training, packed, threads):
    return {"decoder": decoder.name, "batch": options.batch or decoder.batch, "frames": options.frames or decoder.frames,
            "arithmetic": word, "threads": threads, "pass": "training step" if training else "inference",
            "weights": "packed" if packed else "raw", "graph": options.graph and not training}


def measure(decoder, options, row):
    """What a row finds: each way's time, the gain of patching, and how far the results are apart."""
    torch.manual_seed(0)
    device, training, graph = options.device, row["pass"] == "training step", row["graph"]
    dtype = set_arithmetic(row["arithmetic"], device)
    model = decoder.model().to(device=device, dtype=dtype).train(training)
    x = (torch.randn(row["batch"], decoder.channels, row["frames"]) * 0.5).to(device=device, dtype=dtype)
    ways = {"eager": (False, False), "patched": (True, False)}
    if options.compile:
        ways |= {"compiled": (False, True), "both": (True, True)}
    cases = {name: Case(model, x, patched, row["weights"] == "packed", compiled, training, graph)
             for name, (patched, compiled) in ways.items()}
    found = {}
    if not training:
        ours, theirs = cases["patched"].forward().float(), cases["eager"].forward().float()
        found["difference"] = ((ours - theirs).norm() / theirs.norm()).item()
    times = found["ms"] = in_turns(cases, device, options.seconds)
    found["gain"] = times["eager"]["median_ms"] / times["patched"]["median_ms"]
    if options.compile:
        found["gain_compiled"] = times["compiled"]["median_ms"] / times["both"]["median_ms"]
    found["target"] = target_of(decoder, row, device)
    if not options.no_profile and not graph:
        found["by_kind"] = {name: by_kind(cases[name], device) for name in cases}
    return found


def target_of(decoder, row, device):
    if device == "cpu":
        return 1.3
    if row["batch"] != decoder.batch or row["graph"]:
        return 1.0
    if row["pass"] == "training step":
        return 1.8 if row["arithmetic"] in ("tf32", "bf16") else 1.0
    return {"tf32": decoder.target[0], "bf16": decoder.target[1]}.get(row["arithmetic"]) or 1.0


def printed(row):
    times = " ".join(f"{name} {value['median_ms']:.2f}" for name, value in row["ms"].items())
    text = (f"{row['gain']:5.2f}x of {row['target']:.1f}x  {row['decoder']:<9} {row['batch']}x{row['frames']} "
            f"{row['arithmetic']:<5} {row['pass']:<13} ms: {times}")
    if row["pass"] == "inference":
        text += f"  {row['weights']} weights"
    if row["graph"]:
        text += "  in a graph"
    if row["threads"]:
        text += f"  {row['threads']} threads"
    if "gain_compiled" in row:
        text += f"  compiled {row['gain_compiled']:.2f}x"
    if "difference" in row:
        text += f"  differs by {row['difference']:.1e}"
    spread = max(value["spread"] for value in row["ms"].values())
    lines = [text + f"  spread {spread:.2f}"]
    for name, kinds in row.get("by_kind", {}).items():
        shares = ", ".join(f"{kind} {share:.0%}" for kind, share in kinds.items())
        lines.append(f"        {name:<9} {shares}")
    return "\n".join(lines)


def machine(device):
    if device == "cuda":
        return torch.cuda.get_device_name()
    with open("/proc/cpuinfo") as file:
        return next((each.split(":")[1].strip() for each in file if each.startswith("model name")), "unknown")


def provenance(device):
    """When, where and with what the results of this run were measured."""
    versions = {"tconv": tconv.build_info(), "torch": torch.__version__, "python": platform.python_version()}
    if device == "cuda":
        versions["cudnn"] = torch.backends.cudnn.version()
    return {"command": command(), "date": datetime.date.today().isoformat(), "machine": machine(device),
            "versions": versions}


def result_of(options, rows):
    gains = [row["gain"] for row in rows if "gain" in row]
    means = {"geomean": statistics.geometric_mean(gains), "minimum": min(gains)} if gains else {}
    return {"benchmark": "decoders", **provenance(options.device), **means, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--match", default="", help="only decoders whose name has this")
    parser.add_argument("--dtype", nargs="+", default=["f32"], choices=["f32", "tf32", "ieee", "bf16", "f16", "f64"],
                        help="arithmetic; f32 and ieee are the same")
    parser.add_argument("--pass", dest="passes", nargs="+", default=["inference", "training"],
                        choices=["inference", "training"])
    parser.add_argument("--compile", action="store_true", help="torch.compile too, patched and not")
    parser.add_argument("--graph", action="store_true", help="inference replayed from a CUDA graph")
    parser.add_argument("--weights", nargs="+", default=["packed"], choices=["packed", "raw"],
                        help="in inference: packed by tconv.prepack, or at every call")
    parser.add_argument("--batch", type=int, default=0, help="for all; 0: each one's own")
    parser.add_argument("--frames", type=int, default=0, help="for all; 0: each one's own")
    parser.add_argument("--threads", type=int, nargs="+", default=[0], help="on a CPU; 0: as PyTorch has them")
    parser.add_argument("--seconds", type=float, default=3.0, help="measuring time of a row")
    parser.add_argument("--no-profile", action="store_true", help="without the time by kind of kernel")
    parser.add_argument("--json", help="write the results here")
    options = parser.parse_args()

    torch.backends.cudnn.benchmark = True
    print(f"{machine(options.device)}; {tconv.build_info()}")
    rows = []
    with Kept(options.json, lambda: result_of(options, rows)) as kept:
        for decoder in DECODERS:
            if options.match.lower() in decoder.name.lower():
                for row in of_decoder(decoder, options):
                    rows.append(row)
                    kept.row()
    gains = [row["gain"] >= row["target"] for row in rows if "gain" in row]
    print(f"{len(rows)} rows, {sum(gains)} at their target or beyond" +
          (f", {len(rows) - len(gains)} failed" if len(gains) < len(rows) else ""))
    return 0


def of_decoder(decoder, options):
    """Its rows. One that fails (out of memory, an operation that no CUDA graph takes) says why."""
    for word, each, threads in itertools.product(options.dtype, options.passes, options.threads):
        if threads:
            torch.set_num_threads(threads)
        # A training step packs in every call.
        for packed in [False] if each == "training" else [way == "packed" for way in options.weights]:
            row = row_of(decoder, options, word, each == "training", packed, threads)
            try:
                row |= measure(decoder, options, row)
                print(printed(row), flush=True)
            except RuntimeError as error:
                row["failed"] = str(error).splitlines()[0]
                print(f"failed: {decoder.name} {word} {row['pass']}: {row['failed']}", flush=True)
            yield row
            if options.device == "cuda":
                torch.cuda.set_stream(torch.cuda.default_stream())  # a capture that fails leaves its own
                torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
