"""ConvTranspose1d, patch, unpatch."""

import copy
import io
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

import tconv
from support import close
from tconv._pytorch import VERSION

ARGUMENTS = [
    dict(in_channels=4, out_channels=6, kernel_size=5),
    dict(in_channels=4, out_channels=6, kernel_size=(8,), stride=4, padding=(2,), groups=2, bias=False),
    dict(in_channels=2, out_channels=2, kernel_size=3, stride=2, output_padding=1, dilation=2),
]
AUTOCAST_DTYPES = (torch.bfloat16, torch.float16) if VERSION >= (2, 3) else (torch.bfloat16,)  # on a CPU
PATCHED = "tconv.patch left"


class Plain(nn.ConvTranspose1d):
    """A subclass without a forward of its own."""

    def __init__(self, *args, note="", **kwargs):
        super().__init__(*args, **kwargs)
        self.note = note


class Own(nn.ConvTranspose1d):
    def forward(self, input, output_size=None):
        return super().forward(input, output_size) * 2


class Written(tconv.ConvTranspose1d):
    """A subclass of ours that a user wrote."""


# --- the layer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_same_as_the_layer_it_replaces(arguments, device):
    torch.manual_seed(5)
    theirs = nn.ConvTranspose1d(**arguments, device=device)
    torch.manual_seed(5)
    ours = tconv.ConvTranspose1d(**arguments, device=device)
    assert repr(ours) == repr(theirs) and isinstance(ours, nn.ConvTranspose1d)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)
    x = torch.randn(2, arguments["in_channels"], 9, device=device)
    close(ours(x), theirs(x))
    close(ours(x[0]), theirs(x[0]))
    smallest = theirs(x).shape[-1] - ours.output_padding[0]
    for size in range(smallest, smallest + ours.stride[0]):
        for output_size in ([size], torch.Size([2, ours.out_channels, size])):
            y = ours(x, output_size)
            assert y.shape[-1] == size
            close(y, theirs(x, output_size))
    theirs.load_state_dict(ours.state_dict())
    ours.load_state_dict(theirs.state_dict())


def test_attributes_are_read_at_call_time(device):
    layer = tconv.ConvTranspose1d(2, 2, 3, device=device)
    x = torch.randn(1, 2, 7, device=device)
    layer.stride, layer.padding, layer.output_padding, layer.dilation = 3, (1,), 1, (2,)
    close(layer(x), F.conv_transpose1d(x, layer.weight, layer.bias, 3, 1, 1, 1, 2))
    layer.bias = None
    close(layer(x), F.conv_transpose1d(x, layer.weight, None, 3, 1, 1, 1, 2))
    layer.padding_mode = "reflect"
    with pytest.raises(ValueError, match="padding_mode"):
        layer(x)


def test_copies_pickles_and_checkpoints(device):
    layer = tconv.ConvTranspose1d(4, 6, 5, stride=2, device=device)
    x = torch.randn(2, 4, 9, device=device)
    expected = layer(x)
    for other in (copy.deepcopy(layer), copy.copy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(other) is tconv.ConvTranspose1d and torch.equal(other(x), expected)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), expected)


def test_training_steps_agree(device):
    torch.manual_seed(1)
    theirs = nn.Sequential(nn.Conv1d(3, 6, 3), nn.ConvTranspose1d(6, 4, 8, 4, 2), nn.Tanh()).to(device)
    ours = copy.deepcopy(theirs)
    assert tconv.patch(ours) == 2
    x, target = torch.randn(4, 3, 20, device=device), torch.randn(4, 4, 72, device=device)
    losses = []
    for model in (ours, theirs):
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(5):
            optimiser.zero_grad()
            loss = (model(x) - target).square().mean()
            loss.backward()
            optimiser.step()
        losses.append(loss.detach())
    close(*losses)


# --- patch and unpatch ------------------------------------------------------------------------------------


def test_patch_and_unpatch_in_place(device):
    model = nn.Sequential(nn.ConvTranspose1d(2, 3, 4), nn.Linear(4, 4), nn.ModuleList([nn.ConvTranspose1d(3, 2, 4)]))
    model.append(model[0])  # shared: one layer
    parameters = [id(p) for p in model.parameters()]
    state = list(model.state_dict())
    assert tconv.patch(model) == 2 and tconv.patch(model) == 0
    assert type(model[0]) is type(model[2][0]) is tconv.ConvTranspose1d
    assert [id(p) for p in model.parameters()] == parameters and list(model.state_dict()) == state
    assert tconv.unpatch(model) == 2 and tconv.unpatch(model) == 0
    assert type(model[0]) is type(model[2][0]) is nn.ConvTranspose1d
    layer = nn.ConvTranspose1d(2, 3, 4)
    assert tconv.patch(layer) == 1 and type(layer) is tconv.ConvTranspose1d


