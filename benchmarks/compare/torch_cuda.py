"""tconv against PyTorch on a GPU, layer by layer, in one process.

For each problem and precision (float32: ieee and tf32) the ways take turns, round by round:

    tconv           C API, raw weights (packed inside the call)
    tconv_packed    C API, weights packed before
    torch           conv_transpose1d, cudnn.benchmark off
    torch_search    conv_transpose1d, cudnn.benchmark on
    torch_nhwc      conv_transpose2d on data that is channels-last already, cudnn.benchmark on

Times are CUDA events around a run of calls: medians, minima, and the interquartile range over the median.
Inputs are random; inputs and outputs rotate through sets that together exceed the L2 cache twice (weights stay,
as they do in a model). Problems of batch 1 are timed twice: as eager calls (`ms`), where the launch counts, and
inside a CUDA graph (`graph`). The floor of a row is the larger of its bytes over the copy rate and its products
over the matrix rate of its precision, both measured by this run (problem_floor.py; ieee float32: multiply-adds, or
three products of f16, whichever is faster).

A second table has the cost of a length that was never seen before: first call against tenth, waited for.

    python benchmarks/compare/torch_cuda.py --json benchmarks/results/torch_cuda.json
    python benchmarks/compare/torch_cuda.py --problem "n16 ci512 co256 l800 k16 s8 p4 bias f32" --seconds 10

With --draw the layers are drawn at random (drawn_cuda.py):

    python benchmarks/compare/torch_cuda.py --draw 200 --seed 7 --op transposed strided --modes tf32 bf16 --pick-best
"""

import argparse
import math
import statistics
import sys
import time

import cuda_problems
import cuda_timing as timing
import draw
import drawn_cuda
import layers as layer_table
import problem_floor
import tconv_ctypes
import torch
import torch.nn.functional as F


class Shape:
    """A problem text's numbers."""

    def __init__(self, text):
        self.text = text
        plan = tconv_ctypes.Plan(text, device=tconv_ctypes.CUDA)
        for name in ("n", "cin", "cout", "l", "k", "stride", "padding", "output_padding", "dilation", "groups"):
            setattr(self, name, getattr(plan.problem, name))
        self.bias = bool(plan.problem.has_bias)
        self.dtype = ("f32", "f64", "f16", "bf16")[plan.problem.dtype]
        self.lout = plan.lout
        element = problem_floor.ELEMENT[self.dtype]
        self.moved = element * (self.n * self.cin * self.l + self.n * self.cout * self.lout)

    def floor_ms(self, rates, precision):
        return problem_floor.floor_ms(self, precision if self.dtype == "f32" else self.dtype, rates)


