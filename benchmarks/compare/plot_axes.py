"""What the pictures of results have in common. Needs matplotlib."""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

__all__ = ["against_floor", "arguments", "plt"]


def arguments(description, target):
    """The results of the file that the command line names, and the path of what is written, `target` in its usage."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument(target, type=Path)
    options = parser.parse_args()
    return json.loads(options.results.read_text()), getattr(options, target)


def against_floor(axis, xlabel, ylabel):
    """A ratio on both logarithmic axes over the floor of a problem, with a line at 1."""
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
