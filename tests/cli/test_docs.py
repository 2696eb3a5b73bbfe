"""The command lines, transcripts and refusals in README.md and docs, against the program. TCONV names it."""

import math
import pathlib
import re
import shlex
import subprocess
import unittest

import npy
from support import TCONV, FolderCase, tconv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "HACKING.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What depends on the machine or on the moment.
VARIABLE = ("tconv 0", "cpu:", "no gpu", "gpu ", "device ", "floor ", "config ", "memory ", "spread:")


def commands():
    """(page, arguments, the next line) of every indented `tconv ...`, with or without a prompt."""
    for page in PAGES:
        lines = page.read_text().splitlines()
        for line, after in zip(lines, [*lines[1:], ""]):
            match = re.match(r"    (?:\$ )?(?:build/\w+/)?tconv (.*)", line)
            if match and "<" not in match[1] and "|" not in match[1]:
                yield page.name, shlex.split(match[1], comments=True), after.strip()


class Docs(unittest.TestCase):
    def test_every_option_in_a_command_line_is_known(self):
        seen = 0
        for page, arguments, after in commands():
            if after.startswith("tconv: "):
                continue
            options = {a.split("=")[0] for a in arguments if a.startswith("--") and a != "--version"}
            text = tconv(arguments[0], "--help").stdout if options else ""
            for option in options:
                with self.subTest(page=page, arguments=arguments):
                    self.assertIn(option, text)
                    seen += 1
        self.assertGreater(seen, 20)

    def test_every_problem_is_planned(self):
        problems = {a for _, arguments, after in commands() if arguments and not after.startswith("tconv: ")
                    for a in arguments if re.search(r"\bci\d+ co\d+ ", a)}
        self.assertGreater(len(problems), 3)
        for problem in problems:
            with self.subTest(problem=problem):
                result = tconv("plan", problem)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_refusals_read_as_they_are_shown(self):
        refusals = [entry for entry in commands() if entry[2].startswith("tconv: ")]
        self.assertGreater(len(refusals), 1)
        for page, arguments, shown in refusals:
            with self.subTest(page=page, arguments=arguments):
                self.assertEqual(tconv(*arguments).stderr.strip(), shown)


class Walk(unittest.TestCase):
    def test_the_line_that_multiplies_is_where_hacking_says(self):
        text = (ROOT / "HACKING.md").read_text()
        step = re.search(r"\*\*The line that multiplies\*\*.*?\((src/[^)]+)\).*?\n\n +(\S[^\n]*)\n", text, re.DOTALL)
        self.assertIn(step[2], (ROOT / step[1]).read_text())
        problem = re.search(r'\$ tconv plan ("[^"]+")', text)[1].strip('"')
        kernel = re.search(r"^kernel +cpu\.(\w+)", tconv("plan", problem).stdout, re.MULTILINE)[1]
        self.assertIn(f"src/cpu/{kernel}/", step[1])


class Paths(unittest.TestCase):
    def test_every_file_that_a_page_names_exists(self):
        folders = "src|tests|tools|scripts|bindings|python|benchmarks|include|examples|cmake|demo|packaging|debian"
        seen = 0
        for page in PAGES:
            for path in re.findall(rf"(?<![\w/.-])((?:{folders})/[\w./-]*\w)", page.read_text()):
                with self.subTest(page=page.name, path=path):
                    here = ROOT / path
                    near = list(here.parent.glob(f"{here.name}*"))  # a family's name stands for its files
                    self.assertTrue(here.exists() or near)
                    seen += 1
        self.assertGreater(seen, 80)

    def test_every_link_leads_to_a_file(self):
        seen = 0
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", page.read_text()):
                if "://" in target:
                    continue
                with self.subTest(page=page.name, target=target):
                    self.assertTrue((page.parent / target).exists())
                    seen += 1
        self.assertGreater(seen, 100)


def transcripts():
    """(page, command line, the lines shown below it) of every `$ tconv ...`."""
    for page in PAGES:
        lines = page.read_text().splitlines()
        for i, line in enumerate(lines):
            if not line.startswith("    $ tconv "):
                continue
            shown = []
            for after in lines[i + 1:]:
                if not after.startswith("    ") and after or after.startswith("    $ "):
                    break
                shown.append(after[4:])
            yield page.name, line.removeprefix("    $ tconv "), [s for s in shown if s]


def beyond(arguments):
    """Whether a command plans for a GPU, and the program has no CUDA kernels."""
    return "--device" in arguments and "without CUDA" in tconv("info").stdout


class Transcripts(FolderCase):
    def test_inspecting_commands_print_what_is_shown(self):
        """Every line that does not depend on the machine is printed, word for word."""
        seen = 0
        for page, command, shown in transcripts():
            arguments = shlex.split(command, comments=True)
            measures = arguments[0] == "bench" and "--list" not in arguments
            if arguments[0] == "run" or measures or not shown or shown[0].startswith("tconv: ") or beyond(arguments):
                continue
            result = tconv(*arguments, cwd=ROOT)
            # Columns are as wide as the longest kernel's name.
            printed = [" ".join(line.split()) for line in (result.stdout + result.stderr).splitlines()]
            for line in shown:
                if line.startswith(VARIABLE):
                    prefix = re.match(r"\w+", line)[0]
                    self.assertTrue(any(p.startswith(prefix) for p in printed), (page, command, line))
                    continue
                with self.subTest(page=page, command=command, line=line):
                    self.assertIn(" ".join(line.split()), printed)
                    seen += 1
        self.assertGreater(seen, 20)

    def test_measurements_have_the_columns_shown(self):
        seen = 0
        for page, command, shown in transcripts():
            arguments = shlex.split(command, comments=True)
            if arguments[0] != "bench" or not shown or "--list" in arguments or beyond(arguments):
                continue
            if "--seconds" in arguments:
                arguments[arguments.index("--seconds") + 1] = "0.01"
            printed = [row for row in tconv(*arguments).stdout.splitlines() if row]
            with self.subTest(page=page, command=command):
                self.assertEqual(printed[0].split(), shown[0].split())
                self.assertEqual([row.split("  ")[0] for row in printed], [row.split("  ")[0] for row in shown])
                seen += 1
        self.assertGreater(seen, 0)

    def test_files_go_through_the_commands_shown(self):
        shapes = {"x": (1, 512, 800), "w": (512, 256, 16), "b": (256,), "gy": (1, 256, 6400), "u": (256, 512, 7),
                  "gv": (1, 256, 800)}
        for name, shape in shapes.items():
            zeros = npy.to_bytes(npy.Array(shape, [0.0] * math.prod(shape)))
            (self.path / f"{name}.npy").write_bytes(zeros)
        seen = 0
        for page, command, shown in transcripts():
            arguments = shlex.split(command)
            if arguments[0] != "run":
                continue
            result = subprocess.run(f"{shlex.quote(TCONV)} {command}", shell=True, cwd=self.path, capture_output=True,
                                    text=True, timeout=300)
            with self.subTest(page=page, command=command):
                self.assertEqual(result.returncode, 0, result.stderr)
                for line in shown:
                    self.assertIn(line, result.stderr if ">" in arguments else result.stdout)
                seen += 1
        self.assertGreater(seen, 8)


if __name__ == "__main__":
    unittest.main()
