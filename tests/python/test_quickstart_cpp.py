"""docs/quickstart-cpp.md, end to end: a layer's weights from PyTorch to a C++ program."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("TCONV_LIBRARY_DIR", "")) / "libtconv.so"
COMPILER = shutil.which(os.environ.get("CXX", "c++"))


@pytest.mark.skipif(not LIBRARY.is_file() or COMPILER is None, reason="no built libtconv.so or no C++ compiler here")
def test_a_layer_of_pytorch_runs_in_a_cpp_program(tmp_path):
    library = LIBRARY.resolve().parent
    program = tmp_path / "run_layer"
    subprocess.run([sys.executable, ROOT / "examples/export_layer.py", tmp_path], check=True)
    subprocess.run([COMPILER, "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}",
                    ROOT / "examples/run_layer.cpp", "-o", program, f"-L{library}", f"-Wl,-rpath,{library}", "-ltconv"],
                   check=True)
    result = subprocess.run([program, tmp_path], capture_output=True, text=True)
    assert result.returncode == 0, result
    assert result.stdout.startswith("25600 outputs by cpu."), result

    # The comparison notices a wrong weight.
    weight = bytearray((tmp_path / "weight.bin").read_bytes())
    weight[3] ^= 0x40
    (tmp_path / "weight.bin").write_bytes(weight)
    assert subprocess.run([program, tmp_path], capture_output=True).returncode == 1
