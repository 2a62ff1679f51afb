# SPDX-License-Identifier: Apache-2.0
"""Section 3 of the paper: where the time goes as threads are added (figures 1 and 2, table 1)."""

from __future__ import annotations

from lab import look, words
from lab.paper import arms, blocks, factors
from lab.paper.found import Found, each, ratio
from lab.paper.page import Page, Scale, Shown
from lab.stats import Config, compare, find
from lab.verdict import BOUND, EQUAL, Arm, Claim, Sub

LEAK, DEBRA = ("none", "batch"), ("debra", "batch")
SPEED, MEMORY = ("ops_per_s", "speed"), ("peak_rss_bytes", "peak memory")
PLACES = {"abtree": "(a,b)-tree", "avl": "AVL tree"}


def _figure_1_cells(scale: Scale) -> list:
    return [
        scale.cell(structure, series, threads)
        for structure in ("abtree", "avl")
        for series in (LEAK, DEBRA)
        for threads in scale.threads
    ]


def _figure_1(found: Found) -> Shown | None:
    picked = {s: found.pick(s, [LEAK, DEBRA], threads=2) for s in ("abtree", "avl")}
    if not all(picked.values()):
        return None
    made, told, claims = [], [], []
    for structure, members in picked.items():
        made += blocks.lines(found, members, [LEAK, DEBRA])
        full = found.full(members, DEBRA)
        one, many = find(members, DEBRA, 1), find(members, DEBRA, full)
        leak = find(members, LEAK, full)
        growth = ratio(many, one, "ops_per_s")
        memory = ratio(leak, many, "peak_rss_bytes") or 0
        told.append(_told_of(structure, growth, full, memory, ratio(leak, many, "ops_per_s")))
        most = max(c.threads for c in members if c.series == DEBRA)
        if structure == "abtree":
            claims += [arms.of_series(members, LEAK, DEBRA, most, *figure, where=where)
                       for figure, where in ((MEMORY, f"abtree, {most} threads"),
                                             (SPEED, f"abtree, {most} threads"))]  # fmt: skip
            claims.append(arms.of_threads(members, DEBRA, full, 1, *SPEED))
            claims.append(arms.of_threads(members, DEBRA, full, most, *SPEED, kind=BOUND,
                                          factor=1 / EQUAL))  # fmt: skip
        else:
            claims.append(arms.of_threads(members, DEBRA, most, full, *SPEED))
    claims += _of_both_trees(picked)
    return Shown(made, " ".join(told), arms.under("jemalloc", picked["abtree"], claims))


def _of_both_trees(picked: dict[str, list[Config]]) -> list[Sub]:
    """Leaking brings the trees together, and of leaked memory the (a,b)-tree has more."""
    most = max(c.threads for c in picked["abtree"] if c.series == DEBRA)
    at = {(s, series): find(members, series, most) for s, members in picked.items()
          for series in (LEAK, DEBRA)}  # fmt: skip
    told = words.threads_text(most)
    sizes = arms.cannot("nodes of 240 bytes are replaced, against 64 for an insert", told,
                        "the sizes of blocks are the program's, and no result")  # fmt: skip
    if not all(at.values()):
        return [arms.missed("what leaking does to both trees", told, "not measured"), sizes]

    def apart(series, more: str, less: str, figure: tuple[str, str]) -> Claim:
        ones, others = (
            Arm(
                f"{PLACES[s]}, {look.series_title(series)}: {figure[1]}",
                arms.records_of(at[s, series]),
                figure[0],
            )
            for s in (more, less)
        )
        return arms.claim(ones, others, told, varies=factors.STRUCTURE)  # fmt: skip

    gap = arms.grows(apart(DEBRA, "avl", "abtree", SPEED), apart(LEAK, "avl", "abtree", SPEED),
                     f"{told}, DEBRA against leaking", factors.SCHEME)  # fmt: skip
    return [gap, apart(LEAK, "abtree", "avl", MEMORY), sizes]


def _told_of(structure: str, growth, full: int, memory: float, speed) -> str:
    grown = (
        f"DEBRA runs {look.times(growth)} as fast with {words.threads_text(full)} as with one; "
        if growth else ""
    )  # fmt: skip
    paid = f" at {look.times(speed)} the speed" if speed else ""
    return f"On {structure}, {grown}leaking takes {look.times(memory)} the memory{paid}."


FIGURE_1 = Page(
    key="figure-1", name="Figure 1", title="Two trees, with DEBRA and leaking",
    paper="With DEBRA under jemalloc the (a,b)-tree stops scaling above 96 threads while the AVL "
          "tree (OCCtree) goes on to 192. Leaking closes much of the gap and shows how much more "
          "memory the (a,b)-tree goes through: it replaces nodes of 240 bytes, the AVL tree "
          "allocates 64 for an insert and nothing for a delete.",
    cells=_figure_1_cells, show=_figure_1,
    limits="The knee lies beyond 48 threads, where a second pair of sockets joins in. Two cores "
           "have neither. What can be seen is its cause: how much more memory the (a,b)-tree "
           "passes through the allocator.",
)  # fmt: skip


def _figure_2_cells(scale: Scale) -> list:
    return [
        scale.cell("abtree", DEBRA, threads, trace=True, seconds=max(1.0, scale.seconds))
        for threads in (scale.full, scale.over)
    ]


