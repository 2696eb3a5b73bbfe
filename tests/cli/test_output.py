"""Where results go: special files, full disks, closed streams, signals, files that are there already."""

import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading
import time
import unittest

import npy
from support import PROBLEM, TCONV, FolderCase, tconv

# 60 million outputs of two products: written for long enough to be interrupted.
LONG = ["--stride", 60_000_000, "--threads", 1]


class Output(FolderCase):
    def setUp(self):
        super().setUp()
        self.x, self.w = npy.Array((1, 2, 5), range(10)), npy.Array((2, 3, 2), range(12))
        (self.path / "x.npy").write_bytes(npy.to_bytes(self.x))
        (self.path / "w.npy").write_bytes(npy.to_bytes(self.w))
        self.run_files = ["run", "--input", self.path / "x.npy", "--weight", self.path / "w.npy"]
        result = tconv(*self.run_files, "--output", self.path / "first.npy")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.y = (self.path / "first.npy").read_bytes()
        self.assertEqual(npy.from_bytes(self.y).values, npy.conv_transpose1d(self.x, self.w, None, 1, 0, 0, 1).values)
        (self.path / "first.npy").unlink()

    def device(self, name):
        """A node of our own: run as root, a faulty program would replace the machine's."""
        node = self.path / name
        try:
            os.mknod(node, stat.S_IFCHR | 0o666, os.stat(f"/dev/{name}").st_rdev)
            node.open("wb").close()
        except PermissionError:
            if os.access("/dev", os.W_OK):
                self.skipTest("no device can be made here, and /dev is not to be put at risk")
            node = pathlib.Path("/dev", name)
        return node

    def left(self):
        return sorted(p.name for p in self.path.iterdir() if p.name not in ("x.npy", "w.npy"))


class SpecialFiles(Output):
    def test_a_device_stays_a_device(self):
        null = self.device("null")
        for save in ([*self.run_files, "--output", null], ["bench", "--random-large", 1, "--list", "--save", null]):
            result = tconv(*save)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertTrue(stat.S_ISCHR(null.stat().st_mode))
        self.assertIn(self.left(), (["null"], []))

    def test_a_full_device_is_an_error(self):
        full = self.device("full")
        self.refused(*self.run_files, "--output", full, status=1,
                     says=f"{full}: cannot be written: No space left on device")
        self.assertTrue(stat.S_ISCHR(full.stat().st_mode))

    def test_a_pipe_is_written_to(self):
        pipe = self.path / "pipe"
        os.mkfifo(pipe)
        got = []
        reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
        reader.start()
        result = tconv(*self.run_files, "--output", pipe)
        reader.join(20)
        self.assertEqual((result.returncode, got), (0, [self.y]))
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        self.assertEqual(self.left(), ["pipe"])

    def test_standard_output_by_its_name(self):
        (self.path / "stdout").symlink_to("/proc/self/fd/1")  # as /dev/stdout is
        for name in (str(self.path / "stdout"), "/dev/fd/1", "/proc/self/fd/1"):
            with open(self.path / "out", "wb") as out:
                out.write(b"before")
                out.flush()
                subprocess.run([TCONV, *map(str, self.run_files), "--output", name], stdout=out, check=True,
                               stderr=subprocess.DEVNULL)
            self.assertEqual((self.path / "out").read_bytes(), b"before" + self.y, name)
            (self.path / "out").unlink()
            self.assertEqual(self.left(), ["stdout"])
            self.assertTrue((self.path / "stdout").is_symlink())

    def test_a_symbolic_link_stays_one(self):
        (self.path / "folder").mkdir()
        for target, there in (("folder/old.npy", True), ("folder/new.npy", False)):
            link = self.path / f"{there}.npy"
            link.symlink_to(target)
            if there:
                (self.path / target).write_bytes(b"old")
            self.assertEqual(tconv(*self.run_files, "--output", link).returncode, 0)
            self.assertTrue(link.is_symlink())
            self.assertEqual((self.path / target).read_bytes(), self.y)

    def test_a_directory_is_refused(self):
        for arguments in ([*self.run_files, "--output", self.path],
                          ["bench", "--random-large", 1, "--list", "--save", self.path]):
            self.refused(*arguments, status=1, says=f"{self.path}: cannot be written: Is a directory")


