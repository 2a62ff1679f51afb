# SPDX-License-Identifier: Apache-2.0
"""The evaluation of one-shot garbage collection (SIGMOD 2023): Figures 2 and 10 to 14, over every
version storage that the program has, so also over those that the paper does not know."""

from __future__ import annotations

from lab import charts, legends, look
from lab.paper import arms, blocks, factors
from lab.paper.found import Found
from lab.paper.page import Page, Scale, Shown, one_trial
from lab.stats import Comparison, Spread, compare, spread
from lab.verdict import Absent, Claim, Sub

NONE, ONE_SHOT, CONSOLIDATED, STEAM = "none", "one-shot", "one-shot-consolidated", "steam"
WRITES = (50, 100)
MIXES = ("neworder-payment", "full")
SIZES = (1, 2, 5, 10, 20, 50)
PARTITIONS = (2, 4, 8)
OPERATIONS = factors.Factor("the size of transactions", frozenset({"operations"}),
                            "The number of operations in a transaction is one field.")  # fmt: skip
STEAM_CONSOLIDATED = "steam-eager"  # prunes the chain at each update
# Steam leaves 64 % of the throughput; one-shot collection makes so many times as many transactions
# by the share of writes.
STEAM_COSTS = 1.56
FASTER_BY = {50: 1.30, 100: 1.25}
SMALL = ("--items", "20000", "--customers", "600")
LOWER = "On few cores the threads hardly ever meet at a counter or a latch, which is what costs " \
        "Steam most on the paper's 28 threads. "  # fmt: skip


def _ycsb(scale: Scale, threads: int, *more: str) -> tuple[str, ...]:
    return ("ycsb", "--threads", str(threads), "--seconds", f"{scale.seconds / 2:g}",
            *more)  # fmt: skip


def _tpcc(scale: Scale, threads: int, *more: str) -> tuple[str, ...]:
    return ("tpcc", *scale.sizes(*SMALL), "--threads", str(threads),
            "--seconds", f"{scale.seconds:g}", *more)  # fmt: skip


# ---- records


def _where(records: list[dict], **values) -> list[dict]:
    return [r for r in records if all(r.get(name) == value for name, value in values.items())]


def _storages(records: list[dict]) -> list[str]:
    return list(dict.fromkeys(r["versions"] for r in records))


def _speed(records: list[dict], versions: str, **values) -> Spread | None:
    return spread(r["tx_per_s"] for r in _where(records, versions=versions, **values))


def _gain(records: list[dict], one: str, other: str, **values) -> Comparison | None:
    return compare(_speed(records, one, **values), _speed(records, other, **values))


def _full(records: list[dict], cores: int) -> int:
    """As many threads as cores, or the nearest number that was run."""
    return min({r["threads"] for r in records}, key=lambda n: (abs(n - cores), n))


def _percent(gain: Comparison | None) -> str:
    if gain is None:
        return "–"
    share = 100 * (gain.ratio - 1)
    return f"{share:+.0f}{look.NO_BREAK}%"


# ---- drawing


def _legend(names: list[str]) -> list[dict]:
    return legends.places([(name, look.place_colour(place)) for place, name in enumerate(names)])


def _curves(records: list[dict], by: str, title: str, value="tx_per_s", text=look.rate) -> dict:
    """A line for each storage over a logarithmic axis, with the range of its trials."""
    at = sorted({r[by] for r in records if r.get(by) is not None})  # of one-shot storages only
    data, top = [], 0
    for place, name in enumerate(_storages(records)):
        mine = _where(records, versions=name)
        points = [(x, spread(r.get(value) for r in _where(mine, **{by: x}))) for x in at]
        points = [(x, s) for x, s in points if s]
        if not points:
            continue
        top = max(top, *(s.high for _, s in points))
        colour = look.place_colour(place)
        data.append({
            "type": "scatter", "mode": "lines+markers", "meta": name, "hoverinfo": "text",
            "x": [x for x, _ in points], "y": [s.median for _, s in points],
            "line": {"color": colour, "width": 2.2}, "marker": {"size": 8, "color": colour},
            "error_y": {"type": "data", "symmetric": False, "color": colour, **charts.CAP,
                        "array": [s.high - s.median for _, s in points],
                        "arrayminus": [s.median - s.low for _, s in points]},
            "hovertext": [f"<b>{name}</b><br>{title} {x}: {text(s.median)}" for x, s in points],
        })  # fmt: skip
    ticks = charts.linear_ticks(top or 1)
    x = charts.axis(title, type="log", tickvals=at, ticktext=[str(n) for n in at])
    named = "transactions per second" if value == "tx_per_s" else value
    y = charts.axis(named, tickvals=ticks, ticktext=[text(t) for t in ticks],
                    range=[0, top * 1.06 or 1])  # fmt: skip
    return charts.figure(data, 320, x, y)


