"""tconv.ConvTranspose1d."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from tconv._functional import conv_transpose1d


def _only(value: Any) -> Any:
    """The attributes are tuples of one, unless someone has set them since."""
    return value[0] if type(value) is tuple and len(value) == 1 else value


class ConvTranspose1d(nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d on tconv: the same constructor, parameters, state_dict and repr."""

    _tconv_packed = None  # tconv.prepack sets it on the instance

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        if self.padding_mode != "zeros":
            raise ValueError(
                f"ConvTranspose1d: padding_mode is {self.padding_mode!r}: only 'zeros' is supported"
            )
        output_padding = self.output_padding
        if output_size is not None:
            output_padding = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, 1, self.dilation
            )
        # nn.Module finds parameters last of all, in Python: asking for them directly saves a microsecond.
        parameters = self._parameters
        weight = parameters["weight"] if "weight" in parameters else self.weight
        bias = parameters["bias"] if "bias" in parameters else self.bias
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

    def _apply(self, fn, *rest):  # type: ignore[no-untyped-def]  # PyTorch 2.1 and later pass `recurse`
        # .to(), .half(), .cuda(), ...: packed weights belong to the old ones.
        packed = self._tconv_packed
        if packed is not None:
            packed.drop()
        return super()._apply(fn, *rest)
