# SPDX-License-Identifier: MIT
"""Finds functions, classes and their parameters in C++ text, without a compiler.

A heuristic for size caps, not a parser: it walks the braces of a file whose strings, comments and preprocessor lines
are blanked, and judges each brace by the words before it. tests/lint/cpp_shape_test.py holds the cases it must get right.
"""
import dataclasses
import re

import sources

CONTROL = re.compile(r"^(if|for|while|switch|catch|else|do|try|return|throw|case|default)\b")
SCOPE = re.compile(r"^(inline\s+)?(namespace|class|struct|union|enum|extern\s*\"|concept)\b")
BRACKET = re.compile(r"[][(){}]")
MARK = re.compile(r"[([;{}]")
QUALIFIER = ("noexcept", "decltype", "alignas", "requires", "explicit", "__attribute__", "operator", "sizeof")


@dataclasses.dataclass
class Function:
    name: str
    line: int        # line of the name
    first: int       # line of the opening brace or of the declaration's end
    last: int
    parameters: int
    defined: bool


def strip_templates(chunk):
    """Removes `template <...>` heads, attributes and access labels from the start."""
    while True:
        chunk = chunk.lstrip()
        label = re.match(r"(public|private|protected)\s*:(?!:)", chunk)
        if label:
            chunk = chunk[label.end():]
        elif chunk.startswith("[["):
            chunk = chunk[chunk.find("]]") + 2:]
        elif re.match(r"template\s*<", chunk):
            chunk = chunk[end_of_angles(chunk, chunk.index("<")):]
        elif re.match(r'extern\s*"[^"]*"\s*\S', chunk):  # linkage of a single function; the brace of a block ends the chunk
            chunk = chunk[re.match(r'extern\s*"[^"]*"', chunk).end():]
        elif re.match(r"requires\s*\(", chunk):
            chunk = chunk[end_of_group(chunk, chunk.index("(")):]
        else:
            return chunk


def end_of_angles(text, start):
    depth = 0
    for position in range(start, len(text)):
        if text[position] == "<":
            depth += 1
        elif text[position] == ">" and text[position - 1] != "-":
            depth -= 1
            if depth == 0:
                return position + 1
    return len(text)


def end_of_group(text, start):
    """Returns the position after the bracket that closes the bracket at `start`."""
    depth = 0
    for bracket in BRACKET.finditer(text, start):
        depth += 1 if bracket[0] in "([{" else -1
        if depth == 0:
            return bracket.end()
    return len(text)


def parameter_count(group):
    inner = group[1:-1].strip()
    if not inner or inner == "void":
        return 0
    count, depth = 1, 0
    for position, letter in enumerate(inner):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "<" and position and (inner[position - 1].isalnum() or inner[position - 1] in "_ "):
            depth += 1
        elif letter == ">" and inner[position - 1] not in "-=":
            depth -= 1
        elif letter == "," and depth <= 0:
            count += 1
    return count


def signature(chunk):
    """Returns (name, offset of the name, parameters) if the words are the head of a function, otherwise None."""
    head = strip_templates(chunk)
    offset = len(chunk) - len(head)
    if not head or CONTROL.match(head) or SCOPE.match(head) or re.match(r"(using|typedef|static_assert|friend class)\b",
                                                                        head):
        return None
    position = 0
    while True:
        opening = head.find("(", position)
        if opening < 0:
            return None
        before = head[:opening].rstrip()
        if re.match(r"\(\s*\*", head[opening:]):
            return None  # a pointer to a function
        if before.count("<") > before.count(">") - before.count("->") and "operator" not in before:
            position = end_of_group(head, opening)  # a type among template arguments
            continue
        if re.search(r"(?<![=!<>])=(?!=)", re.sub(r"operator\s*[=!<>+\-*/|&^%]+", "", before)):
            return None  # an initialiser, not a head
        name = re.search(r"(operator\s*(?:\(\)|[^\s\w(]{1,3}|\w+)|~?[A-Za-z_]\w*)$", before)
        closing = end_of_group(head, opening)
        if before.endswith("operator"):  # operator()
            position = closing
            opening = head.find("(", position)
            if opening < 0:
                return None
            closing = end_of_group(head, opening)
            return "operator()", offset + opening, parameter_count(head[opening:closing])
        if name and name.group(1) not in QUALIFIER:
            if before == name.group(1) and not re.match(r"~?\w+$", before):
                return None
            return name.group(1), offset + name.start(), parameter_count(head[opening:closing])
        position = closing


