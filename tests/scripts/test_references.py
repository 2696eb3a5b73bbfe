"""docs/reference-cpp.md and docs/capi.md against the headers: every public function is named, as it is declared."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPP = (ROOT / "include/tconv/tconv.hpp").read_text()
C = (ROOT / "include/tconv/tconv.h").read_text()


def flat(text):
    """Without comments, and with single spaces, none beside brackets."""
    text = " ".join(re.sub(r"//.*", "", text).split())
    return re.sub(r" ?([()]) ?", r"\1", text)


def public_functions(header):
    """The names of public member functions and of free functions, by class; constructors have the class's name."""
    found, name, public = set(), "", True
    for line in header.splitlines():
        opened = re.match(r"(class|struct) (\w+)", line)
        if opened and line.rstrip().endswith("{"):
            name, public = opened[2], opened[1] == "struct"
        elif line.startswith("};"):
            name, public = "", True
        elif re.match(r" (public|private):", line):
            public = "public" in line
        function = re.match(r"  (?:[\w:<>&*\[\],]+ )*?(?:[&*]*)(\w+)\(" if name else r"inline [\w:]+ (\w+)\(", line)
        if public and function and function[1] not in ("return", "if", "switch", "requires"):
            found.add(function[1])
    return found


class References(unittest.TestCase):
    def test_every_function_of_the_cpp_header_is_on_the_page(self):
        page = (ROOT / "docs/reference-cpp.md").read_text()
        names = public_functions(CPP)
        self.assertLessEqual({"Problem", "parse", "Plan", "run", "pack", "Buffer", "check", "Error"}, names)
        for name in sorted(names):
            with self.subTest(name=name):
                self.assertTrue(re.search(rf"\b{name}\(", page), "docs/reference-cpp.md does not have it")

    def test_every_class_of_the_cpp_header_is_on_the_page(self):
        page = (ROOT / "docs/reference-cpp.md").read_text()
        for name in re.findall(r"^(?:class|struct) (\w+)", CPP, re.MULTILINE):
            with self.subTest(name=name):
                self.assertTrue(f"\n## {name}\n" in page or f"`{name}`" in page, "docs/reference-cpp.md does not have it")

    def test_every_declaration_on_the_page_is_in_the_header(self):
        page = (ROOT / "docs/reference-cpp.md").read_text()
        header = flat(CPP)
        lines = [line for fence in re.findall(r"```cpp\n(.*?)```", page, re.DOTALL) for line in fence.splitlines()]
        self.assertGreater(len(lines), 30)
        for line in lines:
            with self.subTest(line=line):
                self.assertTrue(flat(line.removesuffix(";")) in header, "tconv.hpp does not declare it")

    def test_every_function_of_the_c_header_is_on_its_page(self):
        page = (ROOT / "docs/capi.md").read_text()
        names = set(re.findall(r"\b(tconv_\w+?)(?:_sized)?\(", " ".join(re.findall(r"^TCONV_API .*", C, re.MULTILINE))))
        self.assertGreater(len(names), 20)
        for name in sorted(names):
            with self.subTest(name=name):
                self.assertTrue(f"`{name}`" in page, "docs/capi.md does not have it")


if __name__ == "__main__":
    unittest.main()
