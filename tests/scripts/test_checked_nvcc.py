"""scripts/checked_nvcc: a kernel whose wgmma is serialised does not compile, one whose wgmma is not does.

    test_checked_nvcc.py NVCC
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVCC = sys.argv.pop() if len(sys.argv) > 1 else "nvcc"


class CheckedNvcc(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.object = pathlib.Path(folder.name) / "serialised.o"

    def compile(self, *defines):
        return subprocess.run(
            [ROOT / "scripts/checked_nvcc", NVCC, "-std=c++20", "--expt-relaxed-constexpr",
             "-gencode=arch=compute_90a,code=sm_90a", *defines, f"-I{ROOT / 'src'}", "-c",
             ROOT / "tests/cuda/serialised.cu", "-o", self.object], capture_output=True, text=True)

    def test_serialised(self):
        result = self.compile()
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"\(C75\d\d\)")
        self.assertIn("serialises wgmma", result.stderr)
        self.assertFalse(self.object.exists(), "a later build would take the object for good")

    def test_sound(self):
        result = self.compile("-DSOUND")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(self.object.exists())

    def test_other_failures_pass_through(self):
        result = self.compile("-Dfloat=?")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("error", result.stderr)


if __name__ == "__main__":
    unittest.main()
