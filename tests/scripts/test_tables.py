"""The benchmark tables: floors, the targets on Hopper, random large problems and cost models, from results that are
made up; and the committed tables against the committed results."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks/compare"))

import cuda_problems  # noqa: E402
import drawn_table  # noqa: E402
import gradient_targets  # noqa: E402
import hopper_table  # noqa: E402
import problem_floor  # noqa: E402
import readme_table  # noqa: E402

RATES = {"copy_gbps": 4270.0, "ieee_tflops": 50.6, "tf32_tflops": 400.0, "f16_tflops": 760.0, "bf16_tflops": 760.0,
         "f64_tflops": 55.0}
HEAD = {"date": "2026-01-02", "machine": "a machine", "versions": {"tconv": "tconv 9"}}


def ways(**milliseconds):
    return {name: {"median_ms": value} for name, value in milliseconds.items()}


class Floors(unittest.TestCase):
    def floor(self, text):
        p = problem_floor.parse(text)
        return problem_floor.floor_ms(p, p.mode, RATES)

    def test_a_problem_is_read(self):
        p = problem_floor.parse("n2 ci4 co6 l10 k3 s2 p1 op1 d2 g2 bias f32 tf32")
        self.assertEqual((p.n, p.cin, p.cout, p.l, p.k, p.stride, p.padding, p.output_padding, p.dilation, p.groups),
                         (2, 4, 6, 10, 3, 2, 1, 1, 2, 2))
        self.assertEqual((p.bias, p.dtype, p.mode, p.lout), (True, "f32", "tf32", 22))
        self.assertRaises(ValueError, problem_floor.parse, "n1 ci2 zebra")

    def test_products_are_those_that_meet_an_output(self):
        for text in ("n2 ci4 co6 l10 k3 s2 p1 op1 d2 g2", "ci2 co2 l5 k9 s1 p4", "ci1 co1 l3 k2 s7 p3", "ci2 co4 l9 k4 s3 p2 d3"):
            p = problem_floor.parse(text)
            counted = sum(0 <= i * p.stride + k * p.dilation - p.padding < p.lout for i in range(p.l) for k in range(p.k))
            self.assertEqual(problem_floor.products(p), counted * p.n * p.cin * p.cout // p.groups, text)

    def test_the_larger_of_bytes_and_products(self):
        seed = "n64 ci128 co128 l65536 k3 s1 p0 "
        self.assertAlmostEqual(self.floor(seed + "f32 tf32"), 1.031, 3)  # products
        self.assertAlmostEqual(self.floor(seed + "bf16"), 0.543, 3)
        self.assertAlmostEqual(self.floor(seed + "f32"), 1.628, 3)  # three products of f16, not 50.6 TFLOP/s
        self.assertAlmostEqual(self.floor("n16 ci32 co64 l131072 k3 s2 p1 d2 f32"), 0.314, 3)  # bytes
        slow = {**RATES, "f16_tflops": 100.0}
        p = problem_floor.parse(seed + "f32")
        self.assertAlmostEqual(problem_floor.floor_ms(p, "ieee", slow), 8.149, 3)


class Problems(unittest.TestCase):
    def test_every_target_is_in_the_harness(self):
        options = types.SimpleNamespace(problem=[], sets=cuda_problems.SETS, file=cuda_problems.layer_table.TABLE,
                                        match="", precision=None)
        todo = cuda_problems.problems(options)
        measured = [f"{text} tf32" if precision == "tf32" else text for _, text, precision in todo]
        self.assertEqual(len(set(measured)), len(measured))
        for _, text, *_ in hopper_table.targets():
            self.assertIn(text, measured)
        self.assertGreater(len(measured), 150)

    def test_free_problems_and_precisions(self):
        options = types.SimpleNamespace(problem=["ci4 co4 l9 k3 f32", "ci4 co4 l9 k3 f16", "ci5 co4 l9 k3 f32 tf32"],
                                        sets=cuda_problems.SETS, match="", precision=None)
        self.assertEqual([each[1:] for each in cuda_problems.problems(options)],
                         [("ci4 co4 l9 k3 f32", "ieee"), ("ci4 co4 l9 k3 f32", "tf32"), ("ci4 co4 l9 k3 f16", "ieee"),
                          ("ci5 co4 l9 k3 f32", "tf32")])
        options.precision = "tf32"
        self.assertEqual(len(cuda_problems.problems(options)), 2)


class Hopper(unittest.TestCase):
    def result(self, *rows):
        return {"floor": RATES, "rows": rows, **HEAD}

    def test_targets_are_as_they_were_set(self):
        targets = hopper_table.targets()
        self.assertEqual(len(targets), 15)
        for _, text, milliseconds, floors in targets:
            problem_floor.parse(text)
            self.assertNotEqual(milliseconds is None, floors is None)

    def test_met_missed_and_not_measured(self):
        tf32 = {"problem": "n64 ci128 co128 l65536 k3 s1 p0 f32 tf32",
                "ms": ways(tconv=1.3, tconv_packed=1.1, torch=4.3, torch_search=4.2, torch_nhwc=1.5)}
        batch1 = {"problem": "n1 ci512 co256 l8000 k16 s8 p4 f32 tf32", "ms": ways(tconv_packed=9, torch=9, torch_nhwc=1),
                  "graph": ways(tconv_packed=0.138, torch=0.5)}
        stride2 = {"problem": "n16 ci128 co64 l55104 k4 s2 p1 f32 tf32", "ms": ways(torch=2)}
        cells, met, count = hopper_table.compared(self.result(tf32, batch1, stride2))
        found = {(row[0], row[1]): row[2:] for row in cells}
        self.assertEqual((len(cells), met, count), (15, 1, 15))
        self.assertEqual(found["problem 64", "tf32"], ["1.031", "4.200", "1.500", "1.120", "1.100", "94%", "yes"])
        self.assertEqual(found["512 to 256, stride 8", "tf32"],
                         ["0.084", "0.500", "1.000", "0.115", "0.138", "61%", "1.20x"])
        self.assertEqual(found["128 to 64, stride 2", "tf32"], ["0.211", "2.000", "-", "0.254", "-", "-", "-"])
        self.assertEqual(found["problem 79", "bf16"][4], "not measured")
        self.assertIn("1 of 15 targets met.", hopper_table.markdown(self.result(tf32)))


class Gradients(unittest.TestCase):
    def row(self, problem, **passes):
        return {"problem": problem, "passes": {name: {"ms": ways(**times)} for name, times in passes.items()}}

    def test_the_bias_goes_with_the_weights(self):
        problem = "n2 ci4 co6 l10 k3 s2 p1 op1 d2 g2 bias f32 tf32"
        for product, bias in (("weight", " bias"), ("strided", "")):
            self.assertEqual(gradient_targets.product_text(problem, product),
                             f"{product} n2 ci4 co6 l10 k3 s2 p1 op1 d2 g2{bias} f32 tf32")
        for _, problem, wanted in gradient_targets.targets():
            self.assertIn("all", wanted)
            self.assertEqual(gradient_targets.product_text(problem, "strided"), f"strided {problem}")

    def test_met_missed_and_not_measured(self):
        row = self.row("n64 ci128 co128 l65536 k3 s1 p0 bf16", input=dict(tconv=0.7, torch=2.6, torch_search=2.5),
                       weight=dict(tconv=1.5))
        table = gradient_targets.markdown({"rows": [row]})
        self.assertIn("| problem 64 | bf16 | input | 2.500 | 0.750 | 0.700 | yes |", table)
        self.assertIn("| problem 64 | bf16 | weight | - | 0.750 | 1.500 | 2.00x |", table)
        self.assertIn("| problem 64 | bf16 | all | - | 1.500 | not measured | - |", table)
        self.assertIn("1 of 37 targets met.", table)


class Drawn(unittest.TestCase):
    def row(self, operation, mode, problem, tconv, theirs):
        took = ways(tconv=tconv, tconv_packed=tconv / 2, torch=2 * theirs, torch_search=theirs)
        each = {"raw": theirs / tconv, "packed": 2 * theirs / tconv}
        return {"operation": operation, "mode": mode, "problem": problem, "kernel": "k", "floor_ms": 0.001,
                "graph": took, "eager": took, "ratio": {"graph": each, "eager": {"raw": 3.0, "packed": 3.0}}}

    def read(self, *results):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / str(at) for at in range(len(results))]
            for path, result in zip(paths, results):
                path.write_text(json.dumps({"benchmark": "drawn_cuda", **HEAD, **result}))
            return drawn_table.read(paths)

    def test_seeds_are_one_table(self):
        problem = "strided n1 ci4 co4 l9 k3 s1 p0 "
        result = self.read(
            {"seed": 5, "rows": [self.row("strided", "tf32", problem + "f32 tf32", 1.0, 4.0),
                                 self.row("weight", "bf16", "weight n1 ci4 co4 l9 k3 bf16", 1.0, 2.0)]},
            {"seed": 4, "rows": [self.row("strided", "tf32", problem + "f32 tf32", 1.0, 0.25)]})
        lines = drawn_table.markdown(result).splitlines()
        self.assertEqual(lines[2], "| strided | tf32 | 2 | 1.00x | 0.25x / 4.00x | 2.00x | 3.00x | 1 (50%) | 0.25x |")
        self.assertEqual(lines[3], "| weight | bf16 | 1 | 2.00x | - / 2.00x | - | 3.00x | 0 (0%) | 2.00x |")
        self.assertIn("Seeds 4, 5;", lines[-1])
        self.assertRaises(SystemExit, self.read, {"seed": 4, "rows": []}, {"seed": 5, "rows": [], "machine": "another"})

    def test_a_layer_is_listed_once(self):
        problem = "n1 ci4 co4 l9 k3 s1 p0"
        result = self.read({"seed": 5, "rows": [self.row("strided", "tf32", f"strided {problem} f32 tf32", 0.002, 0.001),
                                                self.row("strided", "bf16", f"strided {problem} bf16", 0.004, 0.001),
                                                self.row("transposed", "bf16", f"{problem} bf16", 0.001, 0.003)]})
        lines = drawn_table.slowest(result).splitlines()
        self.assertEqual(lines[2:], [f"| strided | `{problem}` | bf16 | k | 4.0 | 1.0 | 1.0 | 0.25x |",
                                     f"| transposed | `{problem}` | bf16 | k | 1.0 | 3.0 | 1.0 | 3.00x |"])


class Tables(unittest.TestCase):
    def test_random_large(self):
        row = {"problem": "n1 ci16", "kernel": "cuda.sm90.dense", "seconds": 0.002, "floor_seconds": 0.001,
               "bound_by": "memory", "share": 0.5}
        text = readme_table.random_large({"rows": [row, {"problem": "n2", "failed": "no memory"}], "geomean_share": 0.5,
                                          "least_share": 0.4, "seed": 7, "failed": 1, **HEAD})
        self.assertIn("| `n1 ci16` | cuda.sm90.dense | 2.000 | 1.000 | memory | 50% |", text)
        self.assertIn("| `n2` | failed |", text)
        self.assertTrue(text.endswith("Share of the floor: 50% (geometric mean), 40% at least; seed 7, 2 problems, 1 failed."))

    def test_model(self):
        def row(problem, kernel, ratio, best, over):
            return {"problem": problem, "kernel": kernel, "measured_over_predicted": ratio, "best": best,
                    "chosen_over_best": over}

        rows = [row("a", "x", 2.0, "x", 1.0), row("b", "x", 0.5, "y", 1.25), row("c", "y", None, "y", 1.0),
                {"problem": "d", "failed": "words"}]
        text = readme_table.model({"rows": rows, "near_best": 2, "problems": 4, **HEAD})
        self.assertIn("| x | 2 | 1.00 | 0.50 | 2.00 |", text)
        self.assertIn("within 10% of the best kernel on 2 of 4 problems; behind:", text)
        self.assertIn("| `b` | x | y | 1.25x |", text)
        self.assertIn("| `d` | failed |", text)
        self.assertNotIn("`c`", text)
        self.assertEqual(readme_table.heading(HEAD), "a machine; tconv 9; 2026-01-02.")

    def test_the_programs_own_results_make_tables(self):
        program = os.environ.get("TCONV")
        if not program:
            self.skipTest("TCONV does not name the program")
        small = ["--least-mb", "0.02", "--most-mb", "0.1", "--most-tflop", "0.00002"]
        for arguments, render in ((["--random-large", "2", *small], readme_table.random_large),
                                  (["--model", "n1 ci8 co6 l40 k4 s2 p1 f32"], readme_table.model)):
            result = subprocess.run([program, "bench", *arguments, "--seconds", "0.002", "--json"], capture_output=True,
                                    text=True, check=True)
            self.assertIn("problem", render(json.loads(result.stdout)))

    def test_every_committed_result_says_where_it_is_from(self):
        pages = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
        for path in (ROOT / "benchmarks/results").glob("*.json"):
            result = json.loads(path.read_text())
            head = result.get("context", result)  # of Google Benchmark
            with self.subTest(path.name):
                self.assertTrue(head["date"] and (head.get("machine") or head["host_name"]))
                self.assertTrue("context" in result or result["versions"]["tconv"])
                # A page names the file in the command that writes it; of drawn_cuda one seed stands for all.
                name = r"drawn_cuda_\d+\.json" if path.name.startswith("drawn_cuda_") else re.escape(path.name)
                command = rf"(--json|--save|--benchmark_out)[= ]benchmarks/results/{name}"
                self.assertTrue(re.search(command, pages), "no page has the command")

    def test_the_committed_tables_are_those_of_the_committed_results(self):
        result = subprocess.run([sys.executable, ROOT / "benchmarks/compare/readme_table.py", "--check"],
                                capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
