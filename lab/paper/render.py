# SPDX-License-Identifier: Apache-2.0
"""Pages as the template wants them: charts replaced by their ids, pages without records named."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lab import look
from lab.paper import arms, highlight, origins, papers
from lab.paper.arms import told_ratio
from lab.paper.catalogue import PAGES
from lab.paper.found import Found
from lab.paper.page import Page, Shown
from lab.verdict import (
    LEVEL,
    MISSING,
    MORE,
    UNDECIDED,
    WEAKEST_FIRST,
    Absent,
    Claim,
    Growth,
    Promise,
    Sub,
    tally,
)


@dataclass(frozen=True)
class Told:
    """Of cells and commands: what they are, and why those that failed did."""

    names: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


NOTHING_TOLD = Told()


def pages(found: Found, figures, of_pages: dict[str, list[str]] | None = None,
          told: Told = NOTHING_TOLD) -> list[dict]:  # fmt: skip
    """All pages; one whose records do not suffice has no blocks, and the command that fills it.
    With `of_pages` each is made of its own cells and commands only, and says which are missing."""
    return [_isolated(page, found, figures, of_pages, told) for page in PAGES]


def _isolated(page: Page, found: Found, figures, of_pages: dict[str, list[str]] | None,
              told: Told) -> dict:  # fmt: skip
    """A page that cannot be made says why, and leaves the others whole."""
    own = (of_pages or {}).get(page.key)
    some = found if of_pages is None else found.only(own) if own else None
    gaps = _gaps(own or [], some, told)
    try:
        shown = page.show(some) if some else None
        if shown:
            shown.claims = arms.barred_by(some.lacking, shown.claims)
        if own and shown:
            shown.claims += _missing(own, some, told)
        made = _page(page, shown, figures, some if own else None)
        if own and not shown:
            made["verdict"] = UNDECIDED
        return {**made, "gaps": gaps, "broken": ""}
    except Exception as error:  # whatever a page falls over
        why = f"{type(error).__name__}: {error}"
        return {**_page(page, None, figures, None), "gaps": gaps, "broken": why}


def _gaps(own: list[str], found: Found | None, told: Told) -> list[str]:
    """Those of the page's parts that have no result, or failed in some round; and why."""
    done = found.rounds() if found else {}
    gone = [key for key in own if key not in done]
    some = [key for key in own if key in done and key in told.failed]
    return [
        *(f"{told.names.get(key, key)}: no result: {told.failed.get(key, 'not run')}"
          for key in gone),
        *(f"{told.names.get(key, key)}: {done[key]} rounds, then: {told.failed[key]}"
          for key in some),
    ]  # fmt: skip


def broken(pages: list[dict]) -> list[str]:
    """Those that could not be made, each with the reason."""
    return [f"{page['key']}: this page could not be made: {page['broken']}"
            for page in pages if page["broken"]]  # fmt: skip


def _missing(own: list[str], found: Found, told: Told) -> list[Sub]:
    """What was left out decides nothing, nor does what is left where some rounds failed: it could
    be the slow ones that are gone."""
    done = found.rounds()
    left = sum(key not in done for key in own)
    failed = sum(key in done and key in told.failed for key in own)
    reasons = [f"{count} of {len(own)} {what}" for count, what in (
        (left, "were not measured"), (failed, "failed in some round")) if count]  # fmt: skip
    return [Absent("all of the page's parts", "", why) for why in reasons]


def void(pages: list[dict]) -> None:
    """Where identical code comes out different too often no verdict holds, so none is shown."""
    for page in pages:
        for row in (page, *page["claims"]):
            if row["verdict"] in WEAKEST_FIRST:
                row["verdict"] = UNDECIDED
        counts = page["tally"]
        decided = sum(counts.pop(name, 0) for name in WEAKEST_FIRST)
        if counts or decided:
            page["tally"] = {**dict.fromkeys(reversed(WEAKEST_FIRST), 0), **counts,
                             UNDECIDED: decided}  # fmt: skip


def _setup(page: Page, found: Found) -> list[tuple[str, str, str]]:
    """Of the page's own records: those of its commands, if it has any, or else of its cells."""
    records = found.records()
    own = [r for r in records if (r.get("lab") or {}).get("page")] or records
    rounds = max(found.rounds().values(), default=0)
    return papers.beside(origins.ORIGINS.get(page.key), papers.here(own, rounds))


