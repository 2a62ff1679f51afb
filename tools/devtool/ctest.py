# SPDX-License-Identifier: Apache-2.0
"""Running ctest, and counting cases: most of its tests are programs with many of them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

from devtool.process import BUILD, ROOT
from devtool.tally import tally

# A line such as ` 2/40 Test #17: list_stress.1 ......***Failed    0.07 sec`.
RESULT = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.*(.*?) +[\d.]+ sec\b", re.M)

# A line such as `  Test #17: list_stress.1` of ctest -N.
LISTED = re.compile(r"^ *Test +#\d+: (\S+)", re.M)
# A line such as `test-list_stress: phony` of ninja's targets.
PROGRAM = re.compile(r"^(test-\w+):", re.M)


def selection(pattern: str | None) -> tuple[list[str], dict[str, str] | None]:
    """Arguments of ctest and its environment for `-k PROGRAM[/CASES]`.

    PROGRAM is a regular expression over the names of programs, CASES a filter of GoogleTest.
    """
    if not pattern:
        return [], None
    program, _, cases = pattern.partition("/")
    return ["-R", program], dict(os.environ, GTEST_FILTER=cases) if cases else None


def targets(preset: str, pattern: str) -> list[str] | None:
    """What to build in a configured preset for what fits `-k`; None: not programs alone."""
    chosen, _ = selection(pattern)
    tests = LISTED.findall(_asked(["ctest", "--preset", preset, "-N", *chosen]))
    programs = {f"test-{name.partition('.')[0]}" for name in tests}
    known = _asked(["cmake", "--build", "--preset", preset, "--target", "help"])
    return sorted(programs) if programs <= set(PROGRAM.findall(known)) else None


def _asked(command: list[str]) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def results(preset: str) -> pathlib.Path:
    """Where the programs of this build write what became of their cases."""
    return BUILD / preset / "results"


def forget(preset: str) -> None:
    """Before a run: what an earlier one left must not be counted again."""
    for file in results(preset).glob("*.json"):
        file.unlink()


def count(output: str, folder: pathlib.Path) -> tally:
    """What a run of ctest found, by its output and by what its programs wrote into `folder`."""
    total = tally()
    for name, status in RESULT.findall(output):
        total.add(_one(status, folder / f"{name}.json"))
    return total


def _one(status: str, file: pathlib.Path) -> tally:
    """One test of ctest. A program that did not get to its end wrote nothing: a failure."""
    counts = _cases(file) if file.exists() else None
    if counts is None:
        idle = "Skipped" in status or "Disabled" in status
        good = status.strip() == "Passed"
        return tally(int(good), int(not good and not idle), int(idle))
    if status.strip() != "Passed" and not counts.failed:
        counts.failed = 1
    return counts


def _cases(file: pathlib.Path) -> tally | None:
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None
    counts = tally()
    for suite in report["testsuites"]:
        for case in suite["testsuite"]:
            idle = case["result"] in ("SKIPPED", "SUPPRESSED")
            bad = bool(case.get("failures"))
            counts.add(tally(int(not idle and not bad), int(bad), int(idle and not bad)))
    return counts
