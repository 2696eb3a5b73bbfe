"""tconv run --op: the gradients of a forward call, against their definition."""

import itertools
import json
import random
import sys
import unittest

import npy
from support import FolderCase, tconv


def terms(n, cin, cout, l, k, stride, padding, output_padding, dilation, groups):
    """Every product of the forward call, as places in y, x and w."""
    lout = (l - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1
    for b, co, ci, i, tap in itertools.product(range(n), range(cout), range(cin // groups), range(l), range(k)):
        o = i * stride - padding + tap * dilation
        if 0 <= o < lout:
            ci_all = co // (cout // groups) * (cin // groups) + ci
            yield (b, co, o), (b, ci_all, i), (ci_all, co % (cout // groups), tap)


class Gradients(FolderCase):
    CALLS = [dict(n=2, cin=4, cout=6, l=7, k=5, stride=3, padding=2, output_padding=1, dilation=1, groups=2),
             dict(n=1, cin=3, cout=2, l=1, k=4, stride=1, padding=0, output_padding=0, dilation=3, groups=1),
             dict(n=3, cin=2, cout=2, l=9, k=1, stride=4, padding=0, output_padding=3, dilation=1, groups=2),
             dict(n=1, cin=1, cout=3, l=5, k=3, stride=2, padding=1, output_padding=4, dilation=5, groups=1)]
    OPERANDS = {"grad_input": ("grad_output", "weight"), "grad_weight": ("input", "grad_output"),
                "grad_bias": ("grad_output",)}

    def arrays(self, call, descr="<f4"):
        """Small integers: every dtype holds the exact sums."""
        n, cin, cout, l, k = (call[name] for name in ("n", "cin", "cout", "l", "k"))
        lout = (l - 1) * call["stride"] - 2 * call["padding"] + call["dilation"] * (k - 1) + call["output_padding"] + 1
        shapes = {"input": (n, cin, l), "weight": (cin, cout // call["groups"], k), "grad_output": (n, cout, lout)}
        draw, arrays = random.Random(1), {}
        for name, shape in shapes.items():
            count = shape[0] * shape[1] * shape[2]
            arrays[name] = npy.Array(shape, [draw.randint(-4, 4) for _ in range(count)], descr)
            (self.path / f"{name}.npy").write_bytes(npy.to_bytes(arrays[name]))
        return arrays

    def expected(self, op, call, arrays):
        place = {"grad_input": 1, "grad_weight": 2}
        if op == "grad_bias":
            n, cout, lout = arrays["grad_output"].shape
            return (cout,), [sum(arrays["grad_output"].at(b, co, o) for b in range(n) for o in range(lout))
                             for co in range(cout)]
        shape = arrays["input" if op == "grad_input" else "weight"].shape
        other = "weight" if op == "grad_input" else "input"
        sums = dict.fromkeys(itertools.product(*map(range, shape)), 0)
        for at in terms(**call):
            sums[at[place[op]]] += arrays["grad_output"].at(*at[0]) * arrays[other].at(*at[3 - place[op]])
        return shape, list(sums.values())

    def arguments(self, op, call, operands=None):
        arguments = ["run", "--op", op]
        for name in self.OPERANDS[op] if operands is None else operands:
            arguments += ["--" + name.replace("_", "-"), self.path / f"{name}.npy"]
        for name in ("stride", "padding", "output_padding", "dilation", "groups"):
            if op != "grad_bias":
                arguments += ["--" + name.replace("_", "-"), call[name]]
        return [*arguments, "--output", self.path / "out.npy"]

    def read(self):
        return npy.from_bytes((self.path / "out.npy").read_bytes())

    def test_every_gradient(self):
        for call, descr in itertools.product(self.CALLS, ("<f4", "<f8", "<f2")):
            arrays = self.arrays(call, descr)
            for op in self.OPERANDS:
                result = tconv(*self.arguments(op, call), "--json")
                self.assertEqual(result.returncode, 0, (op, call, result))
                out, (shape, values) = self.read(), self.expected(op, call, arrays)
                self.assertEqual((out.shape, out.descr, list(out.values)), (shape, descr, values), (op, call))
                report = json.loads(result.stdout)
                self.assertEqual(report["shape"], list(out.shape))
                self.assertTrue(report["problem"].startswith({"grad_input": "strided", "grad_weight": "weight"}.get(op, "dbias")))

    def test_the_gradients_of_weight_and_bias_in_one_run(self):
        for call, descr in itertools.product(self.CALLS, ("<f4", "<f8", "<f2")):
            arrays = self.arrays(call, descr)
            more = ["--grad-bias", self.path / "bias.npy"]
            result = tconv(*self.arguments("grad_weight", call), *more, "--json")
            self.assertEqual(result.returncode, 0, (call, result))
            report = json.loads(result.stdout)
            self.assertEqual(report["grad_bias"], str(self.path / "bias.npy"))
            self.assertIn(" bias ", report["problem"])
            self.assertTrue(report["kernel"].endswith(" + cpu.bias"), report["kernel"])
            for name, op in (("out", "grad_weight"), ("bias", "grad_bias")):
                out, (shape, values) = npy.from_bytes((self.path / f"{name}.npy").read_bytes()), self.expected(op, call, arrays)
                self.assertEqual((out.shape, out.descr, list(out.values)), (shape, descr, values), (op, call))

    def test_what_grad_bias_refuses(self):
        self.arrays(self.CALLS[0])
        both = [*self.arguments("grad_weight", self.CALLS[0]), "--grad-bias"]
        self.refused(*self.arguments("grad_input", self.CALLS[0]), "--grad-bias", self.path / "b.npy",
                     says="--op grad_input does not write --grad-bias")
        self.refused(*both, self.path / "out.npy", says="--grad-bias and --output name the same file")
        self.refused(*both, "-", "--json", says="--grad-bias and --json both want standard output")
        self.refused(*both[:-2], "-", "--grad-bias", "-", says="--grad-bias and --output both want standard output")
        (self.path / "b.npy").write_bytes(b"kept")
        self.refused(*both, self.path / "b.npy", "--no-clobber", says="is there already", status=1)
        self.assertFalse((self.path / "out.npy").exists())

    def test_without_samples(self):
        call = self.CALLS[1]
        arrays = self.arrays(call)
        for name in ("input", "grad_output"):
            flat = npy.Array(arrays[name].shape[1:], arrays[name].values)
            (self.path / f"{name}.npy").write_bytes(npy.to_bytes(flat))
        for op in self.OPERANDS:
            self.assertEqual(tconv(*self.arguments(op, call)).returncode, 0)
            shape, values = self.expected(op, call, arrays)
            out = self.read()
            self.assertEqual((out.shape, list(out.values)), (shape[1:] if op == "grad_input" else shape, values))
        (self.path / "input.npy").write_bytes(npy.to_bytes(arrays["input"]))
        self.refused(*self.arguments("grad_weight", call), says="have samples")

    def test_an_empty_output(self):
        (self.path / "grad_output.npy").write_bytes(npy.to_bytes(npy.Array((2, 3, 0), [])))
        self.assertEqual(tconv(*self.arguments("grad_bias", {})).returncode, 0)
        self.assertEqual((self.read().shape, self.read().values), ((3,), [0, 0, 0]))

    def test_the_forward_operation_by_its_name(self):
        call = self.CALLS[0]
        arrays = self.arrays(call)
        self.assertEqual(tconv(*self.arguments("forward", call, ("input", "weight"))).returncode, 0)
        options = {name: call[name] for name in ("stride", "padding", "output_padding", "groups")}
        self.assertEqual(list(self.read().values), npy.conv_transpose1d(arrays["input"], arrays["weight"], None, **options).values)

    def test_conv1d_and_its_gradients(self):
        """A Conv1d is the input gradient of the transposed convolution that has its channels exchanged."""
        for call in self.CALLS:
            if call["output_padding"] >= call["stride"]:
                continue  # no Conv1d leaves so much of its input
            arrays = self.arrays(call)
            x, weight, y = (self.path / f"{name}.npy" for name in ("grad_output", "weight", "input"))
            numbers = [f"--{name}={call[name]}" for name in ("stride", "padding", "dilation", "groups")]
            rest = f"--output-padding={call['output_padding']}"
            bias = npy.Array((call["cin"],), list(range(call["cin"])), "<f4")
            (self.path / "bias.npy").write_bytes(npy.to_bytes(bias))
            shape, values = self.expected("grad_input", call, arrays)
            values = [v + i // shape[2] % shape[1] for i, v in enumerate(values)]
            for op, operand in (("conv1d", ["--input", x]), ("strided", ["--grad-output", x, rest])):
                self.check(["--op", op, *operand, "--weight", weight, "--bias", self.path / "bias.npy", *numbers], shape, values)
            self.check(["--op", "conv1d_grad_weight", "--input", x, "--grad-output", y, *numbers, rest],
                       *self.expected("grad_weight", call, arrays))
            self.check(["--op", "conv1d_grad_input", "--grad-output", y, "--weight", weight, *numbers, rest],
                       *self.transposed(call, arrays))
            sums = [sum(arrays["input"].at(b, c, i) for b in range(call["n"]) for i in range(call["l"])) for c in range(call["cin"])]
            self.check(["--op", "conv1d_grad_bias", "--grad-output", y], (call["cin"],), sums)
            self.check(["--op", "conv1d_grad_weight", "--input", x, "--grad-output", y, *numbers, rest,
                        "--grad-bias", self.path / "gb.npy"], *self.expected("grad_weight", call, arrays))
            out = npy.from_bytes((self.path / "gb.npy").read_bytes())
            self.assertEqual((out.shape, list(out.values)), ((call["cin"],), sums))

    def transposed(self, call, arrays):
        lout = arrays["grad_output"].shape[2]
        sums = dict.fromkeys(itertools.product(range(call["n"]), range(call["cout"]), range(lout)), 0)
        for at in terms(**call):
            sums[at[0]] += arrays["input"].at(*at[1]) * arrays["weight"].at(*at[2])
        return (call["n"], call["cout"], lout), list(sums.values())

    def check(self, arguments, shape, values):
        done = tconv("run", *arguments, "--output", self.path / "out.npy")
        self.assertEqual(done.returncode, 0, done.stderr)
        out = self.read()
        self.assertEqual((tuple(out.shape), list(out.values)), (tuple(shape), list(values)))

    def test_sizes_of_a_conv1d_that_do_not_fit(self):
        call = self.CALLS[0]
        self.arrays(call)
        x, weight = self.path / "grad_output.npy", self.path / "weight.npy"
        one = ["run", "--op", "conv1d", "--input", x, "--weight", weight, "--output", self.path / "out.npy"]
        self.refused(*one, says="weight.npy: its shape is (4, 3, 5), and (cout, 6, k) is needed")
        self.refused(*one, "--groups=2", "--dilation=9", says="k is 5: l+2*padding is ")
        self.refused(*one, "--groups=4", says="groups is 4: must divide cin, which is 6")
        self.refused(*one, "--groups=2", "--output-padding=1", says="--op conv1d takes no --output-padding")
        self.refused("run", "--op", "conv1d_grad_weight", "--input", x, "--grad-output", self.path / "input.npy", "--stride=3",
                     "--padding=2", "--groups=2", "--dilation=9", "--output", self.path / "out.npy", says="no kernel size of")

    def test_files_that_an_operation_lacks_or_does_not_read(self):
        call = self.CALLS[0]
        self.arrays(call)
        for op, reads in {**self.OPERANDS, "forward": ("input", "weight")}.items():
            for name in reads:
                rest = [other for other in reads if other != name]
                self.refused(*self.arguments(op, call, rest), says=f"--op {op} needs --{name.replace('_', '-')}")
            for name in {"input", "weight", "bias", "grad_output"} - set(reads) - ({"bias"} if op == "forward" else set()):
                self.refused(*self.arguments(op, call, [*reads, name]),
                             says=f"--op {op} does not read --{name.replace('_', '-')}")
        self.refused(*self.arguments("grad_zebra", call, ["input"]), says="--op: ")
        for name in ("stride", "padding", "output-padding", "dilation", "groups"):
            self.refused(*self.arguments("grad_bias", call), f"--{name}", 1, says="--op grad_bias sums grad_output as it is")

    def test_sizes_that_do_not_fit(self):
        call = self.CALLS[0]
        arrays = self.arrays(call)
        wrong = dict(call, output_padding=2)
        self.refused(*self.arguments("grad_input", wrong), says="grad_output.npy: no input length of the forward call")
        self.refused(*self.arguments("grad_input", wrong), says="is --output-padding right?")
        self.refused(*self.arguments("grad_weight", dict(call, dilation=3)), says="grad_output.npy: no kernel size of")
        self.refused(*self.arguments("grad_weight", dict(call, stride=30)), says="grad_output.npy: no kernel size of")
        self.refused(*self.arguments("grad_weight", dict(call, padding=2**63 - 1)), says="no kernel size of")
        self.refused(*self.arguments("grad_input", dict(call, stride=0)), says="stride is 0")
        self.refused(*self.arguments("grad_weight", dict(call, dilation=-1)), says="dilation is -1")
        self.refused(*self.arguments("grad_weight", dict(call, groups=4)), says="groups is 4")
        self.refused(*self.arguments("grad_input", dict(call, groups=3)), says="weight.npy: its shape is (4, 3, 5), and (cin, 2, k)")
        whole = arrays["grad_output"]
        one = npy.Array((1, *whole.shape[1:]), whole.values[:len(whole.values) // 2])
        (self.path / "grad_output.npy").write_bytes(npy.to_bytes(one))
        self.refused(*self.arguments("grad_weight", call), says="grad_output.npy: its n is 1, and that of x is 2")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
