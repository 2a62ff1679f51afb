# SPDX-License-Identifier: Apache-2.0
"""Section 3.3 of the paper: batch against amortized freeing (figures 3 and 4, tables 2 and 3)."""

from __future__ import annotations

from lab import look, words
from lab.paper import arms, blocks, factors
from lab.paper.found import Found, each
from lab.paper.page import LARGE_BATCH, Page, Scale, Shown
from lab.records import Located
from lab.stats import Config, compare, find
from lab.verdict import BOUND, EQUAL, Arm, Sub

BATCH, AMORTIZED = ("debra", "batch"), ("debra", "amortized")
BOTH = (BATCH, AMORTIZED)
MOST_LONG = 0.5  # of calls of free, where most are too short to be seen


def _per_free(one, other, field: str) -> float | None:
    """How many times as often `one` does this for each block freed."""
    a, b = each(one, field, "frees"), each(other, field, "frees")
    return a / b if a is not None and b else None


def _figure_3_cells(scale: Scale) -> list:
    more = {"batch": LARGE_BATCH, "count": True, "trace": True}
    return [scale.cell("abtree", s, scale.over, seconds=max(1.0, scale.seconds), **more)
            for s in BOTH]  # fmt: skip


def _figure_3(found: Found) -> Shown | None:
    trials = [(found.traced("abtree", s, counted=True) or [None])[0] for s in BOTH]
    if None in trials:
        return None
    timelines = [blocks.timeline_block(trial) for trial in trials]
    head = ["", "calls of free", "over 0.1 ms", "99 %", "99.9 %", "longest", "mean"]
    rows = []
    for trial in trials:
        r = trial.record
        ns = [r.get(f"free_call_ns_{name}") for name in ("p99", "p999", "max", "mean")]
        rows.append([look.series_title((r["scheme"], r["release"])), look.count(r["frees"]),
                     f"{r['frees_over_100us']:,}", *map(look.duration, ns)])  # fmt: skip
    slow = [t.record["frees_over_100us"] / max(1, t.record["frees"]) * 1e6 for t in trials]
    here = (
        f"{slow[0]:.3g} of a million calls last over 0.1 ms with batches, {slow[1]:.3g} with "
        "amortized freeing"
    )
    at = [c for c in found.configs if c.conditions.traced and c.conditions.counted
          and c.conditions.structure == "abtree"]  # fmt: skip
    count = trials[0].record["threads"]
    threads = words.threads_text(count)
    claims = [
        arms.of_series(at, *BOTH, count, "frees_over_100us", "calls over 0.1 ms, of all",
                       per="frees", varies=factors.RELEASE),
        *(arms.promised(arms.records_of(find(at, s, count)),
                        f"{look.series_title(s)}: calls over 0.1 ms, of all", "frees_over_100us",
                        MOST_LONG, threads, "frees") for s in BOTH),
        arms.cannot("many last for milliseconds", threads,
                    "calls are counted from 0.1 ms on, whatever they last"),
    ]  # fmt: skip
    table = blocks.table(head, rows, f"Single calls of free · {threads}")
    return Shown([table, *[t for t in timelines if t]], here + ".", claims)


FIGURE_3 = Page(
    key="figure-3", name="Figure 3", title="How long single calls of free take",
    paper="Of 192 threads' calls of free most are too short to be seen on a timeline, but batches "
          "bring many that last for milliseconds; with amortized freeing few are left.",
    cells=_figure_3_cells, show=_figure_3,
    limits="A call can also look long because its thread lost the processor in the middle. With "
           "more threads than cores that happens to either policy, in proportion to the time it "
           "spends in free.",
)  # fmt: skip


def _table_2_cells(scale: Scale) -> list:
    return [
        scale.cell("abtree", series, scale.full, batch=batch, count=count)
        for series in BOTH
        for batch in (None, LARGE_BATCH)
        for count in (False, True)
    ]


