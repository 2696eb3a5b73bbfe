"""The causal decoders of decoder_models.py."""


import torch
import torch.nn.functional as F
from torch import nn

# --- EnCodec (24 kHz) and Mimi: causal SEANet --------------------------------------------------------------


class CausalConv(nn.Module):
    def __init__(self, cin, cout, kernel, mode):
        super().__init__()
        self.conv, self.left, self.mode = nn.Conv1d(cin, cout, kernel), kernel - 1, mode

    def forward(self, x):
        return self.conv(F.pad(x, (self.left, 0), mode=self.mode) if self.left else x)


class CausalUp(nn.Module):
    """Trims what reaches beyond the last frame."""

    def __init__(self, cin, cout, rate, groups=1, bias=True):
        super().__init__()
        self.conv, self.rate = nn.ConvTranspose1d(cin, cout, 2 * rate, rate, groups=groups, bias=bias), rate

    def forward(self, x):
        return self.conv(x)[..., : -self.rate]


class SeanetBlock(nn.Module):
    def __init__(self, channels, mode, shortcut):
        super().__init__()
        self.first = CausalConv(channels, channels // 2, 3, mode)
        self.second = CausalConv(channels // 2, channels, 1, mode)
        self.shortcut = CausalConv(channels, channels, 1, mode) if shortcut else nn.Identity()

    def forward(self, x):
        return self.shortcut(x) + self.second(F.elu(self.first(F.elu(x))))


class Seanet(nn.Module):
    def __init__(self, latent, width, rates, mode, last_kernel, lstm, shortcut):
        super().__init__()
        self.pre = CausalConv(latent, width, 7, mode)
        self.lstm = nn.LSTM(width, width, 2) if lstm else None
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for rate in rates:
            self.ups.append(CausalUp(width, width // 2, rate))
            width //= 2
            self.blocks.append(SeanetBlock(width, mode, shortcut))
        self.post = CausalConv(width, 1, last_kernel, mode)

    def forward(self, x):
        x = self.pre(x)
        if self.lstm is not None:
            steps = x.permute(2, 0, 1)
            x = (self.lstm(steps)[0] + steps).permute(1, 2, 0)
        for up, block in zip(self.ups, self.blocks):
            x = block(up(F.elu(x)))
        return self.post(F.elu(x))


class Encodec(Seanet):
    def __init__(self, latent=128, width=512, rates=(8, 5, 4, 2)):
        super().__init__(latent, width, rates, "reflect", last_kernel=7, lstm=True, shortcut=True)


class MimiLayer(nn.Module):
    """Pre-norm attention with rotary positions over a window of 250, and a feed-forward layer."""

    def __init__(self, width=512, heads=8, inner=2048):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)
        self.scale1, self.scale2 = (nn.Parameter(torch.full((width,), 0.01)) for _ in range(2))

    def forward(self, x, rotation, mask):
        def split(t):
            return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        def rotate(t):
            first, second = t.chunk(2, -1)
            return t * rotation[0] + torch.cat((-second, first), -1) * rotation[1]

        y = self.norm1(x)
        y = F.scaled_dot_product_attention(rotate(split(self.q(y))), rotate(split(self.k(y))), split(self.v(y)), mask)
        x = x + self.scale1 * self.o(y.transpose(1, 2).flatten(2))
        return x + self.scale2 * self.down(F.gelu(self.up(self.norm2(x))))


class Mimi(nn.Module):
    def __init__(self, latent=512, width=1024, rates=(8, 6, 5, 4), layers=8, window=250):
        super().__init__()
        self.window = window
        self.upsample = CausalUp(latent, latent, 2, groups=latent, bias=False)
        self.layers = nn.ModuleList(MimiLayer(latent) for _ in range(layers))
        self.decoder = Seanet(latent, width, rates, "constant", last_kernel=3, lstm=False, shortcut=False)

    def forward(self, x):
        x = self.upsample(x).transpose(1, 2)
        place = torch.arange(x.shape[1], device=x.device)
        angle = place[:, None] * 10000.0 ** -(torch.arange(0, 64, 2, device=x.device) / 64)
        angle = torch.cat((angle, angle), -1)
        rotation = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        behind = place[:, None] - place
        mask = (behind >= 0) & (behind < self.window)
        for layer in self.layers:
            x = layer(x, rotation, mask)
        return self.decoder(x.transpose(1, 2))
