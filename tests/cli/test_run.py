"""tconv run: arrays in and out. Needs Python alone; where NumPy is installed, files of its own are read too."""

import os
import pathlib
import random
import sys
import tempfile
import unittest

import npy
from support import tconv

try:
    import numpy
except ImportError:
    numpy = None


class Arrays(unittest.TestCase):
    OPTIONS = {"stride": 3, "padding": 2, "output_padding": 1, "groups": 2}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def read(self, name):
        return npy.from_bytes((self.path / f"{name}.npy").read_bytes())

    def save(self, how={}, **arrays):
        for name, array in arrays.items():
            (self.path / f"{name}.npy").write_bytes(npy.to_bytes(array, **how))

    def run_arrays(self, *more, bias=True, output="y.npy", **options):
        arguments = ["--input", self.path / "x.npy", "--weight", self.path / "w.npy"]
        arguments += ["--bias", self.path / "b.npy"] if bias else []
        for name, value in {**self.OPTIONS, **options}.items():
            arguments += ["--" + name.replace("_", "-"), value]
        return tconv("run", *arguments, "--output", self.path / output, *more)

    def arrays(self, descr="<f4", **how):
        """Small integers, so that every dtype holds the exact result."""
        draw = random.Random(1)
        x, w, b = (npy.Array(shape, [draw.randint(-4, 4) for _ in range(count)], descr)
                   for shape, count in (((2, 4, 17), 136), ((4, 3, 5), 60), ((6,), 6)))
        self.save(how, x=x, w=w, b=b)
        return x, w, b

    def expect_right(self, result, x, w, b):
        self.assertEqual(result.returncode, 0, result.stderr)
        y, expected = self.read("y"), npy.conv_transpose1d(x, w, b, **self.OPTIONS)
        self.assertEqual((y.shape, y.descr, y.values), (expected.shape, x.descr, expected.values))

    def test_every_dtype_order_and_version(self):
        for descr in ("<f4", "<f8", "<f2"):
            for fortran in (False, True):
                for version in (1, 2, 3):
                    x, w, b = self.arrays(descr, fortran=fortran, version=version)
                    self.expect_right(self.run_arrays(), x, w, b)

    def test_unbatched_and_without_bias(self):
        x, w, _ = self.arrays()
        first = npy.Array((4, 17), x.values[:68])
        self.save(x=first)
        self.assertEqual(self.run_arrays(bias=False).returncode, 0)
        y, whole = self.read("y"), npy.conv_transpose1d(x, w, None, **self.OPTIONS)
        self.assertEqual((y.shape, y.values), (whole.shape[1:], whole.values[: len(y.values)]))

    def test_an_empty_batch(self):
        _, w, b = self.arrays()
        self.save(x=npy.Array((0, 4, 17), []))
        self.assertEqual(self.run_arrays().returncode, 0)
        self.assertEqual(self.read("y").shape, (0, 6, 50))

    def test_bfloat16_has_to_be_named(self):
        def bits(array):
            values = [npy.struct.unpack("<I", npy.struct.pack("<f", v))[0] >> 16 for v in array.values]
            return npy.Array(array.shape, values, "<V2")

        x, w, b = self.arrays()
        self.save(x=bits(x), w=bits(w), b=bits(b))
        result = self.run_arrays()
        self.assertEqual(result.returncode, 2)
        self.assertIn("x.npy: its elements are two bytes without a type", result.stderr)
        result = self.run_arrays("--dtype", "bf16")
        self.assertEqual(result.returncode, 0, result.stderr)
        expected = npy.conv_transpose1d(x, w, b, **self.OPTIONS)
        y = self.read("y")
        self.assertEqual(y.descr, "<V2")
        wide = [npy.struct.unpack("<f", npy.struct.pack("<I", v << 16))[0] for v in y.values]
        self.assertLess(max(map(abs, expected.values)), 256)  # bfloat16 holds them all
        self.assertEqual(wide, expected.values)

    def test_refused_files_are_named_and_nothing_is_written(self):
        x, _, _ = self.arrays()
        good, data = npy.to_bytes(x), npy.to_bytes(x)[128:]
        header = good[:128]
        broken = {
            "it is not a .npy file": b"",
            "is not a .npy file": b"RIFF" + good[4:],
            "truncated within its header": good[:50],
            "truncated: its header says 544 bytes of data, and 543 are there": good[:-1],
            "1 bytes more than its header says": good + b"x",
            "format version is 9": good[:6] + b"\x09" + good[7:],
            "header is longer than 64 KiB": good[:6] + b"\x02\x00\xff\xff\xff\xff" + good[12:],
            "big-endian": header.replace(b"<f4", b">f4") + data,
            "its elements are '<i4'": header.replace(b"<f4", b"<i4") + data,
            "not plain numbers": header.replace(b"'<f4'", b"[('', '<f4')]").replace(b" " * 8, b"", 1) + data,
            "not NumPy's dictionary": header.replace(b"'shape'", b"'shave'") + data,
            "lacks descr": header.replace(b", 'shape': (2, 4, 17)", b"                     ") + data,
            "more than 2^62 bytes":
                header.replace(b"(2, 4, 17)}" + b" " * 20, b"(2, 4, 999999999999999999)}    ") + data,
            "does not fit in 63 bits":
                header.replace(b"(2, 4, 17)}" + b" " * 20, b"(2, 4, 99999999999999999999)}  ") + data,
        }
        for says, content in broken.items():
            (self.path / "x.npy").write_bytes(content)
            result = self.run_arrays()
            self.assertEqual(result.returncode, 2, (says, result))
            self.assertIn("x.npy: ", result.stderr)
            self.assertIn(says, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)
            self.assertEqual(list(self.path.glob("y*")), [])

    def test_what_is_no_file(self):
        self.arrays()
        (self.path / "x.npy").unlink()
        self.assertIn("x.npy: cannot be read: No such file", self.run_arrays().stderr)
        (self.path / "x.npy").mkdir()
        result = self.run_arrays()
        self.assertEqual(result.returncode, 2)
        self.assertIn("x.npy: is a directory, not a file", result.stderr)

    def test_wrong_shapes_and_dtypes(self):
        x, w, b = self.arrays()
        for wrong, says in (({"x": npy.Array((136,), x.values)}, "x.npy: its shape is (136)"),
                            ({"w": npy.Array((12, 5), w.values)}, "w.npy: its shape is (12, 5)"),
                            ({"w": npy.Array((3, 4, 5), w.values)}, "(3, 4, 5), and (4, cout/groups, k)"),
                            ({"b": npy.Array((5,), b.values[:5])}, "b.npy: its shape is (5), and (6)"),
                            ({"w": npy.Array((4, 3, 5), w.values, "<f8")}, "w.npy: holds f64, and f32")):
            self.save(x=x, w=w, b=b)
            self.save(**wrong)
            result = self.run_arrays()
            self.assertEqual(result.returncode, 2, says)
            self.assertIn(says, result.stderr)
        self.save(x=x, w=w, b=b)
        self.assertIn("groups is 0", self.run_arrays(groups=0).stderr)
        self.assertIn("stride is -1", self.run_arrays(stride=-1).stderr)
        self.assertIn("x.npy: holds f32, and f16", self.run_arrays("--dtype", "f16").stderr)

    def test_an_output_that_cannot_be_written(self):
        self.arrays()
        result = self.run_arrays(output="no/folder/y.npy")
        self.assertEqual(result.returncode, 1)
        self.assertIn("y.npy: cannot be written: No such file or directory", result.stderr)

    def test_an_existing_output_is_replaced_whole(self):
        x, w, b = self.arrays()
        (self.path / "y.npy").write_bytes(b"old")
        self.expect_right(self.run_arrays(), x, w, b)
        self.assertEqual([p.name for p in self.path.glob("y*")], ["y.npy"])
        umask = os.umask(0)
        os.umask(umask)
        self.assertEqual((self.path / "y.npy").stat().st_mode & 0o777, 0o666 & ~umask)

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_files_of_numpy_itself(self):
        x, w, b = self.arrays()
        for order in "CF":
            for name, array in (("x", x), ("w", w), ("b", b)):
                values = numpy.asarray(array.values, "<f4").reshape(array.shape)
                numpy.save(self.path / f"{name}.npy", numpy.asarray(values, order=order))
            self.expect_right(self.run_arrays(), x, w, b)
            y = numpy.load(self.path / "y.npy")
            self.assertEqual((y.shape, y.dtype), ((2, 6, 50), numpy.dtype("<f4")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
