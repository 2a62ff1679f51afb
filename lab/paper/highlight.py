# SPDX-License-Identifier: Apache-2.0
"""At most six curves of a picture stand out: those that the page's claims speak of most. The others
are grey, in the picture and in its legend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from markupsafe import Markup

from lab import charts
from lab.verdict import Claim, Growth, Promise, Sub

MOST = 6
FAINT = "@muted/0.45"
GREY = {"color": FAINT, "width": 1.2}
# Fields of records by which curves are told apart.
FIELDS = ("sync", "pointer", "collector", "versions", "engine")


def spoken_of(claims: Iterable[Sub]) -> list[str]:
    """The names of curves, those that most claims speak of first."""
    counts: Counter[str] = Counter()
    for claim in claims:
        arms = (claim.more, claim.less) if isinstance(claim, Claim) else ()
        arms = (claim.arm,) if isinstance(claim, Promise) else arms
        arms = (claim.many.more, claim.many.less) if isinstance(claim, Growth) else arms
        for arm in arms:
            counts.update({arm.name, *(name for record in arm.records for name in _names(record))})
    return [name for name, _ in counts.most_common()]


def _names(record: dict) -> list[str]:
    found = [record[field] for field in FIELDS if isinstance(record.get(field), str)]
    if "scheme" in record and "release" in record:
        found.append(charts.series_id((record["scheme"], record["release"])))
    return found


def block(made: dict, first: list[str]) -> dict:
    """The same block with what does not stand out in grey; `first` are names in their order."""
    curves = [t for figure in made["figures"] for t in figure["data"]
              if str(t.get("mode", "")).startswith("lines")]  # fmt: skip
    names = list(dict.fromkeys(t.get("meta") for t in curves))
    if len(names) <= MOST:
        return made
    ordered = [name for name in first if name in names]
    kept = [*ordered, *(name for name in names if name not in ordered)][:MOST]
    figures = [{**figure, "data": [_faded(t) if t in curves and t.get("meta") not in kept else t
                                   for t in figure["data"]]}
               for figure in made["figures"]]  # fmt: skip
    legend = [
        chip if chip["series"] in kept else
        {**chip, "icon": Markup('<span class="faint">{}</span>').format(chip["icon"])}
        for chip in made["legend"]
    ]  # fmt: skip
    return {**made, "figures": figures, "legend": legend}


def _faded(curve: dict) -> dict:
    """Behind the others, and thinner."""
    line = {**curve.get("line", {}), **GREY}
    mark = {**curve.get("marker", {}), "color": FAINT, "size": 5, "line": {"color": FAINT}}
    errors = {"error_y": {**curve["error_y"], "color": FAINT}} if "error_y" in curve else {}
    return {**curve, "line": line, "marker": mark, **errors}
