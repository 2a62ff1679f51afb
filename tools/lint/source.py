# SPDX-License-Identifier: Apache-2.0
"""The files that are checked, and C++ text without its comments and strings."""

from __future__ import annotations

import fnmatch
import os
import pathlib
import re
import subprocess
from functools import cached_property

CPP = (".hpp", ".cpp")

# A comment, or a literal that could contain what looks like one. A quote between digits separates
# thousands and opens nothing.
_HIDDEN = re.compile(
    r"""//(?:\\\n|[^\n])*
      | /\*.*?\*/
      | R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'
    """,
    re.S | re.X,
)


def files_of(root: pathlib.Path) -> list[str]:
    """What git tracks or would track; without git, or outside of a clone, the files that
    .gitignore does not name."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return _files_below(root)
    return sorted(p for p in answer.stdout.splitlines() if (root / p).is_file())


def _files_below(root: pathlib.Path) -> list[str]:
    rules = root / ".gitignore"
    lines = rules.read_text(encoding="utf-8").split() if rules.exists() else []
    ignored = ["/.git", *(line.rstrip("/") for line in lines)]

    def kept(path: str) -> bool:
        name = path.rpartition("/")[2]
        return not any(fnmatch.fnmatch(path if "/" in rule else name, rule) for rule in ignored)

    found = []
    for folder, below, names in os.walk(root):
        at = folder[len(str(root)) :] + "/"
        below[:] = [name for name in below if kept(at + name)]
        found += [(at + name)[1:] for name in names if kept(at + name)]
    return sorted(found)


class tree:
    """The project's files."""

    def __init__(self, root: pathlib.Path, texts: dict[str, str] | None = None) -> None:
        self.root = root
        self._texts = texts

    @cached_property
    def paths(self) -> list[str]:
        if self._texts is not None:
            return sorted(self._texts)
        return files_of(self.root)

    def matching(self, suffixes: tuple[str, ...], *folders: str) -> list[str]:
        """Files that end so, in these top folders (none named: everywhere)."""
        return [
            path
            for path in self.paths
            if path.endswith(suffixes) and (not folders or path.startswith(folders))
        ]

    def text(self, path: str) -> str:
        """The text of a file, empty if it is no text."""
        if self._texts is not None:
            return self._texts[path]
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return ""

    def lines(self, path: str) -> list[str]:
        return self.text(path).splitlines()

    def code(self, path: str) -> str:
        """C++ text with comments and literals blanked; lines and columns stay where they were."""
        return blank(self.text(path))


def blank(text: str) -> str:
    return _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def lines_with_comment(text: str) -> set[int]:
    found: set[int] = set()
    for match in _HIDDEN.finditer(text):
        if match[0].startswith(("//", "/*")):
            found.update(range(line_of(text, match.start()), line_of(text, match.end()) + 1))
    return found


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
