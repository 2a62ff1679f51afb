# SPDX-License-Identifier: Apache-2.0
"""Timeline graphs: what each thread spent freeing, when, and how epochs went by."""

from __future__ import annotations

import gzip
import heapq
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from lab import look
from lab.charts import axis, figure, linear_ticks, thin
from lab.errors import LabError

ROWS = 20
WINDOW_MS = 250
BOXES = 700
DOTS = 700
BATCH, SINGLE, EPOCH = "batch_freed", "single_free", "epoch_advanced"
NAMES = {BATCH: "a batch freed", SINGLE: "one block freed", "grace_period": "waiting for readers"}
# Lines that tell of events that are missing; they have no time.
LOST = ("overwritten", "dropped")


@dataclass(frozen=True)
class Box:
    begin: float
    length: float
    thread: int
    event: str
    count: int
    odd: bool


@dataclass
class Timeline:
    """A trace in milliseconds from the start of the trial, with the facts told beside it."""

    span: float
    window: tuple[float, float]
    threads: list[int]
    boxes: list[Box] = field(default_factory=list)
    epochs: list[tuple[float, int]] = field(default_factory=list)
    all_threads: int = 0
    lost: int = 0
    busy: float = 0.0

    def of(self, event: str) -> list[Box]:
        return [box for box in self.boxes if box.event == event]


def read_events(path: Path) -> list[dict]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise LabError(f"cannot read the trace {path}: {error}") from error


def build(events: list[dict], elapsed: float, offset_ms: float | None) -> Timeline | None:
    """`offset_ms` is when the measured part began in the trace's time; where it is known, what
    happened before and what began after `elapsed` seconds is left out."""
    try:
        lost = sum(int(event["count"]) for event in events if event["event"] in LOST)
        timed = sorted((event for event in events if "t_ns" in event), key=lambda e: e["t_ns"])
        if not timed:
            return None
        threads = sorted({int(event["thread"]) for event in timed})
        line = Timeline(span=elapsed * 1000, window=(0, 0), threads=_some(threads))
        line.all_threads, line.lost = len(threads), lost
        parity: dict[tuple, int] = defaultdict(int)
        for event in timed:
            begin = event["t_ns"] / 1e6 - (offset_ms or 0)
            if offset_ms is None or 0 <= begin <= line.span:
                _add(line, event, begin, parity)
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(f"a trace has an event that cannot be understood: {error!r}") from error
    ends = [box.begin + box.length for box in line.boxes] + [at for at, _ in line.epochs]
    line.span = max([line.span, *ends])
    line.busy = _busy(line.boxes) / (line.span * len(threads))
    line.window = _window(line)
    return line


def _add(line: Timeline, event: dict, begin: float, parity: dict[tuple, int]) -> None:
    thread, kind = int(event["thread"]), str(event["event"])
    length = (event.get("end_ns", event["t_ns"]) - event["t_ns"]) / 1e6
    if kind == EPOCH:
        line.epochs.append((begin, thread))
    elif length > 0:
        parity[thread, kind] += 1
        odd = parity[thread, kind] % 2 == 1
        line.boxes.append(Box(begin, length, thread, kind, int(event.get("count") or 0), odd))


def _some(threads: list[int]) -> list[int]:
    if len(threads) <= ROWS:
        return threads
    step = len(threads) / ROWS
    return [threads[int(place * step)] for place in range(ROWS)]


def _busy(boxes: list[Box]) -> float:
    """Time spent in boxes; a slow free inside a batch counts once."""
    total, ends = 0.0, defaultdict(float)
    for box in sorted(boxes, key=lambda b: b.begin):
        begin = max(box.begin, ends[box.thread])
        end = box.begin + box.length
        if end > begin:
            total += end - begin
            ends[box.thread] = end
    return total


def _window(line: Timeline) -> tuple[float, float]:
    """The stretch with the middle amount of freeing among those with any: a representative one,
    not the worst one."""
    length = min(WINDOW_MS, line.span / 4)
    amounts: dict[int, float] = defaultdict(float)
    for box in line.boxes:
        if box.begin + length <= line.span:
            amounts[int(box.begin / length)] += box.length
    if not amounts:
        return 0.0, length
    middle = median(amounts.values())
    place = min(amounts, key=lambda p: (abs(amounts[p] - middle), p))
    return place * length, (place + 1) * length


