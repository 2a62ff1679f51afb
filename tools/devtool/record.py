# SPDX-License-Identifier: Apache-2.0
"""`docs/last-full-test.md`: how each stage of `./dev test --all` last ended, of which revision."""

from __future__ import annotations

import platform
import time

from devtool import process
from devtool.process import FULL_TEST
from devtool.tally import tally

NAMES = 5
HEAD = [
    "# The last run of each stage of `./dev test --all`",
    "",
    "The command writes this page: a stage's line when the stage has ended. All stages take half",
    "a day; `./dev test --all --stage NAME` runs one of them, and writes its line. Lines that",
    "begin with `systems/` are rows of [where it runs](where-it-runs.md). A stage or a row without",
    "a line here was not run yet. Older lines do not name what failed.",
    "",
    "| stage | passed | failed | skipped | seconds | CPU seconds | revision | day | machine "
    "| what failed |",
    "|---|---|---|---|---|---|---|---|---|---|",
]


def of_now() -> str:
    """The columns that a run's stages have in common."""
    revision = process.revision() or "unknown"
    machine = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return f"{revision} | {time.strftime('%Y-%m-%d')} | {machine}, {process.jobs()} processors"


def lines_of(page: str) -> dict[str, str]:
    """The page's line of each stage."""
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    return {line.split("|")[1].strip(): line for line in rows}


def with_line(page: str, order: list[str], name: str, result: tally, now: str) -> str:
    """The page with a new line for this stage, in place of its old one."""
    lines = lines_of(page)
    times = f"{result.seconds:.0f} | {result.cpu_seconds:.0f}"
    counts = f"{result.passed} | {result.failed} | {result.skipped} | {times}"
    lines[name] = f"| {name} | {counts} | {now} | {_what_failed(result)} |"
    return "\n".join([*HEAD, *(lines[one] for one in order if one in lines)]) + "\n"


def _what_failed(result: tally) -> str:
    """The names of the failed tests, the first ones if there are many, or the reason."""
    names = list(dict.fromkeys(one.name for one in result.failures))
    told = ", ".join(f"`{name}`" for name in names[:NAMES])
    more = f", and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return "; ".join(text.replace("|", "/") for text in (told + more, result.note) if text)


def write(order: list[str], name: str, result: tally, now: str) -> None:
    before = FULL_TEST.read_text(encoding="utf-8") if FULL_TEST.exists() else ""
    FULL_TEST.write_text(with_line(before, order, name, result, now), encoding="utf-8")
