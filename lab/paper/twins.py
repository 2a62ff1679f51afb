# SPDX-License-Identifier: Apache-2.0
"""Pairs of identical code: some cells and commands are run a second time in each round, under names
of their own. A command that measures several in turn makes as many pairs. What sets such a pair
apart is chance. So they tell how often chance is taken for a difference on this machine: in one
pair of twenty at most, or the run fails its own check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.paper import factors
from lab.records import SPEEDS
from lab.verdict import FEWEST, interval

PAIRS = 48
ENOUGH = 40  # pairs from which on the check speaks
CONFIDENCE = 0.99
MOST = 0.05

Arm = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Outcome:
    pairs: int  # with trials enough
    apart: int
    whole: bool = True  # has to speak

    @property
    def speaks(self) -> bool:
        return self.pairs >= ENOUGH

    @property
    def well(self) -> bool:
        return self.speaks and self.apart <= MOST * self.pairs

    @property
    def fails(self) -> bool:
        """A run of all pages has to have pairs enough, and so does one that has that many pairs
        and trials enough to decide claims. A run of few pages cannot have them."""
        return not self.well and (self.whole or self.speaks)

    def told(self) -> str:
        if not self.speaks:
            left = (f"{self.pairs} pairs of identical code have trials enough, of {ENOUGH} from "
                    "which on the check of equal pairs speaks")  # fmt: skip
            return f"{left}: a run of all pages fails it" if self.whole else left
        return (f"{self.apart} of {self.pairs} pairs of identical code were set apart, of which "
                f"{1 - CONFIDENCE:.0%} is to be expected and {MOST:.0%} allowed")  # fmt: skip


def spread_over(items: list, most: int = PAIRS) -> list:
    """So many of them, from beginning to end."""
    if len(items) <= most:
        return list(items)
    return [items[place * len(items) // most] for place in range(most)]


def compared(pairs: Iterable[tuple[str, str]], records: Iterable[dict],
             whole: bool = True) -> Outcome:  # fmt: skip
    """`pairs` are names of cells or commands and of their twins; each record of theirs counts."""
    speeds: dict[str, dict[Arm, dict[int, float]]] = {}
    for record in records:
        lab = record.get("lab") or {}
        speed = next((record[name] for name in SPEEDS if record.get(name)), None)
        if speed is not None and "cell" in lab:
            arms = speeds.setdefault(lab["cell"], {})
            arms.setdefault(arm_of(record), {})[lab["round"]] = speed
    known = apart = deciding = 0
    for one, other in pairs:
        mine, theirs = (speeds.get(name, {}) for name in (one, other))
        for arm in sorted(mine.keys() & theirs.keys()):
            ones, others = (list(of[arm].values()) for of in (mine, theirs))
            deciding += min(len(ones), len(others)) >= FEWEST
            if min(len(ones), len(others)) > FEWEST:
                known += 1
                apart += interval(ones, others, CONFIDENCE).without_one
    return Outcome(known, apart, whole or deciding >= ENOUGH)


def arm_of(record: dict) -> Arm:
    """What tells the records of one process from each other: under what they were made."""
    named = factors.conditions(record)
    return tuple(sorted((name, value) for name, value in named.items()
                        if not name.startswith("lab.")))  # fmt: skip


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Of several runs whose pages stand in one report: the one that speaks against it most."""
    every = list(outcomes)
    return max(every, key=lambda one: (one.fails, one.speaks, one.apart), default=Outcome(0, 0))
