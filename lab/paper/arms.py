# SPDX-License-Identifier: Apache-2.0
"""Sub-claims over what pages have: configurations of sets, and records of other sub-commands."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from datetime import datetime
from itertools import product

from lab import look, words
from lab.paper import factors
from lab.paper.factors import ABSENT, NO_FACTOR, SCHEME, THREADS, WITHIN, Factor
from lab.paper.found import Found, Series
from lab.stats import Config, find
from lab.verdict import (
    FEWEST,
    LEVEL,
    MORE,
    Absent,
    Arm,
    Claim,
    Growth,
    Interval,
    Promise,
    Sub,
    Value,
)

# Each trial of an arm needs one of the other arm within so many seconds: a machine changes with the
# day, and a round of the longest run takes less.
TOGETHER_S = 2 * 3600
# From so many frees on figures for each of them are compared.
FREES = 1000


def records_of(config: Config) -> tuple[dict, ...]:
    return tuple(trial.record for trial in config.trials)


def unlike(more: Arm, less: Arm, varies: Factor) -> str:
    """Why two arms may not be compared; empty: they may. All conditions of their records have to
    be the same, but for the factor that the claim names; and this has to differ. Nor is it a
    comparison if one of them freed nothing, since that is leaking."""
    if not more.records or not less.records:
        return ""  # there is nothing to compare, which is said elsewhere
    if varies is WITHIN:
        return _unlike_within(more, less)
    ones, others = (factors.values(arm.records) for arm in (more, less))
    for name in sorted(ones.keys() | others.keys()):
        seen = [values.get(name, {ABSENT}) for values in (ones, others)]
        mixed = next((values for values in seen if len(values) > 1), None)
        if mixed:
            return f"{name} differs between trials of one arm: {_told(mixed)}"
        if seen[0] != seen[1] and not varies.spares(name, *seen):
            return f"{name} differs, too: {_told(seen[0])} and {_told(seen[1])}"
    if all(ones.get(name) == others.get(name) for name in varies.fields):
        return f"these arms do not differ in {varies.name}"
    for arm in (more, less):
        if doubt := _twice(arm.records) or _hardly(arm):
            return doubt
    distant = _distant(more, less)
    if distant:
        return distant
    for arm in (more, less):
        if any(r.get("freed") == 0 and r.get("scheme") != "none" for r in arm.records):
            return f"{arm.name} freed nothing in a trial"
    return ""


def _twice(records: Iterable[dict], along: tuple[str, ...] = ()) -> str:
    """A trial that stands in the results twice is one trial."""
    seen = set()
    for record in records:
        lab = record.get("lab") or {}
        if "cell" not in lab or "round" not in lab:
            continue
        name = (lab["cell"], lab["round"], record.get("trial"), *map(record.get, along))
        if name in seen:
            return f"round {lab['round']} of {lab['cell']} is there twice"
        seen.add(name)
    return ""


def _hardly(arm: Arm) -> str:
    """Of next to no frees a figure for each says nothing."""
    few = arm.per == "frees" and any((r.get("frees") or 0) < FREES for r in arm.records)
    return f"{arm.name}: fewer than {FREES} frees in a trial" if few else ""


def _distant(more: Arm, less: Arm) -> str:
    """Why two arms were not measured together; empty: they were, or their records do not say. A
    cell keeps its trials, so those of an earlier run may stand beside today's."""
    ones, others = ({r["lab"]["round"] for r in arm.records if "round" in (r.get("lab") or {})}
                    for arm in (more, less))  # fmt: skip
    if len(ones & others) < FEWEST <= min(len(ones), len(others)):
        return f"these arms have {len(ones & others)} rounds in common"
    times = [sorted(filter(None, map(_made_at, arm.records))) for arm in (more, less)]
    if all(times):
        for mine, theirs in (times, times[::-1]):
            if any(min(abs(at - other) for other in theirs) > TOGETHER_S for at in mine):
                return "these arms were measured at different times"
    return ""


