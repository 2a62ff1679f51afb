# SPDX-License-Identifier: Apache-2.0
"""The layers above the schemes in the quick look: what is run, and its part of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from lab import charts, look
from lab.bench import Bench
from lab.stats import Spread, spread

TIMEOUT = 60.0
DEFAULT_STORAGE = "one-shot-evacuated"
Draw = Callable[[list[dict], "object"], list[dict]]


@dataclass(frozen=True)
class Layer:
    """One layer: its question, the commands that answer it, and what draws their records."""

    key: str
    title: str
    lead: str
    kind: str
    commands: tuple[tuple[str, ...], ...]
    draw: Draw = field(repr=False)


def measure(bench: Bench, out: Path) -> dict[str, str]:
    """Runs every layer's commands into files in `out`; for each that failed, why. A layer that
    lacks one of its commands is drawn from the others."""
    missed = {}
    for name, command in files():
        why = bench.records(list(command), out / name, TIMEOUT)
        if why:
            missed[name] = why
    return missed


def files() -> list[tuple[str, tuple[str, ...]]]:
    return [
        (f"layer-{layer.key}-{place}.jsonl", command)
        for layer in LAYERS
        for place, command in enumerate(layer.commands)
    ]


def kinds() -> list[str]:
    return [layer.kind for layer in LAYERS]


def sections(records: dict[str, list[dict]], figures) -> list[dict]:
    """What the page shows of each layer that has records."""
    made = []
    for layer in LAYERS:
        mine = records.get(layer.kind) or []
        cards = [card for card in layer.draw(mine, figures) if card["figure"]] if mine else []
        if cards:
            commands = [" ".join(("./dev bench", *command)) for command in layer.commands]
            made.append({"key": layer.key, "title": layer.title, "lead": layer.lead,
                         "cards": cards, "commands": commands})  # fmt: skip
    return made


# ---- drawing


def _lines(named: dict[str, list], title: str, text) -> dict | None:
    """Values against milliseconds, a line for each name, named where it ends."""
    shown = {name: charts.thin(points, 240) for name, points in named.items() if points}
    top = max((value for points in shown.values() for _, value in points), default=0)
    if not top:
        return None
    data, notes = [], []
    last = max(points[-1][0] for points in shown.values())
    for place, (name, points) in enumerate(shown.items()):
        colour = look.place_colour(place)
        data.append({
            "type": "scatter", "mode": "lines", "x": [t for t, _ in points],
            "y": [v for _, v in points], "line": {"color": colour, "width": 2.2},
            "hovertext": [f"<b>{name}</b><br>{t:.0f} ms: {text(v)}" for t, v in points],
            "hoverinfo": "text",
        })  # fmt: skip
        notes.append({
            "x": points[-1][0], "y": points[-1][1], "text": name, "showarrow": False,
            "xanchor": "left", "xshift": 6, "font": {"size": 12, "color": colour},
        })  # fmt: skip
    _spread_out(notes, top)
    ticks = charts.linear_ticks(top)
    y = charts.axis(title, tickvals=ticks, ticktext=[text(t) for t in ticks], range=[0, top * 1.06])
    x = charts.axis("time, ms", showgrid=False, range=[0, last * 1.2])
    return charts.figure(data, 320, x, y, annotations=notes)


def _spread_out(notes: list[dict], top: float) -> None:
    """Moves names that would lie on each other apart."""
    ordered = sorted(notes, key=lambda note: note["y"])
    for below, above in pairwise(ordered):
        above["y"] = max(above["y"], below["y"] + top / 16)


def _dots(rows: dict[str, Spread | None], title: str, text, log: bool = False) -> dict | None:
    known = {name: value for name, value in rows.items() if value and value.median > 0}
    if not known:
        return None
    points = [
        {"row": place, "value": value, "colour": look.place_colour(place), "title": name,
         "meta": name, "marker": {"symbol": "circle", "size": 12,
                                  "color": look.place_colour(place)}}
        for place, (name, value) in enumerate(known.items())
    ]  # fmt: skip
    return charts.dots([(name, name) for name in known], points, title, text, log)


def _grouped(records: list[dict], by: str, value: str) -> dict[str, Spread | None]:
    names = dict.fromkeys(str(record[by]) for record in records)
    return {
        name: spread(record.get(value) for record in records if str(record[by]) == name)
        for name in names
    }


def _millions(rows: dict[str, Spread | None]) -> dict[str, Spread | None]:
    return {
        name: v and Spread(v.median * 1e6, v.low * 1e6, v.high * 1e6, v.count)
        for name, v in rows.items()
    }


def _where(records: list[dict], **values) -> list[dict]:
    return [r for r in records if all(r.get(name) == value for name, value in values.items())]


def _ratio(rows: dict[str, Spread | None], first: str, second: str, ours: str, other: str) -> str:
    """How the first compares with the second, or nothing."""
    a, b = rows.get(first), rows.get(second)
    if not a or not b or not b.median:
        return ""
    return f"{ours} {look.times(a.median / b.median)} {other}."


# ---- the layers


def _counted(records: list[dict], figures) -> list[dict]:
    cards = []
    titles = {"contention": "many threads look at one shared object",
              "read": "look-ups in a search tree of shared objects"}  # fmt: skip
    for test, title in titles.items():
        rows = _grouped(_where(records, test=test), "pointer", "mops")
        words = _ratio(rows, "private", "std-atomic",
                       "private_ptr does", "what std::atomic<std::shared_ptr> does")  # fmt: skip
        drawn = _dots(_millions(rows), "operations per second, logarithmic", look.rate, log=True)
        cards.append({"title": title, "words": words, "figure": figures.add(drawn)})
    return cards


def _rlu(records: list[dict], figures) -> list[dict]:
    cards = []
    for structure in dict.fromkeys(r["structure"] for r in records):
        rows = _grouped(_where(records, structure=structure), "sync", "mops")
        cards.append({"title": f"{structure}, 20{look.NO_BREAK}% updates", "words": "",
                      "figure": figures.add(_dots(_millions(rows), "operations per second",
                                                  look.rate))})  # fmt: skip
    return cards


def _store(records: list[dict], figures) -> list[dict]:
    rows = _grouped(records, "versions", "tx_per_s")
    words = _ratio(rows, "one-shot", "steam", "One-shot collection commits",
                   "as many transactions as Steam")  # fmt: skip
    return [
        {"title": "Transactions", "words": words,
         "figure": figures.add(_dots(rows, "transactions per second", look.rate))},
        _versions(records, figures),
    ]  # fmt: skip


def _over_time(records: list[dict], column: int) -> dict[str, list]:
    """By storage, pairs of milliseconds and one column of the first trial's looks."""
    lines: dict[str, list] = {}
    for record in records:
        points = record.get("over_time") or []
        shown = [[point[0], point[column]] for point in points if point[column] is not None]
        lines.setdefault(str(record["versions"]), shown)
    return lines


