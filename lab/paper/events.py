# SPDX-License-Identifier: Apache-2.0
"""What two cores can count though they cannot show it: events in the allocator, and announcements
read."""

from __future__ import annotations

from lab import charts, legends, look, words
from lab.paper import arms, blocks, factors
from lab.paper.evaluation import TEN
from lab.paper.found import Found, each
from lab.paper.page import LARGE_BATCH, Page, Scale, Shown, one_trial
from lab.stats import find
from lab.verdict import Arm

# Of a batch there are more of each: buffers that run over, locks of those who allocated, and, since
# what was freed is not at hand, buffers that are filled.
WHAT = ("flushes", "locks", "fills")
FEW = 0.5  # announcements that an operation reads, at most, where it reads one every few times


def _events_cells(scale: Scale) -> list:
    return [
        scale.cell("abtree", (scheme, release), scale.full, batch=LARGE_BATCH, count=True)
        for scheme in scale.schemes("abtree") if scheme in TEN or scheme == "token"
        for release in ("batch", "amortized")
    ]  # fmt: skip


def _events(found: Found) -> Shown | None:
    panels = found.panels("abtree", counted=True)
    if not panels:
        return None
    # jemalloc tells most; then whatever holds most schemes.
    members = max(panels, key=lambda m: (any(c.allocator_flushes for c in m), len(m)))
    full = found.full(members)
    at = sorted((c for c in members if c.threads == full and c.frees),
                key=lambda c: look.sort_key(c.series))  # fmt: skip
    rows = [
        [
            look.series_title(c.series), blocks.told(c, "frees", look.count), _run(c),
            blocks.milli(c, "allocator_flushes"), blocks.milli(c, "allocator_locks"),
            blocks.milli(c, "frees_remote"), blocks.told(c, "frees_over_100us", look.count),
            blocks.share(c),
        ]
        for c in at
    ]  # fmt: skip
    head = ["", "frees", "frees in a run", "flushes", "locks", "remote",
            "over 0.1 ms", "time in free"]  # fmt: skip
    ratios = []
    for scheme in {c.scheme for c in at}:
        one, other = (find(at, (scheme, r)) for r in ("batch", "amortized"))
        a, b = (each(c, "allocator_flushes", "frees") for c in (one, other))
        if a and b and all(blocks.enough(find(at, (scheme, r))) for r in ("batch", "amortized")):
            ratios.append(a / b)
    here = f"{len(at)} configurations counted"
    if ratios:
        ratios.sort()
        here = (
            f"For each block freed, batch flushes the thread's buffer "
            f"{look.times(ratios[0])} to {look.times(ratios[-1])} as often as amortized freeing, "
            f"over {len(ratios)} schemes"
        )
    flush = charts.release_dots(at, "allocator_flushes", "buffer flushes in a trial", look.count)
    legend = legends.releases({c.release for c in at if c.scheme != "none"})
    made = [blocks.charts_block(blocks.where(at, True), [flush], legend)] if flush else []
    title = "Calls of free; flushes, locks and remote frees in a thousand"
    claims = [
        arms.of_pair(at, (scheme, "batch"), (scheme, "amortized"), full, f"allocator_{what}",
                     f"{what} a free", per="frees", varies=factors.RELEASE)
        for what in WHAT for scheme in TEN
    ]  # fmt: skip
    return Shown([*made, blocks.table(head, rows, title)], here + ".", claims)


def _run(config) -> str:
    mean = each(config, "frees", "free_runs")
    top = config.free_run_max
    return f"{look.number(mean)}, at most {look.count(top.median)}" if mean and top else "–"


EVENTS = Page(
    key="events", name="Counted", title="What happens at the allocator's door",
    paper="A batch overflows the thread's buffer, which then goes back block by block to the "
          "threads that allocated them, under their locks (section 3.2). Amortized freeing gives "
          "the thread time to allocate from its buffer what it has just freed.",
    cells=_events_cells, show=_events,
    limits="Counts, not times: they hold for any number of cores. A run is as many frees as a "
           "thread makes without allocating anything in between.",
)  # fmt: skip


def _announcements(found: Found) -> Shown | None:
    records = [r for r in found.announcements if r.get("announcements_per_op") is not None]
    if not records:
        return None
    schemes = sorted({r["scheme"] for r in records}, key=lambda s: look.sort_key((s, "batch")))
    lines = []
    for scheme in schemes:
        points = sorted((r["threads"], r["announcements_per_op"])
                        for r in records if r["scheme"] == scheme)  # fmt: skip
        lines.append({
            "title": look.scheme(scheme).title, "meta": f"{scheme}/batch", "points": points,
            "colour": look.scheme_colour(scheme), "marker": charts.marker((scheme, "batch")),
        })  # fmt: skip
    most = max(r["threads"] for r in records)
    last = {line["title"]: line["points"][-1][1] for line in lines if line["points"][-1][0] == most}
    top = max(last, key=last.get)
    chart = blocks.plain_lines(lines, "threads", "announcements read an operation",
                               lambda value: f"{value:.3g}")  # fmt: skip
    legend = legends.series({(scheme, "batch") for scheme in schemes}, bare=True)
    numbers = sorted({r["threads"] for r in records})
    known = {(r["scheme"], r["threads"]): r["announcements_per_op"] for r in records}
    rows = [
        [look.scheme(s).title,
         *[f"{known[s, n]:.3g}" if (s, n) in known else "–" for n in numbers]]
        for s in schemes
    ]  # fmt: skip
    here = (
        f"With {words.threads_text(most)} an operation reads at most {last[top]:.3g} announcements "
        f"({top}); {sum(value < 0.5 for value in last.values())} of {len(last)} schemes read "
        "fewer than one in two operations"
    )
    table = blocks.table(["", *[words.threads_text(n) for n in numbers]], rows)
    picture = blocks.charts_block("One block retired in each operation", [chart], legend)
    read = {name: Arm(f"{look.scheme(name).title}: announcements an operation",
                      arms.where(found.announcements, scheme=name), "announcements_per_op")
            for name in ("debra", "token")}  # fmt: skip
    claims = [
        *(arms.promised(arm.records, arm.name, arm.value, FEW, "any number of threads",
                        along=("threads",)) for arm in read.values()),
        arms.cannot("epochs twice as long with twice the threads", "DEBRA",
                    "the length of epochs is not counted"),
        arms.cannot("none but its holder reads the token", "Token",
                    "reads are counted, and not the threads that made them"),
    ]  # fmt: skip
    return Shown([picture, table], here + ".", claims)


ANNOUNCEMENTS = Page(
    key="announcements", name="Counted", title="Announcements read by an operation",
    paper="DEBRA reads one other thread's announcement every few operations, so an epoch takes "
          "twice as long with twice the threads; a token is read by no thread but its holder "
          "(sections 2 and 4).",
    cells=one_trial,
    show=_announcements,
    commands=lambda scale: [("announcements",)],
    limits="Counted by `spolia-bench announcements`, up to the paper's 192 threads: reads "
           "of other threads' parts of the scheme while it looks for safe blocks, numbers that no "
           "thread has included. Cores do not matter to a count.",
)  # fmt: skip

PAGES = [EVENTS, ANNOUNCEMENTS]
