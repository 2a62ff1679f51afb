# SPDX-License-Identifier: Apache-2.0
"""What pages claim of their papers: each entry of the paper's list has a sub-claim, also where it
was not measured, and nothing else has one."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lab.paper import sections, tokens
from lab.paper.catalogue import PAGES
from lab.paper.sections import AHEAD
from lab.tests import claimed
from lab.tests.made import number_of, of_page, shown, view
from lab.timeline import Timeline
from lab.verdict import (
    BARRED,
    CONTRADICTED,
    NOT_SEEN,
    SEEN,
    SHOWN,
    SMALLER,
    UNDECIDED,
    Absent,
    Claim,
    Promise,
    weakest,
)

Keep = Callable[[dict], bool]


def page_of(key: str):
    return next(entry for entry in PAGES if entry.key == key)


def without(key: str, folder, keep: Keep, change: Callable[[dict], None] = lambda _: None):
    """The page over the stand-in's records, but for those that are not to be kept."""
    entry = page_of(key)
    _, trials, records = shown(entry, of_page(entry, folder))
    trials = [t for t in trials if keep(t.record)]
    records = [r for r in records if keep(r)]
    for record in [*(t.record for t in trials), *records]:
        change(record)
    return view(entry, trials, records)


def lacking(field: str, *values: str) -> Keep:
    return lambda record: record.get(field) not in values


@pytest.mark.parametrize(("key", "keep"), [
    ("pointers-object", lacking("pointer", "std-atomic")),
    ("pointers-containers", lacking("pointer", "thin")),
    ("pointers-strings", lacking("pointer", "std-atomic")),
    ("pointers-ends", lacking("pointer", "thin", "private")),
    ("pointers-slop", lacking("test", "burst")),
    ("snapshots-tree", lacking("collector", "epoch_collector")),
    ("snapshots-mixed", lacking("collector", "bbf", "dl_rt", "sl_rt")),
    ("sections-structures", lacking("sync", "rlu")),
    ("experiment-1-allocators", lacking("allocator", "jemalloc")),
])  # fmt: skip
def test_a_page_that_cannot_judge_is_not_decided(key, keep, tmp_path):
    made = without(key, tmp_path, keep)
    assert made.verdict not in (SEEN, SMALLER, SHOWN)
    assert [c for c in made.claims if isinstance(c, Absent) or c.why == "not measured"]


@pytest.mark.parametrize(("key", "keep", "what"), [
    ("experiment-1-abtree", lacking("scheme", "neutralization_plus"), "Neutralization+"),
    ("experiment-2-abtree", lacking("scheme", "debra"), "Debra"),
    ("table-3", lacking("allocator", "tcmalloc"), "tcmalloc"),
    ("events", lacking("scheme", "debra"), "Debra"),
    ("held-snapshot", lacking("collector", "dl_rt"), "DL-RT"),
    ("pointers-containers", lacking("structure", "btree"), "B+ tree"),
    ("pointers-containers", lacking("test", "insert", "remove"), "the threads fill"),
    ("snapshots-bound", lacking("collector", "bbf"), "BBF+"),
    ("announcements", lacking("scheme", "token"), "Token"),
    ("figure-8", lacking("scheme", "token_pass_first"), "pass-first"),
    ("figure-9", lacking("scheme", "token_naive"), "naive"),
    ("experiment-2-allocators", lacking("allocator", "tcmalloc"), "tcmalloc"),
    ("sections-features", lacking("turn_us", 0), "giving the processor away"),
    ("old-reports", lacking("engine", "duckdb"), "duckdb"),
])  # fmt: skip
def test_a_rival_that_was_not_run_has_its_sub_claim(key, keep, what, tmp_path):
    made = without(key, tmp_path, keep)
    names = [f"{c.what} {c.where}" for c in made.claims if isinstance(c, Absent)]
    names += [c.arm.name for c in made.claims if isinstance(c, Promise) and c.verdict == UNDECIDED]
    assert [name for name in names if what.lower() in name.lower()], names


