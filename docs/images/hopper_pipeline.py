#!/usr/bin/env python3
"""Draws docs/images/hopper_pipeline.svg: how a tile passes through the stages of cuda.sm90.dense."""

from pathlib import Path

from drawing import BLUE, GREEN, GREY, INK, ORANGE, Drawing

d = Drawing(1230, 625)
text, box, band, arrow = d.text, d.box, d.band, d.arrow


def ring(x, y, lines):
    for i, state in enumerate(("in use", "full", "full", "filling")):
        d.rectangle(x + 54 * i, y, 50, 34, "#ffffff", INK)
        text(x + 54 * i + 25, y + 22, state, 11, GREY)
    for i, line in enumerate(lines):
        text(x + 222, y + 13 + 16 * i, line, 12, INK, anchor="start", weight="bold")


def draw():
    band(10, 100, ["global memory"], GREY)
    box(280, 27, 210, 66, "x", ["raw rows [channel][position]"], GREY)
    box(595, 27, 210, 66, "packed weights", ["in the order of the loops"], GREY)
    box(910, 27, 210, 66, "y", ["rows [cout][position]"], GREY)

    band(130, 112, ["producer warps", "24 to 40 registers", "a thread"], BLUE)
    box(280, 148, 210, 76, "Source", ["tensor copies, or gathered", "by elements; zeros outside x"], BLUE)
    box(595, 148, 210, 76, "PackedSource", ["bulk copies of a slab's", "weights for a block's rows"], BLUE)

    band(262, 100, ["shared memory", "rings; a slot has two", "barriers: full, empty"], GREY)
    ring(277, 296, ["stages", "of x"])
    ring(592, 296, ["slots of", "weights"])
    box(910, 280, 210, 66, "staged rows", ["[cout][output], as y needs them"], GREY)

    band(382, 232, ["warpgroups", "that multiply", "one tile at a time,", "up to 240 registers", "a thread"], ORANGE)
    box(280, 420, 210, 76, "Operand", ["scales, rounds, splits;", "in registers or shared memory"], ORANGE)
    box(595, 420, 210, 76, "Product", ["wgmma over slabs and taps;", "single or promoted sums"], ORANGE)
    box(595, 530, 210, 66, "Accumulator", ["(lane, register): (row, position)"], GREEN)
    box(910, 530, 210, 66, "Epilogue", ["scale, bias, activation, round"], GREEN)
    box(910, 420, 210, 76, "Writer", ["from registers, in windows,", "in passes, or partial sums"], GREEN)

    for x in (385, 700):
        arrow([(x, 93), (x, 146)])
        arrow([(x, 224), (x, 294)])
        arrow([(x, 332), (x, 418)])
        # A slot goes back when the warpgroup's reads of it have retired.
        arrow([(x - 75, 420), (x - 75, 334)], GREY, dashed=True)
        text(x - 82, 404, "release", 12, GREY, anchor="end")
    arrow([(490, 458), (593, 458)])
    arrow([(700, 496), (700, 528)])
    arrow([(805, 563), (908, 563)])
    arrow([(1015, 530), (1015, 498)])
    arrow([(1015, 420), (1015, 348)])
    arrow([(1015, 280), (1015, 95)])
    arrow([(1120, 458), (1165, 458), (1165, 60), (1122, 60)])
    text(1160, 200, "straight", 12, anchor="end")


def main():
    draw()
    d.write(Path(__file__).with_suffix(".svg"))


if __name__ == "__main__":
    main()
