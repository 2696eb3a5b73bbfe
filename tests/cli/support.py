import os
import pathlib
import subprocess

TCONV = os.path.abspath(os.environ.get("TCONV", "build/release/tconv"))
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROBLEM = "n1 ci8 co6 l20 k4 s2 p1 bias f32"


def tconv(*arguments, cwd=None, **environment):
    return subprocess.run([TCONV, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd,
                          env={**os.environ, **environment})
