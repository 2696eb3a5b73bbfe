"""The command line: exit status, one-line refusals, JSON, and arrays in and out.

Needs Python's standard library alone; with NumPy there, its own files are read too. TCONV names the program.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import npy

try:
    import numpy
except ImportError:
    numpy = None

TCONV = os.environ.get("TCONV", "build/release/tconv")
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROBLEM = "n1 ci8 co6 l20 k4 s2 p1 bias f32"


def tconv(*arguments, **environment):
    return subprocess.run([TCONV, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


class Usage(unittest.TestCase):
    def refused(self, *arguments, status=2, says=None):
        result = tconv(*arguments)
        self.assertEqual(result.returncode, status, (arguments, result))
        self.assertEqual(result.stdout, "", arguments)
        self.assertTrue(result.stderr.startswith("tconv: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        if says:
            self.assertIn(says, result.stderr)

    def test_bad_usage_is_status_2_and_one_line(self):
        self.refused()
        self.refused("nonsense")
        self.refused("plan")
        self.refused("plan", "--nonsense", PROBLEM)
        self.refused("check")
        self.refused("check", PROBLEM, "--random", "5")
        self.refused("check", "--random", "-5")
        self.refused("check", "--random", "five")
        self.refused("check", PROBLEM, "--threads", "-1")
        self.refused("bench")
        self.refused("bench", PROBLEM, "--seconds", "0")
        self.refused("bench", "n0 ci8 co6 l20 k4", says="no output")
        self.refused("run", "--input", "x.npy")

    def test_bad_problems_are_status_2_and_say_where(self):
        self.refused("plan", "n1 ci8 zebra", says="column 8: 'zebra' is not a word of a problem")
        self.refused("check", "ci8 co9 l5 k3 g2", says="groups is 2: must divide cout, which is 9")
        self.refused("bench", "ci8 co8 l5", says="column 11: the word k# is missing")

    def test_unknown_devices_and_kernels(self):
        self.refused("plan", PROBLEM, "--device", "abacus", says="device 'abacus' is not known")
        self.refused("check", PROBLEM, "--device", "h200", says="cannot run kernels")
        self.refused("plan", PROBLEM, "--kernel", "nonsense", says="no such kernel")

    def test_a_forced_kernel_of_another_device_says_so(self):
        info = json.loads(tconv("info", "--json").stdout)
        for kernel in info["kernels"]:
            if kernel["device"] == "cuda":
                self.refused("plan", PROBLEM, "--kernel", kernel["name"], status=1, says="is forced, but")

    def test_help_and_version(self):
        for arguments in (["--help"], ["--version"], ["check", "--help"]):
            result = tconv(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertGreater(len(result.stdout), 10)


class Tables(unittest.TestCase):
    def json(self, *arguments, status=0):
        result = tconv(*arguments, "--json")
        self.assertEqual(result.returncode, status, result)
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)

    def test_info(self):
        info = self.json("info")
        self.assertGreaterEqual(info["cpu"]["threads"], 1)
        self.assertEqual(info["kernels"][-1]["name"], "reference")
        self.assertIn("reference", tconv("info").stdout)

    def test_plan(self):
        plan = self.json("plan", PROBLEM)
        self.assertEqual(plan["output_shape"], "(1, 6, 40)")
        self.assertGreater(plan["floor"]["seconds"], 0)
        self.assertIn(plan["kernel"], tconv("plan", PROBLEM).stdout)
        forced = self.json("plan", PROBLEM, "--kernel", "reference")
        self.assertEqual((forced["kernel"], forced["forced"]), ("reference", True))

    def test_bench(self):
        rows = self.json("bench", PROBLEM, "--seconds", "0.01")
        self.assertIn(rows[0]["weights"], ("raw", "packed"))
        for row in rows:
            self.assertGreater(row["seconds"], 0)
            self.assertGreater(row["share"], 0)
            self.assertGreaterEqual(row["calls"], 5)

    def test_check(self):
        result = tconv("check", "--random", 30, "--seed", 3)
        self.assertEqual((result.returncode, result.stdout), (0, "30 problems, 0 wrong\n"))
        self.assertEqual(result.stderr, "", "progress belongs on a terminal")
        counts = self.json("check", "--random", 30, "--seed", 3, "--kernel", "all")
        self.assertEqual((counts["problems"], counts["wrong"], counts["failures"]), (30, 0, []))
        self.assertGreaterEqual(counts["verdicts"], 30)

    def test_check_fails_with_status_1_and_the_problem(self):
        # A kernel that cannot be had is a wrong problem, as is one that memory does not suffice for.
        arguments = ["check", "n1 ci64 co64 l100000 k3 s1 p0 f32", "--memory", "1"]
        result = tconv(*arguments)
        self.assertEqual(result.returncode, 1)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[-1], "1 problems, 1 wrong")
        self.assertTrue(lines[0].startswith("n1 ci64 co64 l100000 k3 s1 p0 f32: "), lines[0])
        failures = self.json(*arguments, status=1)["failures"]
        self.assertIn("not judged", failures[0]["failure"])

    def test_the_environment_forces(self):
        result = tconv("plan", PROBLEM, TCONV_FORCE_KERNEL="reference")
        self.assertIn("reference (forced)", result.stdout)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def check(self, text):
        (self.path / "problems").write_text(text)
        return tconv("check", "--file", self.path / "problems")

    def test_problem_lines(self):
        result = self.check("# two problems\n\nn1 ci2 co2 l5 k3  # the first\n  ci3 co3 l4 k2\r\n")
        self.assertEqual((result.returncode, result.stdout), (0, "2 problems, 0 wrong\n"))

    def test_refusals_name_file_and_line(self):
        for text, says in (("ci2 co2 l5 k3\nci2 co2 l5 kk\n", "problems, line 2: column 12"),
                           ("# nothing\n", "holds no problem"),
                           ("ci2 co3 l5 k3 g2\n", "problems, line 1: groups is 2")):
            result = self.check(text)
            self.assertEqual(result.returncode, 2)
            self.assertIn(says, result.stderr)
        result = tconv("check", "--file", self.path / "absent")
        self.assertEqual(result.returncode, 2)
        self.assertIn("absent: cannot be read", result.stderr)

    def test_layer_table(self):
        table = (SOURCE / "tests/shapes/layers.tsv").read_text().splitlines()
        small = [line for line in table[1:] if int(line.split("\t")[12]) <= 16 and int(line.split("\t")[3]) <= 64]
        self.assertGreater(len(small), 0)
        result = self.check("\n".join([table[0], *small]) + "\n")
        self.assertEqual((result.returncode, result.stdout), (0, f"{len(small)} problems, 0 wrong\n"))
        for broken, says in ((small[0].replace("fp32", "fp31"), "dtype 'fp31' is not known"),
                             (small[0].replace("\tTrue\t", "\tYes\t"), "bias is 'Yes'"),
                             (small[0] + "\tmore", "cells where the first line has"),
                             (small[0].replace("\t1\t", "\t1.5\t", 1), "not a whole number")):
            result = self.check(table[0] + "\n" + broken + "\n")
            self.assertEqual(result.returncode, 2, says)
            self.assertIn("line 2: ", result.stderr)
            self.assertIn(says, result.stderr)

    def test_every_committed_problem_file_reads(self):
        for name in ("layers.tsv", "seed.txt", "smoke.txt"):
            # One MiB is too little for all but the smallest: what counts is that every line is a problem.
            result = tconv("check", "--file", SOURCE / "tests/shapes" / name, "--memory", "1")
            self.assertIn(" problems, ", result.stdout.splitlines()[-1], result)


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
        self.assertIn("x.npy: its elements are two bytes of no type", result.stderr)
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
            "it is no .npy file": b"",
            "is no .npy file": b"RIFF" + good[4:],
            "truncated within its header": good[:50],
            "truncated: its header asks for 544 bytes of data, and 543 are there": good[:-1],
            "1 bytes more than its header asks for": good + b"x",
            "format version is 9": good[:6] + b"\x09" + good[7:],
            "header is longer than 64 KiB": good[:6] + b"\x02\x00\xff\xff\xff\xff" + good[12:],
            "big-endian": header.replace(b"<f4", b">f4") + data,
            "its elements are '<i4'": header.replace(b"<f4", b"<i4") + data,
            "no plain numbers": header.replace(b"'<f4'", b"[('', '<f4')]").replace(b" " * 8, b"", 1) + data,
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
        self.assertIn("x.npy: is no regular file", result.stderr)

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
