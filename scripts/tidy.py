#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks coding rules: sizes, first lines, words and calls to avoid, macros, required words of doc comments.

An exception needs `lint: allow(RULE): REASON` on its line or on the line above.
"""
import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cpp_shape  # noqa: E402
import sources  # noqa: E402

COLUMNS = 100
FUNCTION_LINES = 70
PARAMETERS = 5
THREAD_WORDS = ("immutable", "one thread at a time", "thread-safe", "thread-bound")
CONTRACT_FUNCTION = re.compile(r"^(post_\w+|send|send_with_immediate|write|write_with_immediate|read|receive|"
                               r"compare_and_swap|fetch_and_add)$")
TEXT_FILES = (".md", ".py", ".sh", ".cmake", ".txt", ".in", ".json")

# (rule, pattern, where, replacement). `where` is a pattern of paths; strings and comments are not searched.
BANNED_CODE = [
    ("sleep", r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(", r".*",
     "wait for the event itself, with a deadline"),
    ("assert", r"(?<![\w_])assert\s*\(|<cassert>|<assert\.h>", r"(include|src|softdev|tools)/.*",
     "VERBENA_ASSERT with the rule's text"),
    ("unsafe-c", r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll)\s*\(", r"(include|src|softdev|tools|examples)/.*",
     "std::string, snprintf, std::from_chars"),
    ("strerror", r"\bstrerror\s*\(", r"(include|src|softdev|tools|examples)/.*",
     "std::generic_category().message: strerror is not thread-safe"),
    ("endl", r"\bstd::endl\b", r".*", "'\\n'"),
    ("using-namespace-std", r"\busing\s+namespace\s+std\s*;", r".*", "qualified names"),
    ("stdout", r"\bstd::(cout|cerr|clog)\b|(?<!\w)(printf|puts|putchar)\s*\(", r"(include|src|softdev)/.*",
     "the log hook: a library does not write to the terminal"),
    ("random", r"\b(rand|srand|random|drand48)\s*\(|\bstd::(mt19937|random_device|rand)\b",
     r"(include|src|softdev)/.*", "random_u32: unpredictable numbers"),
    ("dlclose", r"\bdlclose\s*\(|RTLD_DEEPBIND", r".*", "leave the library loaded"),
    ("function", r"\bstd::function\b", r"softdev/(core|ipc|shm|peers|fabric|cm|host)/.*",
     "an observer: an abstract class with the object as argument"),
    ("volatile", r"(?<!asm )(?<!__asm__ )\bvolatile\b", r"(include|src)/.*", "std::atomic or std::atomic_ref"),
]
# (rule, pattern, replacement) in comments and documents.
BANNED_TEXT = [
    ("todo", r"\b(TODO|FIXME|XXX|HACK)\b", "finish the work, or document the limitation"),
    ("host-path", r"(?<![\w.])/(work|home/\w+|root|mnt|Users)/[\w.-]", "paths relative to the repository"),
    ("outside", r"\.\./shared\b", "what the reader has: this repository"),
]
CAPS = [  # (pattern of paths, cap of lines)
    (r"tests/.*", 800),
    (r"include/.*", 450),
    (r".*\.(hpp|h)", 450),
    (r".*", 600),
]


class Tidy:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.complaints = []

    def run(self):
        for path in sources.code_files(self.root):
            self.code(path)
        for path in self.other_files():
            self.text(path)
        return self.complaints

    def other_files(self):
        found = [self.root / name for name in ("dev", ".ci/run") if (self.root / name).is_file()]
        for path in sorted(self.root.iterdir()):
            if path.is_file() and path.suffix in TEXT_FILES:
                found.append(path)
        for folder in (*sources.FOLDERS, "cmake", "scripts", "docs"):
            if (self.root / folder).is_dir():
                found += [path for path in sorted((self.root / folder).rglob("*"))
                          if path.suffix in TEXT_FILES and "__pycache__" not in path.parts]
        return found

    def say(self, path, line, rule, text, lines=None):
        if lines is None or not sources.allowed(lines, line, rule):
            self.complaints.append(f"{path.relative_to(self.root)}:{line}: {text} [{rule}]")

    def code(self, path):
        text = path.read_text()
        lines = text.splitlines()
        shown = str(path.relative_to(self.root))
        self.first_line(path, lines)
        if path.suffix == ".hpp" and "#pragma once" not in lines:
            self.say(path, 1, "pragma-once", "the header has no #pragma once: add it")
        cap = next(cap for pattern, cap in CAPS if re.fullmatch(pattern, shown))
        if len(lines) > cap:
            self.say(path, len(lines), "file-lines", f"{len(lines)} lines; the cap is {cap}: split by responsibility", lines)
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS and not re.search(r"https?://|// expect", line):
                self.say(path, number, "columns", f"{len(line)} columns; the cap is {COLUMNS}", lines)
        self.banned_code(path, shown, text, lines)
        self.banned_text(path, lines)
        self.macros(path, shown, text, lines)
        self.functions(path, shown, text, lines)
        self.documentation(path, shown, text, lines)

    def text(self, path):
        lines = path.read_text().splitlines()
        if path.suffix not in (".md", ".json"):
            self.first_line(path, lines)
        if path.name != "tidy.py" and "tests/lint" not in str(path.relative_to(self.root)):
            self.banned_text(path, lines)

    def first_line(self, path, lines):
        first = lines[:2] if lines and lines[0].startswith("#!") else lines[:1]
        if path.suffix == ".json" or "help" in path.parts or path.name in ("layers.txt", "foreign_headers.txt"):
            return
        if not any(re.fullmatch(r"(//|#|/\*) SPDX-License-Identifier: MIT( \*/)?", line) for line in first):
            self.say(path, 1, "spdx", "the first line is not `SPDX-License-Identifier: MIT` in a comment: add it")

    def banned_code(self, path, shown, text, lines):
        plain = sources.blank(text)
        rules = [row for row in BANNED_CODE if re.search(row[1], plain) and re.fullmatch(row[2], shown)]
        self.banned(path, [row[:2] + row[3:] for row in rules], plain.splitlines(), lines)

    def banned_text(self, path, lines):
        text = "\n".join(lines)
        self.banned(path, [row for row in BANNED_TEXT if re.search(row[1], text)], lines, lines)

    def banned(self, path, rules, searched, lines):
        for rule, pattern, instead in rules:
            for number, line in enumerate(searched, 1):
                if found := re.search(pattern, line):
                    self.say(path, number, rule, f"avoid `{found.group(0)}`: {instead}", lines)

    def macros(self, path, shown, text, lines):
        if not re.match(r"(include|src|softdev|tools)/", shown):
            return
        for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", sources.blank(text), re.MULTILINE):
            name, number = match.group(1), sources.line_of(text, match.start(1))
            table = path.suffix == ".cpp" and re.search(r'#include "[^"]+\.inc"', text)
            if name == "_GNU_SOURCE" or table:  # the macro expands the rows of the .inc file
                continue
            if not name.startswith("VERBENA_") or not re.match(r"(include/verbena|src)/base/", shown):
                self.say(path, number, "macro", f"macro {name}: name macros VERBENA_… and define them in base", lines)

    def functions(self, path, shown, text, lines):
        for function in cpp_shape.functions(text):
            length = function.last - function.first + 1
            if function.defined and length > FUNCTION_LINES:
                self.say(path, function.line, "function-lines",
                         f"{function.name} has {length} lines; the cap is {FUNCTION_LINES}", lines)
            c_interface = re.match(r"(_?ibv|rdma|efadv|mlx5dv)_", function.name) or path.suffix == ".c"
            if function.parameters > PARAMETERS and not c_interface:
                self.say(path, function.line, "parameters", f"{function.name} has {function.parameters} parameters; "
                         f"the cap is {PARAMETERS}: use an options aggregate", lines)

    def documentation(self, path, shown, text, lines):
        if path.suffix != ".hpp" or not re.match(r"(include|src|softdev)/", shown):
            return
        for name, number in cpp_shape.classes(text):
            comment = cpp_shape.doc_above(lines, number)
            words = comment.lower().replace("\n", " ")
            if not any(word in words for word in THREAD_WORDS) and not re.search(r"threads: as \w+", words):
                self.say(path, number, "thread-word",
                         f"class {name} does not state its thread safety: write one of {', '.join(THREAD_WORDS)}", lines)
        if not shown.startswith("include/verbena/verbs/"):
            return
        for function in cpp_shape.functions(text):
            if CONTRACT_FUNCTION.match(function.name) and not cpp_shape.is_private(text, function.line):
                if "contract" not in cpp_shape.doc_above(lines, cpp_shape.head_line(lines, function.line)).lower():
                    self.say(path, function.line, "contract",
                             f"{function.name} posts a work request: add a *Contract* paragraph to its comment", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    complaints = Tidy(parser.parse_args().root).run()
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
