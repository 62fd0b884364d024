#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the words of comments, string literals and documents: spelling (codespell) and a table of phrases to avoid.

A finding names the file, the line, the phrase and a replacement. Identifiers and code in `backticks` are not prose.
A line that must keep a phrase has `lint: allow(words): REASON` on it or on the line above.
"""
import argparse
import io
import pathlib
import re
import subprocess
import sys
import tokenize

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sources  # noqa: E402

# Words that codespell reports although they are correct here, each with the reason.
SPELLING = {
    "compiletime": "a class name",
    "crate": "a Rust package",
    "crates": "Rust packages",
    "ect": "ECT, ECN-capable transport (RFC 3168)",
    "iif": "the input interface of ip-rule",
    "ndoes": "the end of a fragment of text",
}

# Folders whose comments are exempt, with the reason. String literals in these folders are checked if they are messages.
EXEMPT_COMMENTS = {
    "softdev/": "the device is being rebuilt: its internal comments go with the old sources",
}
# String literals of tests are inputs and expected values; the messages themselves are checked where they are written.
MESSAGE_FOLDERS = ("include/", "src/", "softdev/", "tools/", "examples/", "bench/", "scripts/", "dev", "cmake/",
                   "CMakeLists.txt")
# Files that quote the phrases: the table itself and its test.
OWN_FILES = ("scripts/words.py", "tests/lint/words_test.py")

HEADING, DOCUMENT, COMMENT, API, MESSAGE = "heading", "document", "comment", "public comment", "message"
PROSE = (HEADING, DOCUMENT, COMMENT, API, MESSAGE)
WRITTEN = (HEADING, DOCUMENT, COMMENT, API)
READ = (HEADING, DOCUMENT, API, MESSAGE)  # texts for users

# (phrase as a pattern, the kinds of text that it is banned in, what to write instead). Case does not count.
PHRASES = [
    (r"(?<!\bthere\s)\b(is|are|was|were) none\b(?! of)", PROSE, "is not a …, there is no …"),
    (r"\b(is|are) none of\b", PROSE, "is not one of …, is not a …"),
    (r"\b(has|have) not (?!been\b|\w+ed\b|\w+en\b|yet\b|come\b|begun\b|sent\b|read\b|had\b|left\b|made\b|run\b|got\b|set\b|met\b|put\b"
     r"|changed\b|bound\b|gone\b|done\b|found\b|kept\b|lost\b|paid\b|built\b)", PROSE, "does not have, does not support"),
    (r"\b(has|have) not[.,;:]", PROSE, "does not have one, does not support it"),
    (r"\b(is|are|was|were|does|do|did|has|have|can|there is|there are|takes?|waits?|calls?|comes?|uses?|works?) no more\b(?! (than|\w+s\b))",
     PROSE, "no longer"),
    (r"\bno more[.,;:]", PROSE, "no longer, or say how many"),
    (r"\bof no more use\b", PROSE, "no longer usable"),
    (r"\bfor ever\b", PROSE, "without limit, forever, for the life of …"),
    (r"\bbut for\b", PROSE, "except"),
    (r"\b(all|every\w*|nothing|none|any\w*|no \w+) save\b", PROSE, "except"),
    (r"\banew\b", PROSE, "again, re-… (re-register)"),
    (r"\bwhence\b", PROSE, "from where, the source of"),
    (r"\b(gives?|gave|giving) way\b", PROSE, "yields, releases, is replaced by"),
    (r"\b(lets?|letting) (\w+ )?in\b(?! (the|a|an|one|this|that|each|every|which|order)\b)", PROSE, "accepts, permits, admits"),
    (r"\b(hears?|heard|hearing) (of|from)\b", PROSE, "is notified of, receives"),
    (r"\b(knows?|knew|knowing) of\b", PROSE, "lists, has, supports"),
    (r"\bthat which\b", PROSE, "name the subject"),
    (r"\bas above\b", WRITTEN, "name the function or the rule"),
    (r"\b(walls?|houses?)\b(?! clock)", PROSE, "isolation domain, host"),
    (r"\b(front |back )?doors?\b", PROSE, "entry point, command"),
    (r"(?<!\bin\s)\bflights?\b", PROSE, "work requests in flight"),
    (r"\banimals?\b", PROSE, "mistake, bug, case"),
    (r"\bvictims?\b", PROSE, "the process or queue pair that is harmed"),
    (r"\bnobody\b", READ, "no process, no thread, no caller"),
    (r"\b(somebody|anybody|everybody)\b", PROSE, "the caller, a user, a process, each process"),
    (r"\bby itself alone\b|\bwithout a word\b", PROSE, "silently, without a report"),
    (r"\bof its own accord\b|\bmeanwhile\b(?= the)", (HEADING, DOCUMENT, API), "automatically; while …"),
    (r"\b(is|are|be) told apart\b", PROSE, "are distinguished"),
    (r"\b(lends?|lent|bury|buries|buried)\b", PROSE, "name the operation: registers, shares, removes"),
    (r"\b(tells|told)\b", (HEADING, DOCUMENT, API), "reports, returns, notifies"),
    (r"\b(stands|stood)\b(?! for\b)", READ, "is, remains, applies"),
    (r"\bnothing (if|when|where|while|unless|otherwise)\b|\bor nothing\b|\breturns nothing\b|\bis nothing\b", (API,),
     "nullopt, nullptr, an empty span"),
]
# Phrases to avoid at the beginning of a sentence.
BEGINNINGS = [
    (r"(?-i:Who)\b", WRITTEN, "name the subject: the caller, the peer, the process"),
    (r"(?-i:What)\b", WRITTEN, "name the subject"),
    (r"(?-i:what)\b", (API,), "name the subject"),
    (r"that which\b", WRITTEN, "name the subject"),
]
# Phrases to avoid at the beginning of a comment.
COMMENT_BEGINNINGS = [
    (r"(?-i:The same)\b", "repeat the noun"),
    (r"as above\b", "name the function or the rule"),
]
for table in (PHRASES, BEGINNINGS, COMMENT_BEGINNINGS):  # a phrase may be broken over two lines
    table[:] = [(re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), *rest) for pattern, *rest in table]
SENTENCE = re.compile(r"(?:^|(?<=[.:;!?])\s+|(?<=\|)\s*)([\w“\"(*][^.?!|]*(?:\.(?!\s|$)[^.?!|]*)*[.?!]?)")
COMMENTED = {".py": "#", ".sh": "#", ".cmake": "#", ".in": "#", ".sed": "#"}


class Text:
    """A piece of prose with the line of each of its characters."""

    def __init__(self, kind, lines):
        self.kind = kind
        self.text = "\n".join(line for _, line in lines)
        self.numbers = [number for number, _ in lines]

    def line(self, position):
        return self.numbers[self.text.count("\n", 0, position)]


def without_code(text):
    """Blanks code in backticks, text in <angle brackets>, and addresses."""
    def empty(match):
        return re.sub(r"[^\n]", "x" if match.group(0)[0] == "`" else " ", match.group(0))
    return re.sub(r"`[^`]*`|<[\w/!][^<>\n]*>|https?://\S+|\]\([^)\s]*\)", empty, text)


def cpp_texts(text, messages):
    """Yields the comments and string literals of C and C++. Comments on consecutive lines are one comment."""
    found, block, last = [], [], None
    plain = text.split("\n")
    for match in sources.TOKEN.finditer(text):
        token, number = match.group(0), sources.line_of(text, match.start())
        if token.startswith("//") or token.startswith("/*"):
            if re.match(r"// namespace\b", token):
                continue
            head = re.match(r"//[/!]?<? ?|/\*+ ?", token).group(0)
            kind = API if head.startswith("///") else COMMENT
            body = token[len(head):].removesuffix("*/")
            lines = [(number + index, re.sub(r"^\s*\* ?", "", line) if index else line)
                     for index, line in enumerate(body.split("\n"))]
            alone = plain[number - 1].strip().startswith("/")
            if block and alone and last == (kind, number - 1):
                block.extend(lines)
            else:
                block = lines
                found.append((kind, block))
            last = (kind, number + len(lines) - 1) if alone else None
        elif messages and '"' in token[:3] and not plain[number - 1].lstrip().startswith("#"):
            body = match.group("raw") if match.group("raw") is not None else token[1:-1]
            found.append((MESSAGE, [(number + index, line) for index, line in enumerate(body.split("\n"))]))
    return found


def python_texts(text, messages):
    """Yields the comments, docstrings and string literals of Python."""
    found, block, last = [], [], None
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return found
    for token in tokens:
        number = token.start[0]
        if token.type == tokenize.COMMENT:
            alone = token.line.strip().startswith("#")
            line = (number, token.string.lstrip("# "))
            if block and alone and last == number - 1:
                block.append(line)
            else:
                block = [line]
                found.append((COMMENT, block))
            last = number if alone else None
        elif token.type == tokenize.STRING:
            if re.match(r"[rb]*f", token.string.lower()):  # the expressions in an f-string are code
                token = token._replace(string=re.sub(r"\{[^{}\n]*\}", "x", token.string))
            body = re.sub(r'^[a-zA-Z]*("""|\'\'\'|"|\')|("""|\'\'\'|"|\')$', "", token.string)
            docstring = '"""' in token.string and "r" not in token.string[:2]
            if (messages or docstring) and not token.string.startswith("r"):
                lines = [(number + index, line) for index, line in enumerate(body.split("\n"))]
                found.append((COMMENT if docstring else MESSAGE, lines))
    return found