def drawn(line: Timeline) -> list[Box]:
    """The longest boxes of the whole run and the longest of the window."""
    rows = set(line.threads)
    shown = [box for box in line.boxes if box.thread in rows]
    begin, end = line.window
    inside = [b for b in shown if b.begin < end and b.begin + b.length > begin]
    picked = {
        id(box): box
        for boxes in (shown, inside)
        for box in heapq.nlargest(BOXES, boxes, key=lambda b: b.length)
    }
    return sorted(picked.values(), key=lambda b: b.begin)


def _drawn_epochs(line: Timeline) -> list[tuple[float, int]]:
    begin, end = line.window
    inside = [epoch for epoch in line.epochs if begin <= epoch[0] <= end]
    return sorted({*_even(line.epochs, DOTS), *_even(inside, DOTS // 2)})


def _even(items: list, most: int) -> list:
    if len(items) <= most:
        return items
    step = len(items) / most
    return [items[int(place * step)] for place in range(most)]


def chart(line: Timeline, series: tuple[str, str], garbage: list) -> dict:
    """Rows of boxes, dots where a thread changed the epoch, all dots projected below the rows,
    and beneath that garbage over the same time."""
    rows = {thread: place for place, thread in enumerate(line.threads)}
    strip = len(rows)
    data = _box_traces(drawn(line), rows, look.scheme_colour(series[0]))
    epochs = _drawn_epochs(line)
    hover = [f"thread {thread} began a new epoch<br>at {at:.2f} ms" for at, thread in epochs]
    own = [(at, rows[thread] + 0.43, text)
           for (at, thread), text in zip(epochs, hover, strict=True) if thread in rows]  # fmt: skip
    common = {"type": "scatter", "mode": "markers", "hoverinfo": "text"}
    if own:
        data.append({**common, "x": [p[0] for p in own], "y": [p[1] for p in own],
                     "hovertext": [p[2] for p in own],
                     "marker": {"symbol": "circle", "size": 5, "color": "@epoch",
                                "line": {"color": "@card", "width": 0.5}}})  # fmt: skip
    if epochs:
        data.append({**common, "x": [at for at, _ in epochs], "y": [strip] * len(epochs),
                     "hovertext": hover, "marker": {"symbol": "line-ns", "size": 9,
                     "line": {"color": "@epoch/0.6", "width": 1.2}}})  # fmt: skip
    labels = [f"thread {thread}" for thread in line.threads]
    height = 32 * (strip + 1)
    below = 120 if garbage else 0
    total = height + below + 74
    inner = height + below + 14
    y = axis(tickvals=[*rows.values(), strip], ticktext=[*labels, "all epochs"],
             shortticktext=[*map(str, line.threads), "all"], showgrid=True, ticklen=0,
             range=[strip + 0.6, -0.6], domain=[1 - height / inner, 1])  # fmt: skip
    x = axis("time, ms", range=[0, line.span], fixedrange=False, showgrid=False, anchor="y")
    more = {}
    if garbage:
        x["anchor"] = "y2"
        data.append(_garbage_trace(garbage, series))
        top = max(nodes for _, nodes in garbage) * 1.08 or 1
        more["yaxis2"] = axis("garbage", range=[0, top], domain=[0, below * 0.86 / inner],
                              anchor="x", **count_ticks(top))  # fmt: skip
    made = figure(data, total, x, y, barmode="overlay", dragmode="zoom", **more)
    made["whole"], made["window"] = [0, line.span], list(line.window)
    return made


def _box_traces(boxes: list[Box], rows: dict[int, int], colour: str) -> list[dict]:
    """Neighbouring batches differ in shade; slow single frees are low and in a colour of their
    own; each has an outline, so that even a short one leaves a line."""
    looks = {
        (BATCH, True): (f"{colour}/0.85", 0.66),
        (BATCH, False): (f"{colour}/0.5", 0.66),
        (SINGLE, True): ("@single/0.95", 0.42),
        (SINGLE, False): ("@single/0.95", 0.42),
    }
    parts: dict[tuple, list[Box]] = defaultdict(list)
    for box in boxes:
        parts[box.event, box.odd].append(box)
    traces = []
    for key in sorted(parts, key=lambda k: (k[0] == SINGLE, k[0], k[1])):
        fill, height = looks.get(key, ("@muted/0.5", 0.3))
        some = parts[key]
        name = NAMES.get(key[0], key[0].replace("_", " "))
        traces.append({
            "type": "bar", "orientation": "h", "base": [round(b.begin, 4) for b in some],
            "x": [round(b.length, 5) for b in some], "y": [rows[b.thread] for b in some],
            "width": height, "marker": {"color": fill, "line": {"color": fill, "width": 0.7}},
            "hoverinfo": "text", "textposition": "none",
            "hovertext": [
                f"<b>{name}</b>{f' of {look.count(b.count)} nodes' if b.count > 1 else ''}<br>"
                f"{look.duration(b.length * 1e6)}, thread {b.thread}, from {b.begin:.2f} ms"
                for b in some
            ],
        })  # fmt: skip
    return traces


def _garbage_trace(garbage: list, series: tuple[str, str]) -> dict:
    colour = look.scheme_colour(series[0])
    shown = thin(garbage, 400)
    return {
        "type": "scatter", "mode": "lines", "x": [t for t, _ in shown],
        "y": [n for _, n in shown], "yaxis": "y2", "fill": "tozeroy", "hoverinfo": "text",
        "fillcolor": f"{colour}/0.18", "line": {"color": colour, "width": 1.5},
        "hovertext": [f"{t:.1f} ms: {look.count(n)} nodes" for t, n in shown],
    }  # fmt: skip


def count_ticks(top: float) -> dict:
    ticks = linear_ticks(top, 3)
    return {"tickvals": ticks, "ticktext": [look.count(tick) for tick in ticks]}


def epoch_chart(points: list, series: tuple[str, str]) -> dict:
    """Garbage at the start of each epoch."""
    colour = look.scheme_colour(series[0])
    shown = thin(points, 300)
    trace = {
        "type": "scatter", "mode": "lines", "x": [e for e, _ in shown],
        "y": [n for _, n in shown], "fill": "tozeroy", "fillcolor": f"{colour}/0.18",
        "line": {"color": colour, "width": 1.4, "shape": "hvh"}, "hoverinfo": "text",
        "hovertext": [f"epoch {e}: {look.count(n)} nodes" for e, n in shown],
    }  # fmt: skip
    top = max(nodes for _, nodes in shown) * 1.08 or 1
    y = axis("garbage", range=[0, top], **count_ticks(top))
    few = {"dtick": 1} if shown[-1][0] - shown[0][0] <= 12 else {}
    return figure([trace], 150, axis("epoch", showgrid=False, tickformat=",d", **few), y)


def facts(line: Timeline) -> str:
    """The timeline in one line."""
    parts = [f"{len(line.epochs):,} epochs"]
    for event, one, many in ((BATCH, "batch freed", "batches freed"),
                             (SINGLE, "single free", "single frees")):  # fmt: skip
        boxes = line.of(event)
        if boxes:
            longest = max(box.length for box in boxes) * 1e6
            name = one if len(boxes) == 1 else many
            parts.append(f"{len(boxes):,} {name}, the longest {look.duration(longest)}")
    parts.append(f"{look.percent(line.busy)} of all threads' time in these boxes")
    return " · ".join(parts)


def left_out(line: Timeline) -> str:
    """Says what a thinned picture does not show; empty when it shows everything."""
    shown = drawn(line)
    parts = []
    if len(shown) < len(line.boxes):
        shortest = min((box.length for box in shown), default=0) * 1e6
        parts.append(
            f"The {len(shown):,} longest of {len(line.boxes):,} boxes are drawn "
            f"(down to {look.duration(shortest)})"
        )
    if line.all_threads > len(line.threads):
        parts.append(f"{len(line.threads)} of {line.all_threads} threads are shown")
    if line.lost:
        parts.append(
            f"{line.lost:,} older events were overwritten and are missing, "
            "also from the counts above"
        )
    return "; ".join(parts) + "." if parts else ""


def card(record: dict, line: Timeline | None) -> dict:
    """What a page shows of one traced trial; the charts themselves stand in it."""
    series = record["scheme"], record["release"]
    threads = f"{record['threads']} thread" + ("s" if record["threads"] != 1 else "")
    per_epoch = record.get("garbage_per_epoch") or []
    made = {
        "title": f"{look.series_title(series)} · {record['structure']} · {threads}",
        "facts": f"peak garbage {look.count(record.get('garbage_peak'))} nodes",
        "note": "", "figure": None, "window": "",
        "epochs": epoch_chart(per_epoch, series) if per_epoch else None,
    }  # fmt: skip
    if line is None:
        made["facts"] = "in this run no epoch went by and nothing was freed · " + made["facts"]
        return made
    return {
        **made,
        "facts": f"{facts(line)} · {made['facts']}",
        "note": left_out(line),
        "figure": chart(line, series, record.get("garbage_over_time") or []),
        "window": f"{line.window[1] - line.window[0]:.0f}{look.NO_BREAK}ms",
    }
