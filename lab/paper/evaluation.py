# SPDX-License-Identifier: Apache-2.0
"""Section 5 of the paper: experiment 1 (all schemes, threads swept) and experiment 2 (batch against
amortized for all of them), on three structures, and under each allocator."""

from __future__ import annotations

from lab import charts, legends, look, words
from lab.paper import arms, blocks, factors
from lab.paper.amortizing import IMMUNE, PAPER_FACTORS, gains_of
from lab.paper.found import Found
from lab.paper.page import LARGE_BATCH, Page, Scale, Shown
from lab.stats import Comparison, Config, compare, find
from lab.verdict import LEVEL, MORE, Absent, Sub

LEAK, OURS = ("none", "batch"), ("token_periodic", "amortized")
TREES = {
    "abtree": "Figure 11a",
    "external_bst": "Figure 14",
    "avl": "not in the paper",
}
CLAIMED = ("abtree", "external_bst")  # of these the paper has figures
# Which of our schemes stands for which of the paper's ten.
TEN = ("debra", "hazard_eras", "hazard_pointers", "intervals", "neutralization",
       "neutralization_plus", "qsbr", "reservations", "token_periodic",
       "wait_free_eras")  # fmt: skip
# How many times as fast the paper's ring is with amortized freeing, on average (experiment 1), and
# a scheme with amortized freeing as with batches (experiment 2).
AHEAD = {"neutralization_plus": 1.7, "hazard_pointers": 7.0, "hazard_eras": 7.0}
GAINS = {"hazard_pointers": 1.2, "wait_free_eras": 1.2}
NONE_GAINED = "hazard_eras"
_FEW = "1.2 times for hazard pointers and wait-free eras, not at all for hazard eras"
PAPER_GAINS = {"abtree": f"2.3 times at best, over 1.5 times for six of them, {_FEW}",
               "external_bst": _FEW}  # fmt: skip
# Of those that are neither of these: the best of them, and how many gain so much at least.
BEST_GAIN, LARGE_GAIN, LARGE_GAINS = 2.3, 1.5, 6


def _lineup(schemes: list[str]) -> list[tuple[str, str]]:
    """As in the paper: every scheme as it was published, and the two amortized ones; ours too."""
    published = [(s, "batch") for s in schemes if s in TEN and s != "token_periodic"]
    own = [(s, "amortized") for s in ("token", "robust_token", "token_periodic", "debra")
           if s in schemes]  # fmt: skip
    return [LEAK, *published, *own]


def _experiment_1_cells(structure: str):
    def cells(scale: Scale) -> list:
        return [
            scale.cell(structure, series, threads)
            for series in _lineup(scale.schemes(structure))
            for threads in scale.threads
        ]

    return cells


def _means(members: list[Config]) -> dict[tuple[str, str], float]:
    """Of each series the mean over all numbers of threads, as the paper averages."""
    ours, leak = ({c.threads for c in members if c.series == s} for s in (OURS, LEAK))
    numbers = ours & leak
    means = {}
    for series in {c.series for c in members}:
        found = [find(members, series, n) for n in numbers]
        if numbers and all(found):
            means[series] = sum(c.ops_per_s.median for c in found) / len(found)
    return means


def _standing(members: list[Config]) -> tuple[dict, dict] | None:
    """The means of all series in the line-up, and of the published schemes among them."""
    wanted = _lineup([c.scheme for c in members])
    means = {s: m for s, m in _means(members).items() if s in wanted}
    rivals = {s: m for s, m in means.items()
              if s[1] == "batch" and s != LEAK and not s[0].startswith("token")}  # fmt: skip
    return (means, rivals) if rivals and LEAK in means else None


def _paper_lineup() -> list[tuple[str, str]]:
    """What the paper compares its ring with: leaking, and its other nine as they were published."""
    return [LEAK, *((scheme, "batch") for scheme in TEN if scheme != OURS[0])]


