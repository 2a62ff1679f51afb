# SPDX-License-Identifier: Apache-2.0
"""The pages of the paper's evaluation: filled, judged, and never bolder than their records."""

from __future__ import annotations

import json
import random
import re
import sys
from argparse import Namespace
from unittest.mock import patch

import pytest

from lab import stats
from lab.bench import Bench
from lab.claims import NOT_SEEN, SEEN, UNPROVEN
from lab.matrix import Cell
from lab.paper import contention, model, page, rivals, run, sectioned, sections
from lab.paper.catalogue import PAGES
from lab.paper.found import Found
from lab.paper.machine import Events, Machine, distinct, replay
from lab.paper.page import SHOWN
from lab.records import Located, load, read_lines
from lab.report import KINDS
from lab.stats import Comparison
from lab.tests import fake_bench
from lab.tests.conftest import FAKE, trial
from lab.tests.test_pointers import ENDS, INSIDE, POINTERS, QUICK

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The records of the stand-in for every cell of every page, without the sweep around them."""
    scale = page.Scale(2, (1, 2, 8), 200_000, 0.5, ("glibc", "jemalloc", "mimalloc"),
                       frozenset(fake_bench.COMBINATIONS), tuple(fake_bench.RIVALS))  # fmt: skip
    plan = run.plan_of(list(PAGES), scale, run.Wishes(trials=2))
    folder = tmp_path_factory.mktemp("paper")
    trials = []
    for cell in plan.cells:
        for number in range(2):
            options = Namespace(**{**cell.configuration(), "count": cell.count}, trials=2,
                                seed=number, json="-")  # fmt: skip
            made = fake_bench.Model(options)
            made.allocator = cell.allocator
            lab = {"cell": cell.hash(), "round": number, "configuration": cell.configuration()}
            if cell.trace:
                names = ("t_ns", "end_ns", "thread", "event", "count")
                lines = [json.dumps(dict(zip(names, e, strict=True))) for e in made.events()]
                lab["trace"] = f"{cell.hash()}-{number}.jsonl"
                (folder / lab["trace"]).write_text("\n".join(lines))
            trials.append(Located({**made.record(number), "lab": lab}, folder / "paper.jsonl"))
    return trials


ANNOUNCED = [
    {"kind": "announcements", "scheme": s, "threads": t, "announcements_per_op": t / 100}
    for s in ("token", "debra") for t in (2, 192)
]  # fmt: skip


HELD = [
    {"kind": "snapshots", "structure": "hash", "collector": collector, "hold": True,
     "updates": 1000, "updates_per_s": 1e6, "versions_live": live, "versions_peak": live + 5,
     "versions_needed": 100, "bytes": live * 100 + 7000, "bytes_waiting": 7000,
     "bytes_needed": 10000, "bytes_peak": live * 120,
     "bytes_over_time": [[0, 0], [100, live * 100]]}
    for collector, live in (("epoch_collector", 50000), ("sl_rt", 110))
]  # fmt: skip


class Inside(Bench):
    """The stand-in without a process for each command: there are hundreds."""

    def records(self, command, target, timeout):
        with patch.object(sys, "argv", [str(self.path), *command, "--json", str(target)]):
            return "" if fake_bench.main() == 0 else "failed"

    def peers(self, arguments, target, timeout):
        records = [r for name in ("sqlite", "duckdb") for r in fake_bench.lineitem_records(name, 1)]
        fake_bench.write(str(target), [{"kind": "reports", **r} for r in records])
        return ""


def measured(tmp_path_factory) -> list[dict]:
    """What the stand-in gives for the commands of the store's pages."""
    scale = page.Scale(2, (1, 2, 8), 200_000, 0.5, ("glibc",), frozenset(), (), ("steam",))
    folder = tmp_path_factory.mktemp("store")
    records = []
    for entry in PAGES:
        commands = entry.commands(scale)
        if commands and entry.key.startswith(("one-shot", "held-readers", "old-r", "sections")):
            target = folder / entry.key
            assert run._of_page(Inside(FAKE), entry.key, commands, entry.peers(scale),
                                target, 60) == ""  # fmt: skip
            records += read_lines(target)
    return records


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return measured(tmp_path_factory)


