"""tconv.patch and tconv.unpatch: swap the class of a model's layers in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.nn.utils import parametrize

from tconv._module import Conv1d, ConvTranspose1d

# A class of PyTorch's, or a subclass of one -> the class that its patched instances have.
_patched_classes: dict[type, type] = {nn.ConvTranspose1d: ConvTranspose1d, nn.Conv1d: Conv1d}
_KINDS: tuple[type[nn.Module], ...] = (nn.ConvTranspose1d, nn.Conv1d)
Kinds = type[nn.Module] | Iterable[type[nn.Module]]


class Layers(int):
    """How many layers, and how many of each kind."""

    conv_transpose1d: int
    conv1d: int

    def __new__(cls, conv_transpose1d: int, conv1d: int) -> Layers:
        self = super().__new__(cls, conv_transpose1d + conv1d)
        self.conv_transpose1d, self.conv1d = conv_transpose1d, conv1d
        return self

    def __repr__(self) -> str:
        return f"{int(self)} layers: {self.conv_transpose1d} ConvTranspose1d, {self.conv1d} Conv1d"

    __str__ = __repr__

    def __getnewargs__(self) -> tuple[int, int]:  # type: ignore[override]
        return self.conv_transpose1d, self.conv1d


def patch(model: nn.Module, layers: Kinds = _KINDS) -> Layers:
    """Makes every nn.ConvTranspose1d and nn.Conv1d in `model` run on tconv, in place; returns how many, and says how
    many of each kind (`.conv_transpose1d`, `.conv1d`).

    `layers` chooses: nn.ConvTranspose1d, nn.Conv1d, or both. Parameters, buffers, hooks, weight_norm and
    parametrizations stay as they are, and so does every other attribute. Layers that have a forward of their own
    are left alone, and a warning names them.
    """
    chosen = _chosen(layers)
    swapped: list[type] = []
    left = []
    for name, module in model.named_modules():
        kind = _kind_of(module)
        if kind not in chosen or isinstance(module, (ConvTranspose1d, Conv1d)):
            continue
        reason = _why_not(module, kind)
        if reason:
            left.append(f"{name or type(module).__name__} ({reason})")
            continue
        _swap(module, _patched_class)
        swapped.append(kind)
    if left:
        warnings.warn(f"tconv.patch left {len(left)} of the layers unchanged: {', '.join(left)}", stacklevel=2)
    return _counted(swapped)


def unpatch(model: nn.Module, layers: Kinds = _KINDS) -> Layers:
    """Makes every tconv.ConvTranspose1d and tconv.Conv1d in `model` a torch.nn one again; returns how
    many."""
    chosen = _chosen(layers)
    swapped: list[type] = []
    for module in model.modules():
        kind = _kind_of(module)
        if kind not in chosen or not isinstance(module, (ConvTranspose1d, Conv1d)):
            continue
        cls = type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module)
        if _original_class(cls) is None:
            continue
        module.__dict__.pop("_tconv_packed", None)
        _swap(module, _original_class)
        swapped.append(kind)
    return _counted(swapped)


def _chosen(layers: Kinds) -> tuple[type, ...]:
    chosen = (layers,) if isinstance(layers, type) else tuple(layers)
    for each in chosen:
        if each not in _KINDS:
            raise ValueError(f"tconv: layers holds {each!r}: it must be nn.ConvTranspose1d, nn.Conv1d, or both")
    return chosen


def _kind_of(module: nn.Module) -> Any:
    return next((kind for kind in _KINDS if isinstance(module, kind)), None)


def _counted(kinds: list[type]) -> Layers:
    return Layers(*(kinds.count(kind) for kind in _KINDS))


def _why_not(module: nn.Module, kind: Any) -> str:
    methods = ("forward",) if kind is nn.ConvTranspose1d else ("forward", "_conv_forward")
    for method in methods:
        if getattr(type(module), method) is not getattr(kind, method):
            return f"{type(module).__name__} has a {method} of its own"
        if method in module.__dict__:
            return f"its {method} was replaced on the instance"
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
        # `cls` has no forward of its own, so that of tconv's layer comes first in the order of lookup.
        ours = ConvTranspose1d if issubclass(cls, nn.ConvTranspose1d) else Conv1d
        _patched_classes[cls] = type(
            cls.__name__,
            (cls, ours),
            {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__reduce_ex__": _reduce_ex},
        )
    return _patched_classes[cls]


def _original_class(cls: type) -> type | None:
    """None: `cls` is no patched class, but a subclass of tconv's layers that its author wrote."""
    for original, patched in _patched_classes.items():
        if patched is cls:
            return original
    return None


def _reduce_ex(self: nn.Module, protocol: Any) -> tuple[Any, ...]:
    """Copies and pickles a patched subclass by its original: the patched class cannot be imported by name."""
    return _restore, (_original_class(type(self)),), self.__dict__


def _restore(cls: type) -> nn.Module:
    patched = _patched_class(cls)
    return patched.__new__(patched)  # type: ignore[call-overload]
