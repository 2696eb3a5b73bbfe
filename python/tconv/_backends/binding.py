"""The C++ operators of bindings/torch, on PyTorch's stable interface."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from tconv._backends import library_folder
from tconv._backends.capi import Library, declared
from tconv._pytorch import convolution_precision

_query_type = ctypes.CFUNCTYPE(ctypes.c_int)


class Binding:
    name = "binding"

    def __init__(self) -> None:
        path = library_folder() / "libtconv_torch.so"
        try:
            torch.ops.load_library(path)
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise ImportError(f"tconv: {path} does not load into PyTorch {torch.__version__}: {error}") from None
        self.library = Library(declared(self._library))  # the libtconv.so that libtconv_torch.so has loaded
        self.operators = torch.library.Library("tconv", "FRAGMENT")
        ops = torch.ops.tconv
        self.forward: Callable[..., Any] = ops.forward.default
        self.pack: Callable[..., Any] = ops.pack.default
        self.forward_packed: Callable[..., Any] = ops.forward_packed.default
        self.strided: Callable[..., Any] = ops.strided.default
        self.strided_pack: Callable[..., Any] = ops.strided_pack.default
        self.strided_packed: Callable[..., Any] = ops.strided_packed.default
        self.weight: Callable[..., Any] = ops.weight.default
        self.bias: Callable[..., Any] = ops.bias.default
        self.weight_bias: Callable[..., Any] = ops.weight_bias.default
        self.explain: Callable[..., str] = ops.explain.default
        self.build_info: Callable[..., str] = ops.build_info.default
        self.cache_use: Callable[..., tuple[int, int, int]] = ops.cache_use.default
        # Compiled and exported graphs resolve the float32 mode when they run: the binding asks Python.
        self._query = _query_type(lambda: int(convolution_precision() == "tf32"))
        self._library.tconv_torch_set_precision_query(self._query)
