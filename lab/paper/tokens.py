# SPDX-License-Identifier: Apache-2.0
"""Section 4 of the paper: the four token algorithms (figures 5 to 10, table 4)."""

from __future__ import annotations

from collections.abc import Callable

from lab import look, words
from lab.paper import arms, blocks, factors
from lab.paper.found import Found, Series, ratio
from lab.paper.page import Page, Scale, Shown
from lab.records import Located
from lab.stats import Config, compare, find
from lab.timeline import Timeline
from lab.verdict import LEVEL, MORE, Arm, Sub

NAIVE = ("token_naive", "batch")
FIRST = ("token_pass_first", "batch")
PERIODIC = ("token_periodic", "batch")
FINAL = ("token_periodic", "amortized")
DEBRA = ("debra", "batch")
FORMS = [NAIVE, FIRST, PERIODIC, FINAL]
MEMORY = (("peak_rss_bytes", "peak memory"), ("garbage_peak", "garbage"))
# Of the amortized form to the three before it, with 192 threads (table 4).
FASTER = {NAIVE: 1.68, FIRST: 2.36, PERIODIC: 2.27}
TOGETHER = 0.1  # the share of freeing time that is taken for "one after another", at most
BEFORE = 0.25  # the share of the run before an epoch that takes nearly all of it, at most
# Of table 4, with 192 threads: how many times as fast the naive form is as two others, and how many
# times as much the amortized form frees as each of the others.
NAIVE_FASTER = {FIRST: 1.41, PERIODIC: 1.35}
FREES_MORE = {NAIVE: 46.0, FIRST: 3.3, PERIODIC: 2.7}


def _against_cells(series: list[Series]):
    def cells(scale: Scale) -> list:
        return [scale.cell("abtree", s, t) for s in series for t in scale.threads]

    return cells


def _figure_5(found: Found) -> Shown | None:
    members = found.pick("abtree", [NAIVE, DEBRA], threads=2)
    if members is None:
        return None
    most = max(c.threads for c in members if c.series == NAIVE)
    naive, debra = find(members, NAIVE, most), find(members, DEBRA, most)
    if debra is None:
        return None
    more = compare(naive.peak_rss_bytes, debra.peak_rss_bytes)
    garbage = compare(naive.garbage_peak, debra.garbage_peak)
    here = (
        f"With {words.threads_text(most)} the naive token runs at "
        f"{look.times(ratio(naive, debra, 'ops_per_s') or 0)} the speed of DEBRA, with "
        f"{look.times(more.ratio) if more else '–'} its peak memory and "
        f"{look.times(garbage.ratio) if garbage else '–'} its garbage"
    )
    claims = [
        arms.of_series(members, NAIVE, DEBRA, most, "ops_per_s", "speed"),
        arms.of_series(members, DEBRA, NAIVE, most, "freed", "blocks freed, of those retired",
                       per="retired"),
        *(claim for memory in MEMORY for claim in _runs_away(members, most, *memory)),
    ]  # fmt: skip
    return Shown(blocks.lines(found, members, [NAIVE, DEBRA]), here + ".", claims)


def _runs_away(members: list[Config], most: int, value: str, what: str) -> list[Sub]:
    """The naive token has more of it than DEBRA, more with the most threads than with the fewest,
    and grows faster in that than DEBRA does."""
    fewest = min(c.threads for c in members if c.series == NAIVE)
    many, few = (arms.of_pair(members, NAIVE, DEBRA, n, value, what) for n in (most, fewest))
    told = f"{words.threads_text(most)} against {fewest}"
    grown = arms.of_threads(members, NAIVE, most, fewest, value, what)
    return [many, grown, arms.growing(many, few, f"{told}: {what}")]


FIGURE_5 = Page(
    key="figure-5", name="Figure 5", title="The naive token: fast, and hungry",
    paper="The naive token looks faster than DEBRA, but only since it hardly frees: its peak "
          "memory runs away as threads are added.",
    cells=_against_cells([NAIVE, DEBRA]), show=_figure_5,
)  # fmt: skip


# What is said of a form beside others: those, of which two there is more, and what that is.
Beside = tuple[list[Series], bool, str, str]


