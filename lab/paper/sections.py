# SPDX-License-Identifier: Apache-2.0
"""The evaluation of multi-version read-log-update (ASPLOS 2019): list, hash table and tree, their
sizes, what each feature is worth; and what its authors do not show, a section that sleeps."""

from __future__ import annotations

from itertools import pairwise

from lab import look
from lab.paper import arms, blocks, factors
from lab.paper.found import Found
from lab.paper.page import Scale, Shown
from lab.paper.sectioned import (
    CACHE,
    CACHE_SIZE,
    HARDWARE,
    OURS,
    SINGLE,
    TITLES,
    UPDATES,
    WAYS,
    block,
    command,
    faster,
    from_to,
    lines,
    page,
    scaling,
    speed,
    updates_text,
    where,
)
from lab.stats import compare
from lab.verdict import BOUND, Claim, Sub

# Of the structures that are as fast with many keys, half of which are present; how many a bucket
# has; and at which share of updates.
SIZES = {"hash": (2000, 20_000, 100_000), "tree": (2000, 20_000, 100_000)}
LOADS = {2000: 1, 20_000: 10, 100_000: 10}
SIZE_UPDATE = 20
# What a thread does that is alone: measured with one thread.
IN_PLACE = "changing objects in place"
# A feature; the command line that does without it, or has another in its place; and how its
# records say so.
FEATURES = {
    "collecting early, by the low watermark": (OURS, ("--low", "1048576"), "low_watermark"),
    "collecting after many walks over copies": (OURS, ("--walks", "1000000000"), "walk_watermark"),
    "help from others, at the high watermark": (OURS, ("--high", "1000000000"), "high_watermark"),
    "giving the processor away": (OURS, ("--turn-us", "0"), "turn_us"),
    IN_PLACE: (OURS, ("--in-place", "0"), "in_place"),
    "no thread of its own": (OURS, ("--detector",), "detector"),
    "a shared counter for a clock": (HARDWARE, (), "sync"),
}
# Features that are added one after the other: a name, and the command line with all up to it. What
# is not there yet is set so that it never happens.
NEVER = "1000000000"
LATER = {"--in-place": "0", "--turn-us": "0", "--high": NEVER, "--walks": NEVER,
         "--low": "1048576"}  # fmt: skip
# Each is one field more than the one before; what comes first is many versions for one copy.
STEPS = (
    ("one copy", SINGLE, ()),
    ("+ many versions", OURS, ("--detector", *LATER)),
    ("+ own collection", OURS, tuple(LATER)),
    ("+ low watermark", OURS, ("--in-place", "--turn-us", "--high", "--walks")),
    ("+ walks watermark", OURS, ("--in-place", "--turn-us", "--high")),
    ("+ help from others", OURS, ("--in-place", "--turn-us")),
    ("+ giving way", OURS, ("--in-place",)),
    ("+ in place", OURS, ()),
    ("+ hardware clock", HARDWARE, ()),
)
STEP_FIELDS = (
    "detector",
    "low_watermark",
    "walk_watermark",
    "high_watermark",
    "turn_us",
    "in_place",
)
CACHE_UPDATES = (2, 20)  # those of the paper's figure 10
CACHE_AHEAD = 3.8  # many versions against one copy in a cache, at least (figure 10)
# What the paper says of the list, by the share of updates (figure 8): how much all features gain
# over one copy, and each step over the one before, where it says that this gains at all.
TOGETHER = {2: 1.8, 20: 2.0, 80: 3.5}
GAINED = {
    "+ many versions": {2: 2.3},
    "+ own collection": {80: 1.8},
    "+ low watermark": {20: 1.0, 80: 1.0},
    "+ walks watermark": {20: 1.8},
}
# Where the paper has another way ahead of many versions (figure 4).
AHEAD = {"structure": "hash", "update": 2, "sync": "rcu"}
# Beside a sleeping section writers are to keep so much.
KEPT = 0.9


def _structure_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        command(scale, structure, sync, threads, update)
        for structure, ways in WAYS.items()
        for update in UPDATES
        for threads in scale.threads
        for sync in ways
        if sync not in scale.lacking
    ]


def _sleeper_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        command(scale, structure, OURS, scale.full, update, *more)
        for structure in WAYS
        for update in UPDATES
        for more in ((), ("--stall",))
    ]