def _made_at(record: dict) -> float | None:
    """When, in seconds."""
    try:
        return datetime.fromisoformat(str(record.get("time")).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _unlike_within(more: Arm, less: Arm) -> str:
    if len(more.records) != len(less.records) or any(
        one is not other for one, other in zip(more.records, less.records, strict=True)
    ):
        return "two figures of different trials"
    if more.value == less.value and more.per == less.per:
        return f"these arms do not differ in {WITHIN.name}"
    return _mixed(more.records) or _twice(more.records)


def _mixed(records: Iterable[dict], along: tuple[str, ...] = ()) -> str:
    """Which condition is not the same in all these trials; empty: each is."""
    mixed = next(((name, values) for name, values in sorted(factors.values(records).items())
                  if len(values) > 1 and name not in along), None)  # fmt: skip
    return f"{mixed[0]} differs between trials of one arm: {_told(mixed[1])}" if mixed else ""


def _told(values: Iterable[str]) -> str:
    return ", ".join(sorted("nothing" if value == "null" else value for value in values))


def claim(more: Arm, less: Arm, where: str = "", factor: float = 1.0, kind: str = MORE,
          varies: Factor = NO_FACTOR) -> Claim:  # fmt: skip
    return Claim(more, less, where, factor, kind, unlike(more, less, varies))


def grows(many: Claim, few: Claim, where: str, varies: Factor = THREADS) -> Growth:
    """That what one way has over another is more at `many` than at `few`."""
    doubts = (unlike(one, other, varies)
              for one, other in ((many.more, few.more), (many.less, few.less)))  # fmt: skip
    return Growth(many, few, where, next((doubt for doubt in doubts if doubt), ""))


def growing(many: Sub, few: Sub, where: str, varies: Factor = THREADS) -> Sub:
    """As grows; absent, if one of the two is."""
    if isinstance(many, Claim) and isinstance(few, Claim):
        return grows(many, few, where, varies)
    gone = next(one for one in (many, few) if isinstance(one, Absent))
    return replace(gone, what=f"{gone.what}, growing", where=where)


def of_configs(more: Config | None, less: Config | None, value: Value, what: str, *,
               where: str = "", factor: float = 1.0, kind: str = MORE, per: str = "",
               varies: Factor = SCHEME, lacks: tuple[str, ...] = ()) -> Sub:  # fmt: skip
    """`what` names the figure, and `lacks` what both need that a machine may be without."""
    if more is None or less is None:
        return Absent(what, where, "not measured", factor, lacks=lacks)
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
                      **{"where": where, "varies": THREADS, **how})  # fmt: skip


def where(records: Iterable[dict], **values) -> tuple[dict, ...]:
    return tuple(r for r in records if all(r.get(name) == v for name, v in values.items()))


def of_any(records: Iterable[dict], field: str, values: Container) -> tuple[dict, ...]:
    return tuple(r for r in records if r.get(field) in values)


def arm(records: Iterable[dict], name: str, value: Value, per: str = "", **values) -> Arm:
    """Of the records that have these values."""
    return Arm(name, where(records, **values), value, per)


def versus(records: Iterable[dict], by: str, more: str, less: str, value: Value, *,
           titles: dict[str, str] | None = None, told: str = "", factor: float = 1.0,
           kind: str = MORE, per: str = "", varies: Factor = NO_FACTOR,
           **at) -> Claim:  # fmt: skip
    """Two ways (values of the field `by`) where other fields have these values. More is better,
    or else the names are to be exchanged."""
    named = titles or {}
    mine = where(records, **at)
    arms = (replace(arm(mine, named.get(name, name), value, per, **{by: name}), of=name)
            for name in (more, less))  # fmt: skip
    place_text = told or ", ".join(f"{name} {v}" for name, v in at.items())
    return claim(*arms, place_text, factor, kind, varies)


def each(values: dict[str, Iterable]) -> list[dict]:
    """All combinations of the values of fields."""
    return [dict(zip(values, some, strict=True)) for some in product(*values.values())]


