# SPDX-License-Identifier: MIT
"""The one-line faults that can be seeded into a C++ source.

A fault replaces a part of one line: an operator, a constant, a call, the order of two arguments. Comments, texts, logging,
preprocessor lines, declarations and compile-time checks are left alone.
"""
import dataclasses
import re

OPERATORS = {
    " == ": " != ", " != ": " == ", " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " && ": " || ",
    " || ": " && ", " + ": " - ", " - ": " + ", " += ": " -= ", " -= ": " += ", " * ": " + ", " / ": " * ",
    " % ": " / ", " << ": " >> ", " >> ": " << ", " |= ": " &= ", " &= ": " |= ", "++": "--", "--": "++",
    "(!": "(", "return !": "return ",
}
WORDS = {"true": "false", "false": "true"}
# Lines with these words have no effect at run time, write a text, or say how something is compiled.
LEFT_ALONE = re.compile(
    r'"|^\s*(//|///|#|\}|\*|using |template|static_assert|friend |case |namespace |public:|private:|concept |requires |\[\[)'
    r"|operator|memory_order|\b(log|warn|trace|print|printf|fputs|format|text|describe|explain)\w*\("
    r"|VERBENA_ASSERT|static_cast<void>|= default|= delete|asm ")
STATEMENT = re.compile(r"^\s+(if|while|for|return|else|switch|\S.*[;{]$)")
CALL = re.compile(r"^(\s+)((?:[a-z_]\w*(?:\.|->|::))*[a-z_]\w*\([^=]*\);)$")
TWO_ARGUMENTS = re.compile(r"\(([a-z_]\w*(?:\.\w+)*), ([a-z_]\w*(?:\.\w+)*)\)")
NUMBER = re.compile(r"(?<![\w.'])(\d+)(U|UL|ULL)?(?![\w.'])")


@dataclasses.dataclass(frozen=True)
class Fault:
    file: str
    line: int  # from 1
    kind: str
    before: str
    after: str

    @property
    def name(self):
        return f"{self.file}:{self.line} {self.kind}"


def without_comment(line):
    return line.split("//", 1)[0].rstrip()


def variants(code):
    """Yields (kind, changed code) for each fault that the line permits."""
    for old, new in OPERATORS.items():
        for at in positions(code, old):
            yield f"operator{old}".replace(" ", ""), code[:at] + new + code[at + len(old):]
    for old, new in WORDS.items():
        for found in re.finditer(rf"\b{old}\b", code):
            yield "constant", code[:found.start()] + new + code[found.end():]
    for found in NUMBER.finditer(code):
        yield "constant", code[:found.start(1)] + str(int(found.group(1)) + 1) + code[found.end(1):]
    call = CALL.match(code)
    if call and not call.group(2).startswith(("return", "co_", "throw")):
        yield "dropped call", f"{call.group(1)};"
    for found in TWO_ARGUMENTS.finditer(code):
        first, second = found.groups()
        if first != second:
            yield "swapped arguments", code[:found.start()] + f"({second}, {first})" + code[found.end():]


def positions(code, part):
    at = code.find(part)
    while at >= 0:
        yield at
        at = code.find(part, at + 1)


def faults_of(file, text):
    """Returns the faults of a source in the order of its lines."""
    found = []
    inside_comment = False
    for number, line in enumerate(text.splitlines(), 1):
        inside_comment = (inside_comment or "/*" in line) and "*/" not in line
        code = without_comment(line)
        if inside_comment or LEFT_ALONE.search(code) or not STATEMENT.match(code):
            continue
        found += [Fault(file, number, kind, line, after) for kind, after in variants(code)]
    return found


def seeded(text, fault):
    """Returns the source with the fault."""
    lines = text.splitlines(keepends=True)
    if lines[fault.line - 1].rstrip("\n") != fault.before:
        raise ValueError(f"{fault.name}: the line has changed")
    lines[fault.line - 1] = fault.after + "\n"
    return "".join(lines)