def functions(text):
    """Returns the functions that are defined or declared outside other functions, in order."""
    plain = sources.without_preprocessor(sources.blank(text))
    found = []
    walk(plain, 0, len(plain), found)
    return found


def walk(plain, start, stop, found):
    position = chunk_start = start
    while mark := MARK.search(plain, position, stop):
        position, letter = mark.start(), mark[0]
        if letter in "([":
            position = end_of_group(plain, position)
            continue
        if letter == ";":
            record(plain, chunk_start, position, position, found, defined=False)
            chunk_start = position + 1
        elif letter == "}":
            chunk_start = position + 1
        elif letter == "{":
            closing = end_of_group(plain, position)
            chunk = plain[chunk_start:position]
            head = strip_templates(chunk)
            if is_scope(head):
                walk(plain, position + 1, closing - 1, found)
                chunk_start = closing
            elif signature(chunk) and not is_member_initialiser(plain, chunk, closing):
                record(plain, chunk_start, position, closing - 1, found, defined=True)
                chunk_start = closing
            position = closing
            continue
        position += 1


def is_scope(head):
    return bool(re.match(r"(inline\s+)?namespace\b|extern\s*\"", head) or
                (re.match(r"(?:(?:inline|constexpr|static|typedef|friend)\s+)*(class|struct|union)\b", head) and "(" not in
                 re.sub(r"alignas\s*\([^)]*\)|final|\[\[.*?\]\]", "", head)))


def is_member_initialiser(plain, chunk, closing):
    """Returns whether the text is a member initialiser (`: member_{…}`, `, member_{…}`) of a constructor."""
    return bool(re.search(r"[:,]\s*[A-Za-z_][\w:<>]*\s*$", chunk) and re.match(r"\s*[,{]", plain[closing:closing + 80]))


def record(plain, chunk_start, first, last, found, defined):
    chunk = plain[chunk_start:first]
    head = signature(chunk)
    if head:
        name, offset, parameters = head
        line = sources.line_of(plain, chunk_start + offset)
        found.append(Function(name, line, sources.line_of(plain, first), sources.line_of(plain, last), parameters,
                              defined))


def classes(text):
    """Returns (name, line) of each class defined at the left margin, without structs, specialisations and declarations."""
    plain = sources.without_preprocessor(sources.blank(text))
    pattern = re.compile(r"^(?:template\s*<[^;{}]*>\s*(?:requires[^;{}]*)?)?class\b([^;{}()=]*(?:\([^()]*\))?[^;{}()=]*)\{",
                         re.MULTILINE)
    found = []
    for match in pattern.finditer(plain):
        head = re.sub(r"\[\[.*?\]\]|alignas\s*\([^)]*\)", " ", match.group(1), flags=re.DOTALL)
        names = re.findall(r"[A-Za-z_]\w*", head.split(":")[0].replace("final", " "))
        if names and not re.search(r"\w<", head.split(":")[0]):  # a specialisation is like its primary
            start = match.start() + len(match.group(0)) - len(match.group(0).lstrip())
            found.append((names[-1], sources.line_of(plain, start)))
    return found


def doc_above(lines, number):
    """Returns the comment that ends on the line above line `number`, skipping attributes and template heads."""
    index = number - 2
    while index >= 0 and re.match(r"\s*(template\b|requires\b|\[\[|&&|typename\b|class\b[^{;]*[,>]\s*$|std::|//\s*NOLINT)", lines[index]):
        index -= 1
    comment = []
    while index >= 0 and re.match(r"\s*//", lines[index]):
        comment.append(lines[index].strip().lstrip("/").strip())
        index -= 1
    return "\n".join(reversed(comment))


def head_line(lines, number):
    """Returns the first line of the declaration whose name is on line `number`: the return type may be on its own line."""
    while number > 1 and re.match(r"\s*(\[\[.*|template\b.*|requires\b.*|(?:[\w:<>,&*\s]+))$", lines[number - 2]) and \
            lines[number - 2].strip() and not lines[number - 2].rstrip().endswith((";", "{", "}", ":")):
        number -= 1
    return number


def is_private(text, number):
    """Returns whether the last access label above line `number` is `private:` or `protected:`."""
    above = "\n".join(text.splitlines()[:number])
    labels = re.findall(r"^\s*(public|private|protected)\s*:|^\s*(?:class|struct)\s+[^;]*\{", above, re.MULTILINE)
    return bool(labels) and labels[-1] in ("private", "protected")
