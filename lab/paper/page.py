# SPDX-License-Identifier: Apache-2.0
"""What a page of the paper's evaluation is: cells to run, pictures to draw, a claim to judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lab.matrix import Cell
from lab.paper.found import Found
from lab.verdict import BARRED, SHOWN, Absent, Sub, weakest

# Batches at which the paper compares schemes.
LARGE_BATCH = 32_768
PEERS = "peers"


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
    paper: bool = False
    """Whether commands have the paper's sizes where this machine's are smaller; its numbers of
    threads are always this machine's."""
    lacking: dict[str, str] = field(default_factory=dict)
    """What the machine or the program is without, by name, and how that is told."""

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

    @property
    def short(self) -> str:
        """Seconds of a trial of those commands that are many."""
        return f"{0.3 * self.seconds:g}"

    def sizes(self, *here: str) -> tuple[str, ...]:
        """Of a command: the paper's, or those that are usual here."""
        return ("--paper-size",) if self.paper else here

    def cell(self, structure: str, series: tuple[str, str], threads: int, **more) -> Cell:
        values = {"keys": self.keys, "update": 100, "seconds": self.seconds,
                  "allocator": self.allocator, **more}  # fmt: skip
        return Cell(structure, *series, threads, **values)

    def schemes(self, structure: str) -> list[str]:
        """All schemes that can protect the structure and free something."""
        return sorted({s for where, s, _ in self.combinations if where == structure} - {"none"})


@dataclass
class Shown:
    """A page that has its records: pictures and tables (blocks.py), what they say, and what is
    claimed of them. `word` stands for the verdict where nothing is claimed."""

    blocks: list[dict]
    here: str
    claims: list[Sub] = field(default_factory=list)
    word: str = SHOWN

    @property
    def verdict(self) -> str:
        return weakest(claim.verdict for claim in self.claims) if self.claims else self.word

    @property
    def barred(self) -> list[Absent]:
        """What cannot be judged here, whatever is run."""
        return [claim for claim in self.claims if claim.verdict == BARRED]


@dataclass(frozen=True)
class Page:
    key: str
    name: str
    title: str
    paper: str
    cells: Callable[[Scale], list[Cell]]
    show: Callable[[Found], Shown | None]
    short: str = ""
    """What tells it from another page of the same figure, where the name does not."""
    limits: str = ""
    """What this machine cannot show, and what stands in its place."""
    commands: Callable[[Scale], list[tuple[str, ...]]] = lambda scale: []
    """What is measured by other sub-commands than `sets`, once in each round: without the number
    of trials, the seed, and where to write. Their records say of which page they are. PEERS in
    place of a sub-command is `python -m lab.peers`."""


def one_trial(scale: Scale) -> list[Cell]:
    """The cells of a page whose records are not trials of a set: one, which says on what machine
    they were made."""
    return [scale.cell("abtree", ("token", "amortized"), scale.full)]