def _figure_2(found: Found) -> Shown | None:
    traced = reversed(found.traced("abtree", DEBRA, counted=False))
    trials = {t.record["threads"]: t for t in traced}  # the first of each
    made = [(n, blocks.timeline_block(trial)) for n, trial in sorted(trials.items())]
    made = [(n, block) for n, block in made if block and block["line"]]
    if not made:
        return None
    lengths = {n: _middle(block["line"].of("batch_freed")) for n, block in made}
    here = ", ".join(
        f"{look.duration(length * 1e6)} with {words.threads_text(n)}"
        for n, length in lengths.items()
    )
    few, many = min(lengths), max(lengths)
    grew = lengths[many] / lengths[few] if len(lengths) > 1 and lengths[few] else None
    note = f": {look.times(grew)} as long with {look.times(many / few)} the threads" if grew else ""
    traced = [c for c in found.configs if c.conditions.traced and not c.conditions.counted
              and c.conditions.structure == "abtree" and c.series == DEBRA]  # fmt: skip
    numbers = sorted(c.threads for c in traced)
    top, bottom = numbers[-1], numbers[0]
    claims = [
        arms.of_threads(traced, DEBRA, top, bottom, "free_ns_p50", "the median batch, by threads",
                        per="threads"),
        arms.of_threads(traced, DEBRA, bottom, top, "epochs", "epochs"),
    ]  # fmt: skip
    return Shown([block for _, block in made], f"The mean batch takes {here}{note}.", claims)


def _middle(boxes) -> float:
    return sum(box.length for box in boxes) / len(boxes) if boxes else 0.0


FIGURE_2 = Page(
    key="figure-2", name="Figure 2", title="How long threads free batches",
    paper="Timelines of 96 and 192 threads. Twice the threads should mean batches of twice the "
          "length; they are many times longer, and epochs become rare.",
    cells=_figure_2_cells, show=_figure_2,
    limits="Here all threads share the same cores, so the longest boxes are those in which a "
           "thread was descheduled in the middle of a batch, not those in which it waited for an "
           "allocator's lock.",
)  # fmt: skip


def _table_1_cells(scale: Scale) -> list:
    counts = (scale.full, 2 * scale.full, scale.over)
    return [
        scale.cell("abtree", DEBRA, threads, count=count)
        for threads in counts
        for count in (False, True)
    ]


def _table_1(found: Found) -> Shown | None:
    counted = found.pick("abtree", [DEBRA], counted=True, threads=2)
    if counted is None:
        return None
    plain = found.pick("abtree", [DEBRA]) or []
    rows = []
    numbers = sorted({c.threads for c in counted if c.series == DEBRA})
    for threads in numbers:
        c, p = find(counted, DEBRA, threads), find(plain, DEBRA, threads)
        rows.append([
            words.threads_text(threads), blocks.told(p or c, "ops_per_s", look.rate),
            blocks.told(p or c, "epochs", look.count), blocks.share(c),
            blocks.milli(c, "allocator_flushes"), blocks.milli(c, "allocator_locks"),
            blocks.milli(c, "allocator_lock_waits"),
        ])  # fmt: skip
    head = ["", "speed", "epochs", "time in free", "flushes / 1000 frees", "locks / 1000 frees",
            "waits / 1000 frees"]  # fmt: skip
    made = [blocks.table(head, rows, f"DEBRA, batches · {blocks.where(counted)}"), PAPER_TABLE_1]
    few, many = (find(counted, DEBRA, n) for n in (numbers[0], numbers[-1]))
    flushes = each(many, "allocator_flushes", "frees")
    before = each(few, "allocator_flushes", "frees")
    epochs = compare(few.epochs, many.epochs)
    here = (
        f"From {numbers[0]} to {words.threads_text(numbers[-1])} time in free goes from "
        f"{blocks.share(few)} to {blocks.share(many)}"
    )
    if flushes and before:
        here += f", flushes for each free {look.times(flushes / before)}"
    if epochs:
        here += f", and there are {look.times(1 / epochs.ratio)} the epochs"
    top, bottom = numbers[-1], numbers[0]
    claims = [
        arms.of_threads(counted, DEBRA, top, bottom, "free_share", "time in free", factor=5.2),
        arms.of_threads(plain or counted, DEBRA, bottom, top, "epochs", "epochs", factor=6.4),
        arms.of_threads(counted, DEBRA, top, bottom, "allocator_flushes", "flushes a free",
                        per="frees"),
        arms.cannot("nearly all of the time in free is flushing, most of that waiting for locks",
                    words.threads_text(top), "flushes and locks are counted, not timed"),
    ]  # fmt: skip
    return Shown(made, here + ".", claims)


PAPER_TABLE_1 = blocks.table(
    ["", "speed", "epochs", "time in free", "of it flushing", "of it locking"],
    [["48 threads", "35.9 M/s", "12,631", "11.5 %", "9.9 %", "4.9 %"],
     ["96 threads", "45.3 M/s", "5,176", "39.3 %", "38.3 %", "24.6 %"],
     ["192 threads", "43.4 M/s", "1,980", "59.5 %", "58.8 %", "39.8 %"]],
    "The paper, jemalloc", paper=True,
)  # fmt: skip

TABLE_1 = Page(
    key="table-1", name="Table 1", title="What freeing costs as threads are added",
    paper="From 48 to 192 threads the share of time spent in free grows from 11.5 to 59.5 %, "
          "nearly all of it flushing the thread's buffer, most of that waiting for locks. Epochs "
          "become six times fewer.",
    cells=_table_1_cells, show=_table_1,
    limits="Locks are hardly contended by two running threads, so waits stay near zero here. What "
           "is counted is what makes them contended elsewhere: flushes of the thread's buffer, and "
           "locks taken. Each call of free was timed for this; the speed is from trials without.",
)  # fmt: skip

PAGES = [FIGURE_1, FIGURE_2, TABLE_1]
