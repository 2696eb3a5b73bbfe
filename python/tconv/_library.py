"""Finds PyTorch and the binding, and loads the binding into it."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

__version__ = "0.1.0"

_OLDEST_TORCH = (2, 10)  # the first whose stable interface has all that the binding calls


def _import_torch() -> None:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"tconv needs PyTorch 2.10 or later, and it cannot be imported ({error}): pip install torch"
        ) from None
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found is not None and (int(found[1]), int(found[2])) < _OLDEST_TORCH:
        raise ImportError(
            f"tconv needs PyTorch 2.10 or later, and finds {torch.__version__}: pip install --upgrade torch"
        )


def _binding_path() -> Path:
    """In the wheel beside this file; TCONV_LIBRARY_DIR names another folder, such as a build's."""
    folder = os.environ.get("TCONV_LIBRARY_DIR")
    path = (Path(folder) if folder else Path(__file__).parent / "lib") / "libtconv_torch.so"
    if not path.is_file():
        raise ImportError(
            f"tconv: {path} is missing: install the wheel (pip install .), or set TCONV_LIBRARY_DIR to the "
            "folder of libtconv_torch.so"
        )
    return path


def _load() -> ctypes.CDLL:
    _import_torch()
    import torch

    path = _binding_path()
    try:
        torch.ops.load_library(path)
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"tconv: {path} does not load into PyTorch {torch.__version__}: {error}") from None


binding = _load()


def build_info() -> str:
    """One line: version, CUDA or not, SIMD in use, PyTorch."""
    import torch

    return f"{torch.ops.tconv.build_info.default()}, PyTorch {torch.__version__}"
