# SPDX-License-Identifier: MIT
"""A figure: one line of the table, with a measured value, its peer, its goal and its limit."""
from __future__ import annotations

import dataclasses
import enum


class Verdict(enum.Enum):
    SHOWN = "shown"  # the figure has no limit
    WITHIN = "within"  # the value is within the limit
    BEYOND = "beyond limit"
    NO_RESULT = "no result"


class Better(enum.Enum):
    LESS = "less"
    MORE = "more"


@dataclasses.dataclass(frozen=True)
class Bound:
    """A goal or a limit. `what` is the key in Figure.numbers: "ratio", "extra", "count" …"""

    what: str
    value: float
    better: Better = Better.LESS

    def holds(self, number: float) -> bool:
        # Ratios are quotients of floating-point numbers, so the comparison has a relative tolerance of 1e-9.
        tolerance = 1e-9 * max(1.0, abs(self.value))
        if self.better is Better.LESS:
            return number <= self.value + tolerance
        return number >= self.value - tolerance

    def __str__(self) -> str:
        sign = "<=" if self.better is Better.LESS else ">="
        if self.what == "ratio":
            return f"{sign}{self.value:g}x"
        return f"{sign}{self.value:g}"


@dataclasses.dataclass
class Figure:
    """One measured figure.

    Goal and limit apply to an entry of `numbers`. If `numbers` is empty, the figure has no result
    and `reason` is the cause. `value` and `peer` are texts for the table. `details` is written
    only to the JSON file.
    """

    name: str
    value: str = ""
    peer: str = ""
    numbers: dict[str, float] = dataclasses.field(default_factory=dict)
    goal: Bound | None = None
    limit: Bound | None = None
    reason: str = ""
    details: dict = dataclasses.field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        if not self.numbers:
            return Verdict.NO_RESULT
        if self.limit is None:
            return Verdict.SHOWN
        if self.limit.what not in self.numbers:
            return Verdict.NO_RESULT
        return Verdict.WITHIN if self.limit.holds(self.numbers[self.limit.what]) else Verdict.BEYOND

    @property
    def reaches_goal(self) -> bool:
        if self.goal is None or self.goal.what not in self.numbers:
            return False
        return self.goal.holds(self.numbers[self.goal.what])

    def as_json(self) -> dict:
        return {
            "figure": self.name,
            "value": self.value,
            "peer": self.peer,
            "numbers": self.numbers,
            "goal": str(self.goal) if self.goal else None,
            "limit": str(self.limit) if self.limit else None,
            "verdict": self.verdict.value,
            "reaches_goal": self.reaches_goal,
            "reason": self.reason,
            **self.details,
        }


def gate(figures: list[Figure]) -> int:
    """Returns 1 if there are no figures, or one is beyond its limit or has no result; otherwise 0."""
    bad = (Verdict.BEYOND, Verdict.NO_RESULT)
    return 1 if not figures or any(figure.verdict in bad for figure in figures) else 0