def _experiment_1(structure: str):
    def show(found: Found) -> Shown | None:
        members = found.pick(structure, [OURS, LEAK], threads=2)
        if members is None:
            return None
        standing = _standing(members)
        if standing is None:
            return None
        means, rivals = standing
        best, worst = max(rivals, key=rivals.get), min(rivals, key=rivals.get)
        ours = means[OURS]
        here = (
            f"Averaged over all numbers of threads, token epochs with amortized freeing run at "
            f"{look.times(ours / means[LEAK])} the speed of leaking, "
            f"{look.times(ours / rivals[best])} the next fastest published scheme "
            f"({look.scheme(best[0]).title}) and "
            f"{look.times(ours / rivals[worst])} the slowest ({look.scheme(worst[0]).title})"
        )
        shown = blocks.lines(found, members, list(means))
        claims = _fastest(members, _paper_lineup()) if structure in CLAIMED else []
        if structure == "abtree":
            claims += [
                arms.of_pair(members, ("debra", "amortized"), LEAK, threads, "ops_per_s", "speed")
                for threads in _ran(members)
            ]
        return Shown(shown, here + ".", claims)

    return show


def _fastest(members: list[Config], others: list[tuple[str, str]]) -> list[Sub]:
    """The paper's ring with amortized freeing against each of the others, wherever it ran."""
    return [
        arms.of_pair(members, OURS, other, threads, "ops_per_s", "speed",
                     factor=AHEAD.get(other[0], 1.0))
        for threads in _ran(members)
        for other in others
    ]  # fmt: skip


def _ran(members: list[Config]) -> list[int]:
    """With how many threads the paper's ring was run."""
    return sorted({c.threads for c in members if c.series == OURS})


def _experiment_1_page(structure: str) -> Page:
    figure = TREES[structure]
    return Page(
        key=f"experiment-1-{structure}", name="Experiment 1", title=f"All schemes on {structure}",
        paper=f"({figure}) Token epochs with amortized freeing are fastest at every number of "
              "threads: on average 1.7 times the next fastest, NBR+, seven to nine times hazard "
              "pointers and hazard eras, and faster than leaking"
              + (", as is DEBRA with amortized freeing." if structure == "abtree" else ".")
        if figure.startswith("Figure") else
        "Not in the paper, which shows this tree with DEBRA only (figure 1). Its searches step "
        "through unlinked nodes, so only schemes that protect a whole region can guard it.",
        cells=_experiment_1_cells(structure), show=_experiment_1(structure), short=structure,
        limits="Up to two threads run at once here; beyond the dashed line threads take turns. "
               "Schemes that pay for each node they read are slower on any machine; what batches "
               "cost shows at scale only.",
    )  # fmt: skip


def _under_allocators_cells(scale: Scale) -> list:
    # One thread waits for no other in an allocator.
    several = [t for t in scale.threads if t >= scale.full] or scale.threads
    return [
        scale.cell("abtree", series, threads, allocator=name)
        for series in _lineup(scale.schemes("abtree"))
        for threads in several
        for name in scale.allocators
    ]


def _under_allocators(found: Found) -> Shown | None:
    charted, told, claims = [], [], []
    means: dict[str, dict] = {}
    shown: set = set()
    for name in sorted({c.conditions.allocator for c in found.configs}):
        members = found.pick("abtree", [OURS, LEAK], allocator=name)
        standing = _standing(members) if members else None
        if standing is None:
            continue
        means[name], rivals = standing
        here = [c for c in members if c.series in means[name]]
        shown |= {c.series for c in here}
        title = f"operations per second, {name}"
        charted.append(charts.against_threads(here, "ops_per_s", title, look.rate, found.cores))
        best = max(rivals, key=rivals.get)
        times = look.times(means[name][OURS] / rivals[best])
        told.append(f"{times} under {name} ({look.scheme(best[0]).title})")
        if name == "jemalloc":
            claims += _fastest(here, _paper_lineup())
    if len(means) < 2:
        return None
    if not claims:
        claims.append(Absent(f"{look.series_title(OURS)} > all others: speed", "jemalloc",
                             "jemalloc: not installed, or not run",
                             lacks=("jemalloc",)))  # fmt: skip
    claims.append(arms.cannot("batches cost much under jemalloc and tcmalloc, nothing under "
                              "mimalloc", "DEBRA", "judged of batches of 32 K, as the paper has "
                              "them: tables 2 and 3"))  # fmt: skip
    rows = [[look.series_title(series),
             *[look.times(m[series] / m[LEAK]) if series in m else "–" for m in means.values()]]
            for series in sorted(shown - {LEAK}, key=look.sort_key)]  # fmt: skip
    made = [
        blocks.charts_block("abtree, each allocator", charted, legends.series(shown)),
        blocks.table(["÷ leaking", *means], rows, "Speed, mean over all numbers of threads"),
    ]
    here = "The paper's ring, amortized, ÷ the next fastest published scheme, on average: "
    return Shown(made, here + words.listed(told) + ".", claims)


