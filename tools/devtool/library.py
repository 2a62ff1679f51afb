# SPDX-License-Identifier: Apache-2.0
"""What the library is: its version, and the sources that it is compiled of."""

from __future__ import annotations

import re

from devtool.process import ROOT


def version() -> str:
    text = (ROOT / "include/spolia/version.hpp").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define SPOLIA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))


def sources() -> list[str]:
    """Without those that compile others once more, for the other build variant."""
    text = (ROOT / "cmake/sources.cmake").read_text(encoding="utf-8")
    listed = re.search(r"set\(SPOLIA_SOURCES\s(.*?)\)", text, re.S)
    names = listed[1].split() if listed else []
    return [name for name in names if not name.endswith("other_flavour.cpp")]


def variant(tool: str | None) -> tuple[str, str]:
    """For programs under this tool: the end of the library's name, and what option makes it."""
    if not tool:
        return "", "SPOLIA_SANITIZE="
    if tool == "valgrind":
        return "-valgrind", "SPOLIA_VALGRIND=ON"
    return f"-{tool.replace(',', '-')}-sanitizer", f"SPOLIA_SANITIZE={tool}"
