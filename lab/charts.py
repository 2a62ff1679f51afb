# SPDX-License-Identifier: Apache-2.0
"""Charts as Plotly figures in plain dictionaries.

Colours are written '@name' or '@name/alpha'; the page puts in the values of its theme.
"""

from __future__ import annotations

import math

from lab import look
from lab.stats import Conditions, Config, Spread, find

CAP = {"thickness": 1.2, "width": 3}


def axis(title: str = "", **more) -> dict:
    return {
        "title": {"text": title, "font": {"size": 12, "color": "@muted"}, "standoff": 8},
        "gridcolor": "@grid", "linecolor": "@line", "zeroline": False, "automargin": True,
        "tickfont": {"size": 12, "color": "@muted"}, "fixedrange": True, **more,
    }  # fmt: skip


def figure(data: list[dict], height: int, x: dict, y: dict, **layout) -> dict:
    return {
        "data": data,
        "height": height,
        "layout": {
            "xaxis": x, "yaxis": y, "showlegend": False, "hovermode": "closest",
            "margin": {"l": 8, "r": 14, "t": 10, "b": 8}, "bargap": 0.3, **layout,
        },
    }  # fmt: skip


def marker(series: tuple[str, str], size: float = 9) -> dict:
    """Filled for amortized, hollow for batch, a dot inside for pooled."""
    name, release = series
    colour = look.scheme_colour(name)
    shape = look.scheme(name).marker
    if shape == "x":
        return {"symbol": "x-thin", "size": size, "line": {"color": colour, "width": 2.4}}
    inner = colour if release == "amortized" else "@card"
    symbol = f"{shape}-dot" if release == "pooled" else shape
    return {"symbol": symbol, "size": size, "color": inner, "line": {"color": colour, "width": 2}}


def series_id(series: tuple[str, str]) -> str:
    return "/".join(series)


def _told(title: str, threads: int, value: Spread, text) -> str:
    trials = f"{value.count} trial" + ("s" if value.count > 1 else "")
    unit = f"{threads} thread" + ("s" if threads > 1 else "")
    lines = f"<b>{title}</b><br>{unit}: {text(value.median)}"
    if value.count > 1:
        lines += f"<br>{text(value.low)} to {text(value.high)} in {trials}"
    return lines


def _core_line(cores: int | None, threads: list[int]) -> dict:
    """A line where the processor's cores run out, as the paper draws one."""
    if not cores or not min(threads) <= cores <= max(threads):
        return {}
    place = math.log2(cores)
    line = {"type": "line", "xref": "x", "yref": "paper", "x0": cores, "x1": cores, "y0": 0,
            "y1": 1, "line": {"color": "@muted/0.55", "width": 1, "dash": "3px,3px"}}  # fmt: skip
    note = {"x": place / math.log2(10), "y": 1, "xref": "x", "yref": "paper", "yanchor": "bottom",
            "text": f"{cores} cores", "showarrow": False,
            "font": {"size": 11, "color": "@muted"}}  # fmt: skip
    return {"shapes": [line], "annotations": [note], "margin": {"l": 8, "r": 14, "t": 24, "b": 8}}


def against_threads(configs: list[Config], field: str, title: str, text, cores, log=False) -> dict:
    """Medians as lines, minimum to maximum as whiskers; series a little apart so that whiskers
    do not cover each other."""
    names = sorted({config.series for config in configs}, key=look.sort_key)
    threads = sorted({config.threads for config in configs})
    data, seen = [], []
    for place, series in enumerate(names):
        shift = 2 ** ((place - (len(names) - 1) / 2) * 0.02)
        points = [(t, find(configs, series, t)) for t in threads]
        points = [(t, getattr(c, field)) for t, c in points if c and getattr(c, field)]
        if not points:
            continue
        values = [value for _, value in points]
        seen += [v.low for v in values] + [v.high for v in values]
        colour = look.scheme_colour(series[0])
        data.append({
            "type": "scatter", "mode": "lines+markers", "meta": series_id(series),
            "x": [t * shift for t, _ in points], "y": [v.median for v in values],
            "line": {"color": colour, "width": 2.2, "dash": look.DASHES.get(series[1], "solid")},
            "marker": marker(series),
            "error_y": {"type": "data", "symmetric": False, "color": colour, **CAP,
                        "array": [v.high - v.median for v in values],
                        "arrayminus": [v.median - v.low for v in values]},
            "hovertext": [_told(look.series_title(series), t, v, text) for t, v in points],
            "hoverinfo": "text",
        })  # fmt: skip
    y = axis(title, rangemode="tozero")
    if log:
        low, high = min(seen) * 0.85, max(seen) * 1.15
        ticks, texts = look.log_ticks(low, high, text)
        y.update(type="log", range=[math.log10(low), math.log10(high)], tickvals=ticks,
                 ticktext=texts)  # fmt: skip
    else:
        ticks = linear_ticks(max(seen))
        y.update(tickvals=ticks, ticktext=[text(t) for t in ticks], range=[0, max(seen) * 1.06])
    ends = [math.log10(threads[0]) - 0.07, math.log10(threads[-1]) + 0.07]
    x = axis("threads", type="log", range=ends, tickvals=threads, ticktext=list(map(str, threads)))
    return figure(data, 340, x, y, **_core_line(cores, threads))