def _versions(records: list[dict], figures) -> dict:
    drawn = _lines(_over_time(records, 2), "bytes", look.size)
    return {"title": "Memory of old versions", "words": "", "figure": figures.add(drawn)}


def _tpcc(records: list[dict], figures) -> list[dict]:
    rows = _grouped(records, "versions", "tx_per_s")
    held = _grouped(records, "versions", "version_bytes_peak")
    words = _ratio(held, "one-shot", "one-shot-consolidated", "At the peak one-shot holds",
                   "the bytes of old versions that it holds with consolidation")  # fmt: skip
    drawn = _lines(_over_time(records, 1), "transactions per second", look.rate)
    return [
        {"title": "Transactions", "words": "",
         "figure": figures.add(_dots(rows, "transactions per second", look.rate))},
        {"title": "Transactions over time", "words": "", "figure": figures.add(drawn)},
        {**_versions(records, figures), "words": words},
    ]  # fmt: skip


def _kept(records: list[dict]) -> dict[str, Spread | None]:
    """By storage and index, throughput beside the held reader of that without, trial by trial."""
    rows: dict[str, list[float]] = {}
    alone = {(r["versions"], r["index"], r["trial"]): r["tx_per_s"] for r in records
             if r["hold"] == 0}  # fmt: skip
    for r in records:
        without = alone.get((r["versions"], r["index"], r["trial"]))
        if r["hold"] and without:
            rows.setdefault(f"{r['versions']}, {r['index']}", []).append(r["tx_per_s"] / without)
    return {name: spread(ratios) for name, ratios in rows.items()}