UNDER_ALLOCATORS = Page(
    key="experiment-1-allocators", name="Experiment 1",
    title="All schemes under four allocators",
    paper="Under jemalloc only: token epochs with amortized freeing are 1.7 times the next "
          "fastest, and faster than leaking. What an allocator changes is shown for DEBRA (tables "
          "2 and 3): batches cost much under jemalloc and tcmalloc, and nothing under mimalloc.",
    cells=_under_allocators_cells, show=_under_allocators, short="allocators",
    limits="The table compares with leaking under the same allocator, which is slow where fresh "
           "memory is dear. The verdict is on jemalloc, as the paper's claim is.",
)  # fmt: skip


def _pairs(members: list[Config], threads: int) -> list[tuple[str, Comparison]]:
    gains = []
    for scheme in sorted({c.scheme for c in members if c.scheme != "none"}):
        one, other = (find(members, (scheme, r), threads) for r in ("amortized", "batch"))
        gain = compare(one.ops_per_s, other.ops_per_s) if one and other else None
        if gain:
            gains.append((scheme, gain))
    return sorted(gains, key=lambda item: -item[1].ratio)


def _experiment_2_cells(structure: str):
    def cells(scale: Scale) -> list:
        return [
            scale.cell(structure, (scheme, release), scale.full, batch=LARGE_BATCH, count=count)
            for scheme in scale.schemes(structure)
            for release in ("batch", "amortized")
            for count in ((False, True) if structure == "abtree" else (False,))
        ]

    return cells


def _fewer(found: Found, structure: str, scheme: str) -> float | None:
    """How many times as many flushes of a buffer batch has for each block freed."""
    pair = found.pair(structure, (scheme, "batch"), (scheme, "amortized"), counted=True,
                      batch=LARGE_BATCH)  # fmt: skip
    if pair is None or not all(c.allocator_flushes and blocks.enough(c) for c in pair):
        return None
    each = [c.allocator_flushes.median / max(1, c.frees.median) for c in pair]
    return each[0] / each[1] if each[1] else None


def _experiment_2(structure: str):
    def show(found: Found) -> Shown | None:
        best, gains = None, []
        for members in found.panels(structure):
            full = found.full(members)
            some = _pairs(members, full)
            rank = (len(some), members[0].conditions.batch or 0)
            if len(some) >= 3 and (best is None or rank > best[0]):
                best, gains = (rank, members, full), some
        if best is None:
            return None
        _, members, full = best
        at = [c for c in members if c.threads == full]
        legend = legends.releases({c.release for c in at if c.scheme != "none"})
        made = [charts.release_dots(at, "ops_per_s", "operations per second", look.rate),
                charts.release_dots(at, "free_ns_p999", "pause, 99.9 %, logarithmic",
                                    look.duration, True)]  # fmt: skip
        title = f"{blocks.where(at, True)}"
        rows, fewer = [], []
        for scheme, gain in gains:
            times = _fewer(found, structure, scheme)
            fewer.append(times)
            rows.append([look.scheme(scheme).title, look.times(gain.ratio),
                         "proven" if gain.proven else "unproven",
                         look.times(times) if times else "–"])  # fmt: skip
        up = [s for s, g in gains if g.proven and g.ratio > 1]
        down = [s for s, g in gains if g.proven and g.ratio < 1]
        here = (
            f"{len(up)} of {len(gains)} schemes proven faster with amortized freeing, "
            f"{len(down)} proven slower; best {look.scheme(gains[0][0]).title} at "
            f"{look.times(gains[0][1].ratio)}"
        )
        told = [f for f in fewer if f]
        if told:
            here += ". For each block freed, batch flushes the thread's buffer up to "
            here += f"{look.times(max(told))} as often"
        head = ["", "amortized ÷ batch", "", "flushes a free, batch ÷ amortized"]
        if not told:
            head, rows = head[:3], [row[:3] for row in rows]
        return Shown([blocks.charts_block(title, made, legend), blocks.table(head, rows)],
                     here + ".", _gained(at, structure, gains, full))  # fmt: skip

    return show


