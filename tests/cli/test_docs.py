"""The command lines and refusals in README.md and docs/*.md, against the program. TCONV names it."""

import pathlib
import re
import shlex
import unittest

from support import tconv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


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


if __name__ == "__main__":
    unittest.main()
