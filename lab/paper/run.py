# SPDX-License-Identifier: Apache-2.0
"""Runs what the pages need, round by round and resumable, and writes the report.

What was measured is kept by program, machine and exact command: each program on each machine has a
results file of its own, in which a cell's or a command's name is made of all that it was told. So a
changed option measures anew, and an old one finds again what it had."""

from __future__ import annotations

import hashlib
import json
import math
import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from rich.console import Console

from lab import allocators, look, peers, sweep
from lab.bench import Bench, Catalogue
from lab.errors import LabError, one_of
from lab.matrix import Cell, Plan
from lab.paper import origins, papers, pointers, sectioned, twins
from lab.paper.catalogue import PAGES
from lab.paper.page import PEERS, Page, Scale
from lab.paper.tries import Tries
from lab.records import Store, impossible, open_failures, read_lines
from lab.report import write_report

MANIFEST = "pages.json"
# Sub-commands that have no number of trials, and no seed.
WITHOUT_TRIALS, WITHOUT_SEED = ("announcements",), ("announcements", "counted", PEERS)
# Sub-commands that measure several in turn, in an order of their own in each round.
ORDERED = ("counted", "snapshots", "ycsb", "tpcc", "held", "reports", PEERS)
# Sub-commands whose records tell how much was done.
COMPARED = ("rlu", "ycsb", "tpcc", "snapshots", "counted", "held")
COMMAND_SECONDS = 900  # after which one command is given up
MINUTES, FULL_MINUTES = 90, 480


_OWN = ("abtree", "avl", "external_bst", "list")
_RELEASES = ("batch", "amortized", "pooled")
EVERYTHING = Catalogue(
    _OWN, tuple(look.SCHEMES), _RELEASES,
    frozenset(product(_OWN, look.SCHEMES, _RELEASES)), {},
)  # fmt: skip


@dataclass(frozen=True)
class Wishes:
    """What the command line asks for; None: as the pages have it."""

    quick: bool = False
    full: bool = False
    seconds: float | None = None
    trials: int | None = None
    threads: tuple[int, ...] = ()
    keys: int | None = None
    only: tuple[str, ...] = ()
    seed: int = 1
    minutes: float | None = None

    @property
    def rounds(self) -> int:
        return self.trials or (10 if self.full else 5)

    @property
    def budget_s(self) -> float:
        usual = MINUTES / 2 if self.quick else FULL_MINUTES if self.full else MINUTES
        return 60 * (self.minutes or usual)


def scale_of(bench: Bench | None, wishes: Wishes, cores: int) -> Scale:
    """Without a program, as if it could run each scheme in each structure."""
    catalogue = bench.catalogue() if bench else EVERYTHING
    each_core = (1, 4) if wishes.quick else (1, 2, 4, 8) if wishes.full else (1, 2, 4)
    swept = {1, *(cores * times for times in each_core)}
    usual = 0.3 if wishes.quick else 1.0 if wishes.full else 0.5
    return Scale(
        cores=cores,
        threads=wishes.threads or tuple(sorted(swept)),
        keys=wishes.keys or 200_000,
        seconds=wishes.seconds or usual,
        allocators=tuple(allocators.installed()),
        combinations=catalogue.combinations,
        rivals=catalogue.rivals,
        storages=catalogue.storages,
        paper=wishes.full,
        lacking=lacking(catalogue),
    )


def lacking(catalogue: Catalogue) -> dict[str, str]:
    """What pages are about and is not there: by name, how that is told."""
    there = allocators.installed()
    gone = {name: f"{name} is not installed here" for name in allocators.ALLOCATORS
            if name not in there}  # fmt: skip
    if peers.duckdb is None:
        gone["duckdb"] = "the Python package duckdb is not installed here"
    known = [name for ways in (catalogue.ways or {}).values() for name in ways]
    wanted = [name for ways in (*sectioned.WAYS.values(), sectioned.CACHE) for name in ways]
    absent = [name for name in wanted if catalogue.ways is not None and name not in known]
    absent += [name for name in pointers.TITLES
               if catalogue.pointers is not None and name not in catalogue.pointers]  # fmt: skip
    absent += [name for name, of in catalogue.foreign.items() if not of.get("built", True)]
    return gone | {name: f"the program was built without {name}" for name in absent}


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


