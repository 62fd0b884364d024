# SPDX-License-Identifier: MIT
"""The one-line faults that can be seeded into a C++ source.

A fault replaces a part of one line: an operator, a constant, a call, the order of two arguments. Comments, texts, logging,
preprocessor lines, declarations and compile-time checks are left alone, and so are the classes of NO_EFFECT.
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
# Classes of lines that are left alone because a fault has no effect that a test can require: it changes speed or room, or a
# value that each user of the type sets. Each is a kind of file and the lines. They contain no condition and no result. Private
# members, counters (64 bits) and atomics remain, because their initial values matter.
NO_EFFECT = {
    "mixing step of a random or hash function": ("", re.compile(r"(\w+) \^ \(?\1 (<<|>>) \d+U?\b")),
    "initial number of a public member, such as a default limit": (
        ".hpp", re.compile(r"^  (?!std::uint64_t)[\w:]+ \w*[a-z0-9](?: = |\{)\d+U?\}?;$")),
    "room of a local array": (".cpp", re.compile(r"std::array<.*\d+U?> \w+(\{\})?;$")),
    "reserved capacity, waiting loop, prefetch": (
        "", re.compile(r"\.reserve\(|\b(relax|sched_yield|yield|__builtin_prefetch|shrink_to_fit)\(")),
    "pure virtual function, alignment": ("", re.compile(r"^\s+virtual .* = 0;$|\balignas\(")),
}
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


def has_no_effect(file, code):
    """Returns true if a class of NO_EFFECT contains the line."""
    return any(file.endswith(suffix) and lines.search(code) for suffix, lines in NO_EFFECT.values())


def without_comment(line):
    return line.split("//", 1)[0].rstrip()


def variants(code, begins=True):
    """Yields (kind, changed code) for each fault that the line permits. `begins`: a statement can begin with this line."""
    for old, new in OPERATORS.items():
        for at in positions(code, old):
            yield f"operator{old}".replace(" ", ""), code[:at] + new + code[at + len(old):]
    for old, new in WORDS.items():
        for found in re.finditer(rf"\b{old}\b", code):
            yield "constant", code[:found.start()] + new + code[found.end():]
    for found in NUMBER.finditer(code):
        yield "constant", code[:found.start(1)] + str(int(found.group(1)) + 1) + code[found.end(1):]
    call = CALL.match(code)
    if begins and call and not call.group(2).startswith(("return", "co_", "throw")):
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
    inside_comment, begins = False, True
    for number, line in enumerate(text.splitlines(), 1):
        inside_comment = (inside_comment or "/*" in line) and "*/" not in line
        code = without_comment(line)
        begins_here = begins
        if code.strip():
            begins = code.lstrip().startswith("#") or code.endswith((";", "{", "}", ":", ")", "else"))
        if inside_comment or LEFT_ALONE.search(code) or not STATEMENT.match(code):
            continue
        if has_no_effect(file, code):
            continue
        found += [Fault(file, number, kind, line, after) for kind, after in variants(code, begins_here)]
    return found


def seeded(text, fault):
    """Returns the source with the fault."""
    lines = text.splitlines(keepends=True)
    if lines[fault.line - 1].rstrip("\n") != fault.before:
        raise ValueError(f"{fault.name}: the line has changed")
    lines[fault.line - 1] = fault.after + "\n"
    return "".join(lines)
