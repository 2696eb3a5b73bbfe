"""What torch_cuda.py --draw makes of its times; no GPU."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

COMPARE = Path(__file__).parents[2] / "benchmarks" / "compare"
sys.path.insert(0, str(COMPARE))
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
        rows.append(
            {
                "operation": "strided",
                "mode": "tf32",
                "ratio": {"eager": each, "graph": each},
                "kernels": {"loss": loss, "best": "cuda.simt.dense"},
            }
        )
    found = drawn_cuda.summary(rows)["strided tf32"]
    assert found["layers"] == 3 and found["choice_within_10_percent"] == pytest.approx(2 / 3)
    assert found["graph raw"]["geomean"] == pytest.approx(0.97 ** (1 / 3))
    assert found["graph raw"]["least"] == 0.25
    assert found["graph raw"]["below_1"] == pytest.approx(2 / 3)
    assert found["graph raw"]["below_0.95"] == pytest.approx(1 / 3)


def test_kernels_are_those_of_the_list():
    names = drawn_cuda.tconv_ctypes.kernels()
    assert names[-1] == "reference" and len(set(names)) == len(names)


@pytest.mark.parametrize("end", [signal.SIGTERM, ValueError("an error"), None])
def test_a_run_that_is_stopped_keeps_its_rows(end, tmp_path, monkeypatch):
    """SIGTERM is what `timeout` sends; it arrives while a third row is measured."""
    path, count = tmp_path / "result.json", 0
    options = argparse.Namespace(draw=5, list=None, seed=1, skip=0, op=["transposed"], modes=["tf32"], seconds=60,
                                 json=path)

    def measure(layer, operation, mode, rates, options):
        nonlocal count
        count += 1
        if count == 3 and isinstance(end, signal.Signals):
            os.kill(os.getpid(), end)
            time.sleep(10)
        elif count == 3 and end is not None:
            raise end
        each = {"raw": 2.0, "packed": 2.0}
        return {"layer": layer.name, "operation": operation, "mode": mode, "ratio": {"eager": each, "graph": each}}

    monkeypatch.setattr(drawn_cuda, "measure", measure)
    monkeypatch.setattr(drawn_cuda, "printed", str)
    monkeypatch.setattr(drawn_cuda.timing, "machine", lambda: {"machine": "none"})
    before = signal.getsignal(signal.SIGTERM)
    if end is None:
        drawn_cuda.run(options, {})
    else:
        with pytest.raises(SystemExit if isinstance(end, signal.Signals) else ValueError):
            drawn_cuda.run(options, {})
    result = json.loads(path.read_text())
    assert len(result["rows"]) == (5 if end is None else 2)
    assert result["summary"]["transposed tf32"]["layers"] == len(result["rows"])
    assert signal.getsignal(signal.SIGTERM) is before and list(tmp_path.iterdir()) == [path]


def test_layers_of_a_file_take_the_place_of_drawn_ones(monkeypatch):
    options = argparse.Namespace(list=COMPARE / "decoder_layers.txt", draw=0, seed=1, skip=270, op=["strided"],
                                 modes=["tf32", "bf16"])
    found = drawn_cuda.problems(options)
    assert len(found) == 2 * (276 - 270) and {operation for _, operation, _ in found} == {"strided"}
    monkeypatch.setattr(drawn_cuda.timing, "machine", lambda: {"machine": "none"})
    result = drawn_cuda.result_of(options, {}, [])
    assert (result["benchmark"], result["list"]) == ("listed_cuda", "decoder_layers.txt")


def test_rows_reach_the_file_before_a_kill(tmp_path, monkeypatch):
    monkeypatch.setattr(drawn_cuda.timing.Kept, "SECONDS", 0)
    rows, path = [], tmp_path / "result.json"
    with drawn_cuda.timing.Kept(path, lambda: {"seed": 1, "rows": rows}) as kept:
        rows.append(1)
        kept.row()
        assert json.loads(path.read_text()) == {"seed": 1, "rows": [1]}
