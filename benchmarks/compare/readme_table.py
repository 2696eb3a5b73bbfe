"""Turns committed results (benchmarks/results/*.json) into the tables of README.md and of the pages in docs.

A table stands between the markers `<!-- table:NAME -->` and `<!-- end -->`. NAME is the results' file without .json;
NAME-summary is the short form for README.md; hopper is torch_cuda.json against its targets; drawn_cuda is all of
drawn_cuda_*.json together (a seed each), and drawn_cuda-slowest the layers that are furthest behind. If there are no
results, the place stays empty. Numbers in those tables are never typed by hand.

    python benchmarks/compare/readme_table.py            rewrites the tables
    python benchmarks/compare/readme_table.py --check    exit 1 where a table differs from its results
"""

import json
import re
import sys
from pathlib import Path
from statistics import geometric_mean

import drawn_table
import gradient_targets
import hopper_table
from markdown_table import table

ROOT = Path(__file__).resolve().parents[2]
MARKED = re.compile(r"(<!-- table:([\w.-]+) -->\n).*?(<!-- end -->)", re.S)


def geomean(values):
    return geometric_mean(values) if values else float("nan")


def heading(result):
    versions = ", ".join(f"{name} {value}" for name, value in result["versions"].items() if name != "tconv")
    versions = versions or result["versions"]["tconv"]
    return f"{result['machine']}; {versions}; {result['date']}."


def cpu(result):
    groups = {}
    for row in result["rows"]:
        groups.setdefault(row["threads"], []).append(row)
    rows = []
    for threads, each in sorted(groups.items()):
        ratios = [row["ratio"] for row in each]
        packed = [row["ratio_packed"] for row in each]
        rows.append([str(threads), str(len(each)), f"{geomean(ratios):.2f}x", f"{geomean(packed):.2f}x",
                     f"{min(ratios):.2f}x", str(sum(r < 1 for r in ratios))])
    return table(["threads", "layers", "faster than PyTorch (geomean)", "with packed weights", "slowest layer",
                  "layers behind"], rows)


def cpu_targets(result):
    rows = [[str(row["threads"]), row["work"], row["target"], row["reached"], "yes" if row["met"] else "no"]
            for row in result["rows"]]
    return table(["threads", "work", "target", "reached", "met"], rows)


def milliseconds(times, key):
    return f"{times[key]['median_ms']:.3f}" if key in times else "-"


def cuda_summary(result):
    summary, groups = [], {}
    for row in (row for row in result["rows"] if "ratio" in row):
        dtype = row["problem"].replace(" tf32", "").split()[-1]
        groups.setdefault(f"{dtype} {row['precision']}" if dtype == "f32" else dtype, []).append(row)
    for name, each in groups.items():
        ratios = [row["ratio"] for row in each]
        summary.append([name, str(len(each)), f"{geomean(ratios):.2f}x",
                        f"{geomean([row['ratio_packed'] for row in each]):.2f}x", f"{min(ratios):.2f}x",
                        str(sum(r < 1 for r in ratios))])
    return table(["mode", "layers", "faster than PyTorch (geomean)", "with packed weights", "slowest layer",
                  "layers behind"], summary)


def cuda(result):
    seeds = []
    for row in result["rows"]:
        if "ratio" in row and row["layer"].startswith("problem "):
            times = row.get("graph", row["ms"])
            dtype = row["problem"].replace(" tf32", "").split()[-1]
            seeds.append([row["layer"], row["precision"] if dtype == "f32" else dtype, f"{row['floor_ms']:.3f}", milliseconds(times, "tconv"),
                          milliseconds(times, "tconv_packed"), milliseconds(times, "torch"),
                          milliseconds(times, "torch_search"), milliseconds(row["ms"], "torch_nhwc")])
    parts = [cuda_summary(result)]
    if seeds:
        parts.append("Milliseconds:\n\n" + table(["", "mode", "floor", "tconv", "packed", "PyTorch", "cudnn.benchmark",
                                                  "channels-last"], seeds))
    return "\n\n".join(parts)


def random_large(result):
    rows = []
    for row in result["rows"]:
        if "failed" in row:
            rows.append([f"`{row['problem']}`", "failed", "-", "-", "-", "-"])
            continue
        rows.append([f"`{row['problem']}`", row["kernel"], f"{row['seconds'] * 1e3:.3f}",
                     f"{row['floor_seconds'] * 1e3:.3f}", row["bound_by"], f"{row['share']:.0%}"])
    closing = (f"Share of the floor: {result['geomean_share']:.0%} (geometric mean), {result['least_share']:.0%} at "
               f"least; seed {result['seed']}, {len(rows)} problems, {result['failed']} failed.")
    return table(["problem", "kernel", "ms", "floor", "bound by", "of floor"], rows) + "\n\n" + closing


