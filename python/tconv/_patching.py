"""tconv.patch and tconv.unpatch: swap the class of a model's layers in place."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn
from torch.nn.utils import parametrize

from tconv._module import ConvTranspose1d

# A subclass of nn.ConvTranspose1d -> the class that its patched instances have.
_patched_classes: dict[type, type] = {nn.ConvTranspose1d: ConvTranspose1d}


def patch(model: nn.Module) -> int:
    """Makes every nn.ConvTranspose1d in `model` run on tconv, in place; returns how many.

    Parameters, buffers, hooks, weight_norm and parametrizations stay as they are, and so does every other
    attribute. Layers that have a forward of their own are left alone, and a warning names them.
    """
    swapped, left = 0, []
    for name, module in model.named_modules():
        if not isinstance(module, nn.ConvTranspose1d) or isinstance(module, ConvTranspose1d):
            continue
        reason = _why_not(module)
        if reason:
            left.append(f"{name or type(module).__name__} ({reason})")
            continue
        _swap(module, _patched_class)
        swapped += 1
    if left:
        warnings.warn(f"tconv.patch left {len(left)} of the layers alone: {', '.join(left)}", stacklevel=2)
    return swapped


def unpatch(model: nn.Module) -> int:
    """Makes every tconv.ConvTranspose1d in `model` a torch.nn one again; returns how many."""
    swapped = 0
    for module in model.modules():
        if not isinstance(module, ConvTranspose1d):
            continue
        cls = type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module)
        if _original_class(cls) is None:
            continue
        module.__dict__.pop("_tconv_packed", None)
        _swap(module, _original_class)
        swapped += 1
    return swapped


def _why_not(module: nn.ConvTranspose1d) -> str:
    if type(module).forward is not nn.ConvTranspose1d.forward:
        return f"{type(module).__name__} has a forward of its own"
    if "forward" in module.__dict__:
        return "its forward was replaced on the instance"
    if isinstance(module, nn.modules.lazy.LazyModuleMixin):
        return "it is lazy: run the model once, then patch it"
    weight = module._parameters.get("weight")
    if weight is not None and (weight.is_complex() or not weight.is_floating_point()):
        return f"its weight is {weight.dtype}"
    return ""


def _swap(module: nn.Module, mapped: Any) -> None:
    cls = type(module)
    if not parametrize.is_parametrized(module):
        module.__class__ = mapped(cls)
        return
    # parametrize gave the instance a class of its own, with properties, above the layer's class; undoing a
    # parametrization returns to __bases__[0]. The same again, above the swapped class.
    members = {k: v for k, v in cls.__dict__.items() if k not in ("__dict__", "__weakref__", "__doc__")}
    module.__class__ = type(cls.__name__, (mapped(cls.__bases__[0]),), members)


def _patched_class(cls: type) -> type:
    if cls not in _patched_classes:
        # `cls` has no forward of its own, so that of ConvTranspose1d comes first in the order of lookup.
        _patched_classes[cls] = type(
            cls.__name__,
            (cls, ConvTranspose1d),
            {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__reduce_ex__": _reduce_ex},
        )
    return _patched_classes[cls]


def _original_class(cls: type) -> type | None:
    """None: `cls` is no patched class, but a subclass of tconv.ConvTranspose1d that its author wrote."""
    for original, patched in _patched_classes.items():
        if patched is cls:
            return original
    return None


def _reduce_ex(self: nn.Module, protocol: Any) -> tuple[Any, ...]:
    """Copies and pickles a patched subclass by its original: the patched class cannot be imported by name."""
    return _restore, (_original_class(type(self)),), self.__dict__


def _restore(cls: type) -> nn.Module:
    patched = _patched_class(cls)
    return patched.__new__(patched)