@pytest.mark.parametrize("key", ["experiment-1-avl", "experiment-2-avl"])
def test_a_tree_that_the_paper_does_not_have_is_shown_only(key, tmp_path):
    made = without(key, tmp_path, lambda _: True)
    assert (made.verdict, made.claims) == (SHOWN, [])
    assert made.blocks


def test_schemes_outside_of_the_papers_ten_are_not_judged(tmp_path):
    for key, each in (("experiment-2-abtree", 1), ("events", 3)):
        made = without(key, tmp_path, lambda _: True)
        assert len(made.claims) == 10 * each
        of = [c.more.records[0]["scheme"] for c in made.claims if not isinstance(c, Absent)]
        assert not {"token", "token_naive", "token_pass_first"} & set(of)


def test_amortized_freeing_has_to_gain_as_much_as_in_the_paper(tmp_path):
    def even(record: dict) -> None:
        gain = 1.3 if record.get("release") == "amortized" else 1.0
        record["ops_per_s"] = 1e6 * gain * (1 + number_of(record) % 6 / 1000)

    made = without("experiment-2-abtree", tmp_path, lambda _: True, even)
    ranked = sorted((c.factor for c in made.claims if not isinstance(c, Absent)), reverse=True)
    assert ranked[:3] == [2.3, 1.5, 1.5]
    assert SMALLER in [c.verdict for c in made.claims]


def steady(record: dict) -> float:
    return 1 + number_of(record) % 6 / 1000


@pytest.mark.parametrize(("naive", "debra", "expected"), [
    ({1: 4, 2: 8, 8: 32}, {1: 1, 2: 1, 8: 1}, SEEN),
    ({1: 4, 2: 4, 8: 4}, {1: 1, 2: 1, 8: 1}, NOT_SEEN),  # more, and no more with the threads
    ({1: 4, 2: 8, 8: 32}, {1: 1, 2: 2, 8: 8}, NOT_SEEN),  # nor by more than DEBRA
    ({1: 9, 2: 8, 8: 4}, {1: 1, 2: 1, 8: 1}, CONTRADICTED),
    ({1: 4, 2: 8, 8: 16}, {1: 1, 2: 2, 8: 8}, CONTRADICTED),
])  # fmt: skip
def test_memory_that_runs_away_grows_with_the_threads(naive, debra, expected, tmp_path):
    def grown(record: dict) -> None:
        ours = record["scheme"] == "token_naive"
        size = (naive if ours else debra)[record["threads"]] * steady(record)
        record |= {"peak_rss_bytes": 1e7 * size, "garbage_peak": 1e4 * size, "retired": 1000,
                   "ops_per_s": (2e6 if ours else 1e6) * steady(record),
                   "freed": (100 if ours else 900) * steady(record)}  # fmt: skip

    assert without("figure-5", tmp_path, lambda _: True, grown).verdict == expected


def test_what_is_said_of_one_allocator_is_not_judged_by_another(tmp_path):
    for key in ("figure-1", "table-2"):
        (gone,) = without(key, tmp_path, lambda _: True, elsewhere).claims
        assert (gone.verdict, gone.lacks) == (UNDECIDED, ("jemalloc",))


def elsewhere(record: dict) -> None:
    record["allocator"] = "glibc"


def test_our_own_ring_is_not_judged_for_the_papers(tmp_path):
    """It is drawn, where the paper's was not traced."""

    def ours(record: dict) -> None:
        record["scheme"] = "token"

    made = without("figure-9", tmp_path, lacking("release", "batch"), ours)
    assert made.blocks
    assert [c.verdict for c in made.claims] == [UNDECIDED]


def test_an_epoch_that_takes_nearly_the_whole_run_begins_early():
    def line(*begins: float) -> Timeline:
        return Timeline(100.0, (0, 0), [0], epochs=[(at, 0) for at in begins])

    assert tokens.before_last(line(3, 20, 9)) == 0.2
    assert tokens.before_last(line()) is None
    assert tokens.before_last(None) is None