def worked(structure: str, collector: str, most: int, **more) -> dict:
    return {"kind": "snapshots", "structure": structure, "collector": collector, "hold": False,
            "threads": 2, "rtx_most": 1024, "updates_per_s": 1e6, "rtx_keys_per_s": 1e6,
            "bytes_peak": most, "versions_live": 110, "versions_needed": 100,
            **more}  # fmt: skip


BESIDE = [
    worked(structure, collector, most, readers=1, rtx_share=0)
    for structure in ("hash", "tree")
    for collector, most in (("epoch_collector", 900), ("sl_rt", 100))
]  # fmt: skip
MIXED = [worked("hash", c, most, rtx_share=1) for c, most in (("steam", 150), ("dl_rt", 100))]
UNEVEN = [{**r, "keys": 200_000, "theta": 0.99} for r in MIXED]
MANY = [{**r, "keys": 20_000_000} for r in UNEVEN]
COUNTED = [
    worked(structure, collector, 100, threads=16, readers=8, small_readers=8, rtx=16, rtx_share=0,
           theta=0, stills=5, versions_current=100, versions_peak=900, versions_needed_peak=150,
           versions_excess_peak=700)
    for structure in ("hash", "tree") for collector in ("bbf", "sl_rt")
]  # fmt: skip


def quickly(monkeypatch):
    monkeypatch.setattr(model, "THREADS", (2, 192))
    monkeypatch.setattr(model, "REMOTE", (250,))


def test_every_page_is_filled_by_its_own_cells(filled, stored, monkeypatch):
    quickly(monkeypatch)
    snapshots = HELD + BESIDE + MIXED + UNEVEN + MANY + COUNTED
    found = Found(filled, ANNOUNCED, snapshots, stored, POINTERS + ENDS + INSIDE)
    for entry in PAGES:
        shown = entry.show(found)
        assert shown is not None, entry.key
        assert any(shown.blocks), entry.key
        assert shown.here.endswith("."), entry.key


def test_no_page_falls_over_whatever_records_are_missing(filled, stored, monkeypatch):
    monkeypatch.setattr(model, "replay", lambda *a, **k: model.Outcome(1e6, 0.2, 0.1, 1e3))
    for seed in range(12):
        dice = random.Random(seed)
        some = dice.sample(filled, max(1, int(len(filled) * dice.random() ** 3)))
        few = dice.sample(stored, max(1, int(len(stored) * dice.random() ** 3)))
        for entry in PAGES:
            entry.show(Found(some, store=few))


def shown_of(number: int, filled, stored):
    entry = next(page for page in PAGES if page.key == f"one-shot-{number}")
    return entry.show(Found(filled, store=stored))


def test_the_one_shot_pages_are_judged_and_have_all_storages(filled, stored):
    for number in (2, 10, 11, 12):
        assert shown_of(number, filled, stored).verdict == SEEN, number
    slow = [{**r, "tx_per_s": r["tx_per_s"] * (4 if r["versions"] == "steam" else 1)}
            for r in stored if "tx_per_s" in r]  # fmt: skip
    for number in (2, 10, 11, 12):
        assert shown_of(number, filled, slow).verdict == NOT_SEEN, number
    rows = shown_of(2, filled, stored).blocks[0]["rows"]
    assert [row[0] for row in rows] == fake_bench.STORAGES
    assert "−50" in (here := shown_of(2, filled, stored).here) or "-50" in here
    assert "unheard-of" in here
    figure = shown_of(10, filled, stored).blocks[0]["figures"][0]
    assert [line["meta"] for line in figure["data"]] == fake_bench.STORAGES
    assert figure["data"][0]["x"] == [1, 2, 8]


def test_partitions_that_matter_are_told_of(filled, stored):
    assert shown_of(14, filled, stored).verdict == SEEN
    odd = [{**r, "tx_per_s": r["tx_per_s"] * r["partitions_most"]}
           for r in stored if "partitions_most" in r]  # fmt: skip
    assert shown_of(14, filled, odd).verdict == NOT_SEEN


def test_a_reader_is_shown_over_time(filled, stored):
    shown = shown_of(13, filled, stored)
    assert "unheard-of -10" in shown.here
    assert len(shown.blocks[0]["figures"]) == 2


