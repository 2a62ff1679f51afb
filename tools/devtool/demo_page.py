# SPDX-License-Identifier: Apache-2.0
"""The page of `./dev demo`: one file without network, and the same in ten lines of text.

It reads what the demonstration has recorded (demo/demo.hpp says how) and uses nothing but Python's
standard library, since the demonstration installs as little as it can.
"""

from __future__ import annotations

import html
import json
import math
import pathlib
import re
from dataclasses import dataclass, field

WIDTH, HEIGHT = 720, 280
LEFT, RIGHT, TOP, BOTTOM = 76, 16, 14, 44
BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class About:
    """What the page says about a part, whatever is measured."""

    title: str
    sees: str
    x: str
    y: str
    logarithmic: bool = False


PARTS = {
    "sleeper": About(
        "A reader sleeps while a million nodes are replaced",
        "The reader sleeps inside a guard. Under the default scheme and under hazard pointers "
        "the nodes that wait stay below the stated bound (dashed). Memory stays near it: stacks, "
        "code and the allocator take some, too. Plain token epochs state no bound: every replaced "
        "node waits for the reader. The same holds for liburcu, which is shown where it is "
        "installed.",
        "nodes replaced (millions)",
        "memory (MB)",
        logarithmic=True,
    ),
    "snapshot": About(
        "A snapshot of two maps is held while writers continue",
        "Two writers move money between a hash map and a tree. The held snapshot shows the same "
        "pairs each time it is read, every new snapshot shows the whole sum, and memory stays "
        "flat.",
        "seconds",
        "memory beyond the maps (MB)",
    ),
    "queue": About(
        "A table as a queue, with and without a held reader",
        "Each transaction takes the first job and appends another. A reader that is held for the "
        "whole run goes on seeing the thousand jobs of its beginning. Beside it memory stays flat, "
        "and the queue is as fast as without it.",
        "seconds",
        "memory (MB)",
    ),
    "crash": About(
        "kill -9 in the middle of commits",
        "A process commits rows, is killed, and the store is opened again, six times. Every row "
        "whose commit was acknowledged is there. A few more rows are: they were durable, and the "
        "process died before it could say so.",
        "round",
        "rows",
    ),
    "backup": About(
        "A backup beside load",
        "Four clients commit durably while the whole store is copied into another directory. The "
        "copy opens, and its balances add up.",
        "seconds",
        "commits a second",
    ),
}


