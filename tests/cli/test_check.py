"""tconv check: bad usage, kinds of data, what a failure says, and full numbers in JSON."""

import json
import shlex
import sys
import unittest

from support import PROBLEM, FolderCase, tconv

REFUSED = "n1 ci512 co512 l5 k8 s1 p0 f32"  # by cpu.depthwise
SMALL = "n1 ci4 co4 l60 k5 s1 p2 g4 f32"


class Check(FolderCase):
    def json(self, *arguments, status=0, stdin=None):
        result = tconv("check", *arguments, "--json", stdin=stdin)
        self.assertEqual((result.returncode, result.stderr), (status, ""), result)
        return json.loads(result.stdout)


class Usage(Check):
    def test_an_unknown_kernel_is_bad_usage(self):
        for problems in ([PROBLEM], ["--random", 50]):
            self.refused("check", *problems, "--kernel", "zebra", says="'zebra' is no kernel of this build")
            self.refused("check", *problems, TCONV_FORCE_KERNEL="zebra", says="TCONV_FORCE_KERNEL: 'zebra' is no kernel")
        self.refused("check", PROBLEM, "--kernel", "cpu.dense,cpu.short", says="a list needs --where-supported")
        kernels = json.loads(tconv("info", "--json").stdout)["kernels"]
        for name in [k["name"] for k in kernels if k["device"] == "cuda"]:
            self.refused("check", PROBLEM, "--kernel", name, says=f"{name} runs on cuda, and --device is cpu")

    def test_a_directory_is_no_file_of_problems(self):
        for command in ("check", "bench"):
            self.refused(command, "--file", self.path, says=f"{self.path}: is a directory, not a file")

    def test_problems_from_standard_input(self):
        lines = f"# two\n{PROBLEM}\n{SMALL}  # depthwise\n"
        self.assertEqual(self.json("--file", "-", stdin=lines)["problems"], 2)
        self.refused("check", "--file", "-", stdin="ci1 zebra\n", says="standard input, line 1: column 5")
        self.refused("check", "--file", "-", stdin="", says="standard input: holds no problem")
        rows = tconv("bench", "--file", "-", "--seconds", "0.001", "--json", stdin=lines)
        self.assertEqual({row["problem"] for row in json.loads(rows.stdout)}, {PROBLEM, SMALL})


class Drawn(Check):
    def test_problems_of_one_operation(self):
        # One MiB is too little for most of them, and what fails is printed. The gradient of a bias is "dbias" in a problem's text.
        words = {"strided": "strided ", "weight": "weight ", "bias": "dbias ", "transposed": "n"}
        for operation, word in words.items():
            failures = self.json("--random", 30, "--op", operation, "--memory", 1, "--kernel", "reference",
                                 status=1)["failures"]
            self.assertGreater(len(failures), 3)
            for failure in failures:
                self.assertTrue(failure["problem"].startswith(word), failure["problem"])
        self.refused("check", "--random", 5, "--op", "zebra", says="--op")
        self.refused("check", PROBLEM, "--op", "weight", says="--op is the operation of --random's problems")


class Data(Check):
    def test_kinds(self):
        for kinds in ("integers", "uniform", "positive", "spread", "special", "uniform,special"):
            self.assertEqual(self.json("--kernel", "reference", "--data", kinds, PROBLEM)["wrong"], 0)
        for kinds in ("zebra", "integers,zebra", ",", ""):
            self.refused("check", PROBLEM, "--data", kinds, says="--data")

    def test_only_the_kinds_asked_for_are_judged(self):
        # What fails is told with the first kind of data.
        for kinds in ("special", "spread", "positive,integers"):
            failure = self.json(REFUSED, "--kernel", "cpu.depthwise", "--data", kinds, status=1)["failures"][0]
            self.assertEqual(failure["data"], kinds.split(",")[0])


