"""Targets of the CPU path beside what this machine reaches: `torch_cpu.py --targets --threads 1`.

Each row is measured here but for the drawn layers and the decoders, whose rows come from the results of
`torch_cpu.py --draw` and `decoders.py` where --results names them. --json writes the rows. A share is of the floor of torch_cpu.py: multiply-adds
or copies of so many bytes, by this run's rates.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

import cpu_cases
import draw
import tconv_ctypes

DENSE = "n1 ci512 co256 l800 k16 s8 p4 bias f32"
LONG = ("n1 ci32 co64 l131072 k3 s2 p1 op1 d2 f32", "n1 ci32 co64 l131072 k5 s1 p6 d3 bias f32")
DEPTHWISE = "n1 ci256 co256 l8000 k4 s2 p1 g256 f32"
GROUPS = "n1 ci256 co256 l8000 k4 s2 p1 g4 f32"
NARROW = ("n1 ci32 co1 l48000 k7 s1 p3 bias f32", "n1 ci1 co32 l48000 k7 s1 p3 bias f32")
ISTFT = ("n1 ci1026 co1 l400 k1024 s256 p384 f32", "n1 ci642 co1 l400 k640 s160 f32", "n1 ci802 co1 l400 k800 s200 f32")
STREAMING = tuple(f"n1 ci512 co256 l{l} k16 s8 bias f32" for l in (1, 2, 4, 8)) + ("n1 ci2048 co1024 l1 k16 s8 f32",)
TINY = "n1 ci1 co1 l1 k1 f32"


def measured(text, threads, rates, seconds=0.3):
    layer = draw.read(text)
    operation = next((word for word in text.split() if word in draw.OPERATIONS), "transposed")
    case = cpu_cases.Case(layer, threads, operation)
    row = cpu_cases.in_turns({"torch": case.torch, "tconv": case.raw, "alone": case.kernel_alone}, seconds, 5)
    row = {name: each["median_ms"] for name, each in row.items()}
    row["ratio"] = row["torch"] / row["tconv"]
    row["share"] = case.floor_seconds(rates) * 1e3 / row["alone"]
    row["bytes"] = case.w.numel() * case.w.element_size()
    return row


ROWS = []  # printed so far


def printed(work, target, reached, met):
    ROWS.append({"threads": torch.get_num_threads(), "work": work, "target": target, "reached": reached, "met": bool(met)})
    print(f"| {work} | {target} | {reached} | {'yes' if met else 'no'} |", flush=True)


def compared(work, texts, threads, rates, ratio, share=None):
    """Rows of at least so many times PyTorch, and at least so much of the floor."""
    target = " and ".join(([f">= {share:.0%} of the floor"] if share else []) + ([f">= {ratio}x"] if ratio else []))
    for text in texts:
        row = measured(text, threads, rates)
        printed(f"{work}: `{text}`", target, f"{row['share']:.0%}, {row['ratio']:.2f}x",
             row["ratio"] >= (ratio or 0) and row["share"] >= (share or 0))


def in_other_words(threads, rates):
    """The dense layer in f16, bf16 and f64."""
    single = measured(DENSE, threads, rates)["alone"]
    for dtype in ("f16", "bf16"):
        row = measured(DENSE.replace("f32", dtype), threads, rates)
        printed(f"{dtype} against f32, dense", ">= 0.9x without matrix tiles", f"{single / row['alone']:.2f}x",
             single / row["alone"] >= 0.9)
    compared("f64, dense", [DENSE.replace("f32", "f64")], threads, rates, None, 0.75)


def streaming(threads, rates):
    for text in STREAMING:
        row = measured(text, threads, rates)
        # Weights that stay in a cache are read at its rate, a copy reads half of what it moves.
        reading = row["bytes"] / cpu_cases.read_rate(rates, row["bytes"]) * 1e3
        printed(f"few positions: `{text}`", "<= 1.3x reading the weights", f"{row['alone'] / reading:.2f}x, PyTorch "
             f"{row['ratio']:.2f}x", row["alone"] <= 1.3 * reading)


def short_calls(threads):
    case = cpu_cases.Case(draw.read(TINY), threads)
    program = Path(tconv_ctypes.find_library()).parent / "tconv"
    command = [program, "bench", "--json", "--seconds", "0.05", "--threads", str(threads), TINY]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    call = min(row["seconds"] for row in rows) * 1e6
    printed(f"a call from C, {case.plan.kernel}", "< 3 us", f"{call:.2f} us", call < 3)


def two_threads(rates):
    alone = {threads: measured(DENSE, threads, rates)["alone"] for threads in (1, 2)}
    printed("two threads against one, dense", ">= 1.85x", f"{alone[1] / alone[2]:.2f}x", alone[1] / alone[2] >= 1.85)


def new_length(threads):
    """Plan, pack and run at lengths never seen: the first call of each against its tenth; medians."""
    first, tenth = [], []
    weights = cpu_cases.Case(draw.read(DENSE), threads)
    for length in range(701, 701 + 9 * 7, 7):
        times = []
        for call in range(10):
            if call == 0:
                layer = draw.read(DENSE.replace("l800", f"l{length}"))
                x = torch.rand(1, layer.cin, layer.l)
            times.append(cpu_cases.timed(lambda: fresh_call(layer, x, weights, threads)))
        first.append(times[0])
        tenth.append(times[9])
    ratio = sorted(first)[len(first) // 2] / sorted(tenth)[len(tenth) // 2]
    printed("first call of a new length against the tenth, planning included", "<= 1.1x", f"{ratio:.2f}x", ratio <= 1.1)


def fresh_call(layer, x, weights, threads):
    plan = tconv_ctypes.Plan(layer.text(), threads=threads)
    size = plan.workspace_bytes(True)
    y = torch.empty(1, layer.cout, plan.lout)
    workspace, pointer = cpu_cases.aligned(size)
    plan.run(plan.arguments(x.data_ptr(), y.data_ptr(), packed=weights.packed_pointer, bias=weights.bias.data_ptr(),
                            workspace=pointer, workspace_bytes=size))


def packing(threads, rates):
    case = cpu_cases.Case(draw.read(DENSE), threads)
    case.pack_alone()
    taken = min(cpu_cases.timed(case.pack_alone, 5) for _ in range(5))
    size = 2 * case.w.numel() * 4
    share = size / taken / cpu_cases.copy_rate(rates, size)
    printed("packing, dense", ">= 60% of the copy rate", f"{share:.0%}", share >= 0.6)


def avx2(threads):
    """The dense layer in a process of its own: the target is chosen once."""
    code = ("import cpu_cases, cpu_targets, torch; torch.set_grad_enabled(False); cpu_cases.keep_memory(); "
            f"torch.set_num_threads({threads}); rates = cpu_cases.rates({threads}); "
            f"print(cpu_targets.measured({DENSE!r}, {threads}, rates)['share'])")
    run = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, env=os.environ | {"TCONV_SIMD": "AVX2"},
                         capture_output=True, text=True)
    if run.returncode != 0:
        return printed("AVX2, dense", ">= 75% of its FMA rate", "not on this machine", False)
    share = float(run.stdout)
    printed("AVX2, dense", ">= 75% of its FMA rate", f"{share:.0%}", share >= 0.75)


def from_results(path):
    result = json.loads(Path(path).read_text())
    if result["benchmark"] == "torch_cpu":
        least = 3.0 if result["operation"] == "transposed" else 1.5
        for each in result["summary"]:
            printed(f"{each['layers']} drawn layers, {result['operation']}, seed {result['seed']}, {each['threads']} threads",
                 f"geomean >= {least}x, none under 1.0x (0.95)",
                 f"{each['geomean']:.2f}x, {each['under_1']} under 1.0, {each['under_0.95']} under 0.95, least "
                 f"{each['minimum']:.2f}x", each["geomean"] >= least and each["under_0.95"] == 0)
    if result["benchmark"] == "decoders":
        for row in result["rows"]:
            printed(f"{row['decoder']} {row['batch']}x{row['frames']}, {row['pass']}, {row['threads']} threads", ">= 1.3x",
                 f"{row['gain']:.2f}x", row["gain"] >= 1.3)


def run(options):
    for threads in options.threads:
        torch.set_num_threads(threads)
        rates = cpu_cases.rates(threads)
        print(f"\n{threads} threads: f32 {rates['f32'] / 1e9:.0f} GFLOP/s, f64 {rates['f64'] / 1e9:.0f}, copies "
              + " to ".join(f"{rate / 1e9:.0f}" for rate in (rates["copy"][0], rates["copy"][-1])) + " GB/s\n")
        print("| work | target | reached | met |\n|---|---|---|---|")
        rows = (
            lambda: compared("dense", [DENSE], threads, rates, 1.15, 0.8),
            lambda: compared("long and thin", LONG, threads, rates, 5, 0.8),
            lambda: compared("depthwise", [DEPTHWISE], threads, rates, 3, 0.7),
            lambda: compared("groups", [GROUPS], threads, rates, 3),
            lambda: compared("one channel", NARROW, threads, rates, 5, 0.5),
            lambda: compared("iSTFT", ISTFT, threads, rates, 5, 0.5),
            lambda: in_other_words(threads, rates), lambda: streaming(threads, rates), lambda: short_calls(threads),
            lambda: two_threads(rates) if threads == 2 else None, lambda: avx2(threads), lambda: new_length(threads),
            lambda: packing(threads, rates))
        part, parts = map(int, options.part.split("/"))
        for row in rows[part - 1::parts]:
            row()
    for path in options.results or ():
        from_results(path)
    return 0
