# SPDX-License-Identifier: Apache-2.0
"""Files that comments of the library name exist: a reader who follows a name finds something."""

from __future__ import annotations

import re

from lint.source import line_of

FOLDERS = ("include/", "src/")
_COMMENT = re.compile(r"//[^\n]*")
_NAME = re.compile(r"(?<![\w/.-])(?:[\w-]+/)*\w+\.(?:hpp|cpp|md|cmake|py)\b")
# Placeholders in prose.
EXAMPLES = {"X.hpp", "map/X.hpp", "path/my_scheme.hpp"}


def check(project):
    ends = set()
    for path in project.paths:
        parts = path.split("/")
        ends.update("/".join(parts[at:]) for at in range(len(parts)))
    for path in project.matching((".hpp", ".cpp"), *FOLDERS):
        text = project.text(path)
        for comment in _COMMENT.finditer(text):
            for name in _NAME.findall(comment[0]):
                if name not in ends and name not in EXAMPLES:
                    yield path, line_of(text, comment.start()), f"there is no {name}"
