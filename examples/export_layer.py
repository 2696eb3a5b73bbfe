"""Writes one ConvTranspose1d of a model for examples/run_layer.cpp: python examples/export_layer.py FOLDER"""

import sys
from pathlib import Path

import torch
from torch import nn

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
layer = nn.ConvTranspose1d(64, 32, 16, stride=8, padding=4)  # in your program: model.ups[0] or the like
x = torch.randn(1, layer.in_channels, 100)

# One line says which layer this is, for one sample of 100 positions; the tensors are plain float32 in C order.
problem = (f"n1 ci{layer.in_channels} co{layer.out_channels} l{x.shape[2]} k{layer.kernel_size[0]} "
           f"s{layer.stride[0]} p{layer.padding[0]} op{layer.output_padding[0]} d{layer.dilation[0]} "
           f"g{layer.groups} bias f32")
(folder / "layer.txt").write_text(problem + "\n")
with torch.no_grad():
    for name, tensor in (("weight", layer.weight), ("bias", layer.bias), ("x", x), ("y", layer(x))):
        tensor.contiguous().numpy().tofile(folder / f"{name}.bin")
print(problem)