def _table_2(found: Found) -> Shown | None:
    counted = found.pair("abtree", *BOTH, counted=True, batch=LARGE_BATCH)
    plain = found.pair("abtree", *BOTH, batch=LARGE_BATCH)
    if counted is None or plain is None:
        return None
    rows = []
    for p, c in zip(plain, counted, strict=True):
        rows.append([
            look.series_title(c.series), blocks.told(p, "ops_per_s", look.rate),
            blocks.told(p, "freed", look.count), blocks.share(c),
            blocks.milli(c, "allocator_flushes"), blocks.milli(c, "allocator_locks"),
            blocks.told(c, "free_call_ns_mean", look.duration),
        ])  # fmt: skip
    head = ["", "speed", "freed", "time in free", "flushes / 1000 frees", "locks / 1000 frees",
            "mean free"]  # fmt: skip
    gain = compare(plain[1].ops_per_s, plain[0].ops_per_s)
    fewer = [_per_free(*counted, f"allocator_{what}") for what in ("flushes", "locks")]
    here = f"Amortized is {words.speed_words(gain)} batch" if gain else "No speed was measured"
    if fewer[0]:
        here += (
            f". For each block freed, batch flushes {look.times(fewer[0])} and locks "
            f"{look.times(fewer[1] or 0)} as often"
        )
    title = f"DEBRA · {blocks.where(list(counted), True)}"
    how = {"varies": factors.RELEASE}
    claims = [
        arms.of_configs(plain[1], plain[0], "ops_per_s", "speed", factor=2.56, **how),
        arms.of_configs(plain[1], plain[0], "freed", "blocks freed", factor=2.56, **how),
        arms.of_configs(*counted, "free_share", "time in free", factor=3.1, **how),
        *(arms.of_configs(*counted, f"allocator_{what}", f"{what} a free", per="frees", **how)
          for what in ("flushes", "locks")),
    ]  # fmt: skip
    return Shown([blocks.table(head, rows, title), PAPER_TABLE_2], here + ".",
                 arms.under("jemalloc", list(counted), claims))  # fmt: skip


PAPER_TABLE_2 = blocks.table(
    ["", "speed", "freed", "time in free", "of it flushing", "of it locking"],
    [["JE batch", "43.4 M/s", "114 M", "59.5 %", "58.8 %", "39.8 %"],
     ["JE amortized", "111.3 M/s", "292 M", "19.2 %", "17.6 %", "5.5 %"]],
    "The paper, 192 threads, jemalloc", paper=True,
)  # fmt: skip

TABLE_2 = Page(
    key="table-2", name="Table 2", title="Amortized freeing against batches, jemalloc",
    paper="With 192 threads amortized freeing is 2.6 times as fast, frees 2.6 times as much, and "
          "spends a third of the time on it: a block freed a little at a time is taken again from "
          "the thread's own buffer instead of going back to the thread that allocated it.",
    cells=_table_2_cells, show=_table_2,
    limits="What a flush costs grows with the number of threads that own the flushed blocks and "
           "queue for the same locks; with two it is cheap, and the gain in speed is small. How "
           "often buffers are flushed and locks are taken does not depend on that, and is counted.",
)  # fmt: skip


def _figure_4_cells(scale: Scale) -> list:
    return [scale.cell("abtree", series, scale.over, trace=True, seconds=max(1.0, scale.seconds))
            for series in BOTH]  # fmt: skip


def _figure_4(found: Found) -> Shown | None:
    picked = []
    for series in BOTH:
        traced = found.traced("abtree", series, counted=False)
        able = [t for t in traced if t.record.get("garbage_per_epoch")]
        picked += able[:1]
    if len(picked) < 2 or len({t.record["threads"] for t in picked}) > 1:
        return None
    made, figures = [], []
    for trial in picked:
        points = [nodes for _, nodes in trial.record["garbage_per_epoch"]]
        mean = sum(points) / len(points)
        figures.append((mean, max(points)))
        name = look.series_title((trial.record["scheme"], trial.record["release"]))
        made.append(blocks.charts_block(
            f"{name}: {look.count(mean)} nodes on average, {look.count(max(points))} at most",
            [blocks.epochs_chart(trial.record)], [],
        ))  # fmt: skip
    (batch_mean, batch_top), (mean, top) = figures
    here = (
        f"The highest peak is {look.times(batch_top / max(1, batch_mean))} the average with "
        f"batches and {look.times(top / max(1, mean))} with amortized freeing, whose average is "
        f"{look.times(mean / max(1, batch_mean))} that of batches"
    )
    threads = picked[0].record["threads"]
    batch, ours = (Arm(look.series_title(s), _epochs_of(found, s, threads), peak_of_mean)
                   for s in BOTH)  # fmt: skip
    means = [Arm(f"{look.series_title(s)}: mean", _epochs_of(found, s, threads), mean_garbage)
             for s in BOTH]  # fmt: skip
    how = {"varies": factors.RELEASE}
    claims = [arms.claim(batch, ours, "the highest peak over the mean", **how),
              arms.level(means[1], means[0], "garbage in an epoch", **how)]  # fmt: skip
    return Shown([block for block in made if block], here + ".", claims)


def _epochs_of(found: Found, series, threads: int) -> tuple[dict, ...]:
    trials: list[Located] = arms.traced(found, "abtree", series, threads)
    return tuple(t.record for t in trials)


def mean_garbage(record: dict) -> float | None:
    """None: no epoch ended in the trial."""
    points = [nodes for _, nodes in record.get("garbage_per_epoch") or []]
    return sum(points) / len(points) if points else None


