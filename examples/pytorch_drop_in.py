import torch
from torch import nn

model = nn.Sequential(nn.Conv1d(80, 256, 7, padding=3), nn.ConvTranspose1d(256, 128, 16, stride=8, padding=4))
mel = torch.randn(1, 80, 100)
before = model(mel)  # on PyTorch

import tconv  # noqa: E402

tconv.patch(model)  # every ConvTranspose1d and Conv1d, in place: the same parameters, state_dict, hooks
after = model(mel)  # on tconv
torch.testing.assert_close(after, before)
