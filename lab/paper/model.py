# SPDX-License-Identifier: Apache-2.0
"""The page of the model: the paper's 192 threads, replayed from events that were counted here."""

from __future__ import annotations

from lab import look, words
from lab.legends import parts as part_chips
from lab.legends import releases as release_chips
from lab.paper import blocks
from lab.paper.found import Found, each
from lab.paper.machine import Events, Machine, Outcome, replay
from lab.paper.page import LARGE_BATCH, Page, Scale, Shown
from lab.stats import Config, find
from lab.verdict import MODEL

BOTH = (("debra", "batch"), ("debra", "amortized"))
THREADS = (2, 24, 48, 96, 192)
MOST = THREADS[-1]
REMOTE = (60, 250, 500, 1000)
LAYOUTS = ((False, "one lock for each thread's arena (jemalloc)"),
           (True, "one lock for all (tcmalloc's central list)"))  # fmt: skip


def _cells(scale: Scale) -> list:
    return [
        scale.cell("abtree", series, scale.full, batch=LARGE_BATCH, count=count)
        for series in BOTH
        for count in (False, True)
    ]


def events_of(counted: tuple[Config, Config], speeds: list[float]) -> list[Events] | None:
    """Counted events of both policies. A flush costs the same under each: the smaller of two
    estimates, since what is above the median need not all be flushing."""
    if any(not c.allocator_flushes or not c.allocator_flushes.median for c in counted):
        return None
    rates = [each(c, "allocator_flushes", "frees") for c in counted]
    means = [c.free_call_ns_mean.median for c in counted]
    flush_ns = min(
        (mean - c.free_call_ns_p50.median) / rate
        for c, mean, rate in zip(counted, means, rates, strict=True)
    )
    flush_ns = max(flush_ns, 100.0)
    # In a long run nothing is allocated: what a flush gives back is what was freed since the last.
    flushed = max(1.0, 1 / rates[0])
    made = []
    for c, mean, rate, speed in zip(counted, means, rates, speeds, strict=True):
        frees = each(c, "frees", "operations")
        made.append(Events(
            work_ns=max(1.0, c.threads / speed * 1e9 - frees * mean),
            frees=frees,
            batch=max(1.0, each(c, "frees", "free_runs")),
            free_ns=max(1.0, mean - rate * flush_ns),
            flushes=rate,
            flush_ns=flush_ns,
            threads=c.threads,
            flushed=flushed,
        ))  # fmt: skip
    return made


def _counted(found: Found) -> tuple[tuple[Config, Config], list[float]] | None:
    counted = found.pair("abtree", *BOTH, counted=True, batch=LARGE_BATCH, allocator="jemalloc")
    if counted is None:
        return None
    plain = found.pick("abtree", list(BOTH), allocator="jemalloc", batch=LARGE_BATCH) or []
    speeds = []
    for c in counted:
        twin = find(plain, c.series, c.threads)
        speeds.append(max(config.ops_per_s.high for config in (c, twin) if config))
    # One speed of the work itself, that of the trial that other programs disturbed least: what
    # policies cost beyond the frees is not the model's subject.
    return counted, [max(speeds)] * 2


def show(found: Found) -> Shown | None:
    inputs = _counted(found)
    events = events_of(*inputs) if inputs else None
    if events is None:
        return None
    outcomes = {
        (one, threads): [replay(e, Machine(threads, one_lock=one)) for e in events]
        for one, _ in LAYOUTS
        for threads in THREADS
    }
    batch, amortized = outcomes[False, MOST]
    made = [*_speed_charts(outcomes), _shares(outcomes), _inputs(events), _what_if(events)]
    single = outcomes[True, MOST]
    here = (
        f"Model, 192 threads: amortized {look.times(amortized.ops_per_s / batch.ops_per_s)} batch "
        f"with a lock for each arena, {look.times(single[1].ops_per_s / single[0].ops_per_s)} with "
        f"one lock for all; time in free {look.percent(batch.free_share)} against "
        f"{look.percent(amortized.free_share)}, waiting for locks "
        f"{look.percent(batch.wait_share)} against {look.percent(amortized.wait_share)}"
    )
    return Shown([*made, PAPER, ASSUMED], here + ".", word=MODEL)


def _speed_charts(outcomes: dict) -> list[dict]:
    made = []
    for one, name in LAYOUTS:
        lines = [
            {
                "title": f"{series[1]}, {name}", "meta": series[1],
                "dash": "dash" if series[1] == "batch" else "solid",
                "colour": look.scheme_colour(series[0]),
                "marker": {"size": 9, "symbol": "square" if series[1] == "batch" else "circle",
                           "color": "@card" if series[1] == "batch" else "@scheme-debra",
                           "line": {"color": "@scheme-debra", "width": 2}},
                "points": [(n, outcomes[one, n][place].ops_per_s) for n in THREADS],
            }
            for place, series in enumerate(BOTH)
        ]  # fmt: skip
        chart = blocks.plain_lines(lines, "modelled threads", "operations per second", look.rate)
        legend = release_chips({"batch", "amortized"})
        made.append(blocks.charts_block(f"Model · {name}", [chart], legend))
    return made


