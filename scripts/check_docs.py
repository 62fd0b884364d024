#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the documents: links and paths exist, and every C++ snippet is a quotation of a file that the build compiles.

A snippet follows a line `<!-- quote: PATH -->` or `<!-- quote: PATH#REGION -->`. A region of a source file is the text
between `// [REGION]` and `// [/REGION]`; without a region the whole file after its head comment is quoted. Every
environment variable that the product reads must be in docs/environment.md. --fix updates the quotations.
"""
import argparse
import pathlib
import re
import sys

QUOTE = re.compile(r"<!-- quote: ([^#\s]+)(?:#([\w-]+))? -->")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:\./)?[\w.-]+(?:/[\w.*{},-]+)+/?)`")


def documents(root):
    found = sorted(root.glob("*.md"))
    for folder in ("docs", "examples", "bench", "tests", "softdev", "src"):
        found += sorted((root / folder).rglob("*.md"))
    return found


def quoted(path, region):
    """Returns the lines that a quotation must have, or None if the region does not exist."""
    lines = path.read_text().splitlines()
    if region:
        marks = [index for index, line in enumerate(lines) if line.strip() in (f"// [{region}]", f"// [/{region}]")]
        if len(marks) != 2:
            return None
        lines = lines[marks[0] + 1:marks[1]]
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        return [line[indent:] for line in lines]
    while lines and (lines[0].startswith("//") or not lines[0].strip()):
        lines.pop(0)
    return lines


class Checker:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.complaints = []

    def run(self):
        for document in documents(self.root):
            self.document(document)
        self.environment()
        return self.complaints

    def environment(self):
        """Finds environment variables in the product's sources that docs/environment.md does not describe."""
        page = self.root / "docs" / "environment.md"
        known = page.read_text() if page.is_file() else ""
        for folder in ("src", "softdev", "tools", "examples"):
            for source in sorted((self.root / folder).rglob("*.cpp")):
                for name in sorted(set(re.findall(r'"(VERBENA_[A-Z_]+)"', source.read_text()))):
                    if f"`{name}`" not in known:
                        self.complaints.append(f"{source.relative_to(self.root)}: reads {name}, which "
                                               "docs/environment.md does not explain")

    def say(self, document, number, text):
        self.complaints.append(f"{document.relative_to(self.root)}:{number}: {text}")

    def document(self, document):
        quote, fence, snippet, start = None, None, [], 0
        for number, line in enumerate(document.read_text().splitlines(), 1):
            if fence is not None:
                if line.strip() == "```":
                    if fence in ("cpp", "c++", "c"):
                        self.snippet(document, start, quote, snippet)
                    fence, quote = None, None
                else:
                    snippet.append(line)
            elif line.startswith("```"):
                fence, snippet, start = line[3:].strip(), [], number
            elif QUOTE.fullmatch(line.strip()):
                quote = QUOTE.fullmatch(line.strip()).groups()
            else:
                if quote is not None:
                    self.say(document, number - 1, f"no code block follows the quotation of {quote[0]}")
                    quote = None
                self.links(document, number, line)
                self.paths(document, number, line)
        if fence is not None:
            self.say(document, start, "a code block without an end")
        elif quote is not None:
            self.say(document, number, f"no code block follows the quotation of {quote[0]}")

    def snippet(self, document, number, quote, lines):
        if quote is None:
            self.say(document, number, "C++ that is not a quotation: put `<!-- quote: PATH -->` above it")
            return
        path = self.root / quote[0]
        if not path.is_file():
            self.say(document, number, f"quotes {quote[0]}, which does not exist")
            return
        if not self.compiled(path):
            self.say(document, number, f"quotes {quote[0]}, which no CMakeLists.txt names")
        expected = quoted(path, quote[1])
        if expected is None:
            self.say(document, number, f"quotes the region {quote[1]} of {quote[0]}, which has no such marks")
        elif expected != lines:
            self.say(document, number, f"differs from {quote[0]}")

    def compiled(self, path):
        """Returns whether a CMakeLists.txt above the file names the file or its folder, or uses GLOB."""
        for folder in path.parents:
            lists = folder / "CMakeLists.txt"
            if lists.is_file():
                text = lists.read_text()
                if path.name in text or path.stem in text or path.parent.name in text or "GLOB" in text:
                    return True
            if folder == self.root:
                return False
        return False

    def links(self, document, number, line):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                continue
            if not (document.parent / target.split("#")[0]).exists():
                self.say(document, number, f"the link to {target} leads nowhere")

    def paths(self, document, number, line):
        """Paths in code marks that begin with a folder of this tree; in docs/parity these are names of tests."""
        if document.parent == self.root / "docs" / "parity":
            return
        for path in PATH.findall(line):
            first = path.removeprefix("./").split("/")[0]
            if not (self.root / first).is_dir() or first == "build":
                continue
            if re.search(r"[*{]|\b[A-Z]{4,}\b|STEM", path):  # a pattern, or a path with placeholders such as MODULE
                pattern = re.sub(r"\{[^}]*\}|\b[A-Z]{4,}\b|STEM|RULE", "*", path.removeprefix("./")).rstrip("/")
                if not any(self.root.glob(pattern)):
                    self.say(document, number, f"nothing matches the path {path}")
            elif not (self.root / path).exists():
                self.say(document, number, f"the path {path} does not exist")


def renew(root):
    """Replaces the body of every quotation by the quoted text."""
    for document in documents(root):
        text = document.read_text()

        def body(match):
            lines = quoted(root / match.group(2), match.group(3)) if (root / match.group(2)).is_file() else None
            return match.group(0) if lines is None else f"{match.group(1)}{''.join(line + chr(10) for line in lines)}```"

        fresh = re.sub(r"(<!-- quote: ([^#\s]+)(?:#([\w-]+))? -->\n```\w*\n).*?```", body, text, flags=re.DOTALL)
        if fresh != text:
            document.write_text(fresh)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--fix", action="store_true")
    if parser.parse_args().fix:
        renew(parser.parse_args().root)
    complaints = Checker(parser.parse_args().root).run()
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