def index(pages: list[dict]) -> list[dict]:
    """The papers, each with how many of its claims came out how, its pages, and a row for each of
    its figures, in the order in which they are printed."""
    made = []
    for paper in [*papers.PAPERS, None]:
        mine = [page for page in pages if page["of"] is paper]
        counts = Counter()
        for page in mine:
            counts.update(page["tally"])
        for page in mine:
            page["label"] = _label(page, mine)
        rest = elsewhere(paper, pages) if paper else []
        rows = sorted([*mine, *rest], key=lambda row: origins.by_number(row["place"]))
        made.append({
            "name": paper.name if paper else "Of no paper", "pages": mine, "rows": rows,
            "about": f"{paper.title}. {paper.venue}" if paper else "",
            "doi": paper.doi if paper else "", "preprint": paper.preprint if paper else "",
            "tally": dict(counts),
        })  # fmt: skip
    return made


def _label(page: dict, beside: list[dict]) -> str:
    """By what readers look a page up: the paper's short name and the figure; and what the page is
    about, where another one is of the same figure."""
    told = page["figures"] or page["name"]
    again = sum(told == (other["figures"] or other["name"]) for other in beside) > 1
    return f"{told} · {page['short'] or page['name'].rpartition(', ')[2]}" if again else told


def elsewhere(paper: papers.Paper, pages: list[dict]) -> list[dict]:
    """The paper's figures that no page repeats: why, and the page that comes nearest."""
    shown = {page["key"]: page for page in pages}
    return [{"place": one.figures, "what": one.what, "why": one.why,
             "near": one.near, "linked": bool(one.near and shown[one.near]["blocks"])}
            for one in origins.ELSEWHERE if one.paper is paper]  # fmt: skip


def _page(page: Page, shown: Shown | None, figures, own: Found | None) -> dict:
    origin = origins.ORIGINS.get(page.key)
    first = highlight.spoken_of(shown.claims) if shown else []
    return {
        "of": origin.paper if origin else None,
        "figures": f"{origin.paper.name}, {origin.figures}" if origin else "",
        "place": origin.figures if origin else "",
        "left_out": origin.left_out if origin else "",
        "setup": _setup(page, own) if shown and own else [],
        "key": page.key, "name": page.name, "short": page.short, "title": page.title,
        "paper": page.paper,
        "limits": page.limits,
        "command": f"./dev lab paper --only {page.key}",
        "here": shown.here if shown else "",
        "verdict": shown.verdict if shown else MISSING,
        "tally": tally(claim.verdict for claim in shown.claims) if shown else {},
        "judged_of": _judged_of(shown) if shown else "",
        "barred": [f"{claim.what}: {claim.why}" for claim in shown.barred] if shown else [],
        "claims": [_claim(claim) for claim in shown.claims] if shown else [],
        "blocks": [_block(block, figures, first) for block in shown.blocks if block]
        if shown else [],
    }  # fmt: skip


def _judged_of(shown: Shown) -> str:
    """Of how many claims the verdict is, where it is not of all."""
    every, barred = len(shown.claims), len(shown.barred)
    return f"of {every - barred} of {every} claims" if barred else ""


def _claim(claim: Sub) -> dict:
    """A row: what is claimed, where, by how much, the interval of the ratio here, the verdict."""
    return {"what": _what(claim), "where": claim.where, "paper": _asked(claim),
            "here": told_ratio(claim.ratio) if not claim.why else claim.why,
            "verdict": claim.verdict}  # fmt: skip


def _what(claim: Sub) -> str:
    if isinstance(claim, Absent):
        return claim.what
    if isinstance(claim, Promise):
        return f"{claim.arm.name} ≤ {look.number(claim.most)}"
    if isinstance(claim, Growth):
        return f"{_compared(claim.many.more.name, '÷', claim.many.less.name)}, growing"
    return _compared(claim.more.name, "=" if claim.kind == LEVEL else ">", claim.less.name)


def _compared(more: str, sign: str, less: str) -> str:
    """'A: speed' and 'B: speed' are 'A > B: speed'; of one way at two places it is named once."""
    if more == less:
        return more
    (one, _, what), (other, _, its) = more.rpartition(": "), less.rpartition(": ")
    return f"{one} {sign} {other}: {what}" if one and what == its else f"{more} {sign} {less}"


def _asked(claim: Sub) -> str:
    if isinstance(claim, Claim) and claim.kind == LEVEL:
        return "equal"
    if isinstance(claim, Claim) and claim.kind != MORE:
        return f"at least {look.times(claim.factor)}"
    return look.times(claim.factor) if claim.factor != 1 else "more" if claim.kind == MORE else ""


def _block(block: dict, figures, first: list[str]) -> dict:
    if block["kind"] == "charts":
        block = highlight.block(block, first)
        return {**block, "figures": [figures.add(figure) for figure in block["figures"]]}
    if block["kind"] == "timeline":
        return {"kind": "timeline", "card": figures.of_card(block["card"])}
    return block