def over_time(records: list[dict], place: int, title: str, text) -> dict | None:
    """One column of `over_time` against seconds, of each storage's last trial; 1: transactions a
    second, 2: bytes of old versions."""
    lines = {}
    for name in _storages(records):
        points = _where(records, versions=name)[-1].get("over_time") or []
        lines[name] = [(p[0] / 1000, p[place]) for p in points if p[place] is not None]
    if not any(value for points in lines.values() for _, value in points):
        return None
    return charts.over_time(lines, 320, title, text, charts.axis("seconds"), "{:.2f} s".format)


def _panels(records: list[dict], by: str, values: tuple, axis: str, name) -> list[dict]:
    """A block of curves for each value of one field."""
    made = []
    for value in values:
        some = _where(records, **{by: value})
        if some:
            title, drawn = name(value), [_curves(some, axis, axis)]
            made.append(blocks.charts_block(title, drawn, _legend(_storages(some))))
    return made


# ---- the pages


def _figure_2_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [_ycsb(scale, scale.full, "--writes", str(w)) for w in WRITES]


def _figure_2(found: Found) -> Shown | None:
    records = found.of_page("one-shot-2")
    rows, costs = [], {}
    for name in _storages(records):
        of = [_gain(records, name, NONE, writes=w) for w in WRITES]
        costs[name] = [c for c in of if c]
        speeds = [_speed(records, name, writes=w) for w in WRITES]
        rows.append([name, *(look.rate(s.median) if s else "–" for s in speeds),
                     *map(_percent, of)])  # fmt: skip
    if not costs.get(NONE) or not costs.get(STEAM):
        return None
    head = ["", *(f"{w}{look.NO_BREAK}% writes" for w in WRITES),
            *(f"against none, {w}{look.NO_BREAK}%" for w in WRITES)]  # fmt: skip
    told = [f"{name} {' and '.join(_percent(c) for c in of)}"
            for name, of in costs.items() if name != NONE]  # fmt: skip
    claims = [_faster(records, NONE, STEAM, STEAM_COSTS, writes=w) for w in WRITES]
    here = f"Against never collecting, with 50 and 100{look.NO_BREAK}% writes: {'; '.join(told)}."
    return Shown([blocks.table(head, rows)], here, claims)


def _figure_10_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [_ycsb(scale, t, "--writes", str(w)) for t in scale.threads for w in WRITES]


def _faster(records: list[dict], one: str, other: str, factor: float = 1.0, **at) -> Claim:
    return arms.versus(records, "versions", one, other, "tx_per_s", factor=factor,
                       varies=factors.VERSIONS, **at)  # fmt: skip


def _against_steam(records: list[dict], by: str, factors: dict, cores: int, name) -> Shown | None:
    if not records or _speed(records, STEAM) is None or _speed(records, ONE_SHOT) is None:
        return None
    full = _full(records, cores)
    gains = {v: _gain(records, ONE_SHOT, STEAM, threads=full, **{by: v}) for v in factors}
    told = [f"{name(v)}: {_percent(gain)}" for v, gain in gains.items() if gain]
    here = f"One-shot against Steam at {full} threads: {'; '.join(told)}."
    made = _panels(records, by, tuple(factors), "threads", name)
    claims = [_faster(records, ONE_SHOT, STEAM, factor, threads=full, **{by: v})
              for v, factor in factors.items()]  # fmt: skip
    return Shown(made, here, claims)


