"""tconv against PyTorch on the CPU, layer by layer, in one process.

Each layer is timed for each thread count in rounds that take turns: PyTorch, tconv with raw weights (packing inside
the call, as a drop-in pays it), tconv with packed weights, and the kernel alone (packed, with output and workspace at
hand). The others allocate output and workspace through PyTorch in the timed region; freed memory stays with the process
(--fresh-memory lets it go). Reported: medians, the spread (interquartile range over median), the ratios PyTorch / tconv
raw and packed, and the kernel's share of its floor: the larger of products over the multiply-add rate and bytes over
the copy rate, both measured by this run (small problems beat the copy from memory). A matrix product of 1024 cubed,
measured beside every layer, tells how fast the machine was just then.

    python benchmarks/compare/torch_cpu.py --json benchmarks/results/torch_cpu.json      the layers of real models
    python benchmarks/compare/torch_cpu.py --draw 100 --seed 1 --threads 1               layers drawn at random (draw.py)
    python benchmarks/compare/torch_cpu.py --draw 100 --seed 1 --threads 2 --op strided  Conv1d; weight: the gradient
    python benchmarks/compare/torch_cpu.py --targets --threads 1                         targets and what is reached

A run may be cut with --part 2/5, and its JSON files joined with --join.
"""

import argparse
import datetime
import json
import math
import platform
import sys

import torch

import cpu_cases
import cpu_targets
import draw
import layers as layer_table
import tconv_ctypes


def measure(layer, threads, options, rates):
    torch.set_num_threads(threads)
    case = cpu_cases.Case(layer, threads, options.op)
    row = {"layer": layer.name, "problem": case.text, "threads": threads, "kernel": case.plan.kernel,
           "matmul_gflops": cpu_cases.matmul_gflops()}
    if not options.no_verify and threads == options.threads[0]:
        row["largest_difference"] = case.largest_difference()
    functions = {"torch": case.torch, "tconv": case.raw, "tconv_packed": case.prepacked, "alone": case.kernel_alone}
    if not case.plan.packed_bytes:
        del functions["tconv_packed"]
    row.update(cpu_cases.in_turns(functions, options.seconds, options.rounds))
    row.setdefault("tconv_packed", row["tconv"])
    row["ratio"] = row["torch"]["median_ms"] / row["tconv"]["median_ms"]
    row["ratio_packed"] = row["torch"]["median_ms"] / row["tconv_packed"]["median_ms"]
    row["floor_ms"] = case.floor_seconds(rates[threads]) * 1e3
    row["share"] = row["floor_ms"] / row["alone"]["median_ms"]
    return row


def cpu_name():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def report(rows, threads):
    mine = [row for row in rows if row["threads"] == threads]
    if not mine:
        return {}
    ratios = [row["ratio"] for row in mine]
    return {"threads": threads, "layers": len(ratios), "geomean": geomean(ratios),
            "geomean_packed": geomean([row["ratio_packed"] for row in mine]), "minimum": min(ratios),
            "under_1": sum(ratio < 1 for ratio in ratios), "under_0.95": sum(ratio < 0.95 for ratio in ratios),
            "geomean_share": geomean([row["share"] for row in mine]), "least_share": min(row["share"] for row in mine)}


def provenance():
    return {"date": datetime.date.today().isoformat(), "machine": cpu_name(),
            "versions": {"tconv": tconv_ctypes.LIB.tconv_build_info().decode(), "torch": torch.__version__,
                         "python": platform.python_version()}}


