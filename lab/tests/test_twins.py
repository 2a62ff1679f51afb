# SPDX-License-Identifier: Apache-2.0
"""Identical code, of which a process may measure several in turn."""

from __future__ import annotations

import pytest

from lab.paper import twins
from lab.verdict import interval

TURNS = ("b", "a", "c")  # what a command measures in turn


def test_identical_code_is_set_apart_only_by_more_than_one_interval_in_twenty():
    """Five trials of each: those that 95 % set apart, and 99 % does not."""
    ones, others = (5.0, 6.0, 7.0, 8.0, 9.0), (1.0, 2.0, 3.0, 4.0, 5.5)
    assert interval(ones, others).without_one
    records = [{"mops": speed, "lab": {"cell": cell, "round": n}}
               for cell, speeds in (("a", ones), ("b", others))
               for n, speed in enumerate(speeds)]  # fmt: skip
    assert twins.compared([("a", "b")], records).apart == 0


def passes_of(cell: str, apart: str = "") -> list[dict]:
    """Records of a command that measures three; of one of them ten times as much."""
    return [{"kind": "ycsb", "engine": name, "tx_per_s": (10.0 if name == apart else 1.0) + n / 9,
             "conditions": ["engine"], "lab": {"cell": cell, "round": n}}
            for n in range(5) for name in (TURNS if n % 2 else TURNS[::-1])]  # fmt: skip


@pytest.mark.parametrize("apart", TURNS)
def test_identical_code_is_compared_in_every_record_of_a_process(apart):
    pairs = [(f"a{n}", f"b{n}") for n in range(20)]
    alike = [r for pair in pairs for key in pair for r in passes_of(key)]
    assert twins.compared(pairs, alike) == twins.Outcome(60, 0, True)
    odd = [r for n, pair in enumerate(pairs) for side, key in enumerate(pair)
           for r in passes_of(key, apart if side and n < 4 else "")]  # fmt: skip
    assert twins.compared(pairs, odd) == twins.Outcome(60, 4, True)
    assert twins.compared(pairs, odd).fails
