"""docs/reference-python.md against the package: every public name is there, with its parameters and defaults."""

import inspect
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import tconv

PAGE = Path(__file__).resolve().parents[2] / "docs/reference-python.md"
HEADINGS = dict(re.findall(r"^### `((?:torch\.ops\.)?tconv\.\w+)(.*)`$", PAGE.read_text(), re.MULTILINE))


def word(value):
    if isinstance(value, tuple):
        return f"({', '.join(word(each) for each in value)})"
    return f"nn.{value.__name__}" if isinstance(value, type) else repr(value)


def signature(function):
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        default = "" if parameter.default is parameter.empty else f"={word(parameter.default)}"
        parts.append(stars.get(parameter.kind, "") + parameter.name + default)
    return f"({', '.join(parts)})"


def test_every_public_name_is_on_the_page():
    assert {name.removeprefix("tconv.") for name in HEADINGS if name.startswith("tconv.")} == set(tconv.__all__)


@pytest.mark.parametrize("name", [name for name in tconv.__all__ if callable(getattr(tconv, name))])
def test_signatures(name):
    what = getattr(tconv, name)
    # A layer's constructor is PyTorch's own, and its defaults are those of the PyTorch in use.
    assert HEADINGS[f"tconv.{name}"] == signature(what)


@pytest.mark.parametrize("name", [name for name in HEADINGS if name.startswith("torch.ops")])
def test_operators(name):
    schema = getattr(torch.ops.tconv, name.rsplit(".", 1)[1]).default._schema
    assert HEADINGS[name] == f"({', '.join(argument.name for argument in schema.arguments)})"


def test_layers_are_subclasses_of_pytorchs():
    assert issubclass(tconv.ConvTranspose1d, nn.ConvTranspose1d)
    assert issubclass(tconv.Conv1d, nn.Conv1d)
