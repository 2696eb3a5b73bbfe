"""What a shape costs that was never seen before, in PyTorch: its first call, its tenth, and a call when it comes back.

For lengths that are new to the process, each way makes ten calls, each waited for, and one more after all other lengths
("again": its plan is found in the binding's cache, its algorithm in cuDNN's). A training step is forward and backward.
On a GPU, PyTorch runs with cudnn.benchmark off and on. The last line has the cache of plans: how many it holds, their
bytes, and a call whose plan was dropped because more shapes came than the cache holds.

    python benchmarks/compare/first_calls.py --device cuda --json first_calls.json
    python benchmarks/compare/first_calls.py --device cpu --threads 1 --lengths 20
"""

import argparse
import statistics
import sys
import time

import torch

import cuda_timing
import tconv
from decoders import machine, provenance, synchronise
from tconv._library import backend

CALLS = 10
# Tiny: what a call costs besides its kernel. The others are of vocoders.
LAYERS = {
    "tiny transposed": (True, 2, 2, 3, 1, 1), "tiny conv1d": (False, 2, 2, 3, 1, 1),
    "512 to 256, K 16, stride 8": (True, 512, 256, 16, 8, 4), "256 to 256, K 7": (False, 256, 256, 7, 1, 3),
}  # fmt: skip


class Way:
    """A layer's call, in inference or as a training step."""

    def __init__(self, layer, ours, device, dtype, search=False, packed=False, training=False):
        transposed, cin, cout, k, stride, padding = layer
        source = tconv if ours else torch.nn
        kind = source.ConvTranspose1d if transposed else source.Conv1d
        self.module = kind(cin, cout, k, stride, padding).to(device, dtype)
        if packed:
            tconv.prepack(self.module)
        self.search, self.training = search, training

    def __call__(self, x):
        torch.backends.cudnn.benchmark = self.search
        if self.training:
            self.module(x).sum().backward()
            return
        with torch.no_grad():
            self.module(x)


def ways(layer, options):
    make = lambda ours, **more: Way(layer, ours, options.device, getattr(torch, options.dtype), **more)
    found = {"tconv": make(True), "tconv, packed": make(True, packed=True), "tconv, training step": make(True, training=True),
             "PyTorch": make(False), "PyTorch, training step": make(False, training=True)}
    if options.device == "cuda":
        found |= {"PyTorch, cudnn.benchmark": make(False, search=True),
                  "PyTorch, cudnn.benchmark, training step": make(False, search=True, training=True)}
    return found


def milliseconds(way, x):
    synchronise(x.device.type)
    start = time.perf_counter()
    way(x)
    synchronise(x.device.type)
    return (time.perf_counter() - start) * 1e3


def measure(name, options):
    """Medians over the lengths; each way has its own. The first length also loads libraries and kernels: left out."""
    layer, rows = LAYERS[name], []
    found = ways(layer, options)
    for place, (word, way) in enumerate(found.items()):
        lengths = range(101 + place, 101 + place + (options.lengths + 1) * len(found), len(found))
        inputs = [torch.randn(options.batch, layer[1], length, device=options.device,
                              dtype=getattr(torch, options.dtype)).requires_grad_() for length in lengths]
        calls = [[milliseconds(way, x) for _ in range(CALLS)] for x in inputs][1:]
        again = [milliseconds(way, x) for x in inputs][1:]
        first, tenth = (statistics.median(each[at] for each in calls) for at in (0, CALLS - 1))
        rows.append({"layer": name, "way": word, "first_ms": first, "tenth_ms": tenth,
                     "again_ms": statistics.median(again), "most_first_ms": max(each[0] for each in calls)})
        print(f"{first:9.4f} {tenth:9.4f} {first / tenth:6.1f}x {rows[-1]['again_ms']:9.4f} "
              f"{rows[-1]['most_first_ms']:9.4f}  {name}: {word}", flush=True)
    return rows


def cache(options):
    """The binding's cache of plans, and calls behind more shapes than it holds."""
    way = Way(LAYERS["tiny transposed"], True, options.device, torch.float32)
    inputs = [torch.randn(1, 2, 70 + at, device=options.device) for at in range(20)]
    for x in inputs:
        way(x)
    known = statistics.median(milliseconds(way, x) for x in inputs)
    empty = torch.empty(0, 2, 1, device=options.device)
    length, before, (plans, held, _) = 1_000_000, -1, backend.cache_use()
    while plans > before:  # empty batches: a plan each, and no work
        before = plans
        for _ in range(1000):
            length += 1
            way(empty.expand(0, 2, length))
        plans, held, _ = backend.cache_use()
    dropped = statistics.median(milliseconds(way, x) for x in inputs)
    print(f"the cache holds {plans} plans in {held / 2**20:.1f} MiB ({held / plans:.0f} bytes each); a tiny call of a known "
          f"shape takes {1e3 * known:.1f} us, of one whose plan was dropped {1e3 * dropped:.1f} us")
    return {"plans": plans, "bytes": held, "known_ms": known, "dropped_ms": dropped}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16", "float64"])
    parser.add_argument("--match", default="", help="only layers whose name has this")
    parser.add_argument("--lengths", type=int, default=12, help="new lengths for each layer")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="on a CPU; 0: as PyTorch has them")
    parser.add_argument("--json", help="write the results here")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = True
    if options.threads:
        torch.set_num_threads(options.threads)
    print(f"{machine(options.device)}; {tconv.build_info()}\n first ms  tenth ms   ratio  again ms  most first")
    rows, held = [], {}
    result = lambda: {"benchmark": "first_calls", **provenance(options.device), "threads": torch.get_num_threads(),
                      "cache": held, "rows": rows}
    with cuda_timing.Kept(options.json, result) as kept:
        for name in LAYERS:
            if options.match in name:
                rows += measure(name, options)
                kept.row()
        held.update(cache(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