def _gained(members: list[Config], structure: str, gains: list[tuple[str, Comparison]],
            threads: int) -> list[Sub]:  # fmt: skip
    """Amortized freeing against batches, of each of the paper's ten. The paper does not name those
    that gain most: they are those that gain most here."""
    if structure not in CLAIMED:
        return []
    asked = dict(GAINS)
    ranked = [s for s, _ in gains if s in TEN and s not in asked and s != NONE_GAINED]
    if structure == "abtree":
        asked |= dict(zip(ranked, (BEST_GAIN, *(LARGE_GAIN,) * (LARGE_GAINS - 1)), strict=False))
    return [
        arms.of_pair(members, (scheme, "amortized"), (scheme, "batch"), threads, "ops_per_s",
                     "speed", factor=asked.get(scheme, 1.0), varies=factors.RELEASE,
                     kind=LEVEL if scheme == NONE_GAINED else MORE)
        for scheme in TEN
    ]  # fmt: skip


def _experiment_2_page(structure: str) -> Page:
    figure = {"abtree": "Figure 11b", "external_bst": "Figure 13"}.get(structure)
    return Page(
        key=f"experiment-2-{structure}", name="Experiment 2",
        title=f"Batch against amortized, every scheme, on {structure}",
        paper=f"({figure}) With batches of 32 K, amortized freeing makes nine of ten schemes "
              f"faster with 192 threads: {PAPER_GAINS[structure]}." if figure else
              "Not in the paper; the same experiment on the AVL tree.",
        cells=_experiment_2_cells(structure), show=_experiment_2(structure), short=structure,
        limits="What a batch costs beyond its frees is the queue for the allocator's locks, which "
               "two threads do not form. The longest pauses and the flushes do not need it.",
    )  # fmt: skip


def _allocators_cells(scale: Scale) -> list:
    return [
        scale.cell("abtree", (scheme, release), scale.full, batch=LARGE_BATCH, allocator=name)
        for scheme in scale.schemes("abtree") if scheme in TEN or scheme == "token"
        for release in ("batch", "amortized")
        for name in scale.allocators
    ]  # fmt: skip


def _allocators(found: Found) -> Shown | None:
    names = sorted({c.conditions.allocator for c in found.configs})
    gains: dict[str, dict[str, Comparison]] = {}
    of_debra: dict[str, list[Config]] = {}
    for name in names:
        able = [(dict(_pairs(m, found.full(m))), m)
                for m in found.panels("abtree", allocator=name)]  # fmt: skip
        best, members = max(able, key=lambda one: len(one[0]), default=({}, []))
        if best:
            gains[name] = best
            of_debra[name] = members
    if len(gains) < 2:
        return None
    schemes = sorted({s for g in gains.values() for s in g}, key=lambda s: look.sort_key((s, "")))
    rows = [[look.scheme(s).title, *[_gain(gains[name].get(s)) for name in gains]] for s in schemes]
    proven = {name: sum(g.proven and g.ratio > 1 for g in own.values())
              for name, own in gains.items()}  # fmt: skip
    here = "Proven faster with amortized freeing: " + words.listed(
        [f"{count} of {len(gains[name])} under {name}" for name, count in proven.items()]
    )
    table = blocks.table(["amortized ÷ batch", *gains], rows, "Speed, batches of 32 K")
    claims = [claim for name in (*PAPER_FACTORS, IMMUNE)
              for claim in _debra_gains(found, of_debra.get(name, []), name)]  # fmt: skip
    return Shown([table], here + ".", claims)


def _debra_gains(found: Found, members: list[Config], name: str) -> list[Sub]:
    """What the paper says of DEBRA under one allocator."""
    threads = found.full(members) or found.cores
    pair = (find(members, ("debra", release), threads) for release in ("batch", "amortized"))
    return gains_of(*pair, name)


def _gain(comparison: Comparison | None) -> str:
    if comparison is None:
        return "–"
    return look.times(comparison.ratio) + ("" if comparison.proven else " ?")


ALLOCATORS = Page(
    key="experiment-2-allocators", name="Experiment 2",
    title="Batch against amortized under four allocators",
    paper="Shown for DEBRA only (tables 2 and 3): 2.6 times under jemalloc, 3.25 under tcmalloc, "
          "0.91 under mimalloc.",
    cells=_allocators_cells, show=_allocators, short="allocators",
    limits="A question mark stands behind ratios that prove nothing.",
)  # fmt: skip

PAGES = [
    *[_experiment_1_page(structure) for structure in TREES],
    UNDER_ALLOCATORS,
    *[_experiment_2_page(structure) for structure in TREES],
    ALLOCATORS,
]
