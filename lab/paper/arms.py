# SPDX-License-Identifier: Apache-2.0
"""Sub-claims over what pages have: configurations of sets, and records of other sub-commands."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import product

from lab import look, words
from lab.paper.found import Found, Series
from lab.stats import Config, find
from lab.verdict import LEVEL, MORE, Absent, Arm, Claim, Interval, Promise, Sub, Value

# What of a trial's record was in force, and may not differ between two arms but where it is what
# they compare.
IN_FORCE = {
    "structure": "the structure", "scheme": "the scheme", "release": "the release policy",
    "threads": "the number of threads", "keys": "the keys", "theta": "the keys' distribution",
    "update": "the updates", "seconds": "the length", "warm_up_s": "the warm-up",
    "allocator": "the allocator", "bag": "the bag", "turn_us": "when threads give way",
    "stall": "a stalled reader", "count": "counting", "trace": "tracing", "buckets": "the buckets",
    "records": "the rows", "columns": "the columns", "warehouses": "the warehouses",
}  # fmt: skip
SCHEME = frozenset({"scheme", "release", "bag"})
"""Schemes as they were published: each with its own way of freeing."""
RELEASE = frozenset({"release"})
NO_MORE: frozenset[str] = frozenset()


def records_of(config: Config) -> tuple[dict, ...]:
    return tuple(trial.record for trial in config.trials)


def unlike(more: Arm, less: Arm, varies: Collection[str]) -> str:
    """Why two arms may not be compared: what differs besides what is compared; or one of them
    freed nothing, so that it is a comparison with leaking."""
    for field, name in IN_FORCE.items():
        if field in varies:
            continue
        seen = [{_plain(r.get(field)) for r in arm.records} for arm in (more, less)]
        if {None} in seen:  # one of them does not know such a thing
            continue
        if seen[0] and seen[1] and (seen[0] != seen[1] or len(seen[0]) > 1):
            return f"{name} differs, too: {_told(seen[0])} and {_told(seen[1])}"
    for arm in (more, less):
        if any(r.get("freed") == 0 and r.get("scheme") != "none" for r in arm.records):
            return f"{arm.name} freed nothing in a trial"
    return ""


def _plain(value):
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _told(values: Iterable) -> str:
    return ", ".join(sorted(str(value) for value in values))


def claim(more: Arm, less: Arm, where: str = "", factor: float = 1.0, kind: str = MORE,
          varies: Collection[str] = NO_MORE) -> Claim:  # fmt: skip
    return Claim(more, less, where, factor, kind, unlike(more, less, varies))


def of_configs(more: Config | None, less: Config | None, value: Value, what: str, *,
               where: str = "", factor: float = 1.0, kind: str = MORE, per: str = "",
               varies: Collection[str] = SCHEME) -> Sub:  # fmt: skip
    """`what` names the figure."""
    if more is None or less is None:
        return Absent(what, where, "not measured", factor)
    arms = (Arm(f"{look.series_title(c.series)}: {what}", records_of(c), value, per)
            for c in (more, less))  # fmt: skip
    return claim(*arms, where or place(more), factor, kind, varies)


def place(config: Config) -> str:
    c = config.conditions
    return f"{c.structure}, {words.threads_text(config.threads)}, {c.allocator}"


def of_series(members: list[Config], more: Series, less: Series, threads: int, value: Value,
              what: str, **how) -> Sub:  # fmt: skip
    """Two series of a panel at one number of threads."""
    return of_configs(find(members, more, threads), find(members, less, threads), value, what,
                      **{"where": words.threads_text(threads), **how})  # fmt: skip


def of_threads(members: list[Config], series: Series, more: int, less: int, value: Value,
               what: str, **how) -> Sub:  # fmt: skip
    """One series at two numbers of threads, the first of which is to have more."""
    where = f"{words.threads_text(more)} against {less}"
    return of_configs(find(members, series, more), find(members, series, less), value, what,
                      **{"where": where, "varies": {"threads"}, **how})  # fmt: skip


def where(records: Iterable[dict], **values) -> tuple[dict, ...]:
    return tuple(r for r in records if all(r.get(name) == v for name, v in values.items()))


def arm(records: Iterable[dict], name: str, value: Value, per: str = "", **values) -> Arm:
    """Of the records that have these values."""
    return Arm(name, where(records, **values), value, per)


def versus(records: Iterable[dict], by: str, more: str, less: str, value: Value, *,
           titles: dict[str, str] | None = None, told: str = "", factor: float = 1.0,
           kind: str = MORE, per: str = "", varies: Collection[str] = NO_MORE,
           **at) -> Claim:  # fmt: skip
    """Two ways (values of the field `by`) where other fields have these values. More is better,
    or else the names are to be exchanged."""
    named = titles or {}
    mine = where(records, **at)
    arms = (arm(mine, named.get(name, name), value, per, **{by: name}) for name in (more, less))
    place_text = told or ", ".join(f"{name} {v}" for name, v in at.items())
    return claim(*arms, place_text, factor, kind, varies)


def each(values: dict[str, Iterable]) -> list[dict]:
    """All combinations of the values of fields."""
    return [dict(zip(values, some, strict=True)) for some in product(*values.values())]


def measured(claims: Iterable[Sub]) -> list[Sub]:
    """Without those of which one arm was not run at all: rivals that are not installed."""
    return [c for c in claims if not isinstance(c, Claim) or (c.more.records and c.less.records)]


def promised(records: Iterable[dict], name: str, value: Value, most: float, where_text: str = "",
             per: str = "") -> Promise:  # fmt: skip
    return Promise(Arm(name, tuple(records), value, per), most, where_text)


def told_ratio(ratio: Interval) -> str:
    """As a page writes it."""
    if ratio.high == float("inf"):
        return "–" if ratio.low == 0 else f"{look.times(ratio.low)} and more"
    if look.times(ratio.low) == look.times(ratio.high):
        return look.times(ratio.low)
    return f"{look.times(ratio.low)} to {look.times(ratio.high)}"


def level(more: Arm, less: Arm, where_text: str = "", varies: Collection[str] = NO_MORE) -> Claim:
    return claim(more, less, where_text, kind=LEVEL, varies=varies)


def traced(found: Found, structure: str, series: Series, threads: int | None = None):
    """Trials with a trace and without counts, of one number of threads, else the most."""
    trials = found.traced(structure, series, counted=False)
    most = threads or (trials[0].record["threads"] if trials else None)
    return [t for t in trials if t.record["threads"] == most]
