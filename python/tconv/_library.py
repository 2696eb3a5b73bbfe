"""Finds PyTorch, and loads the backend for it."""

from __future__ import annotations

import re

__version__ = "0.1.0"

_OLDEST_TORCH = (2, 0)


def _import_torch() -> None:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"tconv needs PyTorch 2.0 or later, and it cannot be imported ({error}): pip install torch"
        ) from None
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found is not None and (int(found[1]), int(found[2])) < _OLDEST_TORCH:
        raise ImportError(
            f"tconv needs PyTorch 2.0 or later, and found {torch.__version__}: pip install --upgrade torch"
        )


_import_torch()

from tconv import _backends  # noqa: E402  (it imports PyTorch)

backend, _why = _backends.load()


def build_info() -> str:
    """One line: version, CUDA or not, SIMD in use, PyTorch, and the backend with why it was chosen."""
    import torch

    return f"{backend.build_info()}, PyTorch {torch.__version__}, backend {backend.name} ({_why})"
