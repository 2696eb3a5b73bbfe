"""scripts/kernel_resources on the words of a cuobjdump that is played: what it reads, and what it fails on."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/kernel_resources"
CLEAN = "_ZN5tconv4cuda4sm8011pack_kernelINS1_4Tf32EEEvNS0_14Sm80PackParamsE"
DENSE = "_ZN5tconv4cuda12dense_kernelINS0_10DenseShapeIfLi128ELi128ELi8ELi8ELi2EEEEEvNS0_11DenseParamsE"
GATHER = "_ZN5tconv4cuda4simt13gather_kernelI6__halfLi4ELi2EEEvNS1_12GatherParamsE"

USAGE = """
Fatbin elf code:
================
arch = {arch}
code version = [1,8]

Resource usage:
 Common:
  GLOBAL:0
"""
FUNCTION = """ Function {name}:
  REG:{registers} STACK:{stack} SHARED:{shared} LOCAL:0 CONSTANT[0]:360 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
SASS = """
arch = sm_90a
	code for sm_90
		Function : {name}
	.headerflags	@"EF_CUDA_SM90"
"""


def usage(arch, *functions):
    return USAGE.format(arch=arch) + "".join(
        FUNCTION.format(name=name, registers=registers, stack=stack, shared=shared)
        for name, registers, stack, shared in functions)


def sass(name, *instructions):
    """As cuobjdump prints them: 16 bytes each."""
    lines = [f"        /*{16 * i:04x}*/                   {words} ;    /* 0x000000000000794d */\n"
             f"                                                          /* 0x000fea0003800000 */\n"
             for i, words in enumerate(instructions)]
    return SASS.format(name=name) + "".join(lines)


PRODUCTS = ["FFMA R1, R2, R3, R1"] * 8
# Stored once before a loop of products from 0x10 to 0xa0, and read in it or behind it.
INSIDE = ["STL.64 [R1], R28", "LDL.64 R44, [R1]", *PRODUCTS, "@!P0 BRA 0x10", "EXIT", "BRA 0xc0"]
BEHIND = ["STL.64 [R1], R28", *PRODUCTS, "@!P0 BRA 0x10", "LDL R44, [R1]", "EXIT", "BRA 0xc0"]


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        (self.path / "lib.so").write_bytes(b"\0Cuda compilation tools, release 13.0, V13.0.88\0")

    def run_script(self, usage_text, sass_text, *arguments):
        for name, text in (("usage", usage_text), ("sass", sass_text)):
            (self.path / name).write_text(text)
        tool = self.path / "cuobjdump"
        tool.write_text(f'#!/bin/sh\nfor a; do [ "$a" = -sass ] && exec cat "{self.path}/sass"; done\n'
                        f'exec cat "{self.path}/usage"\n')
        tool.chmod(0o755)
        return subprocess.run([sys.executable, SCRIPT, self.path / "lib.so", "--cuobjdump", tool, *arguments],
                              capture_output=True, text=True)

    def test_the_table(self):
        text = usage("sm_80", (CLEAN, 99, 0, 0)) + usage("sm_90a", (CLEAN, 30, 0, 1024), (DENSE, 127, 8, 33792))
        path = self.path / "table.md"
        result = self.run_script(text, sass(DENSE, *INSIDE), "--output", path)
        self.assertEqual(result.returncode, 0, result)
        written = path.read_text()
        self.assertIn("machine code for sm_90a (ptxas 13.0.88): 2 kernels, 1 of them", written)
        self.assertIn("## cuda.sm80.dense\n", written)
        self.assertIn("| `pack<Tf32>` | 30 | 1024 | 0 | 0 |  |\n", written)
        self.assertIn("## cuda.simt.dense\n", written)
        self.assertIn("| `dense<f32, 128, 128, 8, 8, 2>` | 127 | 33792 | 8 | 8 / 8 | 1 of 2 |\n", written)
        self.assertIn("Allowed to spill: one or two values", written)
        result = self.run_script(text, "", "--arch", "sm_80", "--output", path)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("| `pack<Tf32>` | 99 | 0 | 0 | 0 |  |\n", path.read_text())

    def test_what_is_allowed_passes(self):
        result = self.run_script(usage("sm_90a", (DENSE, 127, 16, 0), (GATHER, 48, 8, 0)),
                                 sass(DENSE, *INSIDE) + sass(GATHER, *BEHIND), "--check")
        self.assertEqual((result.returncode, result.stdout), (0, "2 kernels, 2 spill, 0 of them not allowed to\n"))

    def test_a_spill_fails(self):
        result = self.run_script(usage("sm_90a", (CLEAN, 30, 8, 0)), sass(CLEAN, *BEHIND), "--check")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("cuda.sm80.dense pack<Tf32>: spills 8 bytes and reads 4 back; 8 bytes of stack (0 are allowed)",
                      result.stdout)
        self.assertTrue(result.stdout.endswith("1 kernels, 1 spill, 1 of them not allowed to\n"))

    def test_more_stack_or_another_place_than_allowed_fails(self):
        result = self.run_script(usage("sm_90a", (DENSE, 127, 24, 0)), sass(DENSE, *INSIDE), "--check")
        self.assertEqual(result.returncode, 1, result)
        result = self.run_script(usage("sm_90a", (GATHER, 48, 8, 0)), sass(GATHER, *INSIDE), "--check")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("1 times in loops of multiply-adds (0)", result.stdout)

    def test_branches_to_labels(self):
        lines = sass(GATHER, *INSIDE).replace("BRA 0x10", "BRA `(.L_x_7)").splitlines(keepends=True)
        second = next(i for i, line in enumerate(lines) if "/*0010*/" in line)
        labelled = "".join([*lines[:second], ".L_x_7:\n", *lines[second:]])
        result = self.run_script(usage("sm_90a", (GATHER, 48, 8, 0)), labelled, "--check")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("1 times in loops of multiply-adds (0)", result.stdout)

    def test_a_stack_that_nothing_moves_to_is_no_spill(self):
        result = self.run_script(usage("sm_90a", (CLEAN, 30, 8, 0)), sass(CLEAN, *PRODUCTS, "EXIT"), "--check")
        self.assertEqual((result.returncode, result.stdout), (0, "1 kernels, 0 spill, 0 of them not allowed to\n"))

    def test_nothing_to_look_at_is_status_2_and_one_line(self):
        code = usage("sm_90a", (CLEAN, 30, 8, 0))
        for words, says in ((["", "", "--check"], "holds no CUDA code"),
                            ([code, "", "--check", "--arch", "sm_75"], "no kernel for sm_75; it has sm_90a"),
                            ([code, "", "--check"], f"no code of {CLEAN} was read")):
            result = self.run_script(*words)
            self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (2, "", 1), result)
            self.assertIn(says, result.stderr)
        for arguments, says in ((["/nowhere/lib.so"], "does not exist"),
                                ([self.path / "lib.so", "--cuobjdump", "/nowhere/cuobjdump"], "was not found")):
            result = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stdout), (2, ""), result)
            self.assertIn(says, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
