# SPDX-License-Identifier: MIT
"""Finds locked instructions and direct calls in loops in machine code. Supports x86-64 only."""
from __future__ import annotations

import dataclasses
import re
import subprocess

JUMP = re.compile(r"^j\w+$")
# Functions that do not return: failed checks, thrown errors, functions of the C++ runtime.
NEVER_RETURNS = re.compile(
    r"stop_on_violation|raise|abort|terminate|__throw|__cxa_throw|_Unwind_Resume|__stack_chk_fail"
)
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")
FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")


@dataclasses.dataclass(frozen=True)
class Instruction:
    address: int
    operation: str  # "lock cmpxchg", "call", "mov" …
    operands: str

    @property
    def is_locked(self) -> bool:
        """Whether the instruction has a lock prefix or is xchg with memory, which implies lock."""
        if self.operation.startswith("lock"):
            return True
        return self.operation.startswith("xchg") and "(" in self.operands

    @property
    def is_direct_call(self) -> bool:
        return self.operation.startswith("call") and not self.operands.startswith("*")

    @property
    def never_returns(self) -> bool:
        return self.is_direct_call and NEVER_RETURNS.search(self.operands) is not None

    @property
    def target(self) -> int | None:
        match = re.match(r"([0-9a-f]+)\b", self.operands)
        return int(match.group(1), 16) if match else None


def parse(text: str) -> dict[str, list[Instruction]]:
    """Returns functions by name from `objdump -d --no-show-raw-insn` (AT&T syntax)."""
    functions: dict[str, list[Instruction]] = {}
    current: list[Instruction] | None = None
    for line in text.splitlines():
        header = FUNCTION.match(line)
        if header:
            current = functions.setdefault(header.group(2), [])
            continue
        match = INSTRUCTION.match(line)
        if not match or current is None:
            continue
        words = match.group(2).split("#")[0].split(None, 1)
        if not words:
            continue
        operation, operands = words[0], words[1].strip() if len(words) > 1 else ""
        if operation in ("lock", "rep", "repz", "repnz", "notrack", "bnd") and operands:
            second, *rest = operands.split(None, 1)
            operation, operands = f"{operation} {second}", rest[0].strip() if rest else ""
        current.append(Instruction(int(match.group(1), 16), operation, operands))
    return functions


def successors(function: list[Instruction]) -> list[list[int]]:
    """Returns the successors of each instruction inside the function, as indices."""
    index_of = {one.address: index for index, one in enumerate(function)}
    result = []
    for index, one in enumerate(function):
        target = index_of.get(one.target) if one.target is not None else None
        following = [index + 1] if index + 1 < len(function) else []
        if one.operation.startswith("jmp"):
            result.append([] if target is None else [target])
        elif JUMP.match(one.operation):
            result.append(following + ([] if target is None else [target]))
        elif one.operation.startswith(("ret", "repz ret", "ud2", "hlt")) or one.never_returns:
            result.append([])
        else:
            result.append(following)
    return result


def indices_in_loops(function: list[Instruction]) -> set[int]:
    """Returns the indices of the instructions that are part of a loop."""
    after = successors(function)
    inside = set()
    for start in range(len(function)):
        seen: set[int] = set()
        todo = list(after[start])
        while todo:
            index = todo.pop()
            if index not in seen:
                seen.add(index)
                todo.extend(after[index])
        if start in seen:
            inside.add(start)
    return inside


def locked(function: list[Instruction]) -> list[Instruction]:
    return [one for one in function if one.is_locked]


def direct_calls_in_loops(function: list[Instruction]) -> list[Instruction]:
    """Returns the direct calls in loops. Calls of the provider are indirect, so they do not count."""
    return [
        function[index]
        for index in sorted(indices_in_loops(function))
        if function[index].is_direct_call
    ]


def disassemble(program: str) -> dict[str, list[Instruction]]:
    command = ["objdump", "-d", "--no-show-raw-insn", program]
    return parse(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