def _figure_10(found: Found) -> Shown | None:
    return _against_steam(found.of_page("one-shot-10"), "writes", FASTER_BY, found.cores,
                          lambda w: f"{w}{look.NO_BREAK}% writes")  # fmt: skip


def _figure_11_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [_tpcc(scale, t, "--mix", m) for t in scale.threads for m in MIXES]


def _figure_11(found: Found) -> Shown | None:
    titles = {"neworder-payment": "NewOrder and Payment", "full": "all five transactions"}
    records = found.of_page("one-shot-11")
    shown = _against_steam(records, "mix", dict.fromkeys(MIXES, 1.0), found.cores,
                           titles.get)  # fmt: skip
    if shown:
        shown.claims += [_gain_grows(records, mix, found.cores) for mix in MIXES]
    return shown


def _gain_grows(records: list[dict], mix: str, cores: int) -> Sub:
    """With as many threads as processors the gain is more than with the fewest."""
    most, least = _full(records, cores), min(r["threads"] for r in records)
    told = f"{mix}, {most} threads against {least}"
    if most == least:
        return Absent("the gain grows with the threads", told, "one number of threads")
    many, few = (_faster(records, ONE_SHOT, STEAM, threads=n, mix=mix) for n in (most, least))
    return arms.grows(many, few, told)


def _figure_12_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        _ycsb(scale, scale.full, "--columns", "1", "--writes", "100", "--operations", str(n))
        for n in SIZES
    ]


def _figure_12(found: Found) -> Shown | None:
    records = found.of_page("one-shot-12")
    small = _gain(records, ONE_SHOT, STEAM, operations=SIZES[0])
    large = _gain(records, ONE_SHOT, STEAM, operations=SIZES[-1])
    if small is None or large is None:
        return None
    each = [{**r, "updates_per_s": r["tx_per_s"] * r["operations"]} for r in records]
    drawn = [
        _curves(records, "operations", "operations"),
        _curves(each, "operations", "operations", "updates_per_s"),
    ]
    made = [blocks.charts_block("One column of 8 bytes", drawn, _legend(_storages(records)))]
    here = (
        f"One-shot against Steam: {_percent(small)} with {SIZES[0]} operation in a transaction, "
        f"{_percent(large)} with {SIZES[-1]}."
    )
    gains = [_faster(records, ONE_SHOT, STEAM, operations=n) for n in (SIZES[0], SIZES[-1])]
    told = f"{SIZES[0]} operation in a transaction against {SIZES[-1]}"
    return Shown(made, here, [gains[0], arms.grows(*gains, told, OPERATIONS)])


def _figure_13_commands(scale: Scale) -> list[tuple[str, ...]]:
    # One of the threads reads, as one of the paper's fourteen does.
    workers = max(1, scale.full - 1)
    return [_tpcc(scale, workers, "--scanners", str(n)) for n in (0, 1)]


def _figure_13(found: Found) -> Shown | None:
    records = found.of_page("one-shot-13")
    with_it, without = _where(records, scanners=1), _where(records, scanners=0)
    if _speed(with_it, CONSOLIDATED) is None or _speed(with_it, ONE_SHOT) is None:
        return None
    rows, told = [], []
    for name in _storages(with_it):
        kept = compare(_speed(with_it, name), _speed(without, name))
        bytes_of = spread(r["version_bytes_peak"] for r in _where(with_it, versions=name))
        scanned = spread(r["rows_scanned_per_s"] for r in _where(with_it, versions=name))
        speeds = [_speed(some, name) for some in (without, with_it)]
        rows.append([name, *(look.rate(s.median) if s else "–" for s in speeds), _percent(kept),
                     look.rate(scanned.median), look.size(bytes_of.median)])  # fmt: skip
        told.append(f"{name} {_percent(kept)}")
    head = ["", "transactions/s alone", "beside the reader", "", "rows read/s",
            "most bytes of versions"]  # fmt: skip
    drawn = [over_time(with_it, 1, "transactions per second", look.rate),
             over_time(with_it, 2, "bytes of old versions", look.size)]  # fmt: skip
    legend = _legend(_storages(with_it))
    made = [blocks.charts_block("Beside a reader that adds up columns", drawn, legend),
            blocks.table(head, rows)]  # fmt: skip
    mine = [r for r in records if r["versions"] == CONSOLIDATED]
    beside, alone = (arms.arm(mine, f"{CONSOLIDATED}, {what}", "tx_per_s", scanners=n)
                     for n, what in ((1, "beside the reader"), (0, "alone")))  # fmt: skip
    claims = [_faster(with_it, CONSOLIDATED, STEAM_CONSOLIDATED),
              _faster(with_it, STEAM, ONE_SHOT),
              arms.level(beside, alone, "speed", factors.SCANNERS)]  # fmt: skip
    return Shown(made, f"What the reader costs: {'; '.join(told)}.", claims)


