# SPDX-License-Identifier: MIT
"""Finds the tests in the sources, with the names that CTest gives them, and the conditions under which they are compiled."""
import collections
import dataclasses
import pathlib
import re

MACRO = re.compile(r"^(TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
INSTANCE = re.compile(r"^INSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+),", re.MULTILINE)
DIRECTIVE = re.compile(r"^#\s*(if|ifdef|ifndef|elif|else|endif)\b *(.*)")
BODY = re.compile(r"^(TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
# A return of the test itself: in a block of it, not in a lambda, which is indented further.
EARLY = re.compile(r"^  (?:if .*|\}? ?else.*)?\breturn;|^    return;")
ASSERTS = re.compile(r"\b(?:EXPECT|ASSERT)_|\bFAIL\(|\bexpect_|GTEST_SKIP")
CHECKED = "defined(VERBENA_CHECKED)"
# In the comment directly above a test: the lines of docs/parity that the test shows.
IDENTIFIERS = re.compile(r"\s*(?://|#) parity: (.+)")


@dataclasses.dataclass(frozen=True)
class Test:
    """A test in a source. In the name of a test with variants, `*` is the variant."""
    name: str
    path: pathlib.Path
    number: int  # of its line
    conditions: tuple[str, ...] = ()  # of the preprocessor, around the test
    identifiers: tuple[str, ...] = ()  # of the lines of docs/parity that it shows

    @property
    def is_checked_only(self):
        return CHECKED in self.conditions


def identifiers_above(lines, number):
    """Returns the identifiers in the comment that ends directly above the line with this number."""
    found = []
    for line in reversed(lines[:number - 1]):
        if not line.strip().startswith(("//", "#")):
            break
        if match := IDENTIFIERS.fullmatch(line):
            found = match.group(1).split(", ") + found
    return tuple(found)


def conditions_of_lines(text):
    """Returns the conditions of the preprocessor that hold in each line."""
    stack, found = [], []
    for line in text.splitlines():
        match = DIRECTIVE.match(line)
        if match:
            word, condition = match.groups()
            if word in ("if", "ifdef", "ifndef"):
                stack.append({"if": "{}", "ifdef": "defined({})", "ifndef": "!defined({})"}[word].format(condition.strip()))
            elif word == "else":
                stack[-1] = stack[-1][1:] if stack[-1].startswith("!defined") else "!" + stack[-1]
            elif word == "elif":
                stack[-1] = condition.strip()
            else:
                stack.pop()
        found.append(tuple(stack))
    return found


def silent_returns(folder, prefix=""):
    """Yields the GoogleTest tests below a folder that end with `return` on a path without an assertion."""
    for path in sorted(folder.rglob("*.cpp")):
        for match in BODY.finditer(path.read_text()):
            lines = match.group(4).splitlines()
            for number, line in enumerate(lines):
                if EARLY.match(line) and "IsSkipped()" not in line and not ASSERTS.search(block_before(lines, number)):
                    yield f"{path}: {prefix}{match.group(2)}.{match.group(3)} returns without an assertion: use GTEST_SKIP"


def block_before(lines, number):
    """Returns the line and those before it in the same block."""
    depth = len(lines[number]) - len(lines[number].lstrip())
    found = [lines[number]]
    for line in reversed(lines[:number] if depth > 2 else []):
        if line.strip() and len(line) - len(line.lstrip()) < depth:
            break
        found.append(line)
    return "\n".join(found)


def google_tests(folder, prefix):
    """Yields the GoogleTest tests below a folder."""
    texts = {path: path.read_text() for path in sorted(folder.rglob("*.cpp"))}
    instances = collections.defaultdict(set)
    for text in texts.values():
        for instance, suite in INSTANCE.findall(text):
            instances[suite].add(instance)
    for path, text in texts.items():
        conditions, lines = conditions_of_lines(text), text.splitlines()
        for match in MACRO.finditer(text):
            macro, suite, name = match.groups()
            number = text.count("\n", 0, match.start()) + 1
            names = [f"{prefix}{suite}.{name}"]
            if macro == "TYPED_TEST":
                names = [f"{prefix}{suite}.{name}<*>"]
            elif macro == "TEST_P":
                names = [f"{prefix}{instance}/{suite}.{name}/*" for instance in sorted(instances[suite])]
            for each in names:
                yield Test(each, path, number, conditions[number - 1], identifiers_above(lines, number))


def unit_tests(root):
    """Yields the tests of the folders of tests/unit."""
    unit = root / "tests" / "unit"
    for module in sorted(path for path in unit.glob("*") if path.is_dir()):
        parts = [module] if module.name != "softdev" else sorted(path for path in module.glob("*") if path.is_dir())
        for part in parts:
            yield from google_tests(part, f"{part.relative_to(unit)}/")


def scripted_tests(root):
    """Yields the tests that CMake derives from files (compile_fail, lint) and the examples."""
    for path in sorted((root / "tests" / "compile_fail").glob("*/*.cpp")):
        lines = path.read_text().splitlines()
        last = next((i for i, line in enumerate(lines, 1) if not line.startswith("//")), len(lines) + 1)
        yield Test(f"compile_fail/{path.parent.name}/{path.stem}", path, last, (), identifiers_above(lines, last))
    for path in sorted((root / "tests" / "lint").glob("*_test.py")):
        yield from named_by_lines(path, r"^    def test_([a-z0-9_]+)", f"lint/{path.stem}/")
    for path in sorted((root / "examples").rglob("CMakeLists.txt")):
        yield from named_by_lines(path, r"^\s*verbena_example\((\w+)", "example/")


def named_by_lines(path, pattern, prefix):
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if match := re.match(pattern, line):
            yield Test(prefix + match.group(1), path, number, (), identifiers_above(lines, number))


def conformance_tests(root):
    return google_tests(root / "tests" / "conformance", "")
