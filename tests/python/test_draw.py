"""Drawn layers: the seed alone decides, and each is one that PyTorch takes."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "compare"))
draw = pytest.importorskip("draw", reason="the benchmarks are not here")
problem_floor = pytest.importorskip("problem_floor", reason="the benchmarks are not here")

pytestmark = pytest.mark.cpu_only


@pytest.mark.parametrize("machine", draw.MACHINES)
def test_the_seed_decides(machine):
    assert draw.draw(40, 3, machine) == draw.draw(60, 3, machine)[:40]
    assert draw.draw(40, 3, machine) != draw.draw(40, 4, machine)


@pytest.mark.parametrize("machine", draw.MACHINES)
def test_layers_are_valid_and_within_the_span(machine):
    rates = draw.MACHINES[machine]
    layers = draw.draw(300, 5, machine)
    assert {layer.name for layer in layers} == {kind.__name__ for kind, _ in draw.KINDS}
    for layer in layers:
        assert 1 <= layer.cin <= 2050 and 1 <= layer.cout <= 2048 and 1 <= layer.l <= 300000
        assert layer.cin % layer.groups == 0 and layer.cout % layer.groups == 0
        assert layer.output_padding < max(layer.stride, layer.dilation)
        assert rates.least <= draw.work(layer, rates) <= rates.most
        text = draw.problem_text(layer)
        assert problem_floor.products(problem_floor.parse(text)) == problem_floor.products(draw.WithOutput(layer))


def test_words_of_the_operations():
    layer = draw.draw(1, 1)[0]
    assert draw.problem_text(layer, "strided").startswith("strided n")
    assert "bias" not in draw.problem_text(layer, "weight")


def test_a_file_of_layers(tmp_path):
    path = tmp_path / "layers.txt"
    line = "strided n1 ci8 co6 l40 k4 s2 p1 bias f32"
    path.write_text(f"# whose they are\n\n{line}  # one model\nn2 ci8 co6 l9 k3 s1 p1 f32\n")
    first, second = draw.listed(path)
    assert (first.name, draw.problem_text(first, "strided")) == ("one model", line)
    assert (second.name, second.n, second.bias) == ("", 2, False)
