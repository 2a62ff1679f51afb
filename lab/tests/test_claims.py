# SPDX-License-Identifier: Apache-2.0
"""What pages claim of their papers: each entry of the paper's list has a sub-claim, also where it
was not measured, and nothing else has one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.paper.catalogue import PAGES
from lab.tests.made import number_of, of_page, shown, view
from lab.verdict import SEEN, SHOWN, SMALLER, UNDECIDED, Absent, Promise

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
    for key in ("experiment-2-abtree", "events"):
        made = without(key, tmp_path, lambda _: True)
        assert len(made.claims) == 10
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
