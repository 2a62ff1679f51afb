# SPDX-License-Identifier: Apache-2.0
"""Medians, verdicts, formats, timelines: what the report is made from."""

from __future__ import annotations

import re

import pytest

from lab import charts, look, stats, timeline, words
from lab.stats import Spread, compare, spread
from lab.tests.conftest import trial


@pytest.mark.parametrize(
    ("one", "other", "doubt"),
    [
        ((1.2, 1.21, 1.19, 1.2), (1.0, 1.01, 0.99, 1.0), ""),
        ((1.0, 1.01, 0.99, 1.0), (1.2, 1.21, 1.19, 1.2), ""),
        ((1.02, 1.02, 1.02, 1.02), (1.0, 1.0, 1.0, 1.0), "as good as equal"),
        ((1.0, 2.1, 2.4, 0.9), (1.0, 0.9, 1.1, 1.0), "differ as much among themselves"),
        ((1.3, 1.3, 1.3), (1.0, 1.0, 1.0), "too few trials"),
    ],
)
def test_what_counts_as_a_difference(one, other, doubt):
    found = compare(spread(one), spread(other))
    assert found.proven is (doubt == "")
    assert doubt in found.doubt


def test_nothing_is_compared_with_nothing():
    assert compare(None, spread([1])) is None
    assert compare(spread([0]), spread([1])) is None
    assert compare(spread([float("nan")]), spread([1])) is None
    assert compare(spread([1]), spread([float("inf")])) is None


def test_trials_are_grouped_and_their_median_taken():
    configs = stats.group([trial(ops_per_s=value) for value in (1e6, 5e6, 2e6)])
    assert len(configs) == 1
    assert configs[0].ops_per_s == Spread(2e6, 1e6, 5e6, 3, (1e6, 5e6, 2e6))
    assert configs[0].garbage_bound is None


def test_trials_of_different_files_are_not_mixed():
    assert len(stats.group([trial("a.jsonl"), trial("b.jsonl")])) == 2


def test_conditions_without_several_thread_counts_make_no_lines():
    configs = stats.group([trial(threads=1), trial(threads=2), trial(threads=2, keys=5)])
    panels = stats.throughput_panels(configs)
    assert [conditions.keys for conditions in panels] == [1000]


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        (look.count, 0, "0"),
        (look.count, 999, "999"),
        (look.count, 999_700, "1 M"),
        (look.count, 1_234_567, "1.23 M"),
        (look.rate, 6_310_000, "6.31 M/s"),
        (look.size, 47_400_000, "47.4 MB"),
        (look.duration, 85, "85 ns"),
        (look.duration, 12_500, "12.5 µs"),
        (look.duration, None, "–"),
        (look.times, 1.347, "1.35 ×"),
        (look.times, 2190.4, "2,190 ×"),
    ],
)
def test_number_formats(text, value, shown):
    assert text(value).replace(look.NO_BREAK, " ") == shown


def test_a_range_names_its_unit_once():
    shown = look.between(1e6, 2e6, look.rate).replace(look.NO_BREAK, " ")
    assert shown == "1 – 2 M/s"
    assert look.between(900, 2e6, look.count).replace(look.NO_BREAK, " ") == "900 – 2 M"


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (1, 1000, ["1", "10", "100", "1000"]),
        (8, 60, ["10", "20", "50"]),
        (23, 43, ["25", "30", "35", "40"]),
        (101, 104, ["101", "102", "103", "104"]),
    ],
)
def test_a_logarithmic_axis_has_at_least_two_ticks(low, high, shown):
    values, texts = look.log_ticks(low, high, lambda value: f"{value:.0f}")
    inside = [text for value, text in zip(values, texts, strict=True) if low <= value <= high]
    assert inside == shown


@pytest.mark.parametrize("apart", [0.0, 1e-16, 1e-12, 1e-7, 1e-3])
def test_a_logarithmic_axis_of_figures_that_are_nearly_equal_has_few_ticks(apart):
    high = 5e5
    values, _ = look.log_ticks(high * (1 - apart), high, str)
    assert len(values) <= 6
    assert all(high * (1 - apart) * (1 - 1e-9) <= value <= high for value in values)


