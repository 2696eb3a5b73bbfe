"""The two ways from PyTorch to libtconv, and the choice between them.

    binding   libtconv_torch.so: operators in C++ on PyTorch's stable interface, which begins with 2.10.
    ctypes    the C API (tconv.h) called through ctypes, for every PyTorch from 2.0 on, or if the package has no
              binding. Python reads the tensors' addresses and shapes, PyTorch's allocator provides output and
              workspace, and the work goes to PyTorch's current stream.

Both implement the same interface, `Backend`, and define the same operators in torch.ops.tconv. Gradients, fake
kernels, autocast and vmap are registered on top of either (_operators.py, _registrations.py). Numbers and refusals
are the same.

They differ in two ways. The ctypes operators are Python code: a program without Python (AOTInductor, an exported
program in C++) cannot run them. And a call through the dispatcher costs more with them, so calls that the
dispatcher would pass straight to the kernel bypass it (ctypes_backend.py). CPU kernels run on PyTorch's threads
with either backend (openmp.py), or on tconv's own threads if ctypes cannot reach PyTorch's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from tconv._backends.capi import Library
from tconv._pytorch import VERSION

OLDEST_FOR_BINDING = (2, 10)  # the first whose stable interface has all that the binding calls
_WORDS = ("binding", "ctypes")


class Backend(Protocol):
    """What a backend provides. `mode` is the float32 mode: 0 ieee, 1 tf32, 2 as PyTorch is set when it runs.

    The calls take plain tensors on the current device and record no gradient."""

    name: str
    library: Library
    operators: torch.library.Library  # what is registered beside the kernels goes through it, and lives with it

    def forward(
        self, input: Tensor, weight: Tensor, bias: Tensor | None,
        stride: int, padding: int, output_padding: int, groups: int, dilation: int, mode: int, /,
    ) -> Tensor: ...  # fmt: skip

    def pack(
        self, input: Tensor, weight: Tensor, bias: Tensor | None,
        stride: int, padding: int, output_padding: int, groups: int, dilation: int, mode: int, /,
    ) -> tuple[Tensor, int]:
        """Weights in the layout that the plan reads, and that layout's id."""

    def forward_packed(
        self, input: Tensor, weight: Tensor, bias: Tensor | None,
        stride: int, padding: int, output_padding: int, groups: int, dilation: int, mode: int,
        packed: Tensor, packed_id: int, /,
    ) -> tuple[Tensor, int]:
        """forward with packed weights. If the plan reads another layout than packed_id, nothing is computed: the
        result is an empty tensor and the id that is needed."""

    def strided(
        self, input: Tensor, weight: Tensor, bias: Tensor | None,
        length: int | None, stride: int, padding: int, groups: int, dilation: int, mode: int, /,
    ) -> Tensor:  # fmt: skip
        """The strided product: conv_transpose1d's input gradient, which has this length, or conv1d, if there is no
        length. weight has the layout of either, (Cout of conv1d, Cin/groups, K)."""

    def strided_pack(
        self, input: Tensor, weight: Tensor, bias: Tensor | None,
        length: int | None, stride: int, padding: int, groups: int, dilation: int, mode: int, /,
    ) -> tuple[Tensor, int]: ...  # fmt: skip

    def strided_packed(
        self, input: Tensor, weight: Tensor, bias: Tensor | None,
        length: int | None, stride: int, padding: int, groups: int, dilation: int, mode: int,
        packed: Tensor, packed_id: int, /,
    ) -> tuple[Tensor, int]: ...  # fmt: skip

    def weight(
        self, input: Tensor, grad: Tensor,
        kernel_size: int, stride: int, padding: int, groups: int, dilation: int, mode: int, /,
    ) -> Tensor:  # fmt: skip
        """The weight product of a conv_transpose1d's input and of the gradient of its output."""

    def bias(self, grad: Tensor, /) -> Tensor:
        """The sum over batch and length."""

    def weight_bias(
        self, input: Tensor, grad: Tensor,
        kernel_size: int, stride: int, padding: int, groups: int, dilation: int, mode: int, bias_of_input: bool, /,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """weight and bias in one call. The bias sums grad, or input (bias_of_input) where that is
        the gradient of a conv1d's output."""

    def explain(self, problem: str, device: str, threads: int, /) -> str: ...

    def build_info(self) -> str: ...

    def cache_use(self) -> tuple[int, int, int]:
        """Plans that are kept, the bytes that they hold, their packed layouts."""


def library_folder() -> Path:
    """In the wheel beside this package; TCONV_LIBRARY_DIR names another folder, such as a build's."""
    folder = os.environ.get("TCONV_LIBRARY_DIR")
    if folder:
        return Path(folder)
    # An editable install has the sources in one folder of the package and what was built in another.
    folders = [Path(path) / "lib" for path in sys.modules["tconv"].__path__]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def load() -> tuple[Backend, str]:
    """The backend for this PyTorch, and in a few words why this one. TCONV_BACKEND asks for one by name."""
    name, why = _choice()
    if name == "binding":
        from tconv._backends.binding import Binding

        return Binding(), why
    from tconv._backends.ctypes_backend import Ctypes

    return Ctypes(), why


def _choice() -> tuple[str, str]:
    asked = os.environ.get("TCONV_BACKEND")
    if asked:
        if asked not in _WORDS:
            raise ImportError(f"tconv: TCONV_BACKEND is {asked!r}: it must be 'binding' or 'ctypes'")
        if asked == "binding" and VERSION < OLDEST_FOR_BINDING:
            raise ImportError("tconv: TCONV_BACKEND is 'binding', which needs PyTorch 2.10 or later")
        return asked, "as TCONV_BACKEND asks"
    if VERSION < OLDEST_FOR_BINDING:
        return "ctypes", "PyTorch is older than 2.10"
    if not (library_folder() / "libtconv_torch.so").is_file():
        return "ctypes", "this build has no libtconv_torch.so"
    return "binding", "PyTorch is 2.10 or later"
