# SPDX-License-Identifier: Apache-2.0
"""Guides are plain English: without forms that have to be decoded, in sentences read at once.

A page's prose has a Flesch-Kincaid grade of 10 at most: that is
0.39 words a sentence + 11.8 syllables a word - 15.59. Code, headings and short cells of tables are
not counted.

The tests that docs/guarantees.md names exist, and so do the messages that docs/errors.md explains.
A snippet that a file elsewhere compiles stands in that file.
"""

from __future__ import annotations

import re

PAGES = ("README.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
MOST = 10.0
CODE = ("include/", "src/", "tool/")
GUARANTEES = "docs/guarantees.md"
MESSAGES = "docs/errors.md"
GLOSSARY = "docs/glossary.md"  # spells out what not to write

# What a native reader stumbles over, and what to write.
FORMS = {
    r"(?:^|[.:;] +)Who(?:ever)? (?!is\b|are\b|owns\b)\w+": "If you ..., or: a program that ...",
    r"\bbesides\b": "also, or: on top of that",
    r"\bof (?:one|its|your|his)['’]s own\b": "your own, its own",
    r"\bby itself alone\b": "alone",
    r"\bthat is to say\b": "say it once",
    r"\bas well as that\b": "too",
    r"\bhas got\b": "has",
    r"\bno longer has got\b": "no longer has",
    r"\bis told of\b": "hears of",
    r"\bin the midst of\b": "in the middle of, during",
    r"\bhardly ever\b": "rarely",
    r"\bshall\b": "must, will or should",
    r"\bin vain\b": "without success",
    r"\butili[sz]e[sd]?\b": "use",
    r"\bin order to\b": "to",
    r"\b(?:simply|obviously|of course|basically)\b": "leave it out",
    r"\be\.g\.|\bi\.e\.|\betc\.": "for example, that is, and so on",
}
_FORMS = [(re.compile(form, re.M | re.I), use) for form, use in FORMS.items()]
_CODE = re.compile(r"^```.*?^```|^(?: {4}[^\n]*(?:\n|$))+|<!--.*?-->", re.M | re.S)
_ELSEWHERE = re.compile(r"<!-- elsewhere: (\S+\.[ch]pp) -->\n+```cpp\n(.*?)^```$", re.M | re.S)
_SPAN = re.compile(r"`(?:[^`\n]|\n(?!\n))+`")
_SKIPPED = re.compile(r"^(?:#|!\[|---)")
CELL_WORDS = 12  # from here on a cell of a table is prose
_SENTENCE = re.compile(r"[.!?](?=[\s\"')*]|$)")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’]*")


def check(project):
    for path in project.matching((".md",)):
        if path != GLOSSARY and (path in PAGES or path.startswith("docs/")):
            yield from _found(path, project.text(path))
            yield from _strayed(project, path)
    if GUARANTEES in project.paths:
        yield from _unknown_tests(project)
    if MESSAGES in project.paths:
        yield from _unknown_messages(project)


def _found(path, text):
    plain = _CODE.sub(lambda match: re.sub(r"[^\n]", "", match[0]), text)
    for form, use in _FORMS:
        for match in form.finditer(_SPAN.sub("", plain)):
            line = _SPAN.sub("", plain).count("\n", 0, match.start()) + 1
            yield path, line, f"'{match[0].strip()}': write {use}"
    grade = grade_of(text)
    if grade > MOST:
        yield path, 1, f"grade {grade:.1f}; {MOST:.0f} is the limit: shorter sentences and words"


def _strayed(project, path):
    """Snippets that are not, or no longer, what stands in the file that compiles them."""
    text = project.text(path)
    for match in _ELSEWHERE.finditer(text):
        code = project.text(match[1]) if match[1] in project.paths else ""
        if match[2] not in code:
            line = text.count("\n", 0, match.start()) + 1
            yield path, line, f"the snippet does not stand in {match[1]}"


def grade_of(text: str) -> float:
    """The Flesch-Kincaid grade of a page of Markdown; 0 of one without prose."""
    words = syllables = sentences = 0
    for paragraph in _paragraphs(text):
        found = _WORD.findall(paragraph)
        words += len(found)
        syllables += sum(_syllables(word) for word in found)
        ends = len(_SENTENCE.findall(paragraph))
        sentences += ends if paragraph.rstrip(" *)_").endswith((".", "!", "?")) else ends + 1
    return 0.39 * words / sentences + 11.8 * syllables / words - 15.59 if words else 0.0


def _paragraphs(text: str):
    """Paragraphs, items of lists and cells, without code and without addresses of links."""
    text = _CODE.sub("\n", text)
    text = _SPAN.sub("it", text)
    text = re.sub(r"\]\([^)]*\)", "", text).replace("[", "")
    lines = []
    for line in text.splitlines():
        if line.lstrip().startswith("|"):
            cells = line.strip(" |").split(" | ")
            lines += [f"\n{cell}\n" for cell in cells if _is_prose(cell)]
        elif not _SKIPPED.match(line):
            lines.append(line)
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", "\n".join(lines)):
        part = re.sub(r"^\s*(?:[*-]|\d+\.) ", "", part)
        if _WORD.search(part):
            yield part


def _is_prose(cell: str) -> bool:
    """Neither a few words, nor the authors and the title of a paper."""
    return len(_WORD.findall(cell)) >= CELL_WORDS and ": *" not in cell


def _syllables(word: str) -> int:
    word = re.sub(r"[^a-z]", "", word.lower())
    groups = len(re.findall(r"[aeiouy]+", word))
    if re.search(r"(?<![aeiouyl])e$|(?<=[^aeioutd])ed$|(?<=[^aeiousxzcg])es$", word):
        groups -= 1
    return max(groups, 1)


def _unknown_tests(project):
    known = set()
    for path in project.matching(("CMakeLists.txt",), "tests/"):
        known.update(re.findall(r"\(\s*(?:NAME\s+)?([a-z]\w+)", project.text(path)))
    for number, line in enumerate(project.lines(GUARANTEES), 1):
        cells = line.split(" | ")
        if line.startswith("| ") and len(cells) == 2:
            for name in re.findall(r"`([a-z]\w+)`", cells[1]):
                if name not in known:
                    yield GUARANTEES, number, f"there is no test {name}"


def _unknown_messages(project):
    code = "".join(project.text(path) for path in project.matching((".hpp", ".cpp"), *CODE))
    code = re.sub(r'"\s*\n\s*"', "", code)  # one message in several lines
    for number, line in enumerate(project.lines(MESSAGES), 1):
        if match := re.match(r"\| `([^`]+)` \|", line):
            if match[1] not in code:
                yield MESSAGES, number, f"no program says '{match[1]}'"
