"""What was to be reached on Hopper (hopper_targets.tsv) against what torch_cuda.py measured.

    python benchmarks/compare/hopper_table.py [benchmarks/results/torch_cuda.json]

Times are milliseconds: tconv with packed weights, PyTorch's best conv_transpose1d, and cuDNN on data that is
channels-last already. A problem that was not measured says so. readme_table.py puts the same table into the docs.
"""

import csv
import json
import sys
from pathlib import Path

import problem_floor

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "torch_cuda.json"


def targets(path=HERE / "hopper_targets.tsv"):
    """(name, problem, milliseconds or None, floors or None)."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [(row["name"], row["problem"], *(float(row[key]) if row[key] else None for key in ("milliseconds", "floors")))
            for row in rows]


def times_of(row):
    """Inside a CUDA graph for batch 1, else back to back."""
    return row.get("graph", row["ms"])


def best(times, *ways):
    found = [times[way]["median_ms"] for way in ways if way in times]
    return min(found) if found else None


def text(milliseconds):
    return "-" if milliseconds is None else f"{milliseconds:.3f}"


def compared(result):
    """Cells of the table, and how many targets are met of how many."""
    measured = {row["problem"]: row for row in result["rows"] if "ms" in row}
    cells, met = [], 0
    wanted = targets()
    for name, problem, milliseconds, floors in wanted:
        p = problem_floor.parse(problem)
        floor = problem_floor.floor_ms(p, p.mode, result["floor"])
        target = milliseconds if milliseconds is not None else floors * floor
        row = measured.get(problem)
        head = [name, p.mode, text(floor)]
        if row is None:
            cells.append([*head, "-", "-", text(target), "not measured", "-", "-"])
            continue
        times = times_of(row)
        reached = best(times, "tconv_packed")
        verdict = "-"
        if reached is not None:
            met += reached <= target
            verdict = "yes" if reached <= target else f"{reached / target:.2f}x"
        cells.append([*head, text(best(times, "torch", "torch_search")), text(best(row["ms"], "torch_nhwc")), text(target),
                      text(reached), "-" if reached is None else f"{floor / reached:.0%}", verdict])
    return cells, met, len(wanted)


def markdown(result):
    header = ["problem", "mode", "floor", "PyTorch's best", "channels-last", "target", "reached", "of floor", "met"]
    cells, met, count = compared(result)
    lines = [header, ["---"] * len(header), *cells]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{table}\n\n{met} of {count} targets met."


def main():
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    if not path.exists():
        sys.exit(f"hopper_table.py: {path} does not exist: torch_cuda.py --json writes it")
    result = json.loads(path.read_text())
    print(f"{result['machine']}, {result['date']}\n\n{markdown(result)}")


if __name__ == "__main__":
    main()
