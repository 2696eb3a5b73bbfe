"""Options and fixtures. `pytest tests/python --device cuda` runs the same tests on a GPU."""

import sys
from pathlib import Path

import pytest
import torch

from tconv._pytorch import VERSION

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", choices=["cpu", "cuda"], help="where the operands live")


def pytest_configure(config):
    config.addinivalue_line("markers", "cpu_only: the test is about the CPU, or has no device")
    config.addinivalue_line("markers", "needs(version, what): PyTorch has it from that version on")


def pytest_collection_modifyitems(config, items):
    for item in items:
        for marker in item.iter_markers("needs"):
            version, what = marker.args
            if VERSION < version:
                item.add_marker(pytest.mark.skip(reason=f"{what}: PyTorch {'.'.join(map(str, version))} and later"))
    if config.getoption("--device") == "cpu":
        return
    # Deselected rather than skipped, so that a skip on a machine with a GPU always means something.
    kept = [item for item in items if item.get_closest_marker("cpu_only") is None]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.fixture(scope="session")
def device(request):
    name = request.config.getoption("--device")
    if name == "cuda":
        torch.ones(1, device="cuda")  # fails, rather than skips, where the GPU cannot be used
    return name


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