def peak_of_mean(record: dict) -> float | None:
    mean = mean_garbage(record)
    if mean is None:
        return None
    return max(nodes for _, nodes in record["garbage_per_epoch"]) / max(1.0, mean)


FIGURE_4 = Page(
    key="figure-4", name="Figure 4", title="Garbage in each epoch, batch and amortized",
    paper="Amortized freeing takes most peaks off the garbage that waits in each epoch, and "
          "leaves the average only slightly larger.",
    cells=_figure_4_cells, show=_figure_4,
    limits="Epochs are looked at once a millisecond; shorter ones are passed over.",
)  # fmt: skip


# How many times as fast amortized freeing is; under mimalloc batches are, a little.
PAPER_FACTORS = {"jemalloc": 2.56, "tcmalloc": 3.25}
IMMUNE, LOSES = "mimalloc", 1.09


def _table_3_cells(scale: Scale) -> list:
    return [
        scale.cell("abtree", series, scale.full, allocator=name, batch=LARGE_BATCH, count=count)
        for series in BOTH
        for name in scale.allocators
        for count in (False, True)
    ]


def _table_3(found: Found) -> Shown | None:
    names = sorted({c.conditions.allocator for c in found.configs})
    rows, gains = [], {}
    for name in names:
        pair = found.pair("abtree", *BOTH, batch=LARGE_BATCH, allocator=name)
        if pair is None:
            continue
        counted = found.pair("abtree", *BOTH, batch=LARGE_BATCH, allocator=name, counted=True)
        gains[name] = compare(pair[1].ops_per_s, pair[0].ops_per_s)
        for place, config in enumerate(pair):
            c = counted[place] if counted else None
            rows.append([
                f"{name}, {config.release}", blocks.told(config, "ops_per_s", look.rate),
                blocks.told(config, "freed", look.count), blocks.share(c),
                blocks.milli(c, "frees_remote"), blocks.milli(c, "frees_over_100us"),
                blocks.told(c, "free_call_ns_mean", look.duration),
                blocks.told(c, "free_call_ns_p999", look.duration),
            ])  # fmt: skip
    if not gains:
        return None
    head = ["", "speed", "freed", "time in free", "remote / 1000 frees", "over 0.1 ms / 1000",
            "mean free", "99.9 %"]  # fmt: skip
    here = "Amortized against batch: " + ", ".join(
        f"{name} {look.times(g.ratio)}" + ("" if g.proven else " (unproven)")
        for name, g in gains.items() if g
    )  # fmt: skip
    return Shown([blocks.table(head, rows, "DEBRA, batches of 32 K"), PAPER_TABLE_3], here + ".",
                 [claim for name in (*PAPER_FACTORS, IMMUNE)
                  for claim in _allocator_claims(found, name)])  # fmt: skip


def _allocator_claims(found: Found, name: str) -> list[Sub]:
    """What amortized freeing gains under one allocator of the paper's."""
    pair = found.pair("abtree", *BOTH, batch=LARGE_BATCH, allocator=name) or (None, None)
    return gains_of(*pair, name)


def gains_of(batch: Config | None, amortized: Config | None, name: str) -> list[Sub]:
    """Where it needs no help, amortized freeing brings nothing to speak of, and costs a little."""
    pair, asked = (amortized, batch), [{"factor": PAPER_FACTORS.get(name, 1.0)}]
    if name == IMMUNE:
        pair, asked = (batch, amortized), [{"factor": 1 / EQUAL, "kind": BOUND}, {"factor": LOSES}]
    how = {"where": name, "varies": factors.RELEASE, "lacks": (name,)}
    return [arms.of_configs(*pair, "ops_per_s", "speed", **how, **one) for one in asked]


PAPER_TABLE_3 = blocks.table(
    ["", "speed", "freed", "time in free"],
    [["TC batch", "25.7 M/s", "69 M", "52.6 %"], ["TC amortized", "83.5 M/s", "219 M", "11.8 %"],
     ["MI batch", "104 M/s", "273 M", "15.6 %"], ["MI amortized", "95.0 M/s", "249 M", "17.2 %"]],
    "The paper, 192 threads", paper=True,
)  # fmt: skip

TABLE_3 = Page(
    key="table-3", name="Table 3", title="Amortized freeing against batches, other allocators",
    paper="jemalloc gains 2.56 times (table 2); tcmalloc, whose buffers go back to one list for "
          "all threads, 3.25 times; "
          "mimalloc, which frees into the page that a block came from, needs no help and loses a "
          "little.",
    cells=_table_3_cells, show=_table_3,
    limits="Only jemalloc tells how often it flushed and locked. For the others, blocks freed by "
           "another thread than the one that allocated them, and slow calls, were counted at the "
           "door.",
)  # fmt: skip

PAGES = [FIGURE_3, TABLE_2, FIGURE_4, TABLE_3]
