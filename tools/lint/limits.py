# SPDX-License-Identifier: Apache-2.0
"""Sizes: 100 columns a line, 70 lines a function, 900 lines a file, two headers a class."""

from __future__ import annotations

import re
from collections import defaultdict

from lint.floors import room_of
from lint.source import blank, line_of

COLUMNS = 100
FUNCTION_LINES = 70
FILE_LINES = 900
FOLDERS = ("include/", "src/", "bench/", "demo/", "examples/", "lab/", "tests/", "tool/", "tools/")

_TEMPLATE = re.compile(r"\btemplate\s*<")
_TYPE = re.compile(r"\b(?:class|struct|union|enum)\b")
# A class that a header defines, and the qualified name of a member that is defined outside of it.
_CLASS = re.compile(
    r"\b(?:class|struct)\s+(?:alignas\([^;{]*\)\s+|SPOLIA_\w+\s+)*(\w+)\s*"
    r"(?:final\b\s*)?(?::[^;{}]*)?\{"
)
_MEMBER = re.compile(r"\b(\w+)(?:<[^()]*>)?::(?:\w+::)*(?:~?\w+|operator\W*)\s*\(")
_CALL_LIKE = re.compile(r"\b(?:alignas|noexcept|decltype|requires|SPOLIA_\w+|__attribute__)\s*\(")


def check(project):
    for path in project.matching((".hpp", ".cpp", ".py"), *FOLDERS):
        lines = project.lines(path)
        if len(lines) > FILE_LINES:
            yield path, FILE_LINES + 1, f"{len(lines)} lines in a file; {FILE_LINES} is the limit"
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS:
                yield path, number, f"{len(line)} columns; {COLUMNS} is the limit"
        if not path.endswith(".py"):
            for first, last in functions(project.text(path)):
                if last - first + 1 > FUNCTION_LINES:
                    size = last - first + 1
                    yield path, first, f"{size} lines in a function; {FUNCTION_LINES} is the limit"
    yield from _scattered(project)


def _scattered(project):
    """Classes whose members stand in more headers than the one that declares them and one other."""
    declared = defaultdict(set)
    pieces = defaultdict(dict)
    for path in project.matching((".hpp",), "include/", "src/"):
        code = blank(project.text(path))
        lines = code.splitlines()
        for match in _CLASS.finditer(code):
            declared[room_of(path), match[1]].add(path)
        for first, last in functions(project.text(path)):
            head = _without_arguments("\n".join(lines[first - 1 : last]).partition("{")[0])
            member = _MEMBER.search(head)
            if member and "(" not in head[: member.start()]:
                pieces[room_of(path), member[1]].setdefault(path, first)
    for key, files in pieces.items():
        for path in sorted(set(files) - declared[key])[1:]:
            yield path, files[path], f"the class {key[1]} stands in more than two headers"


def functions(text: str):
    """First and last line of each function body that lies in no other: from the head to the brace.

    A head that names a type without parameters, or a namespace, opens a scope to look into. A brace
    without a space before it initialises something. That is how our formatter writes them.
    """
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", _spaces, blank(text), flags=re.M)
    head = position = 0
    while position < len(code):
        mark = code[position]
        if mark == "{":
            before = code[head:position]
            initialiser = position > 0 and re.match(r"[\w>\])]", code[position - 1])
            if not _opens_scope(before):
                end = _closing(code, position)
                if not initialiser:
                    if "(" in before:
                        start = head + len(before) - len(before.lstrip())
                        yield line_of(code, start), line_of(code, end)
                    head = end + 1
                position = end
            else:
                head = position + 1
        elif mark in ";}":
            head = position + 1
        position += 1


def _opens_scope(before: str) -> bool:
    bare = _without_arguments(before)
    if re.search(r"\bnamespace\b|\bextern\b", bare):
        return "(" not in bare
    return bool(_TYPE.search(bare)) and "(" not in bare


def _without_arguments(before: str) -> str:
    """A head without template parameters, and without parentheses that hold no parameters."""
    while match := _TEMPLATE.search(before):
        before = before[: match.start()] + before[_closing(before, match.end() - 1, "<>") + 1 :]
    while match := _CALL_LIKE.search(before):
        before = before[: match.start()] + before[_closing(before, match.end() - 1, "()") + 1 :]
    return before


def _closing(code: str, position: int, pair: str = "{}") -> int:
    """Where the bracket at `position` is closed; the end of the text if it never is."""
    depth = 0
    for at in range(position, len(code)):
        if code[at] == pair[0]:
            depth += 1
        elif code[at] == pair[1] and not (pair == "<>" and code[at - 1] == "-"):
            depth -= 1
            if depth == 0:
                return at
    return len(code)


def _spaces(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match[0])
