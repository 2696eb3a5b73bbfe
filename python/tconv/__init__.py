"""tconv: 1-D convolution and transposed 1-D convolution, drop-ins for PyTorch's.

    import tconv
    tconv.patch(model)                        # every nn.ConvTranspose1d and nn.Conv1d of the model runs on tconv
    y = tconv.conv_transpose1d(x, w, b, 2)    # or one call, as torch.nn.functional.conv_transpose1d

docs/pytorch.md has what is supported and what is not.
"""

from tconv._library import __version__, build_info
from tconv._explain import explain
from tconv._functional import conv1d, conv_transpose1d, precision
from tconv._module import Conv1d, ConvTranspose1d
from tconv._packing import prepack
from tconv._patching import patch, unpatch

__all__ = [
    "Conv1d",
    "ConvTranspose1d",
    "__version__",
    "build_info",
    "conv1d",
    "conv_transpose1d",
    "explain",
    "patch",
    "precision",
    "prepack",
    "unpatch",
]
