"""tconv's C API for the benchmark scripts, through ctypes: needs the built library, not the PyTorch binding.

Structs and functions are those of the Python package (python/tconv/_backends/capi.py), which is loaded by its path:
importing the package would load PyTorch and a backend.
"""

import importlib.util
import os
from ctypes import CDLL, c_char_p, c_int32, sizeof
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("tconv_capi", ROOT / "python" / "tconv" / "_backends" / "capi.py")
capi = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(capi)
CPU, CUDA = capi.CPU, capi.CUDA


def find_library():
    """TCONV_LIBRARY, else the newest of the build folders' libraries."""
    if "TCONV_LIBRARY" in os.environ:
        return os.environ["TCONV_LIBRARY"]
    found = [ROOT / "build" / preset / "libtconv.so" for preset in ("release", "cpu", "release-all")]
    found = sorted((path for path in found if path.exists()), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SystemExit("libtconv.so was not found: run `make build`, or set TCONV_LIBRARY")
    return str(found[-1])


def load():
    library = capi.declared(CDLL(find_library()))
    library.tconv_kernel_name.restype, library.tconv_kernel_name.argtypes = c_char_p, [c_int32]
    return library


LIB = load()


def check(status):
    if status != 0:
        raise RuntimeError(LIB.tconv_last_error().decode())


def kernels():
    """Names of all kernels, in the planner's order."""
    names = []
    while name := LIB.tconv_kernel_name(len(names)):
        names.append(name.decode())
    return names


class Plan(capi.Plan):
    """One problem text planned for one device; pointers are the caller's."""

    def __init__(self, text, device=CPU, threads=0, kernel=None, device_index=0):
        library = capi.Library(LIB)
        self.problem = library.parse(text)
        options = capi.PlanOptions(device=device, threads=threads, device_index=device_index)
        options.force_kernel = kernel.encode() if kernel else None
        super().__init__(library, self.problem, options)
        self.lout = library.output_length(self.problem)
        self.kernel = LIB.tconv_plan_kernel(self.handle).decode()

    def workspace_bytes(self, packed):
        return self.workspace_packed if packed else self.workspace_raw

    def pack(self, weight, packed, stream=None):
        check(LIB.tconv_pack(self.handle, weight, packed, self.packed_bytes, stream))

    def arguments(self, x, output, weight=None, packed=None, bias=None, workspace=None, workspace_bytes=0,
                  stream=None, grad_output=None, grad_bias=None):
        return capi.Arguments(struct_size=sizeof(capi.Arguments), x=x, output=output, weight=weight,
                              packed_weight=packed, bias=bias, grad_output=grad_output, workspace=workspace,
                              workspace_bytes=workspace_bytes, stream=stream, grad_bias=grad_bias)

    def run(self, arguments):
        check(LIB.tconv_run(self.handle, bytes(arguments)))
