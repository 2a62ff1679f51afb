# SPDX-License-Identifier: Apache-2.0
"""Memory orders are named and argued.

Outside the plumbing there is only spolia::atomic, whose operations carry their order in the name.
In the library, each operation stronger than relaxed, and each fence, has a comment on its line or
close above it that says what it pairs with.
"""

from __future__ import annotations

import re

from lint.source import line_of, lines_with_comment

# How far above an operation its comment may stand.
REACH = 4

PLUMBING = (
    "include/spolia/base/",
    "include/spolia/model/",
    "src/base/",
    "src/model/",
    "tests/",
    "bench/rivals/counted_std.cpp",  # which is about the standard's
)
# It sleeps on an atomic. (Sources, which the model checker does not see, may use std::atomic, too.)
WAITS = "src/db/log/journal.hpp"
# Their users name an order, as they do for the standard's.
STANDARD_FACES = ("include/spolia/counted/detail/location.hpp",)
_RAW = re.compile(r"\bstd::atomic\w*|\b(?:std::)?memory_order\w*")
_ORDERED = re.compile(
    r"(?:\.|->)\s*(?:template\s+)?\w+_(?:acquire|release|acq_rel|seq_cst)\s*\("
    r"|\bfence::(?:light|heavy|full)\s*\("
)

FOLDERS = ("include/", "src/", "bench/", "demo/", "examples/")


def check(project):
    for path in project.matching((".hpp", ".cpp"), *FOLDERS):
        code = project.code(path)
        source = path.startswith("src/") and path.endswith(".cpp")
        if not path.startswith(PLUMBING) and not source and path != WAITS:
            for match in _RAW.finditer(code):
                if path in STANDARD_FACES and match[0].endswith("memory_order"):
                    continue
                line = line_of(code, match.start())
                yield path, line, f"{match[0]}: use spolia::atomic, which names its orders"
        if path.startswith(("include/", "src/")) and not path.startswith(PLUMBING):
            yield from _uncommented(path, project.text(path), code)


def _uncommented(path, text, code):
    commented = lines_with_comment(text)
    for match in _ORDERED.finditer(code):
        line = line_of(code, match.end())
        if commented.isdisjoint(range(line - REACH, line + 1)):
            name = re.sub(r"\s+", "", match[0]).lstrip(".->")
            yield path, line, f"{name}) has no comment that says what it pairs with"