def _buckets(structure: str, keys: int) -> tuple[str, ...]:
    return ("--buckets", str(keys // 2 // LOADS[keys])) if structure == "hash" else ()


def _size_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        command(scale, structure, sync, scale.full, SIZE_UPDATE, "--keys", str(keys),
                 *_buckets(structure, keys))
        for structure, sizes in SIZES.items()
        for keys in sizes
        for sync in WAYS[structure]
    ]  # fmt: skip


def _feature_commands(scale: Scale) -> list[tuple[str, ...]]:
    made = []
    for structure in WAYS:
        for update in UPDATES:
            made += [command(scale, structure, OURS, n, update) for n in (1, scale.over)]
            for feature, (sync, more, _) in FEATURES.items():
                threads = 1 if feature == IN_PLACE else scale.over
                made.append(command(scale, structure, sync, threads, update, *more))
    return made


def _table(records: list[dict], structure: str, threads: int) -> dict | None:
    rows = []
    for sync in WAYS[structure]:
        speeds = [speed(records, structure=structure, sync=sync, threads=threads, update=u)
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
        mine = where(records, structure=structure)
        drawn = [lines(where(mine, update=update), "threads",
                       f"operations per second, {updates_text(update)}")
                 for update in UPDATES]  # fmt: skip
        made += [block(mine, structure, drawn), _table(records, structure, full)]
        for threads in counts:
            for update in UPDATES:
                at = {"structure": structure, "threads": threads, "update": update}
                gains.append(compare(speed(records, sync=OURS, **at),
                                     speed(records, sync=SINGLE, **at)))  # fmt: skip
    claims = _structure_claims(records, full, counts[0])
    known = [gain for gain in gains if gain is not None]
    if not known:
        return Shown([block for block in made if block], "One of the two was not run.", claims)
    ahead = sum(gain.ratio > 1 for gain in known)
    here = (f"Many versions are faster than one copy in {ahead} of {len(known)} mixes and numbers "
            f"of threads, at best {look.times(max(g.ratio for g in known))}.")  # fmt: skip
    return Shown([block for block in made if block], here, claims)


def _structure_claims(records: list[dict], full: int, least: int) -> list[Sub]:
    claims: list[Sub] = [arms.cannot("writers do not wait for readers", "all mixes",
                                     "judged on the page of a section that sleeps")]  # fmt: skip
    for at in arms.each({"structure": WAYS, "update": UPDATES}):
        for other in WAYS[at["structure"]][1:]:
            pair = (other, OURS) if {**at, "sync": other} == AHEAD else (OURS, other)
            claims.append(faster(records, *pair, threads=full, **at))
        told = f"{at['structure']}, {updates_text(at['update'])}"
        claims += scaling(records, (SINGLE,), full, least, told, **at)
    return arms.measured(claims)


def _sleeper(found: Found) -> Shown | None:
    records = found.of_page("sections-sleeper")
    rows, kept = [], []
    for structure in WAYS:
        for update in UPDATES:
            at = {"structure": structure, "update": update}
            alone = speed(records, stall=False, **at)
            beside = speed(records, stall=True, **at)
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
    claims = []
    for at in arms.each({"structure": WAYS, "update": UPDATES}):
        beside, alone = (arms.arm(records, name, "mops", stall=stall, **at)
                         for stall, name in ((True, "beside a section that sleeps"),
                                             (False, "alone")))  # fmt: skip
        told = f"{at['structure']}, {updates_text(at['update'])}"
        claims.append(arms.claim(beside, alone, told, KEPT, BOUND, factors.STALL))
    return Shown([blocks.table(head, rows)], here, arms.measured(claims))


def _sizes(found: Found) -> Shown | None:
    records = found.of_page("sections-sizes")
    made, gains = [], []
    for structure, sizes in SIZES.items():
        mine = where(records, structure=structure)
        made.append(block(mine, structure, [lines(mine, "keys", "operations per second")]))
        gains += [compare(speed(records, structure=structure, keys=n, sync=OURS),
                          speed(records, structure=structure, keys=n, sync=SINGLE))
                  for n in sizes]  # fmt: skip
    known = [gain for gain in gains if gain is not None]
    if not known:
        return None
    here = f"Many versions against one copy, over all sizes: {from_to(known)}."
    claims = [faster(records, OURS, SINGLE, structure=structure, keys=n)
              for structure, sizes in SIZES.items() for n in sizes]  # fmt: skip
    told = arms.cannot("with few keys writers meet often, with many the cache counts", "all sizes",
                       "what a section waits for is not recorded")  # fmt: skip
    return Shown([one for one in made if one], here, [*arms.measured(claims), told])


def _left_out(record: dict) -> str:
    """Which feature the run did without; empty: none."""
    for feature, (sync, more, field) in FEATURES.items():
        value = int(more[1]) if more[1:] else True if more else sync
        if record.get(field) == value:
            return feature
    return ""


def _step_options(changed: tuple[str, ...]) -> tuple[str, ...]:
    given = []
    for option in changed:
        given += [option, LATER[option]] if option in LATER else [option]
    return tuple(given)


def _step_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        command(scale, structure, sync, scale.over, update, *_step_options(changed))
        for structure in ("list", "hash")
        for update in UPDATES
        for _, sync, changed in STEPS
    ]


def _step_of(record: dict) -> str:
    """The name of the step that a run belongs to."""
    fields = {"--turn-us": "turn_us", "--high": "high_watermark", "--walks": "walk_watermark",
              "--low": "low_watermark", "--in-place": "in_place"}  # fmt: skip
    changed = {option for option, field in fields.items()
               if record.get(field) is not None
               and int(record[field]) == int(LATER[option])}  # fmt: skip
    changed |= {"--detector"} if record.get("detector") else set()
    for name, sync, options in STEPS:
        if record["sync"] == sync and (sync == SINGLE or changed == set(options)):
            return name
    return ""


def _steps(found: Found) -> Shown | None:
    records = [{**r, "_step": _step_of(r)} for r in found.of_page("sections-cumulative")]
    made, ends = [], []
    for structure in ("list", "hash"):
        drawn = []
        for update in UPDATES:
            mine = where(records, structure=structure, update=update)
            rates = [(name, s.median) for name, *_ in STEPS if (s := speed(mine, _step=name))]
            if rates:
                part = ("operations per second", look.place_colour(0), [rate for _, rate in rates])
                title = f"{updates_text(update)}, operations a second"
                drawn.append(blocks.bars([name for name, _ in rates], [part], title, look.rate))
            ends.append(compare(speed(mine, _step=STEPS[-2][0]), speed(mine, _step=STEPS[0][0])))
        made.append(blocks.charts_block(structure, drawn, []))
    known = [end for end in ends if end is not None]
    if not known:
        return None
    here = f"All together, without the hardware clock, against one copy: {from_to(known)}."
    clock = arms.cannot(f"{STEPS[-1][0]} gains, as the first of the steps", "list",
                        "there is no one copy with that clock")  # fmt: skip
    claims = [*arms.measured(_step_claims(records)), clock]
    return Shown([one for one in made if one], here, claims)


def _step_claims(records: list[dict]) -> list[Claim]:
    """Of the list: steps against the ones before, and all together against one copy."""
    names = [name for name, *_ in STEPS]
    changes = [factors.VERSIONING, *(factors.FEATURES[field] for field in STEP_FIELDS)]
    pairs = [
        (later, before, GAINED.get(later, {}), change)
        for (before, later), change in zip(pairwise(names[:-1]), changes, strict=True)
    ]
    pairs.append((names[-2], names[0], TOGETHER, factors.VERSIONING))
    return [
        arms.versus(records, "_step", later, before, "mops", factor=factor,
                    told=f"list, {updates_text(update)}", structure="list", update=update,
                    varies=change)
        for later, before, gained, change in pairs
        for update, factor in gained.items()
    ]  # fmt: skip


def _features(found: Found) -> Shown | None:
    records = found.of_page("sections-features")
    records = [{**r, "_without": _left_out(r)} for r in records]
    rows, worth, claims = [], [], []
    counts = {r["threads"] for r in records}
    for feature in FEATURES:
        threads = 1 if feature == IN_PLACE else max(counts, default=1)
        change = factors.FEATURES.get(FEATURES[feature][2], factors.SYNC)
        mine = where(records, threads=threads)
        gains = [compare(speed(mine, _without="", structure=structure, update=update),
                         speed(mine, _without=feature, structure=structure, update=update))
                 for structure in WAYS for update in UPDATES]  # fmt: skip
        if any(gains):
            rows.append([feature, *(look.times(g.ratio) if g else "–" for g in gains)])
            worth += [(g.ratio, feature) for g in gains if g]
        claims += [arms.versus(mine, "_without", "", feature, "mops",
                               titles={"": "all features", feature: f"without {feature}"},
                               told=f"{at['structure']}, {updates_text(at['update'])}",
                               varies=change, **at)
                   for at in arms.each({"structure": WAYS, "update": UPDATES})]  # fmt: skip
    if not rows:
        return None
    head = ["with it against without", *(f"{structure}, {update}{look.NO_BREAK}%"
                                         for structure in WAYS for update in UPDATES)]  # fmt: skip
    most, least = max(worth), min(worth)
    here = (f"Most is gained by {most[1]}, {look.times(most[0])}; least by {least[1]}, "
            f"{look.times(least[0])}.")  # fmt: skip
    several = arms.cannot(
        "several versions gain",
        "all structures",
        "judged on the page One feature more: nothing is left without them",
    )
    return Shown([blocks.table(head, rows)], here, [*arms.measured(claims), several])


def _cache_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        command(scale, "cache", sync, threads, update, *CACHE_SIZE)
        for update in UPDATES
        for threads in scale.threads
        for sync in CACHE
        if sync not in scale.lacking
    ]


