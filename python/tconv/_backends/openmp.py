"""PyTorch's own threads for the ctypes backend: bindings/ctypes/executor.cpp on PyTorch's OpenMP."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p
from pathlib import Path

import torch


def parallel_for(folder: Path) -> int | None:
    """Address of a tconv_parallel_for whose context is the number of threads. None if PyTorch's threads are not
    OpenMP's, or the package has no libtconv_openmp.so."""
    path = folder / "libtconv_openmp.so"
    if not path.is_file() or "parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return None
    try:
        executor = ctypes.CDLL(str(path))
        parallel = ctypes.CDLL("libtorch_cpu.so").GOMP_parallel  # of the runtime that PyTorch is linked with
    except (OSError, AttributeError):
        return None
    executor.tconv_openmp_use(ctypes.cast(parallel, c_void_p))
    return ctypes.cast(executor.tconv_openmp_for, c_void_p).value
