# SPDX-License-Identifier: MIT
"""Ratios of programs that run alternately, so that load of the machine affects all of them.

A round is one run of each program. If the peer deviates from its median in a round, other load
disturbed the round, and the round is dropped. If too few rounds are left, there is no result, and
the gate fails.
"""
from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable

DEVIATION = 0.15
MINIMUM_KEPT = 7


@dataclasses.dataclass(frozen=True)
class Round:
    peer: float
    ours: float


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The summary of the rounds. `ratio` is the median of ours / peer; None if there is no result."""

    total: int
    kept: tuple[Round, ...]

    @property
    def has_result(self) -> bool:
        return len(self.kept) >= MINIMUM_KEPT

    @property
    def ratio(self) -> float | None:
        if not self.has_result:
            return None
        return statistics.median(one.ours / one.peer for one in self.kept)

    @property
    def ours(self) -> float:
        return statistics.median(one.ours for one in self.kept)

    @property
    def peer(self) -> float:
        return statistics.median(one.peer for one in self.kept)


def keep(rounds: list[Round]) -> Outcome:
    """Drops the rounds in which the peer deviates from its median by more than 15 %."""
    if not rounds:
        return Outcome(0, ())
    middle = statistics.median(one.peer for one in rounds)
    kept = tuple(
        one for one in rounds if one.peer > 0 and abs(one.peer - middle) <= DEVIATION * middle
    )
    return Outcome(len(rounds), kept)


def outcome(samples: dict[str, list[float]], peer: str, ours: str) -> Outcome:
    """Returns the rounds of one peer from the samples of interleave()."""
    return keep([Round(*pair) for pair in zip(samples[peer], samples[ours])])


def interleave(
    programs: dict[str, Callable[[], float]],
    ours: str,
    rounds: int = 9,
    most: int = 21,
    judged: tuple[str, ...] | None = None,
) -> dict[str, list[float]]:
    """Runs all programs once per round and returns samples by name. Every other round is reversed.

    If a peer has too few rounds for a result, adds rounds, at most until there are `most`. The peers are the programs
    in `judged`; by default, all programs except `ours`.
    """
    peers = judged or tuple(name for name in programs if name != ours)
    samples: dict[str, list[float]] = {name: [] for name in programs}

    def enough() -> bool:
        return all(outcome(samples, name, ours).has_result for name in peers)

    done = 0
    while done < rounds or (done < most and not enough()):
        order = list(programs) if done % 2 == 0 else list(reversed(programs))
        for name in order:
            samples[name].append(programs[name]())
        done += 1
    return samples
