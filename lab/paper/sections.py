# SPDX-License-Identifier: Apache-2.0
"""The evaluation of multi-version read-log-update (ASPLOS 2019): list, hash table and tree, their
sizes, what each feature is worth; and what its authors do not show, a section that sleeps."""

from __future__ import annotations

from lab import look
from lab.claims import NOT_SEEN, SEEN
from lab.paper import blocks
from lab.paper.found import Found
from lab.paper.page import SHOWN, Page, Scale, Shown, majority, one_trial, verdict
from lab.stats import Spread, compare, spread

OURS, SINGLE, HARDWARE = "mvrlu", "rlu", "mvrlu-hardware"
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
# Of the structures that are as fast with many keys; and at which share of updates.
SIZES = {"hash": (1000, 20_000, 200_000), "tree": (1000, 20_000, 200_000)}
SIZE_UPDATE = 20
# A feature; the command line that does without it, or has another in its place; and how its
# records say so.
FEATURES = {
    "collecting early, by the low watermark": (OURS, ("--low", "1048576"), "low_watermark"),
    "collecting after many walks over copies": (OURS, ("--walks", "1000000000"), "walk_watermark"),
    "help from others, at the high watermark": (OURS, ("--high", "1000000000"), "high_watermark"),
    "giving the processor away": (OURS, ("--turn-us", "0"), "turn_us"),
    "no thread of its own": (OURS, ("--detector",), "detector"),
    "a shared counter for a clock": (HARDWARE, (), "sync"),
}
CHEAP = 1.03  # what a feature may cost where it does not help
# Beside a sleeping section writers are to keep so much.
KEPT = 0.9


def _command(structure: str, sync: str, threads: int, update: int, *more: str) -> tuple[str, ...]:
    keys = () if "--keys" in more else ("--keys", str(KEYS[structure]))
    return ("rlu", "--structure", structure, "--sync", sync, "--threads", str(threads),
            *keys, "--update", str(update), "--seconds", str(SECONDS),
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


def _size_commands(scale: Scale) -> list[tuple[str, ...]]:
    # A bucket for each 20 keys, as with 20 000.
    return [
        _command(structure, sync, scale.full, SIZE_UPDATE, "--keys", str(keys),
                 "--buckets", str(max(1, keys // 20)))
        for structure, sizes in SIZES.items()
        for keys in sizes
        for sync in WAYS[structure]
    ]  # fmt: skip


def _feature_commands(scale: Scale) -> list[tuple[str, ...]]:
    made = []
    for structure in WAYS:
        for update in UPDATES:
            made.append(_command(structure, OURS, scale.over, update))
            made += [_command(structure, sync, scale.over, update, *more)
                     for sync, more, _ in FEATURES.values()]  # fmt: skip
    return made


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


def _sizes(found: Found) -> Shown | None:
    records = found.of_page("sections-sizes")
    made, gains = [], []
    for structure, sizes in SIZES.items():
        series = []
        for place, sync in enumerate(WAYS[structure]):
            mine = {"structure": structure, "sync": sync}
            points = [(n, s.median) for n in sizes if (s := _speed(records, keys=n, **mine))]
            if points:
                series.append({"title": TITLES[sync], "meta": sync, "points": points,
                               "colour": look.place_colour(place)})  # fmt: skip
        if series:
            drawn = [blocks.plain_lines(series, "keys", "operations per second", look.rate)]
            made.append(blocks.charts_block(structure, drawn, []))
        gains += [compare(_speed(records, structure=structure, keys=n, sync=OURS),
                          _speed(records, structure=structure, keys=n, sync=SINGLE))
                  for n in sizes]  # fmt: skip
    known = [gain for gain in gains if gain is not None]
    if not known:
        return None
    worst, best = (f(known, key=lambda g: g.ratio) for f in (min, max))
    here = (f"Many versions against one copy, over all sizes: from {look.times(worst.ratio)} to "
            f"{look.times(best.ratio)}.")  # fmt: skip
    return Shown(made, here, majority(known))


def _left_out(record: dict) -> str:
    """Which feature the run did without; empty: none."""
    for feature, (sync, more, field) in FEATURES.items():
        value = int(more[1]) if more[1:] else True if more else sync
        if record.get(field) == value:
            return feature
    return ""


def _features(found: Found) -> Shown | None:
    records = found.of_page("sections-features")
    records = [{**r, "without": _left_out(r)} for r in records]
    rows, worth, judged = [], [], []
    for feature in FEATURES:
        gains = [compare(_speed(records, without="", structure=structure, update=update),
                         _speed(records, without=feature, structure=structure, update=update))
                 for structure in WAYS for update in UPDATES]  # fmt: skip
        if any(gains):
            rows.append([feature, *(look.times(g.ratio) if g else "–" for g in gains)])
            worth += [(g.ratio, feature) for g in gains if g]
            judged += [g for g in gains if g and not 1 / CHEAP <= g.ratio < 1]
    if not rows:
        return None
    head = ["with it against without", *(f"{structure}, {update}{look.NO_BREAK}%"
                                         for structure in WAYS for update in UPDATES)]  # fmt: skip
    most, least = max(worth), min(worth)
    here = (f"Most is gained by {most[1]}, {look.times(most[0])}; least by {least[1]}, "
            f"{look.times(least[0])}.")  # fmt: skip
    return Shown([blocks.table(head, rows)], here, verdict(judged))


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

SIZED = Page(
    key="sections-sizes", name="Sizes", title="Read-log-update: how many keys",
    paper="With few keys writers meet often, with many the cache is what counts; many versions are "
          "ahead of one copy from 1000 keys to 50 000 (ASPLOS 2019, section 6).",
    cells=one_trial,
    show=_sizes, commands=_size_commands,
    takes=lambda scale: _takes(_size_commands(scale)),
)  # fmt: skip
FEATURED = Page(
    key="sections-features", name="Features", title="Read-log-update: what each feature is worth",
    paper="From one feature to the next throughput grows: several versions, the clock, collecting "
          "beside the work, the watermarks (ASPLOS 2019, factor analysis).",
    cells=one_trial,
    show=_features, commands=_feature_commands,
    takes=lambda scale: _takes(_feature_commands(scale)),
    limits="One feature is left out at a time, instead of one added after the other; more threads "
           "than processors. None may cost more than 3 % where it does not help.",
)  # fmt: skip

PAGES = [STRUCTURES, SIZED, FEATURED, SLEEPER]
