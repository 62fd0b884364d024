#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that docs/guide/safety.md lists each rule with the place that enforces it: the compiler (tests/compile_fail),
the library in all builds (VERBENA_ASSERT) or in checked builds (VERBENA_CHECK). --fix rewrites the lists, which are grouped by
the object that the rule is about."""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = pathlib.Path("docs/guide/safety.md")
# Beginnings of calls whose last string literal is a rule.
ALWAYS = r"\bVERBENA_ASSERT\(|\bchar\* (?:moved_from|outside) = "
CHECKED = r"\bVERBENA_CHECK\(|\b(?:begin_exclusive|check_not_open|check_valid|in_flight_rule)\("
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*')
# The groups of a list, in order: title, modules, and words of the rule or of its source. The first group that has the module or
# the words of a rule lists it.
GROUPS = (
    ("Channels", ("channel",), None),
    ("Connection manager", ("cm",), None),
    ("Negotiation", ("bringup",), None),
    ("EFA", ("efa",), None),
    ("Buffers and exported memory", ("memory",), None),
    ("Results, flags and identifiers", ("base", "sys"), r"close|C object"),
    ("Asynchronous events", (), r"[Aa]synchronous event|waiting for an event"),
    ("Shared receive queues", (), r"shared[ _]receive[ _]queue"),
    ("Batches", (), r"batch|submit"),
    ("Completion queues and completion channels", (), r"completion(?! at the peer| can free)|poll|moderation|[Aa]rming"),
    ("Memory regions and slices", (), r"memory|region|slice|access flag|inline|dma-buf|[Ll]ocal key|[Aa]dvice"),
    ("Addresses and destinations", (), r"address|destination|IPv4|GID"),
    ("Devices and protection domains", (), r"device|context|protection_domain"),
    ("Queue pairs and posting", (), r""),
)
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|;')


def first_sentence(case):
    """Returns the rule as text: the comment between the licence and the `// expect` lines."""
    words = []
    for line in case.read_text().splitlines()[1:]:
        if not line.startswith("// ") or line.startswith("// expect"):
            break
        words.append(line.removeprefix("// ").strip())
    return " ".join(words)


def compiler_rules(root):
    """Returns the module, the rule and the test of each case."""
    rules = []
    for case in sorted((root / "tests/compile_fail").glob("*/*.cpp")):
        rules.append((case.parent.name, first_sentence(case), f"compile_fail/{case.parent.name}/{case.stem}"))
    return rules


def arguments_of(text, start):
    """Returns the text between the opening parenthesis before `start` and its closing parenthesis."""
    depth = 1
    position = start
    for token in TOKEN.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        position = token.start()
        if depth == 0 or token.group() == ";":
            break
    return text[start:position]


def text_rules(root, calls):
    """Returns each rule text of `calls` once: its module, the text and its file. The last string literal of a call is its rule."""
    rules = {}
    for folder in ("include", "src"):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            text = path.read_text()
            for found in re.finditer(calls, text):
                literals = LITERAL.findall(arguments_of(text, found.end()))
                if literals:
                    parts = path.relative_to(root / folder).parts
                    module = parts[1] if folder == "include" else parts[0]
                    rules.setdefault(re.sub(r'"\s*"', "", literals[-1])[1:-1], (module, path.stem))
    return [(module, rule, stem) for rule, (module, stem) in sorted(rules.items())]


def group_of(module, rule, source):
    """Returns the number of the group of a rule."""
    for number, (_, modules, words) in enumerate(GROUPS):
        if module in modules or (words is not None and re.search(words, f"{rule} {source.replace('_', ' ')}")):
            return number
    raise AssertionError("the last group has all other rules")


def grouped(rules, line):
    """Returns the list of `rules` under the titles of their groups; `line` formats rule and source."""
    out = ""
    for number, (title, _, _) in enumerate(GROUPS):
        members = [rule for rule in rules if group_of(*rule) == number]
        if members:
            out += f"\n**{title}**\n\n" + "".join(line(rule, source) for _, rule, source in members)
    return out and out + "\n"


def lists(root):
    return {
        "compiler": grouped(compiler_rules(root), lambda rule, test: f"- {rule} `{test}`\n"),
        "always": grouped(text_rules(root, ALWAYS), lambda text, stem: f"- {text} ({stem})\n"),
        "checked": grouped(text_rules(root, CHECKED), lambda text, stem: f"- {text} ({stem})\n"),
    }


def replaced(page, wanted):
    """Returns the page with each list between its marks."""
    for name, text in wanted.items():
        pattern = re.compile(rf"(<!-- {name}: scripts/safety_rules.py --fix -->\n).*?(<!-- end of {name} -->\n)", re.DOTALL)
        if not pattern.search(page):
            raise SystemExit(f"{PAGE}: the marks of the list `{name}` are missing")
        page = pattern.sub(lambda found, text=text: found.group(1) + text + found.group(2), page)
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--fix", action="store_true")
    options = parser.parse_args()
    complaints = [f"{test}: the rule has no description: write it in the comment below the licence"
                  for _, rule, test in compiler_rules(options.root) if not rule]
    path = options.root / PAGE
    page = path.read_text()
    wanted = replaced(page, lists(options.root))
    if options.fix:
        path.write_text(wanted)
    elif page != wanted:
        complaints.append(f"{PAGE}: a list is out of date: run scripts/safety_rules.py --fix")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
