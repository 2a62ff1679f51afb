# SPDX-License-Identifier: Apache-2.0
"""The evaluation of multi-version read-log-update (ASPLOS 2019): Figure 4, and what its authors do
not show, a section that sleeps."""

from __future__ import annotations

from lab import look
from lab.claims import NOT_SEEN, SEEN
from lab.paper import blocks
from lab.paper.found import Found
from lab.paper.page import SHOWN, Page, Scale, Shown, majority, one_trial
from lab.stats import Spread, compare, spread

OURS, SINGLE = "mvrlu", "rlu"
WAYS = {
    "list": (OURS, SINGLE, "rcu", "rwlock", "harris-michael-hp"),
    "hash": (OURS, SINGLE, "rcu", "rwlock"),
    "tree": (OURS, SINGLE, "lock-free", "rwlock"),
}
TITLES = {
    OURS: "read-log-update, many versions", SINGLE: "read-log-update, one copy",
    "rcu": "RCU, a lock a bucket", "rwlock": "readers-writer lock", "lock-free": "lock-free tree",
    "harris-michael-hp": "lock-free list, hazard pointers",
}  # fmt: skip
# Half of them are present. The paper has 10 000 in the list, too, where all that is measured is how
# long a walk takes.
KEYS = {"list": 1000, "hash": 20_000, "tree": 20_000}
UPDATES = (2, 20, 80)
TRIALS = 3
SECONDS = 0.3
# Beside a sleeping section writers are to keep so much.
KEPT = 0.9


def _command(structure: str, sync: str, threads: int, update: int, *more: str) -> tuple[str, ...]:
    return ("rlu", "--structure", structure, "--sync", sync, "--threads", str(threads),
            "--keys", str(KEYS[structure]), "--update", str(update), "--seconds", str(SECONDS),
            "--trials", str(TRIALS), *more)  # fmt: skip


def _structure_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        _command(structure, sync, threads, update)
        for structure, ways in WAYS.items()
        for update in UPDATES
        for threads in scale.threads
        for sync in ways
    ]


def _sleeper_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        _command(structure, OURS, scale.full, update, *more)
        for structure in WAYS
        for update in UPDATES
        for more in ((), ("--stall",))
    ]


def _takes(commands) -> float:
    return len(commands) * TRIALS * (SECONDS + 0.1)


def _speed(records: list[dict], **values) -> Spread | None:
    """Operations per second of the records that have these values."""
    return spread(
        r["mops"] * 1e6 for r in records if all(r.get(name) == v for name, v in values.items())
    )


def _chart(records: list[dict], structure: str, update: int) -> dict | None:
    series = []
    for place, sync in enumerate(WAYS[structure]):
        mine = {"structure": structure, "update": update, "sync": sync}
        counts = sorted({r["threads"] for r in records if r.get("sync") == sync})
        points = [(n, s.median) for n in counts if (s := _speed(records, threads=n, **mine))]
        if points:
            series.append({"title": TITLES[sync], "meta": sync, "points": points,
                           "colour": look.place_colour(place)})  # fmt: skip
    title = f"operations per second, {update}{look.NO_BREAK}% updates"
    return blocks.plain_lines(series, "threads", title, look.rate) if series else None


def _table(records: list[dict], structure: str, threads: int) -> dict | None:
    rows = []
    for sync in WAYS[structure]:
        speeds = [_speed(records, structure=structure, sync=sync, threads=threads, update=u)
                  for u in UPDATES]  # fmt: skip
        if any(speeds):
            rows.append([TITLES[sync], *(look.rate(s.median if s else None) for s in speeds)])
    head = [f"{structure}, {threads} threads", *(f"{u}{look.NO_BREAK}%" for u in UPDATES)]
    return blocks.table(head, rows) if rows else None


def _structures(found: Found) -> Shown | None:
    records = found.of_page("sections-structures")
    if not records:
        return None
    counts = sorted({r["threads"] for r in records})
    full = min(counts, key=lambda n: (abs(n - found.cores), n))
    made: list[dict | None] = []
    gains = []
    for structure in WAYS:
        drawn = [_chart(records, structure, update) for update in UPDATES]
        made += [blocks.charts_block(structure, drawn, []), _table(records, structure, full)]
        for threads in counts:
            for update in UPDATES:
                at = {"structure": structure, "threads": threads, "update": update}
                gains.append(compare(_speed(records, sync=OURS, **at),
                                     _speed(records, sync=SINGLE, **at)))  # fmt: skip
    known = [gain for gain in gains if gain is not None]
    if not known:
        return Shown([block for block in made if block], "One of the two was not run.", SHOWN)
    faster = sum(gain.ratio > 1 for gain in known)
    here = (f"Many versions are faster than one copy in {faster} of {len(known)} mixes and numbers "
            f"of threads, at best {look.times(max(g.ratio for g in known))}.")  # fmt: skip
    return Shown([block for block in made if block], here, majority(known))


def _sleeper(found: Found) -> Shown | None:
    records = found.of_page("sections-sleeper")
    rows, kept = [], []
    for structure in WAYS:
        for update in UPDATES:
            at = {"structure": structure, "update": update}
            alone = _speed(records, stall=False, **at)
            beside = _speed(records, stall=True, **at)
            if alone is None or beside is None:
                continue
            kept.append(beside.median / alone.median)
            held = [r["log_bytes_peak"] for r in records if r.get("log_bytes_peak")
                    and r["stall"] and all(r[k] == v for k, v in at.items())]  # fmt: skip
            rows.append([f"{structure}, {update}{look.NO_BREAK}%", look.rate(alone.median),
                         look.rate(beside.median), f"{kept[-1]:.2f}",
                         look.size(max(held)) if held else "–"])  # fmt: skip
    if not rows:
        return None
    head = ["structure, updates", "alone", "beside a section that sleeps", "kept", "logs, at most"]
    here = (f"Beside a section that sleeps all the time, throughput is at least {min(kept):.2f} of "
            f"what it is alone; {KEPT} is what we ask for.")  # fmt: skip
    return Shown([blocks.table(head, rows)], here, SEEN if min(kept) >= KEPT else NOT_SEEN)


STRUCTURES = Page(
    key="sections-structures", name="Three structures",
    title="Read-log-update: list, hash table and tree",
    paper="With many versions of each object writers do not wait for readers, and read-log-update "
          "scales where one copy does not, whatever the share of updates (ASPLOS 2019, figure 4).",
    cells=one_trial,
    show=_structures, commands=_structure_commands,
    takes=lambda scale: _takes(_structure_commands(scale)),
    limits="Beyond the number of processors the curves show what preemption costs, not scaling.",
)  # fmt: skip
SLEEPER = Page(
    key="sections-sleeper", name="A sleeping section", title="Read-log-update: a section sleeps",
    paper="Not shown: there, one section that sleeps stops all writers once their logs are full.",
    cells=one_trial,
    show=_sleeper, commands=_sleeper_commands,
    takes=lambda scale: _takes(_sleeper_commands(scale)),
)  # fmt: skip

PAGES = [STRUCTURES, SLEEPER]
