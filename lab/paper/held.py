# SPDX-License-Identifier: Apache-2.0
"""The store's own promise: a reader holds what it sees, and nothing else. Workloads whose rows and
index entries end all the time, beside one reader that is held and without it, in turn."""

from __future__ import annotations

from lab import look
from lab.claims import NOT_SEEN, SEEN, UNPROVEN
from lab.paper import blocks
from lab.paper.found import Found
from lab.paper.page import Page, Scale, Shown, one_trial
from lab.stats import Comparison, Spread, compare, spread

DEFAULT = "one-shot-evacuated"
WORKLOADS = {"queue": "A queue: the last row is inserted, the first is deleted",
             "touched": "An indexed column that is updated",
             "churn": "Keys that come and go"}  # fmt: skip
INDEXES = ("ordered", "hash")
WARM_UP = 0.2
TRIALS = 3
# Filling the table, and comparing what the reader sees.
OVERHEAD = 0.1
# The least share of the speed that is kept, and how many times as long a short read may take.
KEPT, LONGER = 0.85, 3


def _commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        ("held", "--workload", workload, "--index", ",".join(INDEXES), "--hold", "0,1",
         "--threads", str(scale.full), "--warm-up", str(WARM_UP),
         "--seconds", str(scale.seconds), "--trials", str(TRIALS))
        for workload in WORKLOADS
    ]  # fmt: skip


def _takes(scale: Scale) -> float:
    trials = 2 * len(WORKLOADS) * len(INDEXES) * TRIALS * max(1, len(scale.storages))
    return trials * (scale.seconds + WARM_UP + OVERHEAD)


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


def _verdict(speeds: list[Comparison], reads: list[Comparison]) -> str:
    slow = [c for c in speeds if c.ratio < KEPT]
    long = [c for c in reads if c.ratio > LONGER]
    if any(c.proven for c in slow + long):
        return NOT_SEEN
    return UNPROVEN if slow or long else SEEN


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
    return Shown(tables, here, _verdict(list(known.values()), reads))


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
        takes=_takes,
    ),
]  # fmt: skip
