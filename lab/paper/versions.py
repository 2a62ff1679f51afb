# SPDX-License-Identifier: Apache-2.0
"""Figures 4 to 8 of the paper on versions (PPoPP 2023) at this machine's scale: updates beside read
transactions, on threads of their own or mixed; how fast, and how much memory at most."""

from __future__ import annotations

from dataclasses import dataclass

from lab import charts, legends, look
from lab.claims import NOT_SEEN, SEEN
from lab.paper import blocks
from lab.paper.found import Found
from lab.paper.page import SHOWN, Page, Shown, one_trial

# Keys of the largest read transactions, and of the small ones that the paper has beside them.
SIZES = (256, 4096, 65536)
SMALL = 16
THREADS = (1, 2, 8)
SECONDS = "0.5"
RUN_SECONDS = 8  # of all collectors in turn
LARGE_SECONDS = 150  # of all collectors in turn, most of it for the keys
TRACKING = ("bbf", "dl_rt", "sl_rt")
RIVALS = "std_map,tbb_hash_map"
TITLES = {"hash": "Hash map", "tree": "Tree", "std_map": "std::map, copied",
          "tbb_hash_map": "oneTBB, no snapshots"}  # fmt: skip


@dataclass(frozen=True)
class Keys:
    """How many keys there may be, half of which are there, and how unevenly they are wanted."""

    number: int = 200_000
    theta: float = 0

    def fit(self, record: dict) -> bool:
        keys, theta = record.get("keys", self.number), record.get("theta", 0)
        return (keys, theta) == (self.number, self.theta)

    def arguments(self) -> tuple[str, ...]:
        return ("--keys", str(self.number), "--theta", str(self.theta), "--seconds", SECONDS)


UNIFORM = Keys()
ZIPF = Keys(theta=0.99)
LARGE = Keys(number=20_000_000, theta=0.99)


def _separate(structure: str) -> list[tuple[str, ...]]:
    return [
        ("--structure", structure, *UNIFORM.arguments(), "--threads", "1",
         "--update", "100", "--rtx-share", "0", "--small-readers", "1", "--readers", "1",
         "--rtx", str(SMALL), "--rtx-most", str(most))
        for most in SIZES
    ]  # fmt: skip


def _mixed(structures: str, keys: Keys, threads: tuple[int, ...]) -> list[tuple[str, ...]]:
    return [
        ("--structure", structures, *keys.arguments(), "--threads", str(number),
         "--update", "50", "--rtx-share", "1", "--rtx", "1024")
        for number in threads
    ]  # fmt: skip


# What is measured for each page, of `spolia-bench snapshots`.
RUNS: dict[str, list[tuple[str, ...]]] = {
    "snapshots-tree": _separate("tree"),
    "snapshots-hash": _separate("hash"),
    "snapshots-mixed": _mixed(f"tree,hash,{RIVALS}", UNIFORM, THREADS),
    "snapshots-zipf": _mixed("tree,hash", ZIPF, THREADS),
    "snapshots-large": _mixed("tree,hash", LARGE, (2,)),
}


@dataclass(frozen=True)
class Axis:
    """What is varied along a picture, and how it is written."""

    field: str
    title: str


SIZE = Axis("rtx_most", "keys of the largest read transactions")
CROWD = Axis("threads", "threads")


def _latest(found: Found, structures: tuple[str, ...], axis: Axis, keys: Keys) -> dict[tuple, dict]:
    """The last record of each structure, collector and place on the axis."""
    last = {}
    for r in found.snapshots:
        separate = bool(r.get("readers"))
        fits = separate if axis is SIZE else not separate and bool(r.get("rtx_share"))
        fits = fits and keys.fit(r) and r["structure"] in structures and not r.get("stills")
        if fits and not r.get("hold") and r.get("bytes_peak"):
            last[r["structure"], r["collector"], r[axis.field]] = r
    return last


def _picture(some: list[dict], axis: Axis) -> dict:
    data = []
    for collector in sorted({r["collector"] for r in some}):
        line = sorted((r for r in some if r["collector"] == collector), key=lambda r: r[axis.field])
        data.append({
            "type": "scatter", "mode": "lines+markers", "meta": collector,
            "x": [str(r[axis.field]) for r in line], "y": [r["bytes_peak"] for r in line],
            "line": {"color": look.collector_colour(collector), "width": 2.2},
            "hoverinfo": "text",
            "hovertext": [f"<b>{look.collector_title(collector)}</b><br>"
                          f"{look.size(r['bytes_peak'])}" for r in line],
        })  # fmt: skip
    ticks, texts = look.log_ticks(
        min(r["bytes_peak"] for r in some), max(r["bytes_peak"] for r in some), look.size
    )
    y = charts.axis("most bytes during the run", type="log", tickvals=ticks, ticktext=texts)
    return charts.figure(data, 300, charts.axis(axis.title, type="category"), y)


def _table(last: dict[tuple, dict], axis: Axis) -> str:
    rows = []
    for (structure, collector, place), r in sorted(last.items()):
        live, needed = r.get("versions_live"), r.get("versions_needed")
        title = TITLES.get(structure, structure)
        if live:
            title += f", {look.collector_title(collector)}"
        rows.append([
            title, str(place), look.rate(r["updates_per_s"]), look.rate(r["rtx_keys_per_s"]),
            look.rate(r.get("small_rtx_keys_per_s") or 0), look.size(r["bytes_peak"]),
            f"{live / needed:.2f}" if live and needed else "", _a_list(r),
            f"{r['passed_per_cut']:.3f}" if r.get("passed_per_cut") else "",
        ])  # fmt: skip
    head = ["", axis.title, "updates/s", "keys/s in transactions", "in small ones", "most bytes",
            "versions, over needed", "most versions a list",
            "versions passed in a cut"]  # fmt: skip
    return blocks.table(head, rows)