def linear_ticks(high: float, about: int = 5) -> list[float]:
    return look.even_ticks(high, high / about)


def row_axis(labels: list[str], short: list[str]) -> dict:
    places = list(range(len(labels)))
    return axis(tickvals=places, ticktext=labels, shortticktext=short, showgrid=False,
                range=[len(labels) - 0.4, -0.6], ticklen=0)  # fmt: skip


def pauses(configs: list[Config]) -> dict | None:
    """A row for each scheme and release: 99.9th percentile (solid) to the maximum (hollow)."""
    rows = sorted((c for c in configs if c.free_ns_p999 and c.free_ns_p999.median > 0),
                  key=lambda c: look.sort_key(c.series))  # fmt: skip
    if not rows:
        return None
    data, values = [], []
    for place, config in enumerate(rows):
        p999, top = config.free_ns_p999, config.free_ns_max or config.free_ns_p999
        colour = look.scheme_colour(config.scheme)
        values += [p999.low, top.high]
        hover = (f"<b>{look.series_title(config.series)}</b><br>99.9 %: "
                 f"{look.duration(p999.median)}<br>longest: {look.duration(top.median)} "
                 f"(worst trial {look.duration(top.high)})")  # fmt: skip
        common = {"type": "scatter", "meta": series_id(config.series), "hoverinfo": "text"}
        data.append({**common, "mode": "lines", "x": [p999.median, top.median],
                     "y": [place, place], "hovertext": hover,
                     "line": {"color": f"{colour}/0.45", "width": 3}})  # fmt: skip
        for value, inner, size in ((p999, colour, 12), (top, "@card", 10)):
            data.append({**common, "mode": "markers", "x": [value.median], "y": [place],
                         "hovertext": [hover],
                         "marker": {"symbol": "circle", "size": size, "color": inner,
                                    "line": {"color": colour, "width": 2}}})  # fmt: skip
    low, high = max(1, min(values)) * 0.6, max(values) * 1.7
    ticks, texts = look.duration_ticks(low, high)
    x = axis("pause, logarithmic", type="log", range=[math.log10(low), math.log10(high)],
             tickvals=ticks, ticktext=texts)  # fmt: skip
    labels = [look.series_title(c.series) for c in rows]
    y = row_axis(labels, [look.series_short(c.series) for c in rows])
    return figure(data, 70 + 30 * len(rows), x, y)


