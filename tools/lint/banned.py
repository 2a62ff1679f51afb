# SPDX-License-Identifier: Apache-2.0
"""Words that say that something is unfinished, and paths that exist on one machine only."""

from __future__ import annotations

import re

# This folder has to spell the words out.
EXEMPT = ("tools/lint/", "LICENSE")

_UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
_MACHINE = re.compile(r"(?<![\w.}$/*-])/(?:work|root|home/\w+)/")


def check(project):
    for path in project.paths:
        if path.startswith(EXEMPT):
            continue
        for number, line in enumerate(project.lines(path), 1):
            if match := _UNFINISHED.search(line):
                yield path, number, f"{match[0]}: finish it, or say in words what is missing"
            if match := _MACHINE.search(line):
                yield path, number, f"{match[0]}... is a path of one machine"