def _a_list(record: dict) -> str:
    """How many versions a list had on average when there were most of them."""
    lists = record.get("versions_current")
    return f"{record['versions_peak'] / lists:.2f}" if lists else ""


def _shown(
    found: Found, structures: tuple[str, ...], axis: Axis, keys: Keys, judge
) -> Shown | None:
    last = _latest(found, structures, axis, keys)
    if not last:
        return None
    made = []
    for structure in structures:
        some = [r for (s, _, _), r in sorted(last.items()) if s == structure]
        if some and structure in ("hash", "tree"):
            legend = legends.collectors(sorted({r["collector"] for r in some}))
            made.append(blocks.charts_block(TITLES[structure], [_picture(some, axis)], legend))
    made.append(_table(last, axis))
    here, verdict = judge(last)
    return Shown(made, here, verdict)


def _most(last: dict[tuple, dict], collectors: tuple[str, ...], place: int) -> list[int]:
    return [r["bytes_peak"] for (s, c, p), r in last.items()
            if c in collectors and p == place and s in ("hash", "tree")]  # fmt: skip


# How many times as much epochs are to need: "more", and "an order of magnitude more".
MORE = 1.1
MAGNITUDE = 10


def _judge_long(asked: float):
    """With long read transactions epochs need the most, those that track ranges the least."""

    def judge(last: dict[tuple, dict]) -> tuple[str, str]:
        place = max(p for _, _, p in last)
        epochs, tracking = _most(last, ("epoch_collector",), place), _most(last, TRACKING, place)
        if not epochs or not tracking:
            return "Not all collectors were run.", SHOWN
        times = max(epochs) / max(tracking)
        return (
            f"Beside read transactions of up to {place} keys epochs need {times:.1f} times the "
            f"memory of the collectors that track ranges, at their worst; {asked:g} is asked.",
            SEEN if times >= asked else NOT_SEEN,
        )

    return judge


def _judge_mixed(last: dict[tuple, dict]) -> tuple[str, str]:
    """Those that track ranges need no more than twice the least, wherever it is."""
    worst = 0.0
    for structure in ("hash", "tree"):
        for place in {p for s, _, p in last if s == structure}:
            here = {c: r["bytes_peak"] for (s, c, p), r in last.items()
                    if s == structure and p == place}  # fmt: skip
            mine = [b for c, b in here.items() if c in TRACKING]
            if mine and len(here) > len(mine):
                worst = max(worst, max(mine) / min(here.values()))
    if not worst:
        return "Not all collectors were run.", SHOWN
    return (
        "The collectors that track ranges need at most "
        f"{worst:.2f} times the memory of the best, whatever the structure and the threads.",
        SEEN if worst <= 2 else NOT_SEEN,
    )


def _page(key: str, name: str, title: str, paper: str, structures: tuple[str, ...],
          axis: Axis, judge, keys: Keys = UNIFORM,
          seconds: float = RUN_SECONDS) -> Page:  # fmt: skip
    return Page(
        key=key, name=f"Snapshots, {name}", title=title, paper=paper,
        cells=one_trial,
        show=lambda found: _shown(found, structures, axis, keys, judge),
        commands=lambda scale: [("snapshots", *arguments) for arguments in RUNS[key]],
        takes=lambda scale: len(RUNS[key]) * seconds,
        limits="One run of half a second each; the paper has 120 threads on 72 cores. Bytes are "
               "of blocks given out and not taken back, the most of samples during the run: what "
               "the paper measures afterwards is smaller.",
    )  # fmt: skip


PAGES = [
    _page("snapshots-tree", "tree", "Updates beside long and short read transactions, tree",
          "The longer the read transactions, the more epochs need, and the collectors that track "
          "ranges hardly more; STEAM+LF keeps about two versions a list (PPoPP 2023, Figures 4 "
          "and 5).", ("tree",), SIZE, _judge_long(MORE)),
    _page("snapshots-hash", "hash map", "Updates beside long and short read transactions, hash map",
          "With long read transactions epochs need an order of magnitude more memory than all "
          "others (PPoPP 2023, Figure 6).", ("hash",), SIZE, _judge_long(MAGNITUDE)),
    _page("snapshots-mixed", "mixed", "Half updates, half look-ups, and a few read transactions",
          "In almost all cases those that track ranges need less than epochs and STEAM+LF, and "
          "where not, little more (PPoPP 2023, Figures 7 and 8).",
          ("hash", "tree", "std_map", "tbb_hash_map"), CROWD, _judge_mixed),
    _page("snapshots-zipf", "Zipf", "The same, of keys that are wanted unevenly (Zipf, 0.99)",
          "As with keys that are wanted alike (PPoPP 2023, Figures 7 and 8).",
          ("hash", "tree"), CROWD, _judge_mixed, ZIPF),
    _page("snapshots-large", "many keys", "The same, with 10 million keys",
          "With so many keys lists are short, and the collectors are closer together (PPoPP 2023, "
          "Figure 7b).", ("hash", "tree"), CROWD, _judge_mixed, LARGE, LARGE_SECONDS),
]  # fmt: skip
