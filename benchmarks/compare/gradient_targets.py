"""Gradients of single layers against PyTorch and against what was to be reached (gradient_targets.tsv).

    python benchmarks/compare/gradient_targets.py --json benchmarks/results/gradient_targets.json
    python benchmarks/compare/gradient_targets.py --table benchmarks/results/gradient_targets.json

Three passes of each layer: the gradient of the input; that of the weights with that of the bias; and all three. PyTorch
is convolution_backward, the faster of cudnn.benchmark on and off; tconv runs a plan for the input, with packing where it
packs, and one for the weights and the bias. Both in a CUDA graph, on rotating sets of tensors that exceed L2 together.
"""

import argparse
import csv
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import draw
import problem_floor
from markdown_table import table

TARGETS = Path(__file__).resolve().parent / "gradient_targets.tsv"
PASSES = ("input", "weight", "all")
PRODUCTS = {"input": ("strided",), "weight": ("weight",), "all": ("strided", "weight")}


def targets(path=TARGETS):
    """(name, problem, milliseconds of each pass that has a target)."""
    with open(path, newline="") as file:
        return [(row["name"], row["problem"], {key: float(row[key]) for key in PASSES if row[key]})
                for row in csv.DictReader(file, delimiter="\t")]


def product_text(problem, product):
    """`problem` as one of its gradients: that of the weights with that of the bias."""
    p = problem_floor.parse(problem)
    layer = replace(draw.read(problem), bias=product == "weight")
    return f"{product} {layer.text('tf32' if p.mode == 'tf32' else '')}"


def measure(problem, names):
    """Milliseconds of each pass for tconv and PyTorch, and the kernels that ran."""
    import drawn_cuda as drawn
    import torch

    p = problem_floor.parse(problem)
    tensors = Tensors(problem)
    row = {"problem": problem, "passes": {}}
    for name in names:
        plans = [Product(tensors, product) for product in PRODUCTS[name]]
        functions = {"tconv": lambda plans=plans: tensors.run(plans)}
        for key, search in (("torch", False), ("torch_search", True)):
            functions[key] = Torch(tensors, name, p.mode == "tf32", search)
        for key in list(functions):
            try:
                functions[key]()
                torch.cuda.synchronize()
            except RuntimeError:  # cuDNN refuses, or finds no memory for an algorithm
                if key == "tconv":
                    raise
                del functions[key]
        graphs, count = drawn.graphs_of(functions, tensors.sets)
        row["passes"][name] = {"ms": drawn.medians(graphs, count),
                               "kernels": [plan.plan.kernel for plan in plans]}
    return row


class Tensors:
    """Rotating sets of x, dy and the gradients."""

    def __init__(self, problem):
        import cuda_timing
        import torch

        self.text, self.p, self.at = problem, problem_floor.parse(problem), 0
        p, type_ = self.p, cuda_timing.DTYPES[self.p.dtype]
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.sets = max(1, min(32, -(-2 * l2 // problem_floor.data_bytes(p))))
        shapes = {"x": (p.n, p.cin, p.l), "y": (p.n, p.cout, p.lout)}
        make = lambda shape: torch.empty(shape, device="cuda", dtype=type_).uniform_(-1, 1)
        self.x, self.y = ([make(shapes[key]) for _ in range(self.sets)] for key in "xy")
        self.w = make((p.cin, p.cout // p.groups, p.k))
        self.out = {"strided": torch.empty(shapes["x"], device="cuda", dtype=type_), "weight": torch.empty_like(self.w),
                    "bias": torch.empty(p.cout, device="cuda", dtype=type_)}

    def next(self):
        self.at = (self.at + 1) % self.sets
        return self.at

    def run(self, plans):
        at = self.next()
        for plan in plans:
            plan(at)


class Product:
    """One gradient by the C API, on PyTorch's current stream."""

    def __init__(self, tensors, product):
        import tconv_ctypes
        import torch

        self.tensors, self.product = tensors, product
        self.plan = tconv_ctypes.Plan(product_text(tensors.text, product), device=tconv_ctypes.CUDA)
        self.size = self.plan.workspace_bytes(False)
        self.workspace = torch.empty(max(1, self.size), dtype=torch.uint8, device="cuda")

    def __call__(self, at):
        import torch

        t, of_weight = self.tensors, self.product == "weight"
        self.plan.run(self.plan.arguments(
            t.x[at].data_ptr() if of_weight else None, t.out[self.product].data_ptr(),
            weight=None if of_weight else t.w.data_ptr(), workspace=self.workspace.data_ptr(),
            workspace_bytes=self.size, stream=torch.cuda.current_stream().cuda_stream,
            grad_output=t.y[at].data_ptr(), grad_bias=t.out["bias"].data_ptr() if of_weight else None))


class Torch:
    def __init__(self, tensors, name, tf32, search):
        self.tensors, self.tf32, self.search, self.held = tensors, tf32, search, None
        self.wanted = [name != "weight", name != "input", name != "input"]

    def __call__(self):
        import torch

        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = self.search, self.tf32
        t, at = self.tensors, self.tensors.next()
        p, self.held = t.p, None
        self.held = torch.ops.aten.convolution_backward(t.y[at], t.x[at], t.w, [p.cout], [p.stride], [p.padding],
                                                        [p.dilation], True, [p.output_padding], p.groups, self.wanted)


def cells_of(row, name, target):
    """PyTorch's best, the target, what was reached and whether that is the target."""
    ms = {key: each["median_ms"] for key, each in row["passes"][name]["ms"].items()}
    best = min((ms[key] for key in ("torch", "torch_search") if key in ms), default=None)
    return ["-" if best is None else f"{best:.3f}", f"{target:.3f}", f"{ms['tconv']:.3f}",
            "yes" if ms["tconv"] <= target else f"{ms['tconv'] / target:.2f}x"]


def markdown(result):
    header = ["layer", "mode", "gradients", "PyTorch's best", "target", "reached", "met"]
    measured = {row["problem"]: row for row in result["rows"]}
    lines = []
    met = count = 0
    for name, problem, wanted in targets():
        for key, target in wanted.items():
            row = measured.get(problem)
            there = row is not None and key in row["passes"]
            cells = cells_of(row, key, target) if there else ["-", f"{target:.3f}", "not measured", "-"]
            count, met = count + 1, met + (cells[-1] == "yes")
            lines.append([name, problem_floor.parse(problem).mode, key, *cells])
    return f"{table(header, lines)}\n\n{met} of {count} targets met."


def run(options):
    import cuda_timing
    import torch

    result = {"benchmark": "gradient_targets", **cuda_timing.machine(), "rows": []}
    started = time.perf_counter()
    with cuda_timing.Kept(options.json, lambda: result) as kept:
        for name, problem, wanted in targets():
            if time.perf_counter() - started > options.seconds:
                break
            result["rows"].append(measure(problem, [each for each in PASSES if each in wanted or len(wanted) == 1]))
            kept.row()
            for key, each in result["rows"][-1]["passes"].items():
                times = " ".join(f"{way} {ms['median_ms']:.4f}" for way, ms in each["ms"].items())
                print(f"{name:15} {key:6} {times}  {' '.join(each['kernels'])}  {problem}", flush=True)
            torch.cuda.empty_cache()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=600, help="starts no layer after this time")
    parser.add_argument("--table", type=Path, help="prints the table of results that exist, and measures nothing")
    options = parser.parse_args()
    if options.table and not options.table.exists():
        sys.exit(f"gradient_targets.py: {options.table} does not exist: --json writes it")
    print(markdown(json.loads(options.table.read_text()) if options.table else run(options)))


if __name__ == "__main__":
    main()
