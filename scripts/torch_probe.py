"""What the installed tconv can do with the installed PyTorch, and what a call costs: one line of JSON.

Every feature is tried and its numbers are compared with PyTorch's. If a version lacks it, the answer says why.
"""

import io
import json
import platform
import sys
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import tconv

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "python"))
from timing import microseconds  # noqa: E402

warnings.filterwarnings("ignore")
X, W, B = torch.randn(2, 4, 9), torch.randn(4, 3, 5), torch.randn(3)
EXPECTED = F.conv_transpose1d(X, W, B, 2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = tconv.ConvTranspose1d(4, 3, 5, 2)

    def forward(self, x):
        return torch.tanh(self.up(x))


def close(ours, theirs=EXPECTED):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def eager():
    close(tconv.conv_transpose1d(X, W, B, 2))


def patched():
    model = nn.Sequential(nn.ConvTranspose1d(4, 3, 5, 2)).eval()
    expected = model(X)
    assert tconv.patch(model) == 1 and tconv.prepack(model) == 1
    with torch.no_grad():
        close(model(X), expected)


def gradient():
    leaves = [t.clone().requires_grad_() for t in (X, W, B)]
    ours = torch.autograd.grad(tconv.conv_transpose1d(*leaves, 2).square().sum(), leaves)
    for a, b in zip(ours, torch.autograd.grad(F.conv_transpose1d(*leaves, 2).square().sum(), leaves)):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def second_gradient():
    leaves = [t[..., :3].double().requires_grad_() for t in (X, W)]
    assert torch.autograd.gradgradcheck(lambda *t: tconv.conv_transpose1d(*t, None, 2), leaves, fast_mode=True)


def forward_mode():
    close(torch.func.jvp(lambda x: tconv.conv_transpose1d(x, W, B, 2), (X,), (X,))[1], F.conv_transpose1d(X, W, None, 2))


def autocast():
    with torch.autocast("cpu", torch.bfloat16):
        assert tconv.conv_transpose1d(X, W, B, 2).dtype == torch.bfloat16


def meta():
    assert tconv.conv_transpose1d(X.to("meta"), W.to("meta"), B.to("meta"), 2).shape == EXPECTED.shape


def vmap():
    close(torch.vmap(lambda x: tconv.conv_transpose1d(x, W, B, 2))(X))


def vmap_of_the_operator():
    close(torch.vmap(lambda x: torch.ops.tconv.conv_transpose1d(x, W, B, 2, 0, 0, 1, 1, "ieee"))(X))


def jit_trace():
    layer = Layer().eval()
    traced = torch.jit.trace(layer, X, check_trace=False)
    close(traced(X[..., 2:]), layer(X[..., 2:]))


def compiled(**options):
    from torch import _dynamo  # late: whoever uses no more than a transform has not imported it

    _dynamo.reset()
    layer = Layer()
    run = torch.compile(layer, fullgraph=True, **options)
    for x in (X, X[..., 2:], X[..., 1:]):
        close(run(x), layer(x))
        run(x).sum().backward()


def export():
    layer = Layer()
    length = torch.export.Dim("length", min=2, max=4096)
    program = torch.export.export(layer, (X,), dynamic_shapes=({2: length},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    close(torch.export.load(file).module()(X[..., 2:]), layer(X[..., 2:]))


def opcheck():
    call = (X, W.clone().requires_grad_(), B, 2, 0, 0, 1, 1, "ieee")
    torch.library.opcheck(torch.ops.tconv.conv_transpose1d.default, call)


FEATURES = {
    "eager calls": eager,
    "patch and prepack": patched,
    "gradients": gradient,
    "gradients of gradients": second_gradient,
    "forward mode": forward_mode,
    "autocast": autocast,
    "meta tensors": meta,
    "vmap": vmap,
    "vmap of torch.ops.tconv": vmap_of_the_operator,
    "torch.jit.trace": jit_trace,
    "torch.compile (aot_eager)": lambda: compiled(backend="aot_eager"),
    "torch.compile, dynamic": lambda: compiled(backend="aot_eager", dynamic=True),
    "torch.compile (inductor)": compiled,
    "torch.export, saved and loaded": export,
    "opcheck": opcheck,
}


def answer(feature):
    try:
        feature()
        return "yes"
    except Exception as error:
        return f"no: {type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error) else ''}"


def costs():
    torch.set_num_threads(1)
    x, w, b = torch.randn(1, 2, 4), torch.randn(2, 2, 3), torch.randn(2)
    theirs, ours, packed = nn.ConvTranspose1d(2, 2, 3), tconv.ConvTranspose1d(2, 2, 3), tconv.ConvTranspose1d(2, 2, 3)
    tconv.prepack(packed)
    with torch.no_grad():
        took = microseconds({
            "F": lambda: F.conv_transpose1d(x, w, b), "tconv": lambda: tconv.conv_transpose1d(x, w, b),
            "nn layer": lambda: theirs(x), "tconv layer": lambda: ours(x), "prepacked": lambda: packed(x),
        }, 400, 40)  # fmt: skip
    w.requires_grad_()
    recording = {"F, recording": lambda: F.conv_transpose1d(x, w, b),
                 "tconv, recording": lambda: tconv.conv_transpose1d(x, w, b)}  # fmt: skip
    took.update(microseconds(recording, 400, 40))
    return {name: round(value, 1) for name, value in took.items()}


if __name__ == "__main__":
    print(json.dumps({
        "torch": torch.__version__, "python": platform.python_version(), "build_info": tconv.build_info(),
        "features": {name: answer(feature) for name, feature in FEATURES.items()}, "microseconds": costs(),
    }))  # fmt: skip
