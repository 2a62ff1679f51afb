# SPDX-License-Identifier: Apache-2.0
"""Legends drawn in the page itself: they wrap on narrow screens and switch lines on and off."""

from __future__ import annotations

import math

from markupsafe import Markup, escape

from lab import charts, look

DASH = {"solid": "", "dash": "5 3", "dot": "1.5 3"}


def _polygon(corners: int, turn: float = -math.pi / 2, radius: float = 5) -> str:
    angles = [turn + 2 * math.pi * corner / corners for corner in range(corners)]
    return " ".join(f"{radius * math.cos(a):.2f},{radius * math.sin(a):.2f}" for a in angles)


def _star(points: int) -> str:
    parts = []
    for place in range(2 * points):
        radius = 5.6 if place % 2 == 0 else 2.5
        angle = -math.pi / 2 + math.pi * place / points
        parts.append(f"{radius * math.cos(angle):.2f},{radius * math.sin(angle):.2f}")
    return " ".join(parts)


SHAPES = {
    "square": "-4,-4 4,-4 4,4 -4,4",
    "diamond": _polygon(4),
    "triangle-up": _polygon(3),
    "triangle-down": _polygon(3, math.pi / 2),
    "triangle-right": _polygon(3, 0),
    "pentagon": _polygon(5),
    "hexagon": _polygon(6),
    "star": _star(5),
    "star-diamond": _star(4),
    "hexagram": _star(6),
    "cross": "-1.7,-5 1.7,-5 1.7,-1.7 5,-1.7 5,1.7 1.7,1.7 1.7,5 -1.7,5 -1.7,1.7 -5,1.7 "
             "-5,-1.7 -1.7,-1.7",
    "hourglass": "-4,-5 4,-5 -4,5 4,5",
    "bowtie": "-5,-4 -5,4 5,-4 5,4",
}  # fmt: skip


def _mark(shape: str, colour: str, filled: bool, dot: bool = False) -> str:
    paint = f'fill="{colour if filled else "var(--card)"}" stroke="{colour}" stroke-width="1.8"'
    if shape == "x":
        body = f'<path d="M-4-4 4 4M-4 4 4-4" stroke="{colour}" stroke-width="2.2"/>'
    elif shape in SHAPES:
        body = f'<polygon points="{SHAPES[shape]}" {paint}/>'
    else:
        body = f'<circle r="4.4" {paint}/>'
    return body + (f'<circle r="1.6" fill="{colour}"/>' if dot else "")


def _chip(name: str, title: str, mark: str, line: str = "") -> dict:
    box = 'viewBox="-14 -8 28 16" width="28" height="16" aria-hidden="true"'
    return {"series": name, "title": title, "icon": Markup(f"<svg {box}>{line}{mark}</svg>")}


def series(names: set[tuple[str, str]], bare: bool = False) -> list[dict]:
    """`bare`: by the names of schemes alone, where releases make no difference."""
    chips = []
    for name in sorted(names, key=look.sort_key):
        colour = f"var(--{escape(look.scheme_colour(name[0])[1:])})"
        dash = DASH[look.DASHES.get(name[1], "solid")]
        line = f'<path d="M-14 0H14" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        shape = look.scheme(name[0]).marker
        mark = _mark(shape, colour, name[1] == "amortized", name[1] == "pooled")
        title = look.scheme(name[0]).title if bare else look.series_title(name)
        chips.append(_chip(charts.series_id(name), title, mark, line))
    return chips


def parts(named: list[tuple[str, str, list[float]]]) -> list[dict]:
    """Of stacked bars: name, colour and values of each part."""
    return [
        _chip(name, name, _mark("square", f"var(--{escape(colour[1:])})", True))
        for name, colour, _ in named
    ]


def places(named: list[tuple[str, str]]) -> list[dict]:
    """Lines by name and colour."""
    return [
        _chip(name, name, _mark("circle", f"var(--{escape(colour[1:])})", True))
        for name, colour in named
    ]


def releases(names: set[str]) -> list[dict]:
    shapes = {"batch": "square", "amortized": "circle", "pooled": "diamond"}
    return [
        _chip(name, name, _mark(shapes.get(name, "star"), "var(--ink)", name == "amortized"))
        for name in sorted(names)
    ]


def collectors(names: list[str]) -> list[dict]:
    return [
        _chip(name, look.collector_title(name),
              _mark("circle", f"var(--{escape(look.collector_colour(name)[1:])})", True))
        for name in names
    ]  # fmt: skip


def allocators(names: set[str]) -> list[dict]:
    chips = []
    for name in sorted(names):
        shape = look.ALLOCATORS[name][2] if name in look.ALLOCATORS else "circle"
        colour = f"var(--{escape(look.allocator_colour(name)[1:])})"
        chips.append(_chip(name, name, _mark(shape, colour, True)))
    return chips
