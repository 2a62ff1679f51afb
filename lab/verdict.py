# SPDX-License-Identifier: Apache-2.0
"""The verdict on a claim, by one rule for all pages.

A paper's claim is a list of sub-claims: what is more than what, where, and by which factor. Each is
judged by an interval of the ratio in the claimed direction; the claim's verdict is its weakest
sub-claim's.

The interval is that of Hodges and Lehmann: of all ratios of a trial of the one arm to a trial of
the other the k-th smallest and the k-th largest, with the k that the Mann-Whitney test allows. It
takes no distribution for granted and is exact with few trials: three of each are set apart by
chance one time in ten, of which a bootstrap knows nothing. Fewer than four trials of each arm
decide nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

SEEN, SMALLER, UNDECIDED = "seen", "seen, smaller", "not decided here"
NOT_SEEN, CONTRADICTED = "not seen", "contradicted"
# Of a sub-claim that cannot be judged here, whatever is run: it is listed, and not counted.
BARRED = "not judged here"
WEAKEST_FIRST = (CONTRADICTED, NOT_SEEN, UNDECIDED, SMALLER, SEEN)
# Of pages: nothing was measured; computed, not measured; a picture of which nothing is claimed.
MISSING, MODEL, SHOWN = "not measured", "model", "shown"

# Two arms are as good as equal if their ratio is certainly between 1 / EQUAL and EQUAL.
EQUAL = 1.05
CONFIDENCE = 0.95
# Of each of two intervals that are to hold at once.
TOGETHER = 1 - (1 - CONFIDENCE) / 2
# Trials of each arm from which on an interval can end at all, at CONFIDENCE.
FEWEST = 4

# Figures of which zero says that nothing was measured; so it does of every speed.
NEVER_ZERO = ("mops", "peak_rss_bytes")

MORE, LEVEL, BOUND = "more", "level", "bound"
"""What is claimed: the one arm is more than the other; both are equal; a bound is kept."""

Value = str | Callable[[dict], float | None]


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    def over(self, factor: float) -> Interval:
        return Interval(self.low / factor, self.high / factor)

    @property
    def alike(self) -> bool:
        return self.low >= 1 / EQUAL and self.high <= EQUAL

    @property
    def without_one(self) -> bool:
        return self.low > 1 or self.high < 1


EVERYTHING = Interval(0.0, math.inf)


def interval(more: Iterable[float], less: Iterable[float], confidence=CONFIDENCE) -> Interval:
    """Of the ratio of a typical value of `more` to one of `less`; none is below zero."""
    ones, others = list(more), list(less)
    k = _rank(len(ones), len(others), confidence)
    if k == 0:
        return EVERYTHING
    pairs = [(one, other) for one in ones for other in others]
    lows = sorted(_ratio(*pair, unknown=0.0) for pair in pairs)
    highs = sorted(_ratio(*pair, unknown=math.inf) for pair in pairs)
    return Interval(lows[k - 1], highs[-k])


def _ratio(one: float, other: float, unknown: float) -> float:
    """Of two zeros the ratio is unknown: it may be anything."""
    if other > 0:
        return one / other
    return math.inf if one > 0 else unknown


@cache
def _rank(n: int, m: int, confidence: float) -> int:
    """The largest k with P(U < k) at most half of what may be missed, U of Mann and Whitney."""
    if n == 0 or m == 0:
        return 0
    left = (1 - confidence) / 2 * math.comb(n + m, n)
    k = 0
    for count in _arrangements(n, m):
        left -= count
        if left < 0:
            return k
        k += 1
    return k


def _arrangements(n: int, m: int) -> list[int]:
    """How many orders of n and m values have U = 0, 1, ...: a Gaussian binomial's coefficients."""
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):  # times 1 - q^(m + i)
            counts[u] -= counts[u - m - i]
        for u in range(i, n * m + 1):  # over 1 - q^i
            counts[u] += counts[u - i]
    return counts


@dataclass(frozen=True)
class Arm:
    """One side of a comparison: records, one for each trial, and what of them is compared."""

    name: str
    records: tuple[dict, ...]
    value: Value
    per: str = ""  # a field that the value is divided by
    of: str = ""  # the name of the way in records, of a way that a program may lack

    @property
    def values(self) -> list[float]:
        return [value for value in map(self._of, self.records) if value is not None]

    @property
    def wrong(self) -> str:
        """Why these values decide nothing: one of them cannot be, or a trial has none; empty: all
        is well."""
        for place, record in enumerate(self.records):
            value = self._of(record)
            if value is not None and not _possible(value, self._name):
                return f"{self.name}: {self._field} of {_named(record, place)} is {value}"
        lacking = len(self.records) - len(self.values)
        if 0 < lacking < len(self.records):
            return f"{self.name}: {lacking} of {len(self.records)} trials have no {self._field}"
        return ""

    @property
    def _field(self) -> str:
        return f"{self._name} by {self.per}" if self.per else self._name

    @property
    def _name(self) -> str:
        return self.value if isinstance(self.value, str) else self.value.__name__

    def _of(self, record: dict) -> float | None:
        value = record.get(self.value) if isinstance(self.value, str) else self.value(record)
        if value is None or not self.per:
            return value
        divisor = record.get(self.per)
        return value / divisor if divisor else None


