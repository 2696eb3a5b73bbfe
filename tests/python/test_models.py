"""Whole models of the transformers library, with random weights and small configurations."""

import copy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import tconv

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")


def speecht5_hifigan():
    config = transformers.SpeechT5HifiGanConfig(
        model_in_dim=16, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]],
    )  # fmt: skip
    return transformers.SpeechT5HifiGan(config), (torch.randn(2, 12, 16),), 2


def encodec():
    config = transformers.EncodecConfig(
        hidden_size=16, num_filters=4, upsampling_ratios=[4, 2], codebook_size=16, num_lstm_layers=1,
        target_bandwidths=[60.0], normalize=False,
    )  # fmt: skip
    return transformers.EncodecModel(config), (torch.randn(1, 1, 320),), 2


def dac():
    config = transformers.DacConfig(
        encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=32, upsampling_ratios=[4, 2],
        n_codebooks=2, codebook_size=16, codebook_dim=4,
    )  # fmt: skip
    return transformers.DacModel(config), (torch.randn(1, 1, 160),), 2


def vits():
    config = transformers.VitsConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=16, flow_size=8,
        spectrogram_bins=9, upsample_initial_channel=16, upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4],
        resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]], prior_encoder_num_flows=1,
        posterior_encoder_num_wavenet_layers=1, prior_encoder_num_wavenet_layers=1, depth_separable_num_layers=1,
        duration_predictor_flow_bins=4, duration_predictor_num_flows=2, speaker_embedding_size=0,
    )  # fmt: skip
    model = transformers.VitsModel(config)
    model.noise_scale = model.noise_scale_duration = 0.0
    return model, (torch.arange(1, 13)[None],), 2


MODELS = {f.__name__: f for f in (speecht5_hifigan, encodec, dac, vits)}


def waveform(model, inputs):
    torch.manual_seed(11)
    with torch.no_grad():
        output = model(*inputs)
    if isinstance(output, torch.Tensor):
        return output
    return output.waveform if "waveform" in output else output.audio_values


@pytest.mark.parametrize("name", MODELS)
def test_patched_model_agrees(name, device, tmp_path):
    torch.manual_seed(0)
    model, inputs, layers = MODELS[name]()
    model, inputs = model.to(device).eval(), tuple(t.to(device) for t in inputs)
    patched = copy.deepcopy(model)
    assert tconv.patch(patched).conv_transpose1d == layers
    expected = waveform(model, inputs)
    tf32 = {"rtol": 1e-2, "atol": 1e-2 * expected.abs().max().item()}  # a part of the largest sample
    loose = tf32 if device == "cuda" else {"rtol": 1e-3, "atol": 1e-5}

    def agrees(other):
        y = waveform(other, inputs)
        assert y.shape == expected.shape and y.numel() > 0 and expected.std() > 0
        torch.testing.assert_close(y, expected, **loose)

    agrees(patched)
    agrees(copy.deepcopy(patched))
    patched.load_state_dict(model.state_dict())
    model.load_state_dict(patched.state_dict())
    agrees(patched)

    patched.save_pretrained(tmp_path / "saved")
    loaded = type(model).from_pretrained(tmp_path / "saved").to(device).eval()
    if name == "vits":
        loaded.noise_scale = loaded.noise_scale_duration = 0.0
    agrees(loaded)
    assert tconv.patch(loaded).conv_transpose1d == layers
    agrees(loaded)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # weight_norm: nothing to prepack
        tconv.prepack(patched)
    agrees(patched)
    agrees(patched)
    assert tconv.unpatch(patched).conv_transpose1d == layers
    agrees(patched)


@pytest.mark.parametrize("weight_norm", [False, True])
def test_hifigan_prepacked(weight_norm, device):
    model, inputs, layers = speecht5_hifigan()
    model, inputs = model.to(device).eval(), tuple(t.to(device) for t in inputs)
    if weight_norm:
        model.apply_weight_norm()
    expected = waveform(model, inputs)
    patched = tconv.patch(model)
    assert patched.conv_transpose1d == layers and patched.conv1d > layers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # weight_norm: what is left as it is
        assert tconv.prepack(model) <= patched
    for _ in range(2):
        torch.testing.assert_close(waveform(model, inputs), expected, rtol=1e-2, atol=1e-3)


@pytest.mark.cpu_only
def test_the_example_agrees_with_the_unpatched_model():
    """Run, ten DDP steps on two gloo processes, compile, export."""
    example = Path(__file__).parents[2] / "examples" / "pytorch_hifigan.py"
    command = [sys.executable, str(example), "aot_eager"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]
    assert ran.stdout.count("relative difference") == 5
