# SPDX-License-Identifier: Apache-2.0
"""The pages of the paper's evaluation: filled, judged, and never bolder than their records."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lab import stats
from lab.bench import ROOT
from lab.matrix import Cell
from lab.paper import (
    contention,
    guide,
    highlight,
    model,
    origins,
    papers,
    render,
    rivals,
    run,
    sectioned,
    sections,
    twins,
)
from lab.paper.catalogue import PAGES
from lab.paper.found import Found
from lab.paper.machine import Events, Machine, distinct, replay
from lab.records import Located, Store, load, read_lines
from lab.report import KINDS, Figures
from lab.tests import fake_bench
from lab.tests.conftest import FAKE, trial
from lab.tests.made import SCALE, of_page, view
from lab.tests.test_pointers import QUICK
from lab.verdict import CONTRADICTED, FEWEST, SEEN, UNDECIDED

pytestmark = pytest.mark.long


ANNOUNCED = [
    {"kind": "announcements", "scheme": s, "threads": t, "announcements_per_op": t / 100}
    for s in ("token", "debra") for t in (2, 192)
]  # fmt: skip


COUNTED = [
    {"kind": "snapshots", "structure": structure, "collector": collector, "threads": 16,
     "readers": 8, "small_readers": 8, "rtx": 16, "rtx_most": 1024, "rtx_share": 0, "theta": 0,
     "stills": 5, "versions_current": 100, "versions_peak": 900, "versions_needed_peak": 150,
     "versions_excess_peak": 700}
    for structure in ("hash", "tree") for collector in ("bbf", "sl_rt")
]  # fmt: skip


def data_of(key: str, folder):
    entry = next(page for page in PAGES if page.key == key)
    return entry, of_page(entry, folder)


def shown_of(key: str, folder, change=lambda record: {}):
    entry, data = data_of(key, folder)
    return view(entry, data.trials, [{**r, **change(r)} for r in data.records])


def test_the_one_shot_pages_have_all_storages(tmp_path):
    shown = shown_of("one-shot-2", tmp_path)
    assert [row[0] for row in shown.blocks[0]["rows"]] == fake_bench.STORAGES
    assert "−50" in shown.here or "-50" in shown.here
    assert "unheard-of" in shown.here
    figure = shown_of("one-shot-10", tmp_path).blocks[0]["figures"][0]
    assert [line["meta"] for line in figure["data"]] == fake_bench.STORAGES
    assert figure["data"][0]["x"] == [1, 2, 8]


def test_a_reader_is_shown_over_time(tmp_path):
    shown = shown_of("one-shot-13", tmp_path)
    assert "unheard-of -10" in shown.here
    assert len(shown.blocks[0]["figures"]) == 2


def test_records_of_one_page_are_not_taken_for_another(tmp_path):
    assert shown_of("one-shot-10", tmp_path, lambda r: {"lab": {"page": "elsewhere"}}) is None


def test_what_held_readers_cost_is_told(tmp_path):
    made = shown_of("held-readers", tmp_path)
    assert "0.90" in made.here
    assert "queue, ordered" in made.here
    assert [len(table["rows"]) for table in made.blocks] == [2 * len(fake_bench.STORAGES)] * 3
    made = shown_of("old-rows", tmp_path)
    assert "a sum by a query 5.00\N{NO-BREAK SPACE}×" in made.here
    new, more = made.blocks[0]["figures"][0]["data"]
    assert (new["x"][0], more["x"][0]) == (2.5, 47.5)
    assert "20.0\N{NO-BREAK SPACE}×" in made.blocks[-1]["rows"][0]


def test_old_reports_are_told_beside_other_engines(tmp_path):
    made = shown_of("old-reports", tmp_path)
    assert "TPC-H query 1 2.00\N{NO-BREAK SPACE}×" in made.here
    assert "sqlite takes there: TPC-H query 1 1.00\N{NO-BREAK SPACE}×" in made.here
    tables = made.blocks[3:]
    names = [*fake_bench.STORAGES, "sqlite", "duckdb"]
    assert [row[0] for row in tables[0]["rows"]] == names
    assert [row[0] for row in tables[3]["rows"]] == fake_bench.STORAGES
    _, data = data_of("old-reports", tmp_path)
    assert {r["kind"] for r in data.records} <= set(KINDS), "the report reads them"


def test_blocks_that_wait_to_be_freed_are_no_leak(tmp_path):
    def verdict(**change):
        def of(record):
            return change if record["collector"] != "epoch_collector" else {}

        return shown_of("held-snapshot", tmp_path, of).verdict

    usual = verdict()
    assert verdict(bytes=16_000_000) == CONTRADICTED != usual
    assert verdict(bytes=16_000_000, bytes_waiting=15_000_000) == usual
    assert verdict(versions_live=50_000) == CONTRADICTED
    # Of 12,500 that are needed 1.3 times as many are allowed, and 960.
    assert verdict(versions_live=17_200) == usual
    assert verdict(versions_live=17_220) == CONTRADICTED


def test_read_log_update_is_told_by_what_was_measured(tmp_path):
    fast = shown_of("sections-structures", tmp_path, lambda r: {"mops": 1 + (r["sync"] == "mvrlu")})
    assert "27 of 27" in fast.here
    slow = shown_of("sections-structures", tmp_path, lambda r: {"mops": 2 - (r["sync"] == "mvrlu")})
    assert (slow.verdict, "0 of 27" in slow.here) == (CONTRADICTED, True)


@pytest.mark.parametrize(
    ("speed", "told"),
    [
        (lambda r: 2 if r["turn_us"] else 1, "Most is gained by giving the processor away, 2"),
        (lambda r: 1 + r["detector"], "least by no thread of its own"),
        (lambda r: 1 + (r["in_place"] and r["threads"] == 1), "by changing objects in place, 2"),
        (lambda r: 1 + (r["sync"] == "mvrlu-hardware"), "least by a shared counter for a clock"),
    ],
)
def test_what_a_feature_is_worth_is_told(tmp_path, speed, told):
    assert told in shown_of("sections-features", tmp_path, lambda r: {"mops": speed(r)}).here


def test_features_are_added_up(tmp_path):
    names = {name for name, *_ in sections.STEPS}
    _, data = data_of("sections-cumulative", tmp_path)
    assert {sections._step_of(r) for r in data.records} == names
    rising = shown_of("sections-cumulative", tmp_path, lambda r: {"mops": 1 + (r["sync"] != "rlu")})
    steps = rising.blocks[0]["figures"][0]["data"][0]["x"]
    assert steps == [1e6] + [2e6] * (len(names) - 1)


def test_skewed_keys_are_drawn_in_all_ways(tmp_path):
    shown = shown_of("sections-zipf", tmp_path,
                     lambda r: {"mops": 2 - r["theta"] + (r["sync"] == "mvrlu")})  # fmt: skip
    assert "readers-writer lock 0.51" in shown.here
    rates, shares = (block["figures"] for block in shown.blocks)
    assert {line["meta"] for line in rates[0]["data"]} == set(sectioned.WAYS["hash"])
    assert {line["meta"] for line in shares[0]["data"]} == set(sectioned.STARTING_OVER)
    assert rates[0]["data"][0]["x"] == list(contention.THETAS)


def test_logs_that_go_on_growing_are_told_of(tmp_path):
    still = shown_of("sections-over-time", tmp_path)
    assert (still.verdict, "1.50 on average" in still.here) == (SEEN, True)

    def grown(r):
        rows = [[*row[:4], 1e5 * row[0], *row[5:]] for row in r["over_time"]]
        return {"over_time": rows} if r["stall"] else {}

    growing = shown_of("sections-over-time", tmp_path, grown)
    assert (growing.verdict, "list, 20" in growing.here) == (CONTRADICTED, True)
    assert "alone" not in growing.here


def test_versions_that_no_snapshot_needs_are_held_against_the_bound(tmp_path):
    # 34 threads: 5 * 34 * 204 and 6 * 204 of the bound, and twice the 50 that snapshots needed
    entry = next(page for page in PAGES if page.key == "snapshots-bound")
    most = {**COUNTED[1], "rtx_most": 256, "versions_excess_peak": 36004}
    shown = view(entry, [], [most] * FEWEST)
    # Of the other collectors and the hash map there is nothing here.
    assert {claim.verdict for claim in shown.claims if not claim.why} == {SEEN}
    assert shown.verdict == UNDECIDED
    assert "At most 7.03 P² log P versions" in shown.here
    assert (
        view(entry, [], [{**most, "versions_excess_peak": 36005}] * FEWEST).verdict == CONTRADICTED
    )


def test_the_schemes_are_compared_under_each_allocator(tmp_path):
    shown = shown_of("experiment-1-allocators", tmp_path)
    charted, table = shown.blocks
    assert len(charted["figures"]) == 4
    assert table["head"][1:] == ["glibc", "jemalloc", "mimalloc", "tcmalloc"]
    assert ["under glibc" in shown.here, "under mimalloc" in shown.here] == [True, True]


def test_sums_are_drawn_as_rates():
    record = {"over_time_columns": ["ms", "passes"], "over_time": [[5 * t, t] for t in range(31)]}
    assert contention.column(record, "passes", True) == [(50, 200), (100, 200), (150, 200)]
    assert contention.column(record, "absent", True) == []


def test_a_page_without_records_is_left_empty():
    found = Found([trial(threads=t) for t in (1, 2)])
    assert [entry.key for entry in PAGES if entry.show(found)] == []


def results(folder) -> list[dict]:
    return [r for path in folder.glob("paper-*.jsonl") for r in read_lines(path)]


def test_the_command_fills_pages_and_goes_on_where_it_was(lab, tmp_path):
    keys = ("announcements", "held-snapshot", "one-shot-14", "figure-6")
    asked = ("paper", *QUICK, "--only", ",".join(keys), "--out", tmp_path)
    done = lab(*asked)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.html").read_text()
    assert all(f'<section id="{key}"' in text for key in keys)
    assert '<section id="rivals"' not in text
    assert "./dev lab paper --only</code>" in text
    assert "<code>rivals</code>" in text
    before = len(results(tmp_path))
    again = lab(*asked)
    assert "0 trials run" in again.stderr
    assert "by the passes that were measured" in again.stderr
    assert len(results(tmp_path)) == before


def test_a_changed_option_measures_anew_and_an_old_one_finds_what_it_had(lab, tmp_path):
    asked = ("paper", "--only", "announcements,one-shot-14", "--trials", "1", "--out", tmp_path)

    def run(seconds: str):
        done = lab(*asked, "--seconds", seconds)
        assert done.returncode == 0, done.stderr
        manifest = json.loads((tmp_path / "pages.json").read_text())["pages"]["one-shot-14"]
        shown = {r["lab"]["cell"] for r in results(tmp_path) if r.get("kind") == "tpcc"}
        return done.stderr, set(manifest) & shown

    first, before = run("0.01")
    assert "9 trials run" in first
    second, after = run("0.02")
    # What is counted has no seconds, and is there.
    assert "8 trials run, 1 were there already" in second
    assert before
    assert not before & after, "the page would show what an earlier run asked for"
    assert "0 trials run" in run("0.01")[0]


def test_a_page_that_fails_fails_the_run_and_is_made_up_for(lab, tmp_path):
    asked = ("paper", "--only", "announcements", "--trials", "1", "--out", tmp_path)
    done = lab(*asked, FAKE_BENCH_FAULT="announcements")
    assert done.returncode == 1
    assert "announcements: announcements: exit code 3: nothing to announce" in done.stderr
    assert "nothing to announce" in (tmp_path / "report.html").read_text()
    again = lab(*asked)
    assert (again.returncode, "1 trials run, 2 were there" in again.stderr) == (0, True)


def test_a_dry_run_tells_all_and_leaves_nothing(lab, tmp_path):
    done = lab("paper", "--only", "one-shot-14", "--dry-run", "--out", tmp_path / "out")
    assert done.returncode == 0
    assert "--partitions 4" in done.stdout
    assert "is not known before the first" in done.stdout
    assert not (tmp_path / "out").exists()


def test_a_dry_run_needs_no_program(lab, tmp_path):
    out = tmp_path / "out"
    asked = ("paper", "--only", "one-shot-14,table-1", "--trials", "1", "--seconds", "0.01",
             "--out", out)  # fmt: skip
    done = lab(*asked, "--dry-run", bench=tmp_path / "gone")
    assert done.returncode == 0, done.stderr
    assert "no program is built" in done.stdout
    assert "Token-EBR, PPoPP 2024: Are Your Epochs Too Epic?" in done.stdout
    assert re.search("  Table 1 +table-1 +What freeing costs", done.stdout)
    assert re.search("  Figure 14 +one-shot-14 +The number of partitions", done.stdout)
    assert "abtree debra/batch" in done.stdout
    assert "--partitions 4" in done.stdout
    assert "is not known before the first" in done.stdout
    assert not out.exists()
    assert lab(*asked).returncode == 0
    told = lab(*asked, "--dry-run", bench=tmp_path / "gone").stdout
    assert "by the passes that were measured" in told


def test_a_run_that_is_interrupted_twice_loses_and_repeats_nothing(tmp_path):
    out = tmp_path / "out"
    words = ("--only", "announcements,one-shot-14,table-1", "--trials", "2", "--seconds", "0.01")
    command = [sys.executable, "-m", "lab", "paper", *words, "--out", str(out)]
    slow = {**os.environ, "SPOLIA_BENCH": str(FAKE), "FAKE_BENCH_SLEEP": "0.2"}

    def finished() -> list[tuple]:
        whole = [r["lab"] for r in results(out) if "lab" in r] if out.exists() else []
        return list(dict.fromkeys((lab["cell"], lab["round"]) for lab in whole))

    def interrupted(how: int, more: int) -> None:
        wanted = len(finished()) + more
        process = subprocess.Popen(command, cwd=ROOT, env=slow, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        deadline = time.monotonic() + 300
        while len(finished()) < wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(how)
        process.wait()
        assert wanted <= len(finished())

    interrupted(signal.SIGINT, 3)
    after_one = finished()
    interrupted(signal.SIGKILL, 3)
    file = next(out.glob("paper-*.jsonl"))
    with file.open("a") as torn:  # as it is when the machine stops amid a line
        torn.write(json.dumps(results(out)[-1])[:-20])
    assert finished()[: len(after_one)] == after_one
    last = subprocess.run(command, cwd=ROOT, env={**slow, "FAKE_BENCH_SLEEP": "0"},
                          capture_output=True, text=True)  # fmt: skip
    assert last.returncode == 0, last.stderr
    every = [r for r in results(out) if "lab" in r]
    manifest = json.loads((out / "pages.json").read_text())
    names = {key for keys in manifest["pages"].values() for key in keys}
    names |= {key for pair in manifest["twins"] for key in pair}
    passes = Counter((r["lab"]["cell"], r["lab"]["round"]) for r in every)
    assert set(passes) == {(name, number) for name in names for number in (0, 1)}
    assert all(passes[r["lab"]["cell"], r["lab"]["round"]] == r["lab"].get("records", 1)
               for r in every), "no pass twice, and none in part"  # fmt: skip


@pytest.mark.parametrize("left", [1, 2])
def test_a_pass_that_was_cut_off_between_lines_is_dropped(tmp_path, left):
    path = tmp_path / "a.jsonl"
    passes = [{"n": n, "lab": {"cell": cell, "round": 0, "records": 3}}
              for cell in ("a", "b") for n in range(3)]  # fmt: skip
    path.write_text("".join(json.dumps(r) + "\n" for r in passes[: 3 + left]) + '{"n": 3, "l')
    with Store(path) as store:
        assert store.finished() == {("a", 0)}
        store.append(*passes[3:])
    with Store(path) as store:
        assert store.records == passes


def test_a_run_whose_time_is_over_says_what_it_left_out(lab, tmp_path):
    asked = ("paper", "--only", "announcements", "--trials", "3", "--out", tmp_path)
    done = lab(*asked, "--minutes", "0.05", FAKE_BENCH_SLEEP="4")
    assert "left out for lack of time" in done.stderr


def test_the_bibliography_says_which_page_is_which_figure():
    text = (Path(__file__).parents[2] / "docs" / "bibliography.md").read_text()
    assert guide.written(text) == text, "python -m lab.paper.guide writes its tables anew"
    made = guide.tables()
    assert [entry.key for entry in PAGES if made.count(f"| `{entry.key}` |") != 1] == []
    assert origins.ORIGINS.keys() <= {entry.key for entry in PAGES}
    left = re.findall(r"^\| \d, ([^|]*) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", text, re.MULTILINE)
    assert left == [(one.paper.venue, one.figures, one.why, f"`{one.near}`" if one.near else "–")
                    for one in origins.ELSEWHERE]  # fmt: skip
    linked = re.findall(r"^\| \d \|.*\[([^]]*)\]\(https://doi\.org/([^)]*)\)", text, re.MULTILINE)
    assert linked == [(paper.doi, paper.doi) for paper in papers.PAPERS]


def printed(text: str) -> set[str]:
    """'Figures 11b, 13 to 15' are Figure 11, Figure 13, Figure 14 and Figure 15."""
    word = text.partition(" ")[0].rstrip("s")
    if word not in ("Figure", "Table"):
        return set()
    spans = re.findall(r"(\d+)[ab]?(?: to (\d+))?", text)
    return {f"{word} {n}" for low, high in spans for n in range(int(low), int(high or low) + 1)}


@pytest.mark.parametrize("paper", papers.PAPERS, ids=lambda paper: paper.name)
def test_each_printed_figure_has_a_page_or_a_reason(paper):
    every = {f"Figure {n + 1}" for n in range(paper.figures)}
    every |= {f"Table {n + 1}" for n in range(paper.tables)}
    have = {key: printed(o.figures) for key, o in origins.ORIGINS.items() if o.paper is paper}
    left = {one.figures: printed(one.figures) for one in origins.ELSEWHERE if one.paper is paper}
    assert set().union(*have.values(), *left.values()) == every
    assert not set().union(*have.values()) & set().union(*left.values()), "here, or not here"
    assert all(one.near in have for one in origins.ELSEWHERE if one.paper is paper and one.near)


def test_a_page_tells_all_that_its_records_were_made_with():
    record = {"kind": "ycsb", "threads": 2, "theta": 0.5, "operations": 10, "columns": 10,
              "width": 8, "records": 1000, "writes": 50, "machine": {"cpu": "A", "cores": 2},
              "allocator": "jemalloc", "partition": 1024, "index": "probing",
              "versions": "steam"}  # fmt: skip
    rows = papers.beside(origins.ORIGINS["one-shot-10"], papers.here([record], 5))
    told = {name: (theirs, mine) for name, theirs, mine in rows}
    assert told["operations of a transaction"] == ("10", "10")
    assert told["warm-up"] == ("a phase of its own", "none")
    assert told["index"] == ("cuckoo hashing", "probing")
    assert told["pinning"] == ("pinned", "none")
    assert told["transactions a partition"] == ("1,024", "1,024")
    assert told["trials"] == ("not said", "5")
    sets = papers.here([{"kind": "sets", "keys": 20, "warm_up_s": 0.1}], 5)
    assert (sets["keys"], sets["keys drawn"]) == ("20, half present", "uniform")
    assert sets["warm-up"] == "0.1 s"
    skewed = papers.here([{"kind": "rlu", "keys": 20, "theta": t} for t in (0, 0.99)], 5)
    assert skewed["keys drawn"] == "Zipf 0.99, uniform"


def test_separate_work_draws_keys_as_the_paper_prints_it():
    for entry in (entry for entry in PAGES if entry.key in ("snapshots-tree", "snapshots-hash")):
        for words in entry.commands(SCALE):
            assert words[words.index("--theta") + 1] == "0.99"


def test_a_full_run_has_the_papers_sizes():
    usual, full = ([words for entry in PAGES for words in entry.commands(scale)]
                   for scale in (SCALE, replace(SCALE, paper=True)))  # fmt: skip
    assert not any("--paper-size" in words for words in usual)
    large = [words for words in full if "--paper-size" in words]
    assert {words[0] for words in large} == {"counted", "rlu", "tpcc"}
    assert not any({"--keys", "--items", "--customers"} & {*words} for words in large)
    assert all("--threads" in words for words in large), "as many as this machine has"


def test_pages_are_found_by_paper_and_figure_and_say_how_they_differ(tmp_path):
    keys = {entry.key for entry in PAGES}
    assert set(origins.ORIGINS) <= keys
    assert origins.ORIGINS["sections-aborts"].paper.doi == "10.1145/3297858.3304040"
    entry, data = data_of("table-2", tmp_path)
    own = sorted({t.record["lab"]["cell"] for t in data.trials})
    made = render.pages(Found(data.trials), Figures(), {entry.key: own})
    page = next(p for p in made if p["key"] == entry.key)
    setup = {name: (theirs, mine) for name, theirs, mine in page["setup"]}
    assert setup["keys"] == ("20,000,000, half present", "20,000, half present")
    assert setup["bag"] == ("what an epoch leaves", "1, 32,768")
    assert setup["trials"] == ("3", "6")
    assert page["figures"] == "Token-EBR, Table 2"
    index = {paper["name"]: paper for paper in render.index(made)}
    assert sum(len(paper["pages"]) for paper in index.values()) == len(PAGES)
    assert sum(index["Token-EBR"]["tally"].values()) == len(page["claims"])


def test_six_curves_stand_out_and_those_that_are_claimed_first(tmp_path):
    entry, data = data_of("experiment-1-abtree", tmp_path)
    shown = view(entry, data.trials, [])
    first = highlight.spoken_of(shown.claims)
    assert {"token_periodic/amortized", "none/batch"} <= set(first[:6])
    made = highlight.block(shown.blocks[0], first)
    grey = {t["meta"] for t in made["figures"][0]["data"] if "@muted" in t["line"]["color"]}
    names = {t["meta"] for t in shown.blocks[0]["figures"][0]["data"]}
    assert len(names - grey) == 6
    assert not grey & set(first[:6])
    assert {c["series"] for c in made["legend"] if "faint" in c["icon"]} == grey
    entry, data = data_of("figure-10", tmp_path)
    few = view(entry, data.trials, [])
    assert highlight.block(few.blocks[0], []) is few.blocks[0]


def test_identical_code_is_compared_and_the_run_checks_itself():
    work = run.work_of(run.chosen(("table", "one-shot", "sections")), SCALE, run.Wishes())
    assert len(work.twins) == twins.PAIRS
    known = set(work.names())
    assert all(one in known and other in known and one != other for one, other in work.twins)
    own = {key for keys in work.pages.values() for key in keys}
    assert not own & {other for _, other in work.twins}, "pages are made of the first of both"

    def outcome(wrong: int):
        records = [
            {"mops": 1.0 + number + 9.0 * (side and place < wrong),
             "lab": {"cell": key, "round": number}}
            for place, pair in enumerate(work.twins)
            for side, key in enumerate(pair) for number in range(5)
        ]  # fmt: skip
        return twins.compared(work.twins, records)

    assert (outcome(0).apart, outcome(0).well) == (0, True)
    assert (outcome(2).apart, outcome(2).well) == (2, True)
    assert (outcome(3).apart, outcome(3).well) == (3, False)
    assert "3 of 48 pairs" in outcome(3).told()
    assert (outcome(0).fails, outcome(3).fails) == (False, True)


@pytest.mark.parametrize(
    ("pairs", "apart", "whole", "speaks", "well", "fails"),
    [
        (0, 0, True, False, False, True), (39, 0, True, False, False, True),
        (40, 2, True, True, True, False), (40, 3, True, True, False, True),
        (0, 0, False, False, False, False), (39, 9, False, False, False, False),
        (40, 3, False, True, False, True),
    ],
)  # fmt: skip
def test_a_check_of_too_few_pairs_does_not_speak(pairs, apart, whole, speaks, well, fails):
    found = twins.Outcome(pairs, apart, whole)
    assert (found.speaks, found.well, found.fails) == (speaks, well, fails)
    assert ("from which on the check" in found.told()) == (not speaks)
    assert ("a run of all pages fails it" in found.told()) == (fails and not speaks)


def test_a_run_of_all_pages_is_told_from_one_of_some():
    assert run.work_of(run.chosen(()), SCALE, run.Wishes()).whole
    assert not run.work_of(run.chosen(("table",)), SCALE, run.Wishes(only=("table",))).whole


def test_time_is_told_by_passes(tmp_path):
    def passed(cell, number, took):
        return {"lab": {"cell": cell, "round": number, "took_s": took}}

    command = run.Command("page", ("counted",), "glibc")
    work = run.Work([], [command], 3, 1)
    assert run.expected_seconds(work, []) is None
    # A command's records all tell of the same pass.
    seen = [passed(command.key(), 0, 4.0), passed(command.key(), 0, 4.0), passed("other", 0, 99)]
    assert run.expected_seconds(work, seen) == 8
    assert run.expected_seconds(work, [*seen, passed(command.key(), 1, 2.0)]) == 3


def test_a_page_is_made_of_its_own_parts_and_says_what_is_missing(tmp_path):
    entry, data = data_of("table-1", tmp_path)
    own = sorted({t.record["lab"]["cell"] for t in data.trials})
    found = Found(data.trials)
    assert found.only(own[:1]).trials != found.trials
    whole, part = (
        next(p for p in render.pages(found, Figures(), {entry.key: keys}) if p["key"] == entry.key)
        for keys in (own, [*own, "gone"])
    )
    assert part["claims"][:-1] == whole["claims"]
    assert part["claims"][-1]["here"] == f"1 of {len(own) + 1} were not measured"


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


def test_rivals_of_any_name_stand_beside_ours():
    ran = (("abtree", "token", "amortized", 3e6), ("odd_map", "x", "own", 1e6))
    made = [trial(structure=s, scheme=c, release=r, threads=t, ops_per_s=speed)
            for s, c, r, speed in ran for t in (1, 2) for _ in range(4)]  # fmt: skip
    shown = rivals.RIVALS.show(Found(made))
    assert shown.verdict == "shown", "nothing of ours is like it"
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


def test_events_of_an_allocator_that_tells_nothing_give_no_model(tmp_path):
    _, data = data_of("model", tmp_path)
    silent = [Located({**t.record, "allocator_flushes": None}, t.path) for t in data.trials]
    assert model.show(Found(silent)) is None


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