class Data:
    """Rotating sets of x and y, weights and bias of a problem."""

    def __init__(self, shape):
        s, dtype = shape, timing.DTYPES[shape.dtype]
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.shape, self.sets = s, max(1, min(64, math.ceil(2 * l2 / s.moved)))
        bound = 1 / math.sqrt(max(1, s.cout // s.groups * s.k))
        self.x = [torch.rand(s.n, s.cin, s.l, device="cuda", dtype=torch.float32).to(dtype)
                  for _ in range(self.sets)]
        self.w = ((torch.rand(s.cin, s.cout // s.groups, s.k, device="cuda") * 2 - 1) * bound).to(dtype)
        self.b = torch.rand(s.cout, device="cuda").to(dtype) if s.bias else None
        self.y = [torch.empty(s.n, s.cout, s.lout, device="cuda", dtype=dtype) for _ in range(self.sets)]
        self.at = 0

    def next(self):
        self.at = (self.at + 1) % self.sets
        return self.at


class Tconv:
    """The C API on PyTorch's current stream."""

    def __init__(self, data, text, packed):
        self.data, self.plan = data, tconv_ctypes.Plan(text, device=tconv_ctypes.CUDA)
        size = self.plan.workspace_bytes(packed)
        self.workspace = torch.empty(max(1, size), dtype=torch.uint8, device="cuda")
        weights = {"weight": data.w.data_ptr()}
        if packed and self.plan.packed_bytes:
            self.packed = torch.empty(self.plan.packed_bytes, dtype=torch.uint8, device="cuda")
            self.plan.pack(data.w.data_ptr(), self.packed.data_ptr(), torch.cuda.current_stream().cuda_stream)
            weights = {"packed": self.packed.data_ptr()}
        self.arguments = [self.plan.arguments(x.data_ptr(), y.data_ptr(), workspace=self.workspace.data_ptr(),
                                              bias=None if data.b is None else data.b.data_ptr(),
                                              workspace_bytes=size, **weights)
                          for x, y in zip(data.x, data.y)]

    def __call__(self):
        arguments = self.arguments[self.data.next()]
        arguments.stream = torch.cuda.current_stream().cuda_stream
        self.plan.run(arguments)


class Torch:
    def __init__(self, data, tf32, search, nhwc=False):
        self.data, self.tf32, self.search, self.nhwc = data, tf32, search, nhwc
        self.out = [None] * data.sets
        if nhwc:
            self.x = [x.unsqueeze(2).to(memory_format=torch.channels_last) for x in data.x]
            self.w = data.w.unsqueeze(2).to(memory_format=torch.channels_last)

    def __call__(self):
        torch.backends.cudnn.benchmark = self.search
        torch.backends.cudnn.allow_tf32 = self.tf32
        d, s, at = self.data, self.data.shape, self.data.next()
        self.out[at] = None
        if self.nhwc:
            self.out[at] = F.conv_transpose2d(self.x[at], self.w, d.b, (1, s.stride), (0, s.padding),
                                              (0, s.output_padding), s.groups, (1, s.dilation))
        else:
            self.out[at] = F.conv_transpose1d(d.x[at], d.w, d.b, s.stride, s.padding, s.output_padding, s.groups,
                                              s.dilation)


def ways(data, text, tf32):
    made = {"tconv": Tconv(data, text, False), "tconv_packed": Tconv(data, text, True),
            "torch": Torch(data, tf32, False), "torch_search": Torch(data, tf32, True)}
    if 6 * data.shape.moved * data.sets < torch.cuda.mem_get_info()[0]:
        made["torch_nhwc"] = Torch(data, tf32, True, nhwc=True)
    return made


def difference(data, text):
    """Largest |tconv - torch ieee| over the largest |torch|: a smoke test; `tconv check` is the judge."""
    data.at = data.sets - 1
    Tconv(data, text, False)()
    data.at = data.sets - 1
    reference = Torch(data, False, False)
    reference()
    scale = reference.out[0].abs().max().item() or 1.0
    return (data.y[0] - reference.out[0]).abs().max().item() / scale


def measure(name, text, precision, rates, seconds):
    """One row. A way that fails is reported with its words."""
    full = f"{text} tf32" if precision == "tf32" else text
    shape = Shape(full)
    data = Data(shape)
    row = {"layer": name, "problem": full, "precision": precision, "floor_ms": shape.floor_ms(rates, precision)}
    functions, failed = {}, {}
    for key, function in ways(data, full, precision == "tf32").items():
        try:
            function()
            torch.cuda.synchronize()
            functions[key] = function
        except RuntimeError as error:
            failed[key] = str(error).splitlines()[0]
    row["kernel"] = functions["tconv"].plan.kernel if "tconv" in functions else "none"
    if "tconv" in functions:
        row["difference"] = difference(data, full)
    batch1 = shape.n == 1
    row["ms"] = timing.in_turns(functions, seconds / 2 if batch1 else seconds)
    if batch1:
        count = max(data.sets, 10)
        graphs = {key: timing.Graph(function, count) for key, function in functions.items() if key != "torch_nhwc"}
        row["graph"] = timing.in_turns(graphs, seconds / 2, most=20)
        for each in row["graph"].values():
            each["median_ms"] /= count
            each["min_ms"] /= count
    if failed:
        row["failed"] = failed
    finish(row)
    return row


def finish(row):
    """Ratios to PyTorch's best conv_transpose1d (eager for batches, in a graph for batch 1), and to the floor."""
    times = row.get("graph", row["ms"])
    best = min(times[key]["median_ms"] for key in ("torch", "torch_search") if key in times)
    if "tconv" in times:
        row["ratio"] = best / times["tconv"]["median_ms"]
        row["ratio_packed"] = best / times["tconv_packed"]["median_ms"]
        row["share_of_floor"] = row["floor_ms"] / times["tconv_packed"]["median_ms"]


def new_length(seconds):
    """Host milliseconds of the first and the tenth call at lengths never seen before, waited for."""
    base = "n1 ci512 co256 l{} k16 s8 p4 bias f32"
    times = {"tconv": ([], []), "torch": ([], []), "torch_search": ([], [])}
    end = time.perf_counter() + seconds
    for length in range(701, 701 + 12 * 7, 7):
        text = base.format(length)
        data = Data(Shape(text))
        data.x, data.y, data.sets, data.at = data.x[:1], data.y[:1], 1, 0
        for name, make in (("tconv", lambda: Tconv(data, text, True)), ("torch", lambda: Torch(data, False, False)),
                           ("torch_search", lambda: Torch(data, False, True))):
            calls, function = [], None
            for _ in range(10):
                torch.cuda.synchronize()
                start = time.perf_counter()
                function = function or make()  # the plan, and packing the weights, count
                function()
                torch.cuda.synchronize()
                calls.append((time.perf_counter() - start) * 1e3)
            times[name][0].append(calls[0])
            times[name][1].append(calls[9])
        if time.perf_counter() > end:
            break
    # The first length of all also loads modules and libraries: left out.
    return {name: {"first_ms": statistics.median(first[1:] or first), "tenth_ms": statistics.median(tenth[1:] or tenth),
                   "lengths": len(first)} for name, (first, tenth) in times.items()}


def printed(row):
    times = row.get("graph", row["ms"])
    show = lambda key: f"{times[key]['median_ms']:9.4f}" if key in times else "        -"
    nhwc = row["ms"].get("torch_nhwc", {}).get("median_ms", float("nan"))
    return (f"{row.get('ratio', float('nan')):6.2f} {row.get('share_of_floor', float('nan')):6.2f} "
            f"{show('tconv')} {show('tconv_packed')} {show('torch')} {show('torch_search')} {nhwc:9.4f} "
            f"{times.get('tconv', {}).get('spread', 0):5.2f} {row['precision']:4} {row['kernel']:<20} "
            f"{row['layer']} [{row['problem']}]")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", action="append", default=[], help="a problem's text; may be repeated")
    parser.add_argument("--sets", nargs="+", default=cuda_problems.SETS, choices=cuda_problems.SETS)
    parser.add_argument("--file", default=layer_table.TABLE, help="the layer table")
    parser.add_argument("--match", default="", help="only layers whose name or problem has this text")
    parser.add_argument("--precision", choices=["ieee", "tf32"], help="float32 in this mode alone")
    parser.add_argument("--seconds", type=float, default=150, help="measuring time of the whole run, roughly")
    parser.add_argument("--json", help="write the results here")
    drawn = parser.add_argument_group("layers drawn at random (draw.py)")
    drawn.add_argument("--draw", type=int, default=0, metavar="N", help="draw so many layers")
    drawn.add_argument("--list", metavar="FILE", help="layers of this file instead, a problem's line each")
    drawn.add_argument("--seed", type=int, default=1)
    drawn.add_argument("--skip", type=int, default=0, metavar="N", help="leave out the first N of them")
    drawn.add_argument("--op", nargs="+", default=["transposed"], choices=draw.OPERATIONS, help="products of each layer")
    drawn.add_argument("--modes", nargs="+", default=["tf32", "bf16"], choices=drawn_cuda.MODES)
    drawn.add_argument("--pick-best", action="store_true", help="measure every kernel that takes the problem as well")
    return parser.parse_args()


def main():
    options = parse_arguments()
    if not torch.cuda.is_available():
        raise SystemExit("torch_cuda.py: no CUDA device here")
    torch.manual_seed(7)
    torch.set_grad_enabled(False)
    started = time.perf_counter()
    rates = timing.floors()
    print("floor: " + ", ".join(f"{key} {value:.4g}" for key, value in rates.items()), flush=True)
    if options.draw or options.list:
        drawn_cuda.run(options, rates)
        return 0
    rows, fresh = [], {}
    result = lambda: {"benchmark": "torch_cuda", **timing.machine(), "floor": rates, "new_length": fresh, "rows": rows}
    with timing.Kept(options.json, result) as kept:
        for row in measured(options, rates, started):
            rows.append(row)
            kept.row()
        if not options.problem:
            fresh.update(new_length(5))
    for name, each in fresh.items():
        print(f"new length, {name}: first call {each['first_ms']:.3f} ms, tenth {each['tenth_ms']:.3f} ms")
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"{len(ratios)} rows, geomean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, minimum "
              f"{min(ratios):.2f}, {sum(r < 1 for r in ratios)} under 1; {time.perf_counter() - started:.0f} s")
    return 0


def measured(options, rates, started):
    """The rows of the sets, one by one; those for which no time is left say so."""
    todo = cuda_problems.problems(options)
    print(" ratio  floor     tconv    packed     torch    search  (nhwc)   spread")
    for index, (name, text, precision) in enumerate(todo):
        left = options.seconds - (time.perf_counter() - started)
        row = {"layer": name, "problem": text, "precision": precision}
        if left < -0.3 * options.seconds:
            print(f"not measured, the run's time is spent: {name} [{text}] {precision}")
            yield row | {"not_measured": "the run's time"}
            continue
        try:
            row = measure(name, text, precision, rates, min(1.0, max(0.02, 0.5 * left / (len(todo) - index))))
            print(printed(row), flush=True)
        except RuntimeError as error:  # a refused plan, or too little memory
            words = str(error).splitlines()[0]
            row["failed"] = {"all": words}
            print(f"failed: {name} [{text}] {precision}: {words}", flush=True)
        torch.cuda.empty_cache()
        yield row


if __name__ == "__main__":
    sys.exit(main())
