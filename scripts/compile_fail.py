#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles one file of tests/compile_fail twice.

As it stands (the control) it must compile. With -DVERBENA_BAD it must be refused, and what the compiler says must
match every `// expect: REGEX` line of the file. Where gcc and clang differ, `// expect-gcc:` and `// expect-clang:`
are used for one of them.

The headers are read once: `--precompile` leaves them in a folder, as the compiler has them in memory, from where the
cases take them.
"""
import argparse
import pathlib
import re
import subprocess
import sys


def family_of(compiler):
    return "clang" if "clang" in pathlib.Path(compiler).name else "gcc"


class Headers:
    """The precompiled form of one header, in a folder of its own."""

    def __init__(self, compiler, folder):
        self.compiler = compiler
        self.header = folder / "precompiled.hpp"
        self.compiled = folder / ("precompiled.pch" if family_of(compiler) == "clang" else "precompiled.hpp.gch")

    def make(self, flags, header):
        self.header.parent.mkdir(parents=True, exist_ok=True)
        self.header.write_text(f'#include "{header.resolve()}"\n')
        done = subprocess.run([self.compiler, *flags, "-x", "c++-header", str(self.header), "-o", str(self.compiled)],
                              capture_output=True, text=True, check=False)
        return [] if done.returncode == 0 else [f"{header} does not compile:\n{done.stderr}"]

    def flags(self):
        if family_of(self.compiler) == "clang":
            return ["-include-pch", str(self.compiled)]
        return ["-Winvalid-pch", "-include", str(self.header)]  # g++ looks for a .gch beside it


def compile_case(compiler, flags, case, bad):
    command = [compiler, *flags, "-fsyntax-only", *(["-DVERBENA_BAD"] if bad else []), str(case)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def expectations(text, compiler):
    return re.findall(rf"^// expect(?:-{family_of(compiler)})?: (.+)$", text, re.MULTILINE)


def check(compiler, flags, case):
    """Returns a list of complaints; empty when the case holds."""
    text = case.read_text()
    expected = expectations(text, compiler)
    if not expected:
        return ["the file has no `// expect: REGEX` line for this compiler"]
    if "VERBENA_BAD" not in text:
        return ["the file has no line under VERBENA_BAD"]
    control = compile_case(compiler, flags, case, bad=False)
    if control.returncode != 0:
        return ["the control does not compile:\n" + control.stderr]
    refused = compile_case(compiler, flags, case, bad=True)
    if refused.returncode == 0:
        return ["the bad line compiles"]
    return [f"the compiler does not say `{pattern}`:\n{refused.stderr}"
            for pattern in expected if not re.search(pattern, refused.stderr)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", required=True, type=pathlib.Path, help="a file with one flag a line")
    parser.add_argument("--precompiled", type=pathlib.Path, help="the folder of --precompile")
    parser.add_argument("--precompile", action="store_true", help="the file is a header for the folder")
    parser.add_argument("case", type=pathlib.Path)
    options = parser.parse_args()
    # The compilers search /usr/include last, for #include_next; named as a system directory it would come first.
    flags = [line for line in options.flags.read_text().splitlines() if line and line != "-isystem/usr/include"]
    headers = Headers(options.compiler, options.precompiled) if options.precompiled else None
    if options.precompile:
        complaints = headers.make(flags, options.case)
    else:
        complaints = check(options.compiler, flags + (headers.flags() if headers else []), options.case)
    for complaint in complaints:
        print(f"{options.case}: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