@dataclass(frozen=True)
class Command:
    """One command of a page, run once in each round."""

    page: str
    words: tuple[str, ...]
    allocator: str
    twin: bool = False  # the same once more, to compare with

    def key(self) -> str:
        """Names it in a results file, by all that it is told."""
        text = json.dumps([self.page, self.allocator, *self.words, *["twin"] * self.twin])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def told(self, seed: int, number: int) -> list[str]:
        """In the round of that number."""
        words = list(self.words)
        if words[0] not in WITHOUT_TRIALS:
            words += ["--trials", "1"]
        if words[0] not in WITHOUT_SEED:
            words += ["--seed", str(seed)]
        if words[0] in ORDERED:
            words += ["--order", str(number)]
        return words

    def label(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class Work:
    """What a run is to measure: cells of sets and commands, each so many rounds."""

    cells: list[Cell]
    commands: list[Command]
    rounds: int
    seed: int
    budget_s: float = 60 * MINUTES
    pages: dict[str, list[str]] = field(default_factory=dict)  # of each page the keys of its own
    twins: list[tuple[str, str]] = field(default_factory=list)  # keys of identical code
    whole: bool = True  # all pages
    lacking: dict[str, str] = field(default_factory=dict)  # Scale.lacking

    def names(self) -> list[str]:
        return [one.key() for one in self.commands] + [cell.hash() for cell in self.cells]

    def labels(self) -> dict[str, str]:
        """Of each name what it is."""
        return {_name(one): one.label() for one in (*self.commands, *self.cells)}

    def passes(self) -> set[tuple[str, int]]:
        return {(name, number) for name in self.names() for number in range(self.rounds)}


def work_of(pages: Iterable[Page], scale: Scale, wishes: Wishes) -> Work:
    """The cells of all pages, each once, and their commands; what the program cannot run is left
    out."""
    able = scale.combinations | set(scale.rivals)
    cells: dict[Cell, None] = {}
    commands: list[Command] = []
    own: dict[str, list[str]] = {}
    for page in pages:
        some = [c for c in page.cells(scale) if c.combination() in able]
        mine = [Command(page.key, words, scale.allocator) for words in page.commands(scale)]
        cells.update(dict.fromkeys(some))
        commands += mine
        own[page.key] = list(dict.fromkeys([c.hash() for c in some] + [c.key() for c in mine]))
    again: list[Cell | Command] = [
        replace(one, twin=True)
        for one in twins.spread_over([*cells, *(c for c in commands if c.words[0] in COMPARED)])
    ]
    return Work(
        [*cells, *(one for one in again if isinstance(one, Cell))],
        [*commands, *(one for one in again if isinstance(one, Command))],
        wishes.rounds, wishes.seed, wishes.budget_s, own,
        [(_name(replace(one, twin=False)), _name(one)) for one in again],
        len(own) == len(PAGES), scale.lacking,
    )  # fmt: skip


def _name(one: Cell | Command) -> str:
    return one.hash() if isinstance(one, Cell) else one.key()


def results_of(bench: Bench, out: Path) -> Path:
    """The results of this program on this machine."""
    identity = f"{bench.fingerprint()} {sweep.machine()}"
    return out / f"paper-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsonl"


def passes(records: Iterable[dict]) -> dict[str, list[float]]:
    """Of each cell and command how long its passes took, in seconds."""
    took: dict[str, dict[int, float]] = {}
    for record in records:
        lab = record.get("lab") or {}
        if lab.get("took_s") is not None:
            took.setdefault(lab["cell"], {})[lab["round"]] = lab["took_s"]
    return {key: list(times.values()) for key, times in took.items()}


def expected_seconds(work: Work, records: Iterable[dict]) -> float | None:
    """What is left to do takes so long, by the passes that were measured; None: too few were."""
    known = passes(records)
    every = [sum(times) / len(times) for key in work.names() if (times := known.get(key))]
    if 2 * len(every) < len(work.names()):
        return None
    usual = sum(every) / len(every)
    left = 0.0
    for key in work.names():
        times = known.get(key, [])
        each = sum(times) / len(times) if times else usual
        left += max(0, work.rounds - len(times)) * each
    return left


def minutes(seconds: float) -> str:
    return f"{math.ceil(seconds / 60)} minutes" if seconds > 90 else f"{seconds:.0f} seconds"


def forecast(work: Work, records: Iterable[dict]) -> str:
    left = expected_seconds(work, records)
    size = f"{len(work.cells)} cells and {len(work.commands)} commands, {work.rounds} rounds"
    told = "how long a round takes is not known before the first"
    if left is not None:
        told = f"about {minutes(left)}, by the passes that were measured"
    return f"{size}, {told}; at most {minutes(work.budget_s)}"


def listing(pages: list[Page]) -> Iterator[str]:
    """The figures of each paper as they are printed: the page's key, or why there is none."""
    for paper in [*papers.PAPERS, None]:
        rows = [(origin.figures, f"{page.key:<27}{page.title}") for page in pages
                if (origin := origins.ORIGINS.get(page.key)) and origin.paper is paper]  # fmt: skip
        if paper is None:
            rows = [(page.name, f"{page.key:<27}{page.title}") for page in pages
                    if page.key not in origins.ORIGINS]  # fmt: skip
        if rows and paper and len(pages) == len(PAGES):
            rows += [(one.figures, f"{'-':<27}{one.what}. Not here: {one.why}"
                      + (f"; near it is {one.near}" if one.near else ""))
                     for one in origins.ELSEWHERE if one.paper is paper]  # fmt: skip
        if rows:
            yield f"{paper.name}, {paper.venue}: {paper.title}" if paper else "Of no paper"
        for figures, told in sorted(rows, key=lambda row: origins.by_number(row[0])):
            yield f"  {figures:<21}{told}"


def dry_run(pages: list[Page], bench: Bench | None, out: Path, wishes: Wishes,
            cores: int) -> Iterator[str]:  # fmt: skip
    """What would run, in lines: the pages with their figures, cells, commands, and how long."""
    work = work_of(pages, scale_of(bench, wishes, cores), wishes)
    if bench is None:
        yield "no program is built: cells are listed of all schemes in all structures"
    yield from listing(pages)
    for cell in work.cells:
        yield f"{cell.hash()}  {cell.label()}"
    for command in work.commands:
        yield f"{command.key()}  {command.label()}"
    if bench:
        known = [path for path in [results_of(bench, out)] if path.is_file()]
    else:  # a cell has the same name whatever program it is of
        known = sorted(out.glob("paper-*[0-9a-f].jsonl"), key=lambda path: path.stat().st_mtime)[
            -1:
        ]
    yield forecast(work, [record for path in known for record in read_lines(path)])


def run(bench: Bench, out: Path, work: Work, console: Console) -> bool:
    """Runs the work, or the rest of it, until its time is over; False when something failed."""
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + work.budget_s
    with Store(results_of(bench, out)) as store:
        console.print(f"[bold]{len(work.pages)} pages[/]: {forecast(work, store.records)}; stop it "
                      "when you like, it goes on", highlight=False)  # fmt: skip
        _write_manifest(out, store.path, work)
        tries = Tries({entry["cell"] for entry in open_failures([store.path])})
        there = work.passes() & store.finished()
        outcome = sweep.Outcome()
        rounds = [(n, f"round {n + 1} of {work.rounds}") for n in range(work.rounds)]
        for number, title in (*rounds, (work.rounds - 1, "what failed, once more")):
            left = work.passes() - store.finished()
            if not any(n <= number and tries.allows(name) for name, n in left):
                continue
            # Rounds after this one are not due yet.
            plan = Plan(work.cells, number + 1, work.seed)
            limits = sweep.Limits(deadline=end)
            outcome = sweep.together(
                outcome,
                sweep.run(plan, bench, store, limits, console, title, tries),
                _commands(bench, store, work, number, end, console, tries),
            )
        missed = left_out(work, store, tries)
        outcome.skipped = len(there)
        outcome.out_of_time = len(work.passes() - store.finished()) - missed.passes
        sweep.summarise(outcome, lambda text: console.print(text, highlight=False))
        for told in missed.told:
            console.print(f"[yellow]{told}[/]", highlight=False)
        alike = _alike(read_manifest(out), store.records)
        console.print(f"{alike.told()}", highlight=False)
    return not missed.told and not alike.fails


def _commands(bench: Bench, store: Store, work: Work, last: int, end: float, console: Console,
              tries: Tries) -> sweep.Outcome:  # fmt: skip
    """The rounds of commands up to that one, each in an order of its own; but for what is there."""
    finished, known = store.finished(), passes(store.records)
    outcome = sweep.Outcome()
    for number in range(last + 1):
        shuffled = list(work.commands)
        random.Random(f"{work.seed}/{number}").shuffle(shuffled)
        for command in shuffled:
            key = command.key()
            times = known.get(key, [0.0])
            if (key, number) in finished or not tries.allows(key):
                continue
            if time.monotonic() + sum(times) / len(times) > end:
                continue
            failure = _measure(bench, store, command, number, work.seed + number)
            if failure:
                tries.failed(key)
                told = f"{command.page}: {command.label()}: {failure}"
                outcome.failed.append(told)
                console.print(f"[yellow]failed:[/] {told}", highlight=False)
            else:
                outcome.done += 1
    return outcome


@dataclass(frozen=True)
class Missed:
    """What is left to do for another reason than the time: so many passes, and in words which cells
    and commands have no result, or one of their rounds failed."""

    passes: int
    told: list[str]


def left_out(work: Work, store: Store, tries: Tries) -> Missed:
    left = work.passes() - store.finished()
    failed = {entry["cell"]: entry for entry in open_failures([store.path])
              if (entry["cell"], entry["round"]) in left}  # fmt: skip
    own = {name for names in work.pages.values() for name in names}
    done = {name for name, _ in store.finished()}
    labels = work.labels()
    told = [f"no result: {labels[name]}: {_why(failed.get(name))}"
            for name in labels if name in own - done]  # fmt: skip
    told += [f"a round failed: {labels[name]}: {_why(failed[name])}"
             for name in labels if name in failed and name not in own - done]  # fmt: skip
    return Missed(sum(not tries.allows(name) for name, _ in left), told)


def _why(entry: dict | None) -> str:
    return str(entry.get("failure")) if entry else "the time was over"


def _measure(bench: Bench, store: Store, command: Command, number: int, seed: int) -> str:
    """Runs a command once and keeps its records, all of them or none; why there are none."""
    words = command.told(seed, number)
    begin = time.monotonic()
    others = sweep.OthersWatch()
    with tempfile.TemporaryDirectory(prefix="spolia-lab-") as folder:
        target = Path(folder) / "records.jsonl"
        if words[0] == PEERS:
            failure = bench.peers(words[1:], target, COMMAND_SECONDS)
        else:
            failure = bench.records(words, target, COMMAND_SECONDS, command.allocator)
        records = [] if failure else read_lines(target)
    took = time.monotonic() - begin
    lab = {"cell": command.key(), "round": number, "page": command.page, "command": words,
           "machine": sweep.machine(), "records": len(records), "build": bench.fingerprint(),
           "took_s": round(took, 3), "others_cores": others.cores(took)}  # fmt: skip
    if not failure:
        failure = impossible(records) if records else "the program wrote no record"
    wrong = {r["allocator"] for r in records if r.get("allocator")} - {command.allocator}
    if wrong:
        failure = f"asked for {command.allocator}, the program found {', '.join(wrong)}"
    if failure:
        store.note_failure({**lab, "failure": failure})
        return failure
    store.append(*({**record, "lab": lab} for record in records))
    return ""


def _write_manifest(out: Path, results: Path, work: Work) -> None:
    """Which results are shown, and of which page they are: this run's pages as it has them, the
    others as a run before it had them."""
    path = out / MANIFEST
    before = read_manifest(out)
    pages = before["pages"] if before.get("results") == results.name else {}
    made = {
        "results": results.name,
        "pages": {**pages, **work.pages},
        "names": {**(before.get("names", {}) if pages else {}), **work.labels()},
        "lacking": work.lacking,
        "twins": work.twins,
        "checks": [*_checks_left(before, work, pages), _check(work)],
    }
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(made))
    partial.replace(path)