def model(result):
    """Prediction kernel by kernel, and every problem on which another kernel was more than 10% faster."""
    kernels, behind = {}, []
    for row in result["rows"]:
        if "failed" in row:
            behind.append([f"`{row['problem']}`", "failed", "-", "-"])
            continue
        if row["measured_over_predicted"]:
            kernels.setdefault(row["kernel"], []).append(row["measured_over_predicted"])
        if row["chosen_over_best"] > 1.1:
            behind.append([f"`{row['problem']}`", row["kernel"], row["best"], f"{row['chosen_over_best']:.2f}x"])
    rows = [[name, str(len(each)), f"{geomean(each):.2f}", f"{min(each):.2f}", f"{max(each):.2f}"]
            for name, each in sorted(kernels.items())]
    parts = []
    if rows:
        parts.append(table(["measured / predicted", "problems", "geomean", "least", "most"], rows))
    parts.append(f"The choice is within 10% of the best kernel on {result['near_best']} of {result['problems']} "
                 f"problems{'; behind:' if behind else '.'}")
    if behind:
        parts.append(table(["problem", "chosen", "best", "chosen / best"], behind))
    return "\n\n".join(parts)


def decoder_pass(row):
    """Inference is prepacked unless the row says otherwise."""
    return row["pass"] + (", raw weights" if row.get("weights") == "raw" and row["pass"] == "inference" else "")


def decoders(result):
    rows = []
    for row in result["rows"]:
        where = f"{row['batch']}x{row['frames']}" + (f", {row['threads']} threads" if row["threads"] else "")
        head = [row["decoder"], where, row["arithmetic"], decoder_pass(row) + (", graph" if row["graph"] else "")]
        if "failed" in row:
            rows.append([*head, "failed", *["-"] * 5])
            continue
        times, kinds = row["ms"], row.get("by_kind", {}).get("patched")
        rows.append([*head, f"{times['eager']['median_ms']:.2f}", f"{times['patched']['median_ms']:.2f}",
                     f"{row['gain']:.2f}x", f"{row['target']:.1f}x",
                     f"{row['gain_compiled']:.2f}x" if "gain_compiled" in row else "-",
                     f"{kinds['convolution']:.0%}" if kinds else "-"])
    return table(["decoder", "size", "arithmetic", "", "PyTorch ms", "patched ms", "gain", "target", "gain compiled",
                  "convolutions, of patched"], rows)


def decoders_summary(result):
    gains, passes = {}, ("inference", "training step")
    for row in result["rows"]:
        if decoder_pass(row) in passes and not row["graph"] and not row["threads"] and "gain" in row:
            size = f"{row['batch']}x{row['frames']}"
            gains.setdefault((row["decoder"], size, row["arithmetic"]), {})[row["pass"]] = f"{row['gain']:.2f}x"
    rows = [[*key, *(each.get(name, "-") for name in passes)] for key, each in gains.items()]
    return table(["patched decoder", "batch x frames", "arithmetic", *passes], rows)


def conv_passes(result):
    rows = []
    for word, means in result["summary"].items():
        for which, mean in means.items():
            rows.append([word, which, str(mean["rows"]), f"{mean['geomean']:.2f}x", f"{mean['minimum']:.2f}x",
                         str(mean["behind"])])
    return table(["arithmetic", "pass", "layers", "faster than PyTorch (geomean)", "slowest layer", "layers behind"],
                 rows)


def first_calls(result):
    us = lambda row, key: f"{1e3 * row[key]:.1f}"
    rows = [[row["layer"], row["way"], us(row, "first_ms"), us(row, "tenth_ms"), us(row, "again_ms"),
             f"{row['first_ms'] / row['tenth_ms']:.2f}x"] for row in result["rows"]]
    held = result["cache"]
    closing = (f"The cache of plans holds {held['plans']} of them in {held['bytes'] / 2**20:.1f} MiB. A call of a tiny layer "
               f"takes {1e3 * held['known_ms']:.1f} us, and {1e3 * held['dropped_ms']:.1f} us where its plan was dropped.")
    return table(["layer", "", "first call, us", "tenth", "again", "first / tenth"], rows) + "\n\n" + closing


VIEWS = {"first_calls": first_calls, "decoders": decoders, "decoders-summary": decoders_summary,
         "conv_passes": conv_passes, "torch_cpu": cpu, "cpu_targets": cpu_targets, "torch_cuda": cuda, "torch_cuda-summary": cuda_summary,
         "random_large": random_large, "model": model, "drawn_cuda": drawn_table.markdown, "listed_cuda": drawn_table.listed,
         "drawn_cuda-slowest": drawn_table.slowest, "gradient_targets": gradient_targets.markdown}
RESULTS = ROOT / "benchmarks" / "results"


def rendered(name):
    stem, dash, form = name.partition("-")
    if stem == "drawn_cuda":
        paths = sorted(RESULTS.glob("drawn_cuda_*.json"))
    else:
        paths = [RESULTS / f"{'torch_cuda' if stem == 'hopper' else stem}.json"]
    if not all(path.exists() for path in paths) or not paths:
        return ""
    result = drawn_table.read(paths) if stem == "drawn_cuda" else json.loads(paths[0].read_text())
    body = (hopper_table.markdown if name == "hopper" else VIEWS[result["benchmark"] + dash + form])(result)
    return f"\n{body}\n\n{heading(result)}\n\n"


def main():
    check = "--check" in sys.argv[1:]
    differing = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if not path.exists():
            continue
        old = path.read_text()
        new = MARKED.sub(lambda m: m.group(1) + rendered(m.group(2)) + m.group(3), old)
        if new != old:
            differing.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(new)
    for name in differing:
        print(f"{name}: {'differs from the committed results' if check else 'written'}")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
