"""Decoders of vocoders and neural codecs with random weights, from their published configurations.

Re-definitions, so that a machine without transformers can run them: the same layers, sizes, paddings and order, weight
norm folded (as each is for inference). tests/python/test_decoders.py holds them against transformers' classes,
parameter for parameter.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from codec_models import Encodec, Mimi
from torch import nn

# --- HiFi-GAN (V1), and VITS whose decoder is one ----------------------------------------------------------


class ResBlock(nn.Module):
    def __init__(self, channels, kernel, dilations):
        super().__init__()
        self.convs1 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=d * (kernel - 1) // 2) for d in dilations
        )
        self.convs2 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=(kernel - 1) // 2) for _ in dilations
        )

    def forward(self, x):
        for first, second in zip(self.convs1, self.convs2):
            x = x + second(F.leaky_relu(first(F.leaky_relu(x, 0.1)), 0.1))
        return x


def upsampling(width, rates, kernels, block):
    """Transposed layers that halve the width, the blocks behind each, and the last width."""
    ups, blocks = nn.ModuleList(), nn.ModuleList()
    for rate, kernel in zip(rates, kernels):
        ups.append(nn.ConvTranspose1d(width, width // 2, kernel, rate, (kernel - rate) // 2))
        width //= 2
        blocks.append(nn.ModuleList(block(width, k, (1, 3, 5)) for k in (3, 7, 11)))
    return ups, blocks, width


class HifiGan(nn.Module):
    def __init__(self, bands=80, width=512, rates=(8, 8, 2, 2), kernels=(16, 16, 4, 4), post_bias=True):
        super().__init__()
        self.pre = nn.Conv1d(bands, width, 7, padding=3)
        self.ups, self.blocks, width = upsampling(width, rates, kernels, ResBlock)
        self.post = nn.Conv1d(width, 1, 7, padding=3, bias=post_bias)

    def forward(self, x):
        x = self.pre(x)
        for up, blocks in zip(self.ups, self.blocks):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in blocks) / len(blocks)
        return torch.tanh(self.post(F.leaky_relu(x)))


# --- BigVGAN v2 -------------------------------------------------------------------------------------------


def low_pass(taps=12, cutoff=0.25, width=0.3):
    """BigVGAN's Kaiser-windowed sinc."""
    amplitude = 2.285 * (taps // 2 - 1) * math.pi * 4 * width + 7.95
    beta = 0.1102 * (amplitude - 8.7) if amplitude > 50 else 0.5842 * (amplitude - 21) ** 0.4 + 0.07886 * (amplitude - 21)
    time = torch.arange(-(taps // 2), taps // 2) + 0.5
    taps_ = 2 * cutoff * torch.kaiser_window(taps, periodic=False, beta=beta) * torch.sinc(2 * cutoff * time)
    return (taps_ / taps_.sum()).view(1, 1, taps)


class AntiAliased(nn.Module):
    """SnakeBeta at twice the rate, through depthwise filters."""

    def __init__(self, channels):
        super().__init__()
        self.alpha, self.beta = nn.Parameter(torch.zeros(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("filter", low_pass())

    def forward(self, x):
        channels = x.shape[1]
        taps = self.filter.expand(channels, -1, -1)
        x = 2 * F.conv_transpose1d(F.pad(x, (5, 5), mode="replicate"), taps, stride=2, groups=channels)
        x = x[..., 15:-15]
        alpha, beta = self.alpha.exp()[:, None], self.beta.exp()[:, None]
        x = x + (x * alpha).sin().pow(2) / (beta + 1e-9)
        return F.conv1d(F.pad(x, (5, 6), mode="replicate"), taps, stride=2, groups=channels)


class AmpBlock(nn.Module):
    def __init__(self, channels, kernel, dilations):
        super().__init__()
        self.block = ResBlock(channels, kernel, dilations)
        self.activations = nn.ModuleList(AntiAliased(channels) for _ in range(2 * len(dilations)))

    def forward(self, x):
        for i, (first, second) in enumerate(zip(self.block.convs1, self.block.convs2)):
            x = x + second(self.activations[2 * i + 1](first(self.activations[2 * i](x))))
        return x


class BigVgan(nn.Module):
    """bigvgan_v2_24khz_100band_256x."""

    def __init__(self, bands=100, width=1536, rates=(4, 4, 2, 2, 2, 2), kernels=(8, 8, 4, 4, 4, 4)):
        super().__init__()
        self.pre = nn.Conv1d(bands, width, 7, padding=3)
        self.ups, self.blocks, width = upsampling(width, rates, kernels, AmpBlock)
        self.last = AntiAliased(width)
        self.post = nn.Conv1d(width, 1, 7, padding=3, bias=False)

    def forward(self, x):
        x = self.pre(x)
        for up, blocks in zip(self.ups, self.blocks):
            x = up(x)
            x = sum(block(x) for block in blocks) / len(blocks)
        return self.post(self.last(x)).clamp(-1, 1)


# --- DAC (44 kHz) -----------------------------------------------------------------------------------------


class Snake(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x):
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).pow(2)


class DacUnit(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.snake1, self.snake2 = Snake(channels), Snake(channels)
        self.conv1 = nn.Conv1d(channels, channels, 7, dilation=dilation, padding=3 * dilation)
        self.conv2 = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        return x + self.conv2(self.snake2(self.conv1(self.snake1(x))))


class Dac(nn.Module):
    def __init__(self, latent=1024, width=1536, rates=(8, 8, 4, 2)):
        super().__init__()
        layers = [nn.Conv1d(latent, width, 7, padding=3)]
        for rate in rates:
            layers += [Snake(width), nn.ConvTranspose1d(width, width // 2, 2 * rate, rate, math.ceil(rate / 2))]
            width //= 2
            layers += [DacUnit(width, dilation) for dilation in (1, 3, 9)]
        self.layers = nn.Sequential(*layers, Snake(width), nn.Conv1d(width, 1, 7, padding=3), nn.Tanh())

    def forward(self, x):
        return self.layers(x)


# --- Vocos (24 kHz mel) -----------------------------------------------------------------------------------


class ConvNext(nn.Module):
    def __init__(self, width=512, inner=1536, scale=1 / 8):
        super().__init__()
        self.depthwise = nn.Conv1d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.scale = nn.Parameter(torch.full((width,), scale))

    def forward(self, x):
        y = self.norm(self.depthwise(x).transpose(1, 2))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).transpose(1, 2)


class Vocos(nn.Module):
    def __init__(self, bands=100, width=512, layers=8, fft=1024, hop=256):
        super().__init__()
        self.fft, self.hop = fft, hop
        self.embed = nn.Conv1d(bands, width, 7, padding=3)
        self.norm, self.final = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.layers = nn.ModuleList(ConvNext(width) for _ in range(layers))
        self.head = nn.Linear(width, fft + 2)
        self.register_buffer("window", torch.hann_window(fft))

    def forward(self, x):
        x = self.norm(self.embed(x).transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        magnitude, phase = self.head(self.final(x.transpose(1, 2))).transpose(1, 2).float().chunk(2, 1)
        spectrum = torch.polar(magnitude.exp().clamp(max=1e2), phase)
        if spectrum.is_cuda and torch.cuda.is_current_stream_capturing():
            return self.overlapped(spectrum)
        return torch.istft(spectrum, self.fft, self.hop, self.fft, self.window.float(), center=True)

    def overlapped(self, spectrum):
        """torch.istft without its look at the sum of windows, which waits for the GPU: no CUDA graph takes that."""
        window, frames = self.window.float(), spectrum.shape[-1]
        pieces = torch.fft.irfft(spectrum.transpose(1, 2), self.fft, dim=-1).transpose(1, 2) * window[:, None]
        squares = window.square()[None, :, None].expand(1, self.fft, frames)
        length, margin = (frames - 1) * self.hop, self.fft // 2
        add = lambda x: F.fold(x, (1, length + self.fft), (1, self.fft), stride=(1, self.hop)).flatten(1)
        return (add(pieces) / add(squares).clamp(min=1e-11))[:, margin : margin + length]


@dataclass(frozen=True)
class Decoder:
    name: str
    make: type
    channels: int  # of its input
    batch: int
    frames: int
    # What patching shall gain in inference, in tf32 and bf16; None: it must not lose.
    target: tuple[float | None, float | None] = (None, None)
    options: tuple[tuple[str, object], ...] = ()

    def model(self):
        return self.make(**dict(self.options))


DECODERS = [
    Decoder("HiFi-GAN", HifiGan, 80, 16, 500, (1.9, 2.3)),
    Decoder("VITS", HifiGan, 192, 8, 300, (1.7, 2.1), (("bands", 192), ("post_bias", False))),
    Decoder("DAC", Dac, 1024, 4, 200, (1.4, 1.4)),
    Decoder("EnCodec", Encodec, 128, 16, 300, (1.3, 1.3)),
    Decoder("Mimi", Mimi, 512, 8, 300, (1.6, 1.6)),
    Decoder("BigVGAN", BigVgan, 100, 2, 200),
    Decoder("Vocos", Vocos, 100, 16, 500),
]
