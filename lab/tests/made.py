# SPDX-License-Identifier: Apache-2.0
"""Records of every page, by the stand-in for the program."""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from types import SimpleNamespace

from lab.paper import page
from lab.paper.evaluation import TEN
from lab.paper.found import Found
from lab.records import Located
from lab.tests import fake_bench

TRIALS = 6
# The stand-in's, and all schemes that the papers compare in trees.
COMBINATIONS = {*fake_bench.COMBINATIONS, *product(("abtree", "external_bst"), TEN,
                                                   ("batch", "amortized"))}  # fmt: skip
SCALE = page.Scale(
    2, (1, 2, 8), 20_000, 0.3, ("glibc", "jemalloc", "mimalloc", "tcmalloc"),
    frozenset(COMBINATIONS), tuple(fake_bench.RIVALS), ("steam",),
)  # fmt: skip


def of_page(entry, folder):
    """What the stand-in gives for each page alone."""
    trials, records = [], []
    able = SCALE.combinations | set(SCALE.rivals)
    for cell in (c for c in entry.cells(SCALE) if c.combination() in able):
        for number in range(TRIALS):
            options = Namespace(**{**cell.configuration(), "count": cell.count}, trials=2,
                                seed=number, json="-")  # fmt: skip
            made = fake_bench.Model(options)
            made.allocator = cell.allocator
            lab = {"cell": cell.hash(), "round": number, "configuration": cell.configuration()}
            if cell.trace and (number == 0 or cell.release == "batch"):
                name = f"{cell.hash()}-{number}.jsonl"
                lab["trace"] = fake_bench.keep_trace(made, folder / name)
            elif cell.trace:
                lab["trace"] = "gone"
            trials.append(Located({**made.record(number), "lab": lab}, folder / "paper.jsonl"))
    made = [of_command(command) for command in entry.commands(SCALE)]
    for number in range(TRIALS):
        records += [{**r, "trial": number, "lab": {"page": entry.key}}
                    for some in made for r in some]  # fmt: skip
    return SimpleNamespace(trials=trials, records=records)


def of_command(command) -> list[dict]:
    """One trial's records."""
    if command[0] == page.PEERS:
        return [{"kind": "reports", "threads": 2, **fake_bench.lineitem_records(name, 1)[0]}
                for name in ("sqlite", "duckdb")]  # fmt: skip
    return [r for r in fake_bench.records_of(command) if not r.get("trial")]


def shown(entry, data, numbered: dict | None = None):
    """The page over copies of the records, each with a number to know it by."""
    trials = [Located(dict(t.record), t.path) for t in data.trials]
    records = [dict(r) for r in data.records]
    for number, record in enumerate([t.record for t in trials] + records):
        record["lab"] = {**record["lab"], "number": number}
        if numbered is not None:
            numbered[number] = record
    return entry, trials, records


def number_of(record: dict) -> int:
    return record["lab"]["number"]


def view(entry, trials, records):
    kinds = {kind: [r for r in records if r.get("kind") == kind]
             for kind in ("announcements", "snapshots", "counted")}  # fmt: skip
    rest = [r for r in records if r.get("kind") not in kinds]
    return entry.show(Found(trials, kinds["announcements"], kinds["snapshots"], rest,
                            kinds["counted"]))  # fmt: skip
