"""TCONV_SIMD: the smoke problems on every SIMD target of this machine, and refusals of others."""

import json
import unittest

from support import PROBLEM, SOURCE, tconv

SMOKE = SOURCE / "tests/shapes/smoke.txt"


def processor(**environment):
    return json.loads(tconv("info", "--json", **environment).stdout)["cpu"]


class Simd(unittest.TestCase):
    def test_every_target_is_right(self):
        targets = processor(TCONV_SIMD="")["simd_targets"]
        self.assertTrue(targets)
        for target in targets:
            with self.subTest(target=target):
                self.assertEqual(processor(TCONV_SIMD=target)["simd"], target)
                result = tconv("check", "--file", SMOKE, "--kernel", "all", TCONV_SIMD=target)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_best_is_the_default(self):
        found = processor(TCONV_SIMD="")
        self.assertEqual(found["simd"], found["simd_targets"][0])

    def test_others_are_refused_when_a_plan_is_made(self):
        targets = processor(TCONV_SIMD="")["simd_targets"]
        for name in ["NEON" if "NEON" not in targets else "AVX3", "avx2", "AVX1024", " "]:
            with self.subTest(name=name):
                result = tconv("plan", PROBLEM, TCONV_SIMD=name)
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertIn(f"TCONV_SIMD is '{name}'", result.stderr)
                self.assertIn(targets[0], result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1)
                # What this machine has can be asked for all the same.
                self.assertIn("TCONV_SIMD", tconv("info", TCONV_SIMD=name).stdout)

    def test_the_option(self):
        for target in processor(TCONV_SIMD="")["simd_targets"]:
            result = tconv("info", "--json", "--simd", target, TCONV_SIMD="ZEBRA")
            self.assertEqual(json.loads(result.stdout)["cpu"]["simd"], target)
            self.assertEqual(tconv("check", PROBLEM, "--simd", target).returncode, 0)
            self.assertIn("kernel     reference", tconv("plan", PROBLEM, "--simd", target, "--kernel", "reference").stdout)

    def test_a_check_is_refused_once(self):
        result = tconv("check", "--random", 50, TCONV_SIMD="ZEBRA")
        self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (2, "", 1))
        self.assertIn("TCONV_SIMD is 'ZEBRA'", result.stderr)

    def test_the_command_of_a_failure_has_the_target(self):
        best = processor(TCONV_SIMD="")["simd_targets"][0]
        arguments = ["check", "n1 ci64 co64 l100000 k3", "--memory", 1]
        for result in (tconv(*arguments, TCONV_SIMD=best), tconv(*arguments, "--simd", best)):
            self.assertTrue(result.stdout.splitlines()[0].endswith(f"--memory 1 --simd {best}"), result)
        forced = tconv(*arguments, TCONV_SIMD="", TCONV_FORCE_KERNEL="reference").stdout.splitlines()[0]
        self.assertTrue(forced.endswith("--kernel reference --memory 1"), forced)


if __name__ == "__main__":
    unittest.main()