def test_epochs_of_the_naive_token_that_go_on_to_the_end_contradict(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "before_last", lambda line: 0.9 if line else None)
    made = without("figure-6", tmp_path, lambda _: True)
    (late,) = (c for c in made.claims if "last epoch" in claimed.line(c))
    assert (late.verdict, made.verdict) == (CONTRADICTED, CONTRADICTED)


def leaking_alike(record: dict) -> None:
    """Leaking gains in the AVL tree as much as in the other."""
    leaks, avl = record["scheme"] == "none", record["structure"] == "avl"
    many = record["threads"] == 8
    record["ops_per_s"] = (2 if leaks else 1) * (1 + avl * many) * 1e6 * steady(record)
    record["peak_rss_bytes"] = (9e8 if leaks else 1e8) * (1 if avl else 2) * steady(record)


def proportional(record: dict) -> None:
    record["free_ns_p50"] = 50 * record["threads"] * steady(record)
    record["epochs"] = 1000 / record["threads"] * steady(record)


def amortized_equal(record: dict) -> None:
    gain = {"jemalloc": 2.6, "tcmalloc": 3.3}.get(record["allocator"], 1.0)
    amortized = record["release"] == "amortized"
    record["ops_per_s"] = 1e6 * (gain if amortized else 1) * steady(record)


@pytest.mark.parametrize(("key", "change", "what"), [
    ("figure-1", leaking_alike, "growing"), ("figure-2", proportional, "median batch"),
    ("table-3", amortized_equal, "mimalloc"),
])  # fmt: skip
def test_what_holds_of_half_a_sentence_is_not_seen(key, change, what, tmp_path):
    made = without(key, tmp_path, lambda _: True, change)
    weak = [claimed.line(c) for c in made.claims if c.verdict == NOT_SEEN]
    assert [told for told in weak if what in told]


ABORTS = {"more of both": (True, True, SEEN), "no more with threads": (False, True, NOT_SEEN),
          "no more with updates": (True, False, NOT_SEEN)}  # fmt: skip


@pytest.mark.parametrize("which", ABORTS)
def test_one_copy_starts_over_more_with_threads_and_with_updates(which, tmp_path):
    threads, updates, expected = ABORTS[which]

    def starts_over(record: dict) -> None:
        if "abort_ratio" in record:
            more = record["threads"] if threads else 4
            more *= record["update"] if updates else 20
            single = 0.03 + 1e-3 * more
            record["abort_ratio"] = (0.01 if record["sync"] == "mvrlu" else single) * steady(record)

    assert without("sections-aborts", tmp_path, lambda _: True, starts_over).verdict == expected


def many_scale_alike(record: dict) -> None:
    """Many versions are ahead, and gain no more with the threads than others do."""
    if "sync" in record:
        ahead = 2.0 if record["sync"] == "mvrlu" else 1.0
        ahead *= 3.0 if AHEAD.items() <= record.items() else 1.0
        record["mops"] = ahead * record["threads"] * steady(record)


def fast_if_uneven(record: dict) -> None:
    """Many versions are ahead of others where keys are most uneven, and nowhere else."""
    if "theta" in record:
        ahead = 2.0 if record["sync"] == "mvrlu" or record["theta"] < 0.99 else 1.0
        record["mops"] = ahead * steady(record)


@pytest.mark.parametrize(("key", "change"), [
    ("sections-structures", many_scale_alike), ("sections-pareto", many_scale_alike),
    ("sections-zipf", fast_if_uneven),
])  # fmt: skip
def test_many_versions_are_judged_at_each_place_of_a_sentence(key, change, tmp_path):
    assert without(key, tmp_path, lambda _: True, change).verdict == NOT_SEEN


def tracking_grows(record: dict) -> None:
    """Those that track ranges need more, too, the longer read transactions are."""
    steam_in_trees(record, 1.5 if record.get("rtx_most") == 65536 else 1.0)


