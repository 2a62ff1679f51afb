# SPDX-License-Identifier: Apache-2.0
"""docs/departures.md says what the heads of the headers say: where each algorithm is from, its
idea, and where the code departs from the paper. `./dev format` writes the page.

A field of a head is `Source:` or `Idea:` with its text in the same column, over several lines. What
begins with `Departures` goes on up to an empty line or to the next field; its items have a number.
"""

from __future__ import annotations

import re
import textwrap

PAGE = "docs/departures.md"
GROUPS = (
    ("Schemes", ("include/spolia/reclaim/", "src/reclaim/")),
    ("Counted pointers", ("include/spolia/counted/", "src/counted/")),
    ("Read-log-update", ("include/spolia/rlu/",)),
    ("Versions and snapshots", ("include/spolia/version/",)),
    ("Maps", ("include/spolia/map/",)),
    ("The store", ("include/spolia/db/", "src/db/")),
)
FRONT = """\
# Where the code departs from the papers

This page is for you if you know a paper, and want to know what of it is here. For each algorithm it
has the source, the idea, and each point in which the code differs from the paper, with the reason.

`./dev format` writes this page from the heads of the headers, and `./dev lint` compares it with
them. The heads say more: the cost, the bound, and why nothing is freed too early. *Above* and
*below* mean: in that header. D1 and the like are the numbers by which its comments name a
departure. Where there is no list, the head names no departure.

The links to headers work in a checkout. In an installed copy the headers that begin with `spolia/`
lie in its `include` folder.
"""
_FIELD = re.compile(r"([A-Z]\w*|Departures? [^:]*):(?: +|$)(.*)")
_ITEM = re.compile(r"(D\d+|\d\.) +(.*)")
_ROW = re.compile(r"(\S+) {2,}(\S.*)")
# Outside of backticks: what is a name of the code.
_NAME = re.compile(
    r"(?<![\w`])(?:(?:\w+/)*[a-z]\w*\.[hc]pp|\w+(?:::\w+)*<[\w, ]*>|\w+(?:::\w+)+"
    r"|[a-z]\w*(?:(?:\.|::)\w+)*\([^()\s]*\)|[A-Za-z]\w*_\w+)"
)
COLUMNS = 118


def check(project):
    if not project.matching((".hpp",), *_folders()):
        return
    if PAGE not in project.paths or project.text(PAGE) != page_of(project):
        yield PAGE, 1, "is not what the heads of the headers say: './dev format' writes it"


def page_of(project) -> str:
    parts = [FRONT]
    for title, folders in GROUPS:
        told = [_told(path, project.text(path)) for path in _headers(project, folders)]
        if any(told):
            parts.append(f"## {title}\n")
            parts += [text for text in told if text]
    return "\n".join(parts)


def _folders():
    return [folder for _, folders in GROUPS for folder in folders]


def _headers(project, folders):
    """What users name comes before what stands in detail/ and in sources."""
    paths = project.matching((".hpp",), *folders)
    return sorted(paths, key=lambda path: (path.count("/detail/"), path.startswith("src"), path))


def _told(path: str, text: str) -> str:
    """A header's part of the page; empty if its head has no departures, nor both other fields."""
    head = _head(text)
    fields = dict(_fields(head))
    departures = [name for name in fields if name.startswith("Departure")]
    if not departures and not {"Source", "Idea"} <= fields.keys():
        return ""
    name = path.rpartition("/")[2].removesuffix(".hpp")
    shown = path.removeprefix("include/")
    title = f"[`{shown}`](../{path}): {_title(head)}"
    lines = [f"### `{name}`", "", *_wrapped(title), ""]
    for field in ("Source", "Idea"):
        if field in fields:
            lines += [*_paragraph(field, fields[field]), ""]
    for field in departures:
        lines += [*_paragraph(field, fields[field]), ""]
    return "\n".join(lines)


def _head(text: str) -> list[str]:
    """The comment that a header begins with, without its slashes."""
    lines = []
    for line in text.splitlines()[1:]:
        if not line.startswith("//"):
            break
        lines.append(line[2:].rstrip())
    return lines


def _title(head: list[str]) -> str:
    words = []
    for line in head:
        if not line.strip():
            break
        words.append(line.strip())
    return _plain(re.sub(r"^\S+: ", "", " ".join(words)))


def _fields(head: list[str]):
    """Each field's name and its lines, as they are indented."""
    name, lines = "", []
    for line in [*head, ""]:
        field = _FIELD.match(line[1:])
        ends = not line.strip() or field or (line[1:2].strip() and not _runs_on(name, lines))
        if name and ends:
            yield name, lines
            name = ""
        if field and line[:1] == " ":
            name, lines = field[1], [" " * (1 + field.start(2)) + field[2]] if field[2] else []
        elif name:
            lines.append(line)


def _runs_on(name: str, lines: list[str]) -> bool:
    """One departure in a paragraph of its own, which is not indented."""
    return name.startswith("Departure ") and bool(lines)


def _paragraph(field: str, lines: list[str]) -> list[str]:
    """A field as paragraphs and lists: what is numbered is an item, and so is what is indented."""
    numbered = field.startswith("Departure")
    base = _indent(lines[0]) if lines else 0
    blocks: list[tuple[str, list[str]]] = [("", [])]
    item_at = 0
    for line in lines:
        at, words = _indent(line), line.strip()
        number, row = _ITEM.fullmatch(words), _ROW.fullmatch(words)
        if numbered and number:
            blocks.append(("* ", [f"{number[1].rstrip('.')}: {number[2]}"]))
        elif not numbered and at > base and item_at in (0, at):
            item_at = at
            blocks.append(("* ", [f"`{row[1]}`: {row[2]}" if row else words]))
        elif not numbered and item_at and at == base:
            item_at = 0
            blocks.append(("", [words]))
        else:
            blocks[-1][1].append(words)
    shown = []
    for place, (mark, words) in enumerate(blocks):
        text = _plain(" ".join(words))
        if place == 0:
            text = f"*{_plain(field)}:* {text}".rstrip()
        elif not mark or not blocks[place - 1][0]:
            shown.append("")
        shown += _wrapped(mark + text, " " * len(mark))
    return shown


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _plain(text: str) -> str:
    """As Markdown: names of the code stand in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    for number in range(0, len(parts), 2):
        parts[number] = _with_names(parts[number])
    return "".join(parts)


def _with_names(text: str) -> str:
    done, at = [], 0
    for name in _NAME.finditer(text):
        done += [_escaped(text[at : name.start()]), f"`{name[0]}`"]
        at = name.end()
    return "".join([*done, _escaped(text[at:])])


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_<\[\]|])", r"\\\1", text)
