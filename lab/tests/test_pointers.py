# SPDX-License-Identifier: Apache-2.0
"""The pages on counted pointers: judged by what was measured, whatever is missing."""

from __future__ import annotations

import pytest

from lab.paper.catalogue import PAGES
from lab.paper.found import Found
from lab.tests.conftest import trial
from lab.verdict import CONTRADICTED, FEWEST, SEEN, SMALLER, UNDECIDED, weakest

QUICK = ("--quick", "--seconds", "0.01", "--trials", "2")


POINTERS = [
    {"kind": "counted", "test": test, "structure": structure, "pointer": pointer,
     "threads": threads, "mops": mops}
    for test, structure in (("contention", None), ("read", "bst"), ("insert", "hash"),
                            ("mixed", "hash"))
    for pointer, mops in (("raw", 30.0), ("private", 25.0), ("thin", 28.0), ("std-atomic", 2.0))
    for threads in (1, 2)
]  # fmt: skip


ENDS = [
    {"kind": "counted", "test": "destroy", "structure": None, "pointer": pointer, "threads": 1,
     "mops": 1.0, "pause_p50_ns": 30, "pause_p99_ns": 90, "pause_p999_ns": 5000,
     "pause_p9999_ns": 20000, "pause_max_ns": longest, "unreclaimed_peak": left,
     "work_p50_ns": 30, "work_p99_ns": 80, "work_p999_ns": 4000, "work_p9999_ns": 9000,
     "work_max_ns": 10_000, "pauses_below_ns": [[64, 9000], [131072, 3]]}
    for pointer, longest, left in (("private", 70_000, 25_000), ("thin", 70_000, 25_000),
                                   ("std-atomic", 2_000_000, 0))
]  # fmt: skip

INSIDE = [
    {"kind": "counted", "test": "parts", "pointer": "thin", "threads": 1, "operations": 10,
     "count_ns": 20, "make_ns": 300, "set_ns": 100, "scan_ns": 10, "sweep_ns": 40, "end_ns": 30,
     "rest_ns": 500, "pauses_below_ns": [[32.5, 90], [65, 7]]},
    *({"kind": "counted", "test": test, "pointer": "thin", "threads": 1, "waiting_peak": 4000,
       "ended_per_epoch": [4096, 5000, 17]} for test in ("stream", "burst")),
]  # fmt: skip


def found(pointers: list[dict]) -> Found:
    return Found([trial()], pointers=[dict(r) for r in pointers for _ in range(FEWEST)])


def told_of(claim) -> str:
    return f"{claim.where} {getattr(claim, 'arm', getattr(claim, 'more', None)).name}"


