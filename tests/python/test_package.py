"""Import, version, documentation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tconv
from tconv._backends import OLDEST_FOR_BINDING, library_folder
from tconv._pytorch import VERSION

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.cpu_only


def run(code, folder=None, **environment):
    path = os.pathsep.join(str(p) for p in (folder, Path(tconv.__file__).parents[1]) if p)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )  # fmt: skip


def last_line(ran):
    assert ran.returncode == 1
    return ran.stderr.strip().splitlines()[-1]


def test_version_is_the_same_everywhere():
    version = tconv.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert f'\nversion = "{version}"' in (ROOT / "pyproject.toml").read_text()
    assert f"project(tconv VERSION {version} " in (ROOT / "CMakeLists.txt").read_text()
    assert tconv.build_info().startswith(f"tconv {version}, ") and "PyTorch" in tconv.build_info()


def test_missing_pytorch_is_one_line():
    line = last_line(run("import sys; sys.modules['torch'] = None; import tconv"))
    assert line.startswith("ImportError: tconv needs PyTorch 2.0 or later, and it cannot be imported")


def test_old_pytorch_is_one_line(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '1.13.1+cpu'")
    line = last_line(run("import tconv", tmp_path))
    assert line == (
        "ImportError: tconv needs PyTorch 2.0 or later, and found 1.13.1+cpu: pip install --upgrade torch"
    )


def test_missing_and_foreign_libraries(tmp_path):
    folder = str(tmp_path)
    line = last_line(run("import tconv", TCONV_LIBRARY_DIR=folder))
    assert line.startswith(f"ImportError: tconv: there is no libtconv.so in {folder}") and "TCONV_LIBRARY_DIR" in line
    (tmp_path / "libtconv.so").write_bytes(b"not a library")
    assert "libtconv.so does not load" in last_line(run("import tconv", TCONV_LIBRARY_DIR=folder))
    if VERSION >= OLDEST_FOR_BINDING:
        (tmp_path / "libtconv_torch.so").write_bytes(b"not a library")
        line = last_line(run("import tconv", TCONV_LIBRARY_DIR=folder, TCONV_BACKEND=""))
        assert "libtconv_torch.so does not load into PyTorch" in line


def test_the_backend_is_chosen_once_and_said():
    ran = run("import tconv; print(tconv.build_info())", TCONV_BACKEND="ctypes")
    assert ran.returncode == 0 and ran.stdout.strip().endswith("backend ctypes (as TCONV_BACKEND asks)")
    assert "must be 'binding' or 'ctypes'" in last_line(run("import tconv", TCONV_BACKEND="zebra"))
    ran = run("import tconv; print(tconv.build_info())", TCONV_BACKEND="")
    if VERSION < OLDEST_FOR_BINDING:
        assert ran.stdout.strip().endswith("backend ctypes (PyTorch is older than 2.10)")
        assert "needs PyTorch 2.10" in last_line(run("import tconv", TCONV_BACKEND="binding"))
    elif (library_folder() / "libtconv_torch.so").is_file():
        assert ran.stdout.strip().endswith("backend binding (PyTorch is 2.10 or later)"), ran.stdout + ran.stderr
    else:
        assert ran.stdout.strip().endswith("backend ctypes (this build has no libtconv_torch.so)"), ran.stdout


def test_import_needs_no_gpu():
    ran = run("import tconv; print(tconv.precision('cpu'))", CUDA_VISIBLE_DEVICES="")
    assert ran.returncode == 0 and ran.stdout.strip() == "ieee"


def test_the_drop_in_example_runs_and_is_what_the_page_shows():
    example = ROOT / "examples" / "pytorch_drop_in.py"
    ran = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert example.read_text().strip() in (ROOT / "docs" / "pytorch.md").read_text()


def test_every_public_name_is_documented():
    page = (ROOT / "docs" / "reference-python.md").read_text()
    for name in tconv.__all__:
        assert f"tconv.{name}" in page and (name == "__version__" or getattr(tconv, name).__doc__), name
