# SPDX-License-Identifier: Apache-2.0
"""The first lines of a file, and that nothing in the tree is left out of the build."""

from __future__ import annotations

import re

LICENCE = "SPDX-License-Identifier: Apache-2.0"
# Which files each list has to name: everything below a folder but not below these others.
LISTS = [
    ("cmake/sources.cmake", "SPOLIA_SOURCES", "src/", ("src/model/",), ".cpp"),
    ("cmake/sources.cmake", "SPOLIA_MODEL_SOURCES", "src/model/", (), ".cpp"),
]
HEADERS = "include/"
UMBRELLA_DEPTH = 2
MODEL = "include/spolia/model/"
CONSUMER = "tests/package/consumer/all.hpp"
OTHER_FLAVOUR = "src/db/other_flavour.cpp"


def check(project):
    for path in project.matching((".hpp", ".cpp", ".py", ".cmake", "CMakeLists.txt")):
        lines = project.lines(path)
        mark = "//" if path.endswith((".hpp", ".cpp")) else "#"
        first = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
        if first != [f"{mark} {LICENCE}"]:
            yield path, 1, f"the first line is not '{mark} {LICENCE}'"
        if path.endswith(".hpp") and "#pragma once" not in lines:
            yield path, 1, "no #pragma once"
    for listing in LISTS:
        yield from _check_list(project, *listing)
    yield from _check_tests(project)
    yield from _check_faces(project)
    yield from _check_reached(project)
    yield from _check_flavours(project)


def _check_flavours(project):
    """The store is compiled twice; what the second time lacks only some builds would notice."""
    for path in project.matching((".cpp",), "src/db/"):
        name = path.removeprefix("src/")
        if path != OTHER_FLAVOUR and f'#include "{name}"' not in project.lines(OTHER_FLAVOUR):
            yield OTHER_FLAVOUR, 1, f"does not include {name}"


def _check_faces(project):
    """The consumers of the package tests see each header that lies at the top."""
    if CONSUMER not in project.paths:
        yield CONSUMER, 1, "is missing"
        return
    for path in project.matching((".hpp",), "include/spolia/"):
        name = path.removeprefix("include/")
        if name.count("/") == 1 and f"#include <{name}>" not in project.lines(CONSUMER):
            yield CONSUMER, 1, f"does not include <{name}>"


def _check_reached(project):
    """What no umbrella header reaches is not installed, and so belongs into src/."""
    headers = project.matching((".hpp",), HEADERS)
    waiting = [path for path in headers if path.count("/") == UMBRELLA_DEPTH]
    reached = set()
    while waiting:
        path = waiting.pop()
        if path in reached or path not in project.paths:
            continue
        reached.add(path)
        included = re.findall(r"^#include <(spolia/[^>]+)>", project.text(path), re.M)
        waiting += [HEADERS + name for name in included]
    for path in headers:
        if path not in reached and not path.startswith(MODEL):
            yield path, 1, "no umbrella header reaches it: then it belongs into src/"


def _check_tests(project):
    """A test that no CMakeLists.txt names is never built, and nothing would show that."""
    for path in project.matching(("_test.cpp",), "tests/"):
        folder, name = path.rsplit("/", 1)
        lists = f"{folder}/CMakeLists.txt"
        if lists not in project.paths or name not in re.findall(r"[\w.]+", project.text(lists)):
            yield path, 1, f"{lists} does not name it"


def _check_list(project, path, variable, folder, others, suffix):
    if path not in project.paths:
        yield path, 1, "is missing"
        return
    text = project.text(path)
    match = re.search(rf"^set\({variable}\b([^)]*)\)", text, re.M)
    if not match:
        yield path, 1, f"has no set({variable} ...)"
        return
    line = text.count("\n", 0, match.start()) + 1
    named = match[1].split()
    there = [p for p in project.matching((suffix,), folder) if not p.startswith(others or ("\0",))]
    for name in sorted(set(there) - set(named)):
        yield path, line, f"{variable} lacks {name}"
    for name in sorted(set(named) - set(there)):
        yield path, line, f"{variable} names {name}, which is not in the tree"
    if named != sorted(set(named)):
        yield path, line, f"{variable} is not sorted, or names a file twice"