def test_records_of_one_page_are_not_taken_for_another(filled, stored):
    other = [{**r, "lab": {"page": "elsewhere"}} for r in stored]
    assert shown_of(10, filled, other) is None


def test_what_a_held_reader_costs_is_judged(stored):
    entry = next(page for page in PAGES if page.key == "held-readers")
    default = "one-shot-evacuated"

    def shown(field: str, factor: float, spread: float = 0, **where):
        records = [
            {**r, field: r[field] * factor * (1 + spread * r["trial"])}
            if r.get("hold") and all(r[name] == value for name, value in where.items()) else r
            for r in stored
        ]  # fmt: skip
        return entry.show(Found([], store=records))

    assert (made := shown("tx_per_s", 1)).verdict == SEEN
    assert "0.90" in made.here
    assert "queue, ordered" in made.here
    assert [len(table["rows"]) for table in made.blocks] == [2 * len(fake_bench.STORAGES)] * 3
    one = {"workload": "churn", "index": "hash"}
    assert shown("tx_per_s", 0.5, versions=default, **one).verdict == NOT_SEEN
    assert shown("tx_per_s", 0.5, versions="steam", **one).verdict == SEEN
    assert shown("tx_per_s", 0.4, 2, versions=default, **one).verdict == UNPROVEN
    assert shown("first_row_ns_p50", 2, versions=default, **one).verdict == NOT_SEEN
    assert entry.show(Found([], store=[r for r in stored if r.get("hold") == 0])) is None


def test_what_an_old_report_costs_is_judged(stored):
    entry = next(page for page in PAGES if page.key == "old-reports")
    default = "one-shot-evacuated"

    def shown(field: str, factor: float, versions: str):
        records = [
            {**r, field: r[field] * factor}
            if r["lab"]["page"] == "old-reports" and r["versions"] == versions else r
            for r in stored if "versions" in r
        ]  # fmt: skip
        return entry.show(Found([], store=records))

    kinds = {r["kind"] for r in stored if r["lab"]["page"] == "old-reports"}
    assert kinds <= set(KINDS), "the report reads them"
    made = shown("old_q1_ns", 1, default)
    assert made.verdict == SEEN
    assert "TPC-H query 1 2.00\N{NO-BREAK SPACE}×" in made.here
    assert "sqlite takes there: TPC-H query 1 1.00\N{NO-BREAK SPACE}×" in made.here
    charts, tables = made.blocks[:3], made.blocks[3:]
    assert len(tables) == 6
    names = [*fake_bench.STORAGES, "sqlite", "duckdb"]
    assert [row[0] for row in tables[0]["rows"]] == names
    assert [row[0] for row in tables[3]["rows"]] == fake_bench.STORAGES
    new, more = charts[0]["figures"][0]["data"]
    assert (new["x"][0], more["x"][0]) == (40, 40)
    # More than three times a new one, more than SQLite, more than twice DuckDB.
    assert shown("old_q6_rows_ns", 1.6, default).verdict == NOT_SEEN
    assert shown("old_text_rows_ns", 1.6, default).verdict == SEEN
    assert shown("old_q1_ns", 1.6, "steam").verdict == SEEN
    assert shown("old_text_ns", 0.8, "sqlite").verdict == NOT_SEEN
    assert shown("old_text_ns", 0.8, "duckdb").verdict == SEEN
    assert shown("old_text_ns", 0.4, "duckdb").verdict == NOT_SEEN


def test_what_an_old_row_costs_is_judged(stored):
    entry = next(page for page in PAGES if page.key == "old-rows")

    def shown(factor: float, field: str = "old_row_ns", spread: float = 0, versions: str = ""):
        records = [
            {**r, field: r[field] * factor * (1 + spread * r["trial"])}
            if r.get("workload") == "report" and r["versions"] == versions else r
            for r in stored
        ]  # fmt: skip
        return entry.show(Found([], store=records))

    default = "one-shot-evacuated"
    made = shown(1)
    assert made.verdict == SEEN
    assert "a sum by a query 5.00\N{NO-BREAK SPACE}×" in made.here
    charts, table = made.blocks[:-1], made.blocks[-1]
    assert len(charts) == 3
    new, more = charts[0]["figures"][0]["data"]
    assert (new["x"][0], more["x"][0]) == (2.5, 47.5)
    assert [row[0] for row in table["rows"]] == fake_bench.STORAGES
    assert "20.0\N{NO-BREAK SPACE}×" in table["rows"][0]
    for field in ("old_row_ns", "old_each_ns", "old_find_ns"):
        assert shown(2.1, field, versions=default).verdict == NOT_SEEN, field
        assert shown(2.1, field, versions="steam").verdict == SEEN, field
    # A new row that costs as much as an old one in one trial of three.
    noisy = [
        {**r, "new_row_ns": r["old_row_ns"] * 3} if r["trial"] == 2 else
        {**r, "old_row_ns": r["old_row_ns"] * 3}
        for r in stored if r.get("workload") == "report"
    ]  # fmt: skip
    assert entry.show(Found([], store=noisy)).verdict == UNPROVEN
    assert entry.show(Found([], store=[r for r in stored if r.get("workload") != "report"])) is None


