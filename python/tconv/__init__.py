"""tconv: transposed 1-D convolution, a drop-in for PyTorch's.

    import tconv
    tconv.patch(model)                        # every nn.ConvTranspose1d of the model now runs on tconv
    y = tconv.conv_transpose1d(x, w, b, 2)    # or one call, as torch.nn.functional.conv_transpose1d

docs/pytorch.md has what is supported and what is not.
"""

from tconv._library import __version__, build_info
from tconv._explain import explain
from tconv._functional import conv_transpose1d, precision
from tconv._module import ConvTranspose1d
from tconv._packing import prepack
from tconv._patching import patch, unpatch

__all__ = [
    "ConvTranspose1d",
    "__version__",
    "build_info",
    "conv_transpose1d",
    "explain",
    "patch",
    "precision",
    "prepack",
    "unpatch",
]
