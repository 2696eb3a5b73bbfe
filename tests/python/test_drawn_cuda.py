"""What torch_cuda.py --draw makes of its times; no GPU."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "compare"))
pytest.importorskip("draw", reason="the benchmarks are not here")
try:
    import drawn_cuda
except (SystemExit, OSError) as error:  # no built library
    pytest.skip(f"drawn_cuda: {error}", allow_module_level=True)

pytestmark = pytest.mark.cpu_only


def times(tconv, packed, torch, search):
    values = {"tconv": tconv, "tconv_packed": packed, "torch": torch, "torch_search": search}
    return {name: {"median_ms": value} for name, value in values.items()}


def test_a_ratio_is_to_the_faster_mode():
    assert drawn_cuda.ratios(times(2.0, 1.0, 4.0, 3.0)) == {"raw": 1.5, "packed": 3.0}
    without_search = times(2.0, 1.0, 4.0, 3.0)
    del without_search["torch_search"]
    assert drawn_cuda.ratios(without_search) == {"raw": 2.0, "packed": 4.0}


def test_summary_counts_layers_behind():
    rows = []
    for ratio, loss in ((4.0, 1.0), (0.25, 1.5), (0.97, 1.05)):
        each = {"raw": ratio, "packed": 2 * ratio}
        rows.append({"operation": "strided", "mode": "tf32", "ratio": {"eager": each, "graph": each},
                     "kernels": {"loss": loss, "best": "cuda.simt.dense"}})
    found = drawn_cuda.summary(rows)["strided tf32"]
    assert found["layers"] == 3 and found["choice_within_10_percent"] == pytest.approx(2 / 3)
    assert found["graph raw"]["geomean"] == pytest.approx(0.97 ** (1 / 3))
    assert found["graph raw"]["least"] == 0.25
    assert found["graph raw"]["below_1"] == pytest.approx(2 / 3)
    assert found["graph raw"]["below_0.95"] == pytest.approx(1 / 3)


def test_kernels_are_those_of_the_list():
    names = drawn_cuda.tconv_ctypes.kernels()
    assert names[-1] == "reference" and len(set(names)) == len(names)
