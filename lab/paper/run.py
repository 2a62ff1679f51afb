# SPDX-License-Identifier: Apache-2.0
"""Runs what the pages need, interleaved and resumable, and writes the report."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from lab import allocators, sweep
from lab.bench import Bench
from lab.errors import LabError, one_of
from lab.matrix import Cell, Plan
from lab.paper import snapshots
from lab.paper.catalogue import PAGES
from lab.paper.page import Page, Scale
from lab.records import Store, read_lines
from lab.report import write_report

RESULTS, ANNOUNCEMENTS, SNAPSHOTS = "paper.jsonl", "announcements.jsonl", "snapshots.jsonl"
# Filling the structure, starting and ending the program.
OVERHEAD_SECONDS = 0.5
ANNOUNCEMENT_SECONDS = 40
SNAPSHOT_SECONDS = 60
UPDATES = "3200000"  # beside the snapshot that is held


@dataclass(frozen=True)
class Wishes:
    """What the command line asks for; None: as the pages have it."""

    quick: bool = False
    seconds: float | None = None
    trials: int | None = None
    threads: tuple[int, ...] = ()
    keys: int | None = None
    only: tuple[str, ...] = ()
    seed: int = 1


def scale_of(bench: Bench, wishes: Wishes, cores: int) -> Scale:
    catalogue = bench.catalogue()
    each_core = (1, 4) if wishes.quick else (1, 2, 4, 8)
    swept = {1, *(cores * times for times in each_core)}
    return Scale(
        cores=cores,
        threads=wishes.threads or tuple(sorted(swept)),
        keys=wishes.keys or 200_000,
        seconds=wishes.seconds or (0.3 if wishes.quick else 1.0),
        allocators=tuple(allocators.installed()),
        combinations=catalogue.combinations,
        rivals=catalogue.rivals,
        storages=catalogue.storages,
    )


def chosen(only: tuple[str, ...]) -> list[Page]:
    """Pages by key; 'figure' or 'experiment-1' names all pages whose key begins so."""
    if not only:
        return list(PAGES)
    for name in only:
        if not any(_named(page, name) for page in PAGES):
            raise one_of("page", name, [page.key for page in PAGES])
    return [page for page in PAGES if any(_named(page, name) for name in only)]


def _named(page: Page, name: str) -> bool:
    return page.key == name or page.key.startswith(f"{name}-")


def plan_of(pages: list[Page], scale: Scale, wishes: Wishes) -> Plan:
    """The cells of all pages, each once; what the program cannot run is left out."""
    able = scale.combinations | set(scale.rivals)
    cells: dict[Cell, None] = {}
    for page in pages:
        cells.update(dict.fromkeys(c for c in page.cells(scale) if c.combination() in able))
    trials = wishes.trials or (2 if wishes.quick else 3)
    return Plan(list(cells), trials, wishes.seed)


def expected_seconds(plan: Plan, pages: list[Page], scale: Scale) -> float:
    once = sum(cell.seconds + OVERHEAD_SECONDS for cell in plan.cells)
    counted = ANNOUNCEMENT_SECONDS if any(p.key == "announcements" for p in pages) else 0
    held = SNAPSHOT_SECONDS if any(p.key == "held-snapshot" for p in pages) else 0
    return once * plan.trials + counted + held + sum(page.takes(scale) for page in pages)


def minutes(seconds: float) -> str:
    return f"{math.ceil(seconds / 60)} minutes" if seconds > 90 else f"{seconds:.0f} seconds"


def run(
    bench: Bench, out: Path, pages: list[Page], plan: Plan, scale: Scale, console: Console
) -> bool:
    """Runs the plan, or the rest of it, and writes the page; False when trials failed."""
    console.print(
        f"[bold]{len(pages)} pages[/]: {len(plan.cells)} cells, {plan.trials} trials each, about "
        f"{minutes(expected_seconds(plan, pages, scale))}; stop it when you like, it goes on"
    )
    out.mkdir(parents=True, exist_ok=True)
    results = out / RESULTS
    outcome = sweep.Outcome()
    if plan.cells:
        with Store(results) as store:
            outcome = sweep.run(plan, bench, store, sweep.Limits(), console, "the paper")
        sweep.summarise(outcome, lambda text: console.print(text, highlight=False))
    keys = {page.key for page in pages}
    if "announcements" in keys:
        measure_once(bench, out / ANNOUNCEMENTS, "announcements", bench.announcements, console)
    if "held-snapshot" in keys:
        measure = partial(_held_snapshots, bench)
        measure_once(bench, out / SNAPSHOTS, "held snapshots", measure, console)
    for page in pages:
        if commands := page.commands(scale):
            measure = partial(_of_page, bench, page.key, commands, page.peers(scale))
            measure_once(bench, _file_of(out, page), page.name, measure, console)
    return not outcome.failed


def report(out: Path, title: str) -> Path:
    page = out / "report.html"
    if not (out / RESULTS).is_file():
        raise LabError(f"no results in {out}; run './dev lab paper' without --only first")
    files = [out / RESULTS, out / ANNOUNCEMENTS, out / SNAPSHOTS]
    paths = [path for path in (*files, *(_file_of(out, page) for page in PAGES)) if path.is_file()]
    write_report(paths, page, title, only_paper=True)
    return page


def _held_snapshots(bench: Bench, target: Path, timeout: float) -> str:
    return bench.snapshots(target, timeout, *snapshots.ARGUMENTS, "--updates", UPDATES)


def _file_of(out: Path, page: Page) -> Path:
    return out / f"page-{page.key}.jsonl"


def _of_page(bench: Bench, key: str, commands: list[tuple[str, ...]], peers: tuple[str, ...],
             target: Path, timeout: float) -> str:  # fmt: skip
    """Runs the commands of one page, and other engines with the arguments `peers`, into `target`,
    each record marked with the page's key; empty, or why there is no such file."""
    records = []
    part = target.with_name(target.name + ".part")
    runs = [(bench.records, command) for command in commands]
    if peers:
        runs.append((bench.peers, peers))
    for measure, command in runs:
        missed = measure(list(command), part, timeout)
        if missed:
            return f"{' '.join(command)}: {missed}"
        records += [{**record, "lab": {"page": key}} for record in read_lines(part)]
        part.unlink()
    target.write_text("".join(json.dumps(record) + "\n" for record in records))
    return ""


def measure_once(bench: Bench, target: Path, what: str, measure, console: Console) -> None:
    """What is no trial, once for each build of the program."""
    build = bench.fingerprint()
    mark = target.with_suffix(".build")
    if target.is_file() and mark.is_file() and mark.read_text() == build:
        return
    console.print(f"measuring {what} ...")
    missed = measure(target, timeout=600)
    if missed:
        console.print(f"[yellow]failed:[/] {what}: {missed}", highlight=False)
    elif read_lines(target):
        mark.write_text(build)
