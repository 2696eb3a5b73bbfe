"""Every kernel begins by waiting for the launch before, or ends so: src/cuda/device/launch_order.cuh says why."""

import pathlib
import re
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src" / "cuda"
KERNEL = re.compile(r"^\s*__global__\b", re.MULTILINE)
WAIT = re.compile(
    r"\s*(wait_for_launch_before\((\{\.lets_begin = (true|p\.lets_begin)\})?\);|wait_to_pack\(p\);"
    r"|wait_for_launch_before\(p\.order\);[^{}]*wait_for_launch_beside\(p\.order\);\s*}"
    r"|#ifdef [^{}]*?// Shared memory alone[^{}*]*?W::prepare\(p, shared\);\s*wait_for_launch_before\(p\.order\);"
    r"(?=[^*]*wait_for_launch_beside\(p\.order\);\s*W::prepare_rows))"
)


def bodies(text):
    """What follows the opening brace of each kernel."""
    for kernel in KERNEL.finditer(text):
        depth = 0
        for at in range(kernel.end(), len(text)):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            if text[at] == "{" and depth == 0:
                yield text[at + 1 :]
                break


class LaunchOrder(unittest.TestCase):
    def test_a_kernel_that_does_not_wait_is_found(self):
        kernel = "__global__ void __launch_bounds__(f(S{}), 1)\n    kernel(const P p) {\n  %s\n}\n"
        for first, waits in (
            ("wait_for_launch_before();\n  run();", True),
            ("wait_for_launch_before(p.order);\n  run();\n  wait_for_launch_beside(p.order);", True),
            ("wait_for_launch_before(p.order);\n  run();", False),
            ("run();\n  wait_for_launch_before();", False),
        ):
            self.assertEqual([bool(WAIT.match(body)) for body in bodies(kernel % first)], [waits])

    def test_every_kernel_waits(self):
        count = 0
        for source in sorted(SOURCES.rglob("*.cu*")):
            for body in bodies(source.read_text()):
                count += 1
                self.assertTrue(WAIT.match(body), f"{source}: a kernel that does not begin with wait_for_launch_before()")
        self.assertGreater(count, 30)


if __name__ == "__main__":
    unittest.main()
