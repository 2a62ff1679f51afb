# SPDX-License-Identifier: Apache-2.0
"""The store's own promises. A reader holds what it sees, and nothing else: workloads whose rows and
index entries end all the time, beside one reader that is held and without it, in turn. And a held
reader is not slow: what a row costs it, after all rows were updated, beside a new one."""

from __future__ import annotations

from lab import look
from lab.legends import parts as part_chips
from lab.paper import arms, blocks, factors
from lab.paper.found import Found
from lab.paper.page import Page, Scale, Shown, one_trial
from lab.stats import Comparison, Spread, compare, spread
from lab.verdict import BOUND, Claim

DEFAULT = "one-shot-evacuated"
WORKLOADS = {"queue": "A queue: the last row is inserted, the first is deleted",
             "touched": "An indexed column that is updated",
             "churn": "Keys that come and go"}  # fmt: skip
INDEXES = ("ordered", "hash")
WARM_UP = 0.2
# What a row costs: fields by the way to it; rows, of more than the caches have; updates a row.
WAYS = {"row": "A sum by a query", "each": "A sum by for_each", "find": "A row by its key"}
ROWS, AGE, REPORT_SECONDS = 100_000, 10, 0.5
# So many times as much a row of the held reader may cost.
DEARER = 10
# The least share of the speed that is kept, and how many times as long a short read may take.
KEPT, LONGER = 0.85, 3


def _commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        ("held", "--workload", workload, "--index", ",".join(INDEXES), "--hold", "0,1",
         "--threads", str(scale.full), "--warm-up", str(WARM_UP),
         "--seconds", f"{scale.seconds:g}")
        for workload in WORKLOADS
    ]  # fmt: skip


def of(records: list[dict], field: str, **values) -> Spread | None:
    return spread(
        r.get(field) for r in records if all(r.get(name) == v for name, v in values.items())
    )


def kept(records: list[dict], field: str, **values) -> Comparison | None:
    """A figure beside the held reader, of what it is without."""
    return compare(of(records, field, hold=1, **values), of(records, field, hold=0, **values))


def _cell(spread_of: Spread | None, text) -> str:
    return text(spread_of.median) if spread_of else "–"


def _table(records: list[dict], workload: str) -> dict | None:
    rows = []
    for index in INDEXES:
        for versions in dict.fromkeys(r["versions"] for r in records):
            mine = {"workload": workload, "index": index, "versions": versions}
            speed = kept(records, "tx_per_s", **mine)
            if speed is None:
                continue
            short = kept(records, "first_row_ns_p50", **mine)
            rows.append([
                f"{versions}, {index}", _cell(of(records, "tx_per_s", hold=0, **mine), look.rate),
                look.times(speed.ratio),
                *(_cell(of(records, "rss_growth_bytes", hold=hold, **mine), look.size)
                  for hold in (0, 1)),
                _cell(of(records, "first_row_ns_p50", hold=0, **mine), look.duration),
                look.times(short.ratio) if short else "–",
                _cell(of(records, "old_read_ns_p50", hold=1, **mine), look.duration),
            ])  # fmt: skip
    head = ["", "transactions/s alone", "beside the reader", "memory grew by", "beside the reader",
            "first row by the index", "beside the reader", "a read by it"]  # fmt: skip
    return blocks.table(head, rows, WORKLOADS[workload]) if rows else None


def _kept_claims(records: list[dict], **values) -> list[Claim]:
    """What is asked beside a held reader, of what is without."""
    beside, alone = (arms.where(records, hold=hold, **values) for hold in (1, 0))
    told = f"{values['workload']}, {values['index']}"
    speeds, reads = (
        [
            arms.arm(some, f"{what}, {name}", field)
            for some, name in ((beside, "beside the reader"), (alone, "alone"))
        ]
        for field, what in (("tx_per_s", "speed"), ("first_row_ns_p50", "first row by an index"))
    )
    return [
        arms.claim(*speeds, told, KEPT, BOUND, factors.HOLD),
        arms.claim(*reversed(reads), told, 1 / LONGER, BOUND, factors.HOLD),
    ]  # fmt: skip


def _show(found: Found) -> Shown | None:
    records = found.of_page("held-readers")
    each = [{"versions": DEFAULT, "workload": w, "index": i} for w in WORKLOADS for i in INDEXES]
    speeds = {f"{of['workload']}, {of['index']}": kept(records, "tx_per_s", **of) for of in each}
    known = {name: c for name, c in speeds.items() if c}
    if not known:
        return None
    reads = [c for of in each if (c := kept(records, "first_row_ns_p50", **of))]
    told = "; ".join(f"{name} {look.times(c.ratio)}" for name, c in known.items())
    here = f"The default storage, beside one held reader against without: {told}."
    if reads:
        longest = max(c.ratio for c in reads)
        here += f" The first row by an index takes at most {look.times(longest)} the time."
    tables = [made for workload in WORKLOADS if (made := _table(records, workload))]
    claims = [claim for of in each for claim in _kept_claims(records, **of)]
    return Shown(tables, here, claims)


