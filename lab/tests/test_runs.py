# SPDX-License-Identifier: Apache-2.0
"""Runs of pages: what fails is tried again, told of, and never taken for well; what one command
measures in turn comes in another order each round, and each of it is a pair of identical code."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from lab import allocators, peers, report, verdict
from lab.bench import Catalogue, Trial
from lab.matrix import Cell
from lab.paper import render, run, twins
from lab.paper.catalogue import PAGES
from lab.paper.found import Found
from lab.records import impossible, open_failures, read_lines
from lab.report import Figures
from lab.tests.conftest import trial
from lab.tests.made import SCALE, of_page, view
from lab.verdict import SEEN, UNDECIDED

CELL = Cell("abtree", "token", "amortized", 2, 1000, 100, 1.0)
FINE = run.Command("page", ("ycsb", "--fine"), "glibc")
ODD = run.Command("page", ("ycsb", "--odd"), "glibc")
TURNS = ("b", "a", "c")  # what a command of the stand-in measures in turn


class Program:
    """A benchmark in this process, which fails where it is told to."""

    def __init__(self, *fails: str):
        self.fails, self.asked = fails, []

    def fingerprint(self) -> str:
        return "of the stand-in"

    def catalogue(self):
        return SimpleNamespace(about={})

    def _failure(self, label: str) -> str:
        self.asked.append(label)
        return "no luck" if any(name in label for name in self.fails) else ""

    def trial(self, cell, seed, timeout, trace) -> Trial:
        if failure := self._failure(cell.label()):
            return Trial(failure=failure)
        return Trial(record=dict(trial().record))

    def records(self, words, target, timeout, allocator) -> str:
        failure = self._failure(" ".join(words))
        if not failure:
            order = int(words[words.index("--order") + 1]) if "--order" in words else 0
            common = {"kind": "ycsb", "writes": 50, "machine": {"cores": 2}, "threads": 2,
                      "tx_per_s": 1.0 + order}  # fmt: skip
            made = ({**common, "engine": name, "versions": name} for name in TURNS)
            target.write_text("".join(json.dumps(record) + "\n" for record in made))
        return failure

    def times(self, name: str) -> int:
        return sum(name in asked for asked in self.asked)


def work(rounds: int = 3, cells=(CELL,), commands=(FINE, ODD), minutes: float = 60) -> run.Work:
    names = [*(c.hash() for c in cells), *(c.key() for c in commands)]
    return run.Work([*cells], [*commands], rounds, 1, 60 * minutes, {"page": names}, whole=False)


def ran(folder, program: Program, wanted: run.Work) -> tuple[bool, str]:
    """Whether all went well, and what was said."""
    told = io.StringIO()
    return run.run(program, folder, wanted, Console(file=told, width=200)), told.getvalue()


@pytest.mark.parametrize(("record", "told"), [
    ({"kind": "ycsb", "tx_per_s": 0}, ""), ({"kind": "ycsb"}, ""), ({"mops": 1.5}, ""),
    ({"kind": "ycsb", "tx_per_s": -1.0}, "tx_per_s is -1.0"), ({"mops": True}, "mops is True"),
    ({"kind": "rlu", "mops": float("nan")}, "mops is nan"), ({"ops_per_s": 0}, "ops_per_s is 0"),
    ({"kind": "rlu", "mops": float("inf")}, "mops is inf"), ({"mops": "fast"}, "mops is fast"),
])  # fmt: skip
def test_a_speed_that_cannot_be_is_a_failed_trial(record, told):
    assert impossible([{"kind": "rlu", "mops": 1.0}, record]) == told


def test_a_command_whose_speed_cannot_be_has_no_result(tmp_path):
    class Odd(Program):
        def records(self, words, target, timeout, allocator) -> str:
            failure = super().records(words, target, timeout, allocator)
            if "--odd" in words:
                target.write_text(target.read_text().replace('"tx_per_s": 1.0', '"tx_per_s": NaN'))
            return failure

    well, told = ran(tmp_path, Odd(), work(rounds=1))
    assert (well, "tx_per_s is nan" in told) == (False, True)


def test_what_fails_is_tried_twice_in_a_run_and_once_in_a_later_one(tmp_path):
    program = Program("--odd", "abtree")
    well, told = ran(tmp_path, program, work(rounds=5))
    assert not well
    assert [program.times(name) for name in ("--odd", "abtree", "--fine")] == [2, 2, 5]
    assert "no result: ycsb --odd: no luck" in told
    assert f"no result: {CELL.label()}: no luck" in told
    kept = open_failures([run.results_of(program, tmp_path)])
    assert {entry["failure"] for entry in kept} == {"no luck"}
    for _ in range(2):
        later = Program("--odd", "abtree")
        well, told = ran(tmp_path, later, work(rounds=5))
        assert not well
        assert [later.times(name) for name in ("--odd", "abtree", "--fine")] == [1, 1, 0]
        assert "no result: ycsb --odd: no luck" in told
    mended = Program()
    assert ran(tmp_path, mended, work(rounds=5))[0]
    assert [mended.times(name) for name in ("--odd", "abtree", "--fine")] == [5, 5, 0]


def test_a_run_goes_on_however_many_cells_fail(tmp_path):
    cells = [replace(CELL, threads=threads) for threads in range(1, 8)]
    program = Program("abtree")
    well, told = ran(tmp_path, program, work(rounds=2, cells=cells))
    assert not well
    assert [program.times(name) for name in ("abtree", "--fine")] == [14, 2]
    assert told.count("no result: abtree") == 7


def test_what_failed_in_the_last_round_is_tried_once_more(tmp_path):
    class Unlucky(Program):
        def _failure(self, label: str) -> str:
            super()._failure(label)
            return "no luck" if self.times("--odd") == 1 and "--odd" in label else ""

    program = Unlucky()
    well, told = ran(tmp_path, program, work(rounds=1))
    assert program.times("--odd") == 2
    assert not open_failures([run.results_of(program, tmp_path)])
    assert well
    assert "1 failed" in told


def test_a_run_ends_badly_as_long_as_a_cell_has_no_result(tmp_path):
    ran(tmp_path, Program("--odd"), work())
    program = Program()
    # There is no time to try it again, so that nothing fails.
    well, told = ran(tmp_path, program, work(minutes=0))
    assert program.asked == []
    assert not well
    assert "no result: ycsb --odd: no luck" in told
    # Nor is a cell that no run had the time for.
    well, told = ran(tmp_path / "other", program, work(minutes=0))
    assert not well
    assert "no result: ycsb --fine: the time was over" in told
    # What other pages left failed is theirs.
    assert ran(tmp_path, program, work(commands=(FINE,)))[0]


def test_a_round_that_failed_is_told_of_though_others_did_not(tmp_path):
    ran(tmp_path, Program(), work(rounds=1))
    ran(tmp_path, Program("--odd"), work(rounds=2))
    well, told = ran(tmp_path, Program(), work(rounds=2, minutes=0))
    assert not well
    assert "a round failed: ycsb --odd: no luck" in told
    assert ran(tmp_path, Program(), work(rounds=1))[0], "the round is not asked for"


def page_told(folder, program: Program, key: str, own: list, monkeypatch) -> dict:
    """How the report has the page when this program was to run what is its own."""
    commands = [run.Command(key, words, "glibc") for words in own]
    names = [CELL.hash(), *(c.key() for c in commands)]
    wanted = run.Work([CELL], commands, 1, 1, 60.0, {key: names}, whole=False)
    ran(folder, program, wanted)
    made = []
    real = render.pages
    monkeypatch.setattr("lab.report.paper_pages",
                        lambda *given: made.extend(real(*given)) or made)  # fmt: skip
    page, wrong = run.report(folder, "title")
    assert wrong == []
    made[0]["html"] = page.read_text()
    return {**next(p for p in made if p["key"] == key), "html": made[0]["html"]}


def test_what_is_left_where_rounds_failed_decides_nothing(tmp_path):
    """It could be the slow trials that are gone."""
    entry = next(page for page in PAGES if page.key == "figure-10")
    data = of_page(entry, tmp_path)
    own = sorted({t.record["lab"]["cell"] for t in data.trials})
    whole, failed = (
        next(p for p in render.pages(Found(data.trials), Figures(), {entry.key: own}, told)
             if p["key"] == entry.key)
        for told in (render.Told(), render.Told({}, {own[0]: "no end after 60 s"}))
    )  # fmt: skip
    assert failed["claims"][:-1] == whole["claims"]
    last = failed["claims"][-1]
    assert (last["here"], last["verdict"]) == (f"1 of {len(own)} failed in some round", UNDECIDED)


def test_no_verdict_is_shown_where_identical_code_came_out_different():
    row = {"verdict": SEEN, "claims": [{"verdict": SEEN}, {"verdict": "not judged here"}],
           "tally": {**verdict.tally([SEEN, "contradicted", "not judged here"])}}  # fmt: skip
    shown = {"verdict": "shown", "claims": [], "tally": {}}
    render.void([row, shown])
    assert row["verdict"] == UNDECIDED
    assert [claim["verdict"] for claim in row["claims"]] == [UNDECIDED, "not judged here"]
    assert row["tally"] == {**verdict.tally([]), UNDECIDED: 2, "not judged here": 1}
    assert shown == {"verdict": "shown", "claims": [], "tally": {}}
    seen = []
    render_with(twins.Outcome(60, 9), seen)
    assert seen == ["void"]
    render_with(twins.Outcome(60, 1), seen)
    assert seen == ["void"]


def render_with(alike: twins.Outcome, seen: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "void", lambda _: seen.append("void"))
        report.render([trial()], {"schemes": [], "guards": []}, [], "A title", {}, alike)


def test_a_file_that_is_given_twice_counts_once(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps({**trial().record, "ops_per_s": 1e6 + n}) + "\n"
                            for n in range(2)))  # fmt: skip
    again = tmp_path / "folder" / ".." / "r.jsonl"
    (tmp_path / "folder").mkdir()
    report.write_report([path, again], tmp_path / "page.html")
    assert "2 in 1 configurations, 2 of each" in (tmp_path / "page.html").read_text()


def test_a_page_names_what_failed_and_why(tmp_path, monkeypatch):
    told = page_told(tmp_path, Program("--odd"), "one-shot-2",
                     [("ycsb", "--odd"), ("ycsb", "--fine")], monkeypatch)  # fmt: skip
    assert told["gaps"] == ["ycsb --odd: no result: no luck"]
    assert (told["blocks"], told["verdict"]) == ([], UNDECIDED)
    assert "ycsb --odd: no result: no luck" in told["html"]


def test_a_page_of_commands_stands_though_its_cell_failed(tmp_path, monkeypatch):
    told = page_told(tmp_path, Program("abtree"), "one-shot-2", [("ycsb", "--fine")],
                     monkeypatch)  # fmt: skip
    assert told["gaps"] == [f"{CELL.label()}: no result: no luck"]
    assert told["gaps"][0] in told["html"]


def test_a_page_without_claims_says_what_is_missing(tmp_path):
    members = [trial(structure="avl", scheme=s, release=r, threads=t,
                     lab={"cell": f"{s}{t}", "round": 0})
               for s, r in (("token_periodic", "amortized"), ("none", "batch"), ("debra", "batch"))
               for t in (1, 2)]  # fmt: skip
    own = [t.record["lab"]["cell"] for t in members]
    told = render.Told({"gone": "avl debra/amortized"}, {})

    def made(names: list[str]) -> dict:
        pages = render.pages(Found(members), Figures(), {"experiment-1-avl": names}, told)
        return next(page for page in pages if page["key"] == "experiment-1-avl")

    assert (made(own)["verdict"], made(own)["gaps"]) == ("shown", [])
    part = made([*own, "gone"])
    assert part["verdict"] == UNDECIDED
    assert part["gaps"] == ["avl debra/amortized: no result: not run"]


# ---- orders


def test_each_round_measures_in_another_order_and_counts_as_the_same_cell(tmp_path):
    program = Program()
    assert ran(tmp_path, program, work(rounds=3, commands=(FINE,)))[0]
    asked = [words for words in program.asked if "--fine" in words]
    assert [words.split("--order ")[1] for words in asked] == ["0", "1", "2"]
    records = [r for r in read_lines(run.results_of(program, tmp_path)) if r.get("kind") == "ycsb"]
    assert {r["lab"]["cell"] for r in records} == {FINE.key()}
    assert len({r["lab"]["round"] for r in records}) == 3


def test_every_command_that_measures_several_in_turn_is_told_the_order():
    """But announcements, which are counted, and read-log-update, of one way in each command."""
    commands = [words for entry in PAGES for words in entry.commands(SCALE)]
    alone = {words[0] for words in commands} - set(run.ORDERED)
    assert alone == {"announcements", "rlu"}
    for words in commands:
        told = run.Command("page", words, "glibc").told(1, 3)
        assert (told[-2:] == ["--order", "3"]) == (words[0] not in alone)


def test_other_engines_take_turns_in_the_order_of_the_round(monkeypatch):
    one, other = peers.Sqlite, type("Other", (), {})
    monkeypatch.setattr(peers, "duckdb", True)
    monkeypatch.setattr(peers, "Duckdb", other)
    assert [peers.engines(n) for n in range(5)] == [
        [one, other], [other, one], [other, one], [one, other], [one, other]]  # fmt: skip


# ---- what there is not


def catalogue(**more) -> Catalogue:
    return Catalogue((), (), (), frozenset(), {}, **more)


def test_what_a_program_or_machine_is_without_is_not_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(allocators, "FOLDERS", [tmp_path])
    monkeypatch.setattr(peers, "duckdb", None)
    ways = {"list": ["harris-michael-hp"], "hash": ["mvrlu", "rlu", "rlu-deferred", "rwlock"],
            "tree": ["rcu", "lock-free"], "cache": ["rwlock"]}  # fmt: skip
    foreign = {"tbb_hash_map": {"built": False}, "std_map": {"built": True}}
    gone = run.lacking(catalogue(ways=ways, pointers=["raw", "thin"], foreign=foreign))
    assert {"jemalloc", "tcmalloc", "mimalloc", "duckdb", "kyotocabinet", "tbb_hash_map",
            "std-atomic"} <= set(gone)  # fmt: skip
    assert not {"glibc", "mvrlu", "rcu", "raw", "std_map"} & set(gone)
    assert gone["kyotocabinet"] == "the program was built without kyotocabinet"
    assert "kyotocabinet" not in run.lacking(catalogue()), "an older program does not tell"
    without = SCALE.__class__(**{**vars(SCALE), "lacking": gone})
    words = {word for entry in PAGES for command in entry.commands(without) for word in command}
    every = {word for entry in PAGES for command in entry.commands(SCALE) for word in command}
    assert "kyotocabinet" in every - words
    assert any("tbb_hash_map" in word for word in every)
    assert not any("tbb_hash_map" in word for word in words)


def test_a_claim_of_what_there_is_not_is_listed_and_does_not_count(tmp_path):
    """The rival is not there: of the others the page can say that all was seen. It is there and was
    not run: then nothing is decided."""
    entry = next(entry for entry in PAGES if entry.key == "sections-cache")
    data = of_page(entry, tmp_path)
    records = [{**r, "mops": 100.0 * r["threads"] if r["sync"] == "mvrlu" else 1.0}
               for r in data.records if r["sync"] != "kyotocabinet"]  # fmt: skip
    for place, r in enumerate(records):  # the stand-in has two of each
        r["lab"] = {**r["lab"], "cell": "ab"[place % 2], "round": r["trial"]}

    def made(lacking: dict[str, str]) -> dict:
        found = Found(data.trials, store=records, lacking=lacking)
        pages = render.pages(found, Figures(), {entry.key: ["a", "b"]})
        return next(page for page in pages if page["key"] == entry.key)

    why = "the program was built without kyotocabinet"
    known = made({"kyotocabinet": why})
    assert (known["verdict"], known["judged_of"]) == (SEEN, "of 4 of 8 claims")
    assert len(known["barred"]) == 4
    assert all(told.endswith(why) for told in known["barred"])
    assert (made({})["verdict"], made({})["barred"]) == (UNDECIDED, [])


@pytest.mark.parametrize(("key", "count"), [("table-1", 1), ("announcements", 2),
                                            ("sections-records", 2), ("sections-cumulative", 1),
                                            ("figure-8", 1), ("figure-9", 0)])  # fmt: skip
def test_a_page_lists_what_it_does_not_judge(key, count, tmp_path):
    entry = next(entry for entry in PAGES if entry.key == key)
    data = of_page(entry, tmp_path)
    shown = view(entry, data.trials, data.records)
    assert len(shown.barred) == count
    assert all(claim.why for claim in shown.barred)