def _held(records: list[dict], figures) -> list[dict]:
    cards = []
    for workload in dict.fromkeys(r["workload"] for r in records):
        mine = _where(records, workload=workload)
        drawn = _dots(_kept(mine), "throughput beside one held reader, of that without",
                      look.percent)  # fmt: skip
        grown = {
            f"{r['versions']}, {r['index']}": [[point[0], point[2]] for point in r["over_time"]]
            for r in _where(mine, hold=1, versions=DEFAULT_STORAGE)
        }
        cards += [
            {"title": f"Throughput, {workload}", "words": "", "figure": figures.add(drawn)},
            {"title": f"Resident memory, {workload}", "words": "",
             "figure": figures.add(_lines(grown, "bytes, beside the held reader", look.size))},
        ]  # fmt: skip
    return cards


def _rlu_commands() -> tuple[tuple[str, ...], ...]:
    common = ("--threads", "2", "--keys", "10000", "--update", "20", "--seconds", "0.3",
              "--trials", "2")  # fmt: skip
    ways = {"hash": ("mvrlu", "rcu", "rwlock"), "tree": ("mvrlu", "rwlock")}
    return tuple(
        ("rlu", "--structure", structure, "--sync", sync, *common)
        for structure, syncs in ways.items()
        for sync in syncs
    )


LAYERS = [
    Layer(
        "pointers",
        "Shared pointers",
        "The same work with raw pointers, with ours, with the standard library's and with "
        "Boost's.",
        "counted",
        (("counted", "--test", "contention", "--threads", "2", "--trials", "3"),
         ("counted", "--test", "read", "--threads", "2", "--trials", "3")),
        _counted,
    ),
    Layer(
        "rlu",
        "Read-log-update",
        "Sections that read one instant of a structure without waiting, beside read-copy-update "
        "and a readers-writer lock on the same structures.",
        "rlu",
        _rlu_commands(),
        _rlu,
    ),
    Layer(
        "store",
        "Transactions",
        "The YCSB workload of the one-shot paper, half of all operations writing, while one long "
        "reader holds a snapshot of everything.",
        "ycsb",
        (("ycsb", "--threads", "2", "--writes", "50", "--hold", "1", "--seconds", "1",
          "--trials", "2"),),
        _store,
    ),
    Layer(
        "tpcc",
        "TPC-C with a long reader",
        "All five transactions of TPC-C, on tables smaller than the specification's, while one "
        "reader holds a snapshot from the beginning to the end. Delivery looks for the oldest "
        "order of a district from the first entry of the district, as the specification has it. "
        "The twelve conditions of consistency held afterwards, or there would be no figures here.",
        "tpcc",
        (("tpcc", "--items", "20000", "--customers", "600", "--threads", "2", "--hold", "1",
          "--seconds", "2"),),
        _tpcc,
    ),
    Layer(
        "held",
        "Beside a held reader",
        "Tables whose rows and index entries end all the time: a queue, an indexed column that is "
        "updated, keys that come and go; each while one reader holds a snapshot from the beginning "
        "to the end, and without. The reader saw the same rows at the end as at the beginning, or "
        "there would be no figures here.",
        "held",
        (("held", "--hold", "0,1", "--threads", "2", "--warm-up", "0.1", "--seconds", "0.3"),),
        _held,
    ),
]  # fmt: skip
