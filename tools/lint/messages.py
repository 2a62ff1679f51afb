# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md has what the library and the tool report, with its cause and its remedy.

Looked for are broken preconditions, faults of stores and failures of the tool. Of each call one
text of three words or more has to be on the page, or a message of the page in it. What a mistake in
arguments throws is left out: it says itself what to do. So is what has fewer words.

(That the page's messages are the code's is prose.py's.)
"""

from __future__ import annotations

import re

PAGE = "docs/errors.md"
OUTCOMES = "include/spolia/db/result.hpp"
WORDS = 3
# Of each kind of files: which calls there report something.
CALLS = (
    (("include/", "src/"), r"\b(?:misuse::report|report_misuse)"),
    (("src/db/log/", "src/db/files/"), r"\b(?:storage_error|refuse)"),
    (("tool/",), r"\bfailure"),
)
_ARGUMENTS = r"\s*\(([^;{}]*(?:\{\}[^;{}]*)*;?[^;{}]*)\);"
_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_SPLIT = re.compile(r'"(\s*)\n(\s*)"')
_OUTCOME = re.compile(r'case outcome::\w+:\s*return "([^"]+)";')


def check(project):
    if PAGE not in project.paths:
        return
    page = re.sub(r"\s+", " ", project.text(PAGE))
    known = _messages(project)
    for folders, name in CALLS:
        call = re.compile(name + _ARGUMENTS)
        for path in project.matching((".hpp", ".cpp"), *folders):
            for line, texts in _reports(project.text(path), call):
                if texts and not any(_explained(text, page, known) for text in texts):
                    yield path, line, f"{PAGE} does not explain '{texts[0]}'"
    if OUTCOMES in project.paths:
        words = project.text(OUTCOMES).split("usual_reason(")[0]
        for text in _OUTCOME.findall(words):
            if text != "ok" and f"| `{text}` |" not in page:
                yield OUTCOMES, 1, f"{PAGE} has no line for '{text}'"


def _messages(project) -> list[str]:
    """What stands as code in the first cells of the page's tables."""
    cells = (line.split(" | ")[0] for line in project.lines(PAGE) if line.startswith("| "))
    found = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    return [text for text in found if _long_enough(text)]


def _reports(text: str, call: re.Pattern[str]):
    """Of each call its line, and its texts, which may stand in several lines."""
    for match in call.finditer(text):
        arguments = _SPLIT.sub("", match[1])
        texts = [found.strip(" :;,.{}()") for found in _TEXT.findall(arguments)]
        yield text.count("\n", 0, match.start()) + 1, [t for t in texts if _long_enough(t)]


def _long_enough(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]+", text)) >= WORDS


def _explained(text: str, page: str, known: list[str]) -> bool:
    return text in page or any(message in text for message in known)
