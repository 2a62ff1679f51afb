# SPDX-License-Identifier: Apache-2.0
"""The pictures and tables that a page is put together from."""

from __future__ import annotations

from lab import charts, legends, look, timeline, words
from lab.paper.arms import FREES
from lab.paper.found import Found, Series
from lab.records import Located
from lab.stats import Config
from lab.traces import trace_of


def where(members: list[Config], threads: bool = False) -> str:
    title = charts.panel_title(members[0].conditions, False)
    return f"{title} · {words.threads_text(members[0].threads)}" if threads else title


def charts_block(title: str, made: list[dict | None], legend: list[dict]) -> dict | None:
    figures = [figure for figure in made if figure]
    if not figures:
        return None
    return {"kind": "charts", "title": title, "figures": figures, "legend": legend}


def lines(found: Found, members: list[Config], names: list[Series], title="") -> list[dict]:
    """Throughput and peak memory against threads, of these series."""
    shown = [config for config in members if config.series in names]
    made = [
        charts.against_threads(shown, "ops_per_s", "operations per second", look.rate, found.cores),
        charts.against_threads(shown, "peak_rss_bytes", "peak memory, logarithmic", look.size,
                               found.cores, log=True)
        if any(config.peak_rss_bytes for config in shown) else None,
    ]  # fmt: skip
    legend = legends.series({config.series for config in shown})
    block = charts_block(title or where(members), made, legend)
    return [block] if block else []


def table(head: list[str], rows: list[list], title: str = "", paper: bool = False) -> dict:
    """The first cell of a row is its name; `paper` marks figures that were not measured here."""
    return {"kind": "table", "title": title, "head": head, "rows": rows, "paper": paper}


def timeline_block(trial: Located) -> dict | None:
    """The timeline of a traced trial, the garbage over the same time, and garbage per epoch."""
    path = trace_of(trial)
    if path is None:
        return None
    record = trial.record
    seconds = float(record.get("elapsed_s") or record.get("seconds") or 1)
    line = timeline.build(timeline.read_events(path), seconds, record.get("trace_offset_ms"))
    return {"kind": "timeline", "card": timeline.card(record, line), "line": line}


def epochs_chart(record: dict) -> dict | None:
    points = record.get("garbage_per_epoch") or []
    return timeline.epoch_chart(points, (record["scheme"], record["release"])) if points else None


def bars(labels: list[str], parts: list[tuple[str, str, list[float]]], title: str, text) -> dict:
    """A stacked bar for each label; a part has a name, a colour and a value for each label."""
    data = [
        {
            "type": "bar", "orientation": "h", "x": values, "y": list(range(len(labels))),
            "meta": name, "marker": {"color": colour}, "hoverinfo": "text", "textposition": "none",
            "hovertext": [f"<b>{label}</b><br>{name}: {text(value)}"
                          for label, value in zip(labels, values, strict=True)],
        }
        for name, colour, values in parts
    ]  # fmt: skip
    top = max((sum(values) for values in zip(*(p[2] for p in parts), strict=True)), default=1)
    ticks = charts.linear_ticks(top or 1, 5)
    x = charts.axis(title, tickvals=ticks, ticktext=[text(t) for t in ticks], range=[0, top * 1.02])
    y = charts.row_axis(labels, labels)
    return charts.figure(data, 78 + 34 * len(labels), x, y, barmode="stack")


def plain_lines(series: list[dict], x_title: str, y_title: str, text, even=False) -> dict:
    """Lines over a logarithmic axis, or an even one; a series has title, meta, colour, points, and
    perhaps dash."""
    ticks = sorted({x for s in series for x, _ in s["points"]})
    top = max(y for s in series for _, y in s["points"])
    data = [
        {
            "type": "scatter", "mode": "lines+markers", "meta": s["meta"],
            "x": [x for x, _ in s["points"]], "y": [y for _, y in s["points"]],
            "line": {"color": s["colour"], "width": 2.2, "dash": s.get("dash", "solid")},
            "marker": s.get("marker", {"size": 8, "color": s["colour"]}), "hoverinfo": "text",
            "hovertext": [f"<b>{s['title']}</b><br>{x_title} {x}: {text(y)}"
                          for x, y in s["points"]],
        }
        for s in series
    ]  # fmt: skip
    scale = {} if even else {"type": "log"}
    x = charts.axis(x_title, **scale, tickvals=ticks, ticktext=[f"{t:,.6g}" for t in ticks])
    marks = charts.linear_ticks(top or 1)
    y = charts.axis(y_title, tickvals=marks, ticktext=[text(t) for t in marks],
                    range=[0, top * 1.06 or 1])  # fmt: skip
    return charts.figure(data, 340, x, y)


def enough(config: Config | None) -> bool:
    """Did it free so much that figures for each free mean anything?"""
    return bool(config and config.frees and config.frees.median >= FREES)


def milli(config: Config | None, field: str, of: str = "frees") -> str:
    """Events in a thousand frees."""
    if not enough(config):
        return "–"
    a, b = getattr(config, field), getattr(config, of)
    return look.number(1000 * a.median / b.median) if a and b and b.median else "–"


def share(config: Config | None, field: str = "free_share") -> str:
    value = getattr(config, field) if config else None
    return f"{100 * value.median:.1f}{look.NO_BREAK}%" if value else "–"


def told(config: Config | None, field: str, text) -> str:
    value = getattr(config, field) if config else None
    return text(value.median) if value else "–"
