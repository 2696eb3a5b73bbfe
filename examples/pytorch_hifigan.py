"""HiFi-GAN on tconv: run, train on two processes, compile and export, each beside the unpatched model.

Needs transformers. The weights are random and the model is small: python examples/pytorch_hifigan.py
"""

import copy
import os
import socket
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

import tconv


def build() -> SpeechT5HifiGan:
    torch.manual_seed(0)
    config = SpeechT5HifiGanConfig(
        model_in_dim=16, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]],
    )  # fmt: skip
    return SpeechT5HifiGan(config)


def agree(what: str, ours: torch.Tensor, theirs: torch.Tensor, tolerance: float) -> None:
    error = ((ours - theirs).norm() / theirs.norm()).item()
    print(f"{what:<28} relative difference {error:.1e}")
    assert error <= tolerance, f"{what}: more than {tolerance}"


def ten_steps(model: nn.Module, rank: int) -> list[float]:
    """Each process has its own data; DDP averages the gradients."""
    model = DistributedDataParallel(model.train())
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(10):
        mel = torch.randn(2, 8, 16, generator=generator)
        target = torch.randn(2, 128, generator=generator).tanh()
        optimiser.zero_grad()
        loss = (model(mel) - target).abs().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def worker(rank: int, port: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for name in ("theirs", "ours"):
        model = build()
        if name == "ours":
            tconv.patch(model)
        losses = ten_steps(model, rank)
        if rank == 0:
            weights = torch.cat([p.detach().flatten() for p in model.parameters()])
            torch.save((torch.tensor(losses), weights), f"{folder}/{name}.pt")
    dist.destroy_process_group()


def train_on_two_processes() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(worker, (port, folder), nprocs=2)
        ours, theirs = (torch.load(f"{folder}/{name}.pt") for name in ("ours", "theirs"))
    agree("losses of ten DDP steps", ours[0], theirs[0], 1e-4)
    agree("weights after them", ours[1], theirs[1], 1e-3)


def main(backend: str = "inductor") -> None:
    model = build().eval()
    patched = copy.deepcopy(model)
    print(f"{tconv.build_info()}\nlayers swapped: {tconv.patch(patched)}")

    mel = torch.randn(2, 30, 16)
    with torch.no_grad():
        expected = model(mel)
        agree("output", patched(mel), expected, 1e-5)
        compiled = torch.compile(patched, fullgraph=True, backend=backend)
        agree(f"compiled ({backend})", compiled(mel), expected, 1e-5)
        length = torch.export.Dim("length", min=2, max=4000)
        program = torch.export.export(patched, (mel,), dynamic_shapes=({1: length},))
        longer = torch.randn(2, 50, 16)
        agree("exported, another length", program.module()(longer), model(longer), 1e-5)
    train_on_two_processes()


if __name__ == "__main__":
    main(*sys.argv[1:])
