"""prepack, and explain."""

import copy
import pickle

import pytest
import torch
from torch import nn

import tconv
from support import close
from tconv._pytorch import VERSION

AUTOCAST_DTYPES = (torch.bfloat16, torch.float16) if VERSION >= (2, 3) else (torch.bfloat16,)  # on a CPU


# --- prepack ----------------------------------------------------------------------------------------------


def prepacked(device, **kwargs):
    layer = tconv.ConvTranspose1d(16, 8, 8, stride=4, padding=2, device=device, **kwargs)
    assert tconv.prepack(nn.Sequential(layer)) == 1
    return layer


def plain_call(layer, x):
    return tconv.conv_transpose1d(x, layer.weight, layer.bias, layer.stride, layer.padding)


def test_prepacked_weights_give_the_same_bits(device):
    layer = prepacked(device)
    with torch.no_grad():
        for length in (1, 3, 40, 3, 500, 2000, 40):
            for x in (torch.randn(2, 16, length, device=device), torch.randn(16, length, device=device)):
                assert torch.equal(layer(x), plain_call(layer, x))
    y = layer(torch.randn(1, 16, 9, device=device))
    assert y.requires_grad  # with gradients enabled it is the plain call
    y.sum().backward()
    assert "prepacked" in tconv.explain(layer, (1, 16, 100))


@torch.no_grad()
def test_prepacked_weights_follow_every_visible_change(device):
    layer = prepacked(device)
    x = torch.randn(2, 16, 50, device=device)
    changes = {
        "in place": lambda: layer.weight.mul_(2),
        "load_state_dict": lambda: layer.load_state_dict({k: v + 1 for k, v in layer.state_dict().items()}),
        "an optimiser's step": lambda: step(layer),
        "a new parameter": lambda: setattr(layer, "weight", nn.Parameter(torch.randn_like(layer.weight))),
        "other data": lambda: setattr(layer.weight, "data", torch.randn_like(layer.weight)),
        "to half and back": lambda: layer.half().float(),
        "to double": lambda: layer.double(),
        "back": lambda: layer.float(),
        "requires_grad_": lambda: layer.requires_grad_(False),
    }
    before = layer(x)
    for name, change in changes.items():
        change()
        y = layer(x.to(layer.weight.dtype))
        assert torch.equal(y, plain_call(layer, x.to(layer.weight.dtype))), name
        if name not in ("back", "to half and back", "to double", "requires_grad_"):
            assert not torch.equal(y, before), name
        before = y


def step(layer):
    with torch.enable_grad():
        layer.weight.grad = torch.ones_like(layer.weight)
        torch.optim.SGD(layer.parameters(), lr=0.1).step()


@torch.no_grad()
def test_prepacked_layers_copy_pickle_autocast_and_transform(device):
    layer = prepacked(device)
    x = torch.randn(2, 16, 50, device=device)
    expected = layer(x)
    assert list(layer.state_dict()) == ["weight", "bias"]
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x), expected)
        other.weight.zero_()
        assert not torch.equal(other(x), expected) and torch.equal(layer(x), expected)
    for dtype in AUTOCAST_DTYPES:
        with torch.autocast(device, dtype):
            y = layer(x)
            assert y.dtype == dtype and torch.equal(y, plain_call(layer, x))
    assert torch.equal(layer(x), expected)
    close(torch.vmap(layer)(x[:, None]).squeeze(1), expected)
    with torch.inference_mode():
        assert torch.equal(layer(x), expected)
    assert tconv.unpatch(layer) == 1 and "_tconv_packed" not in layer.__dict__
    close(layer(x), expected)


def test_prepacked_layers_refuse_as_before(device):
    layer = prepacked(device)
    with torch.no_grad():
        for bad, word in ((torch.randn(1, 3, 5), "channels"), (torch.randn(5), "input"), ([1], "input")):
            with pytest.raises((RuntimeError, TypeError), match=word):
                layer(bad.to(device) if isinstance(bad, torch.Tensor) else bad)


@pytest.mark.cpu_only
def test_prepacked_layer_in_many_threads():
    from concurrent.futures import ThreadPoolExecutor

    layer = prepacked("cpu").requires_grad_(False)
    inputs = [torch.randn(1, 16, length) for length in range(1, 60)]
    expected = [plain_call(layer, x) for x in inputs]

    def work(_):
        return all(torch.equal(layer(x), y) for x, y in zip(inputs, expected, strict=True))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


# --- explain ----------------------------------------------------------------------------------------------


def without_rates(text):
    """Without the floor, which is measured anew."""
    return [line for line in text.splitlines() if not line.startswith("floor")]


def test_explain(device):
    layer = tconv.ConvTranspose1d(4, 6, 8, stride=4, groups=2, device=device)
    x = torch.randn(2, 4, 30, device=device)
    text = tconv.explain(layer, x)
    assert "n2 ci4 co6 l30 k8 s4 p0 g2 bias f32" in text and "kernel" in text
    for same in (
        tconv.explain(layer, (2, 4, 30)),
        tconv.explain(x, layer.weight, layer.bias, 4, groups=2),
        tconv.explain(tconv.conv_transpose1d, x, layer.weight, layer.bias, 4, groups=2),
    ):
        assert without_rates(same) == without_rates(text)
    assert "xs" in tconv.explain(layer, x[..., 1:-1])
    assert all(f"gradient   of {name}: " in text for name in ("input", "weight", "bias"))
    assert "gradient   of weight: cpu." in tconv.explain(layer.bfloat16(), (2, 4, 30), device="cpu")
    with pytest.raises(RuntimeError, match="channels"):
        tconv.explain(layer, (2, 3, 30))
    with pytest.raises(ValueError, match="meta"):
        tconv.explain(torch.empty(1, 2, 3, device="meta"), torch.empty(2, 2, 3, device="meta"))
