# SPDX-License-Identifier: Apache-2.0
"""Looks up what the results hold for a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lab import stats
from lab.records import Located
from lab.stats import Conditions, Config

Series = tuple[str, str]


@dataclass
class Found:
    """All results, and the questions that pages ask of them."""

    trials: list[Located]
    announcements: list[dict] = field(default_factory=list)
    snapshots: list[dict] = field(default_factory=list)
    store: list[dict] = field(default_factory=list)
    pointers: list[dict] = field(default_factory=list)
    configs: list[Config] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)
    """What the machine or the program was without, by name, and how that is told."""

    def __post_init__(self):
        self.configs = self.configs or stats.group(self.trials)

    @property
    def cores(self) -> int:
        """Of the machine, as the latest record that tells says."""
        machines = (r.get("machine") or {} for r in reversed(self.records()))
        return next((m["cores"] for m in machines if m.get("cores")), 1)

    def of_page(self, key: str) -> list[dict]:
        """Records that were measured for this page (Page.commands)."""
        every = self.store + self.snapshots
        return [r for r in every if (r.get("lab") or {}).get("page") == key]

    def only(self, keys: list[str]) -> Found:
        """What was measured of these cells and commands."""
        wanted = set(keys)

        def mine(records: list[dict]) -> list[dict]:
            return [r for r in records if (r.get("lab") or {}).get("cell") in wanted]

        trials = [t for t in self.trials if (t.record.get("lab") or {}).get("cell") in wanted]
        others = (self.announcements, self.snapshots, self.store, self.pointers)
        return Found(trials, *map(mine, others), lacking=self.lacking)

    def records(self) -> list[dict]:
        """All of them, whatever they are of."""
        others = self.announcements + self.snapshots + self.store + self.pointers
        return [*(t.record for t in self.trials), *others]

    def rounds(self) -> dict[str, int]:
        """How many passes there are of each cell and command."""
        labs = [r.get("lab") or {} for r in self.records()]
        done = {(lab["cell"], lab["round"]) for lab in labs if "cell" in lab}
        return Counter(key for key, _ in done)

    def panels(self, structure: str, counted=False, allocator=None) -> list[list[Config]]:
        """Sets of configurations equal in all but scheme, release and threads."""
        groups = stats.by_conditions(self.configs)

        def fits(c: Conditions) -> bool:
            plain = not c.stall and not c.traced and c.counted == counted
            return plain and c.structure == structure and allocator in (None, c.allocator)

        return [members for conditions, members in groups.items() if fits(conditions)]

    def pick(
        self,
        structure: str,
        needs: list[Series],
        *,
        batch: int | None = None,
        threads: int = 1,
        counted: bool = False,
        allocator: str | None = None,
    ) -> list[Config] | None:
        """The panel that has all `needs`, each at `threads` different numbers of threads or more:
        with jemalloc and with batches of that size rather than without, and the largest."""
        able = []
        for members in self.panels(structure, counted, allocator):
            wanted = [config for config in members if config.series in needs]
            ran = {s: {c.threads for c in wanted if c.series == s} for s in needs}
            if all(len(numbers) >= threads for numbers in ran.values()):
                c = members[0].conditions
                rank = (c.batch == batch, c.allocator == "jemalloc", len(wanted), len(members))
                able.append((rank, members))
        return max(able, key=lambda item: item[0])[1] if able else None

    def pair(
        self, structure: str, one: Series, other: Series, **how
    ) -> tuple[Config, Config] | None:
        """Both series under equal conditions at equal threads, as many as there are cores if
        possible."""
        members = self.pick(structure, [one, other], **how)
        if members is None:
            return None
        threads = self.full([c for c in members if stats.find(members, other, c.threads)], one)
        if threads is None:
            return None
        return stats.find(members, one, threads), stats.find(members, other, threads)

    def full(self, members: list[Config], series: Series | None = None) -> int | None:
        """As many threads as cores, or the nearest number below it that was run, or above."""
        counts = sorted({c.threads for c in members if series in (None, c.series)})
        below = [count for count in counts if count <= self.cores]
        return below[-1] if below else (counts[0] if counts else None)

    def traced(self, structure: str, series: Series, counted: bool | None = None) -> list[Located]:
        """Trials of a series with a trace, the most threads first."""
        found = [
            t for t in self.trials
            if (t.record["structure"], t.record["scheme"], t.record["release"])
            == (structure, *series) and not t.record.get("stall")
            and (t.record.get("lab", {}).get("trace") or t.record.get("trace"))
            and counted in (None, bool(t.record.get("count")))
        ]  # fmt: skip
        return sorted(found, key=lambda t: -t.record["threads"])


def ratio(one: Config | None, other: Config | None, field_name: str) -> float | None:
    """one ÷ other of a field's medians, where both have it."""
    a = getattr(one, field_name) if one else None
    b = getattr(other, field_name) if other else None
    return a.median / b.median if a and b and b.median > 0 else None


def each(config: Config | None, field_name: str, of: str) -> float | None:
    """How many of one for each of the other, by medians."""
    a = getattr(config, field_name) if config else None
    b = getattr(config, of) if config else None
    return a.median / b.median if a and b and b.median > 0 else None
