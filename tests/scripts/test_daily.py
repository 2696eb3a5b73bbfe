"""The commands of CONTRIBUTING.md's first table, against the Makefile and the scripts. BUILD names a built folder."""

import os
import pathlib
import re
import shlex
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("BUILD", "build/release")


def commands():
    table = (ROOT / "CONTRIBUTING.md").read_text().split("\n\n")[2]
    return re.findall(r"^\| [^|]+ \| `([^`]+)` \|$", table, re.MULTILINE)


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


class Daily(unittest.TestCase):
    def test_each_command_exists(self):
        rows = commands()
        self.assertGreater(len(rows), 8)
        for row in rows:
            words = shlex.split(row)
            with self.subTest(command=row):
                if words[0] == "make":
                    result = run("make", "-n", *words[1:])
                    self.assertEqual(result.returncode, 0, result.stderr)
                else:
                    self.assertTrue(os.access(ROOT / words[0], os.X_OK))

    def test_a_missing_name_is_asked_for(self):
        for target in ("one-test", "bench"):
            result = run("make", target, f"BUILD={BUILD}")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(f"make {target} needs a", result.stderr)

    def test_one_test_runs_that_test(self):
        result = run("make", "one-test", "TEST=^readme_snippets$", f"BUILD={BUILD}")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("0 tests failed out of 1", result.stdout)

    def test_a_kernel_is_judged_on_two_kinds_of_data(self):
        result = run("make", "kernel-test", "KERNEL=cpu.dense", "COUNT=30", f"BUILD={BUILD}")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(len(re.findall(r"^30 problems, 0 wrong", result.stdout, re.MULTILINE)), 2)

    def test_an_unknown_kernel_fails(self):
        self.assertNotEqual(run("make", "kernel-test", "KERNEL=none", "COUNT=3", f"BUILD={BUILD}").returncode, 0)

    def test_a_problem_is_measured(self):
        result = run("make", "bench", "PROBLEM=n1 ci8 co4 l100 k4 s2 p1 f32", f"BUILD={BUILD}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("median ms", result.stdout)


if __name__ == "__main__":
    unittest.main()
