# SPDX-License-Identifier: Apache-2.0
"""What a page of the paper's evaluation is: cells to run, pictures to draw, a claim to judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lab.claims import MISSING, NOT_SEEN, SEEN, UNPROVEN
from lab.matrix import Cell
from lab.paper.found import Found
from lab.stats import Comparison

# Verdicts beyond those of the claims: the effect needs more cores, but what causes it was counted;
# and what was computed is no measurement at all.
COUNTED, MODEL, SHOWN = "counted", "model", "shown"
# Batches at which the paper compares schemes.
LARGE_BATCH = 32_768


@dataclass(frozen=True)
class Scale:
    """How large this machine's version of an experiment is."""

    cores: int
    threads: tuple[int, ...]
    keys: int
    seconds: float
    allocators: tuple[str, ...]
    combinations: frozenset[tuple[str, str, str]]
    rivals: tuple[tuple[str, str, str], ...] = ()
    storages: tuple[str, ...] = ()

    @property
    def allocator(self) -> str:
        return "jemalloc" if "jemalloc" in self.allocators else self.allocators[0]

    @property
    def full(self) -> int:
        """As many threads as cores: what 192 threads are to the paper's machine."""
        return self.cores

    @property
    def over(self) -> int:
        """Several threads for each core: someone is always delayed."""
        return 4 * self.cores

    def cell(self, structure: str, series: tuple[str, str], threads: int, **more) -> Cell:
        values = {"keys": self.keys, "update": 100, "seconds": self.seconds,
                  "allocator": self.allocator, **more}  # fmt: skip
        return Cell(structure, *series, threads, **values)

    def schemes(self, structure: str) -> list[str]:
        """All schemes that can protect the structure and free something."""
        return sorted({s for where, s, _ in self.combinations if where == structure} - {"none"})


@dataclass
class Shown:
    """A page that has its records: pictures and tables (blocks.py), what they say, how it ends."""

    blocks: list[dict]
    here: str
    verdict: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    key: str
    name: str
    title: str
    paper: str
    cells: Callable[[Scale], list[Cell]]
    show: Callable[[Found], Shown | None]
    limits: str = ""
    """What this machine cannot show, and what stands in its place."""
    commands: Callable[[Scale], list[tuple[str, ...]]] = lambda scale: []
    """What is measured by other sub-commands than `sets`; their records say of which page."""
    peers: Callable[[Scale], tuple[str, ...]] = lambda scale: ()
    """Arguments of `python -m lab.peers`, whose records go with those of the commands."""
    takes: Callable[[Scale], float] = lambda scale: 0.0
    """Seconds that these and the commands take."""


def one_trial(scale: Scale) -> list[Cell]:
    """The cells of a page whose records are not trials of a set: one, which says on what machine
    they were made."""
    return [scale.cell("abtree", ("token", "amortized"), scale.full)]


def verdict(comparisons: list[Comparison | None]) -> str:
    """Of claims that something is larger, given as ratios that should be above one."""
    known = [c for c in comparisons if c is not None]
    if not known:
        return MISSING
    if any(c.proven and c.ratio < 1 for c in known):
        return NOT_SEEN
    return SEEN if any(c.proven for c in known) else UNPROVEN


def majority(comparisons: list[Comparison | None]) -> str:
    """Of a claim about many schemes: seen if it holds, proven, for half of them and not for fewer
    than it is proven wrong for."""
    known = [c for c in comparisons if c is not None]
    up = sum(c.proven and c.ratio > 1 for c in known)
    down = sum(c.proven and c.ratio < 1 for c in known)
    if not known:
        return MISSING
    if down > up:
        return NOT_SEEN
    return SEEN if 2 * up >= len(known) else UNPROVEN


def or_counted(found: str, counted: list[float | None]) -> str:
    """A verdict on speed, or, where speed proved nothing, whether the counted cause was there:
    ratios of events that should be clearly above one."""
    if found in (SEEN,) or not any(ratio is not None and ratio >= 1.5 for ratio in counted):
        return found
    return COUNTED