def _cache(found: Found) -> Shown | None:
    records = found.of_page("sections-cache")
    drawn, gains = [], []
    for update in UPDATES:
        mine = where(records, update=update)
        drawn.append(lines(mine, "threads", f"operations per second, {updates_text(update)}"))
        gains += [compare(speed(mine, sync=OURS, threads=n),
                          speed(mine, sync="kyotocabinet", threads=n))
                  for n in sorted({r["threads"] for r in mine})]  # fmt: skip
    if not records:
        return None
    known = [gain for gain in gains if gain is not None]
    here = "Kyoto Cabinet was not run beside it."
    if known:
        here = ("Against Kyoto Cabinet, which has a lock for each sixteenth of the keys, "
                f"{from_to(known)}.")  # fmt: skip
    most = max((r["threads"] for r in records if r["threads"] <= found.cores), default=1)
    claims = [claim for update in CACHE_UPDATES for claim in _cache_claims(records, update, most)]
    return Shown([one for one in [block(records, "cache", drawn)] if one], here,
                 arms.measured(claims))  # fmt: skip


def _cache_claims(records: list[dict], update: int, most: int) -> list[Sub]:
    """At as many threads as processors, and how that came about from one thread on."""
    least = min(r["threads"] for r in records)
    claims: list[Sub] = [
        faster(records, OURS, "kyotocabinet", update=update, threads=most),
        faster(records, OURS, SINGLE, update=update, threads=most, factor=CACHE_AHEAD),
    ]
    rival = ("kyotocabinet",)
    return [*claims, *scaling(records, rival, most, least, updates_text(update), update=update)]


