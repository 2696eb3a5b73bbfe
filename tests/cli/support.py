import os
import pathlib
import subprocess
import tempfile
import unittest

TCONV = os.path.abspath(os.environ.get("TCONV", "build/release/tconv"))
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROBLEM = "n1 ci8 co6 l20 k4 s2 p1 bias f32"


def tconv(*arguments, cwd=None, stdin=None, **environment):
    return subprocess.run([TCONV, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd,
                          input=stdin, env={**os.environ, **environment})


class Case(unittest.TestCase):
    def refused(self, *arguments, status=2, says=None, stdin=None, cwd=None, **environment):
        """Nothing on standard output, one line on standard error; returns the line."""
        result = tconv(*arguments, stdin=stdin, cwd=cwd, **environment)
        self.assertEqual(result.returncode, status, (arguments, result))
        self.assertEqual(result.stdout, "", arguments)
        self.assertTrue(result.stderr.startswith("tconv: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        if says:
            self.assertIn(says, result.stderr)
        return result.stderr


class FolderCase(Case):
    """Each test has an empty folder, self.path."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