def _report_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        ("held", "--workload", "report", "--index", "hash", "--hold", "1", "--threads", "1",
         "--rows", str(ROWS), "--age", str(AGE), "--warm-up", "0",
         "--seconds", str(REPORT_SECONDS))
    ]  # fmt: skip


def dearer(records: list[dict], way: str, versions: str) -> Comparison | None:
    """What a row costs at the old snapshot, of what it costs at a new one."""
    return compare(of(records, f"old_{way}_ns", versions=versions),
                   of(records, f"new_{way}_ns", versions=versions))  # fmt: skip


def dear_claim(records: list[dict], way: str, name: str, most: float) -> Claim:
    """A row of the default storage costs so many times as much at most at the old snapshot."""
    mine = arms.where(records, versions=DEFAULT)
    new, old = (arms.arm(mine, f"{name}, at the {told} snapshot", f"{age}_{way}_ns")
                for age, told in (("new", "new"), ("old", "old")))  # fmt: skip
    return arms.claim(new, old, DEFAULT, 1 / most, BOUND, factors.WITHIN)


def cost_chart(
    records: list[dict], way: str, name: str, engines: list[str], old_one: str
) -> dict | None:
    """What a row costs each of them at a new snapshot, and how much more at the old one, which the
    page calls so."""
    known = {}
    for versions in engines:
        old, new = (of(records, f"{age}_{way}_ns", versions=versions) for age in ("old", "new"))
        if old and new:
            known[versions] = (new.median, max(0.0, old.median - new.median))
    if not known:
        return None
    parts = [
        ("at a new snapshot", "@part-work", [new for new, _ in known.values()]),
        (f"more at the {old_one} one", "@part-free", [more for _, more in known.values()]),
    ]
    chart = blocks.bars(list(known), parts, f"{name}, processor time a row", look.duration)
    return blocks.charts_block(name, [chart], part_chips(parts))


def _report_table(records: list[dict], storages: list[str]) -> dict:
    rows = []
    for versions in storages:
        cells = [versions, _cell(of(records, "report_age", versions=versions), look.number)]
        for way in WAYS:
            c = dearer(records, way, versions)
            cells += [*(_cell(of(records, f"{age}_{way}_ns", versions=versions), look.duration)
                        for age in ("new", "old")), look.times(c.ratio) if c else "–"]  # fmt: skip
        rows.append(cells)
    head = ["", "updates a row", "sum by a query", "held", "ratio", "for_each", "held",
            "ratio", "by key", "held", "ratio"]  # fmt: skip
    return blocks.table(head, rows, "A row, at a new snapshot and at the held one")


def _show_reports(found: Found) -> Shown | None:
    every = found.of_page("old-rows")
    records = [r for r in every if r.get("old_row_ns")]
    storages = list(dict.fromkeys(r["versions"] for r in records))
    known = {name: c for way, name in WAYS.items() if (c := dearer(records, way, DEFAULT))}
    if not known:
        return None
    claims = [dear_claim(every, way, name, DEARER) for way, name in WAYS.items()]
    told = "; ".join(f"{name.lower()} {look.times(c.ratio)}" for name, c in known.items())
    here = f"The default storage, at the held snapshot against a new one: {told}."
    made = (cost_chart(records, way, WAYS[way], storages, "held") for way in WAYS)
    charts = [one for one in made if one]
    return Shown([*charts, _report_table(records, storages)], here, claims)


PAGES = [
    Page(
        key="held-readers", name="The store's promise", title="What a held reader costs all others",
        paper="Of no paper: a reader holds what it sees and nothing else, in rows, in index "
              f"entries and in time. Asked are {look.percent(KEPT)} of the throughput without the "
              f"reader, and at most {LONGER} times as long for the first row by an index.",
        cells=one_trial,
        show=_show,
        limits="Runs of seconds, where a report runs for an hour; whether memory goes on growing "
               "is to be seen in `over_time` of the records.",
        commands=_commands,
    ),
    Page(
        key="old-rows", name="An old row", title="What a row costs a held reader",
        paper="Of no paper: how old a snapshot is does not decide what a row costs it. Asked is "
              f"that after {AGE} updates a row, one costs the held reader at most {DEARER} times "
              "what it costs a new one, in a sum and by its key.",
        cells=one_trial,
        show=_show_reports,
        limits="One reader, rows of three integers, of which nearly each was updated, and no "
               "transaction while they are read. Where few rows were updated, the held reader is "
               "nearer to a new one.",
        commands=_report_commands,
    ),
]  # fmt: skip
