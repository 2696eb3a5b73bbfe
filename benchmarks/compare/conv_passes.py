"""Every pass of single layers, forward and each gradient, against PyTorch.

The layers are the Conv1d (and with --kind transposed the ConvTranspose1d) layers of decoder_models.py at batch 1 and
16, each shape once, or with --file the ConvTranspose1d layers of a table (tests/shapes/layers.tsv). Timed are the
operators that autograd calls: PyTorch's convolution and convolution_backward (on a GPU the better of
cudnn.benchmark on and off), and tconv's strided, transposed and weight products, packing included.

    python benchmarks/compare/conv_passes.py --device cuda --dtype tf32 bf16 --json benchmarks/results/conv_passes.json
    python benchmarks/compare/conv_passes.py --device cpu --batch 1 --frames 50 --match HiFi
"""

import argparse
import contextlib
import math
import statistics
import sys
import time
from dataclasses import dataclass

import torch
from torch import nn

import cuda_timing
import draw
import layers as layer_table
import tconv
from decoder_models import DECODERS
from decoders import machine, provenance, set_arithmetic, synchronise
from tconv import _gradients
from tconv._library import backend

PASSES = ("forward", "input", "weight", "all")


@dataclass(frozen=True)
class Layer(layer_table.Layer):
    """Of either kind, in the arithmetic that the run asks for."""

    transposed: bool = True

    def problem(self):
        return f"{'transposed' if self.transposed else 'conv1d'} {self.text()}"


def of_decoders(kind, batches, frames, match):
    """Each shape once, with the length that the model's own forward pass gives it."""
    found = {}
    wanted = nn.Conv1d if kind == "conv1d" else nn.ConvTranspose1d
    for decoder in DECODERS:
        if match.lower() not in decoder.name.lower() or decoder.name == "VITS":  # VITS: HiFi-GAN's layers
            continue
        with torch.device("meta"):
            model = decoder.model()
            for name, module in model.named_modules():
                if isinstance(module, wanted):
                    module.register_forward_pre_hook(recorder(found, f"{decoder.name} {name}", batches))
            with contextlib.suppress(NotImplementedError):  # istft, behind the last layer
                model(torch.empty(1, decoder.channels, frames or decoder.frames))
    return list(found.values())


def recorder(found, name, batches):
    def record(module, inputs):
        if module.padding_mode != "zeros":
            return
        transposed = isinstance(module, nn.ConvTranspose1d)
        for n in batches:
            layer = Layer(name, n, module.in_channels, module.out_channels, inputs[0].shape[-1],
                          module.kernel_size[0], module.stride[0], module.padding[0],
                          module.output_padding[0] if transposed else 0, module.dilation[0], module.groups,
                          module.bias is not None, "", transposed)
            found.setdefault(layer.problem(), layer)

    return record


def as_product(layer):
    """A Conv1d as a drawn layer, whose strided product it is: x and y change places."""
    reach = layer.l + 2 * layer.padding - layer.dilation * (layer.k - 1) - 1
    return layer_table.Layer(layer.name, layer.n, layer.cout, layer.cin, reach // layer.stride + 1, layer.k, layer.stride,
                             layer.padding, reach % layer.stride, layer.dilation, layer.groups, layer.bias, "f32")


def of_table(path, batch):
    return [Layer(**vars(row) | {"dtype": ""}) for row in layer_table.table(path, batch=batch or None)]


class Case:
    def __init__(self, layer, dtype, device):
        self.layer = layer

        def make(*shape):
            return (torch.rand(*shape, device=device, dtype=torch.float32) - 0.5).to(dtype)

        first, second = (layer.cin, layer.cout) if layer.transposed else (layer.cout, layer.cin)
        self.x = make(layer.n, layer.cin, layer.l)
        self.w = make(first, second // layer.groups, layer.k)
        self.b = make(layer.cout) if layer.bias else None
        self.grad = torch.empty_like(self.ours("forward"), dtype=torch.float32).uniform_(-0.5, 0.5).to(dtype)

    def theirs(self, which):
        c = self.layer
        numbers = ([c.stride], [c.padding], [c.dilation], c.transposed, [c.output_padding], c.groups)
        if which == "forward":
            return torch.ops.aten.convolution(self.x, self.w, self.b, *numbers)
        mask = [which in ("input", "all"), which in ("weight", "all"), which in ("weight", "all") and c.bias]
        sizes = [c.cout] if c.bias else None
        return torch.ops.aten.convolution_backward(self.grad, self.x, self.w, sizes, *numbers, mask)

    def ours(self, which):
        c = self.layer
        if which == "forward":
            if c.transposed:
                return tconv.conv_transpose1d(self.x, self.w, self.b, c.stride, c.padding, c.output_padding, c.groups,
                                              c.dilation)
            return tconv.conv1d(self.x, self.w, self.b, c.stride, c.padding, c.dilation, c.groups)
        results = []
        if c.transposed:
            call = _gradients.Call(c.stride, c.padding, c.output_padding, c.groups, c.dilation, 2)
            pair = self.grad, self.x
        else:
            call = _gradients.conv1d_call(c.l, self.grad.shape[-1], c.k, c.stride, c.padding, c.dilation, c.groups, 2)
            pair = self.x, self.grad
        if which in ("input", "all"):
            results.append(_gradients.strided_product(self.grad, self.w, call, c.l) if c.transposed
                           else _gradients.transposed(self.grad, self.w, call))
        if which in ("weight", "all"):
            results.append(_gradients.weight_product(*pair, call, c.k))
            if c.bias:
                results.append(backend.bias(self.grad))
        return results


def timed(function, device, calls):
    if device == "cuda":
        return cuda_timing.timed(function, calls)
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - begin) * 1e3 / calls