def write_json(path, result):
    with open(path, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


def write(path, rows, options, rates):
    write_json(path, {"benchmark": "torch_cpu", **provenance(), "operation": options.op, "drawn": options.draw,
                      "seed": options.seed if options.draw else None, "floor": rates,
                      "summary": [report(rows, count) for count in options.threads], "rows": rows})


def show(row):
    print(f"{row['ratio']:6.2f} {row['ratio_packed']:6.2f} {row['share']:6.2f} {row['torch']['median_ms']:9.3f} "
          f"{row['tconv']['median_ms']:9.3f} {row['alone']['median_ms']:9.3f} {row['tconv']['spread']:6.2f} "
          f"{row['threads']} {row['kernel']:<14} {row['layer']} [{row['problem']}]", flush=True)


def conclude(rows, options):
    for threads in options.threads:
        line = report(rows, threads)
        if not line:
            continue
        mine = sorted((row for row in rows if row["threads"] == threads), key=lambda row: row["ratio"])
        print(f"\nthe ten behind most, {threads} threads:")
        for row in mine[:10]:
            show(row)
        print(f"threads {threads}: {line['layers']} layers, geomean {line['geomean']:.2f} (packed "
              f"{line['geomean_packed']:.2f}), minimum {line['minimum']:.2f}, {line['under_1']} under 1.0, "
              f"{line['under_0.95']} under 0.95; of the floor {line['geomean_share']:.0%} (geomean), "
              f"{line['least_share']:.0%} at least")


def chosen(options):
    if options.draw:
        layers = draw.draw(options.draw, options.seed, "cpu", options.dtype)
    else:
        layers = layer_table.table(options.file, batch=options.batch or None, dtype=options.dtype)
    if options.problem:
        layers = [draw.read(text) for text in options.problem]
    layers = [layer for layer in layers if options.match in layer.name or options.match in layer.text()]
    part, parts = map(int, options.part.split("/"))
    return layers[part - 1::parts]


def join(options):
    results = [json.loads(open(path).read()) for path in options.join]
    rows = [row for result in results for row in result["rows"]]
    options.threads = sorted({row["threads"] for row in rows})
    options.op, options.draw, options.seed = (results[0][key] for key in ("operation", "drawn", "seed"))
    conclude(rows, options)
    if options.json:
        write(options.json, rows, options, {threads: rate for result in results for threads, rate in result["floor"].items()})
    return 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", default=layer_table.TABLE)
    parser.add_argument("--draw", type=int, default=0, help="so many layers at random in place of a file's")
    parser.add_argument("--seed", type=int, default=1, help="of --draw")
    parser.add_argument("--problem", nargs="+", help="these problems in place of a file's")
    parser.add_argument("--targets", action="store_true", help="the table of targets and what is reached")
    parser.add_argument("--results", nargs="+", help="with --targets: JSON of drawn layers and of decoders.py")
    parser.add_argument("--op", choices=draw.OPERATIONS, default="transposed")
    parser.add_argument("--match", default="", help="only layers whose name or problem has this text")
    parser.add_argument("--part", default="1/1", help="only every n-th layer: 2/5 is the second of five parts")
    parser.add_argument("--batch", type=int, default=1, help="batch of every layer of a file; 0 takes the table's own")
    parser.add_argument("--dtype", default="f32", choices=cpu_cases.DTYPES)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=0.3, help="measuring time of a layer and thread count")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of a layer at the least")
    parser.add_argument("--no-verify", action="store_true", help="skip the comparison of the two results")
    parser.add_argument("--fresh-memory", action="store_true", help="let the system take freed memory back")
    parser.add_argument("--json", help="write the results here")
    parser.add_argument("--join", nargs="+", help="report on the rows of these files; measure nothing")
    return parser.parse_args()


def main():
    options = parse_arguments()
    if options.join:
        return join(options)
    torch.manual_seed(7)
    torch.set_grad_enabled(False)
    if not options.fresh_memory:
        cpu_cases.keep_memory()
    if options.targets:
        cpu_targets.run(options)
        if options.json:
            write_json(options.json, {"benchmark": "cpu_targets", **provenance(), "rows": cpu_targets.ROWS})
        return 0
    rates = {threads: cpu_cases.rates(threads) for threads in options.threads}
    for threads, each in rates.items():
        copies = ", ".join(f"{size >> 10} kB {rate / 1e9:.0f}" for size, rate in zip(cpu_cases.COPIES, each["copy"]))
        print(f"threads {threads}: f32 {each['f32'] / 1e9:.0f} GFLOP/s, f64 {each['f64'] / 1e9:.0f}; copies, GB/s: {copies}")
    rows = []
    print(f"{'ratio':>6} {'packed':>6} {'share':>6} {'torch ms':>9} {'tconv ms':>9} {'alone ms':>9} {'spread':>6} t kernel"
          "         layer")
    for layer in chosen(options):
        for threads in options.threads:
            rows.append(measure(layer, threads, options, rates))
            if options.json:
                write(options.json, rows, options, rates)  # row by row: a run that is stopped keeps its rows
            show(rows[-1])
    conclude(rows, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
