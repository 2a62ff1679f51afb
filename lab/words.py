# SPDX-License-Identifier: Apache-2.0
"""Sentences made from the figures, none of them bolder than the figures are."""

from __future__ import annotations

from dataclasses import dataclass

from lab import look
from lab.stats import (
    DEFAULT,
    Comparison,
    Config,
    Spread,
    compare,
    find,
    release_groups,
    stalled,
    throughput_panels,
)
from lab.verdict import EQUAL

NAME = "token epochs with amortized freeing"


def listed(words: list[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return ", ".join(words[:-1]) + " and " + words[-1]


def threads_text(threads: int) -> str:
    return f"{threads} thread" + ("s" if threads != 1 else "")


def title(series: tuple[str, str]) -> str:
    """The name of a series inside a sentence."""
    name, release = series
    plain = look.scheme(name).title
    return plain if name == "none" or release == look.OWN else f"{plain} ({release})"


def speed_words(comparison: Comparison) -> str:
    """'1.38 × as fast as', or the same with a warning."""
    text = f"{look.times(comparison.ratio)} as fast as"
    return text if comparison.proven else text.replace("as fast", "(unproven) as fast", 1)


@dataclass
class Reference:
    """The conditions that the summary speaks of: the largest panel with the default in it, at
    as many threads as there are cores."""

    configs: list[Config]
    threads: int

    def find(self, series: tuple[str, str]) -> Config | None:
        return find(self.configs, series, self.threads)

    def at(self) -> list[Config]:
        return [config for config in self.configs if config.threads == self.threads]

    def where(self) -> str:
        conditions = self.configs[0].conditions
        return (
            f"{conditions.structure}, {look.count(conditions.keys)} keys, "
            f"{conditions.update}{look.NO_BREAK}% updates, {threads_text(self.threads)}, "
            f"{conditions.allocator}"
        )


def reference(configs: list[Config], cores: int | None) -> Reference | None:
    panels = [
        members
        for members in throughput_panels(configs).values()
        if find(members, DEFAULT) is not None
    ]
    if not panels:
        return None
    members = max(panels, key=lambda m: (m[0].conditions.structure == "abtree", len(m)))
    counts = sorted({c.threads for c in members if c.series == DEFAULT})
    fitting = [count for count in counts if count <= (cores or counts[-1])]
    return Reference(members, (fitting or counts)[-1])


def pause_pair(configs: list[Config]) -> tuple[Config, Config] | None:
    """The default and its batch twin under equal conditions, largest batches first."""
    for members in release_groups(configs):
        amortized, batch = find(members, DEFAULT), find(members, (DEFAULT[0], "batch"))
        if amortized and batch and amortized.free_ns_p999 and batch.free_ns_p999:
            return amortized, batch
    return None


def tiles(configs: list[Config], ref: Reference | None) -> list[dict]:
    """The large figures at the top."""
    found = []
    default = ref.find(DEFAULT) if ref else None
    leak = ref.find(("none", "batch")) if ref else None
    if default and leak:
        speed = compare(default.ops_per_s, leak.ops_per_s)
        note = f" – {speed.doubt}" if speed.doubt else ""
        found.append({"value": look.times(speed.ratio), "label": "the speed of leaking",
                      "note": f"{look.rate(default.ops_per_s.median)} against "
                              f"{look.rate(leak.ops_per_s.median)}{note}"})  # fmt: skip
        if default.peak_rss_bytes and leak.peak_rss_bytes:
            found.append({"value": look.size(default.peak_rss_bytes.median),
                          "label": "peak memory",
                          "note": f"leaking: {look.size(leak.peak_rss_bytes.median)}"})  # fmt: skip
    pair = pause_pair(configs)
    if pair:
        amortized, batch = pair
        found.append(
            {
                "value": look.duration(amortized.free_ns_p999.median),
                "label": "pause for freeing, 99.9 %",
                "note": f"in batches: {look.duration(batch.free_ns_p999.median)}",
            }
        )
    kept, broken, _ = bounds(stalled(configs))
    if kept or broken:
        found.append({"value": f"{len(kept)} of {len(kept) + len(broken)}",
                      "label": "bounds kept, reader stalled",
                      "note": listed([title(c.series) for c in broken]) + " broke theirs"
                              if broken else "every scheme that states one"})  # fmt: skip
    return found


def headline(configs: list[Config], ref: Reference | None, machine: dict) -> list[str]:
    cores = machine.get("cores")
    place = f"{machine.get('cpu', 'processor unknown')}"
    place += f", {cores} cores" if cores else ""
    sentences = [*_headline_speed(ref, place), *_headline_pause(configs)]
    kept, broken, unbounded = bounds(stalled(configs))
    if kept or broken or unbounded:
        sentences.append(stall_words(kept, broken, unbounded))
    return sentences or [f"Measured on {place}."]


def _headline_speed(ref: Reference | None, place: str) -> list[str]:
    default = ref.find(DEFAULT) if ref else None
    if default is None:
        return []
    text = f"On this machine ({place}) {NAME}"
    leak = ref.find(("none", "batch"))
    sentences = []
    if leak:
        text += f" ran {speed_words(compare(default.ops_per_s, leak.ops_per_s))} leaking memory"
        if default.peak_rss_bytes and leak.peak_rss_bytes:
            text += (
                f", with {look.size(default.peak_rss_bytes.median)} at its peak instead of "
                f"{look.size(leak.peak_rss_bytes.median)}"
            )
        sentences.append(f"{text} ({ref.where()}).")
    else:
        sentences.append(
            f"{text} ran {look.rate(default.ops_per_s.median)} operations ({ref.where()})."
        )
    rivals = [c for c in ref.at() if c.scheme != "none" and not c.scheme.startswith("token")]
    if rivals:
        best = max(rivals, key=lambda c: c.ops_per_s.median)
        against = compare(default.ops_per_s, best.ops_per_s)
        verdict = f": {against.doubt}" if against.doubt else ""
        sentences.append(
            f"Against {title(best.series)}, the fastest scheme that is not a token, it was at "
            f"{look.times(against.ratio)}{verdict}."
        )
    return sentences


def _headline_pause(configs: list[Config]) -> list[str]:
    pair = pause_pair(configs)
    if not pair:
        return []
    amortized, batch = pair
    shorter = batch.free_ns_p999.median / max(1, amortized.free_ns_p999.median)
    text = (
        f"The longest pause that freeing put into an operation was "
        f"{look.duration(batch.free_ns_max.median)} in batches and "
        f"{look.duration(amortized.free_ns_max.median)} amortized; "
        if batch.free_ns_max and amortized.free_ns_max
        else ""
    )
    ratio = f"{look.times(shorter)} shorter" if shorter >= 1 else "not shorter"
    text += f"at the 99.9th percentile amortized freeing was {ratio}."
    return [text[0].upper() + text[1:]]


def bounds(configs: list[Config]) -> tuple[list[Config], list[Config], list[Config]]:
    """Which kept their bound in every trial, which did not, and which state none."""
    kept, broken, unbounded = [], [], []
    for config in sorted(configs, key=lambda c: look.sort_key(c.series)):
        if config.garbage_peak is None:
            continue
        if config.garbage_bound is None:
            unbounded.append(config)
        elif config.garbage_peak.high <= config.garbage_bound.low:
            kept.append(config)
        else:
            broken.append(config)
    return kept, broken, unbounded


def stall_words(kept, broken, unbounded) -> str:
    parts = []
    names = [
        f"{title(c.series)} held {look.count(c.garbage_peak.high)} of at most "
        f"{look.count(c.garbage_bound.low)} nodes"
        for c in kept
    ]
    if names:
        parts.append(f"with one reader stalled, {listed(names)}")
    if broken:
        names = [
            f"{title(c.series)} ({look.count(c.garbage_peak.high)} nodes, "
            f"bound {look.count(c.garbage_bound.low)})"
            for c in broken
        ]
        parts.append(f"{listed(names)} broke the stated bound, which is a defect")
    if unbounded:
        names = list(dict.fromkeys(title(c.series) for c in unbounded))
        have = "has" if len(names) == 1 else "have"
        most = max(c.garbage_peak.high for c in unbounded)
        parts.append(
            f"{listed(names)} {have} no bound then, and garbage grew as long as the reader "
            f"stood still (to {look.count(most)} nodes)"
        )
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""


def throughput_words(members: list[Config], cores: int | None) -> str:
    threads = sorted({c.threads for c in members})
    at = [t for t in threads if t <= (cores or t)] or threads
    here = sorted((c for c in members if c.threads == at[-1]), key=lambda c: -c.ops_per_s.median)
    if len(here) < 2:
        return ""
    top = here[0]
    level = [c for c in here[1:] if not compare(top.ops_per_s, c.ops_per_s).proven]
    text = f"At {threads_text(at[-1])} {title(top.series)} came out on top with "
    text += look.rate(top.ops_per_s.median)
    if level:
        names = listed([title(c.series) for c in level[:4]])
        more = f" and {len(level) - 4} more" if len(level) > 4 else ""
        text += f"; {names}{more} cannot be told apart from it"
    text += f". The slowest was {title(here[-1].series)} with "
    return text + f"{look.rate(here[-1].ops_per_s.median)}."


def beyond_words(members: list[Config], cores: int | None) -> str:
    """What happens to the default once threads outnumber cores."""
    most = max(c.threads for c in members)
    if not cores or most <= cores:
        return ""
    one, other = find(members, DEFAULT, most), find(members, DEFAULT, cores)
    if not one or not other:
        return ""
    change = compare(one.ops_per_s, other.ops_per_s)
    verdict = f"at {look.times(change.ratio)} of its speed" if change.proven else "as fast as"
    return (
        f"Beyond {cores} cores threads only take turns: at {most} threads token, amortized, ran "
        f"{verdict} at {cores}."
    )


def memory_words(members: list[Config]) -> str:
    most = max(c.threads for c in members)
    here = [c for c in members if c.threads == most and c.peak_rss_bytes]
    if len(here) < 2:
        return ""
    freeing = [c for c in here if c.scheme != "none"]
    leak = find(here, ("none", "batch"))
    text = ""
    if len(freeing) > 1:
        low = min(freeing, key=lambda c: c.peak_rss_bytes.median)
        high = max(freeing, key=lambda c: c.peak_rss_bytes.median)
        text = (
            f"At {threads_text(most)} the schemes that free needed from "
            f"{look.size(low.peak_rss_bytes.median)} ({look.series_title(low.series)}) to "
            f"{look.size(high.peak_rss_bytes.median)} ({look.series_title(high.series)})"
        )
    if leak:
        text += "; " if text else ""
        text += f"leaking reached {look.size(leak.peak_rss_bytes.median)} in " \
                f"{leak.conditions.seconds:g}{look.NO_BREAK}s and would go on"  # fmt: skip
    return text + "." if text else ""


def pause_ratios(members: list[Config]) -> list[dict]:
    """Batch beside amortized for each scheme that ran both."""
    rows = []
    for scheme in sorted({c.scheme for c in members}, key=lambda s: look.sort_key((s, ""))):
        one, other = find(members, (scheme, "batch")), find(members, (scheme, "amortized"))
        if not one or not other:
            continue
        row = {"scheme": look.scheme(scheme).title}
        for name in ("free_ns_p999", "free_ns_max"):
            a, b = getattr(one, name), getattr(other, name)
            row[name] = (_cell(a), _cell(b), _ratio(a, b))
        rows.append(row)
    return rows


def _cell(value: Spread | None) -> str:
    return look.duration(value.median) if value else "–"


def _ratio(one: Spread | None, other: Spread | None) -> str:
    if not one or not other or not other.median:
        return "–"
    return look.times(one.median / other.median)


def release_words(members: list[Config]) -> str:
    gains = release_gains(members)
    if not gains:
        return ""
    proven = [f"{look.scheme(s).title} {look.times(g.ratio)}" for s, g in gains if g.proven]
    rest = [look.scheme(s).title for s, g in gains if not g.proven]
    text = ""
    if proven:
        text = f"Amortized against batch, in speed: {listed(proven)}. "
    if rest:
        verb = "no proven difference" if proven else "amortized and batch show no proven difference"
        text += f"{'With ' if not proven else 'For '}{listed(rest)}: {verb}."
    return text


def release_gains(members: list[Config]) -> list[tuple[str, Comparison]]:
    """For each scheme the speed of amortized ÷ batch."""
    gains = []
    for scheme in sorted({c.scheme for c in members}, key=lambda s: look.sort_key((s, ""))):
        one, other = find(members, (scheme, "amortized")), find(members, (scheme, "batch"))
        if one and other:
            gains.append((scheme, compare(one.ops_per_s, other.ops_per_s)))
    return [(scheme, gain) for scheme, gain in gains if gain]


def allocator_words(members: list[Config]) -> str:
    """What amortized freeing brought on each allocator."""
    parts, level = [], []
    for name in sorted({c.conditions.allocator for c in members}):
        own = [c for c in members if c.conditions.allocator == name]
        for scheme, gain in release_gains(own):
            label = f"{look.scheme(scheme).title} on {name}"
            if gain.proven:
                parts.append(f"{label} {look.times(gain.ratio)}")
            else:
                level.append(label)
    text = f"Amortized against batch, in speed: {listed(parts)}. " if parts else ""
    if level:
        text += f"No proven difference: {listed(level)}."
    return text


def threshold() -> str:
    """What counts as equal."""
    return f"{(EQUAL - 1) * 100:.0f}{look.NO_BREAK}%"
