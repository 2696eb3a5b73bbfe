"""Arrays as nested tuples of Python's own, in NumPy's file format: so that the tests need no NumPy."""

import itertools
import math
import struct

CODES = {"<f2": "e", "<f4": "f", "<f8": "d", "<V2": "H"}  # two opaque bytes: their bits


class Array:
    def __init__(self, shape, values, descr="<f4"):
        self.shape, self.values, self.descr = tuple(shape), list(values), descr
        assert len(self.values) == math.prod(self.shape)

    def at(self, *index):
        offset = 0
        for size, i in zip(self.shape, index):
            offset = offset * size + i
        return self.values[offset]


def header(array, fortran=False, version=1):
    text = repr({"descr": array.descr, "fortran_order": fortran, "shape": array.shape})
    before = 10 if version == 1 else 12
    text += " " * (-(before + len(text) + 1) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode()


def to_bytes(array, fortran=False, version=1):
    values = array.values
    if fortran:
        indices = itertools.product(*(range(size) for size in reversed(array.shape)))
        values = [array.at(*reversed(index)) for index in indices]
    return header(array, fortran, version) + struct.pack(f"<{len(values)}{CODES[array.descr]}", *values)


def from_bytes(data):
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0 and data[9 + length:10 + length] == b"\n"
    fields = eval(data[10:10 + length], {}, {})  # the program's own output
    assert not fields["fortran_order"]
    count = math.prod(fields["shape"])
    values = struct.unpack(f"<{count}{CODES[fields['descr']]}", data[10 + length:])
    return Array(fields["shape"], values, fields["descr"])


def conv_transpose1d(x, w, bias, stride, padding, output_padding, groups):
    """The definition, by loops: x (n, cin, l), w (cin, cout/groups, k)."""
    n, cin, l = x.shape
    _, cout_g, k = w.shape
    cout = cout_g * groups
    lout = (l - 1) * stride - 2 * padding + k - 1 + output_padding + 1
    values = []
    for b, co, o in itertools.product(range(n), range(cout), range(lout)):
        total = bias.values[co] if bias else 0
        first = co // cout_g * (cin // groups)
        for ci, tap in itertools.product(range(first, first + cin // groups), range(k)):
            i, rest = divmod(o + padding - tap, stride)
            if rest == 0 and 0 <= i < l:
                total += x.at(b, ci, i) * w.at(ci, co % cout_g, tap)
        values.append(total)
    return Array((n, cout, lout), values, x.descr)
