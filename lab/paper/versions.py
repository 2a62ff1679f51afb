# SPDX-License-Identifier: Apache-2.0
"""Figures 4 to 8 of the paper on versions (PPoPP 2023) at this machine's scale: updates beside read
transactions, on threads of their own or mixed; how fast, and how much memory at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab import charts, legends, look
from lab.paper import arms, blocks, factors
from lab.paper.found import Found
from lab.paper.page import Page, Scale, Shown, one_trial
from lab.verdict import BOUND, Claim, Sub

# Keys of the largest read transactions, and of the small ones that the paper has beside them.
SIZES = (256, 4096, 65536)
SMALL = 16
TRACKING = ("bbf", "dl_rt", "sl_rt")
NEW = TRACKING[1:]  # the paper's own
OURS, RIVALS = ("tree", "hash"), ("std_map", "tbb_hash_map")
TITLES = {"hash": "Hash map", "tree": "Tree", "std_map": "std::map, copied",
          "tbb_hash_map": "oneTBB, no snapshots"}  # fmt: skip


@dataclass(frozen=True)
class Keys:
    """How many times the usual number of keys there may be, half of which are there, and how
    unevenly they are wanted."""

    times: int = 1
    theta: float = 0

    def arguments(self, scale: Scale) -> tuple[str, ...]:
        return ("--keys", str(self.times * scale.keys), "--theta", str(self.theta),
                "--seconds", f"{scale.seconds / 2:g}")  # fmt: skip


UNIFORM = Keys()
ZIPF = Keys(theta=0.99)
LARGE = Keys(times=100, theta=0.99)


def _separate(scale: Scale, structure: str) -> list[tuple[str, ...]]:
    # The paper prints these for Zipf's distribution, and says that uniform keys tell the same.
    return [
        ("snapshots", "--structure", structure, *ZIPF.arguments(scale), "--threads", "1",
         "--update", "100", "--rtx-share", "0", "--small-readers", "1", "--readers", "1",
         "--rtx", str(SMALL), "--rtx-most", str(most))
        for most in SIZES
    ]  # fmt: skip


def _mixed(scale: Scale, structures: tuple[str, ...], keys: Keys, threads: tuple[int, ...]):
    there = ",".join(name for name in structures if name not in scale.lacking)
    return [
        ("snapshots", "--structure", there, *keys.arguments(scale), "--threads", str(number),
         "--update", "50", "--rtx-share", "1", "--rtx", "1024")
        for number in threads
    ]  # fmt: skip


# What is measured for each page, of `spolia-bench snapshots`.
RUNS: dict[str, Callable[[Scale], list[tuple[str, ...]]]] = {
    "snapshots-tree": lambda scale: _separate(scale, "tree"),
    "snapshots-hash": lambda scale: _separate(scale, "hash"),
    "snapshots-mixed": lambda scale: _mixed(scale, (*OURS, *RIVALS), UNIFORM, scale.threads),
    "snapshots-zipf": lambda scale: _mixed(scale, OURS, ZIPF, scale.threads),
    "snapshots-large": lambda scale: _mixed(scale, OURS, LARGE, (scale.full,)),
}


@dataclass(frozen=True)
class Axis:
    """What is varied along a picture, and how it is written."""

    field: str
    title: str


SIZE = Axis("rtx_most", "keys of the largest read transactions")
CROWD = Axis("threads", "threads")


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


def _shown(found: Found, key: str, structures: tuple[str, ...], axis: Axis, judge) -> Shown | None:
    trials = found.of_page(key)
    last = {(r["structure"], r["collector"], r[axis.field]): r for r in trials
            if r.get("bytes_peak")}  # fmt: skip
    if not last:
        return None
    made = []
    for structure in structures:
        some = [r for (s, _, _), r in sorted(last.items()) if s == structure]
        if some and structure in ("hash", "tree"):
            legend = legends.collectors(sorted({r["collector"] for r in some}))
            made.append(blocks.charts_block(TITLES[structure], [_picture(some, axis)], legend))
    made.append(_table(last, axis))
    here, claims = judge(last, trials, axis, [s for s in structures if s in ("hash", "tree")])
    return Shown(made, here, claims)


def _most(last: dict[tuple, dict], collectors: tuple[str, ...], place: int) -> list[int]:
    return [r["bytes_peak"] for (s, c, p), r in last.items()
            if c in collectors and p == place and s in ("hash", "tree")]  # fmt: skip


# An order of magnitude, as Figure 6 has it.
MAGNITUDE = 10
STEAM_IN_TREES = 8  # times the memory of those that track ranges
A_LIST = 2  # versions of each list, at most, with STEAM+LF
# What is taken for "hardly more": so many times as much, at most.
HARDLY = 1.25
EPOCHS, STEAM = "epoch_collector", "steam"


def _memory(trials: list[dict], axis: Axis, structure: str, place: int, more: str, less: str,
            factor: float = 1.0) -> Claim:  # fmt: skip
    """One collector has more bytes at most than another."""
    titles = {name: look.collector_title(name) for name in (more, less)}
    told = f"{TITLES[structure]}, {axis.title} {place}: most bytes"
    return arms.versus(trials, "collector", more, less, "bytes_peak", titles=titles, told=told,
                       factor=factor, varies=factors.COLLECTOR, structure=structure,
                       **{axis.field: place})  # fmt: skip


def _rates(trials: list[dict], axis: Axis, structure: str, place: int) -> list[Claim]:
    """DL-RT and SL-RT update faster than BBF+."""
    told = f"{TITLES[structure]}, {axis.title} {place}: updates"
    titles = {name: look.collector_title(name) for name in TRACKING}
    return [arms.versus(trials, "collector", new, "bbf", "updates_per_s", titles=titles, told=told,
                        varies=factors.COLLECTOR, structure=structure, **{axis.field: place})
            for new in NEW]  # fmt: skip


def _by_length(trials: list[dict], axis: Axis, structure: str, places: list[int]) -> list[Sub]:
    """Epochs need more the longer read transactions are, those that track ranges hardly more."""
    short, long = places[0], places[-1]
    told = f"{TITLES[structure]}, {axis.title} {long} against {short}: most bytes"
    claims: list[Sub] = []
    for collector in (EPOCHS, *TRACKING):
        mine = arms.where(trials, collector=collector, structure=structure)
        ends = [arms.arm(mine, f"{look.collector_title(collector)}, {place}", "bytes_peak",
                         **{axis.field: place}) for place in (long, short)]  # fmt: skip
        if collector == EPOCHS:
            claims.append(arms.claim(*ends, told, varies=factors.READS))
        else:
            claims.append(arms.claim(*reversed(ends), told, 1 / HARDLY, BOUND, factors.READS))
    return claims


def _judge_long(asked: float, steam: float = 0):
    """With long read transactions epochs need the most, those that track ranges the least; STEAM+LF
    so many times as much as these, if that is claimed."""

    def judge(last: dict[tuple, dict], trials: list[dict], axis: Axis,
              structures: list[str]) -> tuple[str, list]:  # fmt: skip
        places = sorted({p for _, _, p in last})
        place = places[-1]
        epochs, tracking = _most(last, (EPOCHS,), place), _most(last, TRACKING, place)
        claims: list[Sub] = [
            _memory(trials, axis, structure, place, EPOCHS, other, asked)
                  for structure in structures for other in TRACKING]  # fmt: skip
        if not steam:  # more than all others, so than STEAM+LF, too
            claims += [_memory(trials, axis, structure, place, EPOCHS, STEAM, asked)
                       for structure in structures if asked > 1]  # fmt: skip
        for structure in structures:
            claims += [claim for each in places for claim in _rates(trials, axis, structure, each)]
            if steam:
                claims += _by_length(trials, axis, structure, places)
                claims += [_memory(trials, axis, structure, place, STEAM, other, steam)
                           for other in TRACKING]  # fmt: skip
                mine = arms.where(trials, collector=STEAM, structure=structure,
                                  **{axis.field: place})  # fmt: skip
                claims.append(arms.promised(mine, f"{TITLES[structure]}, STEAM: versions a list",
                                            "versions_live", A_LIST,
                                            f"{axis.title} {place}, at the end",
                                            "versions_current"))  # fmt: skip
                claims.append(arms.cannot("STEAM: 1.5 versions a list and more", TITLES[structure],
                                          "ours collects with dead nodes what the paper's leaves "
                                          "to Java's collector"))  # fmt: skip
        if not epochs or not tracking:
            return "Not all collectors were run.", arms.measured(claims)
        times = max(epochs) / max(tracking)
        return (
            f"Beside read transactions of up to {place} keys epochs need {times:.1f} times the "
            "memory of the collectors that track ranges, at their worst.",
            arms.measured(claims),
        )

    return judge


def _judge_mixed(last: dict[tuple, dict], trials: list[dict], axis: Axis,
                 structures: list[str]) -> tuple[str, list]:  # fmt: skip
    """Those that track ranges need less than epochs and STEAM+LF, wherever they are."""
    claims, worst = [], 0.0
    for structure in structures:
        for place in sorted({p for _, _, p in last}):
            here = {c: r["bytes_peak"] for (s, c, p), r in last.items()
                    if s == structure and p == place}  # fmt: skip
            mine = [b for c, b in here.items() if c in TRACKING]
            if mine and len(here) > len(mine):
                worst = max(worst, max(mine) / min(here.values()))
            claims += [_memory(trials, axis, structure, place, more, less)
                       for more in (EPOCHS, STEAM) for less in TRACKING]  # fmt: skip
            claims += _rates(trials, axis, structure, place)
    if not worst:
        return "Not all collectors were run.", arms.measured(claims)
    return (
        f"The collectors that track ranges need at most {worst:.2f} times the memory of the "
        "best, whatever the structure and the threads.",
        arms.measured(claims),
    )


def _page(key: str, name: str, title: str, paper: str, structures: tuple[str, ...],
          axis: Axis, judge) -> Page:  # fmt: skip
    return Page(
        key=key, name=f"Snapshots, {name}", title=title, paper=paper,
        cells=one_trial,
        show=lambda found: _shown(found, key, structures, axis, judge),
        commands=RUNS[key],
        limits="The paper has 120 threads on 64 cores. Bytes are "
               "of blocks given out and not taken back, the most of samples during the run: what "
               "the paper measures afterwards is smaller.",
    )  # fmt: skip


PAGES = [
    _page("snapshots-tree", "tree", "Updates beside long and short read transactions, tree",
          "The longer the read transactions, the more epochs need, and the collectors that track "
          f"ranges hardly more (taken here as: at most {HARDLY} times as much); STEAM+LF needs up "
          "to 8 times as much as these, and keeps 1.5 to 2 versions a list; DL-RT and SL-RT update "
          "faster than BBF+ (PPoPP 2023, Figures 4 and 5).",
          ("tree",), SIZE, _judge_long(1.0, STEAM_IN_TREES)),
    _page("snapshots-hash", "hash map", "Updates beside long and short read transactions, hash map",
          "With long read transactions epochs need an order of magnitude more memory than all "
          "others; DL-RT and SL-RT update faster than BBF+ (PPoPP 2023, Figure 6).",
          ("hash",), SIZE, _judge_long(MAGNITUDE)),
    _page("snapshots-mixed", "mixed", "Half updates, half look-ups, and a few read transactions",
          "In almost all cases those that track ranges need less than epochs and STEAM+LF, and "
          "where not, little more; DL-RT and SL-RT update faster than BBF+ (PPoPP 2023, "
          "Figures 7 and 8).",
          ("hash", "tree", "std_map", "tbb_hash_map"), CROWD, _judge_mixed),
    _page("snapshots-zipf", "Zipf",
          "Half updates, half look-ups, of keys that are wanted unevenly (Zipf, 0.99)",
          "As with keys that are wanted alike (PPoPP 2023, Figures 7 and 8).",
          ("hash", "tree"), CROWD, _judge_mixed),
    _page("snapshots-large", "many keys", "Half updates, half look-ups, with 10 million keys",
          "With so many keys, too, those that track ranges need less than epochs and STEAM+LF "
          "in almost all cases, and DL-RT and SL-RT update faster than BBF+ (PPoPP 2023, "
          "Figure 7b).", ("hash", "tree"), CROWD, _judge_mixed),
]  # fmt: skip