def bound_rows(configs: list[Config], usual: dict[int, Spread | None]) -> dict | None:
    """Peak garbage with a stalled reader (dot) beside the stated bound (bar) and the peak without
    a stalled reader (ring); `usual` gives the latter by position."""
    if not any(c.garbage_peak for c in configs):
        return None
    data, values, notes = [], [], []
    for place, config in enumerate(configs):
        peak, bound, normal = config.garbage_peak, config.garbage_bound, usual.get(place)
        if peak is None:
            continue
        colour = look.scheme_colour(config.scheme)
        known = [s.high for s in (peak, bound, normal) if s]
        values += [max(1, v) for v in known]
        title = f"<b>{look.series_title(config.series)}</b> ({config.conditions.structure})<br>"
        common = {"type": "scatter", "y": [place], "hoverinfo": "text"}
        if bound:
            data.append({**common, "x": [bound.median], "mode": "markers",
                         "hovertext": f"{title}stated bound {look.count(bound.median)} nodes",
                         "marker": {"symbol": "line-ns", "size": 22,
                                    "line": {"color": "@ink", "width": 2.5}}})  # fmt: skip
        if normal:
            data.append({**common, "x": [max(1, normal.median)], "mode": "markers",
                         "hovertext": f"{title}without a stalled reader: "
                                      f"{look.count(normal.median)} nodes",
                         "marker": {"symbol": "circle", "size": 9, "color": "@card",
                                    "line": {"color": f"{colour}/0.8", "width": 2}}})  # fmt: skip
        data.append({**common, "x": [max(1, peak.high)], "mode": "markers",
                     "hovertext": f"{title}peak {look.count(peak.high)} nodes",
                     "marker": {"symbol": "circle", "size": 13, "color": colour}})  # fmt: skip
        if not bound:
            notes.append({"x": math.log10(max(1, peak.high)), "y": place, "text": "no bound",
                          "showarrow": False, "xanchor": "left", "xshift": 12,
                          "font": {"size": 12, "color": "@muted"}})  # fmt: skip
    low, high = min(values) * 0.6, max(values) * 4
    ticks, texts = look.log_ticks(low, high, look.count)
    x = axis("garbage nodes at the peak, logarithmic", type="log", tickvals=ticks, ticktext=texts,
             range=[math.log10(low), math.log10(high)])  # fmt: skip
    mixed = len({c.conditions.structure for c in configs}) > 1
    tail = [f" ({c.conditions.structure})" if mixed else "" for c in configs]
    labels = [look.series_title(c.series) + t for c, t in zip(configs, tail, strict=True)]
    y = row_axis(labels, [look.series_short(c.series) for c in configs])
    return figure(data, 80 + 34 * len(configs), x, y, annotations=notes)