def test_what_a_held_snapshot_keeps_is_judged(filled):
    page = next(page for page in PAGES if page.key == "held-snapshot")
    assert page.show(Found(filled, [], HELD)).verdict == SEEN
    assert page.show(Found(filled, [], HELD[:1])).verdict == SHOWN
    leaking = [{**HELD[1], "versions_live": 5000}]
    assert page.show(Found(filled, [], leaking)).verdict == NOT_SEEN
    # Blocks that no snapshot needs and that do not wait to be freed: no versions, yet a leak.
    heavy = {**HELD[1], "bytes": 160_000}
    assert page.show(Found(filled, [], [heavy])).verdict == NOT_SEEN
    waiting = {**heavy, "bytes_waiting": 150_000}
    assert page.show(Found(filled, [], [waiting])).verdict == SEEN
    shown = page.show(Found(filled, [], [waiting]))
    assert "wait to be freed" in shown.here


def sections_shown(stored, name: str, speed):
    records = [{**r, "mops": speed(r)} for r in stored if r["kind"] == "rlu"]
    return next(p for p in PAGES if p.key == f"sections-{name}").show(Found([], store=records))


def test_read_log_update_is_judged_by_what_was_measured(stored):
    fast = sections_shown(stored, "structures", lambda r: 1 + (r["sync"] == "mvrlu"))
    slow = sections_shown(stored, "structures", lambda r: 2 - (r["sync"] == "mvrlu"))
    assert (fast.verdict, slow.verdict) == (SEEN, NOT_SEEN)
    assert "27 of 27" in fast.here
    assert "0 of 27" in slow.here
    fast = sections_shown(stored, "sizes", lambda r: 1 + (r["sync"] == "mvrlu"))
    slow = sections_shown(stored, "sizes", lambda r: 2 - (r["sync"] == "mvrlu"))
    assert (fast.verdict, slow.verdict) == (SEEN, NOT_SEEN)
    fast = sections_shown(stored, "cache", lambda r: 1 + (r["sync"] == "mvrlu"))
    slow = sections_shown(stored, "cache", lambda r: 2 - (r["sync"] == "mvrlu"))
    assert (fast.verdict, slow.verdict) == (SEEN, NOT_SEEN)
    kept = sections_shown(stored, "sleeper", lambda r: 0.95 if r["stall"] else 1)
    lost = sections_shown(stored, "sleeper", lambda r: 0.5 if r["stall"] else 1)
    assert (kept.verdict, lost.verdict) == (SEEN, NOT_SEEN)


def test_what_a_feature_costs_is_judged(stored):
    helps = sections_shown(stored, "features", lambda r: 2 if r["turn_us"] else 1)
    assert helps.verdict == SEEN
    assert "Most is gained by giving the processor away, 2" in helps.here
    costs = sections_shown(stored, "features", lambda r: 1 + r["detector"])
    assert costs.verdict == NOT_SEEN
    assert "least by no thread of its own" in costs.here
    alone = sections_shown(stored, "features", lambda r: 1 + (r["in_place"] and r["threads"] == 1))
    assert "Most is gained by changing objects in place, 2" in alone.here
    clock = sections_shown(stored, "features", lambda r: 1 + (r["sync"] == "mvrlu-hardware"))
    assert "least by a shared counter for a clock" in clock.here


