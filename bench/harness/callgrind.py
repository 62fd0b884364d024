# SPDX-License-Identifier: MIT
"""Runs valgrind's callgrind and parses its output: instructions per function."""
from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
import subprocess
import tempfile


@dataclasses.dataclass
class Function:
    """The cost of one function in instructions, summed over the whole run."""

    name: str
    file: str = ""
    self_cost: int = 0
    callee_cost: int = 0
    callees: collections.Counter = dataclasses.field(
        default_factory=collections.Counter
    )  # name -> inclusive cost

    @property
    def inclusive(self) -> int:
        return self.self_cost + self.callee_cost


def parse(text: str) -> dict[str, Function]:
    """Returns functions by name. A compressed name is `fn=(3) name` once, then `fn=(3)`."""
    names: dict[tuple[str, str], str] = {}

    def resolve(kind: str, value: str) -> str:
        match = re.match(r"\((\d+)\)(?: (.*))?$", value)
        if not match:
            return value
        key = (kind, match.group(1))
        if match.group(2):
            names[key] = match.group(2)
        if key not in names:
            raise ValueError(
                f"callgrind file: {kind} ({match.group(1)}) is used before it is named"
            )
        return names[key]

    functions: dict[str, Function] = {}
    current: Function | None = None
    callee = file = ""
    cost_of_call = False
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key in ("fl", "fi", "fe"):
            name = resolve("file", value)
            file = name if key == "fl" else file
        elif equals and key in ("cfi", "cfl"):
            resolve("file", value)
        elif equals and key == "fn":
            name = resolve("function", value)
            current = functions.setdefault(name, Function(name, file))
        elif equals and key == "cfn":
            callee = resolve("function", value)
        elif equals and key == "calls":
            cost_of_call = True
        elif current is not None and re.match(r"[-+*\d]", line):
            cost = int(line.split()[-1])
            if cost_of_call:
                current.callee_cost += cost
                current.callees[callee] += cost
            else:
                current.self_cost += cost
            cost_of_call = False
    return functions


def run(command: list[str], toggle: str) -> dict[str, Function]:
    """Runs `command` and counts instructions in functions whose names match the pattern `toggle`."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        valgrind = [
            "valgrind", "--tool=callgrind", "--error-exitcode=97", f"--toggle-collect={toggle}",
            "--compress-strings=no", "--compress-pos=no", f"--callgrind-out-file={out}",
        ]  # fmt: skip
        done = subprocess.run(valgrind + command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            program = " ".join(command)
            raise RuntimeError(
                f"{program} under callgrind: {done.returncode}\n{done.stderr[-800:]}"
            )
        return parse(out.read_text())
