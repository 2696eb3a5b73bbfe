"""Layers of real models and free problem text, as one list of problems for the comparison scripts."""

import csv
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "tests" / "shapes" / "layers.tsv"
DTYPES = {"fp32": "f32", "fp64": "f64", "fp16": "f16", "bf16": "bf16"}


@dataclass(frozen=True)
class Layer:
    name: str
    n: int
    cin: int
    cout: int
    l: int
    k: int
    stride: int
    padding: int
    output_padding: int
    dilation: int
    groups: int
    bias: bool
    dtype: str

    def text(self, precision=""):
        words = [f"n{self.n} ci{self.cin} co{self.cout} l{self.l} k{self.k} s{self.stride} p{self.padding}"]
        words += [f"op{self.output_padding}"] if self.output_padding else []
        words += [f"d{self.dilation}"] if self.dilation != 1 else []
        words += [f"g{self.groups}"] if self.groups != 1 else []
        words += ["bias"] if self.bias else []
        return " ".join([*words, *filter(None, (self.dtype, precision))])


def table(path=TABLE, batch=None, dtype=None):
    """Rows of a layer table; batch and dtype replace the table's own."""
    layers = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            number = {key: int(row[key]) for key in ("cin", "cout", "k", "stride", "padding", "output_padding",
                                                     "dilation", "groups")}
            layers.append(Layer(name=f"{row['model']} {row['layer']}", n=batch or int(row["batch"]),
                                l=int(row["length"]), bias=row["bias"] == "True",
                                dtype=dtype or DTYPES[row["dtype"]], **number))
    return layers
