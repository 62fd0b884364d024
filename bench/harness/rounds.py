# SPDX-License-Identifier: MIT
"""Ratios of two programs that run alternately, so that both run under the same conditions.

A round is one run of each. The machine is shared: a round in which the peer deviates from its own
median says nothing about us and is dropped. With too few rounds left there is no result, which is
never a pass.
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
    """The summary of the rounds; `ratio` is the median of ours / peer, None without a result."""

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
    """Drops the rounds in which the peer is more than 15 % away from its own median."""
    if not rounds:
        return Outcome(0, ())
    middle = statistics.median(one.peer for one in rounds)
    kept = tuple(
        one for one in rounds if one.peer > 0 and abs(one.peer - middle) <= DEVIATION * middle
    )
    return Outcome(len(rounds), kept)


def outcome(samples: dict[str, list[float]], peer: str, ours: str) -> Outcome:
    """The rounds of one peer, out of the samples that interleave() took."""
    return keep([Round(*pair) for pair in zip(samples[peer], samples[ours])])


def interleave(
    programs: dict[str, Callable[[], float]],
    ours: str,
    rounds: int = 9,
    most: int = 21,
    judged: tuple[str, ...] | None = None,
) -> dict[str, list[float]]:
    """Runs all programs once per round, every other round backwards; returns samples by name.

    Adds rounds, up to `most`, while a peer has too few rounds left for a result. The peers are those of `judged`, or
    all programs except ours.
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
