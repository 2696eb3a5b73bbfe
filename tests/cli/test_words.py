"""What the command line says of a line that it cannot read, and its help."""

import json
import pathlib
import re
import shlex
import sys
import unittest

import npy
from support import PROBLEM, SOURCE, Case, FolderCase, tconv

COMMANDS = ("info", "plan", "check", "bench", "run", "help")


class Numbers(Case):
    def test_octal_and_empty_and_other_forms(self):
        for text in ("010", "-07", "00"):
            self.refused("check", "--random", text, says=f"--random: '{text}' begins with 0")
        for text in ("", " ", "0x10", "1e3", "+5", "5.0", "5 ", "five", "1'000"):
            self.refused("check", "--random", text, says=f"--random: '{text}' is not a whole number")
        self.assertEqual(tconv("check", PROBLEM, "--seed", 0).returncode, 0)

    def test_every_option_with_a_number_refuses_the_same(self):
        options = {"plan": ["--threads"], "bench": ["--threads", "--seed", "--random-large"],
                   "check": ["--threads", "--seed", "--first", "--memory", "--random"],
                   "run": ["--threads", "--stride", "--padding", "--output-padding", "--dilation", "--groups"]}
        for command, names in options.items():
            for name in names:
                for text in ("", "010", "x", str(2**64), "-" + str(2**64)):
                    self.refused(command, f"{name}={text}" if text.startswith("-") else name,
                                 *([] if text.startswith("-") else [text]), says=f"{name}: ")

    def test_seeds_have_64_bits(self):
        self.refused("check", "--random", 1, "--seed", "-1", says="--seed: -1 is out of range: 0 to 18446744073709551615")
        self.refused("check", "--random", 1, "--seed", 2**64, says=f"--seed: {2**64} is out of range")
        self.assertEqual(tconv("check", PROBLEM, "--seed", 2**64 - 1).returncode, 0)

    def test_seconds_are_finite(self):
        for text in ("nan", "inf", "-nan", "", "0x1p3", "1,5"):
            self.refused("bench", PROBLEM, f"--seconds={text}" if text else "--seconds", *([] if text else [""]),
                         says="is not a number")
        self.refused("bench", PROBLEM, "--seconds", "0", says="--seconds: 0 is out of range: 0.001 to 600")
        for name in ("--least-mb", "--most-mb", "--most-tflop"):
            self.refused("bench", "--random-large", 1, "--list", name, "nan", says=f"{name}: 'nan' is not a number")


class Misspelt(Case):
    def test_commands(self):
        self.refused("chek", says="'chek' is not a command: did you mean check?")
        self.refused("Plan", PROBLEM, says="did you mean plan?")
        line = self.refused("zebra", says="'zebra' is not a command: the commands are ")
        for command in COMMANDS:
            self.assertIn(command, line)
            self.assertIn(command, self.refused())
        self.refused("--json", "plan", PROBLEM, says="options follow a command")
        self.refused("--verison", says="'--verison' is not an option of tconv itself: did you mean --version?")

    def test_options(self):
        self.refused("plan", "--thread", "2", PROBLEM, says="'--thread' is not an option of tconv plan: did you mean --threads?")
        self.refused("plan", PROBLEM, "--devcie=cpu", says="did you mean --device?")
        self.refused("plan", PROBLEM, "-threads", "2", says="did you mean --threads?")
        # The misspelt one, not the one that is missing through it.
        self.refused("run", "--inptu", "x.npy", "--weight", "w.npy", says="did you mean --input?")
        self.refused("run", "--outptu", "y.npy", says="did you mean --output?")
        self.refused("bench", PROBLEM, "--zebra", says="'--zebra' is not an option of tconv bench: tconv help bench lists them")
        self.refused("plan", PROBLEM, "--kernel", says="--kernel needs a value")

    def test_kernels(self):
        for command in (["plan", PROBLEM], ["check", PROBLEM], ["check", "--random", 3], ["bench", PROBLEM],
                        ["run", "--input", "x", "--weight", "w", "--output", "y"]):
            self.refused(*command, "--kernel", "cpu.dens", says="'cpu.dens' is no kernel of this build: did you mean cpu.dense?")
            self.refused(*command, "--kernel", "zebra", says="'zebra' is no kernel of this build: tconv info lists them")
            self.refused(*command, "--kernel", "", says="--kernel: ")
        for name in ("--file", "--data", "--kernel"):
            self.refused("check", PROBLEM, name, "", says=f"{name}")
        self.refused("bench", PROBLEM, "--model", "--save", "", says="--save: it is empty")

    def test_values_of_a_list(self):
        run = ["run", "--input", "x", "--output", "y"]
        for option, value, meant in (("--op", "grad_inpt", "grad_input"), ("--precision", "tf23", "tf32"), ("--dtype", "bf61", "bf16")):
            self.refused(*run, option, value, says=f"{option}: '{value}' is none of ")
            self.refused(*run, option, value, says=f"did you mean {meant}?")
        self.refused("check", PROBLEM, "--data", "integers,specail", says="did you mean special?")
        self.refused("bench", "--model", PROBLEM, "--mode", "f23", says="'f23' is none of tf32, ieee, f16, bf16 and f64")

    def test_options_given_twice(self):
        self.refused("check", "--random", 5, "--random", 6, says="--random is given more than once")
        self.refused("plan", PROBLEM, "--threads", 1, "--threads", 2, says="--threads is given more than once")

    def test_targets(self):
        line = self.refused("info", "--simd", "ZEBRA", says="'ZEBRA' is no SIMD target of this machine and build")
        here = json.loads(tconv("info", "--json").stdout)["cpu"]["simd"]
        self.assertIn(here, line)

    def test_problems_without_quotes(self):
        words = PROBLEM.split()
        for command in ("plan", "check", "bench"):
            self.refused(command, *words, says=f'a problem is one argument, in quotes: "{PROBLEM}"')
        self.refused("plan", *words, "--threads", "2", says="in quotes")
        self.refused("bench", "--model", *words, says="in quotes")
        self.refused("plan", PROBLEM, PROBLEM, says=f"'{PROBLEM}' was not expected after tconv plan")

    def test_control_characters_stay_off_the_terminal(self):
        for text, shown in (("\x1b[31m", "\\x1b[31m"), ("a\nb", "a\\nb"), ("a\x7f\u0085", "a\\x7f\\xc2\\x85"),
                            ("\udcff", "\\xff"), ("\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"), "\\xed\\xa0\\x80")):
            self.refused("plan", f"ci1 {text}", says=f"'{shown}'")
            self.refused(text, says=shown)
            self.refused("plan", PROBLEM, "--device", text, says=shown)
            self.refused("check", "--file", text, says=shown)
        self.refused("plan", "ci1 Größe", says="'Größe'")