def test_hooks_survive(device):
    layer = nn.ConvTranspose1d(2, 3, 4, device=device)
    seen = []
    layer.register_forward_pre_hook(lambda m, a: seen.append("before"))
    layer.register_forward_hook(lambda m, a, y: seen.append("after"))
    layer.register_full_backward_hook(lambda m, g, h: seen.append("gradient"))
    tconv.patch(layer)
    layer(torch.randn(1, 2, 5, device=device, requires_grad=True)).sum().backward()
    assert seen == ["before", "after", "gradient"]


def test_subclasses(device):
    plain = Plain(2, 3, 4, note="kept", device=device)
    model = nn.ModuleDict({"plain": plain, "own": Own(2, 3, 4, device=device), "written": Written(2, 3, 4)})
    x = torch.randn(1, 2, 6, device=device)
    expected, doubled = plain(x), model["own"](x)
    with pytest.warns(UserWarning, match=r"tconv.patch left 1 .*own \(Own has a forward of its own\)"):
        assert tconv.patch(model) == 1
    assert type(model["own"]) is Own and torch.equal(model["own"](x), doubled)
    assert isinstance(plain, Plain) and isinstance(plain, tconv.ConvTranspose1d) and plain.note == "kept"
    assert "ConvTranspose1d" not in repr(plain).split("(")[0] and repr(plain).startswith("Plain(2, 3")
    for other in (plain, copy.deepcopy(plain), pickle.loads(pickle.dumps(plain))):
        assert type(other) is type(plain) and other.note == "kept"
        close(other(x), expected)
    assert tconv.unpatch(model) == 1 and type(plain) is Plain and type(model["written"]) is Written


def test_layers_that_cannot_be_swapped_are_reported():
    lazy, double = nn.LazyConvTranspose1d(3, 4), nn.ConvTranspose1d(2, 2, 2, dtype=torch.complex64)
    replaced = nn.ConvTranspose1d(2, 2, 2)
    replaced.forward = lambda x: x
    with pytest.warns(UserWarning, match="left 3 .*lazy.*complex64.*replaced"):
        assert tconv.patch(nn.ModuleList([lazy, double, replaced])) == 0
    lazy(torch.randn(1, 2, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tconv.patch(lazy) == 1


REPARAMETRISE = {
    "orthogonal": parametrizations.orthogonal,
    "spectral_norm": parametrizations.spectral_norm,
    "old weight_norm": weight_norm,
    "old spectral_norm": spectral_norm,
    "pruning": lambda m: prune.l1_unstructured(m, "weight", 0.3),
}


if VERSION >= (2, 1):
    REPARAMETRISE["weight_norm"] = lambda m: parametrizations.weight_norm(m, dim=1)


@pytest.mark.filterwarnings("ignore:.*deprecated.*:FutureWarning")
@pytest.mark.parametrize("name", REPARAMETRISE)
def test_reparametrised_layers(name, device):
    layer = REPARAMETRISE[name](nn.ConvTranspose1d(4, 6, 5, stride=2, device=device)).eval()
    x = torch.randn(2, 4, 9, device=device)
    expected = layer(x)
    grads = torch.autograd.grad(expected.square().sum(), list(layer.parameters()))
    state = list(layer.state_dict())
    copied = copy.deepcopy(layer) if parametrize.is_parametrized(layer) else None  # the rest cannot be
    assert tconv.patch(layer) == 1 and isinstance(layer, tconv.ConvTranspose1d)
    assert list(layer.state_dict()) == state and not isinstance(copied, tconv.ConvTranspose1d)
    y = layer(x)
    close(y, expected)
    for a, b in zip(torch.autograd.grad(y.square().sum(), list(layer.parameters())), grads, strict=True):
        close(a, b, rtol=1e-2)
    if parametrize.is_parametrized(layer):
        again = copy.deepcopy(layer)
        assert tconv.unpatch(again) == 1 and not isinstance(again, tconv.ConvTranspose1d)
        close(again(x), expected)
        parametrize.remove_parametrizations(layer, "weight")
        assert type(layer) is tconv.ConvTranspose1d
        close(layer(x), expected)
    if "weight" not in layer._parameters:
        with pytest.warns(UserWarning, match="prepack left 1"):
            assert tconv.prepack(layer) == 0
    close(layer(x), expected)


@pytest.mark.needs((2, 1), "parametrizations.weight_norm")
def test_parametrising_a_patched_layer(device):
    layer = nn.ConvTranspose1d(4, 6, 5, stride=2, device=device)
    x = torch.randn(2, 4, 9, device=device)
    expected = layer(x)
    tconv.patch(layer)
    parametrizations.weight_norm(layer)
    close(layer(x), expected)
    assert tconv.unpatch(layer) == 1
    close(layer(x), expected)