def measured(claims: Iterable[Sub]) -> list[Sub]:
    """Those of which one arm was not run at all, a rival that is not installed, say, are said to be
    absent, so that the page is not decided."""
    return [_absent(c, gone) if (gone := _gone(c)) else c for c in claims]


def _gone(of: Sub) -> dict[str, str]:
    """Names of its arms without records, and what these are called in records."""
    claims = (of.many, of.few) if isinstance(of, Growth) else (of,) if isinstance(of, Claim) else ()
    return {arm.name: arm.of for claim in claims for arm in (claim.more, claim.less)
            if not arm.records}  # fmt: skip


def _absent(of: Claim | Growth, gone: dict[str, str]) -> Absent:
    one = of.many if isinstance(of, Growth) else of
    sign = "=" if one.kind == LEVEL else ">"
    more = ", growing" if isinstance(of, Growth) else ""
    return Absent(f"{one.more.name} {sign} {one.less.name}{more}", of.where,
                  f"{words.listed(list(gone))}: not installed, or not run", of.factor,
                  lacks=tuple(name for name in gone.values() if name))  # fmt: skip


def cannot(what: str, where_text: str, why: str, factor: float = 1.0) -> Absent:
    """What the paper says and the page does not judge, with the reason."""
    return Absent(what, where_text, why, factor, barred=True)


def missed(what: str, where_text: str, why: str, lacks: tuple[str, ...] = ()) -> Absent:
    """What the paper says and was not measured."""
    return Absent(what, where_text, why, lacks=lacks)


def under(allocator: str, members: list[Config], claims: list[Sub]) -> list[Sub]:
    """What the paper says of one allocator is not judged by trials under another."""
    if members and members[0].conditions.allocator == allocator:
        return claims
    return [missed("all that is claimed", allocator, f"{allocator}: not installed, or not run",
                   (allocator,))]  # fmt: skip


def barred_by(lacking: dict[str, str], claims: Iterable[Sub]) -> list[Sub]:
    """Those that need what this machine or the program lacks are not to be judged here; why, by
    name."""

    def judged(of: Sub) -> Sub:
        why = next((lacking[name] for name in getattr(of, "lacks", ()) if name in lacking), "")
        return replace(of, why=why, barred=True) if why else of

    return [judged(of) for of in claims]


def promised(records: Iterable[dict], name: str, value: Value, most: float, where_text: str = "",
             per: str = "", along: tuple[str, ...] = ()) -> Promise:  # fmt: skip
    """Trials of one condition, but for the fields `along` which the bound is to hold whatever they
    are."""
    some = tuple(records)
    made = Arm(name, some, value, per)
    doubt = _mixed(some, along) or _twice(some, along) or _hardly(made)
    return Promise(made, most, where_text, doubt)


def told_ratio(ratio: Interval) -> str:
    """As a page writes it."""
    if ratio.high == float("inf"):
        return "–" if ratio.low == 0 else f"{look.times(ratio.low)} and more"
    if look.times(ratio.low) == look.times(ratio.high):
        return look.times(ratio.low)
    return f"{look.times(ratio.low)} to {look.times(ratio.high)}"


def level(more: Arm, less: Arm, where_text: str = "", varies: Factor = NO_FACTOR) -> Claim:
    return claim(more, less, where_text, kind=LEVEL, varies=varies)


def traced(found: Found, structure: str, series: Series, threads: int | None = None):
    """Trials with a trace and without counts, of one number of threads, else the most."""
    trials = found.traced(structure, series, counted=False)
    most = threads or (trials[0].record["threads"] if trials else None)
    return [t for t in trials if t.record["threads"] == most]


def of_pair(members: list[Config], more: Series, less: Series, threads: int, value: Value,
            what: str, **how) -> Sub:  # fmt: skip
    """As of_series; what is absent says of which two it is."""
    made = of_series(members, more, less, threads, value, what, **how)
    if not isinstance(made, Absent):
        return made
    sign = "=" if how.get("kind") == LEVEL else ">"
    title = f"{look.series_title(more)} {sign} {look.series_title(less)}: {what}"
    return replace(made, what=title)