def changed_shown(stored, name: str, change):
    records = [{**r, **change(r)} for r in stored]
    return next(p for p in PAGES if p.key == f"sections-{name}").show(Found([], store=records))


def test_features_are_added_up(stored):
    steps = sections.STEPS
    names = {name for name, *_ in steps}
    mine = [r for r in stored if (r.get("lab") or {}).get("page") == "sections-cumulative"]
    assert {sections._step_of(r) for r in mine} == names
    rising = sections_shown(stored, "cumulative", lambda r: 1 + (r["sync"] != "rlu"))
    falling = sections_shown(stored, "cumulative", lambda r: 1 + (r["sync"] == "rlu"))
    assert (rising.verdict, falling.verdict) == (SEEN, NOT_SEEN)
    assert rising.blocks[0]["figures"][0]["data"][0]["x"] == [1e6] + [2e6] * (len(steps) - 1)


def test_sections_that_start_over_are_judged(stored):
    assert changed_shown(stored, "aborts", lambda r: {}).verdict == SEEN
    often = changed_shown(stored, "aborts", lambda r: {"abort_ratio": 0.5})
    assert often.verdict == NOT_SEEN
    assert "at most 50" in often.here
    locks = [r for r in stored if r.get("sync") in ("rcu", "rwlock")]
    assert changed_shown(locks, "aborts", lambda r: {}) is None


def test_skewed_keys_are_judged_and_all_ways_drawn(stored):
    def speed(by_theta):
        return lambda r: {"mops": 2 - by_theta * r["theta"] + (r["sync"] == "mvrlu")} if (
            "theta" in r) else {}  # fmt: skip

    shown = changed_shown(stored, "zipf", speed(1))
    assert shown.verdict == SEEN
    assert "readers-writer lock 0.51" in shown.here
    rates, shares = (block["figures"] for block in shown.blocks)
    assert {line["meta"] for line in rates[0]["data"]} == set(sectioned.WAYS["hash"])
    assert {line["meta"] for line in shares[0]["data"]} == set(sectioned.STARTING_OVER)
    assert rates[0]["data"][0]["x"] == list(contention.THETAS)


def test_logs_that_go_on_growing_are_told_of(stored):
    still = changed_shown(stored, "over-time", lambda r: {})
    assert still.verdict == SEEN
    assert "1.50 on average" in still.here

    def grown(r):
        rows = [[*row[:4], 1e5 * row[0], *row[5:]] for row in r.get("over_time", [])]
        return {"over_time": rows} if r.get("stall") else {}

    growing = changed_shown(stored, "over-time", grown)
    assert growing.verdict == NOT_SEEN
    assert "list, 20" in growing.here
    assert "alone" not in growing.here


def test_sums_are_drawn_as_rates():
    record = {"over_time_columns": ["ms", "passes"], "over_time": [[5 * t, t] for t in range(31)]}
    assert contention.column(record, "passes", True) == [(50, 200), (100, 200), (150, 200)]
    assert contention.column(record, "absent", True) == []


def test_transactions_over_records_are_judged(stored):
    assert changed_shown(stored, "records", lambda r: {}).verdict == SEEN
    slow = changed_shown(
        stored, "records", lambda r: {"tx_per_s": 1 + (r.get("engine") != "mvrlu")}
    )
    assert slow.verdict == NOT_SEEN


def verdict(filled, key: str, records: list[dict]) -> str:
    page = next(page for page in PAGES if page.key == key)
    return page.show(Found(filled, [], records)).verdict


def test_what_read_transactions_cost_is_judged(filled):
    assert verdict(filled, "snapshots-tree", BESIDE) == SEEN
    assert verdict(filled, "snapshots-hash", BESIDE) == NOT_SEEN  # nine times as much
    tenfold = [{**r, "bytes_peak": r["bytes_peak"] + 100 * (r["collector"] == "epoch_collector")}
               for r in BESIDE]  # fmt: skip
    assert verdict(filled, "snapshots-hash", tenfold) == SEEN
    assert verdict(filled, "snapshots-hash", BESIDE[:1]) == SHOWN
    leaking = [{**r, "bytes_peak": 1000} if r["collector"] == "sl_rt" else r for r in BESIDE]
    assert verdict(filled, "snapshots-tree", leaking) == NOT_SEEN
    assert verdict(filled, "snapshots-mixed", MIXED) == SEEN
    assert verdict(filled, "snapshots-mixed", MIXED[:1]) == SHOWN
    assert (
        verdict(filled, "snapshots-mixed", [MIXED[0], {**MIXED[1], "bytes_peak": 400}]) == NOT_SEEN
    )
    without = worked("tbb_hash_map", "none", 10, rtx_share=1, versions_live=None)
    assert verdict(filled, "snapshots-mixed", [*MIXED, without]) == SEEN
    assert verdict(filled, "snapshots-zipf", [*UNEVEN, {**MIXED[1], "bytes_peak": 400}]) == SEEN
    assert verdict(filled, "snapshots-large", [*MANY, {**UNEVEN[1], "bytes_peak": 400}]) == SEEN


