# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML page from results files."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from statistics import median

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from lab import charts, claims, layers, legends, look, stats, timeline, words
from lab.errors import LabError
from lab.paper import tries, twins
from lab.paper.found import Found
from lab.paper.render import NOTHING_TOLD, Told, broken, index, void
from lab.paper.render import pages as paper_pages
from lab.records import Located, load, of_kind, open_failures
from lab.stats import Config
from lab.traces import trace_of

ASSETS = Path(__file__).resolve().parent / "assets"
TIMELINES = 8
# Cores in the hands of other programs from which on figures deserve a warning.
BUSY = 0.2


class Figures:
    """Collects charts for the page and hands out their ids."""

    def __init__(self):
        self.made: dict[str, dict] = {}

    def add(self, figure: dict | None) -> str | None:
        if figure is None:
            return None
        name = f"figure-{len(self.made) + 1}"
        self.made[name] = figure
        return name

    def of_card(self, card: dict) -> dict:
        """A timeline's card with the ids of its charts in their places."""
        return {**card, "figure": self.add(card["figure"]), "epochs": self.add(card["epochs"])}


# Records that are not trials.
KINDS = ("schemes", "guards", "announcements", "snapshots", *layers.kinds(), "reports")


def write_report(
    paths: list[Path],
    out: Path,
    title: str = "Spolia laboratory",
    of_pages: dict[str, list[str]] | None = None,
    alike: twins.Outcome | None = None,
    names: dict[str, str] | None = None,
    lacking: dict[str, str] | None = None,
) -> list[str]:
    """Returns the pages that could not be made, and why. `alike` is what came of pairs of identical
    code, `names` are those of cells and commands, `lacking` what there was not to be measured."""
    paths = list({path.resolve(): path for path in paths}.values())  # a trial counts once
    failures = open_failures(paths)
    extras = {kind: of_kind(paths, kind) for kind in KINDS}
    # Pages of commands stand without trials of sets.
    trials = load(paths, bool(of_pages and measured_by_commands(extras)))
    wrong: list[str] = []
    told = Told(names or {}, tries.reasons(failures))
    page = render(trials, extras, failures, title, of_pages, alike, wrong, told, lacking)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
        partial.write_text(page, encoding="utf-8")
        partial.replace(out)
    except OSError as error:
        raise LabError(f"cannot write {out}: {error.strerror}") from error
    return wrong


def render(
    trials: list[Located],
    extras: dict[str, list[dict]],
    failures: list[dict],
    title: str,
    of_pages: dict[str, list[str]] | None = None,
    alike: twins.Outcome | None = None,
    wrong: list[str] | None = None,
    told: Told = NOTHING_TOLD,
    lacking: dict[str, str] | None = None,
) -> str:
    """With `of_pages`, which says of what each is made, the pages of the papers' evaluations stand
    alone, with the table. `wrong` takes those that could not be made, and why."""
    only_paper = of_pages is not None
    configs = stats.group(trials)
    figures = Figures()
    records = [trial.record for trial in trials] or measured_by_commands(extras)
    found = Found(
        trials, extras.get("announcements", []), extras.get("snapshots", []),
        [r for kind in ("ycsb", "tpcc", "held", "reports", "rlu") for r in extras.get(kind, [])],
        extras.get("counted", []),
        configs=configs, lacking=lacking or {},
    )  # fmt: skip
    pages = paper_pages(found, figures, of_pages, told)
    if alike and alike.speaks and not alike.well:
        void(pages)
    if wrong is not None:
        wrong += broken(pages)
    context = {
        "title": title,
        "only_paper": only_paper,
        "method": method(records, configs, failures, alike, broken(pages)),
        "pages": pages,
        "papers": index(pages),
        "rows": table(configs),
        "commands": commands(paths_of(trials), only_paper),
        "threshold": words.threshold(),
        **overview(trials, configs, extras, figures, not only_paper),
    }
    environment = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("report.html.j2").render(
        **context,
        style=Markup((ASSETS / "report.css").read_text()),
        script=Markup((ASSETS / "report.js").read_text()),
        plotly=Markup(get_plotlyjs().replace("</script", "<\\/script")),
        figures=embedded(figures.made),
        scheme_colours_of=look.colours(),
    )


def measured_by_commands(extras: dict[str, list[dict]]) -> list[dict]:
    """Records that say on what machine they were made."""
    return [r for records in extras.values() for r in records if r.get("machine")]


