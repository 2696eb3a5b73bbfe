"""torch_cuda.py --draw: tconv against PyTorch on layers that nobody tuned for (draw.py), eager and in a CUDA graph.

Every layer is measured in each mode (tf32, bf16, ...) with raw weights (packed inside the call) and packed ones, and
PyTorch with cudnn.benchmark on and off; a ratio is to the faster of these two. With --pick-best every kernel that takes
the problem is measured too (packed, in a graph), and compared with the one that the planner chose.
"""

import math
import time
from pathlib import Path

import cuda_timing as timing
import draw
import problem_floor
import tconv_ctypes
import torch
import torch.nn.functional as F

MODES = {"tf32": ("f32", "tf32"), "ieee": ("f32", "ieee"), "bf16": ("bf16", ""), "f16": ("f16", "")}
OURS, THEIRS = ("tconv", "tconv_packed"), ("torch", "torch_search")
WINDOW_MS, ROUNDS = 0.3, 7


class Data:
    """Rotating sets of what a product reads and writes, beyond L2 together; the weights stay."""

    def __init__(self, layer, operation, mode):
        self.layer, self.operation = layer, operation
        dtype, precision = MODES[mode]
        self.text = draw.problem_text(draw.replace(layer, dtype=dtype), operation, precision)
        whole = draw.WithOutput(draw.replace(layer, dtype=dtype))
        type_ = timing.DTYPES[dtype]
        moved = problem_floor.data_bytes(whole)
        self.sets = max(1, min(32, math.ceil(2 * torch.cuda.get_device_properties(0).L2_cache_size / moved)))
        weight = (layer.cin, layer.cout // layer.groups, layer.k)
        shapes = {"x": (layer.n, layer.cin, layer.l), "y": (layer.n, layer.cout, whole.lout), "w": weight}
        reads = {"transposed": "x", "strided": "y", "weight": "xy"}[operation]
        writes = {"transposed": "y", "strided": "x", "weight": "w"}[operation]
        make = lambda shape, low=0.0: torch.empty(shape, device="cuda", dtype=type_).uniform_(low, 1)
        self.read = [[make(shapes[each]) for each in reads] for _ in range(self.sets)]
        self.out = [torch.empty(shapes[writes], device="cuda", dtype=type_) for _ in range(self.sets)]
        self.w = make(weight, -1.0) / math.sqrt(layer.cout // layer.groups * layer.k)
        channels = {"transposed": layer.cout, "strided": layer.cin, "weight": 0}[operation]
        self.b = make((channels,)) if layer.bias and channels else None
        self.at = 0

    def next(self):
        self.at = (self.at + 1) % self.sets
        return self.at

    def torch_call(self, at):
        c, b = self.layer, self.b
        if self.operation == "transposed":
            return F.conv_transpose1d(self.read[at][0], self.w, b, c.stride, c.padding, c.output_padding, c.groups,
                                      c.dilation)
        if self.operation == "strided":
            return F.conv1d(self.read[at][0], self.w, b, c.stride, c.padding, c.dilation, c.groups)
        x, y = self.read[at]
        return torch.ops.aten.convolution_backward(y, x, self.w, None, [c.stride], [c.padding], [c.dilation], True,
                                                   [c.output_padding], c.groups, [False, True, False])[1]


class Tconv:
    """The C API on PyTorch's current stream."""

    def __init__(self, data, packed, kernel=None):
        self.data, self.plan = data, tconv_ctypes.Plan(data.text, device=tconv_ctypes.CUDA, kernel=kernel)
        reads_weight = data.operation != "weight"
        packed = packed and reads_weight
        size = self.plan.workspace_bytes(packed)
        self.workspace = torch.empty(max(1, size), dtype=torch.uint8, device="cuda")
        weights = {"weight": data.w.data_ptr()} if reads_weight else {}
        if packed and self.plan.packed_bytes:
            self.packed = torch.empty(self.plan.packed_bytes, dtype=torch.uint8, device="cuda")
            self.plan.pack(data.w.data_ptr(), self.packed.data_ptr(), torch.cuda.current_stream().cuda_stream)
            weights = {"packed": self.packed.data_ptr()}
        self.arguments = [self.argument(read, out, size, weights) for read, out in zip(data.read, data.out)]

    def argument(self, read, out, size, weights):
        d = self.data
        bias = None if d.b is None else d.b.data_ptr()
        a = self.plan.arguments(read[0].data_ptr(), out.data_ptr(), bias=bias, workspace=self.workspace.data_ptr(),
                                workspace_bytes=size, **weights)
        if d.operation != "transposed":
            a.x = read[0].data_ptr() if d.operation == "weight" else None
            a.grad_output = read[-1].data_ptr()
        return a

    def __call__(self):
        arguments = self.arguments[self.data.next()]
        arguments.stream = torch.cuda.current_stream().cuda_stream
        self.plan.run(arguments)


class Torch:
    def __init__(self, data, tf32, search):
        self.data, self.tf32, self.search, self.held = data, tf32, search, None

    def __call__(self):
        torch.backends.cudnn.benchmark = self.search
        torch.backends.cudnn.allow_tf32 = self.tf32
        self.held = None
        self.held = self.data.torch_call(self.data.next())


def difference(data):
    """Largest |tconv - torch| over the largest |torch|: a smoke test; `tconv check` is the judge."""
    data.at = data.sets - 1
    Tconv(data, False)()
    torch.backends.cudnn.benchmark = torch.backends.cudnn.allow_tf32 = False
    reference = data.torch_call(0)
    scale = reference.abs().max().item() or 1.0
    return (data.out[0] - reference).abs().max().item() / scale


def medians(functions, count):
    """Median milliseconds of one of the `count` calls that each function makes, in turns."""
    calls = {name: timing.calls_for(function, WINDOW_MS, 100) for name, function in functions.items()}
    times = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            times[name].append(timing.timed(function, calls[name]))
    return {name: timing.summary([value / count for value in each]) for name, each in times.items()}


def graphs_of(functions, sets):
    count = max(2, min(10, sets))
    return {name: timing.Graph(function, count) for name, function in functions.items()}, count


def ratios(times):
    """How many times as fast as PyTorch's faster mode: of raw and of packed weights."""
    best = min(times[key]["median_ms"] for key in THEIRS if key in times)
    return {"raw": best / times["tconv"]["median_ms"], "packed": best / times["tconv_packed"]["median_ms"]}


def forced_kernels(data):
    """Those that take the problem, by name; plain is the slow path, and left out where another does."""
    functions = {}
    for name in tconv_ctypes.kernels():
        if name.startswith("cuda.") and not name.endswith(".plain"):
            try:
                functions[name] = Tconv(data, True, kernel=name)
            except RuntimeError:
                continue
    return functions


def pick(data, chosen):
    """Every kernel's median in a graph, and how far the chosen one is from the best."""
    functions = forced_kernels(data)
    if chosen not in functions:
        return {}
    once = {name: min(timing.timed(function, 1), timing.timed(function, 1)) for name, function in functions.items()}
    most = 10 * min(once.values())  # what takes longer than that is not the best
    usable = {name: function for name, function in functions.items() if once[name] <= most or name == chosen}
    graphs, count = graphs_of(usable, data.sets)
    times = {name: each["median_ms"] for name, each in medians(graphs, count).items()}
    best = min(times, key=times.get)
    return {"ms": times, "best": best, "loss": times.get(chosen, math.inf) / times[best]}


def measure(layer, operation, mode, rates, options):
    data = Data(layer, operation, mode)
    row = {"layer": layer.name, "problem": data.text, "operation": operation, "mode": mode,
           "floor_ms": problem_floor.floor_ms(draw.WithOutput(draw.replace(layer, dtype=MODES[mode][0])), mode, rates)}
    functions = {"tconv": Tconv(data, False), "tconv_packed": Tconv(data, True)}
    row["kernel"] = functions["tconv"].plan.kernel
    functions |= {"torch": Torch(data, mode == "tf32", False), "torch_search": Torch(data, mode == "tf32", True)}
    for name in list(functions):
        try:
            functions[name]()
            torch.cuda.synchronize()
        except RuntimeError as error:  # cuDNN refuses, or finds no memory for an algorithm
            if name in OURS:
                raise
            row.setdefault("failed", {})[name] = str(error).splitlines()[0]
            del functions[name]
    row["difference"] = difference(data)
    row["eager"] = medians(functions, 1)
    graphs, count = graphs_of(functions, data.sets)
    row["graph"] = medians(graphs, count)
    row["ratio"] = {way: ratios(row[way]) for way in ("eager", "graph")}
    row["share_of_floor"] = row["floor_ms"] / row["graph"]["tconv_packed"]["median_ms"]
    if options.pick_best:
        row["kernels"] = pick(data, row["kernel"])
    return row


def printed(row):
    eager, graph, took = row["ratio"]["eager"], row["ratio"]["graph"], row["graph"]
    us = lambda key: f"{1e3 * took[key]['median_ms']:8.1f}" if key in took else "       -"
    pick_words = ""
    if row.get("kernels"):
        pick_words = f" best {row['kernels']['best']} {row['kernels']['loss']:.2f}"
    wrong = "" if row["difference"] < 0.03 else f" DIFFERS {row['difference']:.3g}"
    return (f"{eager['raw']:6.2f} {eager['packed']:6.2f} {graph['raw']:6.2f} {graph['packed']:6.2f} "
            f"{us('tconv')} {us('tconv_packed')} {us('torch')} {us('torch_search')} {1e3 * row['floor_ms']:8.1f} "
            f"{row['mode']:4} {row['kernel'][5:]:<14} {row['problem']}  {row['layer']}{pick_words}{wrong}")


def summary(rows):
    """Of each product and mode: geometric mean, least and share below 1 of every ratio; and of the planner's choice."""
    found = {}
    for row in rows:
        found.setdefault(f"{row['operation']} {row['mode']}", []).append(row)
    result = {}
    for key, each in found.items():
        result[key] = {"layers": len(each)}
        for way in ("eager", "graph"):
            for weights in ("raw", "packed"):
                values = [row["ratio"][way][weights] for row in each]
                result[key][f"{way} {weights}"] = {
                    "geomean": math.exp(sum(map(math.log, values)) / len(values)), "least": min(values),
                    "below_1": sum(value < 1 for value in values) / len(values),
                    "below_0.95": sum(value < 0.95 for value in values) / len(values)}
        picked = [row["kernels"]["loss"] for row in each if row.get("kernels")]
        if picked:
            result[key]["choice_within_10_percent"] = sum(loss < 1.1 for loss in picked) / len(picked)
    return result


def report(rows):
    for key, each in summary(rows).items():
        print(f"{key}, {each['layers']} layers")
        for way in ("eager raw", "eager packed", "graph raw", "graph packed"):
            s = each[way]
            print(f"  {way:13} geomean {s['geomean']:.2f}x, least {s['least']:.2f}x, below 1.0: {s['below_1']:.0%}, "
                  f"below 0.95: {s['below_0.95']:.0%}")
        if "choice_within_10_percent" in each:
            print(f"  the planner's kernel is within 10% of the best: {each['choice_within_10_percent']:.0%}")
    print("the ten least ratios in a graph, raw weights:")
    for row in sorted(rows, key=lambda row: row["ratio"]["graph"]["raw"])[:10]:
        print("  " + printed(row))


def run(options, rates):
    """Rows in the order of the draw, every product and mode of a layer together, until options.seconds are over."""
    started, rows, left_out = time.perf_counter(), [], 0
    print("eager: raw packed; graph: raw packed; us in a graph: raw packed torch search floor", flush=True)
    with timing.Kept(options.json, lambda: result_of(options, rates, rows)) as kept:
        for layer, operation, mode in problems(options):
            if time.perf_counter() - started > options.seconds:
                left_out += 1
                continue
            try:
                rows.append(measure(layer, operation, mode, rates, options))
                kept.row()
                print(printed(rows[-1]), flush=True)
            except RuntimeError as error:
                print(f"failed: {draw.problem_text(layer, operation)} {mode}: {str(error).splitlines()[0]}", flush=True)
            if torch.cuda.memory_reserved() > 16 << 30:
                torch.cuda.empty_cache()
    if rows:
        report(rows)
    print(f"{len(rows)} rows in {time.perf_counter() - started:.0f} s" +
          (f"; {left_out} not measured, the run's time was spent" if left_out else ""))


def problems(options):
    drawn = draw.listed(options.list) if options.list else draw.draw(options.draw, options.seed, "gpu")
    layers = drawn[options.skip:]
    return [(layer, operation, mode) for layer in layers for operation in options.op for mode in options.modes]


def result_of(options, rates, rows):
    origin = ({"benchmark": "listed_cuda", "list": Path(options.list).name} if options.list else
              {"benchmark": "drawn_cuda", "seed": options.seed, "draw": options.draw})
    return {**origin, "skip": options.skip,
            **timing.machine(), "floor": rates, "summary": summary(rows), "rows": rows}
