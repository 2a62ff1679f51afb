# SPDX-License-Identifier: Apache-2.0
"""Figures 3 to 9 of the paper on counted pointers (ISMM 2018): one object, and three containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from lab import charts, legends, look, words
from lab.paper import arms, blocks, factors
from lab.paper.found import Found
from lab.paper.page import Page, Scale, Shown, one_trial
from lab.stats import Spread, spread
from lab.verdict import BOUND, EQUAL, LEVEL, MORE, Absent, Arm, Sub

# What is measured, of `spolia-bench counted`, by test and structure.
OBJECT_TESTS = {
    "contention": "all threads look at one object",
    "set": "each thread sets a pointer of its own",
    "allocate": "each thread makes and ends objects",
}
MAP_TESTS = {
    "read": "random look-ups",
    "hot": "99 of 100 look-ups in a tenth of the keys",
    "insert": "the threads fill the container",
    "remove": "the threads empty it",
}
STRING_TESTS = {
    "strings": "the threads put real strings in, answer six queries for each, take them out",
    "mixed": "95 of 100 look-ups, 4 insertions, 1 removal of real strings",
}
STRUCTURES = {"bst": "search tree", "btree": "B+ tree", "hash": "hash map"}
LOCKED = {"tree": "search tree with node locks", "btree-locked": "B+ tree with node locks"}
MAPS = {**STRUCTURES, **LOCKED}
TITLES = {
    "raw": "raw, nothing freed", "private": "private_ptr", "thin": "private_thin_ptr",
    "walk": "shared_ptr, Spolia's walk", "thin-walk": "thin_ptr, Spolia's walk",
    "atomic": "atomic_shared_ptr", "shared": "shared_ptr", "std-plain": "std::shared_ptr",
    "std": "std, atomic_load", "std-atomic": "std::atomic<shared_ptr>",
    "boost-atomic": "boost::atomic_shared_ptr",
}  # fmt: skip
COLOURS = ("none", "token", "debra", "neutralization_plus", "hazard_pointers", "rcu",
           "hazard_eras", "token_naive", "neutralization", "qsbr", "token_periodic")  # fmt: skip
# What the paper says of walks: with private pointers they take at most so many times as long as
# with raw ones, with counted pointers at least so many times.
# Of insertion and removal in the trees with node locks it says the same of raw ones, and that with
# counted pointers they take at least so many times as long as with private ones.
SLOWER, COUNTED_CHANGES_SLOWER = 2.0, 4.0
COUNTED_SLOWER = {"bst": 100.0, "tree": 100.0}  # and of the others:
COUNTED_SLOWER_ELSE = 10.0
COUNTED = "std-atomic"
# Of a tree that ends: nodes, the longest pause that we allow, and the most nodes that may be left
# over by one thread: what its last 2 · 8192 changes gave up (the collector's bound), of which two
# can be whole trees, and one tree more that is just being ended.
NODES, LONGEST_NS = 20000, 1e6
MOST_LEFT = 3 * NODES + 2 * 8192


OWN = ("private", "thin")
SOME_POINTERS = "Only some of the pointers were run."
WORDS, BURST = 100_000, 320_000


def _counted(scale: Scale, test: str, *more: str, threads: Iterable[int] = ()) -> tuple[str, ...]:
    """All pointers, with all numbers of threads."""
    swept = ",".join(map(str, threads or scale.threads))
    return ("counted", "--test", test, *more, "--threads", swept,
            "--seconds", f"{scale.seconds / 10:g}")  # fmt: skip


def _object_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [_counted(scale, test) for test in OBJECT_TESTS]


def _map_commands(scale: Scale) -> list[tuple[str, ...]]:
    # The paper's 100,000 keys to read, where nothing was said of their number.
    keys = scale.sizes("--keys", str(scale.keys // 2))
    return [_counted(scale, test, "--structure", structure, *keys)
            for test, structure in product(MAP_TESTS, MAPS)]  # fmt: skip


def _string_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [_counted(scale, test, "--structure", structure, "--keys", str(WORDS))
            for test, structure in product(STRING_TESTS, STRUCTURES)]  # fmt: skip


def _time_commands(scale: Scale) -> list[tuple[str, ...]]:
    few = sorted({1, scale.full})
    return [_counted(scale, "parts", "--keys", str(scale.keys // 10), threads=few)]


def _slop_commands(scale: Scale) -> list[tuple[str, ...]]:
    few = sorted({1, scale.full, 16 * scale.full})
    return [_counted(scale, "stream", threads=few),
            _counted(scale, "burst", "--keys", str(BURST), threads=few)]  # fmt: skip


def _end_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [_counted(scale, "destroy", "--keys", str(NODES))]


def _page(commands: Callable[[Scale], list[tuple[str, ...]]], **named) -> Page:
    return Page(cells=one_trial, commands=commands, **named)


Series = dict[str, dict[int, Spread]]
Parts = list[tuple[str, str, Series]]


def _series(found: Found, test: str, structure: str | None = None) -> Series:
    """Millions of operations per second by pointer and number of threads."""
    values: dict[str, dict[int, list[float]]] = {}
    for r in found.pointers:
        if r.get("test") == test and r.get("structure") == structure and r.get("mops"):
            values.setdefault(r["pointer"], {}).setdefault(r["threads"], []).append(r["mops"])
    order = [name for name in TITLES if name in values]
    return {
        name: {threads: spread(some) for threads, some in sorted(values[name].items())}
        for name in order
    }


def _colour(name: str) -> str:
    return look.scheme_colour(COLOURS[list(TITLES).index(name)])


def _chart(series: Series, where: str) -> dict:
    counts = sorted({threads for points in series.values() for threads in points})
    data = []
    for name, points in series.items():
        at = [threads for threads in counts if threads in points]
        data.append({
            "type": "scatter", "mode": "lines+markers", "meta": TITLES[name],
            "x": at, "y": [points[t].median * 1e6 for t in at],
            "line": {"color": _colour(name), "width": 2.2},
            "marker": {"size": 8, "color": _colour(name)}, "hoverinfo": "text",
            "hovertext": [f"<b>{TITLES[name]}</b><br>{words.threads_text(t)}: "
                          f"{look.rate(points[t].median * 1e6)}" for t in at],
        })  # fmt: skip
    every = [p.median * 1e6 for points in series.values() for p in points.values()]
    ticks, texts = look.log_ticks(min(every), max(every), look.rate)
    what = f"{where}: per second" if where else "operations per second"
    y = charts.axis(f"{what}, logarithmic", type="log", tickvals=ticks, ticktext=texts)
    x = charts.axis("threads", type="log", tickvals=counts, ticktext=[str(n) for n in counts])
    return charts.figure(data, 320, x, y)


def _table(series: Series, title: str) -> dict:
    counts = sorted({threads for points in series.values() for threads in points})
    rows = [
        [TITLES[name], *(look.rate(points[t].median * 1e6) if t in points else "" for t in counts)]
        for name, points in series.items()
    ]
    head = ["operations per second", *map(words.threads_text, counts)]
    return blocks.table(head, rows, title)


def _ratio(series: Series, one: str, other: str, threads: int) -> float | None:
    a = series.get(one, {}).get(threads)
    b = series.get(other, {}).get(threads)
    return a.median / b.median if a and b and b.median > 0 else None


def _most(series: Series, limit: int) -> int:
    """As many threads as there are processors, or fewer."""
    counts = {threads for points in series.values() for threads in points}
    return max((n for n in counts if n <= limit), default=min(counts))


def _walls(found: Found) -> list[dict]:
    """A card for each structure: what a million of each test takes by the clock on the wall."""
    made = []
    colours = dict(zip(MAP_TESTS, COLOURS, strict=False))
    for structure, title in MAPS.items():
        by_test = {test: _series(found, test, structure) for test in MAP_TESTS}
        threads = max((t for series in by_test.values() for points in series.values()
                       for t in points), default=0)  # fmt: skip
        names = [
            name
            for name in TITLES
            if all(threads in series.get(name, {}) for series in by_test.values())
        ]
        if not names:
            continue
        parts = [(test, look.scheme_colour(colours[test]),
                  [1e9 / series[name][threads].median for name in names])
                 for test, series in by_test.items()]  # fmt: skip
        legend = legends.places([(test, colour) for test, colour, _ in parts])
        picture = blocks.bars([TITLES[name] for name in names], parts,
                              "time for a million of each", look.duration)  # fmt: skip
        where = f"{title.capitalize()}: by the clock on the wall, {words.threads_text(threads)}"
        made.append(blocks.charts_block(where, [picture], legend))
    return made


def _drawn(parts: Parts) -> list[dict]:
    """A card for each title, with a picture for each place, and a table for each below."""
    made = []
    for title in dict.fromkeys(title for title, _, _ in parts):
        mine = [(where, series) for of, where, series in parts if of == title]
        shown = [name for name in TITLES if any(name in series for _, series in mine)]
        legend = legends.places([(TITLES[name], _colour(name)) for name in shown])
        made.append(blocks.charts_block(title, [_chart(s, where) for where, s in mine], legend))
        made += [_table(series, where) for where, series in mine]
    return made


def _of_structures(found: Found, tests: dict[str, str]) -> Parts:
    return [
        (title.capitalize(), MAPS[structure], series)
        for test, title in tests.items()
        for structure in MAPS
        if (series := _series(found, test, structure))
    ]


def _objects(found: Found) -> Shown | None:
    parts = [(title.capitalize(), "", series) for test, title in OBJECT_TESTS.items()
             if (series := _series(found, test))]  # fmt: skip
    if not parts:
        return None
    contention = _series(found, "contention")
    faster = contention and _ratio(contention, "private", "std-atomic",
                                   _most(contention, found.cores))  # fmt: skip
    claims = _object_claims(found)
    if not faster:
        return Shown(_drawn(parts), SOME_POINTERS, claims)
    here = (f"With as many threads as processors private pointers look at one object "
            f"{look.times(faster)} as often as std::atomic<std::shared_ptr>.")  # fmt: skip
    return Shown(_drawn(parts), here, claims)


def _object_claims(found: Found) -> list[Sub]:
    counts = _counts(found, test="contention")
    if not counts:
        return [Absent(f"{TITLES['private']} = {TITLES['raw']}, > {TITLES[COUNTED]}",
                       OBJECT_TESTS["contention"], "not measured")]  # fmt: skip
    claims: list[Sub] = []
    for threads, ours in product(counts, OWN):
        at = {"test": "contention", "threads": threads}
        claims.append(_faster(found, ours, "raw", kind=LEVEL, **at))
        claims.append(_faster(found, ours, COUNTED, **at))
    few, many = counts[0], counts[-1]
    told = f"{words.threads_text(few)} against {many}"
    if few == many:
        return [*claims, Absent("counted pointers do not scale", told, "one number of threads")]
    mine = arms.where(found.pointers, pointer=COUNTED, test="contention")
    ends = (arms.arm(mine, f"{TITLES[COUNTED]}, {words.threads_text(n)}", "mops", threads=n)
            for n in (few, many))  # fmt: skip
    kept = arms.claim(*ends, told, 1 / EQUAL, BOUND, factors.THREADS)
    return [*claims, *arms.measured([kept])]


def _counts(found: Found, **at) -> list[int]:
    """Numbers of threads that any pointer was run with: up to the number of processors, or else the
    smallest."""
    counts = sorted({r["threads"] for r in arms.where(found.pointers, **at)})
    return [n for n in counts if n <= found.cores] or counts[:1]


def _faster(found: Found, one: str, other: str, factor: float = 1.0, kind: str = MORE,
            told: str = "", **at) -> Sub:  # fmt: skip
    """Absent if one of the two was not run."""
    made = arms.versus(found.pointers, "pointer", one, other, "mops", titles=TITLES, factor=factor,
                       kind=kind, told=told, varies=factors.POINTER, **at)  # fmt: skip
    return arms.measured([made])[0]


def _containers(found: Found) -> Shown | None:
    parts = _of_structures(found, MAP_TESTS)
    if not parts:
        return None
    drawn = _drawn(parts) + _walls(found)
    slower = []
    for structure in MAPS:
        series = _series(found, "read", structure)
        ratio = series and _ratio(series, "raw", "thin", _most(series, found.cores))
        if ratio:
            slower.append((ratio, MAPS[structure]))
    if not slower:
        return Shown(drawn, SOME_POINTERS, _walk_claims(found))
    worst, where = max(slower)
    here = (f"With as many threads as processors look-ups with private thin pointers take at most "
            f"{worst:.2f} times as long as with raw pointers ({where}).")  # fmt: skip
    return Shown(drawn, here, _walk_claims(found))


def _walk_claims(found: Found) -> list[Sub]:
    claims: list[Sub] = []
    for test, structure in (*product(("read", "hot"), MAPS),
                            *product(("insert", "remove"), LOCKED)):  # fmt: skip
        counts = _counts(found, test=test, structure=structure)
        if not counts:
            claims.append(Absent("what pointers cost", f"{MAPS[structure]}, {MAP_TESTS[test]}",
                                 "not measured"))  # fmt: skip
        for threads in counts:
            at = {"test": test, "structure": structure, "threads": threads}
            told = f"{MAPS[structure]}, {MAP_TESTS[test]}, {words.threads_text(threads)}"
            claims += [_faster(found, ours, "raw", 1 / SLOWER, BOUND, told, **at) for ours in OWN]
            if test in ("insert", "remove"):
                claims += [_faster(found, ours, COUNTED, COUNTED_CHANGES_SLOWER, told=told, **at)
                           for ours in OWN]  # fmt: skip
            else:
                slower = COUNTED_SLOWER.get(structure, COUNTED_SLOWER_ELSE)
                claims.append(_faster(found, "raw", COUNTED, slower, told=told, **at))
    return claims


def _strings(found: Found) -> Shown | None:
    parts = _of_structures(found, STRING_TESTS)
    if not parts:
        return None
    faster = [
        (ratio, f"{where}: {title.lower()}")
        for title, where, series in parts
        if (ratio := _ratio(series, "thin", "std-atomic", _most(series, found.cores)))
    ]
    claims = _string_claims(found)
    if not faster:
        return Shown(_drawn(parts), SOME_POINTERS, claims)
    least, where = min(faster)
    here = (f"Thin pointers do at least {look.times(least)} as many operations as "
            f"std::atomic<std::shared_ptr> (least: {where}).")  # fmt: skip
    return Shown(_drawn(parts), here, claims)


def _string_claims(found: Found) -> list[Sub]:
    claims: list[Sub] = []
    for test, structure in product(STRING_TESTS, STRUCTURES):
        told = f"{STRUCTURES[structure]}, {STRING_TESTS[test]}"
        counts = _counts(found, test=test, structure=structure)
        if not counts:
            claims.append(Absent(f"{TITLES['thin']} > {TITLES[COUNTED]}", told, "not measured"))
            continue
        told = f"{told}, {words.threads_text(counts[-1])}"
        claims += [_faster(found, ours, COUNTED, told=told, test=test, structure=structure,
                           threads=counts[-1]) for ours in OWN]  # fmt: skip
    return claims


SHARES = {"p50_ns": "half", "p99_ns": "99 %", "p999_ns": "99.9 %", "p9999_ns": "99.99 %",
          "max_ns": "all"}  # fmt: skip
CLOCKS = {"pause": "by the clock on the wall", "work": "as the thread's time on a processor"}


def _histogram(records: list[dict], what: str, when: str) -> dict | None:
    """How many of `what` took how long, by powers of two, with the fewest threads."""
    threads = min(r["threads"] for r in records)
    mine = [r for r in records if r["threads"] == threads and r.get("pauses_below_ns")]
    shown = {name: r["pauses_below_ns"] for name in TITLES for r in mine if r["pointer"] == name}
    if not shown:
        return None
    data = [
        {
            "type": "scatter", "mode": "lines+markers", "meta": TITLES[name],
            "x": [below for below, _ in points], "y": [n for _, n in points],
            "line": {"color": _colour(name), "width": 2.2, "shape": "hvh"},
            "marker": {"size": 6, "color": _colour(name)}, "hoverinfo": "text",
            "hovertext": [f"<b>{TITLES[name]}</b><br>below {look.duration(below)}: "
                          f"{look.count(n)} {what}" for below, n in points],
        }
        for name, points in shown.items()
    ]  # fmt: skip
    edges = [below for points in shown.values() for below, _ in points]
    ticks, texts = look.duration_ticks(min(edges), max(edges))
    most = max(n for points in shown.values() for _, n in points)
    counts, told = look.log_ticks(1, most, look.count)
    x = charts.axis("pause", type="log", tickvals=ticks, ticktext=texts)
    y = charts.axis(f"{what}, logarithmic", type="log", tickvals=counts, ticktext=told)
    legend = legends.places([(TITLES[name], _colour(name)) for name in shown])
    title = f"How long {what} take {when}, {words.threads_text(threads)}"
    return blocks.charts_block(title, [charts.figure(data, 320, x, y)], legend)


def _ends(found: Found) -> Shown | None:
    """A row for each pointer and number of threads: the medians of the trials."""
    records = [r for r in found.pointers if r.get("test") == "destroy" and r.get("pause_max_ns")]
    if not records:
        return None
    ours = []
    rows = {clock: [] for clock in CLOCKS}
    for name in TITLES:
        mine = [r for r in records if r["pointer"] == name]
        for threads in sorted({r["threads"] for r in mine}):
            same = [r for r in mine if r["threads"] == threads]
            fields = [f"{clock}_{share}" for clock in CLOCKS for share in SHARES]
            middle = {f: spread([r[f] for r in same]).median
                      for f in (*fields, "unreclaimed_peak")}  # fmt: skip
            for clock, told in rows.items():
                told.append([TITLES[name], str(threads),
                             *(look.duration(middle[f"{clock}_{share}"]) for share in SHARES),
                             look.count(middle["unreclaimed_peak"])])  # fmt: skip
            if name in OWN and threads <= found.cores:
                ours.append((middle["pause_max_ns"], middle["work_max_ns"],
                             middle["unreclaimed_peak"] / threads))  # fmt: skip
    head = ["pointer", "threads", *(f"{share} within" for share in SHARES.values()), "left at most"]
    parts = [block for block in [_histogram(records, "changes", "while trees end")] if block]
    parts += [
        blocks.table(head, rows[clock],
                     f"Pauses of one change while trees end, {by}, and nodes left over")
        for clock, by in CLOCKS.items()
    ]  # fmt: skip
    claims = _end_claims(found, arms.where(found.pointers, test="destroy"))
    if not ours:
        return Shown(parts, SOME_POINTERS, claims)
    pause, work, left = (max(each) for each in zip(*ours, strict=True))
    here = (f"The longest change took {look.duration(pause)} by the clock on the wall with ours, "
            f"and {look.duration(work)} of a thread's time; "
            f"{look.duration(LONGEST_NS)} is what we allow. A thread left at most "
            f"{look.count(left)} nodes over, of "
            f"{look.count(MOST_LEFT)} that the bound allows.")  # fmt: skip
    return Shown(parts, here, claims)


def _end_claims(found: Found, records: Iterable[dict]) -> list[Sub]:
    claims: list[Sub] = []
    for name, threads in product(OWN, _counts(found, test="destroy")):
        mine = arms.where(records, pointer=name, threads=threads)
        told = f"{TITLES[name]}, {words.threads_text(threads)}"
        claims += [
            arms.promised(mine, f"{told}: the longest change, ns", "pause_max_ns", LONGEST_NS),
            arms.promised(mine, f"{told}: nodes left by a thread", "unreclaimed_peak", MOST_LEFT,
                          per="threads"),
        ]  # fmt: skip
    return claims


# Where the time goes, of `--test parts`.
PARTS = {"count_ns": "counting up", "make_ns": "making nodes", "set_ns": "setting and logging",
         "scan_ns": "scan", "sweep_ns": "sweep", "end_ns": "ending nodes",
         "rest_ns": "the tree itself"}  # fmt: skip
# As in the paper the scan reads pins only, and the sweep drops each logged unit.
MOST_EPOCHS = 100
# What a collector that keeps up lets wait: what is given up in one epoch, and in the ones in which
# it is looked at. The paper names no number.
MOST_WAITING = 10


def _times(found: Found) -> Shown | None:
    records = [r for r in found.pointers if r.get("test") == "parts" and r.get("operations")]
    if not records:
        return None
    records.sort(key=lambda r: (list(TITLES).index(r["pointer"]), r["threads"]))
    drawn = list({(r["pointer"], r["threads"]): r for r in records}.values())  # the last trials
    labels = [f"{TITLES[r['pointer']]}, {words.threads_text(r['threads'])}" for r in drawn]
    values = {f: [r[f] / r["operations"] for r in drawn] for f in PARTS}
    colours = dict(zip(PARTS, COLOURS, strict=False))
    parts = [(title, look.scheme_colour(colours[f]), values[f]) for f, title in PARTS.items()]
    legend = legends.places([(title, colour) for title, colour, _ in parts])
    picture = blocks.bars(labels, parts, "time an operation", look.duration)
    rows = [[label, *(look.percent(values[f][i] / max(1e-9, sum(v[i] for v in values.values())))
                      for f in PARTS)]
            for i, label in enumerate(labels)]  # fmt: skip
    title = "Insertions, look-ups and removals in a search tree: where the time goes"
    made = [blocks.charts_block(title, [picture], legend),
            blocks.table(["pointer", *PARTS.values()], rows, "Shares")]  # fmt: skip
    held_up = _histogram(records, "steps of pointers", "in these")
    made += [held_up] if held_up else []
    scans = max(r["scan_ns"] / max(1.0, r["sweep_ns"]) for r in records)
    counts = max(rows, key=lambda row: int(row[1].split(look.NO_BREAK)[0]))
    here = (f"The scan takes at most {scans:.2f} of what the sweep takes; counting up takes at "
            f"most {counts[1]} of the time ({counts[0]}).")  # fmt: skip
    claims = []
    for name, threads in product(OWN, sorted({r["threads"] for r in records})):
        mine = arms.where(found.pointers, test="parts", pointer=name, threads=threads)
        counting, others, sweep, scan = (
            Arm(told, mine, value) for told, value in (
                (PARTS["count_ns"], "count_ns"), ("all else in the collector", collecting),
                (PARTS["sweep_ns"], "sweep_ns"), (PARTS["scan_ns"], "scan_ns"))
        )  # fmt: skip
        told = f"{TITLES[name]}, {words.threads_text(threads)}"
        claims += [arms.claim(one, other, told, varies=factors.WITHIN)
                   for one, other in ((sweep, scan), (counting, others))]  # fmt: skip
    return Shown(made, here, claims)


def collecting(record: dict) -> float | None:
    """Time in the collector that is not counting up."""
    times = [record.get(name) for name in ("set_ns", "scan_ns", "sweep_ns", "end_ns")]
    return None if None in times else sum(times)


STREAMS = {"stream": "Each thread gives up one object after another",
           "burst": "A tenth of a tree is taken out, then all of it is given up"}  # fmt: skip


def _slop(found: Found) -> Shown | None:
    records = [r for r in found.pointers
               if r.get("test") in STREAMS and r.get("ended_per_epoch")]  # fmt: skip
    if not records:
        return None
    made = []
    for test, title in STREAMS.items():
        mine = [r for r in records if r["test"] == test]
        for threads in sorted({r["threads"] for r in mine}):
            series = [
                {"title": TITLES[r["pointer"]], "colour": _colour(r["pointer"]),
                 "points": list(enumerate(r["ended_per_epoch"], 1))}
                for r in mine if r["threads"] == threads
            ]  # fmt: skip
            legend = legends.places([(s["title"], s["colour"]) for s in series])
            picture = _by_epoch(series)
            where = f"{title}, {words.threads_text(threads)}"
            made.append(blocks.charts_block(where, [picture], legend))
    rows = [[f"{TITLES[r['pointer']]}, {r['test']}", str(r["threads"]),
             str(len(r["ended_per_epoch"])), look.count(max(r["ended_per_epoch"])),
             look.count(r["waiting_peak"])] for r in records]  # fmt: skip
    head = ["", "threads", "epochs", "most in one", "waiting at most"]
    made.append(blocks.table(head, rows, "Objects that ended in an epoch"))
    bursts = [len(r["ended_per_epoch"]) for r in records if r["test"] == "burst"]
    here = "Only some of the tests were run."
    if bursts:
        here = (f"A tree that is given up has ended within {max(bursts)} epochs, its removals "
                f"included.")  # fmt: skip
    return Shown(made, here, _slop_claims(arms.of_any(found.pointers, "test", STREAMS)))


def _slop_claims(records: Iterable[dict]) -> list[Sub]:
    """A burst has ended soon, and of a stream no more waits than a few epochs end."""
    asked = (("burst", "epochs until a tree ended", epochs_of, MOST_EPOCHS),
             ("stream", "epochs' worth of objects that wait", epochs_waiting,
              MOST_WAITING))  # fmt: skip
    return [
        arms.promised(arms.where(records, test=test, pointer=name, threads=threads),
                      f"{TITLES[name]}, {words.threads_text(threads)}: {what}", value, most)
        for test, what, value, most in asked
        for name, threads in product(OWN, sorted({r["threads"] for r in records}))
    ]  # fmt: skip


def epochs_waiting(record: dict) -> float | None:
    """In how many epochs, of those with most ends, what waits at most would end."""
    most = max(record.get("ended_per_epoch") or [], default=0)
    waits = record.get("waiting_peak")
    return None if waits is None or not most else waits / most


def epochs_of(record: dict) -> int | None:
    """In which objects ended; None: in none did any."""
    return len(record.get("ended_per_epoch") or []) or None


def _by_epoch(series: list[dict]) -> dict:
    data = [
        {
            "type": "scatter", "mode": "lines+markers", "meta": s["title"],
            "x": [x for x, _ in s["points"]], "y": [y for _, y in s["points"]],
            "line": {"color": s["colour"], "width": 1.6},
            "marker": {"size": 4, "color": s["colour"]},
            "hoverinfo": "text",
            "hovertext": [f"<b>{s['title']}</b><br>epoch {x}: {look.count(y)} ended"
                          for x, y in s["points"]],
        }
        for s in series
    ]  # fmt: skip
    marks = charts.linear_ticks(max(y for s in series for _, y in s["points"]) or 1)
    last = charts.linear_ticks(max(x for s in series for x, _ in s["points"]))
    x = charts.axis("epoch", tickvals=last, ticktext=[look.count(t) for t in last])
    y = charts.axis("objects that ended", tickvals=marks, ticktext=[look.count(t) for t in marks])
    return charts.figure(data, 320, x, y)


OBJECTS = _page(
    _object_commands,
    key="pointers-object", name="One object", title="Counted pointers: one object",
    paper="Private pointers read one object at nearly the speed of raw pointers, whatever the "
          "number of threads; counted ones do not scale (ISMM 2018, figure 3).",
    show=_objects,
    limits="Beyond the number of processors the curves show what preemption costs, not scaling.",
)  # fmt: skip
CONTAINERS = _page(
    _map_commands,
    key="pointers-containers", name="Containers", title="Counted pointers: five containers",
    paper="Look-ups through private pointers take at most twice as long as through raw ones, in a "
          "hash map, a search tree and a B tree; with counted pointers, a hundred times in "
          "search trees, ten times in the others, and more. In "
          "trees whose nodes have locks insertions and removals take at most twice as long, too, "
          "and a quarter of what they take with counted pointers, or less (ISMM 2018, figures 4 "
          "to 7).",
    show=_containers,
    limits="But for the trees with node locks, and the partitions of the hash map, writers of a "
           "container take turns here, so insertion and removal do not scale; they compare what "
           "pointers cost under a lock. Private pointers are the public ones; Spolia's containers "
           "go by a simpler walk, which stands beside them. Raw pointers free nothing here, where "
           "the paper's are those of a container for one thread.",
)  # fmt: skip

STRINGS = _page(
    _string_commands,
    key="pointers-strings", name="Strings", title="Counted pointers: real strings",
    paper="On a real set of strings, structures of private pointers are filled, searched and "
          "emptied faster than those of counted pointers (ISMM 2018, section 4.4).",
    show=_strings,
    limits="100 000 of the words of Debian's wpolish, where the paper has 28 million strings, and "
           "queries skewed by Zipf's law, where the paper's are those of a text.",
)  # fmt: skip
ENDS = _page(
    _end_commands,
    key="pointers-ends", name="Ends of trees", title="Counted pointers: pauses while trees end",
    paper="The collector's work is cut into small tasks, so that a large structure ends without "
          "a long pause and little is left over (ISMM 2018, section 3).",
    show=_ends,
    limits="Pauses are by the clock on the wall: with more threads than processors, or beside "
           "other programs, they are the system's time slices. The second table has the same "
           "changes as the thread's own time on a processor.",
)  # fmt: skip

TIMES = _page(
    _time_commands,
    key="pointers-times", name="Where time goes", title="Counted pointers: where the time goes",
    paper="Most of the time in the collector goes into counting up, and the sweep takes far more "
          "than the scan (ISMM 2018, figure 8).",
    show=_times,
    limits="Each operation on a pointer is timed by itself, so the program runs slower than "
           "otherwise; what reading the clock takes is taken off the shares, and not off the steps "
           "of pointers: copies from locations, new objects, and stores to locations.",
)  # fmt: skip
SLOP = _page(
    _slop_commands,
    key="pointers-slop", name="Objects by epoch", title="Counted pointers: objects that end",
    paper="The collector keeps up with a stream of objects (taken here as: no more waits than "
          f"{MOST_WAITING} epochs end), and has ended a tree that is given up "
          "as a whole within 100 epochs (ISMM 2018, figure 9).",
    show=_slop,
    limits="An object's end asks which epoch it is, which makes the stream slower.",
)  # fmt: skip

PAGES = [OBJECTS, CONTAINERS, STRINGS, ENDS, TIMES, SLOP]
