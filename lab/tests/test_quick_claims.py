# SPDX-License-Identifier: Apache-2.0
"""The claims of a report of everything: opposite data contradict each, equal arms are not seen,
noise decides nothing, and what was not run is not made up for by what was."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lab import claims, stats, words
from lab.tests.conftest import trial
from lab.verdict import CONTRADICTED, MISSING, NOT_SEEN, SEEN, SMALLER, UNDECIDED

STEADY = (1.0, 1.001, 0.999, 1.002, 0.998)
NOISE = (0.01, 100.0, 0.1, 10.0, 1.0)
FASTER, LEAKING, RIVALS, PAUSES, PILES, ALLOCATORS, BOUNDS = range(7)
Change = Callable[[dict], None]

SERIES = [("none", "batch"), ("token_periodic", "amortized"), ("debra", "batch"),
          ("debra", "amortized"), ("token", "batch"), ("token", "amortized"),
          ("neutralization_plus", "batch"), ("token_naive", "batch")]  # fmt: skip


def over_time(early: float, late: float) -> list[list[float]]:
    quarters = (early / 2, early, early, late)
    return [[10.0 * at, quarters[at // 4]] for at in range(16)]


def made(spread: tuple[float, ...] = STEADY) -> Iterator[dict]:
    """As the paper has it, in all that is claimed."""
    speed = {"none": 1.0, "token_periodic": 9.0, "debra": 1.5, "token": 1.6,
             "neutralization_plus": 3.0, "token_naive": 1.2}  # fmt: skip
    for scheme, release in SERIES:
        for allocator in ("jemalloc", "tcmalloc", "mimalloc"):
            for threads in (1, 2, 4) if allocator == "jemalloc" else (2,):
                gain = 1 if release == "batch" or scheme == "token_periodic" else 4
                gain = 0.95 if gain > 1 and allocator == "mimalloc" else gain
                naive = scheme == "token_naive"
                for share in spread:
                    yield {
                        "scheme": scheme, "release": release, "threads": threads,
                        "allocator": allocator, "ops_per_s": 1e6 * speed[scheme] * gain * share,
                        "garbage_peak": (9e5 if naive else 1e5) * share, "freed": 7,
                        "free_ns_p999": (9e5 if release == "batch" else 1e3) * share,
                        "garbage_over_time": over_time(1e3, (5e3 if naive else 1e3) * share),
                    }  # fmt: skip
    for scheme, bound in (("robust_token", 1000), ("token", None)):
        for share in spread:
            yield {"scheme": scheme, "stall": True, "garbage_bound": bound,
                   "garbage_peak": 400 * share if bound else 5e5,
                   "garbage_over_time": over_time(1e3, 9e4 * share)}  # fmt: skip


def verdicts(change: Change = lambda _: None, spread=STEADY, keep=lambda _: True) -> list[str]:
    records = [r for r in made(spread) if keep(r)]
    for record in records:
        change(record)
    configs = stats.group([trial(**record) for record in records])
    checked = claims.check(configs, words.reference(configs, 2))
    assert all(claim.here and "nan" not in claim.here for claim in checked)
    return [claim.verdict for claim in checked]


def flip(field: str) -> Change:
    def change(record: dict) -> None:
        if record.get(field):
            record[field] = 1e9 / record[field]

    return change


def even(field: str, value: float = 1e6) -> Change:
    return lambda record: record.update({field: value}) if field in record else None


def shrinks(record: dict) -> None:
    if not record.get("stall"):
        record["garbage_over_time"] = over_time(5e3, 1e3)


def as_debra(record: dict) -> None:
    record["garbage_peak"] = 1e5


def breaks_once(record: dict) -> None:
    if record["scheme"] == "robust_token" and record["garbage_peak"] > 400.5:
        record["garbage_peak"] = 1001


def level(record: dict) -> None:
    if record.get("stall"):
        record["garbage_over_time"] = over_time(1e3, 1e3)


def test_what_the_paper_says_is_seen():
    assert verdicts() == [SEEN] * 7


@pytest.mark.parametrize(("place", "change"), [
    (FASTER, flip("ops_per_s")), (LEAKING, flip("ops_per_s")), (RIVALS, flip("ops_per_s")),
    (PAUSES, flip("free_ns_p999")), (PILES, flip("garbage_peak")), (PILES, shrinks),
    (ALLOCATORS, flip("ops_per_s")), (BOUNDS, breaks_once),
])  # fmt: skip
def test_the_opposite_contradicts(place, change):
    assert verdicts(change)[place] == CONTRADICTED


@pytest.mark.parametrize(("place", "change"), [
    (FASTER, even("ops_per_s")), (LEAKING, even("ops_per_s")), (RIVALS, even("ops_per_s")),
    (PAUSES, even("free_ns_p999")), (PILES, as_debra), (ALLOCATORS, even("ops_per_s")),
    (BOUNDS, level),
])  # fmt: skip
def test_what_is_equal_is_not_seen(place, change):
    assert verdicts(change)[place] == NOT_SEEN


def test_noise_decides_nothing():
    decided = verdicts(spread=NOISE)
    assert decided[:BOUNDS] == [UNDECIDED] * BOUNDS


def test_a_few_trials_decide_nothing():
    assert verdicts(spread=STEADY[:3]) == [UNDECIDED] * 7


def lacking(**values) -> Callable[[dict], bool]:
    return lambda record: any(record.get(name, "jemalloc") != v for name, v in values.items())


@pytest.mark.parametrize(("place", "keep"), [
    (LEAKING, lacking(scheme="none", threads=4)), (LEAKING, lacking(scheme="none", threads=1)),
    (RIVALS, lacking(scheme="neutralization_plus")), (PILES, lacking(scheme="debra", threads=4)),
    (ALLOCATORS, lacking(allocator="tcmalloc")), (BOUNDS, lacking(scheme="token", stall=True)),
    (FASTER, lacking(scheme="debra", release="amortized")),
])  # fmt: skip
def test_what_a_claim_names_and_was_not_run_leaves_it_undecided(place, keep):
    assert verdicts(keep=keep)[place] == UNDECIDED


def test_our_ring_is_not_taken_for_the_papers():
    decided = verdicts(keep=lacking(scheme="token_periodic"))
    assert (decided[LEAKING], decided[RIVALS]) == (MISSING, MISSING)


def test_a_gain_is_measured_by_the_papers():
    def little(record: dict) -> None:
        if record.get("release") == "amortized" and record["allocator"] == "jemalloc":
            record["ops_per_s"] = 2e6

    decided = verdicts(little)
    assert (decided[FASTER], decided[ALLOCATORS]) == (SMALLER, SMALLER)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
def test_figures_that_cannot_be_decide_nothing(value):
    def wrong(record: dict) -> None:
        if record.get("threads") == 2:
            record["ops_per_s"] = value

    decided = verdicts(wrong)
    assert {decided[place] for place in (FASTER, LEAKING, RIVALS)} == {UNDECIDED}
