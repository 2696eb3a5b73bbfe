"""scripts/gpu_sanitize with a sanitizer and a build that are played: a tool that sees nothing must fail."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu_sanitize"
KERNELS = ["cuda.sm80.dense", "cuda.simt.plain"]
REPORTS = {"memcheck": "Invalid __global__ write of size 4 bytes", "racecheck": "Error: Race reported between",
           "initcheck": "Uninitialized __global__ memory read of size 4", "synccheck": "Barrier error detected."}

# Plays compute-sanitizer: reports what the environment's PLAY says of (tool, what runs): fault, sound, check or tests.
SANITIZER = """#!/usr/bin/env python3
import json, os, sys
play = json.loads(os.environ["PLAY"])
tool, rest = sys.argv[2], sys.argv[sys.argv.index("--log-file") + 2:]
kind = ("check" if "check" in rest else "sound" if "sound" in rest else
        "tests" if rest[0].endswith("test_gpu") else "fault")
status, words, output = play[tool][kind]
open(sys.argv[sys.argv.index("--log-file") + 1], "w").write(f"========= {words}\\n========= ERROR SUMMARY: n errors\\n")
open(os.environ["CALLED"], "a").write(" ".join([tool, *rest]) + "\\n")
print(output)
sys.exit(status)
"""


def found(kernels=KERNELS, wrong=0):
    return json.dumps({"problems": 40, "wrong": wrong, "verdicts": 90, "kernels": dict.fromkeys(kernels, 45)})


class Sanitize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        (self.path / "tests").mkdir()
        for program in ("planted", "test_gpu"):
            (self.path / "tests" / program).touch()
        info = {"kernels": [{"name": name, "device": "cuda"} for name in KERNELS] + [
            {"name": "cpu.dense", "device": "cpu"}]}
        (self.path / "tconv").write_text(f"#!/bin/sh\necho '{json.dumps(info)}'\n")
        (self.path / "sanitizer").write_text(SANITIZER)
        for name in ("tconv", "sanitizer"):
            (self.path / name).chmod(0o755)
        self.play = {tool: {"fault": [9, words, "planted ran"], "sound": [0, "", "planted ran"],
                            "check": [0, "", found()], "tests": [0, "", "[==] 3 tests ran. (9 ms total)"]} for tool, words in REPORTS.items()}

    def run_script(self, *arguments, folder=None):
        result = subprocess.run(
            [sys.executable, SCRIPT, folder or self.path, *arguments], capture_output=True, text=True,
            env={**os.environ, "PLAY": json.dumps(self.play), "CALLED": str(self.path / "called"),
                 "COMPUTE_SANITIZER": str(self.path / "sanitizer")})
        return result, (result.stdout.splitlines() or [""])[-1]

    def test_four_clean_tools(self):
        result, last = self.run_script()
        self.assertEqual((result.returncode, last), (0, "4 tools, 0 with errors"), result)
        self.assertEqual(len(result.stdout.splitlines()), 5)
        self.assertRegex(result.stdout, r"racecheck: planted fault reported; 40 problems, 2 kernels, 90 verdicts, "
                                        r"0 wrong; ERROR SUMMARY: n errors; 3 tests ran. \(9 ms total\) Exit 0, "
                                        r"\d+ s\n")
        called = (self.path / "called").read_text()
        self.assertEqual(called.count("--kernel all"), 4)
        for tool, fault in (("memcheck", "out-of-bounds"), ("racecheck", "race"), ("initcheck", "uninitialised"),
                            ("synccheck", "barrier")):
            self.assertIn(f"{tool} {self.path}/tests/planted {fault}\n", called)
            self.assertIn(f"{tool} {self.path}/tests/planted {fault} sound\n", called)

    def test_a_tool_that_misses_the_planted_fault_fails(self):
        for missed in ([0, "", "ran"], [9, "some other words", "ran"], [1, REPORTS["racecheck"], ""]):
            self.play["racecheck"]["fault"] = missed
            result, last = self.run_script()
            self.assertEqual((result.returncode, last), (1, "4 tools, 1 with errors"), missed)
            self.assertIn("racecheck: did NOT report the planted fault 'race'", result.stdout)

    def test_a_tool_that_reports_without_a_fault_fails(self):
        self.play["initcheck"]["sound"] = [9, "Uninitialized", "ran"]
        result, last = self.run_script("initcheck")
        self.assertEqual((result.returncode, last), (1, "1 tools, 1 with errors"))
        self.assertIn("initcheck: reports something where no fault is planted", result.stdout)

    def test_errors_in_the_kernels_fail(self):
        for check, says in (([9, "Invalid read", found()], "Invalid read"), ([0, "", found(wrong=1)], "1 wrong"),
                            ([1, "", ""], "did not finish"),
                            ([0, "", found(KERNELS[:1])], "never ran: cuda.simt.plain")):
            self.play["memcheck"]["check"] = check
            result, last = self.run_script("memcheck")
            self.assertEqual((result.returncode, last), (1, "1 tools, 1 with errors"), check)
            self.assertIn(says, result.stdout)

    def test_errors_in_the_tests_of_configurations_fail(self):
        self.play["racecheck"]["tests"] = [9, "Race reported between", "[==] 3 tests ran. (9 ms total)"]
        result, last = self.run_script("racecheck")
        self.assertEqual((result.returncode, last), (1, "1 tools, 1 with errors"))
        self.assertIn("Race reported between", result.stdout)
        self.assertIn("Exit 9", result.stdout)

    def test_a_list_of_kernels(self):
        self.play["memcheck"]["check"] = [0, "", found(KERNELS[:1])]
        result, _ = self.run_script("--kernels", KERNELS[0], "memcheck")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn(f"--kernel {KERNELS[0]} --where-supported", (self.path / "called").read_text())

    def test_refusals(self):
        result, last = self.run_script("--kernels", "cuda.nonsense")
        self.assertEqual((result.returncode, last), (1, "gpu_sanitize: cuda.nonsense is no CUDA kernel of this build"))
        (self.path / "tests/planted").unlink()
        result, last = self.run_script()
        self.assertEqual(result.returncode, 1)
        self.assertIn("tests/planted is missing", last)
        result, _ = self.run_script("memchk")
        self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
