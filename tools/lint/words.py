# SPDX-License-Identifier: Apache-2.0
"""Words that docs/glossary.md has replaced do not come back: not in comments, not in guides.

Files that are older than this rule and have such words still are listed in unfinished_words.txt.
A file that is changed loses its words, and then its line there; a new file gets none.
"""

from __future__ import annotations

import re

from lint.source import line_of

LIST = "tools/lint/unfinished_words.txt"
SUFFIXES = (".hpp", ".cpp", ".md", ".py", ".cmake", ".txt", ".in", ".sh")
# This folder and the glossary have to spell the words out; the change log tells what was.
EXEMPT = ("tools/lint/", "docs/glossary.md", "CHANGELOG.md", "LICENSE")

# What the glossary's last table replaces, as far as a program can tell it from ordinary English.
# So `home`, `turn`, `ticket` or `behind` are not here: those are for a reviewer's eyes.
WORDS = {
    r"nobody|everybody|whoever": "a thread that ..., a caller that ..., no thread, every thread",
    r"by and by": "later",
    r"for ever": "forever",
    r"glances?": "a fast-path check",
    r"flavou?rs?": "build variant",
    r"second homes?": "a relocated copy",
    r"settl(?:e|es|ed|ing)": "resolve, complete or help, by what is meant",
    r"courtes(?:y|ies)": "voluntary yield",
    r"calm rounds?": "polling interval",
    r"horizons?": "upper era bound",
    r"crowds?": "oversubscription, or the number of threads",
    r"told stamps?": "cached timestamp",
    r"crews?": "worker pool",
    r"presence": "online, offline",
    r"solitude": "exclusive mode",
    r"shelters?": "survivor space",
    r"reapers?": "deferred destruction queue",
    r"purses?": "thread-local cache of counts",
    r"grips?": "hazard slot",
    r"seats?": "slot, handle",
    r"taking back": "undo",
    r"l(?:ie|ies|ying|ay) apart": "out-of-line values, or out of line",
    r"pass(?:es)? over (?:(?:a|all|its|the) )?logs?": "sweep",
    r"to be had": "there is none, or it cannot be made, taken or read",
}
_WORDS = [(re.compile(rf"\b(?:{form})\b", re.I), use) for form, use in WORDS.items()]
# Code is not read: a class has its name until it gets another. Nor is what a comment quotes.
_COMMENT = re.compile(
    r"""(?P<text>//[^\n]*|/\*.*?\*/)
      | R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'
    """,
    re.S | re.X,
)
_QUOTED = re.compile(r"`[^`\n]*`|\w+(?:/\w+)*\.(?:hpp|cpp|py|md)\b|\w+(?:::\w+)+|\w+\(")


def check(project):
    unfinished = set()
    if LIST in project.paths:
        unfinished = {line for line in project.lines(LIST) if line and not line.startswith("#")}
    for path in project.matching(SUFFIXES):
        if path.startswith(EXEMPT):
            continue
        found = list(_found(project, path))
        if path not in unfinished:
            yield from found
        elif not found:
            yield LIST, 1, f"{path} has none of the words: take it out of the list"
        unfinished.discard(path)
    for path in sorted(unfinished):
        yield LIST, 1, f"there is no {path}"


def _found(project, path):
    for first, text in _prose(path, project.text(path)):
        for number, line in enumerate(text.split("\n"), first):
            line = _QUOTED.sub("", line)
            for word, use in _WORDS:
                if match := word.search(line):
                    yield path, number, f"'{match[0]}': docs/glossary.md has '{use}'"


def _prose(path, text):
    """Where English stands: all of a guide, the comments of a program."""
    if path.endswith((".hpp", ".cpp")):
        for match in _COMMENT.finditer(text):
            if match["text"]:
                yield line_of(text, match.start()), match[0]
    elif path.endswith(".md"):
        yield 1, text
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if "#" in line:
                yield number, line[line.index("#") :]