def test_the_command_measures_pointers(lab, tmp_path):
    done = lab("paper", *QUICK, "--only", "pointers", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.html").read_text()
    keys = ("object", "containers", "strings", "ends", "times", "slop")
    assert all(f'<section id="pointers-{key}"' in text for key in keys)


def test_a_page_that_lacks_pointers_is_not_decided():
    alone = found([r for r in POINTERS if r["pointer"] == "raw"])
    for key in ("object", "containers", "strings"):
        assert next(p for p in PAGES if p.key == f"pointers-{key}").show(alone).verdict == UNDECIDED


def test_the_wall_clock_is_shown_of_what_has_all_tests():
    containers = next(page for page in PAGES if page.key == "pointers-containers")
    whole = [{**r, "structure": "btree", "test": test, "mops": 10.0}
             for test in ("read", "hot", "insert", "remove")
             for r in POINTERS if r["test"] == "read" and r["pointer"] != "thin"]  # fmt: skip
    blocks = containers.show(found(POINTERS + whole)).blocks
    walls = [block for block in blocks if "the wall" in block.get("title", "")]
    assert [block["title"] for block in walls] == ["B+ tree: by the clock on the wall, 2 threads"]
    bars = walls[0]["figures"][0]["data"]
    assert [bar["meta"] for bar in bars] == ["read", "hot", "insert", "remove"]
    assert all(bar["x"] == [1e8] * 3 for bar in bars)


def test_lines_of_pointers_have_their_names_in_the_legend():
    for key in ("object", "containers", "strings"):
        shown = next(page for page in PAGES if page.key == f"pointers-{key}").show(found(POINTERS))
        for block in (block for block in shown.blocks if block["kind"] == "charts"):
            named = {chip["series"] for chip in block["legend"]}
            assert {line["meta"] for made in block["figures"] for line in made["data"]} == named


@pytest.mark.parametrize("structure", ["tree", "btree-locked"])
def test_changes_of_a_tree_with_node_locks_are_judged(structure):
    containers = next(page for page in PAGES if page.key == "pointers-containers")
    read = {"raw": 30.0, "thin": 28.0, "std-atomic": 0.2}

    def judged(**mops: float) -> str:
        made = containers.show(found([
            {"kind": "counted", "test": test, "structure": structure, "pointer": pointer,
             "threads": 1, "mops": speed * (1 + trial_number / 100)}
            for test in ("read", "remove") for trial_number in range(5)
            for pointer, speed in (read if test == "read" else mops).items()
        ]))  # fmt: skip
        assert made.verdict in (UNDECIDED, CONTRADICTED), "other containers were not run"
        return weakest(claim.verdict for claim in made.claims if not claim.why)

    assert judged(raw=3.0, thin=2.5, **{"std-atomic": 0.5}) == SEEN
    assert judged(raw=3.0, thin=1.0, **{"std-atomic": 0.2}) == CONTRADICTED
    assert judged(raw=3.0, thin=2.5, **{"std-atomic": 1.5}) == SMALLER


def test_pauses_are_judged():
    ends = next(page for page in PAGES if page.key == "pointers-ends")
    assert ends.show(found(ENDS)).verdict == SEEN
    wall, work = (block["rows"] for block in ends.show(found(ENDS)).blocks[1:])
    assert (wall[0][-2], work[0][-2]) == ("70\N{NO-BREAK SPACE}µs", "10\N{NO-BREAK SPACE}µs")
    assert ends.show(found([{**r, "work_max_ns": 2e6} for r in ENDS[:2]])).verdict == SEEN
    assert ends.show(found(ENDS[1:])).verdict == UNDECIDED
    for worse in ({"pause_max_ns": 2e6}, {"unreclaimed_peak": 80_000}):
        assert ends.show(found([{**ENDS[0], **worse}, ENDS[1]])).verdict == CONTRADICTED
    assert ends.show(found(ENDS[2:])).verdict == UNDECIDED
    assert ends.show(found([])) is None


def test_what_the_collector_does_meanwhile_is_judged():
    times, slop = (next(page for page in PAGES if page.key == f"pointers-{key}")
                   for key in ("times", "slop"))  # fmt: skip
    good = found(INSIDE)
    both = [{**r, "pointer": name} for r in INSIDE for name in ("private", "thin")]
    assert slop.show(found(both)).verdict == SEEN
    assert times.show(found(both)).verdict in (SEEN, CONTRADICTED)
    for page in (times, slop):  # it is about two pointers, of which one is missing
        shown = page.show(good)
        assert "not measured" in {c.why for c in shown.claims if "private_ptr" in told_of(c)}
    assert "2\N{NO-BREAK SPACE}%" in times.show(good).here
    assert times.show(good).blocks[-1]["figures"][0]["data"][0]["x"] == [32.5, 65]
    late = [{**INSIDE[2], "ended_per_epoch": [10] * 101}]
    assert slop.show(found(late)).verdict == CONTRADICTED
    assert slop.show(good).verdict == UNDECIDED
    assert slop.show(found(both[:4])).verdict == UNDECIDED
    assert times.show(found([])) is None
    assert slop.show(found([])) is None
    by_length = next(page for page in PAGES if page.key == "pointers-ends")
    assert by_length.show(found(ENDS)).blocks[0]["kind"] == "charts"