def _timeline_page(key: str, name: str, series: Series, title: str, paper: str, judge, limits="",
                   beside: Beside = ([], True, "", "")):  # fmt: skip
    def cells(scale: Scale) -> list:
        seconds = max(1.0, scale.seconds)
        return [scale.cell("abtree", one, scale.over, trace=True, seconds=seconds)
                for one in (series, *beside[0])]  # fmt: skip

    def show(found: Found) -> Shown | None:
        trials = found.traced("abtree", series, counted=False)
        block = blocks.timeline_block(trials[0]) if trials else None
        if block is None:
            return _near(found) if series == FINAL else None
        here, claims = judge(trials, block["line"])
        return Shown([block], here, claims + _beside(found, series, *beside))

    return Page(key=key, name=name, title=title, paper=paper, cells=cells, show=show, limits=limits)


def _near(found: Found) -> Shown | None:
    """Our own ring, where the paper's was not traced: of it the paper claims nothing."""
    trials = found.traced("abtree", ("token", "amortized"), counted=False)
    block = blocks.timeline_block(trials[0]) if trials else None
    if block is None:
        return None
    gone = arms.missed(look.series_title(FINAL), "", "not measured: what is drawn is our own ring")
    return Shown([block], _told(trials[0].record, block["line"]) + ".", [gone])


def _beside(found: Found, series: Series, others: list[Series], more: bool, value: str,
            what: str) -> list[Sub]:  # fmt: skip
    """The form has more of the figure than each of the others, or less."""
    traced = [c for c in found.configs if c.conditions.traced and not c.conditions.counted
              and c.conditions.structure == "abtree"]  # fmt: skip
    most = max((c.threads for c in traced if c.series == series), default=1)
    pairs = [(series, other) if more else (other, series) for other in others]
    return [arms.of_pair(traced, *pair, most, value, what) for pair in pairs]


def _growth(record: dict) -> float | None:
    """Mean garbage of the last quarter over that of the second: what piles up goes on growing."""
    late, early = late_garbage(record), early_garbage(record)
    return None if late is None or early is None else late / max(1.0, early)


def _quarter(record: dict, number: int) -> float | None:
    """Mean garbage in a quarter of the run."""
    points = [nodes for _, nodes in record.get("garbage_over_time") or []]
    length = len(points) // 4
    some = points[number * length : (number + 1) * length]
    return sum(some) / len(some) if some else None


def early_garbage(record: dict) -> float | None:
    return _quarter(record, 1)


def late_garbage(record: dict) -> float | None:
    return _quarter(record, 3)


def _grows(trials: list[Located], kind: str = MORE) -> Sub:
    threads = trials[0].record["threads"]
    records = tuple(t.record for t in trials if t.record["threads"] == threads)
    return arms.claim(Arm("garbage, last quarter", records, late_garbage),
                      Arm("garbage, second quarter", records, early_garbage),
                      kind=kind, varies=factors.WITHIN)  # fmt: skip


def overlap(line) -> float | None:
    """The share of freeing time in which another thread freed a batch, too; None: no thread freed
    one, or there is no trace."""
    edges = sorted(
        edge
        for box in (line.of("batch_freed") if line else [])
        for edge in ((box.begin, 1), (box.begin + box.length, -1))
    )
    alone = together = 0.0
    depth, since = 0, 0.0
    for at, step in edges:
        if depth == 1:
            alone += at - since
        elif depth > 1:
            together += at - since
        depth, since = depth + step, at
    return together / (alone + together) if alone + together else None


def _told(record: dict, line) -> str:
    growth = _growth(record)
    peak = look.count(record.get("garbage_peak"))
    grown = f", {look.times(growth)} from the second quarter to the last" if growth else ""
    return f"Garbage reaches {peak} nodes{grown}; {record.get('epochs', 0):,} epochs"


def _judge_naive(trials: list[Located], line):
    record = trials[0].record
    together = overlap(line)
    here = f"{_told(record, line)}. No thread frees a batch."
    if together is not None:
        here = (f"{_told(record, line)}. {look.percent(1 - together)} of freeing time one thread "
                "frees alone.")  # fmt: skip
    told = "batches freed at the same time, share of it"
    return here, [
        _grows(trials),
        _share(trials, line, told, overlap, TOGETHER),
        _share(trials, line, "share of the run before the last epoch", before_last, BEFORE),
        arms.cannot("each thread finds more to free than the one before", "",
                    "batches are drawn; what waits for them is judged"),
    ]  # fmt: skip


def _share(trials: list[Located], line, told: str, of: Callable[[Timeline | None], float | None],
           most: float) -> Sub:  # fmt: skip
    """At most so much, by the traces of all trials."""
    mine = [t for t in trials if t.record["threads"] == trials[0].record["threads"]]
    shares = {id(t.record): of(line if t is trials[0] else _line_of(t)) for t in mine}

    def share_of(one: dict) -> float | None:
        return shares[id(one)]

    return arms.promised([t.record for t in mine], told, share_of, most)


