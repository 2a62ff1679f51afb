# SPDX-License-Identifier: Apache-2.0
"""Pages as the template wants them: charts replaced by their ids, pages without records named."""

from __future__ import annotations

from collections.abc import Iterable

from lab.claims import MISSING
from lab.paper.catalogue import PAGES
from lab.paper.found import Found
from lab.paper.page import Page


def pages(found: Found, figures, chosen: Iterable[Page] = PAGES) -> list[dict]:
    """All pages; one whose records do not suffice has no blocks, and the command that fills it."""
    return [_page(page, found, figures) for page in chosen]


def _page(page: Page, found: Found, figures) -> dict:
    shown = page.show(found)
    return {
        "key": page.key, "name": page.name, "title": page.title, "paper": page.paper,
        "limits": page.limits,
        "command": f"./dev lab paper --only {page.key}",
        "here": shown.here if shown else "",
        "verdict": shown.verdict if shown else MISSING,
        "blocks": [_block(block, figures) for block in shown.blocks if block] if shown else [],
    }  # fmt: skip


def _block(block: dict, figures) -> dict:
    if block["kind"] == "charts":
        return {**block, "figures": [figures.add(figure) for figure in block["figures"]]}
    if block["kind"] == "timeline":
        return {"kind": "timeline", "card": figures.of_card(block["card"])}
    return block