@dataclass
class Part:
    """What one part has recorded."""

    name: str
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    checks: list[tuple[bool, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    short: str = ""
    error: str = ""

    @property
    def about(self) -> About:
        return PARTS[self.name]

    @property
    def kept(self) -> bool:
        return not self.error and bool(self.checks) and not self.broken

    @property
    def broken(self) -> list[str]:
        return [says for ok, says in self.checks if not ok]


def read(name: str, file: pathlib.Path, error: str = "") -> Part:
    """Reads the record of a part; a line that was cut off is passed over."""
    part = Part(name, error=error)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for line in lines:
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if one["kind"] == "point":
            part.curves.setdefault(one["curve"], []).append((one["x"], one["y"]))
        elif one["kind"] == "bound":
            part.bounds[one["curve"]] = one["y"]
        elif one["kind"] == "check":
            part.checks.append((one["ok"], one["says"]))
        elif one["kind"] == "short":
            part.short = one["says"]
        else:
            part.notes.append(one["says"])
    return part


class Axis:
    """Maps values to positions; its ticks are round numbers."""

    def __init__(self, low: float, high: float, start: float, end: float, logarithmic: bool):
        self.logarithmic = logarithmic
        self.start, self.end = start, end
        if logarithmic:
            low = max(low, 0.05)
            self.low = 10 ** math.floor(math.log10(low))
            self.high = 10 ** math.ceil(math.log10(max(high, self.low * 10)))
        else:
            self.low, self.high = low, high if high > low else low + 1

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = (math.log10(max(v, self.low)) for v in (value, low, high))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.logarithmic:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0**n for n in range(first, last + 1)]
        raw = (self.high - self.low) / 5
        unit = 10 ** math.floor(math.log10(raw))
        step = next(unit * n for n in (1, 2, 5, 10) if unit * n >= raw)
        first = math.ceil(self.low / step)
        return [step * n for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _text(x: float, y: float, says: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(says)}</text>'


def chart(part: Part) -> str:
    """The part's curves as SVG, each with its bound as a dashed line."""
    about = part.about
    points = [p for curve in part.curves.values() for p in curve]
    if not points:
        return '<p class="missing">Nothing was measured.</p>'
    ys = [y for _, y in points] + list(part.bounds.values())
    low = min(y for y in ys if y > 0 or not about.logarithmic) if any(y > 0 for y in ys) else 0
    x_axis = Axis(min(x for x, _ in points), max(x for x, _ in points), LEFT, WIDTH - RIGHT, False)
    y_axis = Axis(
        low if about.logarithmic else 0, max(ys) * 1.05, HEIGHT - BOTTOM, TOP, about.logarithmic
    )
    out = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(about.title)}">'
    ]
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        ends = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
        out.append(f'<line class="grid" {ends}/>')
        out.append(_text(LEFT - 6, y + 4, number(tick), "end"))
    for tick in x_axis.ticks():
        out.append(_text(x_axis.at(tick), HEIGHT - BOTTOM + 18, number(tick)))
    out.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, about.x))
    turned = f' transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2:.0f})"'
    out.append(_text(14, (TOP + HEIGHT - BOTTOM) / 2, about.y, "middle", turned))
    for index, (name, curve) in enumerate(part.curves.items()):
        path = " ".join(f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in curve)
        out.append(f'<polyline class="curve c{index}" points="{path}"/>')
        if name in part.bounds:
            y = y_axis.at(part.bounds[name])
            out.append(
                f'<line class="bound c{index}" x1="{LEFT}" x2="{WIDTH - RIGHT}" '
                f'y1="{y:.1f}" y2="{y:.1f}"/>'
            )
    return "\n".join([*out, "</svg>"])


def _legend(part: Part) -> str:
    rows = []
    for index, name in enumerate(part.curves):
        bound = part.bounds.get(name)
        says = html.escape(name)
        if bound is not None:
            says += f" <i>(dashed: its bound, {number(bound)} MB)</i>"
        elif part.name == "sleeper":
            says += " <i>(states no bound)</i>"
        rows.append(f'<span class="key"><b class="c{index}"></b>{says}</span>')
    return f'<p class="legend">{" ".join(rows)}</p>' if len(part.curves) > 1 or part.bounds else ""


def _section(number_: int, part: Part) -> str:
    about = part.about
    checks = "\n".join(
        f'<li class="{"kept" if ok else "broken"}">{"kept" if ok else "BROKEN"}: '
        f"{html.escape(says)}</li>"
        for ok, says in part.checks
    )
    if part.error:
        checks += f'\n<li class="broken">BROKEN: {html.escape(part.error)}</li>'
    notes = "\n".join(f"<li>{html.escape(says)}</li>" for says in part.notes)
    return f"""<section>
<h2>{number_}. {html.escape(about.title)}</h2>
<p>{html.escape(about.sees)}</p>
{_legend(part)}
{chart(part)}
<ul>
{checks}
{notes}
</ul>
</section>"""


STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --grid: #ddd; --soft: #666;
  --c0: #0072b2; --c1: #009e73; --c2: #d55e00; --c3: #9a5ea5; --bad: #b00020; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #17191c; --grid: #3a3d42;
  --soft: #a0a4aa; --c0: #56b4e9; --c1: #2fc79a; --c2: #f0915a; --c3: #c792d6; --bad: #ff6b7d; } }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  max-width: 760px; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 13px; }
.paper { fill: var(--paper); } .grid { stroke: var(--grid); }
.curve { fill: none; stroke-width: 2.5; }
.bound { stroke-width: 1.5; stroke-dasharray: 6 5; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); }
.c3 { stroke: var(--c3); } .curve.c3 { stroke-dasharray: 9 7; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; } .key b { display: inline-block;
  width: 1.6rem; height: .25rem; margin-right: .4rem; vertical-align: middle; }
