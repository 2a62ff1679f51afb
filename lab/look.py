# SPDX-License-Identifier: Apache-2.0
"""Fixed names, colours and markers of schemes and releases; number formats."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Scheme:
    title: str
    short: str
    light: str
    dark: str
    marker: str


# A family shares a hue: tokens blue to violet, DEBRA and its kin orange, pointers red to pink,
# neutralization green, eras and intervals brown to olive.
SCHEMES = {
    "none": Scheme("Leaking", "leak", "#6f7680", "#9aa2ad", "x"),
    "token": Scheme("Token", "token", "#1f5fd6", "#6aa2ff", "circle"),
    "robust_token": Scheme("Robust token", "robust t.", "#0b3f8f", "#a9cbff", "hexagram"),
    "token_naive": Scheme("Token, naive", "t. naive", "#8a3fd1", "#bf8cff", "triangle-up"),
    "token_pass_first": Scheme(
        "Token, pass-first", "t. pass-first", "#0a93b5", "#4fc7e3", "triangle-right"
    ),
    "token_periodic": Scheme(
        "Token, periodic", "t. periodic", "#5b57c8", "#9a98ff", "triangle-down"
    ),
    "debra": Scheme("DEBRA", "debra", "#d9730d", "#ff9f45", "square"),
    "hazard_pointers": Scheme("Hazard pointers", "haz. ptr", "#cf2f5a", "#ff7193", "diamond"),
    "neutralization": Scheme("Neutralization", "nbr", "#2e8b3d", "#63c974", "pentagon"),
    "neutralization_plus": Scheme("Neutralization+", "nbr+", "#00796b", "#35c4b0", "hexagon"),
    "qsbr": Scheme("Quiescent states", "qsbr", "#a8551e", "#e0935c", "star"),
    "reservations": Scheme("Epoch reservations", "reserv.", "#b58900", "#e6c34a", "star-diamond"),
    "hazard_eras": Scheme("Hazard eras", "eras", "#a2397f", "#e27fc3", "cross"),
    "wait_free_eras": Scheme("Wait-free eras", "wf eras", "#7d4a6b", "#c294b3", "hourglass"),
    "intervals": Scheme("Intervals", "ibr", "#6b7d12", "#b4c85a", "bowtie"),
}
# How other libraries protect what is read; their release policy is their own.
RIVALS = {
    "mutex": Scheme("One mutex", "mutex", "#4a4a4a", "#c9c9c9", "square"),
    "shared_mutex": Scheme("One shared mutex", "sh. mutex", "#6b6b6b", "#b0b0b0", "cross"),
    "sharded_mutex": Scheme("64 mutexes", "64 mutexes", "#8c8c8c", "#969696", "hourglass"),
    "urcu_memb": Scheme("liburcu memb", "urcu memb", "#1b7f79", "#58c9c2", "triangle-up"),
    "urcu_qsbr": Scheme("liburcu qsbr", "urcu qsbr", "#3f9c35", "#8fdc86", "triangle-down"),
    "urcu_bp": Scheme("liburcu bp", "urcu bp", "#126a8a", "#5fb8d9", "triangle-right"),
    "cds_hp": Scheme("libcds HP", "cds hp", "#b0305c", "#f08aae", "diamond"),
    "cds_dhp": Scheme("libcds DHP", "cds dhp", "#9c3d2e", "#e89a8c", "pentagon"),
    "cds_rcu": Scheme("libcds RCU", "cds rcu", "#7a4fb5", "#bfa0ee", "hexagon"),
    "cds_rcu_threaded": Scheme(
        "libcds RCU, freeing thread", "cds rcu thr.", "#5c5a9e", "#a8a6e6", "star"
    ),
    "bucket_locks": Scheme("oneTBB", "onetbb", "#946c00", "#dcb44c", "bowtie"),
}
OWN = "own"
KNOWN = SCHEMES | RIVALS
UNKNOWN = ("#7a6a58", "#b8a691", "circle")

SHORT = {"amortized": "amort."}
DASHES = {"amortized": "solid", "batch": "dash", "pooled": "dot"}
ALLOCATORS = {
    "glibc": ("#6f7680", "#9aa2ad", "square"),
    "jemalloc": ("#d9730d", "#ff9f45", "circle"),
    "tcmalloc": ("#1f5fd6", "#6aa2ff", "diamond"),
    "mimalloc": ("#2e8b3d", "#63c974", "triangle-up"),
}
# Colours of the counted pictures, light and dark: what is the same everywhere needs no scheme.
PARTS = {
    "part-work": ("#b9c4d0", "#4b5664"),
    "part-free": ("#d9730d", "#ff9f45"),
    "part-wait": ("#d1344b", "#ff6b7f"),
}
# How versions are collected: title, light, dark.
COLLECTORS = {
    "epoch_collector": ("Epochs", "#6f7680", "#9aa2ad"),
    "steam": ("STEAM", "#b58900", "#e6c34a"),
    "dl_rt": ("DL-RT", "#2e8b3d", "#63c974"),
    "sl_rt": ("SL-RT", "#1f5fd6", "#6aa2ff"),
    "bbf": ("BBF+", "#cf2f5a", "#ff7193"),
}
# Colours by position, of schemes that have none of their own: the first gets the default's.
PLACES = ("token", "debra", "neutralization_plus", "hazard_pointers", "token_naive", "reservations",
          "hazard_eras", "none")  # fmt: skip
NO_BREAK = "\N{NO-BREAK SPACE}"


def scheme(name: str) -> Scheme:
    if name in KNOWN:
        return KNOWN[name]
    title = name.replace("_", " ").capitalize()
    return Scheme(title, title, *UNKNOWN)


def series_title(series: tuple[str, str]) -> str:
    """A scheme that never frees has no release policy to speak of, and a rival one of its own."""
    name, release = series
    if name == "none" or release == OWN:
        return scheme(name).title
    return f"{scheme(name).title} · {release}"


def series_short(series: tuple[str, str]) -> str:
    name, release = series
    short = scheme(name).short
    return short if name == "none" or release == OWN else f"{short} · {SHORT.get(release, release)}"


def sort_key(series: tuple[str, str]) -> tuple:
    """The order of the legend: the default first, then as listed above, releases by name."""
    names = ["token", *(name for name in KNOWN if name not in ("token", "none")), "none"]
    name, release = series
    place = names.index(name) if name in names else len(names)
    order = {"amortized": 0, "pooled": 1, "batch": 2}
    return place, name, order.get(release, 3), release


def colours() -> dict[str, tuple[str, str]]:
    """Light and dark value of every colour that a chart may name as '@name'."""
    named = {f"scheme-{name}": (s.light, s.dark) for name, s in KNOWN.items()}
    named.update({f"allocator-{name}": value[:2] for name, value in ALLOCATORS.items()})
    named.update({collector_colour(name)[1:]: value[1:] for name, value in COLLECTORS.items()})
    named.update(PARTS)
    named["unknown"] = UNKNOWN[:2]
    return named


def scheme_colour(name: str) -> str:
    return f"@scheme-{name}" if name in KNOWN else "@unknown"


def place_colour(place: int) -> str:
    return scheme_colour(PLACES[place % len(PLACES)])


def collector_colour(name: str) -> str:
    # Style sheets know no name with a plus.
    plain = name.replace("+", "-plus")
    return f"@collector-{plain}" if name in COLLECTORS else "@unknown"


def collector_title(name: str) -> str:
    return COLLECTORS[name][0] if name in COLLECTORS else name


def allocator_colour(name: str) -> str:
    return f"@allocator-{name}" if name in ALLOCATORS else "@unknown"


def _three(value: float) -> str:
    """Three significant digits at most, no exponent, no trailing zeros."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(value: float, steps: list[tuple[float, str]]) -> str:
    for size, unit in steps:
        # 999.6 K would print as 1,000 K.
        if abs(value) >= size * 0.9995:
            return _three(value / size) + (NO_BREAK + unit if unit else "")
    return _three(value) + (NO_BREAK + steps[-1][1] if steps[-1][1] else "")