def hash_texts(text, messages):
    """Yields the comments and quoted strings of shell, CMake and similar files."""
    found, block, last = [], [], None
    for number, line in enumerate(text.split("\n"), 1):
        whole = re.match(r"\s*#+ ?(?!!)(.*)", line)
        tail = None if whole else re.search(r"(?<=\s)# (.*)", line)
        if whole:
            if block and last == number - 1:
                block.append((number, whole.group(1)))
            else:
                block = [(number, whole.group(1))]
                found.append((COMMENT, block))
            last = number
            continue
        if tail:
            found.append((COMMENT, [(number, tail.group(1))]))
            line = line[:tail.start()]
        if messages:
            found += [(MESSAGE, [(number, body)]) for body in re.findall(r'"((?:\\.|[^"\\])*)"', line)]
    return found


def document_texts(text):
    """Yields the paragraphs, headings, list items and table rows of Markdown, without code blocks and generated lists."""
    text = re.sub(r"<!-- [\w :]*scripts/\w+\.py --fix -->.*?<!-- end of", lambda made: re.sub(r"[^\n]", "", made.group(0)), text,
                  flags=re.DOTALL)
    found, block, fenced = [], [], False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced, block = not fenced, []
            continue
        item = re.match(r"\s*([-*+]|\d+\.)\s+(\[[ x]\]\s+)?", line)
        if fenced or not line.strip() or line.lstrip().startswith(("#", "|", ">")) or item:
            block = []
        if fenced or not line.strip():
            continue
        if not block:
            found.append((HEADING if line.startswith("#") else DOCUMENT, block))
        block.append((number, re.sub(r"^\s*(#+|>)\s*", "", line[item.end():] if item else line)))
        if line.lstrip().startswith(("#", "|")):
            block = []
    return found


