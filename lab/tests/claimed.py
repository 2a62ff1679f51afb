# SPDX-License-Identifier: Apache-2.0
"""What each page claims, written down apart from the page (claims.txt), since data that are made of
a page's own claims do not find one that is missing, or the wrong way round. One line for each:
the claim, the field, where, the paper's factor, and in which conditions the two arms differ.

    python -m lab.tests.claimed         writes the file anew: read what has changed in it"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from lab import look
from lab.paper import factors, render
from lab.paper.catalogue import PAGES
from lab.tests import made
from lab.verdict import Arm, Claim, Growth, Promise, Sub

KEPT = Path(__file__).with_name("claims.txt")


def line(of: Sub) -> str:
    told = [render._what(of), _figure(of), of.where, render._asked(of), *_apart(of)]
    if not isinstance(of, (Claim, Growth, Promise)):
        told.append(of.why)
    return " | ".join(told).replace(look.NO_BREAK, " ")


def _figure(of: Sub) -> str:
    if isinstance(of, Growth):
        return _figure(of.many)
    arms = (of.more, of.less) if isinstance(of, Claim) else ()
    arms = (of.arm,) if isinstance(of, Promise) else arms
    return ", ".join(dict.fromkeys(arm._field for arm in arms))


def _apart(of: Sub) -> Iterable[str]:
    """In which conditions the arms differ, and how, the one that has more first."""
    if isinstance(of, Growth):
        yield from _apart(of.many)
        yield from _fields(of.many.more, of.few.more)
    elif isinstance(of, Claim):
        yield from _fields(of.more, of.less)


def _fields(one: Arm, other: Arm) -> Iterable[str]:
    both = [factors.values(arm.records) for arm in (one, other)]
    for name in sorted(both[0].keys() | both[1].keys()):
        ones, others = (",".join(sorted(of.get(name, {"-"}))) for of in both)
        if ones != others:
            yield f"{name} {ones} against {others}"


def kept(key: str) -> list[str]:
    """What the file has of a page: below its name, indented."""
    found: list[str] = []
    mine = False
    for text in KEPT.read_text().splitlines():
        if text.startswith("  "):
            found += [text[2:]] * mine
        else:
            mine = text == key
    return found


def main() -> None:
    text = []
    for entry in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            shown = made.view(*made.shown(entry, made.of_page(entry, Path(folder))))
        text += [entry.key, *(f"  {line(claim)}" for claim in shown.claims)] * bool(shown.claims)
    KEPT.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