def test_versions_that_no_snapshot_needs_are_held_against_the_bound(filled):
    assert verdict(filled, "snapshots-bound", COUNTED) == SEEN
    # 34 threads: 5 * 34 * 204 and 6 * 204 of the bound, and twice the 50 that snapshots needed
    most = {**COUNTED[1], "versions_excess_peak": 36004}
    assert verdict(filled, "snapshots-bound", [most]) == SEEN
    assert verdict(filled, "snapshots-bound", [{**most, "versions_excess_peak": 36005}]) == NOT_SEEN
    shown = next(page for page in PAGES if page.key == "snapshots-bound").show(
        Found(filled, [], [most])
    )
    assert "At most 7.03 P² log P versions" in shown.here
    # threads that stand still are no measure of speed or memory
    assert (
        next(page for page in PAGES if page.key == "snapshots-tree").show(
            Found(filled, [], COUNTED)
        )
        is None
    )


def test_the_schemes_are_compared_under_each_allocator(filled):
    entry = next(page for page in PAGES if page.key == "experiment-1-allocators")
    shown = entry.show(Found(filled))
    assert shown.verdict == SEEN
    charted, table = shown.blocks
    assert len(charted["figures"]) == 3
    assert table["head"][1:] == ["glibc", "jemalloc", "mimalloc"]
    assert ["under glibc" in shown.here, "under mimalloc" in shown.here] == [True, True]

    def with_slow(allocator: str) -> str:
        ours = ("token", "amortized", allocator)
        made = [Located({**t.record, "ops_per_s": t.record["ops_per_s"] / 4}, t.path)
                if tuple(t.record[k] for k in ("scheme", "release", "allocator")) == ours else t
                for t in filled]  # fmt: skip
        return entry.show(Found(made)).verdict

    assert with_slow("glibc") == NOT_SEEN
    assert with_slow("mimalloc") == SEEN, "the claim leaves it out"


def test_a_page_without_records_is_left_empty():
    found = Found([trial(threads=t) for t in (1, 2)])
    assert [entry.key for entry in PAGES if entry.show(found)] == []