def _judge_first(trials: list[Located], line):
    """Threads free at the same time: the opposite of what the naive token does."""
    here, claims = _judge_pile(trials, line)
    told = "batches freed by one thread alone, share of it"
    return here, [
        *claims,
        _share(trials, line, told, alone, 1 - TOGETHER),
        arms.cannot("a thread that gets the token while it frees holds it up", "",
                    "the thread that holds the token is not recorded"),
        arms.cannot("batches grow", "", "batches are drawn; what waits for them is judged"),
    ]  # fmt: skip


def alone(line: Timeline | None) -> float | None:
    """The share of freeing time in which no other thread freed a batch."""
    share = overlap(line)
    return None if share is None else 1 - share


def before_last(line: Timeline | None) -> float | None:
    """The share of the run before its last epoch began; None: no epoch began, or no trace."""
    begins = [at for at, _ in line.epochs] if line else []
    return max(begins) / line.span if begins else None


def _line_of(trial: Located) -> Timeline | None:
    block = blocks.timeline_block(trial)
    return block["line"] if block else None


def _judge_pile(trials: list[Located], line):
    return _told(trials[0].record, line) + ".", [_grows(trials)]


def _judge_periodic(trials: list[Located], line):
    here, claims = _judge_pile(trials, line)
    long = arms.cannot("one call of free takes milliseconds", "", "calls are not timed in these "
                       "trials; figure 3 counts the long ones")  # fmt: skip
    return here, [*claims, long]


def _judge_flat(trials: list[Located], line):
    return _told(trials[0].record, line) + ".", [_grows(trials, LEVEL)]


PILE_LIMIT = (
    "A thread that frees is delayed by descheduling here, not by locks, and a batch of this "
    "machine is short against a time slice; how far garbage piles up is luck of the scheduler."
)
FIGURE_6 = _timeline_page(
    "figure-6", "Figure 6", NAIVE, "Naive: one thread frees while all others litter",
    "Batches are freed one after another, never two at a time, since the token is held while "
    "freeing. Each thread finds more to free than the one before: garbage piles up, and the last "
    "of 21 epochs takes nearly the whole run.",
    _judge_naive, PILE_LIMIT,
)  # fmt: skip
FIGURE_7 = _timeline_page(
    "figure-7", "Figure 7", FIRST, "Pass-first: the token goes on before the batch is freed",
    "Threads free at the same time, but a thread that gets the token again while it is still "
    "freeing holds it up; batches still grow through the run.", _judge_first, PILE_LIMIT,
)  # fmt: skip
FIGURE_8 = _timeline_page(
    "figure-8", "Figure 8", PERIODIC, "Periodic: a look at the token after each hundred frees",
    "Less memory than pass-first, yet garbage still piles up: one single call of free can take "
    "milliseconds, and no thread passes a token in the middle of a call.", _judge_periodic,
    PILE_LIMIT,
    ([FIRST], False, "peak_rss_bytes", "peak memory"),
)  # fmt: skip
FIGURE_9 = _timeline_page(
    "figure-9", "Figure 9", FINAL, "Amortized: garbage stays level",
    "With amortized freeing nothing piles up, and there are many more epochs. The boxes are "
    "single calls longer than 0.1 ms.", _judge_flat,
    beside=([NAIVE, FIRST, PERIODIC], True, "epochs", "epochs"),
)  # fmt: skip


def _figure_10(found: Found) -> Shown | None:
    members = found.pick("abtree", FORMS, threads=2)
    if members is None:
        return None
    most = max(c.threads for c in members if c.series == FINAL)
    final, rest = find(members, FINAL, most), [find(members, s, most) for s in FORMS[:3]]
    memory = [compare(r.peak_rss_bytes, final.peak_rss_bytes) for r in rest if r]
    speed = [compare(final.ops_per_s, r.ops_per_s) for r in rest if r]
    told = [
        f"{look.scheme(r.scheme).title} {look.times(s.ratio)}"
        for r, s in zip([r for r in rest if r], speed, strict=True) if s
    ]  # fmt: skip
    here = f"With {words.threads_text(most)} the amortized form against " + ", ".join(told)
    if memory and all(memory):
        here += f"; memory of the others {look.times(min(m.ratio for m in memory))} to "
        here += f"{look.times(max(m.ratio for m in memory))}"
    claims = [
        *(arms.of_series(members, FINAL, form, most, "ops_per_s", "speed", factor=factor)
          for form, factor in FASTER.items()),
        *(arms.of_series(members, form, FINAL, most, "peak_rss_bytes", "peak memory")
          for form in FASTER),
    ]  # fmt: skip
    return Shown(blocks.lines(found, members, FORMS), here + ".", claims)


