# SPDX-License-Identifier: Apache-2.0
"""Trials grouped into configurations; medians, spread, and what counts as a difference."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from lab.records import Located
from lab.verdict import EVERYTHING, FEWEST, Interval, interval

DEFAULT = ("token", "amortized")
FIGURES = (
    "ops_per_s", "peak_rss_bytes", "garbage_peak", "garbage_bound", "free_ns_p50",
    "free_ns_p999", "free_ns_max", "retired", "freed", "epochs",
    # Of trials with --count only.
    "operations", "elapsed_s", "frees", "frees_remote", "frees_over_100us", "free_runs",
    "free_run_max", "free_call_ns_mean", "free_call_ns_p50", "free_call_ns_p99",
    "free_call_ns_p999", "free_call_ns_max", "free_share", "allocator_flushes", "allocator_fills",
    "allocator_locks", "allocator_lock_waits", "allocator_lock_wait_ns",
)  # fmt: skip


@dataclass(frozen=True)
class Spread:
    """What repeated trials gave for one figure."""

    median: float
    low: float
    high: float
    count: int
    values: tuple[float, ...] = ()


def spread(values: Iterable[float]) -> Spread | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(median(known), min(known), max(known), len(known), tuple(known))


@dataclass(frozen=True)
class Conditions:
    """All of a configuration but what is compared: scheme, release, threads."""

    structure: str
    keys: int
    update: int
    seconds: float
    allocator: str
    batch: int | None
    stall: bool
    traced: bool
    counted: bool
    machine: str
    # Trials of different files were not interleaved with each other and are not mixed.
    run: str


@dataclass
class Config:
    """One configuration and all trials of it."""

    conditions: Conditions
    scheme: str
    release: str
    threads: int
    trials: list[Located] = field(default_factory=list)

    @property
    def series(self) -> tuple[str, str]:
        return self.scheme, self.release

    def __getattr__(self, name: str) -> Spread | None:
        if name not in FIGURES:
            raise AttributeError(name)
        return spread(trial.record.get(name) for trial in self.trials)


def machine_name(record: dict) -> str:
    machine = record.get("machine") or {}
    return str(machine.get("cpu", "unknown processor")).strip()


def group(trials: list[Located]) -> list[Config]:
    found: dict[tuple, Config] = {}
    for trial in trials:
        record = trial.record
        bag = record.get("bag")
        wanted = record.get("lab", {}).get("configuration", {})
        conditions = Conditions(
            structure=record["structure"],
            keys=record.get("keys", 0),
            update=record.get("update", 0),
            seconds=record.get("seconds", 0),
            allocator=record.get("allocator", wanted.get("allocator", "unknown")),
            batch=wanted.get("batch", bag if bag and bag > 1 else None),
            stall=bool(record.get("stall")),
            traced=bool(wanted.get("trace") or record.get("trace")),
            counted=bool(wanted.get("count") or record.get("count")),
            machine=machine_name(record),
            run=str(trial.path),
        )
        key = (conditions, record["scheme"], record["release"], record["threads"])
        found.setdefault(key, Config(*key)).trials.append(trial)
    return list(found.values())


def by_conditions(configs: list[Config]) -> dict[Conditions, list[Config]]:
    groups: dict[Conditions, list[Config]] = defaultdict(list)
    for config in configs:
        groups[config.conditions].append(config)
    return dict(groups)


def find(configs: list[Config], series: tuple[str, str], threads: int | None = None):
    """The configuration of that scheme and release (and threads, if given), or None."""
    for config in configs:
        if config.series == series and threads in (None, config.threads):
            return config
    return None


@dataclass(frozen=True)
class Comparison:
    """How one figure compares with another, and whether that is more than chance."""

    ratio: float
    proven: bool
    doubt: str = ""  # why it is not proven
    within: Interval = EVERYTHING


def compare(one: Spread | None, other: Spread | None) -> Comparison | None:
    """one ÷ other. Proven: the interval of the ratio (verdict.py) lies apart from one, and is not
    within what counts as equal."""
    if one is None or other is None or not all(0 < s.median < math.inf for s in (one, other)):
        return None  # not a number compares with none
    within = interval(one.values, other.values)
    doubt = ""
    if within.alike:
        doubt = "as good as equal"
    elif not within.without_one:
        few = within.low == 0 and min(one.count, other.count) < FEWEST
        doubt = "too few trials" if few else "the trials differ as much among themselves"
    return Comparison(one.median / other.median, not doubt, doubt, within)


def throughput_panels(configs: list[Config]) -> dict[Conditions, list[Config]]:
    """Conditions under which the number of threads was varied, for lines against threads."""
    panels = {}
    for conditions, members in by_conditions(configs).items():
        if conditions.stall or conditions.traced or conditions.counted:
            continue
        if len({config.threads for config in members}) >= 2:
            panels[conditions] = members
    return dict(sorted(panels.items(), key=lambda item: (item[0].structure, -len(item[1]))))


def release_groups(configs: list[Config]) -> list[list[Config]]:
    """For each structure the configurations, equal but for scheme and release, in which most
    schemes ran under several releases; large batches and many threads first."""
    groups: dict[tuple, list[Config]] = defaultdict(list)
    for config in configs:
        if not config.conditions.stall and not config.conditions.counted:
            groups[config.conditions, config.threads].append(config)
    best: dict[str, tuple] = {}
    for (conditions, threads), members in groups.items():
        releases = defaultdict(set)
        for config in members:
            releases[config.scheme].add(config.release)
        several = sum(len(names) > 1 for names in releases.values())
        rank = (several, conditions.batch or 0, not conditions.traced, threads)
        if several and rank > best.get(conditions.structure, ((-1,), None))[0]:
            best[conditions.structure] = (rank, members)
    return [members for _, members in sorted(best.values(), key=lambda item: -item[0][0])]


def stalled(configs: list[Config]) -> list[Config]:
    return [config for config in configs if config.conditions.stall]


def allocator_groups(configs: list[Config]) -> list[list[Config]]:
    """Configurations that are equal but for scheme, release and allocator, where at least two
    allocators ran."""
    groups: dict[tuple, list[Config]] = defaultdict(list)
    for config in configs:
        c = config.conditions
        if not c.stall and not c.traced and not c.counted:
            same = (c.structure, c.keys, c.update, c.seconds, c.batch, c.machine, c.run)
            groups[(*same, config.threads)].append(config)
    several = [m for m in groups.values() if len({x.conditions.allocator for x in m}) > 1]
    # Keep the series that ran under more than one allocator: the others compare with nothing.
    kept = []
    for members in several:
        ran = defaultdict(set)
        for config in members:
            ran[config.series].add(config.conditions.allocator)
        kept.append([config for config in members if len(ran[config.series]) > 1])
    best: dict[str, list[Config]] = {}
    for members in sorted(kept, key=len):
        if members:
            best[members[0].conditions.structure] = members
    return list(best.values())
