# SPDX-License-Identifier: Apache-2.0
"""The guides' tables have a row for each name of the lists that the code has of its variants."""

from __future__ import annotations

import re

from lint.source import blank

# Of each list: its file, what it is in there, a name in it; and the guides that show all of it,
# with the beginning of their table's first line, or of the only line that has all names.
LISTS = (
    (
        "include/spolia/reclaim/schemes.hpp",
        r"using every_scheme =\s*List<([^>]*)>;",
        r"\w+",
        (("docs/schemes.md", "| scheme | source |"),),
    ),
    (
        "include/spolia/version/collectors.hpp",
        r"using every_collector =\s*List<(.*?)>;",
        r"\w+(?=<Parameters)",
        (
            ("docs/versions.md", "| collector | frees between two snapshots |"),
            ("docs/schemes.md", "| collector | a version that has ended is retired |"),
            ("docs/bench.md", "| `collector` |"),
            ("docs/glossary.md", "| version collector |"),
        ),
    ),
    (
        "include/spolia/db/version_storage.hpp",
        r"enum class version_storage[^{]*\{(.*?)\}",
        r"\w+",
        (
            ("docs/reference/store-version-storages.md", "| storage | how versions go |"),
            ("docs/tool.md", "    versions = "),
        ),
    ),
)


def check(project):
    for path, form, name, guides in LISTS:
        if path not in project.paths:
            yield path, 1, "is missing: it has a list that guides show"
            continue
        found = re.search(form, blank(project.text(path)), re.S)
        names = re.findall(name, found[1], re.M) if found else []
        if not names:
            yield path, 1, "has no list of names in the form that this check knows"
        for guide, beginning in guides:
            yield from _check_guide(project, path, names, guide, beginning)


def _check_guide(project, path, names, guide, beginning):
    lines = project.lines(guide) if guide in project.paths else []
    at = next((i for i, line in enumerate(lines) if line.startswith(beginning)), None)
    if at is None:
        yield guide, 1, f"has no line that begins with '{beginning}'"
        return
    is_table = lines[at + 1 : at + 2] != [] and lines[at + 1].startswith("|---")
    if is_table:
        told = re.findall(r"`(\w+)`", _first_cells(lines, at + 2))
    else:
        told = [word.replace("-", "_") for word in re.findall(r"\w[\w-]*", lines[at])]
    for missing in [name for name in names if name not in told]:
        yield guide, at + 1, f"lacks `{missing}`, which {path} has"
    for unknown in [name for name in told if is_table and name not in names]:
        yield guide, at + 1, f"shows `{unknown}`, which {path} does not have"


def _first_cells(lines, at):
    cells = []
    while at < len(lines) and lines[at].startswith("|"):
        cells.append(lines[at].split("|")[1])
        at += 1
    return " ".join(cells)
