"""tconv.prepack: weights kept in the layout that the kernels read, for inference."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from tconv import _rules, _shapes
from tconv._functional import _ambient_precision, conv1d, conv_transpose1d
from tconv._library import backend
from tconv._module import Conv1d, ConvTranspose1d
from tconv._patching import Layers
from tconv._pytorch import autocast_dtype, autocast_enabled_for, is_compiling, traced
from tconv._pytorch import autocast_enabled as _autocast_enabled
from tconv._pytorch import is_grad_enabled as _is_grad_enabled
from tconv._pytorch import transforms_active as _transforms_active

_MOST_BUFFERS = 16  # of one weight; the kernels that a layer meets, by length and dtype, read two or three layouts


class _Kind(NamedTuple):
    """What one kind of layer is packed and run with. Its calls are (input, weight, bias, *numbers)."""

    call: Callable[..., Tensor]  # with raw weights
    pack: Callable[..., tuple[Tensor, int]]
    run: Callable[..., tuple[Tensor, int]]  # with packed ones
    numbers: Callable[..., tuple[int, ...]]  # ints from what the caller gave
    product: Callable[..., tuple[int | None, ...]]  # the product's numbers from the call's
    refusal: Callable[..., Exception]


def _conv1d_product(
    stride: int, padding: int, dilation: int, groups: int
) -> tuple[int | None, ...]:
    return None, stride, padding, groups, dilation


_TRANSPOSED = _Kind(
    conv_transpose1d, backend.pack, backend.forward_packed, _rules.numbers,
    lambda *numbers: numbers, _shapes.refusal,
)  # fmt: skip
_CONV1D = _Kind(
    conv1d, backend.strided_pack, backend.strided_packed, _rules.conv1d_numbers, _conv1d_product,
    _shapes.conv1d_refusal,
)  # fmt: skip


def prepack(model: nn.Module) -> Layers:
    """Lets every tconv.ConvTranspose1d and tconv.Conv1d in `model` keep its packed weights between calls; returns how
    many.

    For inference: a call that needs a gradient, or that is traced or compiled, packs as before. A later
    change of the weights is seen where PyTorch's version counter shows it (in-place operations, optimiser
    steps, load_state_dict), and so are moving, casting and replacing them. A write through `.data` is not:
    call prepack again after one. Layers whose weight is recomputed at every call (weight_norm and other
    parametrizations) are left as they are, and a warning names them.
    """
    prepared: dict[type, int] = {ConvTranspose1d: 0, Conv1d: 0}
    left = []
    for name, module in model.named_modules():
        if not isinstance(module, (ConvTranspose1d, Conv1d)):
            continue
        weight = module._parameters.get("weight")
        if weight is None or weight.is_inference():
            left.append(name or type(module).__name__)
            continue
        module.__dict__["_tconv_packed"] = _PackedWeights()
        prepared[ConvTranspose1d if isinstance(module, ConvTranspose1d) else Conv1d] += 1
    if left:
        warnings.warn(
            f"tconv.prepack left {len(left)} layers unchanged, because their weight is not a parameter with a version: "
            f"{', '.join(left)}",
            stacklevel=2,
        )
    return Layers(prepared[ConvTranspose1d], prepared[Conv1d])


class _Packed:
    """What belongs to one state of one weight."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.alias = weight.detach()  # keeps the storage, so that its address cannot be another tensor's
        self.version = weight._version
        self.address = weight.data_ptr()
        self.dtype = weight.dtype
        self.casts: dict[torch.dtype, Tensor] = {weight.dtype: self.alias}  # under autocast, more than one
        # By dtype: the layout id that served the last call, and its buffer.
        self.last: dict[torch.dtype, tuple[Tensor, int]] = {}
        self.buffers: dict[tuple[torch.dtype, int], Tensor] = {}

    def keep(self, dtype: torch.dtype, layout: int, packed: Tensor) -> None:
        if len(self.buffers) >= _MOST_BUFFERS:  # some are of layouts whose plans are gone
            self.wait()
            self.buffers.clear()
            self.last.clear()
        self.buffers[dtype, layout] = packed

    def wait(self) -> None:
        """Before buffers are freed: a kernel on another stream may still read them."""
        if self.alias.is_cuda and not torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize(self.alias.device)

    def is_of(self, weight: Tensor) -> bool:
        return (
            weight is self.weight
            and weight._version == self.version
            and weight.data_ptr() == self.address
            and weight.dtype is self.dtype
        )


