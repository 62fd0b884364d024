#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the classes of the software device: the number of their functions and members, and the files that define them.

A class has at most 25 public functions. Not counted: constructors, the destructor, operators, conversions, deleted
functions, functions of bases and of nested classes. Overloads and static functions count.

A class has at most 15 data members. Not counted: static members, members of nested classes; an anonymous union is one
member. Exempt are plain values: all members are public, and each function, if any, is const, static, or one of those
that the first limit does not count. Attribute and message structs are such values.

A class has its functions in one source: the classes with functions in several .cpp files are reported.

An exception needs `lint: allow(class-functions): REASON`, `class-members` or `class-sources` on the line of the class or
on the line above.
"""
import argparse
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import class_shape  # noqa: E402
import sources  # noqa: E402

FOLDER = "softdev"
FUNCTIONS = 25
MEMBERS = 15


class Check:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.complaints = []
        self.known = {}                                # qualified name: (path, line, lines)
        self.defined = collections.defaultdict(set)    # qualified name: sources with its functions

    def run(self):
        scans = []
        for path in sources.code_files(self.root):
            if path.relative_to(self.root).parts[0] == FOLDER and path.suffix in (".hpp", ".cpp"):
                scans.append((path, class_shape.Scan(path.read_text()), path.read_text().splitlines()))
        for path, scan, lines in scans:
            for found in scan.classes:
                self.sizes(path, found, lines)
                if path.suffix == ".hpp":
                    self.known[found.name] = (path, found.line, lines)
        for path, scan, _ in scans:
            if path.suffix == ".cpp":
                self.collect(path, scan)
        for name, files in self.defined.items():
            self.sources(name, files)
        return sorted(self.complaints)

    def say(self, place, rule, text):
        path, line, lines = place
        if not sources.allowed(lines, line, rule):
            self.complaints.append(f"{path.relative_to(self.root)}:{line}: {text} [{rule}]")

    def sizes(self, path, found, lines):
        name = found.name.rsplit("::", 1)[-1]
        if len(found.functions) > FUNCTIONS:
            self.say((path, found.line, lines), "class-functions",
                     f"{name} has {len(found.functions)} public functions; the cap is {FUNCTIONS}: split by responsibility")
        value = not found.private and not found.changing
        if len(found.members) > MEMBERS and not value:
            self.say((path, found.line, lines), "class-members",
                     f"{name} has {len(found.members)} data members; the cap is {MEMBERS}: split by responsibility")

    def collect(self, path, scan):
        """Notes the class of each function that the source defines, if a header has the class."""
        for function in scan.definitions:
            scope = function.scope.split("::")
            for depth in range(len(scope), -1, -1):  # the class may be in an outer namespace
                name = class_shape.join(*scope[:depth], function.owner)
                if name in self.known:
                    self.defined[name].add(path)
                    break

    def sources(self, name, files):
        if len(files) > 1:
            shown = ", ".join(sorted(str(path.relative_to(self.root)) for path in files))
            self.say(self.known[name], "class-sources",
                     f"{name.rsplit('::', 1)[-1]} has functions in several sources ({shown}): "
                     "make a class of each responsibility")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    complaints = Check(parser.parse_args().root).run()
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
