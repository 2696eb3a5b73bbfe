"""A picture of `torch_cuda.py --draw`: PyTorch's time over tconv's, layer by layer in ascending order, for each product,
mode and seed. Several files are several seeds. Needs matplotlib.

    python benchmarks/compare/plot_drawn.py benchmarks/results/drawn_cuda_*.json docs/images/cuda_drawn.png
"""

import argparse
from pathlib import Path
from statistics import geometric_mean

import drawn_table
from plot_axes import plt

COLORS = {"tf32": "#c7641a", "bf16": "#3a8a3a", "f16": "#7a4fb0", "ieee": "#1f5fa8"}
STYLES = ("-", "--", ":", "-.", (0, (1, 4)), (0, (6, 3, 1, 1, 1, 3)))
WORDS = {"transposed": "transposed (ConvTranspose1d)", "strided": "strided (Conv1d)", "weight": "weight gradient"}


def draw_product(axis, product, result):
    for found, mode, rows in drawn_table.groups(result["rows"]):
        if found != product:
            continue
        for place, seed in enumerate(result["seeds"]):
            values = sorted(drawn_table.ratios([row for row in rows if row["seed"] == seed]))
            if not values:
                continue
            share = [100 * (at + 0.5) / len(values) for at in range(len(values))]
            axis.plot(share, values, linestyle=STYLES[place % len(STYLES)], color=COLORS[mode], linewidth=1.4,
                      label=f"{mode}, seed {seed}: {geometric_mean(values):.2f}x")
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_yscale("log")
    every = drawn_table.ratios(result["rows"])
    axis.set_ylim(0.9 * min(every), 1.2 * max(every))
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if min(every) < tick < max(every)]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xlabel("layers, slowest first, %")
    axis.set_title(WORDS[product], fontsize=10)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7, loc="upper left", title="geometric mean", title_fontsize=7)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+")
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    result = drawn_table.read(options.results)
    products = [each for each in drawn_table.PRODUCTS if any(row["operation"] == each for row in result["rows"])]
    figure, axes = plt.subplots(1, len(products), figsize=(4.6 * len(products), 4.8), squeeze=False, sharey=True)
    for axis, product in zip(axes[0], products):
        draw_product(axis, product, result)
    axes[0][0].set_ylabel("PyTorch's time / tconv's (above 1: tconv is faster)")
    figure.suptitle(f"Drawn layers in a CUDA graph, raw weights: {result['machine']}, PyTorch {result['versions']['torch']}, "
                    f"{result['date']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(options.picture, dpi=110)


if __name__ == "__main__":
    main()
