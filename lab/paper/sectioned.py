# SPDX-License-Identifier: Apache-2.0
"""What the pages on read-log-update have in common: how they are run, and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable

from lab import legends, look, words
from lab.paper import arms, blocks
from lab.paper.factors import SYNC, THREADS, Factor
from lab.paper.found import Found
from lab.paper.page import Page, Scale, Shown, one_trial
from lab.stats import Comparison, Spread, spread
from lab.verdict import Absent, Claim, Sub

OURS, SINGLE, DEFERRED, HARDWARE = "mvrlu", "rlu", "rlu-deferred", "mvrlu-hardware"
WAYS = {
    "list": (OURS, SINGLE, DEFERRED, "rcu", "rwlock", "harris-michael-hp", "stm"),
    "hash": (OURS, SINGLE, DEFERRED, "rcu", "rwlock", "michael-hp"),
    "tree": (OURS, SINGLE, DEFERRED, "lock-free", "rcu", "rwlock", "citrus"),
}
# Strings, 20 to a bucket, half of them present.
CACHE = (OURS, SINGLE, DEFERRED, "rwlock", "kyotocabinet")
CACHE_SIZE = ("--keys", "100000", "--buckets", "5000")
# Those that begin a section anew where another one was faster.
STARTING_OVER = (OURS, SINGLE, DEFERRED)
TITLES = {
    OURS: "read-log-update, many versions", SINGLE: "read-log-update, one copy",
    DEFERRED: "one copy, deferring", "rcu": "RCU, a lock a bucket or tree",
    "rwlock": "readers-writer lock", "lock-free": "lock-free tree",
    "harris-michael-hp": "lock-free list, hazard pointers",
    "mvrlu-serializable": "many versions, serializable", "spolia": "the store, one-shot",
    "kyotocabinet": "Kyoto Cabinet, locks for slots",
    "michael-hp": "lock-free hash table, hazard pointers",
    "citrus": "Citrus tree, RCU and locks in nodes", "stm": "transactional memory, libitm",
}  # fmt: skip
# Half of them are present. The paper has 10 000 in the list, too, where all that is measured is how
# long a walk takes.
KEYS = {"list": 1000, "hash": 20_000, "tree": 20_000}
UPDATES = (2, 20, 80)

Commands = Callable[[Scale], list[tuple[str, ...]]]
Show = Callable[[Found], Shown | None]


def page(key: str, name: str, title: str, paper: str, commands: Commands, show: Show,
         limits: str = "") -> Page:  # fmt: skip
    return Page(
        key=f"sections-{key}", name=name, title=f"Read-log-update: {title}", paper=paper,
        cells=one_trial, show=show, commands=commands, limits=limits,
    )  # fmt: skip


def command(scale: Scale, structure: str, sync: str, threads: int, update: int, *more: str,
            seconds: str = "") -> tuple[str, ...]:  # fmt: skip
    keys = () if "--keys" in more else scale.sizes("--keys", str(KEYS[structure]))
    return ("rlu", "--structure", structure, "--sync", sync, "--threads", str(threads),
            *keys, "--update", str(update), "--seconds", seconds or scale.short,
            *more)  # fmt: skip


def where(records: list[dict], **values) -> list[dict]:
    return [r for r in records if all(r.get(name) == v for name, v in values.items())]


def speed(records: list[dict], **values) -> Spread | None:
    """Operations per second of the records that have these values."""
    return spread(r["mops"] * 1e6 for r in where(records, **values))


def aborts(records: list[dict], **values) -> Spread | None:
    """The share of tries that were begun anew, where there is such a thing."""
    return spread(r.get("abort_ratio") for r in where(records, **values))


def faster(records: list[dict], one: str, other: str, value: str = "mops", by: str = "sync",
           varies: Factor = SYNC, factor: float = 1.0, **at) -> Claim:  # fmt: skip
    """One way does more than another, where other fields have these values."""
    told = ", ".join(f"{name} {v}" for name, v in at.items())
    return arms.versus(records, by, one, other, value, titles=TITLES, told=told, varies=varies,
                       factor=factor, **at)  # fmt: skip


def scaling(records: list[dict], others: tuple[str, ...], most: int, least: int,
            told: str, **at) -> list[Sub]:  # fmt: skip
    """Many versions do more with most threads than with least, and gain on each of the others."""
    where_text = f"{told}, {words.threads_text(most)} against {least}"
    if most == least:
        return [Absent(f"{TITLES[OURS]} scale", where_text, "one number of threads")]
    mine = arms.where(records, sync=OURS, **at)
    ends = (arms.arm(mine, f"{TITLES[OURS]}, {words.threads_text(n)}", "mops", threads=n)
            for n in (most, least))  # fmt: skip
    gained = []
    for other in others:
        many, few = (faster(records, OURS, other, threads=n, **at) for n in (most, least))
        gained.append(arms.grows(many, few, where_text))
    return [arms.claim(*ends, where_text, varies=THREADS), *gained]


def from_to(gains: list[Comparison]) -> str:
    """The least and the greatest ratio."""
    ratios = [gain.ratio for gain in gains]
    return f"from {look.times(min(ratios))} to {look.times(max(ratios))}"


def updates_text(update: int) -> str:
    return f"{update}{look.NO_BREAK}% updates"


def share_text(ratio: float) -> str:
    return f"{100 * ratio:.3g}{look.NO_BREAK}%"


def ways_in(records: list[dict], by: str = "sync") -> list[str]:
    """In the order of TITLES."""
    there = {r[by] for r in records if by in r}
    return [name for name in TITLES if name in there]


def lines(records: list[dict], along: str, title: str, of=speed, text=look.rate,
          by: str = "sync") -> dict | None:  # fmt: skip
    """A line for each way over all values of a field: what `of` finds."""
    series = []
    for name in ways_in(records, by):
        mine = where(records, **{by: name})
        at = sorted({r[along] for r in mine if along in r})
        points = [(x, s.median) for x in at if (s := of(mine, **{along: x}))]
        if points:
            series.append({"title": TITLES[name], "meta": name, "points": points,
                           "colour": colour(name)})  # fmt: skip
    if not series:
        return None
    return blocks.plain_lines(series, along, title, text, even=along == "theta")


def colour(name: str) -> str:
    return look.place_colour(list(TITLES).index(name))


def block(records: list[dict], title: str, drawn: list[dict | None], by: str = "sync"):
    """Pictures side by side, with a legend of the ways that were run."""
    named = [(TITLES[name], colour(name)) for name in ways_in(records, by)]
    return blocks.charts_block(title, drawn, legends.places(named))