def _possible(value: object, field: str) -> bool:
    """None of the figures that are compared is below zero, and where one counts what was done, or
    the memory of a whole process, it is not zero either: nothing was measured then."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    never_zero = field in NEVER_ZERO or field.endswith("_per_s")
    return number and math.isfinite(value) and (value > 0 or (value == 0 and not never_zero))


def _named(record: dict, place: int) -> str:
    lab = record.get("lab") or {}
    if "cell" in lab:
        return f"the record of {lab['cell']}, round {lab.get('round')},"
    return f"record {place + 1}"


@dataclass(frozen=True)
class Claim:
    """A sub-claim: `more` is more than `less` by `factor` (the paper's; 1: it names none), where
    it says. Of a bound, `more` ÷ `less` is to be `factor` at least."""

    more: Arm
    less: Arm
    where: str = ""
    factor: float = 1.0
    kind: str = MORE
    doubt: str = ""  # why these arms may not be compared; empty: they may

    @property
    def ratio(self) -> Interval:
        return self.within(CONFIDENCE)

    def within(self, confidence: float) -> Interval:
        if self.doubted:
            return EVERYTHING
        return interval(self.more.values, self.less.values, confidence)

    @property
    def doubted(self) -> str:
        return self.doubt or self.more.wrong or self.less.wrong

    @property
    def why(self) -> str:
        """What keeps it from being decided whatever the figures are; empty: nothing does."""
        return self.too_few(CONFIDENCE)

    def too_few(self, confidence: float) -> str:
        counts = [len(arm.values) for arm in (self.more, self.less)]
        few = "not measured" if min(counts) == 0 else ""
        if not few and _rank(*counts, confidence) == 0:
            few = f"{min(counts)} trials decide nothing"
        return self.doubted or few

    @property
    def verdict(self) -> str:
        return UNDECIDED if self.why else judged(self.ratio, self.factor, self.kind)


@dataclass(frozen=True)
class Growth:
    """A sub-claim of two: the ratio of `many` is more than that of `few`, by any factor. Each of
    the two intervals is so much wider that both hold at once."""

    many: Claim
    few: Claim
    where: str = ""
    doubt: str = ""
    factor = 1.0
    kind = MORE

    @property
    def ratio(self) -> Interval:
        if self.why:
            return EVERYTHING
        many, few = (claim.within(TOGETHER) for claim in (self.many, self.few))
        low = 0.0 if few.high == math.inf else _ratio(many.low, few.high, 0.0)
        high = math.inf if many.high == math.inf else _ratio(many.high, few.low, math.inf)
        return Interval(low, high)

    @property
    def why(self) -> str:
        return self.doubt or self.many.too_few(TOGETHER) or self.few.too_few(TOGETHER)

    @property
    def verdict(self) -> str:
        return UNDECIDED if self.why else judged(self.ratio)


@dataclass(frozen=True)
class Promise:
    """A sub-claim without a second arm: no trial is to have more than `most`. It takes as many
    trials as a comparison does."""

    arm: Arm
    most: float
    where: str = ""
    doubt: str = ""
    factor = 1.0
    kind = BOUND

    @property
    def ratio(self) -> Interval:
        values = self.arm.values
        if self.why:
            return EVERYTHING
        low, high = (_ratio(self.most, bound(values), 1.0) for bound in (max, min))
        return Interval(low, high)

    @property
    def why(self) -> str:
        count = len(self.arm.values)
        few = (
            "" if count >= FEWEST else f"{count} trials decide nothing" if count else "not measured"
        )
        return self.doubt or self.arm.wrong or few

    @property
    def verdict(self) -> str:
        if self.why:
            return UNDECIDED
        return SEEN if self.ratio.low >= 1 else CONTRADICTED


@dataclass(frozen=True)
class Absent:
    """A sub-claim of which something was not measured, or, if it is `barred`, cannot be: the page
    says that it does not judge it, or this machine lacks one of what it `lacks`."""

    what: str
    where: str
    why: str
    factor: float = 1.0
    barred: bool = False
    lacks: tuple[str, ...] = ()
    """Names of what was not measured: allocators, or other programs and libraries."""
    kind = MORE
    ratio = EVERYTHING

    @property
    def verdict(self) -> str:
        return BARRED if self.barred else UNDECIDED


Sub = Claim | Growth | Promise | Absent


def judged(ratio: Interval, factor: float = 1.0, kind: str = MORE) -> str:
    """The rule. `ratio` is an interval of the ratio in the claimed direction."""
    if kind == LEVEL:
        apart = ratio.low > EQUAL or ratio.high < 1 / EQUAL
        return SEEN if ratio.alike else CONTRADICTED if apart else UNDECIDED
    if kind == BOUND:
        kept = ratio.over(factor)
        return SEEN if kept.low >= 1 else CONTRADICTED if kept.high < 1 else UNDECIDED
    if ratio.alike:
        return NOT_SEEN
    if ratio.high < 1:
        return CONTRADICTED
    if ratio.low > 1:
        return SEEN if ratio.high >= factor else SMALLER
    return UNDECIDED


def weakest(verdicts: Iterable[str]) -> str:
    """Of a claim by those of its sub-claims, without those that cannot be judged here."""
    every = list(verdicts)
    judged_ones = [one for one in every if one != BARRED]
    return min(judged_ones, key=WEAKEST_FIRST.index, default=BARRED if every else MISSING)


def tally(verdicts: Iterable[str]) -> dict[str, int]:
    """How many there are of each of the five, the strongest first; and of those that cannot be
    judged here."""
    counts = Counter(verdicts)
    return {name: counts[name] for name in (*reversed(WEAKEST_FIRST), BARRED)}
