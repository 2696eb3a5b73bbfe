"""The problems that torch_cuda.py measures; standard library only."""

import hopper_table
import layers as layer_table

SETS = ["seed", "hopper", "memory", "layers"]
SEEDS = {"64": "n64 ci128 co128 l65536 k3 s1 p0 f32", "74": "n32 ci32 co64 l131072 k5 s1 p0 d3 f32",
         "79": "n16 ci32 co64 l131072 k3 s2 p1 d2 f32"}
# Bound by memory, and beyond L2: what the narrow and depthwise kernels are for.
MEMORY_BOUND = ["n64 ci256 co256 l16000 k4 s2 p1 g256 f32", "n64 ci256 co256 l16000 k4 s2 p1 g256 bf16",
                "n32 ci512 co512 l8001 k12 s2 p5 g512 f32", "n32 ci512 co512 l8001 k12 s2 p5 g512 f16",
                "n64 ci256 co256 l32001 k7 s1 p3 g256 f32", "n64 ci4 co4 l220000 k4 s4 p0 f32",
                "n16 ci64 co1 l160000 k8 s4 p0 bias f32", "n16 ci16 co8 l220416 k4 s2 p1 bias f32",
                "n16 ci64 co8 l55104 k8 s4 p0 bias f32", "n16 ci256 co256 l16000 k5 s1 p0 d3 g256 f32"]


def problems(options):
    """(name, text, precision) in the order asked for; the text without tf32."""
    if options.problem:
        found = [("free", *each) for text in options.problem for each in in_precisions(text)]
    else:
        found = seeded_problems(options.sets)
    if not options.problem and "memory" in options.sets:
        found += [("memory-bound", *each) for text in MEMORY_BOUND for each in in_precisions(text)]
    if not options.problem and "layers" in options.sets:
        found += [(layer.name, *each) for layer in layer_table.table(options.file)
                  for each in in_precisions(layer.text())]
    first = {}
    for name, text, precision in found:
        first.setdefault((text, precision), name)
    return [(name, text, precision) for (text, precision), name in first.items()
            if options.match in f"{name} {text}" and options.precision in (None, precision)]


def in_precisions(text):
    """(text without its precision, precision): both of float32 where the text names none."""
    if text.endswith((" tf32", " ieee")):
        return [(text[:-5], text[-4:])]
    return [(text, precision) for precision in (("ieee", "tf32") if text.endswith(" f32") else ("ieee",))]


def seeded_problems(sets):
    found = []
    if "seed" in sets:
        found += [(f"problem {name}", *each) for name, text in SEEDS.items() for each in in_precisions(text)]
    if "hopper" in sets:
        for name, text, *_ in hopper_table.targets():
            found.append((name, *in_precisions(text)[0]))
    return found
