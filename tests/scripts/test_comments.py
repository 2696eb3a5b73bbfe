"""Loop nests and tables in comments keep their lines. clang-format wraps a comment that is too long; within an aligned
block the words that it cuts off then stand alone on the next line, and the block can no longer be read."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALIGNED = re.compile(r"\s*//(\s{2,})(\S.*)$")  # indented behind the slashes: not prose
NEARLY_FULL = 96  # of 110 columns
CUT_OFF = re.compile(r"[\w,.; ()-]+")


def wrapped_lines(text):
    """The numbers of lines that hold only what was cut off the line before."""
    found = []
    lines = text.splitlines()
    for number, (line, after) in enumerate(zip(lines, lines[1:]), start=2):
        first, second = ALIGNED.match(line), ALIGNED.match(after)
        if first and second and first[1] == second[1] and len(line) >= NEARLY_FULL:
            if len(second[2].split()) <= 2 and CUT_OFF.fullmatch(second[2]):
                found.append(number)
    return found


class Comments(unittest.TestCase):
    def test_a_wrapped_line_of_a_table_is_found(self):
        row = "//   source      element by element through the registers of seven warps, into one ring of stages for"
        self.assertEqual(wrapped_lines(f"{row}\n//   operands\n//   product     wgmma\n"), [2])
        self.assertEqual(wrapped_lines(f"{row}\n//   operands    in shared memory\n"), [])
        self.assertEqual(wrapped_lines("// " + "prose " * 16 + "\n// ends.\n"), [])

    def test_no_line_is_wrapped(self):
        listed = subprocess.run(["git", "ls-files", "src", "include", "bindings", "tools"], cwd=ROOT, capture_output=True,
                                text=True, check=False)
        names = listed.stdout.split() if listed.returncode == 0 else []
        sources = [ROOT / name for name in names] or [p for p in (ROOT / "src").rglob("*") if p.is_file()]
        for source in sources:
            if source.suffix not in (".hpp", ".h", ".cuh", ".cpp", ".cu"):
                continue
            with self.subTest(source=str(source.relative_to(ROOT))):
                self.assertEqual(wrapped_lines(source.read_text()), [], "shorten the line before")


if __name__ == "__main__":
    unittest.main()
