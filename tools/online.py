# SPDX-License-Identifier: Apache-2.0
"""tools/online.py FOLDER: writes the library as two files, spolia.hpp and spolia.cpp.

They are for trying it where a program is a few files in a web page: both are compiled with the same
flags, and serve the build variant that these choose. For all else the library is installed.
"""

from __future__ import annotations

import pathlib
import re
import sys

from devtool import library
from devtool.process import ROOT

HEAD = "// SPDX-License-Identifier: Apache-2.0\n// {}, made of Spolia {} by tools/online.py.\n"
INCLUDE = re.compile(r'^#include (?:<(spolia/[^>]+)>|"([^"]+)").*\n', re.M)
LEFT_OUT = re.compile(r"^(?:#pragma once|\s*//.*)\n|^\n(?=\n)", re.M)


class joined:
    """One of the two files: what is included is put in its place, once."""

    def __init__(self, known: set[pathlib.Path]) -> None:
        self.known = known
        self.text: list[str] = []

    def add(self, file: pathlib.Path) -> None:
        if file in self.known:
            return
        self.known.add(file)
        text = LEFT_OUT.sub("", file.read_text(encoding="utf-8"))
        at = 0
        for match in INCLUDE.finditer(text):
            included = self._found(file, match)
            if included is None:
                continue
            self.text.append(text[at : match.start()])
            self.add(included)
            at = match.end()
        self.text.append(text[at:])

    @staticmethod
    def _found(file: pathlib.Path, match: re.Match) -> pathlib.Path | None:
        """What it includes; None: it stays, as what is for the model checker does."""
        angled, quoted = match[1], match[2]
        if angled:
            return None if angled.startswith("spolia/model/") else ROOT / "include" / angled
        beside = (file.parent / quoted).resolve()
        return beside if beside.exists() else ROOT / "src" / quoted


def main(folder: str) -> int:
    place = pathlib.Path(folder)
    known: set[pathlib.Path] = set()
    headers, sources = joined(known), joined(known)
    for face in sorted((ROOT / "include/spolia").glob("*.hpp")):
        headers.add(face)
    for name in library.sources():
        sources.add(ROOT / name)
    first = HEAD.format("spolia.hpp", library.version()) + "#pragma once\n"
    (place / "spolia.hpp").write_text(first + "".join(headers.text), encoding="utf-8")
    first = HEAD.format("spolia.cpp", library.version()) + '#include "spolia.hpp"\n'
    (place / "spolia.cpp").write_text(first + "".join(sources.text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