PAGES = [
    page("structures", "Three structures", "list, hash table and tree",
         "With many versions of each object writers do not wait for readers, and read-log-update "
         "scales where one copy does not, whatever the share of updates. It is ahead of all "
         "others, but for RCU in the hash table at 2 % updates (ASPLOS 2019, figure 4).",
         _structure_commands, _structures,
         "Beyond the number of processors the curves show what preemption costs, not scaling."),
    page("sizes", "Sizes", "how many keys",
         "With few keys writers meet often, with many the cache is what counts; many versions are "
         "ahead of one copy from 1000 elements to 50 000 (ASPLOS 2019, figure 6).",
         _size_commands, _sizes),
    page("features", "Features", "what each feature is worth",
         "From one feature to the next throughput grows: several versions, the clock, collecting "
         "beside the work, the watermarks (ASPLOS 2019, factor analysis).",
         _feature_commands, _features,
         "One feature is left out at a time; more threads than processors, and one thread for "
         "changes in place."),
    page("cumulative", "One feature more", "features added one after the other",
         "On a list many versions gain 2.3 times at 2 % updates, own collection 1.8 times at 80 %, "
         "the watermark of a log's capacity something at 20 and 80 %, that of walks 1.8 times at "
         "20 %; all together gain 1.8, 2 and 3.5 times over one copy of each object, at 2, 20 and "
         "80 % (ASPLOS 2019, figure 8). Of the other steps, and of the hash table, the paper says "
         "nothing.",
         _step_commands, _steps,
         "Many versions come with one thread that collects; then each thread collects its own log "
         "from 1 MB on; then earlier. The paper adds the hardware clock first; here it comes "
         "last, since the program has no read-log-update of one copy with that clock. More threads "
         "than processors."),
    page("cache", "A cache", "a cache of strings",
         "With the lock of Kyoto Cabinet's cache replaced by read-log-update it scales further "
         "with the threads than the original, and is 3.8 to 8.4 times as fast with many versions "
         "as with one copy, at 2 and 20 % updates (ASPLOS 2019, figure 10).",
         _cache_commands, _cache,
         "Ours is an example of this library, with a table of buckets and a tree in each as there, "
         "and not a changed Kyoto Cabinet. Values have 64 bytes; sets and erasures are halves of "
         "the updates."),
    page("sleeper", "A sleeping section", "a section sleeps",
         "Not shown: there, one section that sleeps stops all writers once their logs are full.",
         _sleeper_commands, _sleeper),
]  # fmt: skip
