"""The decoders of benchmarks/compare are those of transformers: the same layers, and as many parameters."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, remove_weight_norm

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "compare"))
decoder_models = pytest.importorskip("decoder_models", reason="the benchmarks are not here")
try:
    import transformers
except ImportError:
    transformers = None

pytestmark = pytest.mark.cpu_only


def hifigan():
    config = transformers.SpeechT5HifiGanConfig(upsample_rates=[8, 8, 2, 2], upsample_kernel_sizes=[16, 16, 4, 4])
    return [transformers.SpeechT5HifiGan(config)]


def vits():
    from transformers.models.vits.modeling_vits import VitsHifiGan

    return [VitsHifiGan(transformers.VitsConfig())]


def dac():
    return [transformers.DacModel(transformers.DacConfig()).decoder]


def encodec():
    return [transformers.EncodecModel(transformers.EncodecConfig()).decoder]


def mimi():
    model = transformers.MimiModel(transformers.MimiConfig())
    if hasattr(model.decoder, "upsample"):  # from transformers 5 on
        return [model.decoder]
    return [model.upsample, model.decoder_transformer, model.decoder]


def without_weight_norm(model):
    for module in model.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")
        elif hasattr(module, "weight_g"):
            remove_weight_norm(module)
    return model


def layers(model):
    kinds = (nn.Conv1d, nn.ConvTranspose1d)
    return Counter(
        (
            type(m).__name__,
            m.in_channels,
            m.out_channels,
            m.kernel_size,
            m.stride,
            m.dilation,
            m.groups,
            m.bias is None,
        )
        for m in model.modules()
        if isinstance(m, kinds)
    )


@pytest.mark.skipif(transformers is None, reason="transformers has the definitions to compare with")
@pytest.mark.parametrize(
    "name, theirs", [("HiFi-GAN", hifigan), ("VITS", vits), ("DAC", dac), ("EnCodec", encodec), ("Mimi", mimi)]
)
def test_layers_and_parameters(name, theirs):
    decoder = next(each for each in decoder_models.DECODERS if each.name == name)
    with torch.device("meta"):
        ours, theirs = decoder.model(), [without_weight_norm(part) for part in theirs()]
    assert layers(ours) == sum((layers(part) for part in theirs), Counter())
    assert sum(p.numel() for p in ours.parameters()) == sum(
        p.numel() for part in theirs for p in part.parameters()
    )


@pytest.mark.parametrize("name, millions, length", [("BigVGAN", 112.4, 256 * 12), ("Vocos", 13.5, 256 * 11)])
def test_published_sizes(name, millions, length):
    """Of those that transformers does not have."""
    decoder = next(each for each in decoder_models.DECODERS if each.name == name)
    model = decoder.model().eval()
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(millions * 1e6, rel=5e-3)
    with torch.no_grad():
        y = model(torch.randn(1, decoder.channels, 12) * 0.1)
    assert y.shape[-1] == length and y.isfinite().all()


@pytest.mark.parametrize("frames", [1, 3, 12])
def test_overlapping_windows_are_torch_istft(frames):
    """Of Vocos, for CUDA graphs."""
    model = decoder_models.Vocos(width=8, layers=1)
    spectrum = torch.polar(torch.rand(2, model.fft // 2 + 1, frames), torch.randn(2, model.fft // 2 + 1, frames))
    ours = model.overlapped(spectrum)
    if frames == 1:  # torch.istft refuses a result without samples
        assert ours.shape == (2, 0)
        return
    theirs = torch.istft(spectrum, model.fft, model.hop, model.fft, model.window, center=True)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)
