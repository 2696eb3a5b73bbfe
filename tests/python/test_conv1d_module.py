"""tconv.Conv1d, and patch, unpatch, prepack and explain on both kinds of layer."""

import copy
import os
import pickle
import socket
import warnings

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parametrizations, parametrize, remove_weight_norm, weight_norm

import tconv
from support import normal
from tconv._pytorch import VERSION


def close(ours, theirs):
    loose = {"rtol": 1e-2, "atol": 1e-2} if ours.is_cuda else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(ours, theirs, **loose)


LAYERS = [
    {"kernel_size": 3},
    {"kernel_size": 5, "stride": 2, "padding": 2, "dilation": 2, "groups": 2},
    {"kernel_size": 4, "padding": "same", "dilation": 3},
    {"kernel_size": 3, "padding": "valid", "bias": False},
    *({"kernel_size": 4, "padding": 3, "stride": 2, "padding_mode": mode}
      for mode in ("zeros", "reflect", "replicate", "circular")),
    *({"kernel_size": 4, "padding": "same", "padding_mode": mode} for mode in ("reflect", "replicate", "circular")),
]  # fmt: skip


@pytest.mark.parametrize("options", LAYERS, ids=str)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_a_drop_in(options, device):
    torch.manual_seed(3)
    theirs = nn.Conv1d(4, 6, **options, device=device)
    torch.manual_seed(3)
    ours = tconv.Conv1d(4, 6, **options, device=device)
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)
    patched = copy.deepcopy(theirs)
    assert tconv.patch(patched) == 1 and type(patched) is tconv.Conv1d
    for x in (torch.randn(2, 4, 17, device=device), torch.randn(4, 17, device=device)):
        if x.dim() == 2 and VERSION < (2, 1) and options.get("padding_mode") == "circular":
            continue  # PyTorch 2.0 refuses to pad it
        for layer in (ours, patched, pickle.loads(pickle.dumps(ours)), copy.deepcopy(patched)):
            leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
            y, expected = layer(leaf), theirs(other)
            close(y, expected)
            grad = torch.randn_like(y)
            given = torch.autograd.grad(y, [leaf, *layer.parameters()], grad)
            for a, b in zip(
                given, torch.autograd.grad(expected, [other, *theirs.parameters()], grad), strict=True
            ):
                close(a, b)
    assert tconv.prepack(ours) == 1
    with torch.no_grad():
        x = torch.randn(2, 4, 17, device=device)
        assert torch.equal(ours(x), patched(x)) and torch.equal(ours(x), patched(x))
    assert tconv.unpatch(patched) == 1 and type(patched) is nn.Conv1d


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre = nn.Conv1d(3, 8, 7, padding=3)
        self.up = nn.ConvTranspose1d(8, 4, 8, 4, 2)
        self.norm = weight_norm(nn.Conv1d(4, 4, 3, padding=1))
        normalize = getattr(parametrizations, "weight_norm", weight_norm)
        self.parametrized = normalize(nn.Conv1d(4, 4, 3, dilation=3, padding=3))
        self.post = nn.Conv1d(4, 1, 7, padding=3, padding_mode="reflect")

    def forward(self, x):
        x = self.up(self.pre(x).relu())
        return self.post(x + self.parametrized(self.norm(x).relu())).tanh()


def made(device):
    """One and the same model at each call: what the old weight_norm computes cannot be copied."""
    torch.manual_seed(0)
    return Model().to(device)


@pytest.mark.filterwarnings("ignore:.*weight_norm")
def test_patch_says_how_many_of_each_and_layers_chooses(device):
    model, both, transposed, plain = (made(device) for _ in range(4))
    x = torch.randn(2, 3, 20, device=device)
    expected = model(x)
    counts = tconv.patch(both)
    assert (counts, counts.conv_transpose1d, counts.conv1d) == (5, 1, 4)
    assert str(counts) == "5 layers: 1 ConvTranspose1d, 4 Conv1d"
    assert tconv.patch(transposed, layers=nn.ConvTranspose1d) == 1 and type(transposed.pre) is nn.Conv1d
    assert tconv.patch(plain, layers=(nn.Conv1d,)) == 4 and type(plain.up) is nn.ConvTranspose1d
    assert tconv.patch(plain) == 1 and tconv.patch(plain) == 0
    for each in (both, transposed, plain):
        close(each(x), expected)
    with pytest.warns(UserWarning, match="left 2 layers"):
        counts = tconv.prepack(both)
    assert (counts.conv_transpose1d, counts.conv1d) == (1, 2)
    with torch.no_grad():
        close(both(x), expected)
    # Undoing the reparametrisations leaves tconv's layers, and unpatching PyTorch's.
    remove_weight_norm(both.norm)
    if parametrize.is_parametrized(both.parametrized):
        parametrize.remove_parametrizations(both.parametrized, "weight")
    else:  # PyTorch 2.0
        remove_weight_norm(both.parametrized)
    assert type(both.parametrized) is type(both.norm) is tconv.Conv1d
    close(both(x), expected)
    assert tconv.unpatch(both, layers=nn.Conv1d) == 4 and tconv.unpatch(both) == 1
    close(both(x), expected)
    with pytest.raises(ValueError, match="layers holds"):
        tconv.patch(model, layers=nn.Linear)


class Plain(nn.Conv1d):
    pass


