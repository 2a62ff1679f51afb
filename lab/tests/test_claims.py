# SPDX-License-Identifier: Apache-2.0
"""What pages claim of their papers: each entry of the paper's list has a sub-claim, also where it
was not measured, and nothing else has one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.paper.catalogue import PAGES
from lab.tests.made import of_page, shown, view
from lab.verdict import SEEN, SHOWN, SMALLER, Absent

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
