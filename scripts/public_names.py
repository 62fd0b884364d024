#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks (or, with --fix, writes) the two files that list the public names: include/verbena/fwd.hpp, the forward
declarations, and modules/verbena.cppm, the exports of the C++20 module.

The names are those that the headers below include/verbena declare in the namespace verbena and in the namespaces inside
it, except `detail`.
"""
import argparse
import dataclasses
import pathlib
import re
import sys

import sources

# Not those of asio, which other programs may not declare: with `using namespace verbena`, `asio` would be ambiguous.
NOT_LISTED = ("verbena.hpp", "fwd.hpp", "asio/")
# Headers that the module does not export: adapters of one vendor, diagnosis, tables of functions of other libraries.
NOT_EXPORTED = ("efa/", "diagnose/", "sys/", "base/soft_entry.hpp", "base/sanitizers.hpp")
# Headers of the concepts that forward declarations of templates need.
CONCEPTS = ("base/flags.hpp", "verbs/transport.hpp")
ENUM = re.compile(r"enum (?:class|struct) (\w+)(?: : ([\w:]+))?$")
CLASS = re.compile(r"(class|struct|union) (?:VERBENA_\w+ )?(\w+)(?: final)?(?: : .*)?$")
ALIAS = re.compile(r"using (\w+) = (.*)$")
FUNCTION = re.compile(r"(?:^|[\s*&>])(operator\s*(?:\(\)|\[\]|[^\s\w(]+)|\w+)\s*\(")


@dataclasses.dataclass
class Name:
    space: str        # verbena, verbena::cm, …
    kind: str         # class, enum, alias, function, variable, concept
    name: str
    declaration: str  # a forward declaration, or ""
    header: str


def declarations(text):
    """Returns (namespace, head) of each declaration at namespace scope; the head is the text before a body."""
    text = sources.without_preprocessor(sources.blank(text))
    spaces, start, position, found = [], 0, 0, []

    def skip_body(at):
        depth = 0
        while True:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
            if depth == 0:
                return at

    parentheses = 0
    while position < len(text):
        letter = text[position]
        parentheses += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "{" and parentheses == 0:
            head = " ".join(text[start:position].split())
            opened = re.fullmatch(r"(?:inline )?namespace([\w:\s]*)", head)
            if opened or re.fullmatch(r'extern "\s*"', head):
                spaces.append(opened.group(1).strip() if opened else "extern")
                position += 1
                start = position
                continue
            end = skip_body(position)
            rest = re.match(r"\s*;", text[end:])
            if re.search(r"\b(?:requires|=)$", head) or re.search(r"\brequires [^;]*$", head) and "concept" in head:
                position = end  # a braced expression, after which the declaration continues
                continue
            declared = split_template(head)[1]  # without default template arguments
            if "=" in declared and not re.search(r"\boperator\b", declared) and not rest:
                position = end
                continue
            found.append(("::".join(spaces), head))
            position = end + (rest.end() if rest else 0)
            start = position
        elif letter == "}" and parentheses == 0:
            spaces.pop()
            position += 1
            start = position
        elif letter == ";" and parentheses == 0:
            head = " ".join(text[start:position].split())
            if head:
                found.append(("::".join(spaces), head))
            position += 1
            start = position
        else:
            position += 1
    return found


def split_template(head):
    """Returns the leading `template <…>` clauses and the rest of the declaration."""
    front = ""
    while match := re.match(r"template\s*<", head):
        depth, at = 0, match.end() - 1
        while True:
            depth += {"<": 1, ">": -1}.get(head[at], 0)
            at += 1
            if depth == 0:
                break
        front += head[:at]
        head = head[at:].strip()
    return front, head


def without_attributes(head):
    return re.sub(r"\[\[[^\]]*(?:\][^\]]+)*\]\]\s*", "", head).strip()


def without_defaults(front):
    """Removes default template arguments, which C++ permits in only one declaration."""
    return re.sub(r"\s*=\s*[^,<>]+(?:<[^<>]*>)?(?=[,>])", "", front)


def space_of(path):
    return re.sub(r"::+", "::", re.sub(r"(inline|VERBENA_ABI)", "", path).replace(" ", "")).strip(":")


def names_of(header, text):
    for path, head in declarations(text):
        space = space_of(path)
        if not space.startswith("verbena") or "detail" in space or "extern" in space:
            continue
        front, head = split_template(head)
        head = without_attributes(head)
        # Parts of the initializers of a constructor that is defined outside its class.
        if head.startswith((",", ":", "noexcept", "const ")) and "(" in head or head.startswith(","):
            continue
        if front.replace(" ", "") == "template<>" or head.startswith(("static_assert", "using namespace", "using enum")):
            continue
        yield from name_of(space, front, head, header)


def name_of(space, front, head, header):
    made = lambda kind, name, declaration="": Name(space, kind, name, declaration, header)  # noqa: E731
    if match := ENUM.match(head):
        yield made("enum", match.group(1), head + ";")
    elif match := re.match(r"concept (\w+)", head):
        yield made("concept", match.group(1))
    elif match := ALIAS.match(head):
        identifier = re.fullmatch(r"(?:strong_id|id24)<struct (\w+).*>", match.group(2))
        yield made("alias", match.group(1), head + ";" if identifier else "")
    elif match := CLASS.match(head.partition(" : ")[0]):
        if "<" not in head.partition(" : ")[0]:  # a specialization has no new name
            short = f"{match.group(1)} {match.group(2)};"
            yield made("class", match.group(2), f"{without_defaults(front)} {short}".strip())
    elif "requires" in head and (match := CLASS.search(re.sub(r"^requires\s*\(?.*?\)?\s(?=class|struct)", "", head))):
        yield made("class", match.group(2))
    elif match := FUNCTION.search(re.sub(r"^requires\s*\([^)]*\)\s*", "", head)):
        if "::" not in head[:match.end()].split("(")[0].split()[-1]:  # a member defined outside its class
            yield made("function", match.group(1).replace(" ", ""))
    elif match := re.search(r"(\w+)(?:<[^>]*>)?\s*(?:=.*)?$", head.partition(" =")[0]):
        if not head.partition(" =")[0].endswith(">") and re.match(r"(?:extern |inline |constexpr )", head):
            yield made("variable", match.group(1))


def public_names(root):
    include = root / "include" / "verbena"
    for path in sorted(include.rglob("*.hpp")):
        header = str(path.relative_to(include))
        if "detail/" not in header and not header.startswith(NOT_LISTED):
            yield from names_of(header, path.read_text())


def by_space(names):
    spaces = {}
    for name in names:
        spaces.setdefault(name.space, []).append(name)
    return dict(sorted(spaces.items()))


def nested(space):
    """Returns the line that opens a namespace in a header."""
    inner = space.partition("::")[2]
    return "namespace verbena::inline VERBENA_ABI" + (f"::{inner}" if inner else "") + " {"


def forward_declarations(names):
    unknown = {name.name for name in names if name.kind == "concept" and name.header not in CONCEPTS} or {"-"}
    lines = ["// SPDX-License-Identifier: MIT",
             "// Forward declarations of the public classes and enumerations, and the strong identifiers.",
             "//",
             "// Sets of flags are left out, because their enumerations are here, and so are templates that",
             "// need the concept remote_layout. Generated by scripts/public_names.py --fix; do not edit.",
             "// clang-format off",
             "#pragma once", "", "#include <cstddef>", "#include <cstdint>", "",
             '#include "verbena/base/config.hpp"', *(f'#include "verbena/{header}"' for header in CONCEPTS), ""]
    for space, inside in by_space(names).items():
        declared = sorted({name.declaration for name in inside if name.kind in ("class", "enum") and name.declaration
                           and not re.search(rf"<(?:.*, )?(?:{'|'.join(unknown)}) ", name.declaration)},
                          key=lambda text: (text.startswith("template"), text))
        declared += [name.declaration for name in inside if name.kind == "alias" and name.declaration]
        if declared:
            lines += [nested(space), "", *declared, "", "}  // " + nested(space)[:-2], ""]
    return "\n".join(lines)


def module(names):
    headers = sorted({name.header for name in names})
    lines = ["// SPDX-License-Identifier: MIT",
             "// The C++20 module `verbena`: exports all public names of <verbena/verbena.hpp>.",
             "//",
             "// A module exports no macros: for VERBENA_TRY include <verbena/base/result.hpp> before the import.",
             "// Generated by scripts/public_names.py --fix; do not edit.",
             "module;", "", *(f"#include <verbena/{header}>" for header in headers), "", "export module verbena;", ""]
    for space, inside in by_space(names).items():
        exported = sorted({name.name for name in inside})
        lines += [f"export namespace {space} {{", *(f"using {space}::{name};" for name in exported),
                  f"}}  // namespace {space}", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--fix", action="store_true", help="write the files")
    options = parser.parse_args()
    names = list(public_names(options.root))
    exported = [name for name in names if not name.header.startswith(NOT_EXPORTED)]
    wanted = {"include/verbena/fwd.hpp": forward_declarations([n for n in names if not n.header.startswith("sys/")]),
              "modules/verbena.cppm": module(exported)}
    status = 0
    for path, text in wanted.items():
        file = options.root / path
        if file.is_file() and file.read_text() == text:
            continue
        if options.fix:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        else:
            print(f"{path} is not up to date: scripts/public_names.py --fix")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
