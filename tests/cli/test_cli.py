"""The command line: exit status, one-line refusals, JSON, files of problems. TCONV names the program."""

import json
import pathlib
import sys
import tempfile
import unittest

from support import PROBLEM, SOURCE, Case, tconv


class Usage(Case):
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
        self.refused("plan", PROBLEM, "--device", "abacus", says="device 'abacus' is not known; the devices are cpu, cuda, h200")
        self.refused("check", PROBLEM, "--device", "h200", says="cannot run kernels")
        self.refused("plan", PROBLEM, "--kernel", "nonsense", says="is no kernel of this build")

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
        self.assertEqual(plan["output_shape"], [1, 6, 40])
        self.assertGreater(plan["floor"]["seconds"], 0)
        self.assertIn(plan["kernel"], tconv("plan", PROBLEM).stdout)
        forced = self.json("plan", PROBLEM, "--kernel", "reference")
        self.assertEqual((forced["kernel"], forced["forced"]), ("reference", True))
        self.assertIsNone(plan["predicted_ms"])

    def test_plan_tells_the_prediction_of_a_kernel_with_a_cost_model(self):
        if not any(k["device"] == "cuda" for k in self.json("info")["kernels"]):
            self.skipTest("built without CUDA: no kernel with a cost model")
        problem = ["n64 ci128 co128 l65536 k3 s1 p0 f32 tf32", "--device", "h200", "--kernel", "cuda.sm80.dense"]
        self.assertGreater(self.json("plan", *problem)["predicted_ms"], 1)
        self.assertIn("\npredicted  ", tconv("plan", *problem).stdout)

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

    def test_check_of_the_kernels_that_take_a_problem(self):
        # Many weights a group: cpu.depthwise refuses, cpu.dense takes it.
        taken, refused = "n1 ci4 co4 l60 k5 s1 p2 g4 f32", "n1 ci512 co512 l5 k8 s1 p0 f32"
        counts = self.json("check", taken, "--kernel", "cpu.depthwise,cpu.dense", "--where-supported")
        self.assertEqual((counts["wrong"], counts["kernels"]), (0, {"cpu.dense": 1, "cpu.depthwise": 1}))
        counts = self.json("check", refused, "--kernel", "cpu.depthwise,cpu.dense", "--where-supported")
        self.assertEqual((counts["wrong"], counts["left_out"], counts["kernels"]), (0, 0, {"cpu.dense": 1}))
        result = tconv("check", refused, "--kernel", "cpu.depthwise", "--where-supported")
        self.assertEqual((result.returncode, result.stdout),
                         (1, "1 problem, 0 wrong, 1 not supported by these kernels\n"), "nothing was checked")
        self.assertEqual(tconv("check", refused, "--kernel", "cpu.depthwise").returncode, 1)
        result = tconv("check", taken, "--kernel", "cpu.dense,nonsense", "--where-supported")
        self.assertEqual((result.returncode, result.stderr),
                         (2, "tconv: --kernel: 'nonsense' is no kernel of this build: tconv info lists them\n"))
        self.assertEqual(tconv("check", taken, "--where-supported").returncode, 2)

    def test_check_fails_with_status_1_and_the_problem(self):
        # A kernel that is not available counts as a failure, and so does a problem that does not fit in memory.
        arguments = ["check", "n1 ci64 co64 l100000 k3 s1 p0 f32", "--memory", "1"]
        result = tconv(*arguments)
        self.assertEqual(result.returncode, 1)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[-1], "1 problem, 1 wrong")
        self.assertTrue(lines[0].startswith("n1 ci64 co64 l100000 k3 s1 p0 f32: "), lines[0])
        failures = self.json(*arguments, status=1)["failures"]
        self.assertIn("not judged", failures[0]["failure"])

    def test_the_environment_forces(self):
        result = tconv("plan", PROBLEM, TCONV_FORCE_KERNEL="reference")
        self.assertIn("reference (forced)", result.stdout)

    def test_the_environments_kernel_leaves_other_devices_alone(self):
        result = tconv("plan", PROBLEM, TCONV_FORCE_KERNEL="cuda.simt.dense")
        self.assertEqual(result.returncode, 0, result)
        self.assertNotIn("(forced)", result.stdout)
        self.assertIn("TCONV_FORCE_KERNEL is cuda.simt.dense, which does not run on this device", result.stdout)

    def test_an_unknown_kernel_in_the_environment_is_refused(self):
        result = tconv("plan", PROBLEM, TCONV_FORCE_KERNEL="zebra")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("TCONV_FORCE_KERNEL is 'zebra': no such kernel; the kernels are ", result.stderr)


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
        self.assertEqual((result.returncode, result.stdout), (0, f"{len(small)} problem{'s' * (len(small) > 1)}, 0 wrong\n"))
        for broken, says in ((small[0].replace("fp32", "fp31"), "dtype 'fp31' is not known"),
                             (small[0].replace("\tTrue\t", "\tYes\t"), "bias is 'Yes'"),
                             (small[0] + "\tmore", "cells where the first line has"),
                             (small[0].replace("\t1\t", "\t1.5\t", 1), "not a whole number")):
            result = self.check(table[0] + "\n" + broken + "\n")
            self.assertEqual(result.returncode, 2, says)
            self.assertIn("line 2: ", result.stderr)
            self.assertIn(says, result.stderr)

    def test_every_committed_problem_file_reads(self):
        for name in ("layers.tsv", "seed.txt", "smoke.txt", "smoke-gpu.txt"):
            # One MiB is too little for all but the smallest: what counts is that every line is a problem.
            result = tconv("check", "--file", SOURCE / "tests/shapes" / name, "--memory", "1")
            self.assertIn(" problems, ", result.stdout.splitlines()[-1], result)

    def test_every_cuda_kernel_takes_a_problem_of_its_smoke_list(self):
        kernels = [k["name"] for k in json.loads(tconv("info", "--json").stdout)["kernels"] if k["device"] == "cuda"]
        lines = [line.split("#")[0].strip() for line in (SOURCE / "tests/shapes/smoke-gpu.txt").read_text().splitlines()]
        for kernel in kernels:
            taken = (tconv("plan", line, "--device", "h200", "--kernel", kernel).returncode == 0
                     for line in reversed(lines) if line)
            self.assertTrue(any(taken), kernel)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
