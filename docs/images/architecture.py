#!/usr/bin/env python3
"""Draws docs/images/architecture.svg: the way of the data from a caller's tensors to y."""

from pathlib import Path

from drawing import BLUE, GREEN, GREY, ORANGE, Drawing

d = Drawing(1230, 860)


def row(y, height, boxes, color, x=210, gap=26, end=1200):
    """Boxes side by side; returns the middle of each."""
    width = (end - x - gap * (len(boxes) - 1)) / len(boxes)
    middles = []
    for i, (title, lines) in enumerate(boxes):
        left = x + i * (width + gap)
        d.box(left, y, width, height, title, lines, color)
        middles.append((left, left + width / 2, left + width))
    return middles


def chain(middles, y):
    for (_, _, right), (left, _, _) in zip(middles, middles[1:]):
        d.arrow([(right, y), (left - 2, y)])


def callers():
    d.band(10, 190, ["callers", "bindings, tools"], GREY)
    middles = row(26, 76, [
        ("PyTorch", ["python/tconv", "bindings/torch or ctypes"]),
        ("C++ program", ["tconv.hpp, a header", "over the C API"]),
        ("C and other languages", ["tconv.h, libtconv.so"]),
        ("command line", ["tools/tconv, linked", "with src/ directly"]),
    ], GREY)
    d.box(210, 132, 736, 54, "C API (src/capi)", ["checks every pointer by name; turns exceptions into status codes"], GREY)
    for _, middle, _ in middles[:3]:
        d.arrow([(middle, 102), (middle, 130)])
    program, problem = middles[3][1], middles[0][1] + 60
    d.arrow([(program, 102), (program, 208), (problem, 208), (problem, 238)])


def planning():
    d.band(218, 134, ["once for a problem", "src/core, src/plan", "microseconds; pure:", "nothing is measured", "or remembered"], BLUE)
    middles = row(240, 92, [
        ("Problem", ["operation, sizes, dtype;", "rules and overflow", "are checked here"]),
        ("polyphase form", ["which taps meet", "which outputs,", "at which shift of x"]),
        ("planner", ["asks the list in order:", "supports()? The first", "yes is taken"]),
        ("Plan", ["a kernel, configured:", "tiles, tasks, workspace,", "key of packed weights"]),
    ], BLUE)
    chain(middles, 286)
    d.arrow([(middles[0][1], 186), (middles[0][1], 238)])
    return middles[3][1]


def packing(plan):
    d.band(370, 112, ["once for a weight", "Kernel::pack"], GREEN)
    middles = row(388, 76, [
        ("raw weights", ["(cin, cout/groups, k)", "as PyTorch has them"]),
        ("pack", ["reorders into blocks as", "the kernel reads them"]),
        ("packed weights", ["the caller's buffer; plans", "with the same key share it"]),
    ], GREEN, end=1140)
    chain(middles, 426)
    d.arrow([(plan, 332), (plan, 360), (middles[1][1], 360), (middles[1][1], 386)])
    return middles[2][1]


def running(packed, plan):
    d.band(500, 340, ["every run", "Kernel::run", "no allocation,", "no shape checks", "inside kernels"], ORANGE)
    d.box(210, 518, 990, 54, "run", ["x, packed weights, bias, workspace, y: pointers of the caller's memory"], ORANGE)
    d.arrow([(packed, 464), (packed, 516)])
    d.arrow([(plan + 88, 332), (plan + 88, 516)])
    cpu = row(606, 92, [
        ("CPU: executor", ["cuts y into tasks for", "the library's threads", "or the caller's"]),
        ("stage x", ["rows or a panel in cache,", "widened, zeros", "outside x"]),
        ("microkernel", ["vectors of sums over", "(channel, tap); one SIMD", "target chosen at start"]),
        ("epilogue", ["bias, one rounding,", "residues interleaved"]),
        ("y", ["(n, cout, lout)"]),
    ], ORANGE)
    cuda = row(732, 92, [
        ("CUDA: launch", ["queues kernels on the", "caller's stream and", "returns"]),
        ("source", ["x into a ring of stages", "in shared memory,", "zeros outside x"]),
        ("product", ["fused multiply-adds,", "mma.sync or wgmma,", "over slabs and taps"]),
        ("epilogue", ["bias, one rounding,", "one NaN"]),
        ("writer", ["registers or shared", "memory to y; split sums", "are added in order"]),
    ], ORANGE)
    for middles, y in ((cpu, 652), (cuda, 778)):
        chain(middles, y)
    d.arrow([(cpu[0][1], 572), (cpu[0][1], 604)])
    d.arrow([(210, 545), (192, 545), (192, 778), (208, 778)])
    d.arrow([(cuda[4][1], 732), (cuda[4][1], 700)])


def main():
    callers()
    plan = planning()
    packed = packing(plan)
    running(packed, plan)
    d.write(Path(__file__).with_suffix(".svg"))


if __name__ == "__main__":
    main()
