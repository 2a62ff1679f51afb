# SPDX-License-Identifier: Apache-2.0
"""Identical code, of which a process may measure several in turn."""

from __future__ import annotations

import pytest

from lab.paper import twins

TURNS = ("b", "a", "c")  # what a command measures in turn


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