def test_series_look_different_from_each_other():
    looks = {(s.light, s.marker) for s in look.KNOWN.values()}
    assert len(looks) == len(look.KNOWN)
    for family in (look.SCHEMES, look.RIVALS):
        assert len({s.marker for s in family.values()}) == len(family)
    assert charts.marker(("token", "batch")) != charts.marker(("token", "amortized"))


def test_thinning_keeps_peaks():
    points = [(at, 0) for at in range(1000)]
    points[777] = (777, 99)
    shown = charts.thin(points, 50)
    assert len(shown) == 50
    assert (777, 99) in shown


def event(begin_ms, length_ms, thread=0, name="batch_freed", count=5):
    return {"t_ns": int(begin_ms * 1e6), "end_ns": int((begin_ms + length_ms) * 1e6),
            "thread": thread, "event": name, "count": count}  # fmt: skip


def test_a_timeline_tells_boxes_from_epochs():
    events = [event(10, 5), event(20, 0, 1, "epoch_advanced"), event(1, 0, 0, "thread_joined"),
              {"event": "overwritten", "thread": 0, "count": 3}]  # fmt: skip
    line = timeline.build(events, 1.0, None)
    assert [(box.begin, box.length) for box in line.boxes] == [(10, 5)]
    assert line.epochs == [(20, 1)]
    assert line.span == 1000
    assert line.lost == 3
    assert "3 older events were overwritten" in timeline.left_out(line)


def test_time_in_a_slow_free_inside_a_batch_counts_once():
    line = timeline.build([event(0, 100), event(10, 20, name="single_free")], 1.0, None)
    assert line.busy == pytest.approx(0.1)


def test_a_known_offset_cuts_filling_and_tearing_down():
    events = [event(5, 1), event(105, 1), event(1300, 50)]
    line = timeline.build(events, 1.0, 100.0)
    assert [box.begin for box in line.boxes] == [5]


def test_the_window_is_a_typical_stretch():
    events = [event(at, 100) for at in (10, 300, 310)] + [event(t, 10) for t in (600, 800)]
    begin, end = timeline.build(events, 1.0, None).window
    assert (begin, end) == (0, 250)


def test_a_long_trace_is_thinned_to_its_longest_boxes():
    events = [event(at / 10, 0.001) for at in range(9000)] + [event(500, 3)]
    line = timeline.build(events, 1.0, None)
    shown = timeline.drawn(line)
    assert len(shown) <= 2 * timeline.BOXES
    assert max(shown, key=lambda box: box.length).begin == 500


def test_many_threads_are_thinned_to_rows_that_fit():
    events = [event(1, 1, thread) for thread in range(192)]
    line = timeline.build(events, 1.0, None)
    assert len(line.threads) == timeline.ROWS
    assert line.all_threads == 192


def test_an_empty_trace_makes_no_timeline():
    assert timeline.build([], 1.0, None) is None


def test_bounds_are_judged_by_the_worst_trial():
    held = {"stall": True, "garbage_bound": 100}
    configs = stats.group([
        trial(scheme="neutralization", garbage_peak=90, **held),
        trial(scheme="hazard_pointers", garbage_peak=90, **held),
        trial(scheme="hazard_pointers", garbage_peak=101, **held),
        trial(scheme="token", garbage_peak=10_000, stall=True, garbage_bound=None),
    ])  # fmt: skip
    kept, broken, unbounded = words.bounds(configs)
    assert [c.scheme for c in kept] == ["neutralization"]
    assert [c.scheme for c in broken] == ["hazard_pointers"]
    assert [c.scheme for c in unbounded] == ["token"]
    told = words.stall_words(kept, broken, unbounded)
    assert "broke the stated bound" in told
    assert "no bound" in told


def test_style_sheets_know_every_colour():
    """A name that is none to them is drawn black in a legend, and by chance in a picture."""
    named = look.colours()
    assert [name for name in named if not re.fullmatch("[a-z][a-z0-9_-]*", name)] == []
    assert {look.collector_colour(name)[1:] for name in look.COLLECTORS} <= set(named)