class _PackedWeights:
    """The packed weights of one layer. Copies and pickles start empty."""

    def __init__(self) -> None:
        self._state: _Packed | None = None

    def __deepcopy__(self, memo: Any) -> _PackedWeights:
        return _PackedWeights()

    def __copy__(self) -> _PackedWeights:
        return _PackedWeights()

    def __reduce__(self) -> tuple[Any, ...]:
        return _PackedWeights, ()

    def drop(self) -> None:
        state, self._state = self._state, None
        if state is not None:
            state.wait()

    def conv_transpose1d(self, input: Tensor, weight: Tensor, bias: Tensor | None, *numbers: Any) -> Tensor:
        return self._call(_TRANSPOSED, input, weight, bias, numbers)

    def conv1d(self, input: Tensor, weight: Tensor, bias: Tensor | None, *numbers: Any) -> Tensor:
        if isinstance(numbers[1], str):
            input, padding = _rules.padded_by_name(input, weight, numbers[1], numbers[0], numbers[2])
            numbers = (numbers[0], padding, *numbers[2:])
        return self._call(_CONV1D, input, weight, bias, numbers)

    def _call(
        self, kind: _Kind, input: Tensor, weight: Tensor, bias: Tensor | None, numbers: tuple[Any, ...]
    ) -> Tensor:
        if not _plain_inference(input, weight, bias):
            return kind.call(input, weight, bias, *numbers)
        for number in numbers:
            if type(number) is not int:
                numbers = kind.numbers(numbers)
                break
        state = self._state
        if state is None or not state.is_of(weight):
            self.drop()
            state = self._state = _Packed(weight)
        if _autocast_enabled() and autocast_enabled_for(weight.device.type):
            return _run_autocast(kind, state, input, bias, numbers)
        return _run(kind, state, state.alias, input, bias, numbers)


def _plain_inference(input: Any, weight: Any, bias: Any) -> bool:
    """A call on plain tensors that needs no gradient, outside of every trace and transform."""
    if is_compiling() or traced() or _transforms_active() or forward_ad._current_level >= 0:
        return False
    if type(input) is not Tensor or type(weight) is not nn.Parameter:
        return False
    if _is_grad_enabled() and (
        input.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    ):
        return False
    # A captured graph must see later changes of the weights, so it packs by itself.
    return not (weight.is_cuda and torch.cuda.is_current_stream_capturing())


def _run(
    kind: _Kind, state: _Packed, weight: Tensor, input: Tensor, bias: Tensor | None, numbers: tuple[Any, ...]
) -> Tensor:
    mode = _ambient_precision() if input.is_cuda and input.dtype is torch.float32 else 0
    dtype = state.dtype if weight is state.alias else weight.dtype
    packed, layout = state.last.get(dtype) or (weight, 0)
    try:
        product = kind.product(*numbers)
        output, needed = kind.run(input, weight, bias, *product, mode, packed, layout)
        if needed == layout:
            return output
        found = state.buffers.get((dtype, needed))
        if found is None:
            found, needed = kind.pack(input, weight, bias, *product, mode)
            if weight.is_cuda:  # later calls may come on other streams
                torch.cuda.current_stream(weight.device).synchronize()
            state.keep(dtype, needed, found)
        state.last[dtype] = (found, needed)
        output, layout = kind.run(input, weight, bias, *product, mode, found, needed)
        if layout == needed:
            return output
        return kind.call(input, weight, bias, *numbers)  # the plan was dropped and made again meanwhile
    except NotImplementedError:  # the dispatcher's, before anything ran: the plain call takes meta tensors too
        return kind.call(input, weight, bias, *numbers)
    except RuntimeError as error:  # again would need more memory, or hide a device's fault
        raise kind.refusal(error, input, weight, bias, *numbers) from None


def _run_autocast(
    kind: _Kind, state: _Packed, input: Tensor, bias: Tensor | None, numbers: tuple[Any, ...]
) -> Tensor:
    device = state.alias.device.type
    dtype = autocast_dtype(device)
    if torch.float64 in (input.dtype, state.dtype):
        return kind.call(input, state.weight, bias, *numbers)
    if dtype not in state.casts:
        state.casts[dtype] = state.alias.to(dtype)
    bias = None if bias is None else bias.to(dtype)
    with torch.autocast(device, enabled=False):
        return _run(kind, state, state.casts[dtype], input.to(dtype), bias, numbers)
