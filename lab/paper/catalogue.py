# SPDX-License-Identifier: Apache-2.0
"""All pages, in the paper's order."""

from __future__ import annotations

from lab.paper import (
    amortizing,
    bound,
    contention,
    evaluation,
    events,
    held,
    model,
    old_reports,
    pointers,
    rivals,
    scaling,
    sections,
    snapshots,
    store,
    tokens,
    versions,
)
from lab.paper.page import Page

PAGES: tuple[Page, ...] = (
    *scaling.PAGES,
    *amortizing.PAGES,
    *tokens.PAGES,
    *evaluation.PAGES,
    *events.PAGES,
    *model.PAGES,
    *rivals.PAGES,
    *snapshots.PAGES,
    *store.PAGES,
    *held.PAGES,
    *old_reports.PAGES,
    *pointers.PAGES,
    *versions.PAGES,
    *bound.PAGES,
    *sections.PAGES,
    *contention.PAGES,
)
