#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles one file of tests/compile_fail twice.

Without definitions (the control) the file must compile. With -DVERBENA_BAD the compiler must refuse the file, and the
diagnostics must match every `// expect: REGEX` line. `// expect-gcc:` and `// expect-clang:` lines apply to one compiler.

`--prepare` compiles all given cases as one unit, each in its own namespace, and stores the diagnostics of each case in the
folder of `--prepared`. A case passes if they show that its control compiles and that its code is refused as expected. Every
other case is compiled alone, and this second compilation decides.
"""
import argparse
import hashlib
import json
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r"^#include .+$", re.MULTILINE)
ERROR = re.compile(r"^\S+?:\d+:\d+: (?:fatal )?error: ", re.MULTILINE)


def family_of(compiler):
    return "clang" if "clang" in pathlib.Path(compiler).name else "gcc"


def compile_file(compiler, flags, source, bad):
    limit = "-ferror-limit=0" if family_of(compiler) == "clang" else "-fmax-errors=0"
    command = [compiler, *flags, limit, "-fsyntax-only", *(["-DVERBENA_BAD"] if bad else []), str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def unit_of(cases):
    """Returns one source with all cases. The headers come first, so that they are not included inside a namespace."""
    includes = sorted({line for case in cases for line in INCLUDE.findall(case.read_text())})
    bodies = [f'namespace case_{number} {{\n#include "{case.resolve()}"\n}}' for number, case in enumerate(cases)]
    return "\n".join([*includes, *bodies, ""])


def diagnostics_of_cases(text, cases):
    """Returns the diagnostics of each case. A diagnostic belongs to the last case that its lines mention before the next
    error; lines without a case belong to the previous one."""
    paths = {str(case.resolve()): case for case in cases}
    mention = re.compile("|".join(re.escape(path) for path in paths))
    found = {case: [] for case in cases}
    block, owner = [], None
    for line in text.splitlines():
        named = mention.search(line)
        if named and paths[named[0]] != owner:
            block, owner = found[paths[named[0]]], paths[named[0]]
        block.append(line)
    return {case: "\n".join(lines) for case, lines in found.items()}


def digest_of(case):
    return hashlib.sha256(case.read_bytes()).hexdigest()


def compile_unit(compiler, flags, cases, source, bad):
    source.write_text(unit_of(cases))
    done = compile_file(compiler, flags, source, bad)
    return done.returncode, diagnostics_of_cases(done.stderr, cases)


def prepare(compiler, flags, cases, folder):
    """Compiles all cases as one unit and stores their diagnostics. Cases that do not compile inside a namespace, for example
    because they specialize a template of the library, are left out. g++ may give up after an error ("confused by earlier
    errors"); the cases after the last error are then compiled as another unit."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "all_cases.cpp"
    code, controls = compile_unit(compiler, flags, cases, source, bad=False)
    if code != 0:
        cases = [case for case in cases if not ERROR.search(controls[case])]
        code, _ = compile_unit(compiler, flags, cases, source, bad=False)
    stored = {}
    while cases and code == 0:
        _, refused = compile_unit(compiler, flags, cases, source, bad=True)
        found = [case for case in cases if ERROR.search(refused[case])]
        stored.update((str(case.resolve()), {"digest": digest_of(case), "diagnostics": refused[case]}) for case in found)
        cases = [case for case in cases if case not in found] if found else []
    (folder / "diagnostics.json").write_text(json.dumps(stored))


def is_refused_in_unit(case, expected, folder):
    """Returns whether the stored diagnostics suffice."""
    path = folder / "diagnostics.json"
    stored = json.loads(path.read_text()).get(str(case.resolve())) if path.exists() else None
    if stored is None or stored["digest"] != digest_of(case):
        return False
    text = stored["diagnostics"]
    return bool(ERROR.search(text)) and all(re.search(pattern, text) for pattern in expected)


def expectations(text, compiler):
    return re.findall(rf"^// expect(?:-{family_of(compiler)})?: (.+)$", text, re.MULTILINE)


def check(compiler, flags, case, folder):
    """Returns a list of complaints, empty if the case passes."""
    text = case.read_text()
    expected = expectations(text, compiler)
    if not expected:
        return ["the file has no `// expect: REGEX` line for this compiler"]
    if "VERBENA_BAD" not in text:
        return ["the file has no code under `#ifdef VERBENA_BAD`"]
    if folder and is_refused_in_unit(case, expected, folder):
        return []
    control = compile_file(compiler, flags, case, bad=False)
    if control.returncode != 0:
        return ["the control does not compile:\n" + control.stderr]
    refused = compile_file(compiler, flags, case, bad=True)
    if refused.returncode == 0:
        return ["the code under VERBENA_BAD compiles"]
    return [f"the diagnostics do not match `{pattern}`:\n{refused.stderr}"
            for pattern in expected if not re.search(pattern, refused.stderr)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", required=True, type=pathlib.Path, help="a file with one flag a line")
    parser.add_argument("--prepared", type=pathlib.Path, help="the folder of --prepare")
    parser.add_argument("--prepare", action="store_true", help="store the diagnostics of all cases in the folder")
    parser.add_argument("cases", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    # -isystem/usr/include would move /usr/include to the front of the search path and break #include_next.
    flags = [line for line in options.flags.read_text().splitlines() if line and line != "-isystem/usr/include"]
    if options.prepare:
        prepare(options.compiler, flags, options.cases, options.prepared)
        return 0
    complaints = [f"{case}: {complaint}" for case in options.cases
                  for complaint in check(options.compiler, flags, case, options.prepared)]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