FIGURE_10 = Page(
    key="figure-10", name="Figure 10", title="The four forms of the token side by side",
    paper="The amortized form is far faster than the others with 192 threads and needs a fraction "
          "of their memory.",
    cells=_against_cells(FORMS), show=_figure_10,
)  # fmt: skip


def _table_4_cells(scale: Scale) -> list:
    return [scale.cell("abtree", s, t, count=count) for s in FORMS
            for t in (scale.full, scale.over) for count in (False, True)]  # fmt: skip


def _table_4(found: Found) -> Shown | None:
    counted = found.pick("abtree", FORMS, counted=True)
    plain = found.pick("abtree", FORMS)
    if counted is None or plain is None:
        return None
    rows, slow = [], []
    for threads in sorted({c.threads for c in counted}):
        for series in FORMS:
            c, p = find(counted, series, threads), find(plain, series, threads)
            if c is None:
                continue
            rows.append([
                f"{look.scheme(series[0]).title} · {series[1]} · {words.threads_text(threads)}",
                blocks.told(p, "ops_per_s", look.rate), blocks.share(c),
                blocks.told(p or c, "freed", look.count), blocks.told(p or c, "epochs", look.count),
                blocks.milli(c, "allocator_flushes"),
                blocks.told(c, "free_run_max", look.count),
            ])  # fmt: skip
    head = ["", "speed", "time in free", "freed", "epochs", "flushes / 1000 frees",
            "longest run of frees"]  # fmt: skip
    most = max(c.threads for c in plain if c.series == FINAL)
    final = find(plain, FINAL, most)
    for series in FORMS[:3]:
        other = find(plain, series, most)
        slow.append(compare(final.ops_per_s, other.ops_per_s) if other else None)
    gains = [g for g in slow if g]
    here = f"With {words.threads_text(most)} amortized runs at " + words.listed(
        [look.times(g.ratio) for g in gains]
    ) + " the speed of the three before it"  # fmt: skip
    claims = [
        *(arms.of_series(plain, FINAL, form, most, "ops_per_s", "speed", factor=factor)
          for form, factor in FASTER.items()),
        *(arms.of_series(plain, NAIVE, form, most, "ops_per_s", "speed", factor=factor)
          for form, factor in NAIVE_FASTER.items()),
        arms.of_series(plain, FIRST, NAIVE, most, "freed", "blocks freed", factor=14),
        *(arms.of_series(plain, FINAL, form, most, "freed", "blocks freed", factor=factor)
          for form, factor in FREES_MORE.items()),
        arms.of_series(counted, FIRST, NAIVE, most, "free_share", "time in free", factor=13.8),
        arms.of_series(counted, PERIODIC, FINAL, most, "free_share", "time in free", factor=3.2),
    ]  # fmt: skip
    return Shown([blocks.table(head, rows, blocks.where(counted)), PAPER_TABLE_4], here + ".",
                 claims)  # fmt: skip


PAPER_TABLE_4 = blocks.table(
    ["", "speed", "time in free", "freed"],
    [["Naive", "73.7 M/s", "3.3 %", "7 M"], ["Pass-first", "52.4 M/s", "45.4 %", "98 M"],
     ["Periodic", "54.4 M/s", "47.1 %", "118 M"], ["Amortized", "123.7 M/s", "14.7 %", "323 M"]],
    "The paper, 192 threads", paper=True,
)  # fmt: skip
TABLE_4 = Page(
    key="table-4", name="Table 4", title="What each step from naive to amortized changed",
    paper="Naive frees 7 million blocks and is fast for it; passing the token first frees "
          "fourteen times as much and takes half of the time for it; only amortized freeing is "
          "fast and frees everything.",
    cells=_table_4_cells, show=_table_4,
    limits="A published form of the ring stands still while a thread of it is not running; with "
           "more threads than cores that is the rule, and what these forms free here depends on "
           "the scheduler.",
)  # fmt: skip

PAGES = [FIGURE_5, FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_10, TABLE_4]