class OwnForward(nn.Conv1d):
    def forward(self, x):
        return 2 * super().forward(x)


class OwnConvForward(nn.Conv1d):
    def _conv_forward(self, input, weight, bias):
        return super()._conv_forward(input, weight * 2, bias)


class Written(tconv.Conv1d):
    """By a user: a causal convolution in terms of what nn.Conv1d has."""

    def forward(self, x):
        return self._conv_forward(F.pad(x, (2, 0)), self.weight, self.bias)


@pytest.mark.cpu_only
def test_subclasses():
    model = nn.ModuleList([Plain(2, 3, 3), OwnForward(2, 3, 3), OwnConvForward(2, 3, 3), Written(2, 3, 3)])
    replaced, complex_ = nn.Conv1d(2, 3, 3), nn.Conv1d(2, 3, 3, dtype=torch.complex64)
    replaced.forward = lambda x: x
    model.extend([replaced, complex_, nn.LazyConv1d(3, 3)])
    x = torch.randn(1, 2, 6)
    expected = [model[i](x) for i in range(3)]
    with pytest.warns(UserWarning, match="left 5 of the layers") as warned:
        assert tconv.patch(model) == 1
    text = str(warned[0].message)
    for reason in (
        "a forward of its own",
        "a _conv_forward of its own",
        "replaced on the instance",
        "complex64",
        "lazy",
    ):
        assert reason in text
    assert isinstance(model[0], Plain) and isinstance(model[0], tconv.Conv1d)
    again = pickle.loads(pickle.dumps(model[0]))
    assert type(again) is type(model[0])
    for layer, value in zip([*model[:3], again], [*expected, expected[0]], strict=True):
        close(layer(x), value)
    close(model[3](x), F.conv1d(F.pad(x, (2, 0)), model[3].weight, model[3].bias))
    assert tconv.unpatch(model) == 1 and type(model[0]) is Plain
    with pytest.raises(NotImplementedError, match="complex64"):
        tconv.Conv1d(2, 3, 3, dtype=torch.complex64)(x.to(torch.complex64))


def test_prepacked_weights_follow_every_visible_change(device):
    ours, theirs = (
        tconv.Conv1d(16, 24, 5, padding=2, device=device),
        nn.Conv1d(16, 24, 5, padding=2, device=device),
    )
    assert tconv.prepack(ours) == 1
    x = torch.randn(2, 16, 40, device=device)
    with torch.no_grad():
        for change in (
            lambda m: None,
            lambda m: m.weight.mul_(2),
            lambda m: m.weight.copy_(torch.ones_like(m.weight)),
            lambda m: m.load_state_dict(nn.Conv1d(16, 24, 5).state_dict()),
        ):
            torch.manual_seed(5)
            change(ours)
            theirs.load_state_dict(ours.state_dict())
            for _ in range(2):
                close(ours(x), theirs(x))
        for dtype in (torch.float64, torch.bfloat16):
            close(ours.to(dtype)(x.to(dtype)).float(), theirs.to(dtype)(x.to(dtype)).float())
        plain = copy.deepcopy(ours)
        plain.__dict__.pop("_tconv_packed")
        for t in (x.bfloat16()[..., ::2], x.bfloat16()[0], x.bfloat16()):
            assert torch.equal(ours(t), plain(t))
    ours(x.bfloat16()).sum().backward()  # a recording call packs by itself
    assert ours.weight.grad is not None


@pytest.mark.cpu_only
def test_explain_of_conv1d():
    layer = tconv.Conv1d(4, 6, 5, padding=2, groups=2)
    text = tconv.explain(layer, (2, 4, 30))
    assert "strided n2 ci6 co4 l30 k5 s1 p2 g2 bias f32" in text and "kernel" in text
    assert all(f"gradient   of {name}: cpu." in text for name in ("input", "weight", "bias"))
    tconv.prepack(layer)
    assert "prepacked" in tconv.explain(layer, torch.randn(2, 4, 30))
    assert "l30" in tconv.explain(nn.Conv1d(4, 6, 4, padding="same", padding_mode="circular"), (2, 4, 30))
    with pytest.raises(RuntimeError, match="channels"):
        tconv.explain(layer, (2, 3, 30))


def _train(rank, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    results = []
    for patched in (False, True):
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = Model()
        if patched:
            assert tconv.patch(model) == 5
        parallel = DistributedDataParallel(model)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
        generator = torch.Generator().manual_seed(rank)
        for _ in range(4):
            optimiser.zero_grad()
            parallel(torch.randn(2, 3, 20, generator=generator)).square().mean().backward()
            optimiser.step()
        results.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.cpu_only
def test_distributed_data_parallel(tmp_path):
    """Two processes, each with data of its own: equal weights on both, and those that PyTorch's layers reach."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_train, (port, str(tmp_path)), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert torch.equal(first[1], second[1])
    torch.testing.assert_close(first[1], first[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["aot_eager"])
@pytest.mark.filterwarnings("ignore")
def test_a_patched_model_compiles_and_trains(backend, device):
    torch._dynamo.reset()
    theirs, ours = made(device), made(device)
    tconv.patch(ours)
    compiled = torch.compile(ours, backend=backend)
    x = normal((2, 3, 20)).float().to(device)
    for model in (compiled, theirs):
        model(x).square().sum().backward()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(a.grad, b.grad)
