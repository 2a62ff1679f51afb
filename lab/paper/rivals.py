# SPDX-License-Identifier: Apache-2.0
"""The page beside other libraries, for whatever of them the results hold."""

from __future__ import annotations

from lab import charts, look, words
from lab.paper import arms, blocks, factors
from lab.paper.found import Found
from lab.paper.page import Page, Scale, Shown
from lab.stats import Config, by_conditions, compare
from lab.verdict import Absent, Arm, Sub

OWN = ("abtree", "avl", "external_bst", "list")
DEFAULTS = (("token", "amortized"), ("robust_token", "amortized"))
# Of each library's set the one of ours that it is judged beside, named before anything is measured;
# hash tables without an order have none.
LIKE = {"std_map": "abtree", "cds_skip_list": "abtree", "cds_ellen_bst": "external_bst",
        "cds_bronson_avl": "avl", "urcu_list": "list", "cds_michael_list": "list",
        "cds_lazy_list": "list"}  # fmt: skip


def _is_rival(config: Config) -> bool:
    return config.conditions.structure not in OWN


def _rivals_cells(scale: Scale) -> list:
    cells = []
    for structure, scheme, release in scale.rivals:
        keys = 1000 if structure.endswith("list") and "skip" not in structure else scale.keys
        cells += [scale.cell(structure, (scheme, release), t, keys=keys) for t in scale.threads]
    if not cells:
        return []
    own = [scale.cell(structure, series, t, keys=1000 if structure == "list" else scale.keys)
           for structure in OWN for series in DEFAULTS for t in scale.threads]  # fmt: skip
    return cells + own


def _name(config: Config) -> str:
    scheme = look.scheme(config.scheme).title
    return f"{config.conditions.structure.replace('_', ' ')} · {scheme.lower()}"


def _rivals(found: Found) -> Shown | None:
    groups: dict[tuple, list[Config]] = {}
    for conditions, members in by_conditions(found.configs).items():
        if conditions.stall or conditions.traced or conditions.counted:
            continue
        c = conditions
        same = (c.keys, c.update, c.seconds, c.allocator, c.run)
        for config in members:
            if _is_rival(config) or config.series in DEFAULTS:
                groups.setdefault((*same, config.threads), []).append(config)
    made, told, claims = [], [], []
    for members in groups.values():
        rivals = [c for c in members if _is_rival(c)]
        ours = [c for c in members if not _is_rival(c)]
        if not rivals or members[0].threads != found.full(found_at(groups, members)):
            continue
        made.append(_dots(members))
        claims += [_beside(rival, ours) for rival in rivals
                   if rival.conditions.structure in LIKE]  # fmt: skip
        if ours:
            best = max(rivals, key=lambda c: c.ops_per_s.median)
            own = max(ours, key=lambda c: c.ops_per_s.median)
            gain = compare(own.ops_per_s, best.ops_per_s)
            told.append(
                f"{_name(own)} is {words.speed_words(gain)} the best of them, {_name(best)}"
            )
    if not made:
        return None
    return Shown(made, "; ".join(told) + "." if told else "Nothing of ours beside them.",
                 claims)  # fmt: skip


def _beside(rival: Config, ours: list[Config]) -> Sub:
    """That of ours which is like it is faster."""
    mine, where = _like(rival, ours), words.threads_text(rival.threads)
    if mine is None:
        name = f"{LIKE[rival.conditions.structure]} > {_name(rival)}"
        return Absent(name, where, "ours was not measured")
    pair = (Arm(_name(one), arms.records_of(one), "ops_per_s") for one in (mine, rival))
    return arms.claim(*pair, where, varies=factors.LIBRARY)


def _like(rival: Config, ours: list[Config]) -> Config | None:
    wanted = LIKE.get(rival.conditions.structure)
    return next((c for c in ours if c.conditions.structure == wanted and c.series == DEFAULTS[0]),
                None)  # fmt: skip


def found_at(groups: dict[tuple, list[Config]], members: list[Config]) -> list[Config]:
    """All configurations equal to these but for their number of threads."""
    key = next(key for key, value in groups.items() if value is members)
    return [c for other, some in groups.items() if other[:-1] == key[:-1] for c in some]


def _dots(members: list[Config]) -> dict:
    rows = sorted(members, key=lambda c: -c.ops_per_s.median)
    points = []
    for place, config in enumerate(rows):
        colour = look.scheme_colour(config.scheme)
        points.append({
            "row": place, "value": config.ops_per_s, "meta": "speed", "colour": colour,
            "title": _name(config),
            "marker": {"symbol": "diamond" if _is_rival(config) else "circle", "size": 12,
                       "color": colour, "line": {"color": colour, "width": 2}},
        })  # fmt: skip
    names = [(_name(c), _name(c)) for c in rows]
    chart = charts.dots(names, points, "operations per second", look.rate)
    c = members[0].conditions
    title = (
        f"{look.count(c.keys)} keys · {c.update}{look.NO_BREAK}% updates · {c.allocator} · "
        f"{words.threads_text(members[0].threads)}"
    )
    return blocks.charts_block(title, [chart], [])


RIVALS = Page(
    key="rivals", name="Beside rivals", title="Other libraries in the same run",
    paper="The paper compares schemes within one program. Here other libraries' maps run in the "
          "same series as ours: diamonds are theirs, circles ours.",
    cells=_rivals_cells, show=_rivals,
    limits="Their structures are not ours; a comparison of maps, not of schemes.",
)  # fmt: skip

PAGES = [RIVALS]
