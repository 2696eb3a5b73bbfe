"""scripts/gpu_tests with a GPU, a build and an interpreter that are played: what it counts, and when it fails."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOGLETEST = "[==========] 72 tests ran.\n[  PASSED  ] 70 tests.\n"
PYTEST = "....\n319 passed, 2 skipped, 5 deselected in 33.10s\n"


def play(path, text="", status=0, before=""):
    """A program that prints text and ends with the status."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{before}\ncat <<'WORDS'\n{text}WORDS\nexit {status}\n")
    path.chmod(0o755)


class GpuTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        for name in ("scripts/gpu_tests", "tests/python/conftest.py"):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.path / name)
        play(self.path / "bin/nvidia-smi", "NVIDIA H200, 580.1\n")
        play(self.path / "build/release/tconv", "10 problems, 0 wrong\n",
             before='[ "$1" != --version ] || { echo "tconv 9, CUDA"; exit; }')
        play(self.path / "build/release/tests/test_gpu", GOOGLETEST)
        (self.path / "build/release-torch").mkdir()
        (self.path / "build/release-torch/libtconv_torch.so").touch()
        self.python()

    def python(self, text=PYTEST, status=0, has_torch=True):
        """Asked with -c for PyTorch, run with -m pytest."""
        play(self.path / "python", text, status, before=f'''
[ "$1" != -c ] || exit {0 if has_torch else 1}
echo "$@ with $TCONV_LIBRARY_DIR and $PYTHONPATH" >{self.path}/called''')

    def run_script(self, *arguments, **environment):
        environment = {"TCONV_PYTHON": str(self.path / "python"), **environment}
        result = subprocess.run([self.path / "scripts/gpu_tests", *arguments], capture_output=True, text=True,
                                env={**os.environ, "PYTHONPATH": "", "TCONV_LIBRARY_DIR": "",
                                     "PATH": f"{self.path}/bin:{os.environ['PATH']}", **environment})
        return result, result.stdout.splitlines()[-1] if result.stdout else ""

    def status(self):
        return (self.path / "docs/generated/gpu-status.md").read_text()

    def test_everything_in_one_sum_and_one_file(self):
        result, last = self.run_script()
        self.assertEqual((result.returncode, last), (0, "439 passed, 0 failed"), result)  # 70 + 5 * 10 + 319
        self.assertIn("- GPU and driver: NVIDIA H200, 580.1\n- build: tconv 9, CUDA\n", self.status())
        self.assertIn("**439 passed, 0 failed**", self.status())
        self.assertRegex(self.status(), r"\| pytest --device cuda \| 319 \| 0 \| \d+ \|\n$")
        self.assertIn("check: 20000 random problems", self.status())
        called = (self.path / "called").read_text()
        self.assertIn("-m pytest", called)
        self.assertIn("--device cuda", called)
        self.assertIn(f"with {self.path}/build/release-torch and {self.path}/python", called)
        self.assertEqual([p.name for p in (self.path / "docs/generated").iterdir()], ["gpu-status.md"])

    def test_a_missing_pytorch_is_a_failure_in_words(self):
        self.python(has_torch=False)
        result, last = self.run_script()
        self.assertEqual((result.returncode, last), (1, "120 passed, 1 failed"))
        self.assertIn(f"no PyTorch and pytest in {self.path}/python", self.status())
        self.assertFalse((self.path / "called").exists())

    def test_a_missing_binding_is_a_failure_in_words(self):
        (self.path / "build/release-torch/libtconv_torch.so").unlink()
        result, last = self.run_script()
        self.assertEqual((result.returncode, last), (1, "120 passed, 1 failed"))
        self.assertIn("no libtconv_torch.so in ", self.status())

    def test_the_binding_may_lie_elsewhere(self):
        (self.path / "elsewhere").mkdir()
        (self.path / "build/release-torch/libtconv_torch.so").rename(self.path / "elsewhere/libtconv_torch.so")
        result, _ = self.run_script(TCONV_LIBRARY_DIR=str(self.path / "elsewhere"))
        self.assertEqual(result.returncode, 0, result)
        self.assertIn(f"with {self.path}/elsewhere and", (self.path / "called").read_text())

    def test_without_python_when_told(self):
        self.python(has_torch=False)
        result, last = self.run_script("--without-python", "build/release")
        self.assertEqual((result.returncode, last), (0, "120 passed, 0 failed"))
        self.assertIn("| pytest --device cuda | not run (--without-python) | | |", self.status())

    def test_failures_of_pytest_count(self):
        for text, status, passed, failed in (
                ("FAILED tests/python/test_x.py::t\n2 failed, 300 passed, 1 error in 9s\n", 1, 420, 3),
                ("no tests ran in 0.01s\n", 5, 120, 1), ("Segmentation fault\n", 139, 120, 1)):
            self.python(text, status)
            result, last = self.run_script()
            self.assertEqual((result.returncode, last), (1, f"{passed} passed, {failed} failed"), text)

    def test_other_failures_count(self):
        play(self.path / "build/release/tconv", "n1 ci1: wrong\n10 problems, 3 wrong\n", 1)
        result, last = self.run_script()
        self.assertEqual((result.returncode, last), (1, "424 passed, 15 failed"))
        play(self.path / "build/release/tconv", "terminate called\n", 134)
        play(self.path / "build/release/tests/test_gpu", "Aborted\n", 134)
        result, last = self.run_script()
        self.assertEqual((result.returncode, last), (1, "319 passed, 6 failed"))

    def test_no_gpu_and_no_build(self):
        play(self.path / "bin/nvidia-smi", "", 1)
        result, last = self.run_script()
        self.assertEqual((result.returncode, last), (1, "0 passed, 1 failed"))
        self.assertFalse((self.path / "docs").exists())
        result, last = self.run_script("nowhere")
        self.assertEqual((result.returncode, last), (1, "0 passed, 1 failed"))
        result, _ = self.run_script("--nonsense")
        self.assertEqual((result.returncode, result.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