def _shares(outcomes: dict) -> dict:
    rows: list[tuple[str, Outcome]] = []
    for one, _ in LAYOUTS:
        for place, series in enumerate(BOTH):
            rows.append((f"{series[1]}, {'one lock' if one else 'arenas'}",
                         outcomes[one, MOST][place]))  # fmt: skip
    parts = [
        ("waiting for locks", "@part-wait", [o.wait_share for _, o in rows]),
        ("freeing otherwise", "@part-free", [max(0, o.free_share - o.wait_share) for _, o in rows]),
        ("work", "@part-work", [1 - o.free_share for _, o in rows]),
    ]
    chart = blocks.bars([name for name, _ in rows], parts, "share of all threads' time",
                        look.percent)  # fmt: skip
    return blocks.charts_block("Model · where 192 threads' time goes", [chart], part_chips(parts))


def _inputs(events: list[Events]) -> dict:
    rows = [
        ["an operation without its frees", *[look.duration(e.work_ns) for e in events]],
        ["blocks freed by an operation", *[f"{e.frees:.3g}" for e in events]],
        ["blocks freed in a run", *[look.number(e.batch) for e in events]],
        ["a free into the buffer", *[look.duration(e.free_ns) for e in events]],
        ["flushes of the buffer in a thousand frees", *[f"{1000 * e.flushes:.3g}" for e in events]],
        ["blocks that a flush gives back", *[f"{e.flushed:.3g}" for e in events]],
        ["a flush, no other thread in the way", *[look.duration(e.flush_ns) for e in events]],
    ]
    return blocks.table(["", "batch", "amortized"], rows, "What was counted here, and goes in")


def _what_if(events: list[Events]) -> dict:
    rows = []
    for remote in REMOTE:
        some = [replay(e, Machine(MOST, remote_ns=remote)) for e in events]
        rows.append([
            look.duration(remote), *[look.rate(o.ops_per_s) for o in some],
            look.times(some[1].ops_per_s / some[0].ops_per_s),
            *[look.percent(o.free_share) for o in some],
        ])  # fmt: skip
    head = ["a line from another socket", "batch", "amortized", "ratio", "in free, batch",
            "in free, amortized"]  # fmt: skip
    return blocks.table(head, rows, "What if lines cost more, 192 threads, a lock for each arena")


PAPER = blocks.table(
    ["", "batch", "amortized", "ratio", "in free, batch", "in free, amortized"],
    [["jemalloc", "43.4 M/s", "111.3 M/s", "2.6 ×", "59.5 %", "19.2 %"],
     ["tcmalloc", "25.7 M/s", "83.5 M/s", "3.25 ×", "52.6 %", "11.8 %"]],
    "The paper measured, 192 threads", paper=True,
)  # fmt: skip
_M = Machine(MOST)
ASSUMED = blocks.table(
    ["", "assumed"],
    [["threads of one socket", str(_M.socket)],
     ["a cache line from another core, another socket",
      f"{look.duration(_M.local_ns)}, {look.duration(_M.remote_ns)}"],
     ["lines that giving back one block touches", f"{_M.lines:g}"],
     ["owners of the blocks in a flush", "any threads, at random"],
     ["waking a thread that slept for a lock", look.duration(_M.wake_ns)],
     ["order at a lock", "first come, first served"]],
    "What the model assumes",
)  # fmt: skip

PAGE = Page(
    key="model", name="Model", title="192 threads, replayed from counted events",
    paper="With 192 threads batch spends 59.5 % of its time in free and 39.8 % on locks, amortized "
          "19.2 and 5.5 %, and is 2.6 times as fast; under tcmalloc 3.25 times (tables 2 and 3).",
    cells=_cells, show=show,
    limits="A model, not a measurement. It takes what was counted here (a flush happens so often, "
           "costs so much) and lets "
           f"{words.threads_text(MOST)} queue for an allocator's locks. It knows nothing of memory "
           "bandwidth, of hardware threads that share a core, or of longer epochs and the colder "
           "caches that come of them; work is taken to scale perfectly. Only how "
           "the two policies compare is worth checking. tcmalloc also passes whole lists on "
           "without touching their blocks while it can; one lock for all is worse than that.",
)  # fmt: skip
PAGES = [PAGE]