b.c0 { background: var(--c0); } b.c1 { background: var(--c1); } b.c2 { background: var(--c2); }
b.c3 { background: var(--c3); }
.legend i, footer { color: var(--soft); font-style: normal; }
.broken { color: var(--bad); font-weight: bold; } section { margin-top: 2.5rem; }
"""


def page(parts: list[Part], about_run: str) -> str:
    broken = sum(len(part.broken) + bool(part.error) for part in parts)
    kept = sum(ok for part in parts for ok, _ in part.checks)
    verdict = (
        f'<p class="broken">{broken} of {kept + broken} promises were broken in this run.</p>'
        if broken
        else f"<p>All {kept} promises that this run checks were kept.</p>"
    )
    sections = "\n".join(_section(n, part) for n, part in enumerate(parts, 1))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Spolia: the demonstration</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Spolia, demonstrated on this machine</h1>
<p>When is it safe to reuse memory that another thread may still be reading? These five pictures
show what the answer means in use. Memory is the resident memory of the process, as the system
counts it.</p>
{verdict}
{sections}
<footer><p>{html.escape(about_run)}</p></footer>
</body>
</html>
"""


def picture(part: Part) -> str:
    """The chart as an SVG file of its own, with its legend, for light and dark pages."""
    lines, top = [], HEIGHT + 26
    for index, name in enumerate(part.curves):
        bound = part.bounds.get(name)
        says = f"{name}: no bound" if bound is None else f"{name}: at most {number(bound)} MB"
        x, y = LEFT + index % 2 * (WIDTH - LEFT) / 2, top + index // 2 * 22
        lines.append(f'<line class="curve c{index}" x1="{x}" x2="{x + 26}" y1="{y}" y2="{y}"/>')
        lines.append(_text(x + 34, y + 4, says, "start"))
    height = top + (len(part.curves) + 1) // 2 * 22
    box = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img"'
    inner = re.sub(r"<svg[^>]*?(?= aria-label)", start, chart(part), count=1)
    rules = re.sub(r"\b(?:body|section|footer) \{[^}]*\}|width: 100%; ", "", STYLE)
    style = f"<style>{rules}svg text {{ font-family: system-ui, sans-serif; }}</style>"
    paper = f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>'
    inner = inner.replace(">", f">\n{style}\n{paper}", 1)
    return inner.replace("</svg>", "\n".join([*lines, "</svg>\n"]))


def sparkline(curve: list[tuple[float, float]], top: float, columns: int = 32) -> str:
    """A curve as one line of text, its highest column being `top`."""
    if not curve or top <= 0:
        return ""
    first, last = curve[0][0], curve[-1][0]
    cells = [0.0] * columns
    for x, y in curve:
        at = int((x - first) / ((last - first) or 1) * (columns - 1))
        cells[at] = max(cells[at], y)
    return "".join(BLOCKS[min(8, math.ceil(max(y, 0) / top * 8))] for y in cells)


def summary(parts: list[Part]) -> list[str]:
    """Two lines for each part: what it shows and whether it was kept, and what was measured or
    which promise was broken."""
    lines = []
    for index, part in enumerate(parts, 1):
        mark = "kept  " if part.kept else "BROKEN"
        lines.append(f"  {index} {mark} {part.about.title}")
        said = part.broken or ([part.error] if part.error else [])
        lines += [f"           {says}" for says in said or [part.short]]
    return lines


def plot(part: Part) -> list[str]:
    """The curves of a part one below the other, for a terminal."""
    top = max((y for curve in part.curves.values() for _, y in curve), default=0)
    return [
        f"    {name:<28} {sparkline(curve, top)} {number(max(y for _, y in curve))} "
        f"{part.about.y.rpartition('(')[2].rstrip(')')} at most"
        for name, curve in part.curves.items()
    ]
