# SPDX-License-Identifier: Apache-2.0
"""Runs the trials of a plan, interleaved, resumable and within a time limit.

Trials go round by round; in each round every cell runs once, in an order shuffled by the seed.
So a machine that is slow for a minute is slow for all cells, not for one.
"""

from __future__ import annotations

import os
import platform
import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from lab.bench import Bench
from lab.errors import LabError
from lab.matrix import Cell, Plan
from lab.paper.tries import Tries
from lab.records import Store

# A benchmark that fails this often in a row is broken, not unlucky.
FAILURES_IN_A_ROW = 5


@dataclass
class Outcome:
    done: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    out_of_time: int = 0


def together(*parts: Outcome) -> Outcome:
    return Outcome(
        sum(part.done for part in parts),
        sum(part.skipped for part in parts),
        [told for part in parts for told in part.failed],
        sum(part.out_of_time for part in parts),
    )


def machine() -> str:
    """What tells two machines apart, as far as measurements are concerned."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    model = next((line.split(":", 1)[1].strip() for line in text.splitlines()
                  if line.startswith("model name")), platform.machine())  # fmt: skip
    return f"{model}, {os.cpu_count()} processors, {platform.node()}"


@dataclass
class Limits:
    """When to give up on one trial, and when to start no more of them."""

    trial_timeout: float | None = None
    deadline: float | None = None
    first_round_deadline: float | None = None

    def for_trial(self, cell: Cell) -> float:
        # Filling the structure and, under a stalled reader, freeing it all come on top.
        return self.trial_timeout or 60 + 10 * cell.seconds

    def allows(self, round_number: int, expected: float) -> bool:
        limit = self.deadline
        if round_number == 0 and self.first_round_deadline is not None:
            limit = self.first_round_deadline
        return limit is None or time.monotonic() + expected <= limit


def order(cells: list[Cell], seed: int, round_number: int) -> list[Cell]:
    shuffled = list(cells)
    random.Random(f"{seed}/{round_number}").shuffle(shuffled)
    return shuffled


def run(
    plan: Plan,
    bench: Bench,
    store: Store,
    limits: Limits,
    console: Console,
    title: str = "sweep",
    tries: Tries | None = None,
) -> Outcome:
    """With `tries` each failure is counted there, and what failed too often is left alone."""
    build = bench.fingerprint()
    store.require_build(build)
    if not store.records:
        store.append({"kind": "schemes", "schemes": bench.catalogue().about})
    finished = store.finished()
    todo = [
        (round_number, cell)
        for round_number in range(plan.trials)
        for cell in order(plan.cells, plan.seed, round_number)
    ]
    outcome = Outcome(skipped=sum((c.hash(), r) in finished for r, c in todo))
    with _progress(console) as progress:
        task = progress.add_task(title, total=len(todo), completed=outcome.skipped, cell="")
        runner = _Runner(plan, bench, store, limits, build, outcome, tries)
        for round_number, cell in todo:
            if (cell.hash(), round_number) in finished:
                continue
            if tries and not tries.allows(cell.hash()):
                progress.advance(task)
                continue
            progress.update(task, cell=f"[dim]{cell.label()}[/]")
            failure = runner.step(round_number, cell)
            if failure:
                progress.console.print(f"[yellow]failed:[/] {failure}", highlight=False)
            progress.advance(task)
        progress.update(task, cell="")
    return outcome


class OthersWatch:
    """How much of the machine went to other programs while a trial ran, in cores."""

    def __init__(self):
        self.busy, self.own = _busy_seconds(), _children_seconds()

    def cores(self, elapsed: float) -> float | None:
        busy = _busy_seconds()
        if busy is None or self.busy is None or elapsed <= 0:
            return None
        others = (busy - self.busy) - (_children_seconds() - self.own)
        return round(max(0.0, others / elapsed), 2)


def _busy_seconds() -> float | None:
    try:
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class _Runner:
    def __init__(self, plan, bench, store, limits, build, outcome, tries):
        self.plan, self.bench, self.store, self.tries = plan, bench, store, tries
        self.limits, self.build, self.outcome = limits, build, outcome
        self.in_a_row = 0
        self.overhead = 0.5

    def step(self, round_number: int, cell: Cell) -> str:
        """One trial; returns what to tell the user when it failed."""
        if not self.limits.allows(round_number, cell.seconds + self.overhead):
            self.outcome.out_of_time += 1
            return ""
        seed = self.plan.seed + round_number
        name = f"{cell.hash()}-{round_number}"
        trace = self.store.traces / f"{name}.jsonl.gz" if cell.trace else None
        others = OthersWatch()
        begin = time.monotonic()
        trial = self.bench.trial(cell, seed, self.limits.for_trial(cell), trace)
        spent = time.monotonic() - begin
        self.overhead += 0.3 * (max(0.0, spent - cell.seconds) - self.overhead)
        lab = {
            "cell": cell.hash(),
            "round": round_number,
            "build": self.build,
            "machine": machine(),
            "configuration": cell.configuration(),
            "command": trial.command,
            "took_s": round(spent, 3),
            "others_cores": others.cores(spent),
        }
        if trial.record is None:
            return self._failed(cell, lab, trial.failure)
        if trace is not None:
            lab["trace"] = str(trace.relative_to(self.store.path.parent))
        self.store.append({**trial.record, "lab": lab})
        self.outcome.done += 1
        self.in_a_row = 0
        return ""

    def _failed(self, cell: Cell, lab: dict, failure: str) -> str:
        told = f"{cell.label()}: {failure}"
        self.store.note_failure({**lab, "failure": failure})
        self.outcome.failed.append(told)
        if self.tries:
            self.tries.failed(cell.hash())
            return told
        self.in_a_row += 1
        if self.in_a_row >= FAILURES_IN_A_ROW:
            raise LabError(f"{self.in_a_row} trials failed in a row, the last one: {told}")
        return told


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[cell]}"),
        console=console,
    )


def summarise(outcome: Outcome, say: Callable[[str], None]) -> None:
    say(
        f"{outcome.done} trials run, {outcome.skipped} were there already, "
        f"{len(outcome.failed)} failed"
        + (f", {outcome.out_of_time} left out for lack of time" if outcome.out_of_time else "")
    )