def garbage_lines(configs: list[Config]) -> dict | None:
    """Garbage against time under a stalled reader, the middle trial of each configuration."""
    data, top = [], 0
    for config in sorted(configs, key=lambda c: look.sort_key(c.series)):
        points = config.trials[len(config.trials) // 2].record.get("garbage_over_time") or []
        if not points:
            continue
        shown = thin(points, 240)
        top = max(top, *(nodes for _, nodes in shown))
        title = f"{look.series_title(config.series)} ({config.conditions.structure})"
        dash = look.DASHES.get(config.release, "solid")
        data.append({
            "type": "scatter", "mode": "lines", "meta": series_id(config.series),
            "x": [t for t, _ in shown], "y": [n for _, n in shown], "hoverinfo": "text",
            "line": {"color": look.scheme_colour(config.scheme), "width": 2.2, "dash": dash},
            "hovertext": [f"<b>{title}</b><br>{t:.0f} ms: {look.count(n)} nodes"
                          for t, n in shown],
        })  # fmt: skip
    if not data or not top:
        return None
    ticks = linear_ticks(top)
    y = axis("garbage nodes", tickvals=ticks, ticktext=[look.count(t) for t in ticks],
             range=[0, top * 1.06])  # fmt: skip
    return figure(data, 300, axis("time, ms", showgrid=False), y)


def over_time(lines: dict[str, list], height: int, title: str, text, x: dict, when) -> dict:
    """A line for each label, of (time, value); `text` and `when` say values and times."""
    top = max((value for points in lines.values() for _, value in points), default=0)
    data = [{
        "type": "scatter", "mode": "lines", "meta": label, "hoverinfo": "text",
        "x": [t for t, _ in points], "y": [value for _, value in points],
        "line": {"color": look.place_colour(place), "width": 2.2},
        "hovertext": [f"<b>{label}</b><br>{when(t)}: {text(value)}" for t, value in points],
    } for place, (label, points) in enumerate(lines.items()) if points]  # fmt: skip
    ticks = linear_ticks(top or 1)
    y = axis(title, tickvals=ticks, ticktext=[text(t) for t in ticks], range=[0, top * 1.06 or 1])
    return figure(data, height, x, y)


def thin(points: list, most: int) -> list:
    """At most so many points, keeping the highest of each stretch, so that peaks stay."""
    if len(points) <= most:
        return points
    size = len(points) / most
    parts = [points[int(i * size) : int((i + 1) * size)] for i in range(most)]
    return [max(part, key=lambda point: point[1]) for part in parts if part]


def dots(rows: list[tuple[str, str]], points: list[dict], title: str, text, log=False) -> dict:
    """One row for each label, in each row one mark for each variant (release or allocator).
    A point names its row, value (a Spread), marker, meta and what hovering says."""
    data, values = [], []
    for point in points:
        value = point["value"]
        values += [value.low, value.high]
        data.append({
            "type": "scatter", "mode": "markers", "meta": point["meta"], "hoverinfo": "text",
            "x": [value.median], "y": [point["row"]], "marker": point["marker"],
            "hovertext": f"<b>{point['title']}</b><br>{text(value.median)}<br>"
                         f"{text(value.low)} to {text(value.high)}",
            "error_x": {"type": "data", "symmetric": False, "array": [value.high - value.median],
                        "arrayminus": [value.median - value.low], "color": point["colour"],
                        "thickness": 1.2, "width": 0},
        })  # fmt: skip
    if log:
        low, high = max(1, min(values)) * 0.6, max(values) * 1.6
        ticks, texts = look.log_ticks(low, high, text)
        x = axis(title, type="log", range=[math.log10(low), math.log10(high)], tickvals=ticks,
                 ticktext=texts)  # fmt: skip
    else:
        ticks = linear_ticks(max(values), 4)
        x = axis(title, tickvals=ticks, ticktext=[text(t) for t in ticks],
                 range=[0, max(values) * 1.06])  # fmt: skip
    y = row_axis([label for label, _ in rows], [short for _, short in rows])
    y["showgrid"] = True
    return figure(data, 78 + 34 * len(rows), x, y)


def release_dots(configs: list[Config], field: str, title: str, text, log=False) -> dict | None:
    shapes = {"batch": "square", "amortized": "circle", "pooled": "diamond"}
    schemes = sorted({c.scheme for c in configs if c.scheme != "none"},
                     key=lambda s: look.sort_key((s, "")))  # fmt: skip
    points = []
    for config in configs:
        value = getattr(config, field)
        if config.scheme == "none" or value is None or value.median <= 0:
            continue
        colour = look.scheme_colour(config.scheme)
        inner = colour if config.release == "amortized" else "@card"
        points.append({
            "row": schemes.index(config.scheme), "value": value, "colour": colour,
            "title": look.series_title(config.series), "meta": config.release,
            "marker": {"symbol": shapes.get(config.release, "star"), "size": 12, "color": inner,
                       "line": {"color": colour, "width": 2.2}},
        })  # fmt: skip
    if not points:
        return None
    rows = [(look.scheme(s).title, look.scheme(s).short) for s in schemes]
    return dots(rows, points, title, text, log)


def allocator_dots(configs: list[Config], field: str, title: str, text) -> dict | None:
    series = sorted({config.series for config in configs}, key=look.sort_key)
    points = []
    for config in configs:
        value, name = getattr(config, field), config.conditions.allocator
        if value is None:
            continue
        colour = look.allocator_colour(name)
        shape = look.ALLOCATORS[name][2] if name in look.ALLOCATORS else "circle"
        points.append({
            "row": series.index(config.series), "value": value, "colour": colour, "meta": name,
            "title": f"{look.series_title(config.series)}, {name}",
            "marker": {"symbol": shape, "size": 11, "color": f"{colour}/0.85",
                       "line": {"color": "@card", "width": 1}},
        })  # fmt: skip
    if not points:
        return None
    rows = [(look.series_title(s), look.series_short(s)) for s in series]
    return dots(rows, points, title, text)


def panel_title(conditions: Conditions, several_machines: bool) -> str:
    parts = [
        conditions.structure,
        f"{look.count(conditions.keys)} keys",
        f"{conditions.update}{look.NO_BREAK}% updates",
        conditions.allocator,
    ]
    if conditions.batch:
        parts.append(f"batches of {look.count(conditions.batch)}")
    if several_machines:
        parts.append(conditions.machine)
    return " · ".join(parts)
