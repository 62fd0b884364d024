# SPDX-License-Identifier: MIT
"""overhead: instructions of public functions and of equivalent C code, on a null provider.

The programs overhead_twin (C) and overhead_typed (C++) contain cases with equal names. Callgrind
counts the instructions of each case: `inclusive` counts all of them, `self` excludes the
operations of the provider.
"""
from __future__ import annotations

import dataclasses
import pathlib
import subprocess

from bench.harness import build, callgrind, disassembly
from bench.harness.figure import Bound, Figure

NAME = "overhead"
SUMMARY = "instructions of posting and polling, compared with C"
NOTES = "self/inclusive instructions per call; the peer is in C; ns have no limit"
DEPENDS_ON_COMPILER = True
CALLS = 64
PREFIX = "case_"
PROVIDER_FILE = "null_operations.c"
# The cases call this function if a post fails. It is not called while instructions are counted.
ON_REFUSAL = "<overhead_failed>"
ALLOCATORS = ("malloc", "calloc", "realloc", "operator new", "operator delete", "free")

# For cases of one or two operations, extra instructions count per request or per with_poster call.
STRAIGHT = (Bound("extra", 0), Bound("extra", 1))
LOOP = (Bound("ratio", 1.0), Bound("ratio", 1.05))
POSTER = (Bound("extra", 0), Bound("extra", 4))
MOST_STRAIGHT = 2


@dataclasses.dataclass(frozen=True)
class Cost:
    """Instructions per call of a case, and the called functions that are not provider operations."""

    own: float
    inclusive: float
    foreign_callees: tuple[str, ...]


def costs(functions: dict[str, callgrind.Function], calls: int) -> dict[str, Cost]:
    """Returns the cost of each case. Provider operations call only functions of their own file."""
    provider = {one.name for one in functions.values() if one.file.endswith(PROVIDER_FILE)}

    def spent_in_provider(one: callgrind.Function) -> float:
        """Returns the instructions of `one` in the provider. Callers share a callee by their cost in it."""
        spent = 0.0
        for name, cost in one.callees.items():
            callee = functions[name]
            if name in provider:
                spent += cost
            elif callee.inclusive > 0 and callee is not one:
                spent += cost * spent_in_provider(callee) / callee.inclusive
        return spent

    result = {}
    for one in functions.values():
        if not one.name.startswith(PREFIX):
            continue
        own = (one.inclusive - spent_in_provider(one)) / calls
        foreign = tuple(sorted(set(one.callees) - provider))
        result[one.name.removeprefix(PREFIX)] = Cost(own, one.inclusive / calls, foreign)
    return result


def base_name(name: str) -> str:
    """Returns `name` without the recursion level that callgrind appends, such as '2."""
    return name.split("'")[0]


def twin_of(case: str) -> str:
    return case.removeprefix("poster_").removeprefix("single_")


def bounds(case: str, operations: int) -> tuple[Bound, Bound]:
    """Returns the goal and the limit of a case."""
    if operations > MOST_STRAIGHT:
        return LOOP
    return POSTER if case.startswith("poster_") else STRAIGHT


def case_figure(
    case: str, operations: int, ours: Cost | None, twin: Cost | None, nanoseconds: tuple
) -> Figure:
    goal, limit = bounds(case, operations)
    if ours is None or twin is None:
        missing = "the C++ side" if ours is None else "the C twin"
        return Figure(case, goal=goal, limit=limit, reason=f"{missing} did not run it")
    ratio = ours.own / twin.own
    extra = (ours.own - twin.own) / (operations if operations <= MOST_STRAIGHT else 1)
    return Figure(
        case,
        value=f"{ours.own:g}/{ours.inclusive:g} {ratio:.3f}x {nanoseconds[0]:.1f}ns",
        peer=f"{twin.own:g}/{twin.inclusive:g} {nanoseconds[1]:.1f}ns",
        numbers={
            "ratio": ratio,
            "extra": extra,
            "inclusive_ratio": ours.inclusive / twin.inclusive,
        },
        goal=goal,
        limit=limit,
        details={
            "operations": operations,
            "self": ours.own,
            "inclusive": ours.inclusive,
            "twin_self": twin.own,
            "twin_inclusive": twin.inclusive,
            "nanoseconds_per_operation": nanoseconds[0],
            "twin_nanoseconds_per_operation": nanoseconds[1],
        },
    )


