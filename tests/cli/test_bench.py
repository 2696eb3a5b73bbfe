"""tconv bench --random-large and --model: what is drawn, and what is made of the measurements."""

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import PROBLEM, TCONV, tconv

SMALL = ["--least-mb", "0.02", "--most-mb", "0.2", "--most-tflop", "0.00005", "--seconds", "0.002"]


def numbers(problem):
    """A problem text's numbers and words."""
    found = {"n": 1, "s": 1, "p": 0, "op": 0, "d": 1, "g": 1, "bias": False, "mode": "ieee"}
    for word in problem.split():
        match = re.fullmatch(r"([a-z]+)(\d+)", word)
        if match and match[1] not in ("f", "bf", "tf"):
            found[match[1]] = int(match[2])
        elif word in ("f32", "f64", "f16", "bf16"):
            found["dtype"] = word
        elif word == "tf32":
            found["mode"] = word
        else:
            assert word == "bias", word
            found["bias"] = True
    return found


def lout(p):
    return (p["l"] - 1) * p["s"] - 2 * p["p"] + p["d"] * (p["k"] - 1) + p["op"] + 1


def taps(p):
    """Of a residue, at most."""
    return -(-p["k"] // (p["s"] // math.gcd(p["s"], p["d"])))


def flops(p):
    """Two a product whose output exists."""
    products = 0
    for k in range(p["k"]):
        offset = k * p["d"] - p["p"]
        first, last = max(0, -(offset // p["s"])), min(p["l"] - 1, (lout(p) - 1 - offset) // p["s"])
        products += max(0, last - first + 1)
    outputs = p["n"] * p["co"] * lout(p)
    return 2 * products * p["n"] * p["ci"] * p["co"] // p["g"] + (outputs if p["bias"] else 0)


class Bench(unittest.TestCase):
    def json(self, *arguments, status=0, **environment):
        result = tconv("bench", *arguments, "--json", **environment)
        self.assertEqual(result.returncode, status, result)
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)

    def refused(self, *arguments, says, cwd=None, status=2):
        result = tconv("bench", *arguments, cwd=cwd)
        self.assertEqual((result.returncode, result.stdout), (status, ""), arguments)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn(says, result.stderr)


class Given(Bench):
    def test_a_run_that_is_stopped_has_printed_its_rows(self):
        run = subprocess.Popen([TCONV, "bench", PROBLEM, "ci3 co5 l30 k4", PROBLEM, "--json", "--seconds", "0.5"],
                               stdout=subprocess.PIPE, text=True)
        with run:
            first = run.stdout.readline()
            run.kill()
            rest = run.stdout.read()
        self.assertNotIn("]", rest)
        self.assertEqual(json.loads(first.rstrip(",\n") + "]")[0]["problem"], PROBLEM)

    def test_rows_are_one_array(self):
        rows = self.json(PROBLEM, "ci3 co5 l30 k4", "--seconds", "0.001")
        self.assertEqual({row["problem"] for row in rows}, {PROBLEM, "n1 ci3 co5 l30 k4 s1 p0 f32"})


class Drawing(Bench):
    def test_the_seed_alone_decides(self):
        lines = tconv("bench", "--random-large", 8, "--seed", 1, "--list").stdout.splitlines()
        self.assertEqual(lines[:3], ["n103 ci36 co96 l5257 k44 s1 p23 g2 f32 tf32",
                                     "n26 ci609 co336 l1216 k6 s1 p11 d9 g7 bias f32 tf32",
                                     "n23 ci256 co256 l17229 k7 s1 p3 f32 tf32"])
        self.assertEqual(tconv("bench", "--random-large", 5, "--seed", 1, "--list").stdout.splitlines(), lines[:5])
        self.assertNotEqual(tconv("bench", "--random-large", 8, "--seed", 2, "--list").stdout.splitlines(), lines)

    def test_every_problem_is_of_the_space(self):
        rows = self.json("--random-large", 600, "--seed", 5, "--list")
        self.assertEqual(len(rows), 600)
        seen = set()
        for row in rows:
            p = numbers(row["problem"])
            self.assertGreaterEqual(min(p["ci"], p["co"]) // p["g"], 16, row)
            self.assertLessEqual(p["s"], 16, row)
            self.assertLessEqual(taps(p), 64, row)
            self.assertEqual(row["lout"], lout(p), row)
            data = 4 * p["n"] * (p["ci"] * p["l"] + p["co"] * lout(p))
            self.assertTrue(100e6 <= data <= 1.5e9, row)
            self.assertTrue(math.isclose(row["data_bytes"], data, rel_tol=1e-5), row)
            self.assertTrue(math.isclose(row["flops"], flops(p), rel_tol=1e-5), (row, flops(p)))
            self.assertLessEqual(row["flops"], 2e12, row)
            self.assertEqual((p["dtype"], p["mode"]), ("f32", "tf32"), row)
            seen |= {f"s{p['s']}", f"g{p['g']}"}
            seen |= {name for name, there in (
                ("ragged ci", p["ci"] // p["g"] % 8), ("ragged co", p["co"] // p["g"] % 8), ("odd l", p["l"] % 2),
                ("even l", p["l"] % 2 == 0), ("odd lout", lout(p) % 2), ("dilation", p["d"] > 1),
                ("output_padding", p["op"]), ("bias", p["bias"]), ("no bias", not p["bias"]),
                ("gcd", math.gcd(p["s"], p["d"]) > 1), ("long", taps(p) > 32), ("one tap", taps(p) == 1),
                ("one sample", p["n"] == 1), ("bound by arithmetic", row["flops"] > 5e11)) if there}
        wanted = {f"s{s}" for s in range(1, 17)} | {f"g{g}" for g in range(1, 9)}
        wanted |= {"ragged ci", "ragged co", "odd l", "even l", "odd lout", "dilation", "output_padding", "bias",
                   "no bias", "gcd", "long", "one tap", "one sample", "bound by arithmetic"}
        self.assertEqual(wanted - seen, set())

    def test_modes_are_drawn_from_those_given(self):
        rows = self.json("--random-large", 60, "--mode", "f16,bf16,ieee", "--list")
        modes = {(numbers(row["problem"])["dtype"], numbers(row["problem"])["mode"]) for row in rows}
        self.assertEqual(modes, {("f16", "ieee"), ("bf16", "ieee"), ("f32", "ieee")})

    def test_refusals(self):
        self.refused("--random-large", 3, "--mode", "f8", says="f8")
        self.refused("--random-large", -3, says="--random-large")
        self.refused("--random-large", 3, "ci16 co16 l50 k3", says="--random-large draws its problems")
        self.refused("--random-large", 3, "--model", says="--random-large draws its problems")
        self.refused("--random-large", 3, "--least-mb", 5, "--most-mb", 4, says="--least-mb is above")
        self.refused("--random-large", 1, "--least-mb", 1e5, "--most-mb", 2e5, "--most-tflop", 0.001, "--list",
                     says="no problem of 100000 to 200000 MB")
        self.refused("--random-large", 1, "--kernel", "reference", says="planner's choice")
        self.refused("--random-large", 1, "--save", "/nowhere/result.json", says="/nowhere/result.json", status=1)
        self.refused("--random-large", 1, "--device", "h200", says="cannot run kernels")
        self.refused("ci16 co16 l50 k3", "--list", says="--list is for --random-large")
        self.refused("ci16 co16 l50 k3", "--save", "x", says="--save is for")
        self.refused("ci16 co16 l50 k3", "--mode", "tf32", says="--mode is for")


class Large(Bench):
    def test_shares_and_their_mean(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "large.json"
            printed = self.json("--random-large", 5, "--seed", 3, *SMALL, "--save", path)
            self.assertEqual(json.loads(path.read_text()), printed)
            self.assertEqual(sum(line.startswith(' {"problem"') for line in path.read_text().splitlines()), 5)
            self.assertEqual([p.name for p in pathlib.Path(folder).iterdir()], ["large.json"])
        self.assertEqual((printed["benchmark"], printed["seed"], printed["failed"]), ("random_large", 3, 0))
        self.assertRegex(printed["date"], r"^20\d\d-\d\d-\d\d$")
        self.assertIn("tconv", printed["versions"]["tconv"])
        listed = self.json("--random-large", 5, "--seed", 3, *SMALL, "--list")
        self.assertEqual([row["problem"] for row in printed["rows"]], [row["problem"] for row in listed])
        shares = [row["share"] for row in printed["rows"]]
        for row, drawn in zip(printed["rows"], listed):
            floor = max(drawn["flops"] / row["rate_gflops"],
                        (drawn["data_bytes"] + 4 * self.rest(row["problem"])) / row["copy_gbps"]) / 1e9
            self.assertTrue(math.isclose(row["floor_seconds"], floor, rel_tol=1e-3), row)
            self.assertTrue(math.isclose(row["share"], row["floor_seconds"] / row["seconds"], rel_tol=1e-3), row)
        mean = math.exp(sum(map(math.log, shares)) / 5)
        self.assertTrue(math.isclose(printed["geomean_share"], mean, rel_tol=1e-3))
        self.assertEqual(printed["least_share"], min(shares))

    @staticmethod
    def rest(problem):
        """Elements of the weight and the bias."""
        p = numbers(problem)
        return p["ci"] * (p["co"] // p["g"]) * p["k"] + (p["co"] if p["bias"] else 0)

    def test_the_text_closes_with_the_mean(self):
        result = tconv("bench", "--random-large", 3, "--seed", 8, *SMALL)
        lines = result.stdout.splitlines()
        self.assertEqual((result.returncode, len(lines)), (0, 5), result)
        self.assertRegex(lines[-1], r"^3 problems of seed 8: \d+% of the floor \(geometric mean\), \d+% at least$")

    def test_a_problem_that_fails_is_told_and_the_rest_is_measured(self):
        # cpu.depthwise takes few weights a group: some of these it refuses.
        arguments = ["--random-large", 12, "--seed", 1, *SMALL]
        result = self.json(*arguments, status=1, TCONV_FORCE_KERNEL="cpu.depthwise")
        failed = [row for row in result["rows"] if "failed" in row]
        self.assertTrue(0 < len(failed) == result["failed"] <= 12)
        self.assertIn("cpu.depthwise is forced by TCONV_FORCE_KERNEL, but it refuses", failed[0]["failed"])
        text = tconv("bench", *arguments, TCONV_FORCE_KERNEL="cpu.depthwise")
        self.assertEqual(text.returncode, 1)
        self.assertTrue(text.stdout.splitlines()[-1].endswith(f"; {len(failed)} failed"), text.stdout)
        self.assertIn(f"failed: {failed[0]['problem']}: ", text.stdout)


class Model(Bench):
    PROBLEMS = ["n1 ci8 co6 l40 k4 s2 p1 bias f32", "n1 ci4 co4 l60 k5 s1 p2 g4 f32"]

    def test_the_choice_against_every_kernel(self):
        result = self.json("--model", *self.PROBLEMS, "--seconds", "0.002")
        self.assertEqual((result["benchmark"], result["problems"], result["failed"]), ("model", 2, 0))
        self.assertEqual([row["problem"] for row in result["rows"]], self.PROBLEMS)
        near = 0
        for row in result["rows"]:
            kernels = {each["kernel"]: each for each in row["kernels"]}
            self.assertEqual(row["kernels"][0]["kernel"], row["kernel"])
            self.assertEqual(len(kernels), len(row["kernels"]))
            self.assertIn("reference", kernels)
            self.assertGreaterEqual(len(kernels), 3)
            times = {name: each["seconds"] for name, each in kernels.items()}
            self.assertEqual(times[row["best"]], min(times.values()))
            over = times[row["kernel"]] / min(times.values())
            self.assertTrue(math.isclose(row["chosen_over_best"], over, rel_tol=1e-3))
            near += over <= 1.1
            for each in row["kernels"]:
                self.assertEqual(each["weights"] == "packed", each["kernel"] in ("cpu.dense", "cpu.narrow"), each)
        self.assertEqual(result["near_best"], near)

    def test_a_kernel_far_behind_is_not_timed_again(self):
        result = self.json("--model", "n1 ci64 co64 l500 k4 s2 p1 f32", "--seconds", "0.01")
        kernels = {each["kernel"]: each for each in result["rows"][0]["kernels"]}
        self.assertEqual(kernels["reference"]["calls"], 1)
        self.assertGreater(kernels["reference"]["seconds"], 4 * kernels["cpu.dense"]["seconds"])
        self.assertGreaterEqual(kernels[result["rows"][0]["kernel"]]["calls"], 5)

    def test_ratios_are_of_the_chosen_kernels_with_a_model(self):
        result = self.json("--model", *self.PROBLEMS, "--seconds", "0.002")
        ratios = [row["measured_over_predicted"] for row in result["rows"] if row["measured_over_predicted"]]
        self.assertEqual(result["predicted"], len(ratios))
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            self.assertTrue(math.isclose(result["geomean_measured_over_predicted"], mean, rel_tol=1e-3))
        else:
            self.assertIsNone(result["geomean_measured_over_predicted"])

    def test_modes_multiply_the_problems(self):
        result = self.json("--model", "--mode", "ieee,f16", self.PROBLEMS[0], "--seconds", "0.002")
        self.assertEqual([row["problem"] for row in result["rows"]],
                         [self.PROBLEMS[0], self.PROBLEMS[0].replace("f32", "f16")])

    def test_text(self):
        result = tconv("bench", "--model", *self.PROBLEMS, "--seconds", "0.002")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout.splitlines()[-1],
                         r"^the choice is within 10% of the best kernel on [0-2] of 2 problems; ")

    def test_refusals(self):
        self.refused("--model", self.PROBLEMS[0], "--kernel", "reference", says="planner's choice")
        self.refused("--model", "n0 ci4 co4 l5 k3", says="no output")
        with tempfile.TemporaryDirectory() as folder:
            self.refused("--model", says="tests/shapes/layers.tsv: cannot be read", cwd=folder)
        self.refused("--model", "--file", "/nowhere", says="/nowhere: cannot be read")
        self.refused("--model", "--mode", "tf32", "n1 ci4 co5 l5 k3 g2", says="groups is 2")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
