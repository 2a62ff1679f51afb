# SPDX-License-Identifier: Apache-2.0
"""Reports at a snapshot from before all rows were updated: TPC-H's queries 1 and 6, and a search in
texts, in the store by each version storage, and in SQLite and DuckDB beside."""

from __future__ import annotations

from dataclasses import replace

from lab import look
from lab.paper import arms, blocks, factors
from lab.paper.found import Found
from lab.paper.held import DEFAULT, cost_chart, dear_claim, dearer, of
from lab.paper.page import PEERS, Page, Scale, Shown, one_trial
from lab.stats import Comparison, compare
from lab.verdict import BOUND, Claim

REPORTS = {"q1": "TPC-H query 1", "q6": "TPC-H query 6", "text": "A word in texts"}
WAYS = {**REPORTS, **{f"{key}_rows": f"{name}, by for_each" for key, name in REPORTS.items()}}
ROWS, AGE, SECONDS = 100_000, 10, 0.5
# So many times as much as at a new snapshot a report of TPC-H may cost; and of what SQLite and
# DuckDB take at theirs, so much.
DEARER = 3
BESIDE = {"sqlite": 1, "duckdb": 2}


def _commands(scale: Scale) -> list[tuple[str, ...]]:
    size = ("--rows", str(ROWS), "--age", str(AGE), "--seconds", str(SECONDS))
    return [("reports", *size, "--threads", "1"), (PEERS, *size)]


def beside(records: list[dict], report: str, engine: str) -> Comparison | None:
    """What a row costs the default storage at the old snapshot, of what it costs the engine."""
    return compare(of(records, f"old_{report}_ns", versions=DEFAULT),
                   of(records, f"old_{report}_ns", versions=engine))  # fmt: skip


def _beside_claim(records: list[dict], report: str, engine: str, most: float) -> Claim:
    """The default storage takes so many times as long as the engine at most."""
    theirs, ours = (replace(arms.arm(records, f"{name}: {REPORTS[report]}", f"old_{report}_ns",
                                     versions=name), of=name)
                    for name in (engine, DEFAULT))  # fmt: skip
    return arms.claim(theirs, ours, "at the old snapshot", 1 / most, BOUND, factors.PEER)


def _table(records: list[dict], way: str, names: list[str]) -> dict | None:
    rows = []
    for name in names:
        if c := dearer(records, way, name):
            costs = (of(records, f"{age}_{way}_ns", versions=name) for age in ("new", "old"))
            rows.append([name, *(look.duration(cost.median) for cost in costs if cost),
                         look.times(c.ratio)])  # fmt: skip
    head = ["", "at a new snapshot", "at the old one", "ratio"]
    return blocks.table(head, rows, f"{WAYS[way]}, a row") if rows else None


def _show(found: Found) -> Shown | None:
    every = found.of_page("old-reports")
    records = [r for r in every if r.get("old_q1_ns")]
    names = list(dict.fromkeys(r["versions"] for r in records))
    known = {way: c for way in WAYS if (c := dearer(records, way, DEFAULT))}
    if not known:
        return None
    claims = [dear_claim(every, way, WAYS[way], DEARER)
              for way in WAYS if not way.startswith("text")]  # fmt: skip
    told = "; ".join(f"{WAYS[way]} {look.times(c.ratio)}" for way, c in known.items())
    here = f"The default storage, at the old snapshot against a new one: {told}."
    for engine, most in BESIDE.items():
        rivals = {r: c for r in REPORTS if (c := beside(records, r, engine))}
        claims += [_beside_claim(every, r, engine, most) for r in REPORTS]
        if rivals:
            told = "; ".join(f"{REPORTS[r]} {look.times(c.ratio)}" for r, c in rivals.items())
            here += f" At the old one, of what {engine} takes there: {told}."
    drawn = (cost_chart(records, key, name, names, "old") for key, name in REPORTS.items())
    charts = [one for one in drawn if one]
    tables = [made for way in WAYS if (made := _table(records, way, names))]
    return Shown([*charts, *tables], here, arms.measured(claims))


PAGES = [
    Page(
        key="old-reports", name="An old report", title="What reports cost at an old snapshot",
        paper="Of no paper: how old a snapshot is does not decide what a report costs. Asked is "
              f"that after {AGE} updates a row, TPC-H's queries 1 and 6 cost at most {DEARER} "
              "times what they cost at a new snapshot, and each report at most what it costs "
              "SQLite (WAL), and twice what it costs DuckDB, at a snapshot as old.",
        cells=one_trial,
        show=_show,
        limits="One thread. The store's queries sum columns, not products of them: queries 1 and 6 "
               "group by the discount, too, and the products are made of the groups. SQLite and "
               "DuckDB have the products in their SQL. DuckDB was updated in bulk, and is left out "
               "where its Python package is not installed.",
        commands=_commands,
    ),
]  # fmt: skip