def _figure_14_commands(scale: Scale) -> list[tuple[str, ...]]:
    return [
        _tpcc(scale, scale.full, "--partition", "16", "--partitions", str(n)) for n in PARTITIONS
    ]


def _figure_14(found: Found) -> Shown | None:
    records = found.of_page("one-shot-14")
    speeds = {n: _speed(records, ONE_SHOT, partitions_most=n) for n in PARTITIONS}
    known = {n: s for n, s in speeds.items() if s}
    if len(known) < 2:
        return None
    made = _panels(records, "kind", ("tpcc",), "partitions_most", lambda _: "Partitions at most")
    best = max(known, key=lambda n: known[n].median)
    worst = min(known, key=lambda n: known[n].median)
    gap = compare(known[best], known[worst])
    here = f"One-shot with {best} partitions against {worst}: {_percent(gap)}."
    claims = [
        arms.level(*(arms.arm(records, f"{storage}, {n} partitions", "tx_per_s", versions=storage,
                              partitions_most=n) for n in (most, PARTITIONS[0])), "speed",
                   factors.PARTITIONS)
        for storage in (ONE_SHOT, CONSOLIDATED)
        for most in PARTITIONS[1:]
    ]  # fmt: skip
    return Shown(made, here, claims)


def _page(number: int, title: str, paper: str, commands, show, limits: str = LOWER) -> Page:
    return Page(
        key=f"one-shot-{number}", name=f"One-shot, Figure {number}", title=title,
        paper=paper,
        cells=one_trial,
        show=show, limits=limits, commands=commands,
    )  # fmt: skip


SMALLER = f"The tables are smaller: {SMALL[1]} items, {SMALL[3]} customers of a district."
PAGES = [
    _page(2, "What collecting versions costs",
          "Steam costs 36 % of the throughput against no collection, on YCSB with 10 operations, "
          "10 columns of 8 bytes, theta 0.5, and 28 threads (SIGMOD 2023, section 1).",
          _figure_2_commands, _figure_2),
    _page(10, "YCSB by threads",
          "With 28 threads one-shot collection commits 30 % more transactions than Steam at 50 % "
          "writes, 25 % more at 100 %.",
          _figure_10_commands, _figure_10),
    _page(11, "TPC-C by threads",
          "NewOrder with Payment, and all five transactions: one-shot collection scales better "
          "than Steam, which walks through versions after each transaction, so that the gain "
          "grows with the threads.",
          _figure_11_commands, _figure_11, LOWER + SMALLER),
    _page(12, "The size of transactions",
          "Steam's cost of each transaction overshadows small ones; one-shot collection has none "
          "but registration. One column, 28 threads.",
          _figure_12_commands, _figure_12),
    _page(13, "TPC-C beside a long reader",
          "13 threads of TPC-C and one that adds up a column: with consolidation one-shot "
          "collection loses nothing to the reader, and is faster than Steam that prunes at each "
          "update; without, it is slower than Steam.",
          _figure_13_commands, _figure_13,
          "The reader is as long as one pass over the stock here. " + SMALLER),
    _page(14, "The number of partitions",
          "TPC-C with 16 transactions a partition: from 2 to 8 partitions almost nothing changes, "
          "with and without consolidation.",
          _figure_14_commands, _figure_14, SMALLER),
]  # fmt: skip