def steam_in_trees(record: dict, tracking: float = 1.0) -> None:
    if "collector" in record:
        long = record["rtx_most"] == 65536
        best = {"epoch_collector": 90 if long else 30, "steam": 12}
        record["bytes_peak"] = 1e6 * best.get(record["collector"], tracking) * steady(record)
        fast = record["collector"] in ("dl_rt", "sl_rt")
        record["updates_per_s"] = (2e6 if fast else 1e6) * steady(record)
        record["versions_live"] = 1.6 * record["versions_current"]


@pytest.mark.parametrize(("change", "expected"), [
    (steam_in_trees, SEEN), (tracking_grows, CONTRADICTED),
])  # fmt: skip
def test_collectors_that_track_ranges_need_hardly_more(change, expected, tmp_path):
    assert without("snapshots-tree", tmp_path, lambda _: True, change).verdict == expected


def test_epochs_keep_everything_that_was_overwritten(tmp_path):
    def half(record: dict) -> None:
        if record.get("hold"):
            record["updates"] = 2 * record["versions_live"]

    made = without("held-snapshot", tmp_path, lambda _: True, half)
    kept = [c.verdict for c in made.claims if "updates" in claimed.line(c)]
    assert kept == [CONTRADICTED, CONTRADICTED]


def test_both_private_pointers_are_judged(tmp_path):
    """The thin one alone is fast enough."""

    def slow(record: dict) -> None:
        speeds = {"raw": 900.0, "thin": 880.0, "private": 1.0}
        record["mops"] = speeds.get(record.get("pointer"), 1.0) * steady(record)

    for key in ("pointers-containers", "pointers-strings"):
        assert without(key, tmp_path, lambda _: True, slow).verdict in (CONTRADICTED, NOT_SEEN)


# What a trial may have nothing of; so much of a page that its other trials could still be drawn.
EMPTY = {
    "figure-4": {"garbage_per_epoch": []}, "pointers-slop": {"ended_per_epoch": []},
    "pointers-ends": {"pause_max_ns": None}, "snapshots-bound": {"stills": 0},
    "snapshots-tree": {"bytes_peak": None}, "held-snapshot": {"versions_needed": 0},
    "sections-over-time": {"over_time": []}, "sections-aborts": {"abort_ratio": None},
    "old-rows": {"old_row_ns": None}, "old-reports": {"old_q1_ns": None},
    "announcements": {"announcements_per_op": None},
}  # fmt: skip


@pytest.mark.parametrize("key", EMPTY)
def test_a_trial_in_which_nothing_came_about_is_not_left_out(key, tmp_path):
    """A collector that ends nothing in a third of its trials does not keep up in the others."""

    def emptied(record: dict) -> None:
        (field,) = EMPTY[key]
        if record.get("trial") in (0, 1) and field in record:
            record |= EMPTY[key]

    made = without(key, tmp_path, lambda _: True, emptied)
    assert [c for c in made.claims if re.search(r"\d of \d+ trials have no", c.why)]
    assert made.verdict not in (SEEN, SMALLER)


def test_what_stands_beside_another_rival_decides_nothing(tmp_path):
    made = without("sections-records", tmp_path, lambda _: True)
    assert (made.verdict, {c.verdict for c in made.claims}) == (BARRED, {BARRED})


def test_a_growth_is_absent_where_one_of_its_two_is(tmp_path):
    made = without("figure-5", tmp_path, lambda r: (r["scheme"], r["threads"]) != ("debra", 1))
    gone = [c.what for c in made.claims if isinstance(c, Absent)]
    pair = "Token, naive · batch > DEBRA · batch"
    assert gone == [f"{pair}: peak memory, growing", f"{pair}: garbage, growing"]
    assert made.verdict not in (SEEN, SMALLER)


def test_consolidating_one_shot_is_compared_with_consolidating_steam(tmp_path):
    def eager(record: dict) -> None:
        if "versions" in record:
            best = {"steam-eager": 1e6, "one-shot-consolidated": 4.0, "steam": 2.0}
            record["tx_per_s"] = best.get(record["versions"], 1.0) * steady(record)

    assert without("one-shot-13", tmp_path, lambda _: True, eager).verdict == CONTRADICTED


