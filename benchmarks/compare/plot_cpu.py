"""Pictures of torch_cpu.py's results: the ratio to PyTorch and the share of the floor, a point a layer. Needs matplotlib.

    python benchmarks/compare/plot_cpu.py benchmarks/results/torch_cpu_draw.json docs/images/cpu_draw.png
"""

from plot_axes import against_floor, arguments, plt


def scatter(axis, rows, value, label):
    for place, kernel in enumerate(sorted({row["kernel"] for row in rows})):
        mine = [row for row in rows if row["kernel"] == kernel]
        axis.plot([row["floor_ms"] for row in mine], [row[value] for row in mine], "o^svDP*X"[place % 8], markersize=4,
                  alpha=0.8, label=kernel)
    against_floor(axis, "floor of the layer, ms", label)


def main():
    result, picture = arguments(__doc__, "picture")
    threads = sorted({row["threads"] for row in result["rows"]})
    figure, axes = plt.subplots(len(threads), 2, figsize=(12, 4.5 * len(threads)), squeeze=False)
    for line, count in zip(axes, threads):
        rows = [row for row in result["rows"] if row["threads"] == count]
        scatter(line[0], rows, "ratio", f"PyTorch / tconv, raw weights, {count} thread{'s' if count > 1 else ''}")
        scatter(line[1], rows, "share", "floor / time of the kernel")
    figure.suptitle(f"{result['operation']}: {result['machine']}, {result['date']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main()