class StandardStreams(Output):
    COMMANDS = [["--help"], ["--version"], ["help"], ["info"], ["info", "--json"], ["plan", PROBLEM],
                ["plan", PROBLEM, "--json"], ["check", PROBLEM], ["check", PROBLEM, "--json"],
                ["bench", PROBLEM, "--seconds", "0.001"], ["bench", "--random-large", "3", "--list"]]

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            for command in [*self.COMMANDS, [*map(str, self.run_files), "--output", "-"]]:
                result = subprocess.run([TCONV, *command], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual((result.returncode, result.stderr),
                                 (1, "tconv: standard output: cannot be written: No space left on device\n"), command)

    def test_a_closed_standard_output_is_an_error(self):
        for command in self.COMMANDS:
            result = subprocess.run(["sh", "-c", '"$@" >&-', "sh", TCONV, *command], stderr=subprocess.PIPE, text=True)
            self.assertEqual((result.returncode, result.stderr),
                             (1, "tconv: standard output: cannot be written: Bad file descriptor\n"), command)

    def test_closed_streams_do_not_end_in_files(self):
        output = self.path / "y.npy"
        result = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", TCONV, *map(str, self.run_files), "--output", output])
        self.assertEqual((result.returncode, output.read_bytes()), (1, self.y))

    def test_a_closed_or_full_standard_error_changes_no_status(self):
        for command, status in ((["nonsense"], 2), (["check"], 2), (["plan", "ci1 zebra"], 2),
                                (["check", PROBLEM, "--device", "zebra"], 2), (["check", PROBLEM], 0),
                                (["run", "--input", "absent", "--weight", "absent", "--output", "y"], 2)):
            for where in ("2>&-", "2>/dev/full"):
                result = subprocess.run(["sh", "-c", f'"$@" {where}', "sh", TCONV, *command], capture_output=True)
                self.assertEqual(result.returncode, status, (command, where))

    def test_arrays_from_standard_input_to_standard_output(self):
        for source, arguments in (("x.npy", ["--input", "-", "--weight", self.path / "w.npy"]),
                                  ("w.npy", ["--input", self.path / "x.npy", "--weight", "-"])):
            command = [TCONV, "run", *map(str, arguments), "--output", "-"]
            data = (self.path / source).read_bytes()
            piped = subprocess.run(command, input=data, capture_output=True)
            self.assertEqual((piped.returncode, piped.stdout), (0, self.y), piped.stderr)
            self.assertEqual(piped.stderr, b"-: n1 ci2 co3 l5 k2 s1 p0 f32 by " + piped.stderr.split()[-1] + b"\n")
            with open(self.path / source, "rb") as file:
                self.assertEqual(subprocess.run(command, stdin=file, capture_output=True).stdout, self.y)
            for broken, says in ((data[:-1], b"it ends before"), (data + b"x", b"more bytes than"), (b"", b"not a .npy file")):
                result = subprocess.run(command, input=broken, capture_output=True)
                self.assertEqual((result.returncode, result.stdout), (2, b""), result)
                self.assertIn(b"standard input: ", result.stderr)
                self.assertIn(says, result.stderr)
        self.refused("run", "--input", "-", "--weight", "-", "--output", "y", says="only one array can come from standard input")
        self.refused(*self.run_files, "--output", "-", "--json", says="both want standard output")

    def test_a_header_alone_asks_for_no_memory(self):
        header = npy.header(npy.Array((0,), [])).replace(b"(0,)", b"(1, 1, 99999999999999)")[:128]
        self.assertEqual(len(header), 128)
        result = subprocess.run([TCONV, "run", "--input", "-", "--weight", self.path / "w.npy", "--output", "-"],
                                input=header, capture_output=True)
        self.assertEqual(result.returncode, 2, result)
        self.assertIn(b"standard input: it ends before", result.stderr)

    def test_run_in_json(self):
        result = tconv(*self.run_files, "--output", self.path / "y.npy", "--json")
        report = json.loads(result.stdout)
        self.assertEqual((report["shape"], report["problem"]), ([1, 3, 6], "n1 ci2 co3 l5 k2 s1 p0 f32"))
        self.assertEqual((report["output"], report["device"]), (str(self.path / "y.npy"), "cpu"))
        self.assertTrue(report["kernel"] == "reference" or report["kernel"].startswith("cpu."))
        self.assertGreaterEqual(report["threads"], 1)


class Interrupted(Output):
    def test_signals_leave_no_temporary_file(self):
        (self.path / "x.npy").write_bytes(npy.to_bytes(npy.Array((1, 1, 2), [1, 2])))
        (self.path / "w.npy").write_bytes(npy.to_bytes(npy.Array((1, 1, 1), [3])))
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.assertTrue(any(self.interrupted(sent) for _ in range(5)), "the write was never met")
            self.assertEqual(self.left(), [], sent)

    def written(self):
        """Bytes in the temporary file."""
        try:
            return sum((self.path / name).stat().st_size for name in self.left() if name != "y.npy")
        except FileNotFoundError:  # it took its name meanwhile
            return 0

    def interrupted(self, sent):
        """Whether the signal came while the output was written."""
        program = subprocess.Popen([TCONV, *map(str, [*self.run_files, *LONG, "--output", self.path / "y.npy"])],
                                   stdout=subprocess.DEVNULL)
        while program.poll() is None and not self.written():
            time.sleep(0.0005)
        program.send_signal(sent)
        program.wait()
        if program.returncode == -sent and not (self.path / "y.npy").exists():
            return True
        (self.path / "y.npy").unlink(missing_ok=True)
        return False

    def test_a_limit_on_the_file_size_is_an_error(self):
        limited = ["sh", "-c", 'ulimit -f 8; "$@"', "sh", TCONV, *map(str, self.run_files), "--stride", "30000"]
        result = subprocess.run([*limited, "--output", self.path / "y.npy"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("y.npy: cannot be written: File too large", result.stderr)
        self.assertEqual(self.left(), [])


class Kept(Output):
    def test_no_clobber(self):
        output = self.path / "y.npy"
        output.write_bytes(b"old")
        for arguments in ([*self.run_files, "--output", output], ["bench", "--random-large", 1, "--list", "--save", output],
                          ["bench", "--model", PROBLEM, "--seconds", "0.001", "--save", output]):
            self.refused(*arguments, "--no-clobber", status=1, says="y.npy: is there already, and --no-clobber keeps it")
            self.assertEqual(output.read_bytes(), b"old")
        output.unlink()
        self.assertEqual(tconv(*self.run_files, "--output", output, "--no-clobber").returncode, 0)
        self.assertEqual((output.read_bytes(), self.left()), (self.y, ["y.npy"]))
        self.assertEqual(tconv(*self.run_files, "--output", self.device("null"), "--no-clobber").returncode, 0)
        self.refused("bench", PROBLEM, "--no-clobber", says="--no-clobber is for --save")

    def test_permissions_of_a_replaced_file_stay(self):
        output = self.path / "y.npy"
        output.write_bytes(b"old")
        output.chmod(0o640)
        self.assertEqual(tconv(*self.run_files, "--output", output).returncode, 0)
        self.assertEqual((output.stat().st_mode & 0o777, output.read_bytes()), (0o640, self.y))

    def test_a_list_is_saved(self):
        for more in ([], ["--json"]):
            result = tconv("bench", "--random-large", 3, "--list", "--save", self.path / "list.json", *more)
            self.assertEqual(result.returncode, 0, result.stderr)
            rows = json.loads((self.path / "list.json").read_text())
            printed = [row["problem"] for row in json.loads(result.stdout)] if more else result.stdout.splitlines()
            self.assertEqual([row["problem"] for row in rows], printed)
            self.assertEqual(self.left(), ["list.json"])
        self.refused("bench", "--random-large", 3, "--list", "--save", "-", says="--save writes a file")

    def test_a_file_that_cannot_be_written_costs_no_work(self):
        started = time.monotonic()
        self.refused("bench", PROBLEM, "--model", "--seconds", 500, "--save", "/nowhere/result.json", status=1,
                     says="/nowhere/result.json: cannot be written: No such file or directory")
        self.assertLess(time.monotonic() - started, 60)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
