# SPDX-License-Identifier: MIT
"""Finds classes in C++ text, their public functions and data members, and the functions defined outside of them,
without a compiler.

Like cpp_shape.py, which it uses, it walks the braces of a blanked file. tests/lint/classes_test.py holds the cases it
must get right.
"""
import dataclasses
import re

import cpp_shape
import sources

LABEL = re.compile(r"\s*(public|private|protected)\s*:(?!:)")
TYPE = re.compile(r"^(?:(?:inline|constexpr|static|typedef|mutable|const)\s+)*(class|struct|union)\b(.*)$", re.DOTALL)
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|alignas\s*\([^()]*(?:\([^()]*\)[^()]*)*\)", re.DOTALL)
ANONYMOUS = "(anonymous)"


@dataclasses.dataclass
class Class:
    name: str             # qualified by namespaces and outer classes
    line: int
    functions: list       # names of the public functions that count
    changing: list        # names of those that are neither const nor static, and of those that are not public
    members: list         # names of the non-static data members
    private: bool         # whether a member is not public


@dataclasses.dataclass
class Definition:
    scope: str            # namespaces around the definition
    owner: str            # what is written before the last `::` of the name
    name: str
    line: int


def without_groups(chunk):
    """Empties the brackets {} of a declaration, which may contain calls."""
    kept, position = [], 0
    while position < len(chunk):
        if chunk[position] == "{":
            position = cpp_shape.end_of_group(chunk, position)
            kept.append("{}")
        else:
            kept.append(chunk[position])
            position += 1
    return "".join(kept)


def type_head(chunk):
    """Returns (keyword, name) if the words before a brace begin a class, otherwise None."""
    head = ATTRIBUTE.sub(" ", cpp_shape.strip_templates(chunk)).strip()
    match = TYPE.match(head)
    if not match or "(" in match.group(2).split(":")[0]:
        return None
    name = re.split(r"(?<!:):(?!:)", match.group(2).replace("final", " "))[0].strip()
    return match.group(1), re.sub(r"\s+", "", name)


def namespace_of(chunk):
    """Returns the name of the namespace that the words before a brace open, "" for `extern "C"`, otherwise None."""
    match = re.match(r"\s*(?:inline\s+)?namespace\b\s*([\w:\s]*)$", chunk)
    if match:
        return re.sub(r"\binline\b|\s", "", match.group(1)) or ANONYMOUS
    return "" if re.match(r'\s*extern\s*"', chunk) else None


def join(*names):
    return "::".join(name for name in names if name)


class Scan:
    """The classes of one file, and the functions that it defines outside of classes."""

    def __init__(self, text):
        self.plain = sources.without_preprocessor(sources.blank(text))
        self.classes = []
        self.definitions = []
        self.namespace(0, len(self.plain), "")

    def statements(self, start, stop):
        """Yields (first, end, opening, closing): a declaration's text, and the brackets of its body or of its type."""
        position = first = start
        while position < stop:
            letter = self.plain[position]
            if letter in "([":
                position = cpp_shape.end_of_group(self.plain, position)
            elif letter == ";":
                yield first, position, None, None
                position = first = position + 1
            elif letter == "{":
                closing = cpp_shape.end_of_group(self.plain, position)
                chunk = self.plain[first:position]
                if type_head(chunk) or namespace_of(chunk) is not None:
                    yield first, position, position, closing
                    first = closing
                elif self.is_body(chunk, closing):
                    yield first, position, position, closing
                    first = closing
                position = closing
            else:
                position += 1

    def is_body(self, chunk, closing):
        return cpp_shape.signature(LABEL.sub("", chunk)) and not cpp_shape.is_member_initialiser(self.plain, chunk, closing)

    def namespace(self, start, stop, scope):
        for first, end, opening, closing in self.statements(start, stop):
            chunk = self.plain[first:end]
            if opening is None:
                continue
            inner = namespace_of(chunk)
            if inner is not None:
                self.namespace(opening + 1, closing - 1, join(scope, inner))
            elif type_head(chunk):
                self.type(chunk, first, opening, closing, scope)
            else:
                self.define(chunk, first, scope)

    def define(self, chunk, first, scope):
        name, offset, _ = cpp_shape.signature(chunk)
        before = chunk[:offset]
        owner = re.search(r"((?:[A-Za-z_]\w*(?:<[^;{}()]*>)?\s*::\s*)+)~?$", before)
        if owner:
            plain = re.sub(r"<.*?>|\s", "", owner.group(1)).rstrip(":")
            self.definitions.append(Definition(scope, plain, name, sources.line_of(self.plain, first + offset)))

    def type(self, chunk, first, opening, closing, scope):
        keyword, name = type_head(chunk)
        whole = join(scope, name)
        line = sources.line_of(self.plain, first + len(chunk.rstrip()))
        found = Class(whole, line, [], [], [], False)
        if name:
            self.classes.append(found)
        access = "private" if keyword == "class" else "public"
        pending = None  # a type without a following declarator yet
        for start, end, inner, inner_end in self.statements(opening + 1, closing - 1):
            chunk = self.plain[start:end]
            label = LABEL.match(chunk)
            while label:
                access = label.group(1)
                chunk = chunk[label.end():]
                label = LABEL.match(chunk)
            head = type_head(chunk)
            if head and inner is not None:
                self.type(chunk, start, inner, inner_end, whole)
                pending = head[1]
                if head == ("union", ""):  # its members are one member of the class
                    found.members.append("(union)")
                    pending = None
                continue
            if pending is not None and inner is None:
                text = chunk.strip()
                if text:
                    found.members.append(text)
                pending = None
                if text:
                    continue
            self.member(found, chunk, access, inner is not None)

    def member(self, found, chunk, access, has_body):
        own = found.name.rsplit("::", 1)[-1].split("<")[0]
        text = without_groups(chunk)
        head = ATTRIBUTE.sub(" ", cpp_shape.strip_templates(text)).strip()
        if not head or re.match(r"(friend|using|typedef|static_assert|enum|concept)\b", head):
            return
        shape = cpp_shape.signature(chunk if has_body else text)
        if shape:
            name = shape[0]
            if name == own or name.startswith(("~", "operator")) or re.search(r"=\s*delete\s*$", head) or \
                    re.search(r"\boperator\b", head.split("(")[0]):
                return
            if access == "public":
                found.functions.append(name)
            tail = head[head.find("("):]
            fixed = re.match(r"(?:(?:inline|constexpr|virtual)\s+)*static\b", head) or re.search(r"\)\s*const\b", tail)
            if access != "public" or not fixed:
                found.changing.append(name)
            return
        if re.match(r"(?:(?:inline|constexpr)\s+)*(static|constexpr)\b", head) or re.match(r"(class|struct|union)\s+[\w:]+$", head):
            return
        words = head.split("=")[0].split("{")[0].split()
        found.members += words[-1:] * declarators(head)
        if access != "public":
            found.private = True


def declarators(head):
    """Returns how many members a declaration such as `int a = 1, b` has."""
    count, depth = 1, 0
    for position, letter in enumerate(head):
        if letter in "([{<":
            depth += 1
        elif letter in ")]}" or (letter == ">" and head[position - 1] != "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            count += 1
    return count
