"""vmap: one call for the whole batch. If only the input is batched, the batch goes into N, otherwise into the channels.

run(input, weight, bias, groups) is the call; in_dims belong to input, weight and bias. Each function returns the result
and the position of its batch dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

Run = Callable[..., Tensor]


def convolution(
    run: Run, size: int, in_dims: Any, input: Tensor, weight: Tensor, bias: Tensor | None, groups: int, transposed: bool
) -> tuple[Tensor, int]:
    x_dim, w_dim, b_dim = in_dims[:3]
    if w_dim is None and b_dim is None:
        return _into_n(run, size, x_dim, input, weight, bias, groups)
    w, b = _in_front(weight, w_dim, size), _in_front(bias, b_dim, size)
    each = w.shape[2] if transposed else w.shape[1] // groups  # outputs of a group
    if x_dim is not None:
        return _own_weights(run, size, x_dim, input, w, b, groups, groups * each)
    # The input is shared: the batch multiplies the outputs of each group, (groups, size, outputs).
    if transposed:
        w = w.movedim(0, 1).flatten(1, 2)
    else:
        w = w.unflatten(1, (groups, each)).transpose(0, 1).flatten(0, 2)
    return _shared_input(run, size, input, w, b, groups, each)


def to_groups(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """(n, size*channels, length): each example's channels are groups of their own."""
    return _to_batch(tensor, dim, size)[0].transpose(0, 1).flatten(1, 2)


def _into_n(
    run: Run, size: int, x_dim: int | None, input: Tensor, weight: Tensor, bias: Tensor | None, groups: int
) -> tuple[Tensor, int]:
    x, unbatched = _to_batch(input, x_dim, size)
    y = run(x.flatten(0, 1), weight, bias, groups).unflatten(0, (size, x.shape[1]))
    return (y.squeeze(1) if unbatched else y), 0


def _shared_input(
    run: Run, size: int, input: Tensor, weight: Tensor, bias: Tensor | None, groups: int, each: int
) -> tuple[Tensor, int]:
    if bias is not None:
        bias = bias.unflatten(1, (groups, each)).transpose(0, 1).flatten()
    y = run(input, weight, bias, groups)
    return y.unflatten(-2, (groups, size, each)).movedim(-3, 0).flatten(-3, -2), 0


def _own_weights(
    run: Run,
    size: int,
    x_dim: int | None,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    groups: int,
    channels: int,
) -> tuple[Tensor, int]:
    unbatched = input.dim() == 3
    x = to_groups(input, x_dim, size)
    y = run(x, weight.flatten(0, 1), None if bias is None else bias.flatten(), groups * size)
    y = y.unflatten(1, (size, channels)).transpose(0, 1)
    return (y.squeeze(1) if unbatched else y), 0


def _in_front(tensor: Any, dim: int | None, size: int) -> Any:
    if tensor is None:
        return None
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _to_batch(tensor: Tensor, dim: int | None, size: int) -> tuple[Tensor, bool]:
    """(size, n, channels, length), and whether the examples had no n."""
    tensor = _in_front(tensor, dim, size)
    unbatched = tensor.dim() == 3
    return (tensor.unsqueeze(1) if unbatched else tensor), unbatched
