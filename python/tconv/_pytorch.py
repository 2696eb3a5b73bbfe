"""The differences between the versions of PyTorch, from 2.0 on, each under one name.

A name here says what is wanted, and the version decides how it is done. Other modules neither check versions nor probe
for attributes. docs/generated/compatibility.md says what each version can do.
"""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _python_dispatch

_found = re.match(r"(\d+)\.(\d+)", torch.__version__)
VERSION = (int(_found[1]), int(_found[2])) if _found else (0, 0)

# --- state of the calling thread --------------------------------------------------------------------------

is_grad_enabled = torch.is_grad_enabled
transforms_active: Callable[[], bool] = torch._C._are_functorch_transforms_active
autocast_enabled: Callable[[], bool] = torch._C._is_any_autocast_enabled

if VERSION >= (2, 1):
    from torch.compiler import is_compiling as is_compiling  # Dynamo knows it as true
else:
    from torch._dynamo.external_utils import is_compiling as is_compiling

_dispatch_modes = torch._C._len_torch_dispatch_stack
_jit_tracing = torch._C._is_tracing

if VERSION >= (2, 1):  # modes of a stack of their own
    _key_included = torch._C._dispatch_tls_is_dispatch_key_included
    _pre_dispatch = torch._C.DispatchKey.PreDispatch
if VERSION >= (2, 6):

    def _traced_before_dispatch() -> bool:
        # The flag is the whole process's, but costs nothing to ask.
        return _python_dispatch._is_in_torch_dispatch_mode and _key_included(_pre_dispatch)

else:

    def _traced_before_dispatch() -> bool:
        return VERSION >= (2, 1) and _key_included(_pre_dispatch)


def traced() -> bool:
    """Whether something records or replaces the operators of this call: torch.jit.trace, make_fx, fake tensors.
    It then sees one operator, without anything that belongs only to this moment."""
    return _dispatch_modes() > 0 or _jit_tracing() or _traced_before_dispatch()


_needs_dynamo = VERSION < (2, 6)


def prepare_transform() -> None:
    """Call before an autograd.Function under torch.func. At the first one PyTorch imports torch._dynamo, and version
    2.3 creates random tensors during that import. The transform refuses them, permanently, because the half-imported
    module stays. So the import runs in a separate thread, which is in no transform."""
    global _needs_dynamo
    if not _needs_dynamo:
        return
    if "torch._dynamo" not in sys.modules:
        thread = threading.Thread(target=importlib.import_module, args=("torch._dynamo",))
        thread.start()
        thread.join()
    _needs_dynamo = False


def autocast_enabled_for(device: str) -> bool:
    """Whether autocast is on for "cpu" or "cuda"."""
    if VERSION >= (2, 4):
        return torch.is_autocast_enabled(device)
    return torch.is_autocast_enabled() if device == "cuda" else torch.is_autocast_cpu_enabled()


def autocast_dtype(device: str) -> torch.dtype:
    if VERSION >= (2, 4):
        return torch.get_autocast_dtype(device)
    return torch.get_autocast_gpu_dtype() if device == "cuda" else torch.get_autocast_cpu_dtype()


class _ExcludedKeys:
    """Inside it the dispatcher passes over the autocast kernels."""

    _keys = (torch._C.DispatchKey.AutocastCPU, torch._C.DispatchKey.AutocastCUDA)

    def __enter__(self) -> None:
        self._before = [torch._C._dispatch_tls_is_dispatch_key_excluded(key) for key in self._keys]
        for key in self._keys:
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, True)

    def __exit__(self, *_: Any) -> None:
        for key, excluded in zip(self._keys, self._before, strict=True):
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, excluded)


def without_autocast() -> Any:
    if VERSION < (2, 1):
        return _ExcludedKeys()
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    return torch._C._ExcludeDispatchKeyGuard(keys | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA))


# --- float32 mode -----------------------------------------------------------------------------------------

if VERSION >= (2, 9):

    def convolution_precision() -> str:
        """ "tf32" or "ieee", of convolutions on a GPU: the getter resolves the operator's value, cudnn's and the
        global one, in that order; 'none' is ieee."""
        return "tf32" if torch.backends.cudnn.conv.fp32_precision == "tf32" else "ieee"  # type: ignore[attr-defined]

else:

    def convolution_precision() -> str:
        """ "tf32" or "ieee", of convolutions on a GPU."""
        return "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"


# --- checks and errors ------------------------------------------------------------------------------------

if VERSION >= (2, 1):
    check = torch._check  # takes conditions on symbolic sizes
else:

    def check(condition: Any, message: Callable[[], str]) -> None:  # type: ignore[misc]
        if not condition:
            raise RuntimeError(message())


OutOfMemoryError: type[Exception] = torch.OutOfMemoryError if VERSION >= (2, 5) else torch.cuda.OutOfMemoryError

# --- what an operator brings beside its kernels -----------------------------------------------------------


def register_fake(library: torch.library.Library, name: str, function: Callable[..., Any]) -> None:
    """The shape of the result, for meta tensors, for tracing and for compiling."""
    if VERSION >= (2, 4):
        torch.library.register_fake(f"tconv::{name}", function, lib=library)
    elif VERSION >= (2, 1):
        torch.library.impl_abstract(f"tconv::{name}", function, lib=library)
    else:
        library.impl(name, function, "Meta")


class _BelowAutograd:
    """torch._C._AutoDispatchBelowAutograd, which before 2.1 is a guard that cannot be used in a `with`."""

    def __enter__(self) -> None:
        self._guard: Any = torch._C._AutoDispatchBelowAutograd()
        if VERSION >= (2, 1):
            self._guard.__enter__()

    def __exit__(self, *error: Any) -> None:
        if VERSION >= (2, 1):
            self._guard.__exit__(*error)
        del self._guard


def register_autograd(
    library: torch.library.Library, name: str, backward: Callable[..., Any], setup_context: Callable[..., None]
) -> None:
    if VERSION >= (2, 4):
        torch.library.register_autograd(f"tconv::{name}", backward, setup_context=setup_context, lib=library)
        return
    op = getattr(torch.ops.tconv, name).default

    class Gradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *call: Any) -> Tensor:  # type: ignore[override]
            with _BelowAutograd():
                output: Tensor = op(*call)
            setup_context(ctx, call, output)
            return output

    Gradient.backward = staticmethod(backward)  # type: ignore[assignment]

    def kernel(*call: Any) -> Tensor:
        if torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in call):
            return Gradient.apply(*call)  # type: ignore[no-any-return]
        with _BelowAutograd():
            return op(*call)  # type: ignore[no-any-return]

    library.impl(name, kernel, "Autograd")


def register_no_autograd(library: torch.library.Library, name: str) -> None:
    """The operator is only called if no gradient is needed, so PyTorch's warning kernel for operators without a
    gradient would only cost time. Before 2.1 there is no such kernel."""
    if VERSION >= (2, 1):
        library.impl(name, torch.library.fallthrough_kernel, "Autograd")


def register_vmap(library: torch.library.Library, name: str, function: Callable[..., Any]) -> None:
    """Before 2.5 torch.vmap takes tconv.conv_transpose1d, but not the operator itself."""
    if VERSION >= (2, 5):
        torch.library.register_vmap(f"tconv::{name}", function, lib=library)