def _check(work: Work) -> dict:
    """The run's own check: its pages and its pairs of identical code."""
    return {"pages": list(work.pages), "twins": work.twins, "whole": work.whole}


def _checks_left(before: dict, work: Work, pages: dict[str, list[str]]) -> list[dict]:
    """The checks of former runs, as long as there is a page that has figures of theirs. A page has
    new figures if it was asked for anew and none of its cells and commands is a former one."""
    anew = {key for key, own in work.pages.items() if not {*own} & {*pages.get(key, ())}}
    pairs = {tuple(pair) for pair in work.twins}
    left = []
    for check in _checks(before) if pages else ():
        again = {tuple(pair) for pair in check["twins"]} <= pairs and work.whole >= check["whole"]
        mine = [key for key in check["pages"] if key not in anew]
        if mine and not again:
            left.append({**check, "pages": mine})
    return left


def _checks(manifest: dict) -> list[dict]:
    """An older manifest has the last run's pairs alone, which then stand for all pages."""
    if "checks" in manifest or not manifest:
        return manifest.get("checks", [])
    return [{"pages": list(manifest["pages"]), "twins": manifest.get("twins", []),
             "whole": manifest.get("whole", True)}]  # fmt: skip


def _alike(manifest: dict, records: list[dict]) -> twins.Outcome:
    """What came of the pairs of identical code, of all runs that the pages are of."""
    return twins.worst(twins.compared(check["twins"], records, check["whole"])
                       for check in _checks(manifest))  # fmt: skip


def read_manifest(out: Path) -> dict:
    path = out / MANIFEST
    return json.loads(path.read_text()) if path.is_file() else {}


def report(out: Path, title: str) -> tuple[Path, list[str]]:
    """The page, and which of its parts could not be made."""
    page = out / "report.html"
    manifest = read_manifest(out)
    results = out / manifest.get("results", "none")
    if not results.is_file():
        raise LabError(f"no results in {out}; run './dev lab paper' first")
    alike = _alike(manifest, read_lines(results))
    return page, write_report(
        [results], page, title, of_pages=manifest["pages"], alike=alike,
        names=manifest.get("names"), lacking=manifest.get("lacking"),
    )  # fmt: skip