class Help(FolderCase):
    def options(self, command):
        """Name to description."""
        found, name = {}, None
        for line in tconv("help", command).stdout.split("Examples:")[0].splitlines():
            if match := re.match(r"  (?:-h,)?(--[a-z-]+)(.*)", line):
                name = match[1]
                found[name] = line[30:].strip() if len(line) > 30 and line[29] == " " else ""
            elif name and line.startswith(" " * 30):
                found[name] += line.strip()
        return found

    def test_help_is_what_the_option_says(self):
        self.assertEqual(tconv("help").stdout, tconv("--help").stdout)
        for command in COMMANDS:
            result = tconv("help", command)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(result.stdout, tconv(command, "--help").stdout.replace("Usage: " + command, "Usage: tconv " + command))
            self.assertIn(command, tconv("help").stdout)
        self.refused("help", "chek", says="'chek' is not a command: did you mean check?")
        self.refused("help", "zebra", says="'zebra' is not a command: the commands are info, plan")

    def test_every_option_has_a_description_and_an_example(self):
        for command in COMMANDS:
            examples = tconv("help", command).stdout.split("Examples:")[1]
            options = self.options(command)
            for name, description in options.items():
                self.assertGreater(len(description), 5, (command, name))
                if name != "--help":
                    self.assertRegex(examples, rf"{name}\b(?!-)", command)
        self.assertIn("--no-clobber", self.options("run"))

    def test_every_example_is_understood(self):
        """On a machine that lacks a target or a GPU it is refused for that alone."""
        values = [((i * 7) % 5) - 2 for i in range(4 * 2 * 16)]
        arrays = {"x": npy.Array((1, 4, 10), values[:40]), "w": npy.Array((4, 2, 16), values),
                  "u": npy.Array((2, 4, 7), values[:56]), "b": npy.Array((2,), [1, 2]), "y": npy.Array((1, 2, 80), [1] * 160),
                  "x16": npy.Array((1, 4, 10), [0] * 40, "<V2"), "w16": npy.Array((4, 2, 16), [0] * 128, "<V2")}
        for name, array in arrays.items():
            (self.path / f"{name}.npy").write_bytes(npy.to_bytes(array))
        (self.path / "tests").symlink_to(SOURCE / "tests")
        count = 0
        for command in COMMANDS:
            text = tconv("help", command).stdout.split("Examples:\n")[1].replace("\n      ", " ")
            for line in text.splitlines():
                self.assertTrue(line.startswith("  tconv "), line)
                # The pieces of a pipe, each alone; files behind < and > are the shell's.
                for piece in re.sub(r" [<>] \S+", "", line).split(" | "):
                    self.understood(shlex.split(piece)[1:])
                    count += 1
        self.assertGreater(count, 20)

    def understood(self, arguments):
        slow = arguments[0] == "bench" and "--list" not in arguments
        if slow or "--random" in arguments or "--file" in arguments:
            # Read to its end, then refused for the device alone.
            if "--device" in arguments:
                at = arguments.index("--device")
                arguments = arguments[:at] + arguments[at + 2:]
            arguments = [*arguments, "--device", "zebra"]
        result = tconv(*arguments, cwd=self.path, stdin=PROBLEM)
        lacking = "'zebra'", "is zebra", "no SIMD target", "no kernel on h200", "it is not a .npy file", "cuda"
        understood = result.returncode == 0 or any(words in result.stderr for words in lacking)
        self.assertTrue(understood, (arguments, result))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
