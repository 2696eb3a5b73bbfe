"""Pictures of torch_cuda.py's results: the roofline, and the ratio to PyTorch layer by layer. Needs matplotlib.

    python benchmarks/compare/plot_cuda.py benchmarks/results/torch_cuda.json docs/images
"""

from plot_axes import against_floor, arguments, plt

COLORS = {"ieee": "#1f5fa8", "tf32": "#c7641a"}


def times_of(row):
    return row.get("graph", row["ms"])


def ratios(rows, path, result):
    rows = sorted(rows, key=lambda row: row["ratio"])
    height = max(4, 0.17 * len(rows) + 1.5)
    figure, axis = plt.subplots(figsize=(11, height))
    places = range(len(rows))
    axis.barh(places, [row["ratio"] for row in rows], color=[COLORS[row["precision"]] for row in rows], height=0.75)
    axis.plot([row["ratio_packed"] for row in rows], places, "k|", markersize=5, label="packed weights")
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_yticks(list(places), [f"{row['layer']} [{row['problem']}]"[:92] for row in rows], fontsize=5.5)
    axis.set_ylim(-1, len(rows))
    axis.set_xlabel("PyTorch's best conv_transpose1d / tconv (blue ieee and 16-bit, orange tf32; over 1: tconv is faster)")
    axis.set_title(f"{result['machine']}, {result['date']}", fontsize=9)
    axis.legend(loc="lower right", fontsize=7)
    axis.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def roofline(rows, path, result):
    """Share of the floor against time at the floor: short problems are launch latency, long ones the kernel."""
    figure, axis = plt.subplots(figsize=(9, 5.5))
    for precision, color in COLORS.items():
        mine = [row for row in rows if row["precision"] == precision]
        for way, mark, label in (("tconv_packed", "o", "tconv"), ("torch", "x", "PyTorch"),
                                 ("torch_search", "+", "PyTorch, cudnn.benchmark")):
            points = [(row["floor_ms"] * 1e3, row["floor_ms"] / times_of(row)[way]["median_ms"]) for row in mine
                      if way in times_of(row)]
            if points:
                axis.plot(*zip(*points), mark, color=color, alpha=0.85 if mark == "o" else 0.4, markersize=5,
                          fillstyle="none", label=f"{label}, {precision}")
    against_floor(axis, "floor of the problem, us (the larger of bytes and products)", "floor / time")
    axis.set_title(f"Share of the floor. {result['machine']}, {result['date']}: copy "
                   f"{result['floor']['copy_gbps']:.0f} GB/s, fp32 {result['floor']['ieee_tflops']:.0f}, tf32 "
                   f"{result['floor']['tf32_tflops']:.0f} TFLOP/s", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main():
    result, folder = arguments(__doc__, "folder")
    rows = [row for row in result["rows"] if "ratio" in row]
    folder.mkdir(parents=True, exist_ok=True)
    ratios(rows, folder / "cuda_ratio.png", result)
    roofline(rows, folder / "cuda_roofline.png", result)


if __name__ == "__main__":
    main()
