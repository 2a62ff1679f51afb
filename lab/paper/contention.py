# SPDX-License-Identifier: Apache-2.0
"""Read-log-update where sections meet: how many start over, keys of which some are asked for most,
records in whole transactions; and what goes on inside over time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product

from lab import charts, legends, look, words
from lab.paper import arms, blocks, factors
from lab.paper.found import Found
from lab.paper.page import Scale, Shown
from lab.paper.sectioned import (
    OURS,
    SINGLE,
    STARTING_OVER,
    TITLES,
    UPDATES,
    WAYS,
    aborts,
    block,
    command,
    faster,
    from_to,
    lines,
    page,
    scaling,
    share_text,
    speed,
    updates_text,
    ways_in,
    where,
)
from lab.stats import Spread, compare, spread
from lab.verdict import Arm, Sub

LOW_ABORTS = 0.023  # the most that the paper has seen with many versions
# Of 2000 keys a fifth is asked for in 80 % of the operations then. Half of them are present.
PARETO = ("--keys", "2000", "--buckets", "1000", "--theta", "0.99")
PARETO_UPDATE = 10
THETAS = (0, 0.5, 0.7, 0.9, 0.99)
TIMED = ("list", "hash", "tree")
# Of --over-time: a column, what it is, how it is told, and whether it is a sum.
FIGURES = (
    ("log_bytes", "bytes in logs", look.size, False),
    ("waiting", "copies left by passes", look.count, False),
    ("chain_mean", "mean chain", lambda n: f"{n:.3g}", False),
    ("chain_most", "longest chain", look.count, False),
    ("written_back", "written back a second", look.rate, True),
    ("passes", "grace periods a second", look.rate, True),
    ("conflicts", "started over, a second", look.rate, True),
)
ALONE, BESIDE = "alone", "beside a section that sleeps"
SETTLED = 1.5  # times the bytes that logs had before, at most
# Each transaction has 16 rows of a thousand bytes; some are likelier than others, as in the paper.
RECORDS = ("--workload", "a", "--operations", "16", "--theta", "0.7", "--records", "20000",
           "--shared")  # fmt: skip
ENGINES = "mvrlu,mvrlu-serializable,rlu,rlu-deferred,rwlock,spolia"


# ---- sections that start over


def _abort_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        command(scale, structure, sync, threads, update)
        for structure in ("list", "hash")
        for update in UPDATES
        for threads in scale.threads
        for sync in STARTING_OVER
    ]


def _aborts(found: Found) -> Shown | None:
    every = arms.of_any(found.of_page("sections-aborts"), "sync", STARTING_OVER)
    records = [r for r in every if r.get("abort_ratio") is not None]
    made, pairs, most = [], [], []
    for structure in ("list", "hash"):
        mine = where(records, structure=structure)
        drawn = [lines(where(mine, update=update), "threads",
                       f"sections that start over, {updates_text(update)}", aborts, share_text)
                 for update in UPDATES]  # fmt: skip
        made.append(block(mine, structure, drawn))
        for update in UPDATES:
            for threads in sorted({r["threads"] for r in mine}):
                at = {"update": update, "threads": threads}
                ours, single = aborts(mine, sync=OURS, **at), aborts(mine, sync=SINGLE, **at)
                if ours and single:
                    pairs.append((ours.median, single.median))
                    most.append(ours.median)
    if not pairs:
        return None
    fewer = sum(ours <= single for ours, single in pairs)
    here = (f"With many versions at most {share_text(max(most))} of the tries start over, with one "
            f"copy {share_text(max(single for _, single in pairs))}; fewer or as few in {fewer} of "
            f"{len(pairs)} mixes and numbers of threads.")  # fmt: skip
    claims = [
        claim
        for structure in ("list", "hash")
        for claim in _abort_claims(arms.where(every, structure=structure), structure)
    ]
    return Shown([one for one in made if one], here, arms.measured(claims))


def _abort_claims(records: Iterable[dict], structure: str) -> list[Sub]:
    """With many versions few sections start over, wherever they are; with one copy more, and more
    with more threads and with more updates."""
    claims: list[Sub] = []
    counts = sorted({r["threads"] for r in records})
    for update, threads in product(UPDATES, counts):
        at = {"update": update, "threads": threads}
        told = f"{structure}, {updates_text(update)}, {words.threads_text(threads)}"
        claims.append(arms.promised(arms.where(records, sync=OURS, **at),
                                    f"{TITLES[OURS]}: tries that start over", "abort_ratio",
                                    LOW_ABORTS, told))  # fmt: skip
        if threads == counts[-1]:
            claims.append(arms.versus(records, "sync", SINGLE, OURS, "abort_ratio", titles=TITLES,
                                      told=f"{told}: tries that start over",
                                      varies=factors.SYNC, **at))  # fmt: skip

    def single(at: dict) -> Arm:
        return arms.arm(records, f"{TITLES[SINGLE]}: tries that start over", "abort_ratio",
                        sync=SINGLE, **at)  # fmt: skip

    most, least = counts[-1], counts[0]
    for update in UPDATES:
        ends = (single({"update": update, "threads": n}) for n in (most, least))
        told = f"{structure}, {updates_text(update)}, {words.threads_text(most)} against {least}"
        claims.append(arms.claim(*ends, told, varies=factors.THREADS))
    ends = (single({"update": u, "threads": most}) for u in (UPDATES[-1], UPDATES[0]))
    told = f"{structure}, {updates_text(UPDATES[-1])} against {UPDATES[0]}"
    return [*claims, arms.claim(*ends, told, varies=factors.UPDATE)]


# ---- some keys more than others


def _pareto_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        command(scale, "hash", sync, threads, PARETO_UPDATE, *PARETO)
        for threads in scale.threads
        for sync in WAYS["hash"]
    ]


def _pareto(found: Found) -> Shown | None:
    records = found.of_page("sections-pareto")
    counts = sorted({r["threads"] for r in records})
    known = {sync: gain for sync in ways_in(records) if sync != OURS
             and (gain := compare(speed(records, sync=OURS, threads=counts[-1]),
                                  speed(records, sync=sync, threads=counts[-1])))}  # fmt: skip
    if not known:
        return None
    drawn = lines(records, "threads", f"operations per second, {updates_text(PARETO_UPDATE)}")
    told = ", ".join(f"{look.times(gain.ratio)} {TITLES[sync]}" for sync, gain in known.items())
    here = f"With {counts[-1]} threads: {told}."
    made = block(records, "a fifth of the keys is asked for in four of five operations", [drawn])
    claims = [faster(records, OURS, sync, threads=counts[-1])
              for sync in WAYS["hash"] if sync != OURS]  # fmt: skip
    claims += scaling(records, WAYS["hash"][1:], counts[-1], counts[0],
                      updates_text(PARETO_UPDATE))  # fmt: skip
    return Shown([made] if made else [], here, arms.measured(claims))


def _zipf_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        command(scale, "hash", sync, scale.over, update, "--theta", str(theta))
        for update in UPDATES
        for theta in THETAS
        for sync in WAYS["hash"]
    ]


def _zipf(found: Found) -> Shown | None:
    records = found.of_page("sections-zipf")
    kept, gains = {}, []
    rates, shares = [], []
    told_of = [r for r in records if r.get("abort_ratio") is not None]
    for update in UPDATES:
        mine = where(records, update=update)
        rates.append(lines(mine, "theta", f"operations per second, {updates_text(update)}"))
        shares.append(lines(where(told_of, update=update), "theta",
                            f"sections that start over, {updates_text(update)}",
                            aborts, share_text))  # fmt: skip
        for sync in ways_in(mine):
            of = {t: speed(mine, sync=sync, theta=t) for t in (THETAS[0], THETAS[-1])}
            if all(of.values()):
                kept.setdefault(sync, []).append(of[THETAS[-1]].median / of[THETAS[0]].median)
        gains += [compare(speed(mine, sync=OURS, theta=t), speed(mine, sync=SINGLE, theta=t))
                  for t in THETAS]  # fmt: skip
    known = [gain for gain in gains if gain is not None]
    if not known:
        return None
    made = [block(records, "speed", rates), block(told_of, "starting over", shares)]
    told = "; ".join(f"{TITLES[sync]} {min(of):.2f}" for sync, of in kept.items())
    here = (f"Of the throughput with uniform keys there is left with theta {THETAS[-1]}, at least: "
            f"{told}.") if kept else "Not all values of theta were run."  # fmt: skip
    claims = []
    for update in UPDATES:
        mine = [r for r in records if r["update"] == update and r["sync"] == OURS]
        even, *uneven = (arms.arm(mine, f"theta {theta}", "mops", theta=theta) for theta in THETAS)
        claims += [arms.level(one, even, f"{TITLES[OURS]}, {updates_text(update)}", factors.THETA)
                   for one in uneven]  # fmt: skip
        claims += [faster(records, OURS, other, update=update, theta=theta)
                   for theta in THETAS for other in WAYS["hash"] if other != OURS]  # fmt: skip
    return Shown([one for one in made if one], here, arms.measured(claims))


# ---- over time


def _timed_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        command(
            scale,
            structure,
            OURS,
            scale.full,
            update,
            "--over-time",
            *more,
            seconds=f"{scale.seconds:g}",
        )
        for structure in TIMED
        for update in (20, 80)
        for more in ((), ("--stall",))
    ]


def column(record: dict, name: str, grows: bool) -> list[tuple[float, float]]:
    """Milliseconds and values; of a sum, how fast it grew, over 50 ms at a time."""
    names = record.get("over_time_columns") or []
    if name not in names:
        return []
    place = names.index(name)
    points = [(row[0], row[place]) for row in record.get("over_time") or []]
    if name.startswith("chain"):  # 0: others were at all logs
        points = [(t, value) for t, value in points if value]
    if not grows:
        return points
    ends = points[::10]
    return [(t, 1000 * (n - m) / (t - s)) for (s, m), (t, n) in pairwise(ends) if t > s]


def _timeline(runs: dict[str, dict], name: str, title: str, text, grows: bool) -> dict | None:
    lines = {label: charts.thin(column(r, name, grows), 300) for label, r in runs.items()}
    if not any(lines.values()):
        return None
    x = charts.axis("time, ms", showgrid=False)
    return charts.over_time(lines, 240, title, text, x, "{:.0f} ms".format)


def log_growth(record: dict) -> float | None:
    """What logs held at most in the last third of the time, over what they held before."""
    return _growth_of(record, "log_bytes")


def chain_growth(record: dict) -> float | None:
    """How long chains were on average at most in the last third of the time, over before."""
    return _growth_of(record, "chain_mean")


def _growth_of(record: dict, name: str) -> float | None:
    held = [value for _, value in column(record, name, False)]
    third = len(held) // 3
    return max(held[-third:]) / max(max(held[:-third]), 1) if third else None


def _settles(record: dict) -> bool:
    """Logs do not go on growing."""
    growth = log_growth(record)
    return growth is not None and growth <= SETTLED


def _timed(found: Found) -> Shown | None:
    every = found.of_page("sections-over-time")
    records = [r for r in every if r.get("over_time")]
    if not records:
        return None
    made, growing = [], []
    chains = []
    for structure in TIMED:
        for update in (20, 80):
            at = where(records, structure=structure, update=update)
            runs = {name: one[-1] for name, stalled in ((ALONE, False), (BESIDE, True))
                    if (one := where(at, stall=stalled))}  # fmt: skip
            where_text = f"{structure}, {updates_text(update)}"
            drawn = [_timeline(runs, *figure) for figure in FIGURES]
            named = [(name, look.place_colour(place)) for place, name in enumerate(runs)]
            made.append(blocks.charts_block(where_text, drawn, legends.places(named)))
            growing += [f"{where_text}, {name}" for name, r in runs.items() if not _settles(r)]
            if ALONE in runs:
                chains += [n for _, n in column(runs[ALONE], "chain_mean", False)]
    here = (f"An object that has copies has {sum(chains) / len(chains):.2f} on average, and "
            f"{max(chains):.2f} at the worst look, where no thread sleeps. "
            if chains else "")  # fmt: skip
    here += (f"Logs went on growing: {'; '.join(growing)}." if growing
             else "Logs grow at first and then stay as they are.")  # fmt: skip
    claims = [
        arms.promised(arms.where(every, structure=at["structure"], update=at["update"],
                                 stall=at["stall"]),
                      f"{at['structure']}, {updates_text(at['update'])}, "
                      f"{BESIDE if at['stall'] else ALONE}: bytes in logs, of before", log_growth,
                      SETTLED)
        for at in arms.each({"structure": TIMED, "update": (20, 80), "stall": (False, True)})
    ]  # fmt: skip
    claims += [
        arms.promised(arms.where(every, stall=False, **at),
                      f"{at['structure']}, {updates_text(at['update'])}, {ALONE}: mean chain, of "
                      "before", chain_growth, SETTLED)
        for at in arms.each({"structure": TIMED, "update": (20, 80)})
    ]  # fmt: skip
    return Shown([one for one in made if one], here, claims)


# ---- records


def _record_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        ("ycsb", "--engine", ENGINES, "--versions", "one-shot", *RECORDS, "--writes", str(writes),
         "--threads", str(threads), "--seconds", scale.short)
        for writes in UPDATES
        for threads in scale.threads
    ]  # fmt: skip


def _transactions(records: list[dict], **values) -> Spread | None:
    return spread(r["tx_per_s"] for r in where(records, **values))


def _anew(records: list[dict], **values) -> Spread | None:
    return spread(
        r["conflicts"] / max(1, r["conflicts"] + r["transactions"])
        for r in where(records, **values)
    )


def _records(found: Found) -> Shown | None:
    records = found.of_page("sections-records")
    rates, shares, gains = [], [], []
    for writes in UPDATES:
        mine = where(records, writes=writes)
        text = f"{writes}{look.NO_BREAK}% writes"
        rates.append(lines(mine, "threads", f"transactions per second, {text}", _transactions,
                           by="engine"))  # fmt: skip
        shares.append(lines(mine, "threads", f"tries begun anew, {text}", _anew, share_text,
                            by="engine"))  # fmt: skip
        gains += [compare(_transactions(mine, engine=OURS, threads=n),
                          _transactions(mine, engine="spolia", threads=n))
                  for n in sorted({r["threads"] for r in mine})]  # fmt: skip
    known = [gain for gain in gains if gain is not None]
    if not known:
        return None
    made = [block(records, "speed", rates, "engine"),
            block(records, "starting over", shares, "engine")]  # fmt: skip
    here = ("Against the store with its indexes, read-log-update makes "
            f"{from_to(known)} as many transactions.")  # fmt: skip
    # What it is beside the store is no claim of the paper's, and decides none.
    claims = [
        arms.cannot("scales as Silo and TicToc", "all mixes", "neither of them is here"),
        arms.cannot("7 to 10 times Hekaton", "all mixes", "it is not here", 7.0),
    ]
    return Shown([one for one in made if one], here, claims)


PAGES = [
    page("aborts", "Starting over", "how many sections start over",
         "With many versions 0 to 2.3 % of the sections abort; with one copy more and more, the "
         "more threads and updates there are (ASPLOS 2019, figure 5).",
         _abort_commands, _aborts,
         "Of the tries that had something to write. Locks and lock-free structures have no such "
         "figure."),
    page("pareto", "A small table", "a small hash table, some keys asked for most",
         "With 1000 elements, a bucket for each, 10 % updates and an 80-20 distribution nothing "
         "scales beyond 100 cores but many versions (ASPLOS 2019, figure 1).",
         _pareto_commands, _pareto,
         "Beyond the number of processors the curves show what preemption costs, not scaling."),
    page("zipf", "Keys in demand", "some keys are asked for more than others",
         "Throughput is nearly the same however skewed the keys are, and ahead of all others "
         "(ASPLOS 2019, figure 7).",
         _zipf_commands, _zipf, "More threads than processors, so that they meet at all."),
    page("over-time", "Over time", "logs, versions and grace periods over time",
         "Not shown: the paper says that the watermarks keep chains short and logs from filling.",
         _timed_commands, _timed, "Looks every 5 ms."),
    page("records", "Records", "YCSB over records, whole transactions",
         "With theta 0.7 it scales as Silo and TicToc do, and is 7 to 10 times as fast as Hekaton "
         "(ASPLOS 2019, figure 9).",
         _record_commands, _records,
         "Drawn beside the store, a multi-version engine with indexes, and not beside those "
         "three, so that nothing is judged. Rows of read-log-update are found by their number. How "
         "many rows a transaction has, and how long they are, the paper does not say: "
         "here 16 of a thousand bytes, as is usual in that benchmark."),
]  # fmt: skip