def overview(trials, configs, extras, figures: Figures, wanted: bool) -> dict:
    """The sections of a report of everything; all of them empty if they are not wanted."""
    machine = (trials[-1].record.get("machine") or {}) if trials else {}
    cores = machine.get("cores")
    ref = words.reference(configs, cores)
    sections = {
        "tiles": lambda: words.tiles(configs, ref),
        "headline": lambda: words.headline(configs, ref, machine),
        "claims": lambda: [asdict(claim) for claim in claims.check(configs, ref)],
        "schemes": lambda: schemes(configs, extras["schemes"]),
        "guards": lambda: guards(extras["guards"]),
        "panels": lambda: panels(configs, figures, cores),
        "pauses": lambda: pauses(configs, figures),
        "few_pauses": lambda: few_pauses(configs),
        "stall": lambda: stall(configs, figures),
        "timelines": lambda: timelines(trials, figures),
        "releases": lambda: releases(configs, figures),
        "allocators": lambda: allocators(configs, figures),
        "layers": lambda: layers.sections(extras, figures),
    }
    return {name: make() if wanted else [] for name, make in sections.items()}


def embedded(value) -> Markup:
    """JSON that may stand inside a script element."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))


def paths_of(trials: list[Located]) -> list[Path]:
    return list(dict.fromkeys(trial.path for trial in trials))


def method(records: list[dict], configs: list[Config], failures: list[dict],
           alike: twins.Outcome | None = None, wrong: Iterable[str] = ()) -> dict:  # fmt: skip
    """What was measured, on what, and what speaks against it."""
    last = records[-1]
    machine = last.get("machine") or {}
    counts = sorted({len(config.trials) for config in configs}) or [0]
    others = [r.get("lab", {}).get("others_cores") for r in records]
    others = [cores for cores in others if cores is not None]
    threads = max(r.get("threads") or 0 for r in records)
    facts = [
        ("Processor", f"{machine.get('cpu', 'unknown')}, {machine.get('cores', '?')} cores"),
        ("Memory", look.size(machine.get("memory_bytes"))),
        ("System", f"{machine.get('os', 'unknown')}, Linux {machine.get('kernel', 'unknown')}"),
        ("Compiler", last.get("compiler", "unknown")),
        ("Allocators", ", ".join(sorted({c.conditions.allocator for c in configs}))),
        ("Revision", ", ".join(sorted({str(r.get("revision", "unknown")) for r in records}))),
        ("Measured", span_of(records)),
        ("Trials", f"{len(records)} in {len(configs)} configurations, "
                   f"{_range(counts)} of each, up to {threads} threads"),
    ]  # fmt: skip
    warnings = []
    if len({r.get("revision") for r in records}) > 1:
        warnings.append("These results mix several revisions of Spolia.")
    if len({stats.machine_name(r) for r in records}) > 1:
        warnings.append("These results mix several machines; panels are kept apart by machine.")
    if others and median(others) > BUSY:
        warnings.append(
            f"The machine was not idle. Other programs took {median(others):.1f} cores during a "
            "typical trial. Expect wide spreads, and trust small differences even less."
        )
    if max(counts) == 1:
        warnings.append("Each configuration ran only once: no difference here is proven.")
    if alike:
        facts.append(("Equal pairs", alike.told()))
        if alike.speaks and not alike.well:
            warnings.append("Identical code differed too often: no verdict holds here.")
        elif alike.fails:
            warnings.append("Too few pairs of identical code have enough trials: this run has not "
                            "passed its own check.")  # fmt: skip
    told = [f"{_failed_name(entry)}: {entry.get('failure')}" for entry in failures]
    told += wrong
    return {"facts": facts, "warnings": warnings, "failures": told, "trials": _range(counts)}


def _failed_name(entry: dict) -> str:
    if entry.get("page"):
        return f"{entry['page']}, {shlex.join(entry['command'])}"
    wanted = entry.get("configuration", {})
    return (
        f"{wanted.get('structure')} {wanted.get('scheme')}/{wanted.get('release')}, "
        f"{words.threads_text(wanted.get('threads', 0))}"
    )


def span_of(records: list[dict]) -> str:
    times = sorted(str(r["time"]) for r in records if r.get("time"))
    if not times:
        return "unknown"
    first, last = (t.replace("T", " ").replace("Z", " UTC") for t in (times[0], times[-1]))
    return first if first == last else f"{first} to {last}"


def _range(counts: list[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def schemes(configs: list[Config], said: list[dict]) -> list[dict]:
    """What the program itself says of the schemes in these results."""
    about = {name: info for record in said for name, info in record["schemes"].items()}
    names = sorted({c.scheme for c in configs} & set(about), key=lambda s: look.sort_key((s, "")))
    words_of = ("cost", "progress", "bound", "source")
    return [
        {"title": look.scheme(name).title, "colour": look.scheme_colour(name)[1:],
         **{word: about[name].get(word, "–") for word in words_of}}
        for name in names
    ]  # fmt: skip


def guards(records: list[dict]) -> dict | None:
    """A row for each scheme, a column for each operation; '-' stands for bare memory accesses,
    which are told below."""
    cells, bare = {}, []
    for r in records:
        cell = {"ns": look.duration(r["ns"]),
                "range": look.between(r["ns_min"], r["ns_max"], look.duration)}  # fmt: skip
        if r["scheme"] == "-":
            bare.append(f"{r['operation']} {cell['ns']}")
        else:
            cells[r["scheme"], r["operation"]] = cell
    if not cells:
        return None
    operations = list(dict.fromkeys(operation for _, operation in cells))
    names = sorted({name for name, _ in cells}, key=lambda s: look.sort_key((s, "")))
    rows = [
        {"title": look.scheme(name).title, "colour": look.scheme_colour(name)[1:],
         "cells": [cells.get((name, operation)) for operation in operations]}
        for name in names
    ]  # fmt: skip
    return {"operations": operations, "rows": rows, "bare": words.listed(bare)}


def panels(configs: list[Config], figures: Figures, cores) -> list[dict]:
    several = len({config.conditions.machine for config in configs}) > 1
    made = []
    drawn = stats.throughput_panels(configs)
    titles = [charts.panel_title(conditions, several) for conditions in drawn]
    for conditions, members in drawn.items():
        memory = [config for config in members if config.peak_rss_bytes]
        title = charts.panel_title(conditions, several)
        if titles.count(title) > 1:
            title += f" · {Path(conditions.run).name}"
        speed = charts.against_threads(
            members, "ops_per_s", "operations per second", look.rate, cores
        )
        made.append({
            "title": title,
            "legend": legends.series({config.series for config in members}),
            "speed": figures.add(speed),
            "memory": figures.add(charts.against_threads(
                memory, "peak_rss_bytes", "peak memory, logarithmic", look.size, cores, log=True
            )) if memory else None,
            "speed_words": words.throughput_words(members, cores),
            "beyond_words": words.beyond_words(members, cores),
            "memory_words": words.memory_words(memory) if memory else "",
        })  # fmt: skip
    return made


def group_title(members: list[Config]) -> str:
    threads = words.threads_text(members[0].threads)
    return f"{charts.panel_title(members[0].conditions, False)} · {threads}"


def pauses(configs: list[Config], figures: Figures) -> list[dict]:
    made = []
    for members in stats.release_groups(configs):
        figure = figures.add(charts.pauses(members))
        if figure:
            made.append({
                "title": group_title(members),
                "figure": figure,
                "ratios": words.pause_ratios(members),
            })  # fmt: skip
    return made


def few_pauses(configs: list[Config]) -> str:
    names = [
        words.title(config.series)
        for members in stats.release_groups(configs)
        for config in sorted(members, key=lambda c: look.sort_key(c.series))
        if any(0 < (t.record.get("pauses") or 0) < 1000 for t in config.trials)
    ]
    return words.listed(list(dict.fromkeys(names)))


def stall(configs: list[Config], figures: Figures) -> dict | None:
    held = sorted(
        stats.stalled(configs),
        key=lambda c: (c.conditions.structure, look.sort_key(c.series), c.threads),
    )
    if not held:
        return None
    usual = {place: _unstalled(configs, config) for place, config in enumerate(held)}
    rows = figures.add(charts.bound_rows(held, usual))
    lines = figures.add(charts.garbage_lines(held))
    kept, broken, unbounded = words.bounds(held)
    return {
        "rows": rows,
        "lines": lines,
        "words": words.stall_words(kept, broken, unbounded),
        "legend": legends.series({config.series for config in held}),
        "threads": _range(sorted({config.threads for config in held})),
    }


def _unstalled(configs: list[Config], held: Config):
    """Peak garbage of the same configuration with no thread stalled."""
    for config in configs:
        c, h = config.conditions, held.conditions
        same = (c.structure, c.keys, c.update, c.allocator, c.batch, c.run)
        if (
            not c.stall
            and config.series == held.series
            and config.threads == held.threads
            and same == (h.structure, h.keys, h.update, h.allocator, h.batch, h.run)
        ):
            return config.garbage_peak
    return None


def timelines(trials: list[Located], figures: Figures) -> list[dict]:
    """One timeline for each traced configuration, the first trial of it that has its trace."""
    made, seen = [], set()
    traced = [(trial, trace_of(trial)) for trial in trials]
    traced = [(trial, path) for trial, path in traced if path is not None]
    order = {"token_naive": 0, "token_pass_first": 1, "token_periodic": 2}
    traced.sort(key=lambda pair: (
        pair[0].record["structure"],
        order.get(pair[0].record["scheme"], 3),
        pair[0].record["release"] == "amortized",
        look.sort_key((pair[0].record["scheme"], pair[0].record["release"])),
    ))  # fmt: skip
    for trial, path in traced:
        record = trial.record
        key = tuple(record.get(n) for n in ("structure", "scheme", "release", "threads", "stall"))
        if key in seen or len(made) == TIMELINES:
            continue
        seconds = float(record.get("elapsed_s") or record.get("seconds") or 1)
        offset = record.get("trace_offset_ms")
        line = timeline.build(timeline.read_events(path), seconds, offset)
        seen.add(key)
        made.append(figures.of_card(timeline.card(record, line)))
    return made


def releases(configs: list[Config], figures: Figures) -> list[dict]:
    made = []
    fields = (
        ("ops_per_s", "operations per second", look.rate, False),
        ("peak_rss_bytes", "peak memory", look.size, False),
        ("free_ns_p999", "pause, 99.9 %, logarithmic", look.duration, True),
    )
    for members in stats.release_groups(configs):
        drawn = [figures.add(charts.release_dots(members, *field)) for field in fields]
        made.append({
            "title": group_title(members),
            "figures": [name for name in drawn if name],
            "words": words.release_words(members),
            "legend": legends.releases({c.release for c in members if c.scheme != "none"}),
        })  # fmt: skip
    return made


def allocators(configs: list[Config], figures: Figures) -> list[dict]:
    made = []
    for members in stats.allocator_groups(configs):
        speed = charts.allocator_dots(members, "ops_per_s", "operations per second", look.rate)
        memory = charts.allocator_dots(members, "peak_rss_bytes", "peak memory", look.size)
        c = members[0].conditions
        made.append({
            "title": f"{c.structure} · {look.count(c.keys)} keys · "
                     f"{words.threads_text(members[0].threads)}",
            "figures": [name for name in map(figures.add, (speed, memory)) if name],
            "words": words.allocator_words(members),
            "legend": legends.allocators({m.conditions.allocator for m in members}),
        })  # fmt: skip
    return made


def table(configs: list[Config]) -> list[dict]:
    ordered = sorted(configs, key=lambda c: (c.conditions.structure, look.sort_key(c.series),
                                             c.conditions.stall, c.threads))  # fmt: skip
    return [_table_row(config) for config in ordered]


def _table_row(config: Config) -> dict:
    c = config.conditions
    extras = [
        name
        for name, there in (("stalled", c.stall), ("traced", c.traced), ("counted", c.counted))
        if there
    ]
    extras += [f"batch {look.count(c.batch)}"] if c.batch else []
    cells = [
        (c.structure, c.structure),
        (look.scheme(config.scheme).title, config.scheme),
        (config.release, config.release),
        (str(config.threads), config.threads),
        (look.count(c.keys), c.keys),
        (f"{c.update}", c.update),
        (f"{c.seconds:g}", c.seconds),
        (c.allocator, c.allocator),
        (", ".join(extras) or "–", " ".join(extras)),
        (str(len(config.trials)), len(config.trials)),
    ]
    formats = {
        "ops_per_s": look.rate, "peak_rss_bytes": look.size, "garbage_peak": look.count,
        "garbage_bound": look.count, "free_ns_p50": look.duration, "free_ns_p999": look.duration,
        "free_ns_max": look.duration, "retired": look.count, "freed": look.count,
        "epochs": look.count,
    }  # fmt: skip
    figures = []
    for name, text in formats.items():
        value = getattr(config, name)
        if value is None:
            figures.append({"text": "none" if name == "garbage_bound" else "–", "sort": "",
                            "range": ""})  # fmt: skip
            continue
        varied = value.count > 1 and value.low != value.high
        figures.append({
            "text": text(value.median), "sort": value.median,
            "range": look.between(value.low, value.high, text) if varied else "",
        })  # fmt: skip
    command = config.trials[0].record.get("lab", {}).get("command") or []
    return {
        "cells": cells,
        "figures": figures,
        "command": shlex.join(command).replace("'", "") if command else "",
        "colour": look.scheme_colour(config.scheme)[1:],
    }


def commands(paths: list[Path], only_paper: bool) -> dict:
    names = shlex.join(str(path) for path in paths)
    if only_paper:
        return {"report": "./dev lab paper                 # all of it; --quick for a few minutes"}
    return {"report": f"./dev lab report {names} --out report.html"}