def count(value: float | None) -> str:
    if value is None:
        return "–"
    return _scaled(value, [(1e9, "G"), (1e6, "M"), (1e3, "K"), (1, "")])


def rate(value: float | None) -> str:
    if not value:
        return "–" if value is None else "0"
    return count(value) + "/s"


def size(value: float | None) -> str:
    if value is None:
        return "–"
    return _scaled(value, [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")])


def duration(nanoseconds: float | None) -> str:
    if nanoseconds is None:
        return "–"
    return _scaled(nanoseconds, [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")])


def between(low: float, high: float, text) -> str:
    """A range with its unit said once where both ends have the same."""
    first, last = text(low), text(high)
    number, _, unit = first.partition(NO_BREAK)
    same = last.partition(NO_BREAK)[2] == unit
    return f"{number if same else first} – {last}"


def number(value: float) -> str:
    """Three digits, and no exponent."""
    return count(value) if value >= 1000 else f"{value:.3g}"


def times(ratio: float) -> str:
    if ratio >= 100:
        return f"{ratio:,.0f}{NO_BREAK}×"
    return (f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}") + f"{NO_BREAK}×"


def percent(share: float) -> str:
    return f"{share * 100:.0f}{NO_BREAK}%"


def duration_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Ticks of a logarithmic axis of nanoseconds, one a decade."""
    first = math.floor(math.log10(max(low, 1)))
    last = math.ceil(math.log10(max(high, 10)))
    values = [10.0**power for power in range(first, last + 1)]
    return values, [duration(value) for value in values]


# Of the largest of a picture's figures: what differs by less is drawn as if it were the same.
ALIKE = 1e-9


def log_ticks(low: float, high: float, text) -> tuple[list[float], list[str]]:
    """Ticks 1, 2, 5 of each decade, thinned to one a decade over a long range; over a range so
    short that it holds less than two of them, ticks at even distances."""
    first = math.floor(math.log10(low))
    last = math.ceil(math.log10(high))
    steps = (1, 2, 5) if math.log10(high / low) < 1.6 else (1,)
    values = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    if sum(low <= value <= high for value in values) < 2:
        values = even_ticks(high, max((high - low) / 4, high * ALIKE), low)
    return values, [text(value) for value in values]


def even_ticks(high: float, distance: float, low: float = 0) -> list[float]:
    """From `low` to `high`, in round steps of about `distance`, or more."""
    size = 10 ** math.floor(math.log10(distance)) if distance > 0 else 1
    step = next(s * size for s in (1, 2, 2.5, 5, 10) if s * size >= distance)
    return [step * number for number in range(math.ceil(low / step), int(high / step) + 1)]