def none_of(name: str, found: list[str]) -> Figure:
    """Returns a figure that counts `found`; its goal and limit are 0."""
    return Figure(
        name,
        value=str(len(found)),
        peer="-",
        numbers={"count": len(found)},
        goal=Bound("count", 0),
        limit=Bound("count", 0),
        reason="; ".join(found),
    )


def counting_figures(ours: dict[str, Cost], code: dict[str, list], functions: dict) -> list[Figure]:
    """Returns figures that count allocations, locked instructions and foreign calls in the cases."""
    allocations, foreign = [], []
    for case, cost in sorted(ours.items()):
        foreign += [f"{case} calls {name}" for name in cost.foreign_callees]
    for name in functions:
        if any(base_name(name).startswith(one) for one in ALLOCATORS):
            allocations.append(base_name(name))
    cases = {
        name: body
        for name, body in code.items()
        if name.startswith(PREFIX) and not name.endswith(".cold")
    }
    locks = [
        f"{name}: {one.operation}"
        for name, body in sorted(cases.items())
        for one in disassembly.locked(body)
    ]
    calls = [
        f"{name}: {one.operands}"
        for name, body in sorted(cases.items())
        for one in disassembly.direct_calls_in_loops(body)
        if ON_REFUSAL not in one.operands
    ]
    figures = [
        none_of("allocations", allocations),
        none_of("locked instructions", locks),
        none_of("foreign calls in loops", calls),
        none_of("foreign calls executed", foreign),
    ]
    if set(ours) - {name.removeprefix(PREFIX) for name in cases} or not cases:
        for figure in figures:
            figure.numbers, figure.reason = {}, "not every case was found in the disassembly"
    return figures


def lines_of(program: pathlib.Path, *arguments: str) -> list[list[str]]:
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=True, timeout=300
    )
    return [line.split() for line in done.stdout.splitlines()]


def differences(twin: list[list[str]], typed: list[list[str]]) -> list[str]:
    """Returns the C++ cases whose work requests at the provider differ from those of the C case."""

    def by_case(lines: list[list[str]]) -> dict[str, list[list[str]]]:
        result: dict[str, list[list[str]]] = {}
        for case, *rest in lines:
            result.setdefault(case, []).append(rest)
        return result

    expected, got = by_case(twin), by_case(typed)
    return [
        case for case, requests in sorted(got.items()) if requests != expected.get(twin_of(case))
    ]


def measure(options) -> list[Figure]:
    folder = build.build(options.compiler, ["overhead_twin", "overhead_typed"])
    twin, typed = folder / "overhead_twin", folder / "overhead_typed"
    operations = {name: int(count) for name, count in lines_of(typed, "--count", "1")}
    twin_functions = callgrind.run([str(twin), "--count", str(CALLS)], f"{PREFIX}*")
    typed_functions = callgrind.run([str(typed), "--count", str(CALLS)], f"{PREFIX}*")
    twin_costs, typed_costs = costs(twin_functions, CALLS), costs(typed_functions, CALLS)
    twin_times = {name: float(value) for name, value in lines_of(twin, "--time")}
    typed_times = {name: float(value) for name, value in lines_of(typed, "--time")}

    figures = []
    for case, count in operations.items():
        times = (typed_times[case], twin_times.get(twin_of(case), float("nan")))
        figures.append(
            case_figure(case, count, typed_costs.get(case), twin_costs.get(twin_of(case)), times)
        )
    figures += counting_figures(typed_costs, disassembly.disassemble(str(typed)), typed_functions)
    figures.append(
        none_of(
            "requests that differ",
            differences(lines_of(twin, "--record"), lines_of(typed, "--record")),
        )
    )
    return figures


def versions(options) -> dict[str, str]:
    return {
        "compiler": build.version(build.COMPILERS[options.compiler][1]),
        "valgrind": build.version("valgrind"),
    }
