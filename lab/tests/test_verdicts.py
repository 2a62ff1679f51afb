# SPDX-License-Identifier: Apache-2.0
"""The rule of verdicts, and every page under it: opposite data contradict, equal arms are not seen,
noise decides nothing."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from lab import verdict
from lab.paper import (
    amortizing,
    arms,
    bound,
    contention,
    model,
    pointers,
    snapshots,
    tokens,
)
from lab.paper.catalogue import PAGES
from lab.paper.found import Found
from lab.tests.made import of_page, shown, view
from lab.verdict import (
    BOUND,
    CONTRADICTED,
    LEVEL,
    MODEL,
    MORE,
    NOT_SEEN,
    SEEN,
    SMALLER,
    UNDECIDED,
    Absent,
    Arm,
    Claim,
    Interval,
    Promise,
    interval,
    judged,
)

# Values of the trials of an arm: such as to set nothing apart, and such as to spread a little.
NOISE = (0.002, 500.0, 0.02, 50.0, 0.2, 5.0)
STEADY = (1.0, 1.001, 0.999, 1.002, 0.998, 1.0005)
APART = 40.0  # more than any factor that a paper claims


@pytest.mark.parametrize(
    ("low", "high", "factor", "kind", "expected"),
    [
        (0.96, 1.04, 1, MORE, NOT_SEEN), (1.001, 1.049, 1, MORE, NOT_SEEN),
        (0.5, 0.99, 1, MORE, CONTRADICTED), (0.96, 0.99, 1, MORE, NOT_SEEN),
        (1.3, 2.0, 2, MORE, SEEN), (1.3, 1.9, 2, MORE, SMALLER), (1.01, 1.2, 1, MORE, SEEN),
        (0.9, 3.0, 2, MORE, UNDECIDED), (0, float("inf"), 1, MORE, UNDECIDED),
        (0.96, 1.04, 1, LEVEL, SEEN), (0.9, 1.1, 1, LEVEL, UNDECIDED),
        (1.06, 2.0, 1, LEVEL, CONTRADICTED), (0.1, 0.9, 1, LEVEL, CONTRADICTED),
        (0.9, 1.0, 0.85, BOUND, SEEN), (0.8, 1.0, 0.85, BOUND, UNDECIDED),
        (0.7, 0.8, 0.85, BOUND, CONTRADICTED),
    ],
)  # fmt: skip
def test_the_first_rule_that_holds_is_the_verdict(low, high, factor, kind, expected):
    assert judged(Interval(low, high), factor, kind) == expected


def test_a_claim_is_worth_its_weakest_part():
    order = [SEEN, SMALLER, UNDECIDED, NOT_SEEN, CONTRADICTED]
    for place, worst in enumerate(order):
        assert verdict.weakest(random.sample(order[: place + 1], place + 1)) == worst
    assert verdict.tally([SEEN, SEEN, CONTRADICTED]) == {
        SEEN: 2, SMALLER: 0, UNDECIDED: 0, NOT_SEEN: 0, CONTRADICTED: 1}  # fmt: skip


def test_an_interval_takes_as_many_trials_as_it_needs():
    ones, others = (8, 9, 10, 11), (1, 2, 3, 4)
    assert interval(ones[:3], others[:3]) == verdict.EVERYTHING
    assert interval(ones, others) == Interval(2, 11)
    assert interval(ones, others, 0.99) == verdict.EVERYTHING
    assert interval((*ones, 12), (*others, 5), 0.99) == Interval(8 / 5, 12)
    assert interval((0, 0, 0, 0), (0, 0, 0, 0)) == Interval(1, 1)


def test_equal_arms_are_told_apart_no_more_often_than_is_said():
    dice = random.Random(1)
    wrong = {0.95: 0, 0.99: 0}
    for _ in range(2000):
        ones, others = ([dice.paretovariate(1.5) for _ in range(5)] for _ in range(2))
        for confidence in wrong:
            wrong[confidence] += interval(ones, others, confidence).without_one
    assert 0.02 < wrong[0.95] / 2000 <= 0.05
    assert 0.002 < wrong[0.99] / 2000 <= 0.013


def test_what_is_true_is_found_with_few_trials():
    dice = random.Random(2)
    held = sum(
        (found := interval([dice.lognormvariate(1, 0.3) for _ in range(5)],
                           [dice.lognormvariate(0, 0.3) for _ in range(5)])).low
        <= 2.71828 <= found.high for _ in range(1000)
    )  # fmt: skip
    assert held >= 950


def arm(name="a", *values, **fields):
    return Arm(name, tuple({"speed": value, **fields} for value in values), "speed")


def test_arms_that_differ_in_two_things_are_not_compared():
    fast, slow = (9, 9.1, 9.2, 9.3), (1, 1.1, 1.2, 1.3)
    alike = {"release": "batch", "bag": 32, "freed": 7}
    assert arms.claim(arm("a", *fast, **alike), arm("b", *slow, **alike)).verdict == SEEN
    other = {**alike, "release": "amortized"}
    pair = (arm("a", *fast, **other), arm("b", *slow, **alike))
    assert "the release policy differs" in arms.claim(*pair).why
    assert arms.claim(*pair, varies=arms.RELEASE).verdict == SEEN
    pair = (arm("a", *fast, **{**other, "bag": 8}), arm("b", *slow, **alike))
    made = arms.claim(*pair, varies=arms.RELEASE)
    assert (made.verdict, made.why) == (UNDECIDED, "the bag differs, too: 8 and 32")
    idle = arms.claim(arm("a", *fast, **alike), arm("b", *slow, **{**alike, "freed": 0}))
    assert (idle.verdict, idle.why) == (UNDECIDED, "b freed nothing in a trial")
    leaks = {**alike, "freed": 0, "scheme": "none"}
    pair = (arm("a", *fast, **alike, scheme="debra"), arm("b", *slow, **leaks))
    assert arms.claim(*pair, varies=arms.SCHEME).verdict == SEEN
    assert arms.claim(arm("a", *fast, bag=None), arm("b", *slow, bag=3)).verdict == SEEN


def test_too_few_trials_are_said_to_decide_nothing():
    made = arms.claim(arm("a", 9, 9, 9), arm("b", 1, 1, 1))
    assert (made.verdict, made.why) == (UNDECIDED, "3 trials decide nothing")
    assert arms.claim(arm("a", 9), arm("b")).why == "not measured"


# ---- every page


def set_peak(record: dict, target: float) -> None:
    points = record["garbage_per_epoch"]
    mean = sum(nodes for _, nodes in points) / len(points)
    rest = len(points) - 1
    others = mean - (target - 1) * mean / rest
    record["garbage_per_epoch"] = [[1, target * mean]] + [[2, others]] * rest


def set_mean(record: dict, target: float) -> None:
    old = amortizing.mean_garbage(record)
    record["garbage_per_epoch"] = [[n, x * target / old] for n, x in record["garbage_per_epoch"]]


def set_quarter(number: int):
    def to(record: dict, target: float) -> None:
        points = record.get("garbage_over_time") or []
        mine = range(number * (len(points) // 4), (number + 1) * (len(points) // 4))
        record["garbage_over_time"] = [
            [at, target if place in mine else nodes] for place, (at, nodes) in enumerate(points)
        ]

    return to


def set_versions(record: dict, target: float) -> None:
    record["versions_live"] *= target / snapshots.versions_share(record)


def set_bytes(record: dict, target: float) -> None:
    waiting = record.get("bytes_waiting") or 0
    record["bytes"] = (record["bytes"] - waiting) * target / snapshots.bytes_share(record) + waiting


def set_excess(record: dict, target: float) -> None:
    record["versions_excess_peak"] *= target / bound.share_of_allowed(record)


def set_epochs(record: dict, target: float) -> None:
    record["ended_per_epoch"] = [5] * max(1, int(target))


def set_growth(record: dict, target: float) -> None:
    column = record["over_time_columns"].index("log_bytes")
    rows = [list(row) for row in record["over_time"]]
    for place, row in enumerate(rows):
        row[column] = 1000 * (target if place >= len(rows) - len(rows) // 3 else 1)
    record["over_time"] = rows


SETTERS: dict[Callable, Callable] = {
    amortizing.peak_of_mean: set_peak, amortizing.mean_garbage: set_mean,
    tokens.late_garbage: set_quarter(3), tokens.early_garbage: set_quarter(1),
    snapshots.versions_share: set_versions, snapshots.bytes_share: set_bytes,
    bound.share_of_allowed: set_excess, pointers.epochs_of: set_epochs,
    contention.log_growth: set_growth,
}  # fmt: skip


def ranks(claims, levels: bool) -> dict[tuple, int]:
    """For each figure of each record how far it is to stand above the lowest."""
    place: dict[tuple, int] = {}
    pairs = [([(r["number"], c.more.value) for r in c.more.records],
              [(r["number"], c.less.value) for r in c.less.records])
             for c in claims if isinstance(c, Claim) and (levels or c.kind != LEVEL)]  # fmt: skip
    for more, less in pairs:
        place.update(dict.fromkeys([*more, *less], 0))
    for _ in range(40):
        done = True
        for more, less in pairs:
            lowest = max(place[key] for key in less) + 1
            for key in more:
                if place[key] < lowest:
                    place[key], done = lowest, False
        if done:
            return place
    raise AssertionError("claims that go round in a circle")


def changed(entry, data, way: str):
    """The page when its arms are as the claims have them, the other way round, equal, or spread so
    much that nothing can be told."""
    numbered: dict[int, dict] = {}
    parts = shown(entry, data, numbered)
    claims = view(*parts).claims
    limits = {c.arm.value: c.most for c in claims if isinstance(c, Promise)}
    for claim in claims:
        if isinstance(claim, Promise):
            for record in claim.arm.records:
                most = claim.most * (3.0 if way == "opposite" else 0.4)
                put(numbered[record["number"]], claim.arm.value, most, claim.arm.per)
    order = ranks(claims, levels=way == "opposite")
    step = {"claimed": APART, "opposite": 1 / APART}.get(way, 1.0)
    spread = {"noise": NOISE, "equal": (1.0,)}.get(way, STEADY)
    done = set()

    def fill(one: Arm, rank: int | None) -> None:
        for place, record in enumerate(one.records):
            key = (record["number"], one.value)
            if key in done:
                continue
            done.add(key)
            base = 1e-3 * limits.get(one.value, 1e4)
            target = base * step ** order.get(key, rank or 0) * spread[place % len(spread)]
            put(numbered[record["number"]], one.value, target, one.per)

    pairs = [c for c in claims if isinstance(c, Claim)]
    for claim in sorted(pairs, key=lambda c: c.kind == LEVEL):
        known = [order.get((r["number"], one.value)) for one in (claim.more, claim.less)
                 for r in one.records]  # fmt: skip
        rank = next((n for n in known if n is not None), 0)
        fill(claim.more, rank)
        fill(claim.less, rank)
    return view(*parts)


def put(record: dict, value, target: float, per: str = "") -> None:
    if isinstance(value, str):
        record[value] = target * (record[per] if per else 1)
    elif value in SETTERS:
        SETTERS[value](record, target)


CLAIMING = [entry for entry in PAGES if entry.key != "model"]


@pytest.mark.parametrize("entry", CLAIMING, ids=lambda entry: entry.key)
def test_every_page_can_say_no(entry, tmp_path):
    data = of_page(entry, tmp_path)
    usual = view(*shown(entry, data))
    assert any(usual.blocks)
    assert usual.here.endswith(".")
    assert usual.claims, "a page without claims"
    assert {c.doubt for c in usual.claims if isinstance(c, Claim)} <= {""}
    kinds = {c.kind for c in usual.claims if isinstance(c, Claim)}
    best = UNDECIDED if any(isinstance(c, Absent) for c in usual.claims) else SEEN
    assert changed(entry, data, "claimed").verdict == best
    assert changed(entry, data, "opposite").verdict == CONTRADICTED
    assert changed(entry, data, "equal").verdict == (NOT_SEEN if MORE in kinds else best)
    if kinds:
        assert changed(entry, data, "noise").verdict == UNDECIDED

    dice = random.Random(1)
    for _ in range(3):  # nor does it fall over, whatever is missing
        part = dice.random() ** 2
        trials, records = (dice.sample(some, round(part * len(some)))
                           for some in (data.trials, data.records))  # fmt: skip
        entry.show(Found(trials, store=records))
        view(entry, trials, records)


# What the papers say is faster, told apart from what pages claim: a field and its value, figures of
# which that has more, and of which it has less.
FASTER = {
    "table-2": ("release", "amortized", ("ops_per_s", "freed"), ("free_share", "allocator_flushes",
                                                                 "allocator_locks")),
    "experiment-1-abtree": ("scheme", "token_periodic", ("ops_per_s",), ()),
    "experiment-2-external_bst": ("release", "amortized", ("ops_per_s",), ()),
    "figure-10": ("release", "amortized", ("ops_per_s",), ("peak_rss_bytes",)),
    "figure-5": ("scheme", "token_naive", ("ops_per_s", "peak_rss_bytes", "garbage_peak"), ()),
    "events": ("release", "amortized", (), ("allocator_flushes",)),
    "one-shot-2": ("versions", "none", ("tx_per_s",), ()),
    "one-shot-10": ("versions", "one-shot", ("tx_per_s",), ()),
    "one-shot-11": ("versions", "one-shot", ("tx_per_s",), ()),
    "one-shot-12": ("versions", "one-shot", ("tx_per_s",), ()),
    "sections-structures": ("sync", "mvrlu", ("mops",), ()),
    "sections-sizes": ("sync", "mvrlu", ("mops",), ()),
    "sections-pareto": ("sync", "mvrlu", ("mops",), ()),
    "sections-cache": ("sync", "mvrlu", ("mops",), ()),
    "sections-aborts": ("sync", "mvrlu", (), ("abort_ratio",)),
    "pointers-strings": ("pointer", "thin", ("mops",), ()),
    "snapshots-tree": ("collector", "epoch_collector", ("bytes_peak",), ()),
    "snapshots-hash": ("collector", "epoch_collector", ("bytes_peak",), ()),
}  # fmt: skip


@pytest.mark.parametrize("key", FASTER)
def test_a_page_claims_what_its_paper_says(key, tmp_path):
    entry = next(entry for entry in PAGES if entry.key == key)
    data = of_page(entry, tmp_path)
    field, value, more, less = FASTER[key]

    def verdict_if(factor: float) -> str:
        _, trials, records = shown(entry, data)
        for record in [*(t.record for t in trials), *records]:
            better = record.get(field) == value
            for name in (*more, *less):
                # Frees are what flushes are taken of; an abort ratio is to stay below its bound.
                base = record.get("frees", 1) if name.startswith("allocator") else 0.02 / APART
                up = better if name in more else not better
                record[name] = base * (factor if up else 1.0)
        return view(entry, trials, records).verdict

    assert verdict_if(APART) == SEEN
    assert verdict_if(1 / APART) == CONTRADICTED


def test_a_page_that_is_computed_claims_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(model, "replay", lambda *a, **k: model.Outcome(1e6, 0.2, 0.1, 1e3))
    entry = next(entry for entry in PAGES if entry.key == "model")
    made = view(*shown(entry, of_page(entry, tmp_path)))
    assert (made.verdict, made.claims) == (MODEL, [])