def cumulative(tmp_path, gains: dict[int, float]):
    """All features gain so much by the share of updates, and each step its part of it."""
    names = [name for name, *_ in sections.STEPS]

    def stepwise(record: dict) -> None:
        if "update" in record and record.get("kind", "rlu") == "rlu":
            place = names.index(sections._step_of(record))
            at = gains.get(record["update"], 1.0) ** (place / 7)
            record["mops"] = at * steady(record)

    return without("sections-cumulative", tmp_path, lambda _: True, stepwise)


def test_features_gain_what_the_paper_says_at_each_share_of_updates(tmp_path):
    made = cumulative(tmp_path, {2: 9.0, 20: 9.0, 80: 2.0})
    (together,) = (c for c in made.claims if c.factor == 3.5)
    assert (together.verdict, "80" in together.where) == (SMALLER, True)
    assert made.verdict == SMALLER


def test_steps_that_the_paper_says_nothing_of_are_not_judged(tmp_path):
    made = cumulative(tmp_path, {2: 9.0, 20: 9.0, 80: 9.0})
    judged = [c for c in made.claims if isinstance(c, Claim)]
    steps = {(c.more.name, c.more.records[0]["update"]) for c in judged}
    assert ("+ many versions", 80) not in steps
    assert ("+ low watermark", 2) not in steps
    assert {c.more.records[0]["structure"] for c in judged} == {"list"}


def test_walks_in_trees_are_a_hundred_times_slower_with_counted_pointers(tmp_path):
    def thirty(record: dict) -> None:
        if "pointer" in record:
            record["mops"] = (1.0 if record["pointer"] == "std-atomic" else 30.0) * steady(record)

    made = without("pointers-containers", tmp_path, lambda _: True, thirty)
    assert made.verdict == SMALLER
    assert all("tree" in c.where for c in made.claims if c.verdict == SMALLER)


def stream(record: dict) -> None:
    if record.get("test") == "stream":
        record["waiting_peak"] = 1e12


def little_counting(record: dict) -> None:
    if record.get("test") == "parts":
        record |= {"count_ns": 3, "sweep_ns": 2, "scan_ns": 1, "set_ns": 3e14}


def steam_most(record: dict) -> None:
    if "collector" in record:
        best = {"steam": 1e12, "epoch_collector": 1e9}
        record["bytes_peak"] = best.get(record["collector"], 1e6) * steady(record)
        fast = record["collector"] in ("dl_rt", "sl_rt")
        record["updates_per_s"] = (2e6 if fast else 1e6) * steady(record)


def counted_scale(record: dict) -> None:
    if "pointer" in record:
        counted = record["pointer"] == "std-atomic"
        record["mops"] = (record["threads"] if counted else 50.0) * steady(record)


def large_gain(record: dict) -> None:
    if "versions" in record:
        gain = 2.0 * record["operations"] if record["versions"] == "one-shot" else 1.0
        record["tx_per_s"] = gain * steady(record)


@pytest.mark.parametrize(("key", "change"), [
    ("pointers-slop", stream), ("pointers-times", little_counting), ("snapshots-hash", steam_most),
    ("pointers-object", counted_scale), ("one-shot-12", large_gain),
])  # fmt: skip
def test_the_opposite_of_what_a_page_says_contradicts_it(key, change, tmp_path):
    assert without(key, tmp_path, lambda _: True, change).verdict == CONTRADICTED


@pytest.mark.parametrize(("key", "what"), [
    ("table-1", "flushing"), ("announcements", "twice as long"), ("sections-records", "Silo"),
    ("sections-cumulative", "hardware clock"),
])  # fmt: skip
def test_what_is_not_judged_here_is_listed_and_does_not_count(key, what, tmp_path):
    made = without(key, tmp_path, lambda _: True)
    (gone,) = (c for c in made.claims if isinstance(c, Absent) and what in c.what)
    assert (gone.verdict, bool(gone.why)) == (BARRED, True)
    assert made.verdict == weakest(c.verdict for c in made.claims if c is not gone)
