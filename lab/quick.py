# SPDX-License-Identifier: Apache-2.0
"""A quick look at this machine, within ten minutes."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab import allocators, layers, look, stats, sweep, words
from lab.bench import Bench
from lab.errors import LabError
from lab.matrix import Cell, Plan
from lab.paper import snapshots
from lab.records import Store, load
from lab.report import write_report

# What is kept back for reading the results and writing the page.
REPORT_SECONDS = 30
ANNOUNCEMENT_SECONDS = 40
# A shorter one shows the schemes only.
LAYERS_FROM_SECONDS = 120
LINES = [
    ("none", "batch"), ("token", "amortized"), ("token", "batch"), ("token_naive", "batch"),
    ("debra", "amortized"), ("debra", "batch"), ("neutralization_plus", "batch"),
    ("token_periodic", "amortized"),  # the paper's, of which its claims are
]  # fmt: skip
LIST_LINES = [("none", "batch"), ("token", "amortized"), ("hazard_pointers", "batch"),
              ("hazard_pointers", "amortized")]  # fmt: skip
TIMELINES = [("token_naive", "batch"), ("debra", "batch"), ("debra", "amortized"),
             ("token", "batch"), ("token", "amortized")]  # fmt: skip
STALLED = [
    ("abtree", "robust_token", "amortized"),
    ("abtree", "token", "amortized"), ("abtree", "debra", "amortized"),
    ("abtree", "neutralization", "batch"), ("abtree", "neutralization_plus", "batch"),
    ("list", "hazard_pointers", "batch"),
]  # fmt: skip
TREE_KEYS, LIST_KEYS = 200_000, 500
# The batch size at which the paper compares schemes.
LARGE_BATCH = 32_768
GUARDS, ANNOUNCEMENTS = "guards.jsonl", "announcements.jsonl"
SNAPSHOTS = "snapshots.jsonl"
# For the pages of the paper's evaluation: other trees, and events to count.
TREES = ("avl", "external_bst")
TREE_LINES = [("none", "batch"), ("debra", "batch"), ("token", "amortized")]


@dataclass
class Stage:
    """One question, its cells, and its share of the time."""

    name: str
    title: str
    cells: list[Cell]
    trials: int
    share: float


def _cell(structure: str, series: tuple[str, str], threads: int, allocator: str, **more) -> Cell:
    keys = LIST_KEYS if structure == "list" else TREE_KEYS
    values = {"keys": keys, "update": 100, "seconds": 0.5, "allocator": allocator, **more}
    return Cell(structure, *series, threads, **values)


def stages(allocator: str, found: list[str]) -> list[Stage]:
    tree = [_cell("abtree", s, t, allocator) for s in LINES for t in (1, 2, 4, 8)]
    lists = [_cell("list", s, t, allocator) for s in LIST_LINES for t in (1, 2, 4)]
    stalled = [
        _cell(structure, (scheme, release), 4, allocator, seconds=1.0, stall=stall)
        for structure, scheme, release in STALLED
        for stall in (True, False)
    ]
    pauses = [
        _cell("abtree", (scheme, release), 2, allocator, seconds=1.0, batch=LARGE_BATCH)
        for scheme in ("token", "debra", "neutralization_plus")
        for release in ("batch", "amortized", "pooled")
    ]
    traced = [_cell("abtree", s, 4, allocator, seconds=1.0, trace=True) for s in TIMELINES]
    trees = [_cell(tree, s, t, allocator) for tree in TREES for s in TREE_LINES for t in (1, 2)]
    counted = [
        _cell("abtree", ("debra", release), threads, allocator, batch=batch, count=True)
        for release, threads, batch in (
            ("batch", 2, LARGE_BATCH), ("amortized", 2, LARGE_BATCH),
            ("batch", 2, None), ("batch", 8, None),
        )
    ]  # fmt: skip
    allocs = [
        _cell("abtree", ("debra", release), 2, name)
        for name in found
        for release in ("batch", "amortized")
    ]
    # What matters most comes first, so that a slow machine still answers it.
    made = [
        Stage("threads", "abtree, threads", tree, 5, 0.28),
        Stage("timelines", "timelines", traced, 1, 0.05),
        Stage("stall", "a stalled reader", stalled, 4, 0.18),
        Stage("pauses", "pauses", pauses, 5, 0.16),
        Stage("counted", "counted events", counted, 4, 0.03),
        Stage("trees", "other trees", trees, 5, 0.08),
        Stage("list", "list, threads", lists, 5, 0.1),
        Stage("allocators", "allocators", allocs if len(found) > 1 else [], 5, 0.12),
    ]
    return [stage for stage in made if stage.cells]


def run(bench: Bench, out: Path, budget: float, console: Console) -> bool:
    """Runs all stages and writes the page; False when trials failed."""
    begin = time.monotonic()
    catalogue = bench.catalogue()
    found = allocators.installed()
    allocator = "jemalloc" if "jemalloc" in found else "glibc"
    console.print(f"[bold]A quick look[/]: at most {budget / 60:.1f} minutes, on {allocator}")
    missing = [name for name in allocators.ALLOCATORS if name not in found]
    if missing:
        packages = " ".join(allocators.ALLOCATORS[name].package for name in missing)
        console.print(f"[dim]not installed: {', '.join(missing)} (apt-get install {packages})[/]")
    if out.is_dir():
        _clear(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"cannot write to {out}: {error.strerror}") from error
    sides = _side_measurements(bench, out, budget, console)
    end = begin + budget - min(REPORT_SECONDS, budget / 4)
    plan = []
    for stage in stages(allocator, found):
        stage.cells = [c for c in stage.cells if catalogue.supports(*c.combination())]
        plan += [stage] if stage.cells else []
    failed, results = _run_stages(bench, plan, out, end, console)
    if not results:
        raise LabError("no trial came to an end; there is nothing to report")
    page = out / "report.html"
    write_report([*results, *sides], page, "Spolia on this machine")
    _print_table(results, console)
    minutes, seconds = divmod(int(time.monotonic() - begin), 60)
    console.print(f"\nDone in {minutes} min {seconds} s. The report:")
    # Printed as it is: a link that is wrapped cannot be opened.
    console.print(f"  {page.resolve().as_uri()}", soft_wrap=True, highlight=False)
    return not failed


def _side_measurements(bench: Bench, out: Path, budget: float, console: Console) -> list[Path]:
    """What is not a trial: the cost of guards, and, given time, announcements counted and
    snapshots held."""
    missed = {GUARDS: bench.guards(out / GUARDS, timeout=30)}
    if budget >= 4 * ANNOUNCEMENT_SECONDS:
        few = ("--threads", "2,48", "--operations", "34000")
        target = out / ANNOUNCEMENTS
        missed[ANNOUNCEMENTS] = bench.announcements(target, ANNOUNCEMENT_SECONDS, *few)
        shorter = (*snapshots.ARGUMENTS, "--updates", "400000")
        missed[SNAPSHOTS] = bench.snapshots(out / SNAPSHOTS, ANNOUNCEMENT_SECONDS, *shorter)
    if budget >= LAYERS_FROM_SECONDS:
        console.print("shared pointers, read-log-update and transactions ...")
        missed |= dict.fromkeys((name for name, _ in layers.files()), "")
        missed |= layers.measure(bench, out)
    for name, why in missed.items():
        if why:
            console.print(f"[yellow]failed:[/] {Path(name).stem}: {why}", highlight=False)
    return [out / name for name, why in missed.items() if not why]


def _run_stages(bench, plan, out: Path, end: float, console) -> tuple[list[str], list[Path]]:
    """Every stage within its share; then what the first had no time for, in time left over."""
    failed, results, left_out = [], [], {}
    for place, stage in enumerate([*plan, *plan[:1]]):
        again = place == len(plan)
        if again and not left_out.get(stage.name):
            continue
        path = out / f"{stage.name}.jsonl"
        outcome = _run_stage(bench, stage, path, plan[place:] or [stage], end, console)
        failed += outcome.failed
        left_out[stage.name] = outcome.out_of_time
        if outcome.done and path not in results:
            results.append(path)
    if any(left_out.values()):
        console.print(f"[dim]{sum(left_out.values())} trials left out: no time for them[/]")
    return failed, results


def _clear(out: Path) -> None:
    """Removes the results of an earlier run: another build or a half-done run would mix in."""
    for name in (GUARDS, ANNOUNCEMENTS, SNAPSHOTS, *(name for name, _ in layers.files())):
        (out / name).unlink(missing_ok=True)
    for stage in stages("glibc", ["glibc", "jemalloc"]):
        for name in (f"{stage.name}.jsonl", f"{stage.name}.failures.jsonl"):
            (out / name).unlink(missing_ok=True)
        shutil.rmtree(out / f"{stage.name}.traces", ignore_errors=True)


def _run_stage(bench, stage, path, left, end, console) -> sweep.Outcome:
    now = time.monotonic()
    share = stage.share / sum(other.share for other in left)
    limits = sweep.Limits(
        trial_timeout=30, deadline=now + (end - now) * share, first_round_deadline=end
    )
    plan = Plan(stage.cells, stage.trials)
    with Store(path) as store:
        return sweep.run(plan, bench, store, limits, console, f"{stage.title:<17}")


def _print_table(results: list[Path], console: Console) -> None:
    configs = stats.group(load(results))
    cores = next(iter(configs)).trials[0].record.get("machine", {}).get("cores")
    ref = words.reference(configs, cores)
    if ref is None:
        return
    table = Table(title=f"\n{ref.where()}", title_justify="left", box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("speed", "peak memory", "peak garbage", "pause 99.9 %", "longest pause"):
        table.add_column(name, justify="right")
    for config in sorted(ref.at(), key=lambda c: -c.ops_per_s.median):
        formats = (("ops_per_s", look.rate), ("peak_rss_bytes", look.size),
                   ("garbage_peak", look.count), ("free_ns_p999", look.duration),
                   ("free_ns_max", look.duration))  # fmt: skip
        spreads = [(getattr(config, name), text) for name, text in formats]
        style = "bold" if config.series == stats.DEFAULT else ""
        cells = [text(spread.median) if spread else "–" for spread, text in spreads]
        table.add_row(look.series_title(config.series), *cells, style=style)
    console.print(table)
