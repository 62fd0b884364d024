#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks every #include of the tree against cmake/layers.txt and cmake/foreign_headers.txt.

A module may include its own headers and those of the modules in its line of layers.txt; indirect dependencies do not count.
A folder of a module with a line of its own is a module, too.
A header of another project may be included only by the modules listed for it. Tools, examples, benchmarks and tests other
than unit tests use only the public library or the C ABI.
"""
import argparse
import fnmatch
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sources  # noqa: E402

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
ABOVE = ("tools", "examples", "bench", "tests")
# Folders of unit tests that compile a module in another way, and that module.
UNIT_TESTS_OF = {"softdev/cost": "softdev/fabric"}
# Modules that the unit tests of a module use in addition: operations in steps of net run on the loop of async.
TESTED_WITH = {"net": {"async"}}
# A benchmark of an internal function, which no call of the C ABI separates from others, and its header.
MEASURED = {"bench/wire/checksums.cpp": "softdev/wire/crc32.hpp"}


def read_table(path):
    table = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.partition(":")
            table[name.strip()] = rest.split()
    return table


def closure(layers, module):
    seen = {module}
    todo = [module]
    while todo:
        for below in layers.get(todo.pop(), []):
            if below not in seen:
                seen.add(below)
                todo.append(below)
    return seen


def module_of(path, layers):
    """Returns the module of a file or of an include path from the root, or None."""
    parts = path.split("/")
    if parts[0] == "include":
        parts = parts[1:]
    if parts[0] == "verbena":
        return parts[1] if len(parts) > 2 else "verbena"
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[0] == "softdev" and len(parts) > 2:
        part = "/".join(parts[:3])
        return part if len(parts) > 3 and part in layers else "/".join(parts[:2])
    return None


class Checker:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.layers = read_table(self.root / "cmake" / "layers.txt")
        self.foreign = read_table(self.root / "cmake" / "foreign_headers.txt")
        self.complaints = []

    def run(self):
        for path in sources.code_files(self.root):
            text = path.read_text()
            shown = str(path.relative_to(self.root))
            # Comments may contain includes, so comments are blanked. Strings are kept: they contain the included names.
            plain = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.DOTALL)
            for match in INCLUDE.finditer(plain):
                complaint = self.complaint(shown, match.group(1), match.group(2))
                if complaint:
                    line = sources.line_of(plain, match.start(1))
                    self.complaints.append(f"{shown}:{line}: {complaint}")
        for module, below in self.layers.items():
            for name in below:
                if name not in self.layers:
                    self.complaints.append(f"cmake/layers.txt: {module} depends on {name}, which is not a module")
        return self.complaints

    def complaint(self, file, bracket, included):
        module = module_of(file, self.layers)
        target = module_of(included, self.layers) if bracket == '"' or included.startswith("verbena/") else None
        if bracket == '"' and target is None:
            return self.own_file(file, included)
        if target is None:
            return self.foreign_header(module, included)
        if module is not None:
            return self.inside(module, target, included)
        return self.from_above(file, target, included)

    def own_file(self, file, included):
        """Checks a quoted include that is not a header of a module: the path starts at the root, in an allowed folder."""
        if not (self.root / included).exists():
            return f'"{included}" does not exist: use the path from the root of the repository'
        if included.split("/")[0] in ABOVE and file.split("/")[0] not in ABOVE:
            return f'a module includes "{included}", which is not part of the product'
        return None

    def inside(self, module, target, included):
        if module == "verbena":  # verbena.hpp: everything
            return None
        if module not in self.layers:
            return f"module {module} has no line in cmake/layers.txt"
        if target != module and target not in self.layers[module]:
            return f'{module} may not include "{included}": cmake/layers.txt does not name {target} for it'
        return None

    def from_above(self, file, target, included):
        unit = re.match(r"tests/unit/(softdev/\w+|\w+)(/\w+)?/", file)
        module = unit and UNIT_TESTS_OF.get(unit.group(1), unit.group(1))
        if unit and unit.group(2) and module + unit.group(2) in self.layers:
            module += unit.group(2)
        if module in self.layers:
            if target not in closure(self.layers, module) | TESTED_WITH.get(module, set()):
                return f'tests of {module} may not include "{included}" of {target}'
            return None
        if not included.startswith("verbena/") and MEASURED.get(file) != included:
            return f'"{included}" is internal: use the public library or the C ABI'
        return None

    def foreign_header(self, module, included):
        if module is None or module == "verbena":
            return None
        for pattern, homes in self.foreign.items():
            if fnmatch.fnmatchcase(included, pattern) and module not in homes:
                return f"<{included}> belongs to {', '.join(homes)}, not to {module}"
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    complaints = Checker(parser.parse_args().root).run()
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
