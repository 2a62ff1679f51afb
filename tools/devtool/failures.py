# SPDX-License-Identifier: Apache-2.0
"""The end of `./dev test`: what each failed test is called, and how its message begins."""

from __future__ import annotations

import itertools
import json
import pathlib
import re

from devtool import ctest
from devtool.process import ROOT
from devtool.tally import failure

LINES = 12
FAILURES = 10
COLUMNS = 160

# Of ctest's output, where a test's own ends: another one's begins, or the run's end.
NEXT = re.compile(
    r"^ *(?:\d+/\d+ Test +#\d+:|Start +\d+:) |^\d+% tests passed|^Errors while running", re.M
)
STARTED = re.compile(r"^ *Start +\d+: (\S+)", re.M)

# What a sanitizer says begins there; its last lines say nothing.
REPORT = re.compile(r"(ERROR|WARNING): \w+Sanitizer|: runtime error: ")
# What a compiler or a linker refuses, and what ninja says of it.
REFUSED = re.compile(r"\berror: |\bFAILED: |undefined reference|CMake Error")


def of_ctest(output: str, folder: pathlib.Path) -> list[failure]:
    """The cases that failed in a run of ctest, and of programs that name none, the last lines."""
    found = []
    over = set()
    for match in ctest.RESULT.finditer(output):
        name, status = match[1], match[2].strip()
        over.add(name)
        if status == "Passed" or "Skipped" in status or "Disabled" in status:
            continue
        end = NEXT.search(output, match.end())
        text = output[match.end() : end.start() if end else len(output)]
        cases = _cases(name, folder / f"{name}.json")
        found += cases or [failure(f"{name} ({_plain(status)})", last_lines(text))]
    for name in dict.fromkeys(STARTED.findall(output)):
        if name not in over:
            found.append(failure(f"{name} (had not ended)"))
    return found


def _plain(status: str) -> str:
    """Of ctest's `Subprocess aborted***Exception:`."""
    return status.replace("***", " ").strip(" :")


def _cases(test: str, file: pathlib.Path) -> list[failure]:
    """By what GoogleTest wrote, if the program got to its end."""
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [
        failure(
            f"{test}/{case.get('classname', '')}.{case.get('name', '')}",
            [line for one in case["failures"] for line in one["failure"].splitlines()],
        )
        for suite in report["testsuites"]
        for case in suite["testsuite"]
        if case.get("failures")
    ]


def last_lines(output: str) -> list[str]:
    """Of a command that failed; a sanitizer's report has its first ones."""
    lines = [line for line in output.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if REPORT.search(line):
            return lines[number:]
    return lines[-LINES:]


def of_build(output: str) -> list[str]:
    """From the first line on that is an error."""
    lines = output.splitlines()
    wrong = (number for number, line in enumerate(lines) if REFUSED.search(line))
    first = next(wrong, None)
    return last_lines(output) if first is None else lines[first:]


def of_unittest(output: str) -> list[failure]:
    """Blocks of `FAIL: test (class)`, a traceback and the message, each below a line."""
    found = []
    for block in re.split(r"^={70}\n", output, flags=re.M)[1:]:
        title, _, text = block.partition("\n")
        lines = re.split(r"^-{70}\nRan \d+ test", text, flags=re.M)[0].splitlines()
        found.append(failure(title, [line for line in lines[1:] if line.strip()][-LINES:]))
    return found


def of_pytest(output: str) -> list[failure]:
    """The lines of its summary: `FAILED lab/x.py::test - message`."""
    lines = re.findall(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?$", output, re.M)
    return [failure(name, [text] if text else []) for name, text in lines]


def of_lint(output: str) -> list[failure]:
    """What each check has found stands before the line with its name."""
    found = []
    begin = 0
    for match in re.finditer(r"^lint: (\w+) \.\.\. (.*)$", output, re.M):
        if match[2] != "ok":
            lines = output[begin : match.start()].splitlines()
            found.append(failure(match[1], [line for line in lines if line.strip()]))
        begin = match.end()
    return found


def listed(failed: dict[str, list[failure]]) -> list[str]:
    """What to print of the failures of each stage: the first ones of each, if there are many."""
    turns = [one for row in itertools.zip_longest(*failed.values()) for one in row if one]
    chosen = [id(one) for one in turns[:FAILURES]]
    text = []
    for stage, found in failed.items():
        for one in found:
            if id(one) in chosen:
                text += _shown(stage, one)
    if len(turns) > FAILURES:
        text.append(f"and {len(turns) - FAILURES} more: see the logs")
    return text


def _shown(stage: str, one: failure) -> list[str]:
    """At most LINES lines, none of them long: a filter of GoogleTest's has thousands of letters."""
    lines = [line.replace(f"{ROOT}/", "").rstrip() for line in one.lines[: LINES - 1]]
    short = [line if len(line) <= COLUMNS else f"{line[: COLUMNS - 3]}..." for line in lines]
    return [f"failed in {stage}: {one.name}", *(f"    {line}" for line in short)]
