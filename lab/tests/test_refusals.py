# SPDX-License-Identifier: Apache-2.0
"""What must not pass: records as the program really writes them, and what they must not be taken
for."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from lab.cli import cli
from lab.paper import (
    amortizing,
    arms,
    contention,
    factors,
    papers,
    pointers,
    render,
    rivals,
    run,
    tokens,
    twins,
)
from lab.paper.catalogue import PAGES
from lab.paper.found import Found
from lab.report import ASSETS, Figures
from lab.tests.conftest import FAKE, trial
from lab.tests.made import SCALE, of_page, view
from lab.verdict import (
    BOUND,
    CONTRADICTED,
    LEVEL,
    MORE,
    SEEN,
    UNDECIDED,
    Arm,
    Growth,
    Promise,
)


def page_of(key: str):
    return next(entry for entry in PAGES if entry.key == key)


def test_a_storage_without_partitions_has_none_and_the_page_is_made(tmp_path):
    entry = page_of("one-shot-14")
    data = of_page(entry, tmp_path)
    most = {r["versions"]: r["partitions_most"] for r in data.records}
    assert (most["steam"], most["one-shot"]) == (None, 8)
    assert view(entry, data.trials, data.records).claims


def test_a_page_that_falls_over_leaves_the_others_whole_and_fails_the_run(tmp_path, monkeypatch):
    entry, other = page_of("one-shot-2"), page_of("one-shot-12")
    data = [of_page(one, tmp_path) for one in (entry, other)]

    def falls(_):
        raise TypeError("None < 2")

    monkeypatch.setattr(render, "PAGES", [
        type(entry)(**{**vars(entry), "show": falls}), other])  # fmt: skip
    every = [r for one in data for r in one.records]
    made = render.pages(Found([], store=every), Figures())
    assert [bool(page["blocks"]) for page in made] == [False, True]
    assert render.broken(made) == [
        "one-shot-2: this page could not be made: TypeError: None < 2"]  # fmt: skip


def test_a_run_with_a_page_that_fell_over_ends_badly(tmp_path, monkeypatch):
    page = tmp_path / "report.html"
    page.write_text("made")
    monkeypatch.setattr(run, "run", lambda *_: True)
    monkeypatch.setattr(run, "report", lambda *_: (page, ["one-shot-14: no"]))
    monkeypatch.setattr(run, "scale_of", lambda *_: None)
    monkeypatch.setattr(run, "work_of", lambda *_: None)
    done = CliRunner().invoke(cli, ["paper", "--bench", str(FAKE), "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "one-shot-14: no" in done.output


def paired(pairs, apart: int, trials: int = 5) -> list[dict]:
    return [{"mops": 1.0 + number + 9.0 * (side and place < apart),
             "lab": {"cell": key, "round": number}}
            for place, pair in enumerate(pairs) for side, key in enumerate(pair)
            for number in range(trials)]  # fmt: skip


def told_of(folder: Path, records: list[dict], monkeypatch) -> twins.Outcome:
    """What the report says of identical code."""
    (folder / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    kept = {}
    monkeypatch.setattr(run, "write_report", lambda *_, **given: kept.update(given) or [])
    run.report(folder, "title")
    return kept["alike"]


WHOLE = run.Work([], [], 5, 1, pages={"figure-1": ["a", "b"], "figure-2": ["c"]},
                 twins=[(f"a{n}", f"b{n}") for n in range(48)])  # fmt: skip


def test_a_run_that_failed_its_check_is_not_made_good_by_one_of_a_page(tmp_path, monkeypatch):
    records = paired(WHOLE.twins, apart=20)
    manifest = (tmp_path, tmp_path / "a.jsonl")
    run._write_manifest(*manifest, WHOLE)
    assert told_of(tmp_path, records, monkeypatch).fails
    # The page is asked for again as it was, so it has the former figures; so has the other one.
    for own in (["a", "b"], ["new"]):
        one = replace(WHOLE, pages={"figure-1": own}, twins=[("a0", "b0")], whole=False)
        run._write_manifest(*manifest, one)
        found = told_of(tmp_path, records, monkeypatch)
        assert (found.fails, found.apart) == (True, 20)
    # No page has figures of the run that failed.
    run._write_manifest(*manifest, replace(one, pages={"figure-2": ["other"]}))
    assert not told_of(tmp_path, records, monkeypatch).fails


def test_a_check_of_the_same_pairs_takes_the_former_ones_place(tmp_path, monkeypatch):
    run._write_manifest(tmp_path, tmp_path / "a.jsonl", WHOLE)
    run._write_manifest(tmp_path, tmp_path / "a.jsonl", WHOLE)
    assert len(run.read_manifest(tmp_path)["checks"]) == 1
    assert not told_of(tmp_path, paired(WHOLE.twins, apart=2), monkeypatch).fails


def test_all_pages_by_name_are_all_pages():
    every = run.Wishes(only=tuple(entry.key for entry in PAGES), trials=4)
    assert run.work_of(PAGES, SCALE, every).whole
    assert not run.work_of(PAGES[1:], SCALE, run.Wishes(only=("x",))).whole


def test_four_trials_decide_claims_so_the_check_has_to_speak():
    pairs = WHOLE.twins
    assert twins.compared(pairs, paired(pairs, 0, 4), whole=False).fails
    assert not twins.compared(pairs, paired(pairs, 0, 3), whole=False).fails, "nothing is decided"
    assert not twins.compared(pairs[:39], paired(pairs[:39], 0, 4), whole=False).fails


def promise(*values: float, value="pause_max_ns", **fields) -> Promise:
    return arms.promised([{value: each, **fields} for each in values], "a", value, 5.0)


def test_a_bound_takes_as_many_trials_as_a_comparison():
    assert promise(1).why == "1 trials decide nothing"
    assert promise(1, 1, 9).verdict == UNDECIDED
    assert promise(1, 2, 3, 4).verdict == SEEN
    assert promise(1, 2, 3, 9).verdict == CONTRADICTED


@pytest.mark.parametrize("name", ["machine", "compiler", "keys", "revision"])
def test_a_bound_of_trials_of_several_conditions_is_not_decided(name):
    mixed = [*promise(1, 2, 3, **{name: "a"}).arm.records, {"pause_max_ns": 1, name: "b"}]
    told = f"{name} differs between trials of one arm: a, b"
    made = arms.promised(mixed, "a", "pause_max_ns", 5.0)
    assert (made.verdict, made.why) == (UNDECIDED, told)
    assert arms.promised(mixed, "a", "pause_max_ns", 5.0, along=(name,)).verdict == SEEN


@pytest.mark.parametrize("kind", [MORE, LEVEL, BOUND])
@pytest.mark.parametrize("value", ["tx_per_s", "mops", "ops_per_s", "peak_rss_bytes", "conflicts"])
def test_arms_of_which_nothing_was_measured_are_not_equal(kind, value):
    zeros = [Arm(way, ({value: 0, "release": way},) * 6, value) for way in "xy"]
    made = arms.claim(*zeros, kind=kind, factor=0.85, varies=factors.RELEASE)
    assert made.verdict == UNDECIDED


def test_a_speed_of_zero_cannot_be():
    assert promise(0, 1, 2, 3, value="tx_per_s").why == "a: tx_per_s of record 1 is 0"
    assert promise(0, 1, 2, 3, value="conflicts").verdict == SEEN, "none at all is a figure"


def test_a_page_of_zeros_is_not_seen(tmp_path):
    entry = page_of("one-shot-14")
    data = of_page(entry, tmp_path)
    still = [{**r, "tx_per_s": 0} for r in data.records]
    assert view(entry, data.trials, still).verdict == UNDECIDED


def made_at(way: str, speed: float, first: int, *times: str) -> Arm:
    return Arm(way, tuple({"mops": speed + n / 100, "release": way, "time": time,
                           "lab": {"cell": way, "round": first + n}}
                          for n, time in enumerate(times)), "mops")  # fmt: skip


def test_arms_of_different_sessions_are_not_compared():
    def why(*arms_of: Arm) -> str:
        return arms.claim(*arms_of, varies=factors.RELEASE).why

    january = [f"2026-01-01T10:0{n}:00Z" for n in range(5)]
    november = [f"2026-11-30T10:0{n}:00Z" for n in range(5)]
    fast = made_at("x", 9, 0, *january)
    told = "these arms were measured at different times"
    assert why(fast, made_at("y", 1, 0, *january)) == ""
    assert why(fast, made_at("y", 1, 0, *january[:4])) == "", "time was over amid the last round"
    # A round of the longest run takes less than two hours.
    for away, expected in (("01:59", ""), ("02:01", told)):
        pair = [made_at(way, speed, 0, f"2026-01-01T{time}:00Z")
                for way, speed, time in (("x", 9, "00:00"), ("y", 1, away))]  # fmt: skip
        assert why(*pair) == (expected or "1 trials decide nothing")
    # A cell of an earlier run: the same rounds, and months between.
    assert why(fast, made_at("y", 1, 0, *november)) == told
    assert why(fast, made_at("y", 1, 0, *january[:4], november[4])) == told
    assert why(made_at("x", 9, 0, *january[:2], *november[2:]),
               made_at("y", 1, 0, *january[:2], *november[2:])) == "", "both went on"  # fmt: skip
    assert why(fast, made_at("y", 1, 100, *january)) == "these arms have 0 rounds in common"


def test_a_gain_over_threads_has_more_warehouses_as_the_benchmark_has(tmp_path):
    entry = page_of("one-shot-11")
    data = of_page(entry, tmp_path)
    assert {r["warehouses"] - r["threads"] for r in data.records} == {0}
    growths = [c for c in view(entry, data.trials, data.records).claims if isinstance(c, Growth)]
    assert [growth.doubt for growth in growths] == ["", ""]


@pytest.mark.parametrize("field", ["detector", "in_place"])
def test_a_feature_that_is_off_is_not_lacking(field):
    def why(ours, theirs) -> str:
        pair = [Arm(sync, ({"kind": "rlu", "sync": sync, "mops": 1, **given},) * 4, "mops")
                for sync, given in (("mvrlu", ours), ("other", theirs))]  # fmt: skip
        return arms.claim(*pair, varies=factors.SYNC).why

    assert why({field: True}, {field: False}) == f"{field} differs, too: true and false"
    assert why({field: True}, {field: None}) == ""
    assert why({field: True}, {}) == ""


@pytest.mark.parametrize("key", ["pointers-object", "pointers-ends", "one-shot-10"])
def test_a_page_without_trials_of_sets_knows_its_processors(key, tmp_path):
    entry = page_of(key)
    data = of_page(entry, tmp_path)
    whole, part = (view(entry, trials, data.records) for trials in (data.trials, []))
    told = [(c.where, getattr(c, "more", getattr(c, "arm", None)).name) for c in whole.claims]
    assert told == [(c.where, getattr(c, "more", getattr(c, "arm", None)).name)
                    for c in part.claims]  # fmt: skip


def test_a_trace_in_which_nothing_was_freed_says_nothing_of_it(tmp_path):
    entry = page_of("figure-6")
    data = of_page(entry, tmp_path)
    usual = view(entry, data.trials, []).claims[1]
    assert len(usual.arm.values) == len(data.trials), "each trial is judged"
    for path in tmp_path.glob("*.jsonl"):
        lines = [line for line in path.read_text().splitlines() if "batch_freed" not in line]
        path.write_text("\n".join(lines))
    shown = view(entry, data.trials, [])
    assert (shown.claims[1].verdict, shown.claims[1].why) == (UNDECIDED, "not measured")
    assert "No thread frees a batch" in shown.here


def test_the_arm_beside_a_rival_is_named_in_advance():
    ran = (("avl", "token", "amortized"), ("abtree", "robust_token", "amortized"),
           ("abtree", "token", "amortized"), ("cds_bronson_avl", "cds_rcu", "own"),
           ("std_map", "mutex", "own"), ("urcu_hash", "urcu_bp", "own"))  # fmt: skip
    made = [trial(structure=s, scheme=c, release=r, threads=t)
            for s, c, r in ran for t in (1, 2) for _ in range(4)]  # fmt: skip
    for seed in range(6):
        random.Random(seed).shuffle(made)
        claims = rivals.RIVALS.show(Found(made)).claims
        pairs = {tuple(arm.records[0]["structure"] for arm in (c.more, c.less)) for c in claims}
        assert pairs == {("avl", "cds_bronson_avl"), ("abtree", "std_map")}
        assert {c.more.records[0]["scheme"] for c in claims} == {"token"}


def test_the_list_has_each_figure_of_each_paper_in_the_order_of_the_paper():
    done = CliRunner().invoke(cli, ["paper", "--list"])
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert {entry.key for entry in PAGES} <= {word for line in lines for word in line.split()}
    begin = lines.index(f"{papers.MVRLU.name}, {papers.MVRLU.venue}: {papers.MVRLU.title}") + 1
    numbers = [line.split()[:2] for line in lines[begin : begin + 5]]
    assert numbers == [["Figure", "1"], ["Figures", "2,"], ["Figure", "4"], ["Figure", "5"],
                       ["Figure", "6"]]  # fmt: skip
    assert re.search("Figures 2, 3 +- +how versions are kept. Not here: a drawing", done.output)
    few = CliRunner().invoke(cli, ["paper", "--list", "--only", "one-shot-10"]).output
    assert few.splitlines()[1:] == [
        "  Figure 10            one-shot-10                YCSB by threads"
    ]


def test_the_side_bar_names_each_page_by_paper_and_figure():
    made = render.index(render.pages(Found([]), Figures()))
    labels = [page["label"] for paper in made for page in paper["pages"]]
    assert len(set(labels)) == len(labels)
    some = ["MV-RLU, Figure 8 · One feature more", "MV-RLU, Figure 8 · Features", "FRC, Figure 8",
            "Token-EBR, Figure 8", "Multiversion GC, Figures 7a, 8 · Zipf"]  # fmt: skip
    assert {*some} <= {*labels}
    keys = {page["key"] for paper in made for page in paper["pages"]}
    assert not keys & {label.rpartition(" · ")[2] for label in labels}
    template = (ASSETS / "report.html.j2").read_text()
    assert "{{ page.label }}</a>" in template


def test_the_index_has_each_figure_in_the_order_of_the_paper():
    made = render.index(render.pages(Found([]), Figures()))
    places = [row["place"] for row in made[1]["rows"]]
    assert places[:5] == ["Figure 1", "Figures 2, 3", "Figure 4", "Figure 5", "Figure 6"]
    assert places.index("Figure 10") == places.index("Table 1") - 1, "tables come after figures"


@pytest.mark.parametrize(
    ("more", "less", "told"),
    [("Token: speed", "DEBRA: speed", "Token > DEBRA: speed"), ("a", "b", "a > b"),
     ("DEBRA: epochs", "DEBRA: epochs", "DEBRA: epochs"),
     ("a: speed", "b: memory", "a: speed > b: memory"), ("raw", "a: b", "raw > a: b")],
)  # fmt: skip
def test_a_claim_names_its_figure_once(more, less, told):
    assert render._compared(more, ">", less) == told


@pytest.mark.parametrize(("key", "together"), [("figure-6", False), ("figure-7", True)])
def test_whether_threads_free_at_the_same_time_is_judged_by_each_trace(key, together, tmp_path):
    entry = page_of(key)
    data = of_page(entry, tmp_path)

    def verdict_if(step_ns: float) -> str:
        """Each batch takes a millisecond, and begins so long after the one before."""
        for path in tmp_path.glob("*.jsonl"):
            path.write_text("\n".join(json.dumps(
                {"t_ns": n * step_ns, "end_ns": n * step_ns + 1e6, "thread": n % 4,
                 "event": "batch_freed", "count": 9}) for n in range(50)))  # fmt: skip
        claim = view(entry, data.trials, []).claims[1]
        assert len(claim.arm.values) == len(data.trials)
        return claim.verdict

    assert verdict_if(2e6) == (CONTRADICTED if together else SEEN)
    assert verdict_if(1e5) == (SEEN if together else CONTRADICTED)


def over(name: str, *values: float) -> dict:
    return {"over_time_columns": ["ms", name],
            "over_time": [[5 * n, value] for n, value in enumerate(values)]}  # fmt: skip


def test_logs_have_grown_if_the_last_third_has_more_than_all_before():
    assert contention.log_growth(over("log_bytes", 1, 1, 1, 1, 1, 4, 1, 1, 2)) == 0.5
    assert contention.log_growth(over("log_bytes", 1, 1, 1, 1, 2, 1, 9, 6, 1)) == 4.5
    assert contention.log_growth(over("log_bytes", 1, 2)) is None
    assert contention.log_growth(over("waiting", 1, 2, 3)) is None


def test_garbage_is_taken_of_the_second_and_of_the_last_quarter():
    record = {"garbage_over_time": [[n, 10 ** (n // 2)] for n in range(8)]}
    assert (tokens.early_garbage(record), tokens.late_garbage(record)) == (10, 1000)
    assert tokens.early_garbage({}) is None


def test_a_peak_is_told_by_the_mean_of_all_epochs():
    record = {"garbage_per_epoch": [[1, 100], [2, 300], [3, 200]]}
    assert amortizing.peak_of_mean(record) == 1.5


def test_what_the_collector_takes_is_all_but_counting_up():
    times = {"set_ns": 1, "scan_ns": 20, "sweep_ns": 300, "end_ns": 4000, "count_ns": 50_000}
    assert pointers.collecting(times) == 4321
    assert pointers.collecting({**times, "scan_ns": None}) is None
    ended = {"ended_per_epoch": [4, 16, 8], "waiting_peak": 40}
    assert (pointers.epochs_of(ended), pointers.epochs_waiting(ended)) == (3, 2.5)


def test_batches_overlap_where_two_threads_free_at_once():
    def boxes(*edges: tuple[float, float]):
        return SimpleNamespace(of=lambda _: [SimpleNamespace(begin=begin, length=end - begin)
                                             for begin, end in edges])  # fmt: skip

    assert tokens.overlap(boxes((0, 4), (2, 6))) == pytest.approx(2 / 6)
    assert tokens.overlap(boxes((0, 4), (4, 6))) == 0
    assert tokens.overlap(boxes()) is None


def test_a_panel_has_no_traces_the_batches_that_are_asked_for_and_as_many_threads_as_cores():
    def trials(**fields) -> list:
        return [trial(threads=threads, **fields) for threads in (1, 2, 8)]

    traced = trials(lab={"configuration": {"trace": True}}, keys=2000, release="batch")
    large = trials(allocator="glibc", bag=32_768)
    found = Found([*trials(), *trials(release="batch"), *traced, *large])
    ours = [("token", "amortized")]
    assert found.pick("abtree", ours)[0].conditions.allocator == "jemalloc"
    assert found.pick("abtree", ours, batch=32_768)[0].conditions.allocator == "glibc"
    assert found.pick("abtree", [("token", "batch")])[0].conditions.keys == 1000
    assert Found(traced).pick("abtree", [("token", "batch")]) is None
    assert found.full(found.pick("abtree", ours)) == 2
