"""tconv.ConvTranspose1d and tconv.Conv1d."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from tconv._functional import conv1d, conv_transpose1d


def _only(value: Any) -> Any:
    """The attributes are tuples of one, unless someone has set them since."""
    return value[0] if type(value) is tuple and len(value) == 1 else value


class _Layer(nn.Module):
    """What both kinds have beside PyTorch's layer."""

    _tconv_packed = None  # tconv.prepack sets it on the instance

    def _apply(self, fn, *rest):  # type: ignore[no-untyped-def]  # PyTorch 2.1 and later pass `recurse`
        # .to(), .half(), .cuda(), ...: packed weights belong to the old ones.
        packed = self._tconv_packed
        if packed is not None:
            packed.drop()
        return super()._apply(fn, *rest)

    def _tconv_parameters(self) -> tuple[Any, Any]:
        # nn.Module finds parameters last of all, in Python: asking for them directly saves a microsecond.
        parameters = self._parameters
        return (
            parameters["weight"] if "weight" in parameters else self.weight,
            parameters["bias"] if "bias" in parameters else self.bias,
        )


class ConvTranspose1d(_Layer, nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d on tconv: the same constructor, parameters, state_dict and repr."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        if self.padding_mode != "zeros":
            raise ValueError(
                f"ConvTranspose1d: padding_mode is {self.padding_mode!r}: only 'zeros' is supported"
            )
        output_padding = self.output_padding
        if output_size is not None:
            output_padding = self._output_padding(  # type: ignore[assignment]
                input, output_size, self.stride, self.padding, self.kernel_size, 1, self.dilation  # type: ignore[arg-type]
            )
        weight, bias = self._tconv_parameters()
        packed = self._tconv_packed
        call = conv_transpose1d if packed is None else packed.conv_transpose1d
        return call(
            input,
            weight,
            bias,
            _only(self.stride),
            _only(self.padding),
            _only(output_padding),
            self.groups,
            _only(self.dilation),
        )


class Conv1d(_Layer, nn.Conv1d):
    """torch.nn.Conv1d on tconv: the same constructor, parameters, state_dict and repr."""

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = self._tconv_parameters()
        return self._conv_forward(input, weight, bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0  # type: ignore[assignment]
        packed = self._tconv_packed
        call = conv1d if packed is None else packed.conv1d
        return call(
            input, weight, bias, _only(self.stride), _only(padding), _only(self.dilation), self.groups
        )
