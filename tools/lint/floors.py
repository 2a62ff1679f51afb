# SPDX-License-Identifier: Apache-2.0
"""Which room may include which. The table is the architecture: a room sees itself and what it
lists.

Floors, from below: model and base, reclaim, version, rlu and the standard faces, map, db, programs.
A file include/spolia/X.hpp is the face of room X, or of the room that FACES names.

A room's sources, in src/, see what its headers see, and what SOURCES adds.

Rooms have doors: what lies in a room's detail/ is included by that room alone, and by those that
INSIDERS names, or LENT for one file. No header includes itself by way of others.
"""

from __future__ import annotations

import re

from lint.source import line_of

_LIBRARY = {
    "base",
    "reclaim",
    "counted",
    "version",
    "rlu",
    "map",
    "db",
    "standard",
    "face",
}

ROOMS = {
    "model": {"model"},
    "base": {"base", "model"},
    "reclaim": {"base", "reclaim"},
    "counted": {"base", "counted"},
    "version": {"base", "reclaim", "version"},
    "rlu": {"base", "reclaim", "rlu"},
    "map": {"base", "reclaim", "counted", "version", "rlu", "map"},
    "db": {"base", "db"},  # what its users see; the engine is in src/db
    "standard": {"base", "reclaim", "standard"},
    # Programs and tests use the library from outside and each other not at all, but that the
    # benchmark measures an example.
    "src": _LIBRARY | {"src"},  # what lies there beside the rooms
    "bench": _LIBRARY | {"bench", "examples"},
    "tool": _LIBRARY | {"tool"},
    "examples": _LIBRARY | {"examples"},
    "demo": _LIBRARY | {"demo"},
    "tests": _LIBRARY | {"model", "tests", "bench", "tool"},
}
FACES = {
    "version": "base",
    "memory": "counted",
    "snapshot": "version",
    "deprecated": "map",  # names of all rooms of the library
    "live": "reclaim",
    "hazard_pointer": "standard",
    "rcu": "standard",
    "standard": "standard",
}

# What sources see that headers of their room do not.
SOURCES = {
    "reclaim": {"standard"},  # where rcu.hpp and hazard_pointer.hpp have their sources
    "db": _LIBRARY - {"standard", "face"},  # the engine
}

# Which other rooms may include from the detail/ of a room.
INSIDERS = {
    "reclaim": {"standard"},  # hazard_pointer.hpp and rcu.hpp are faces of what lies there
}
# The same for one file.
LENT = {
    "spolia/reclaim/detail/numbered.hpp": {"map"},  # a guard's slots by their numbers
}
EVERYWHERE = {"tests"}

_INCLUDE = re.compile(r'^\s*#\s*include\s+(?:<(spolia/[^>]+)>|"([^"]+)")', re.M)


def room_of(path: str) -> str | None:
    """The room of a file of the tree."""
    parts = path.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[:2] != ["include", "spolia"]:
        return parts[0] if parts[0] in ROOMS else None
    if len(parts) == 3:
        name = parts[2].removesuffix(".hpp")
        return FACES.get(name, name)
    return parts[2]


def room_of_include(includer: str, angled: str, quoted: str) -> str:
    """The room that an #include reaches; quoted paths lie beside it or below the root."""
    if quoted:
        top = quoted.split("/")[0]
        return top if "/" in quoted and top in ROOMS else includer
    name = angled.removeprefix("spolia/")
    if "/" in name:
        return name.split("/")[0]
    return FACES.get(name.removesuffix(".hpp"), "face")


def seen_from(path: str) -> set[str]:
    """The rooms that a file of the tree may include."""
    room = room_of(path)
    if not path.startswith("src/") or room == "src":
        return ROOMS[room]
    return ROOMS[room] | SOURCES.get(room, set())


def check(project):
    for path in project.matching((".hpp", ".cpp")):
        room = room_of(path)
        if room is None:
            continue
        if room not in ROOMS:
            yield path, 1, f"room '{room}' is not in the table of tools/lint/floors.py"
            continue
        for match in _INCLUDE.finditer(project.text(path)):
            line = line_of(project.text(path), match.start(1) if match[1] else match.start(2))
            reached = room_of_include(room, match[1] or "", match[2] or "")
            if match[2] and (path.startswith("include/") or match[2].startswith("spolia/")):
                yield path, line, "library headers are included as <spolia/...>"
            elif reached not in seen_from(path):
                yield path, line, f"{room} may not include {match[1] or match[2]}"
            elif _is_closed(room, reached, match[1] or ""):
                yield path, line, f"{match[1]} is for {reached} alone"
    yield from _cycles(project)


def _is_closed(room: str, reached: str, name: str) -> bool:
    if "/detail/" not in name or room == reached or room in EVERYWHERE:
        return False
    return room not in INSIDERS.get(reached, set()) | LENT.get(name, set())


def _cycles(project):
    """Headers that include each other: one class in pieces, most often."""
    graph = {}
    for path in project.matching((".hpp",), "include/", "src/"):
        names = re.findall(r'^#include (?:<(spolia/[^>]+)>|"([^"]+)")', project.text(path), re.M)
        graph[path] = [f"include/{angled}" if angled else f"src/{own}" for angled, own in names]
    done = set()
    for start in sorted(graph):
        trail = [(start, iter(graph[start]))]
        on_trail = {start}
        while trail and start not in done:
            path, rest = trail[-1]
            after = next((p for p in rest if p in graph and p not in done), None)
            if after is None:
                done.add(path)
                on_trail.discard(path)
                trail.pop()
            elif after in on_trail:
                yield path, 1, f"includes {after}, which includes it"
            else:
                on_trail.add(after)
                trail.append((after, iter(graph[after])))
