# SPDX-License-Identifier: Apache-2.0
"""What docs/bibliography.md says of the pages: of each the figure, what it shows, with how many
threads and keys here and in the paper, and how much one round runs.

    python -m lab.paper.guide           writes these tables anew"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from lab import allocators
from lab.paper import run
from lab.paper.catalogue import PAGES
from lab.paper.origins import ORIGINS, by_number
from lab.paper.page import Page, Scale
from lab.paper.papers import PAPERS, Paper

GUIDE = Path(__file__).parents[2] / "docs" / "bibliography.md"
# Stands for the number of processors: no page has a number near a part or a multiple of it.
CORES = 10_000
SCALE = Scale(
    cores=CORES, threads=(1, CORES, 2 * CORES, 4 * CORES), keys=200_000, seconds=0.5,
    allocators=tuple(allocators.ALLOCATORS), combinations=run.EVERYTHING.combinations,
)  # fmt: skip
HEAD = "| figure | page | shows | threads | size | a round |"
# Options of a command that say how many threads it has, and on how much they work.
THREADS = {"--threads": "", "--small-readers": " with short reads", "--readers": " with reads",
           "--scanners": " that scan"}  # fmt: skip
SIZES = {"--keys": "keys", "--records": "rows of each thread", "--items": "items",
         "--rows": "rows"}  # fmt: skip
THEIR_SIZES = {"keys": "keys", "warehouses": "warehouse", "items": "items",
               "rows of each thread": "rows of each thread"}  # fmt: skip


def tables() -> str:
    """For each paper a heading and a table, then one of the pages that are of no paper."""
    parts = []
    for number, paper in enumerate(PAPERS_IN_ORDER, 1):
        rows = [_row(page, ORIGINS[page.key].figures) for page in _pages(paper)]
        parts.append("\n".join([f"**Paper {number}, {paper.venue}**", "", *_table(rows)]))
    rest = [_row(page, "–") for page in PAGES if page.key not in ORIGINS]
    parts.append("\n".join(["**Of no paper, or beyond theirs**", "", *_table(rest)]))
    return "\n\n".join(parts) + "\n"


# As the guide numbers them.
PAPERS_IN_ORDER = tuple(
    next(paper for paper in PAPERS if paper.name == name)
    for name in ("Token-EBR", "MV-RLU", "One-shot", "FRC", "Multiversion GC")
)


def _pages(paper: Paper) -> list[Page]:
    own = [page for page in PAGES if page.key in ORIGINS and ORIGINS[page.key].paper is paper]
    return sorted(own, key=lambda page: by_number(ORIGINS[page.key].figures))


def _table(rows: list[str]) -> list[str]:
    return [HEAD, "|---" * HEAD.count(" |") + "|", *rows]


def _row(page: Page, figures: str) -> str:
    told = ORIGINS[page.key].told() if page.key in ORIGINS else {}
    theirs = [_with_word(told[key], word) for key, word in THEIR_SIZES.items() if key in told]
    cells = [figures, f"`{page.key}`", page.title,
             _both(_threads(page), told.get("threads", "")),
             _both(_sizes(page), "; ".join(theirs)), str(_runs(page) or "")]  # fmt: skip
    return "| " + " | ".join(cell or "–" for cell in cells) + " |"


def _both(here: str, theirs: str) -> str:
    """In one column: a table with one for each is wider than a page."""
    return f"{here or '–'} (*{theirs}*)" if theirs else here


def _with_word(text: str, word: str) -> str:
    """'one of each thread' is one warehouse of each thread; what has its word stays as it is."""
    if text == "one of each thread":
        return f"one {word} of each thread"
    return text if re.search(r"[a-z]{4}", text) else f"{text} {word}"


def _runs(page: Page) -> int:
    work = run.work_of([page], SCALE, run.Wishes())
    return len(work.cells) + len(work.commands)


def _threads(page: Page) -> str:
    commands = page.commands(SCALE)
    if not commands:
        return ", ".join(map(_of_cores, sorted({cell.threads for cell in page.cells(SCALE)})))
    told = [", ".join(map(_of_cores, found)) + name for option, name in THREADS.items()
            if (found := _values(commands, option))]  # fmt: skip
    return ", and ".join(told)


def _sizes(page: Page) -> str:
    commands = page.commands(SCALE)
    keys = sorted({cell.keys for cell in page.cells(SCALE)})
    found = {"keys": keys} if not commands else {
        name: _values(commands, option) for option, name in SIZES.items()}  # fmt: skip
    return "; ".join(f"{', '.join(f'{n:,}' for n in numbers)} {name}"
                     for name, numbers in found.items() if numbers)  # fmt: skip


def _values(commands: list[tuple[str, ...]], option: str) -> list[int]:
    """The numbers that commands give to an option, each once."""
    pairs = [pair for words in commands for pair in itertools.pairwise(words)]
    return sorted({int(n) for name, text in pairs if name == option for n in text.split(",")})


def _of_cores(threads: int) -> str:
    """In processors where it goes by them: P, 2 P, P - 1."""
    times = round(threads / CORES)
    if not times:
        return str(threads)
    many = "P" if times == 1 else f"{times} P"
    more = threads - times * CORES
    return f"{many} {'+' if more > 0 else '-'} {abs(more)}" if more else many


def written(text: str) -> str:
    """The guide with its tables made anew: they stand between two comments."""
    begin, end = "<!-- made by lab/paper/guide.py -->\n", "<!-- until here -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{tables()}\n{end}{rest.partition(end)[2]}"


if __name__ == "__main__":
    GUIDE.write_text(written(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