class Failures(Check):
    def test_the_command_of_a_failure_judges_the_same_again(self):
        arguments = ["--file", "-", "--kernel", "cpu.depthwise", "--seed", "7", "--first", "30", "--threads", "2"]
        result = tconv("check", *arguments, stdin=f"{SMALL}\n{REFUSED}\n")
        line, count = result.stdout.splitlines()
        self.assertEqual((result.returncode, count), (1, "2 problems, 1 wrong"))
        before, command = line.split("; again: ")
        self.assertEqual(command, f'tconv check "{REFUSED}" --seed 7 --first 31 --data integers '
                                  "--kernel cpu.depthwise --threads 2")
        again = tconv(*shlex.split(command)[1:])
        self.assertEqual((again.returncode, again.stdout), (1, f"{line}\n1 problem, 1 wrong\n"))
        failure = self.json(*arguments, status=1, stdin=f"{SMALL}\n{REFUSED}\n")["failures"][0]
        self.assertEqual((failure["seed"], failure["number"], failure["data"], failure["command"]),
                         (7, 31, "integers", command))

    def test_commands_of_random_problems_and_of_all_kernels(self):
        # One MiB suffices for none of these.
        arguments = ["--random", 4, "--seed", 2**64 - 1, "--first", 2**40, "--memory", 1, "--kernel", "reference",
                     "--data", "special,spread"]
        for failure in self.json(*arguments, status=1)["failures"]:
            self.assertIn(f"--seed {2**64 - 1} --first {2**40 + failure['number'] - 2**40} ", failure["command"])
            self.assertIn("--data special,spread --kernel reference --memory 1", failure["command"])
            again = tconv(*shlex.split(failure["command"])[1:], "--json")
            self.assertEqual(json.loads(again.stdout)["failures"], [failure])

    def test_stop(self):
        lines = "\n".join([SMALL, REFUSED, REFUSED, SMALL])
        arguments = ["--file", "-", "--kernel", "cpu.depthwise"]
        whole, stopped = (self.json(*arguments, *more, status=1, stdin=lines) for more in ([], ["--stop"]))
        self.assertEqual((whole["problems"], whole["wrong"]), (4, 2))
        self.assertEqual((stopped["problems"], stopped["wrong"], len(stopped["failures"])), (2, 1, 1))
        text = tconv("check", *arguments, "--stop", stdin=lines)
        self.assertEqual((text.returncode, text.stdout.splitlines()[-1]), (1, "2 problems, 1 wrong, stopped before 2 more"))
        right = tconv("check", "--file", "-", "--stop", stdin=SMALL)
        self.assertEqual((right.returncode, right.stdout), (0, "1 problem, 0 wrong\n"))


class Json(Check):
    def test_numbers_are_whole(self):
        rows = json.loads(tconv("bench", "--random-large", 20, "--list", "--json").stdout)
        self.assertTrue(all(row["data_bytes"] % 4 == 0 and row["data_bytes"] > 1e8 for row in rows))
        self.assertTrue(any(row["data_bytes"] % 10000 for row in rows), "rounded to six digits")
        plan = tconv("plan", "n3 ci37 co41 l1234567 k13 s1 p0 f32", "--json").stdout
        self.assertEqual(json.loads(plan)["bytes"], 4 * (3 * 37 * 1234567 + 37 * 41 * 13 + 3 * 41 * 1234579))
        rates = json.loads(plan)["floor"]
        digits = [len(str(rates[name]).replace(".", "").strip("0")) for name in ("seconds", "gflops", "gbps")]
        self.assertGreater(max(digits), 9, rates)

    def test_shapes_are_numbers(self):
        for operation, shape in (("fwd", [1, 6, 40]), ("gx", [1, 8, 20]), ("gw", [8, 6, 4]), ("gb", [6])):
            plan = json.loads(tconv("plan", f"{operation} {PROBLEM}", "--json").stdout)
            self.assertEqual(plan["output_shape"], shape)
        self.assertIn("output     (1, 6, 40)\n", tconv("plan", PROBLEM).stdout)

    def test_text_is_utf8(self):
        (self.path / "problems").write_bytes(PROBLEM.encode() + b"  # caf\xe9 \xed\xa0\x80 \xf5 \xc3\xa9 \x01\n")
        result = tconv("bench", "--file", self.path / "problems", "--seconds", "0.001", "--json")
        self.assertEqual(json.loads(result.stdout)[0]["name"], "caf\ufffd \ufffd\ufffd\ufffd \ufffd \u00e9 \x01")

    def test_names_that_end_in_a_backslash_are_saved(self):
        for name in ("back\\", 'quote\\"', "brackets ]]]}}}\\\\"):
            (self.path / "problems").write_text(f"{PROBLEM}  # {name}\n")
            result = tconv("bench", "--model", "--file", self.path / "problems", "--seconds", "0.001",
                           "--save", self.path / "saved.json", "--json")
            self.assertEqual(result.returncode, 0, result)
            saved = json.loads((self.path / "saved.json").read_text())
            self.assertEqual((saved, saved["rows"][0]["name"]), (json.loads(result.stdout), name))
            self.assertEqual(sum(line.startswith(' {"problem"') for line in
                                 (self.path / "saved.json").read_text().splitlines()), 1)


class Words(Check):
    def test_memory_that_does_not_suffice(self):
        huge = "n1000000 ci8 co8 l1000000000 k3 s1 p0 f32"
        self.refused("bench", huge, status=1, says=f"tconv: {huge}: it needs ")
        self.assertIn(": not judged: it needs ", tconv("check", huge).stdout)

    def test_small_times_are_not_zero(self):
        rows = tconv("bench", "ci1 co1 l1 k1", "--seconds", "0.001").stdout.splitlines()
        self.assertNotIn(" 0.000 ", rows[1])
        floor = next(line for line in tconv("plan", "ci1 co1 l1 k1").stdout.splitlines() if line.startswith("floor"))
        self.assertNotIn("    0.0 ", floor)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
