"""Tables of `torch_cuda.py --draw`, of one seed or of several together; readme_table.py puts them into the docs."""

import json
import re
from pathlib import Path
from statistics import geometric_mean

from markdown_table import table

PRODUCTS, MODES = ("transposed", "strided", "weight"), ("tf32", "bf16", "f16", "ieee")


def read(paths):
    """One result of all files: their rows, each with its seed. Other machines or versions do not mix."""
    results = [json.loads(Path(path).read_text()) for path in paths]
    if not results:
        raise SystemExit("drawn_table: no results")
    first = results[0]
    for result in results[1:]:
        for key in ("machine", "versions"):
            if result[key] != first[key]:
                raise SystemExit(f"drawn_table: {key} differs: {first[key]} and {result[key]}")
    rows = [{**row, "seed": result["seed"]} for result in results for row in result["rows"]]
    dates = sorted({result["date"] for result in results})
    date = " and ".join(", ".join(dates).rsplit(", ", 1))
    return {**first, "date": date, "rows": rows, "seeds": sorted({row["seed"] for row in rows})}


def groups(rows):
    """(product, mode, rows), in the order of the tables."""
    for product in PRODUCTS:
        for mode in MODES:
            mine = [row for row in rows if (row["operation"], row["mode"]) == (product, mode)]
            if mine:
                yield product, mode, mine


def ratios(rows, way="graph", weights="raw"):
    return [row["ratio"][way][weights] for row in rows]


def shape(row):
    """The problem's text without product, dtype and mode, which its rows share."""
    return re.sub(r"^(strided|weight) | (f32|bf16|f16)\b| (tf32|ieee)$", "", row["problem"])


def means(rows, seeds=()):
    """Geometric means, of all rows and of several seeds, and how many layers are behind."""
    cells = []
    for product, mode, mine in groups(rows):
        raw = ratios(mine)
        of_seed = [ratios([row for row in mine if row["seed"] == seed]) for seed in seeds]
        packed = "-" if product == "weight" else f"{geometric_mean(ratios(mine, weights='packed')):.2f}x"
        by_seed = [" / ".join(f"{geometric_mean(each):.2f}x" if each else "-" for each in of_seed)] if len(seeds) > 1 else []
        cells.append([product, mode, str(len(mine)), f"{geometric_mean(raw):.2f}x", *by_seed, packed,
                      f"{geometric_mean(ratios(mine, 'eager')):.2f}x",
                      f"{sum(each < 1 for each in raw)} ({sum(each < 1 for each in raw) / len(raw):.0%})", f"{min(raw):.2f}x"])
    by_seed = [f"seed {' / '.join(map(str, seeds))}"] if len(seeds) > 1 else []
    return table(["product", "mode", "layers", "graph, raw weights", *by_seed, "graph, packed", "eager, raw", "below 1.0x",
                  "slowest"], cells)


def markdown(result):
    seeds = result["seeds"]
    return (f"{means(result['rows'], seeds)}\n\nSeed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}; "
            "`below 1.0x` and `slowest` are in a CUDA graph with raw weights.")


def listed(result):
    """The same of layers that a file lists."""
    return (f"{means(result['rows'])}\n\nLayers of {result['list']}; `below 1.0x` and `slowest` are in a CUDA graph with raw "
            "weights.")


def slowest(result, count=10):
    """The layers that are furthest behind, each with its worst mode."""
    worst = {}
    for row in sorted(result["rows"], key=lambda row: row["ratio"]["graph"]["raw"]):
        worst.setdefault((row["operation"], shape(row)), row)
    rows = []
    for (product, problem), row in list(worst.items())[:count]:
        took = row["graph"]
        theirs = min(took[key]["median_ms"] for key in ("torch", "torch_search") if key in took)
        rows.append([product, f"`{problem}`", row["mode"], row["kernel"], f"{1e3 * took['tconv']['median_ms']:.1f}",
                     f"{1e3 * theirs:.1f}", f"{1e3 * row['floor_ms']:.1f}", f"{row['ratio']['graph']['raw']:.2f}x"])
    return table(["product", "layer", "mode", "kernel", "us", "PyTorch us", "floor us", "ratio"], rows)
