# SPDX-License-Identifier: MIT
"""Finds the source files of the tree and separates code, comments and strings. Shared by the lint scripts."""
import functools
import pathlib
import re
import shlex

FOLDERS = ("include", "src", "softdev", "tools", "tests", "examples", "bench")
CODE = (".hpp", ".cpp", ".h", ".c")


def code_files(root):
    """Returns all C and C++ files of the tree, sorted."""
    root = pathlib.Path(root)
    found = []
    for folder in FOLDERS:
        if (root / folder).is_dir():
            found += [path for path in (root / folder).rglob("*") if path.suffix in CODE and path.is_file()]
    return sorted(found)


def compiler_words(command):
    """Returns the words of an entry of compile_commands.json without a compiler launcher such as ccache."""
    words = shlex.split(command["command"])
    while not words[1].startswith("-"):
        words.pop(0)
    return words


TOKEN = re.compile(
    r'R"(?P<tag>[^(\s\\]{0,16})\((?P<raw>.*?)\)(?P=tag)"'   # raw string
    r'|//[^\n]*|/\*.*?\*/'                                   # comments
    r'|"(?:\\.|[^"\\\n])*"'                                  # string
    r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'",                # character, but not a digit separator
    re.DOTALL)


@functools.lru_cache(maxsize=2)  # several checks read the same file in turn
def blank(text, keep_comments=False):
    """Replaces strings and comments by blanks; positions and line numbers are unchanged."""
    def empty(match):
        token = match.group(0)
        if keep_comments and token.startswith("/"):
            return token
        inner = re.sub(r"[^\n]", " ", token)
        if token[0] in "\"'" or token.startswith('R"'):
            return '"' + inner[1:-1] + '"' if len(token) > 1 else inner
        return inner
    return TOKEN.sub(empty, text)


def without_preprocessor(text):
    """Replaces preprocessor lines and their continuations by blanks; positions are unchanged."""
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda match: re.sub(r"[^\n]", " ", match.group(0)), text,
                  flags=re.MULTILINE)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def allowed(lines, number, rule):
    """Returns whether line `number` or the line above has `lint: allow(RULE): REASON`."""
    for index in (number - 1, number - 2):
        if 0 <= index < len(lines) and re.search(rf"lint: allow\({rule}\): \S", lines[index]):
            return True
    return False