def in_turns(functions, device, seconds, least=3):
    calls = {}
    for name, function in functions.items():
        function()
        synchronise(device)
        calls[name] = max(1, min(20, int(0.5 / max(1e-3, timed(function, device, 1)))))
    times = {name: [] for name in functions}
    end = time.perf_counter() + seconds
    while len(next(iter(times.values()))) < least or time.perf_counter() < end:
        for name, function in functions.items():
            times[name].append(timed(function, device, calls[name]))
    return {name: {"median_ms": statistics.median(v), "min_ms": min(v), "rounds": len(v)} for name, v in times.items()}


def measure(layer, word, options):
    dtype = set_arithmetic(word, options.device)
    case = Case(layer, dtype, options.device)
    row = {"layer": layer.name, "problem": layer.problem(), "arithmetic": word, "ms": {}, "gain": {}}
    for which in options.passes:
        modes = (True, False) if options.device == "cuda" else (False,)
        best = {}
        for benchmark in modes:
            torch.backends.cudnn.benchmark = benchmark
            functions = {"pytorch": lambda: case.theirs(which), "tconv": lambda: case.ours(which)}
            for name, value in in_turns(functions, options.device, options.seconds / len(modes)).items():
                if name not in best or value["median_ms"] < best[name]["median_ms"]:
                    best[name] = value
        row["ms"][which] = best
        row["gain"][which] = best["pytorch"]["median_ms"] / best["tconv"]["median_ms"]
    return row


def geomeans(rows, passes):
    means = {}
    for which in passes:
        gains = [row["gain"][which] for row in rows]
        means[which] = {"geomean": math.exp(statistics.fmean(map(math.log, gains))), "minimum": min(gains),
                        "behind": sum(gain < 1 for gain in gains), "rows": len(gains)}
    return means


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--kind", default="conv1d", choices=["conv1d", "transposed"])
    parser.add_argument("--file", help="a table of ConvTranspose1d layers")
    parser.add_argument("--match", default="")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--frames", type=int, default=0, help="of the decoder's input; 0: each one's own")
    parser.add_argument("--dtype", nargs="+", default=["f32"], choices=["f32", "tf32", "ieee", "bf16", "f16", "f64"])
    parser.add_argument("--passes", nargs="+", default=PASSES, choices=PASSES)
    parser.add_argument("--seconds", type=float, default=0.1, help="measuring time of a pass of a layer")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no new layer begins")
    parser.add_argument("--json")
    parser.add_argument("--list", action="store_true", help="only print the Conv1d layers, for torch_cuda.py --list")
    options = parser.parse_args()
    if options.list and (options.file or options.kind != "conv1d"):
        parser.error("--list prints the decoders' Conv1d layers only")

    if options.file:
        layers = of_table(options.file, options.batch[0] if len(options.batch) == 1 else 0)
        layers = [layer for layer in layers if options.match in layer.name]
    else:
        layers = of_decoders(options.kind, options.batch, options.frames, options.match)
    if options.list:
        for layer in layers:
            print(f"{draw.problem_text(as_product(layer), 'strided'):<70} # {layer.name.split()[0]}")
        return 0
    print(f"{machine(options.device)}; {tconv.build_info()}; {len(layers)} layers")
    rows = []
    with cuda_timing.Kept(options.json, lambda: result_of(options, rows)) as kept:
        for row in measured(layers, options):
            rows.append(row)
            kept.row()
    for word, means in summary(rows, options).items():
        for which, mean in means.items():
            print(f"{word} {which}: geomean {mean['geomean']:.2f}x, least {mean['minimum']:.2f}x, {mean['behind']} of "
                  f"{mean['rows']} behind")
    return 0


def measured(layers, options):
    end = time.perf_counter() + options.limit
    for layer in layers:
        for word in options.dtype:
            if time.perf_counter() > end:
                return
            row = measure(layer, word, options)
            gains = "  ".join(f"{which} {row['gain'][which]:.2f}x ({row['ms'][which]['tconv']['median_ms']:.3f} ms)"
                              for which in options.passes)
            print(f"{word:<5} {gains}  {layer.name} [{layer.problem()}]", flush=True)
            yield row


def summary(rows, options):
    return {word: geomeans([row for row in rows if row["arithmetic"] == word], options.passes)
            for word in options.dtype if any(row["arithmetic"] == word for row in rows)}


def result_of(options, rows):
    return {"benchmark": "conv_passes", **provenance(options.device), "summary": summary(rows, options), "rows": rows}


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    sys.exit(main())