def test_the_command_fills_every_page_and_goes_on_where_it_was(lab, tmp_path):
    done = lab(
        "paper",
        *QUICK,
        "--only",
        "table,experiment-1-avl,announcements,held-snapshot,one-shot-13,snapshots-mixed",
        "--out",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.html").read_text()
    for key in (
        "table-1",
        "table-2",
        "table-4",
        "experiment-1-avl",
        "announcements",
        "held-snapshot",
        "one-shot-13",
        "snapshots-mixed",
    ):
        assert f'<section id="{key}"' in text
    assert '<section id="rivals"' not in text
    assert "./dev lab paper --only rivals" in text
    before = len(read_lines(tmp_path / "paper.jsonl"))
    again = lab("paper", *QUICK, "--only", "table,experiment-1-avl", "--out", tmp_path)
    assert "0 trials run" in again.stderr
    assert len(read_lines(tmp_path / "paper.jsonl")) == before


def test_an_unknown_page_is_refused_with_those_that_are_known(lab, tmp_path):
    done = lab("paper", "--only", "figure-99", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "unknown page 'figure-99'" in done.stderr
    assert "experiment-2-allocators" in done.stderr
    assert not (tmp_path / "out").exists()


def test_cells_that_count_are_cells_of_their_own():
    plain = Cell("abtree", "token", "batch", 2, 10, 100, 1.0)
    counted = Cell("abtree", "token", "batch", 2, 10, 100, 1.0, count=True)
    assert counted.hash() != plain.hash()
    assert "count" not in plain.configuration()
    assert "--count" in counted.arguments(1)
    assert "--count" not in plain.arguments(1)


def test_speed_is_never_taken_from_trials_that_counted():
    made = [trial(threads=t, count=c, ops_per_s=1e6 if c else 2e6)
            for t in (1, 2) for c in (False, True)]  # fmt: skip
    panels = stats.throughput_panels(stats.group(made))
    assert [c.ops_per_s.median for members in panels.values() for c in members] == [2e6, 2e6]
    found = Found(made)
    assert not found.pick("abtree", [("token", "amortized")])[0].conditions.counted
    assert found.pick("abtree", [("token", "amortized")], counted=True)[0].conditions.counted


@pytest.mark.parametrize(
    ("ratios", "proven", "expected"),
    [((1.3,), True, "seen"), ((0.7,), True, "not seen"), ((1.3, 0.7), True, "not seen"),
     ((1.3,), False, "unproven"), ((), True, "not measured")],
)  # fmt: skip
def test_verdicts(ratios, proven, expected):
    assert page.verdict([Comparison(r, proven) for r in ratios]) == expected


def test_what_was_counted_speaks_only_where_speed_does_not():
    assert page.or_counted("unproven", [2.0]) == "counted"
    assert page.or_counted("not seen", [None, 1.6]) == "counted"
    assert page.or_counted("unproven", [1.1]) == "unproven"
    assert page.or_counted("unproven", []) == "unproven"
    assert page.or_counted("seen", [2.0]) == "seen"


def test_rivals_of_any_name_stand_beside_ours():
    ran = (("abtree", "token", "amortized", 3e6), ("odd_map", "x", "own", 1e6))
    made = [trial(structure=s, scheme=c, release=r, threads=t, ops_per_s=speed)
            for s, c, r, speed in ran for t in (1, 2) for _ in range(2)]  # fmt: skip
    shown = rivals.RIVALS.show(Found(made))
    assert shown.verdict == "seen"
    assert "odd map" in shown.here
    assert len(shown.blocks) == 1


EVENTS = Events(
    work_ns=1000, frees=0.5, batch=1000, free_ns=20, flushes=0.01, flush_ns=3000, threads=2
)


def test_the_model_gives_back_what_was_counted_where_it_was_counted():
    found = replay(EVENTS, Machine(2))
    alone = 1000 + 0.5 * (20 + 0.01 * 3000)
    assert found.ops_per_s == pytest.approx(2e9 / alone, rel=0.05)
    assert found.free_share == pytest.approx((alone - 1000) / alone, rel=0.2)
    assert found.wait_share < 0.01


def test_the_model_queues_where_all_share_one_lock():
    few, many = replay(EVENTS, Machine(48)), replay(EVENTS, Machine(192))
    one = replay(EVENTS, Machine(192, one_lock=True))
    assert few.wait_share < many.wait_share < one.wait_share
    assert one.wait_share > 0.8
    assert one.ops_per_s < few.ops_per_s < many.ops_per_s
    # No thread works faster than its work.
    assert many.ops_per_s < 192e9 / 1000


def test_in_the_model_fewer_flushes_are_faster():
    seldom = Events(**{**vars(EVENTS), "flushes": 0.003})
    assert replay(seldom, Machine(192)).ops_per_s > 1.05 * replay(EVENTS, Machine(192)).ops_per_s


def test_distinct_owners():
    assert distinct(1, 10) == pytest.approx(1)
    assert distinct(1000, 10) == pytest.approx(10)
    assert 9 < distinct(10, 100) < 10


def test_events_of_an_allocator_that_tells_nothing_give_no_model(filled):
    without = [t for t in filled if t.record["allocator"] != "jemalloc"]
    assert model.show(Found(without)) is None


def test_every_key_names_one_page():
    keys = [entry.key for entry in PAGES]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9_-]+", key) for key in keys)
    assert [p.key for p in run.chosen(("figure-1",))] == ["figure-1"]
    assert len(run.chosen(("experiment-2",))) == 4


def test_load_keeps_announcements_apart(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in [*ANNOUNCED, trial().record]))
    assert len(load([path])) == 1