class Words:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.complaints = []

    def run(self, spelling):
        paths = list(self.files())
        for path in paths:
            self.file(path)
        if spelling:
            self.spelling(paths)
        return sorted(self.complaints)

    def files(self):
        found = [self.root / name for name in ("dev", ".ci/run", "CMakeLists.txt") if (self.root / name).is_file()]
        found += sorted(self.root.glob("*.md"))
        for folder in (*sources.FOLDERS, "cmake", "scripts", "docs"):
            if (self.root / folder).is_dir():
                found += [path for path in sorted((self.root / folder).rglob("*"))
                          if path.is_file() and "__pycache__" not in path.parts and self.reader(path)]
        return [path for path in found if self.shown(path) not in OWN_FILES]

    def shown(self, path):
        return str(path.relative_to(self.root))

    def reader(self, path):
        """Returns the function that finds the prose of this kind of file, or None."""
        if path.suffix in (*sources.CODE, ".inc"):
            return cpp_texts
        if path.suffix == ".py":
            return python_texts
        if path.suffix == ".md" or path.parent.name == "help":
            return lambda text, messages: document_texts(text)
        if path.suffix in COMMENTED or path.name in ("dev", "run", "CMakeLists.txt", "packages.txt", "layers.txt",
                                                     "expected_skips.txt", "differences.txt", "Makefile"):
            return hash_texts
        return None

    def file(self, path):
        shown, text = self.shown(path), path.read_text()
        if text.startswith("<!-- made by scripts/"):
            return  # the words of a generated page are checked in the source of the page
        lines = text.split("\n")
        exempt = any(shown.startswith(folder) for folder in EXEMPT_COMMENTS)
        for kind, block in self.reader(path)(text, shown.startswith(MESSAGE_FOLDERS)):
            if kind == HEADING and "faq" in path.stem:
                kind = DOCUMENT
            if not exempt or kind == MESSAGE:
                for position, phrase, instead in self.findings(piece := Text(kind, block)):
                    self.say(shown, lines, piece.line(position), f"“{' '.join(phrase.split())}”: write {instead}")

    def findings(self, piece):
        text = without_code(piece.text)
        for pattern, kinds, instead in PHRASES:
            if piece.kind in kinds:
                for match in pattern.finditer(text):
                    yield match.start(), match.group(0), instead
        for sentence in SENTENCE.finditer(text):
            for pattern, kinds, instead in BEGINNINGS:
                begins = pattern.match(sentence.group(1))
                if piece.kind in kinds and begins and not sentence.group(1).endswith("?"):
                    shown = re.match(r"\S+(\s+\S+){0,3}", sentence.group(1)).group(0)
                    yield sentence.start(1), shown, instead
        if piece.kind == HEADING and text.rstrip().endswith("?"):
            yield 0, text, "a topic: only the headings of a FAQ are questions"
        if piece.kind in (COMMENT, API):
            for pattern, instead in COMMENT_BEGINNINGS:
                if begins := pattern.match(text.lstrip()):
                    yield 0, begins.group(0), instead

    def say(self, shown, lines, number, text):
        if not sources.allowed(lines, number, "words"):
            self.complaints.append(f"{shown}:{number}: {text}")

    def spelling(self, paths):
        chosen = [str(path.relative_to(self.root)) for path in paths]
        done = subprocess.run(["codespell", "--ignore-words-list", ",".join(SPELLING), "--", *chosen], cwd=self.root,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            if found := re.match(r"(?:\./)?(.+?):(\d+): (\S+) ==> (.+)", line):
                name, number, word, instead = found.groups()
                self.say(name, (self.root / name).read_text().split("\n"), int(number), f"“{word}”: write {instead}")
        if done.returncode and not done.stdout:
            self.complaints.append(f"codespell: {done.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--no-spelling", action="store_true", help="check the phrases only")
    options = parser.parse_args()
    try:
        complaints = Words(options.root).run(not options.no_spelling)
    except FileNotFoundError as missing:
        sys.exit(f"{missing.filename} is missing; scripts/dev/setup.sh test installs it")
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
