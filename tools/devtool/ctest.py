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

# A line such as `add_test([=[list.1]=] "/build/tests/test-list" "--long")` of CMake's files.
DECLARED = re.compile(r'^add_test\((?:\[=*\[)?(.+?)(?:\]=*\])? "(.*)"\)$', re.M)

# A line such as `test-list_stress: phony` of ninja's targets.
TARGET = re.compile(r"^([^\s:]+):", re.M)


def selection(pattern: str | None) -> tuple[list[str], dict[str, str] | None]:
    """Arguments of ctest and its environment for `-k PROGRAM[/CASES]`.

    PROGRAM is a regular expression over the names of programs, CASES a filter of GoogleTest.
    """
    if not pattern:
        return [], None
    program, _, cases = pattern.partition("/")
    return ["-R", program], dict(os.environ, GTEST_FILTER=cases) if cases else None


def targets(preset: str, pattern: str) -> list[str] | None:
    """What to build in a configured preset for what fits `-k`; None: nothing fits.

    A test needs the programs that its command names, or all if it names a folder of the build that
    is not its own. Tests that name nothing of the build compile something themselves.
    """
    tests = listed(preset, *selection(pattern)[0])
    if not tests:
        return None
    help_text = _asked(["cmake", "--build", "--preset", preset, "--target", "help"])
    known = {*TARGET.findall(help_text), "all"}
    needed: set[str] = set()
    for test in tests:
        needed |= {name for name in _named(test, BUILD / preset) if name in known}
    return sorted(needed)


def listed(preset: str, *chosen: str) -> list[dict]:
    """The tests that ctest's arguments choose, each with its command."""
    text = _asked(["ctest", "--preset", preset, "--show-only=json-v1", *chosen])
    tests = json.loads(text or "{}").get("tests", [])
    declared = _declared(BUILD / preset)
    for test in tests:
        test.setdefault("command", declared.get(test.get("name"), []))
    return tests


def passed(output: str) -> list[str]:
    return [name for name, status in RESULT.findall(output) if status.strip() == "Passed"]


def _declared(folder: pathlib.Path) -> dict[str, list[str]]:
    """The tests' commands by name: ctest keeps back those of programs that are not built yet."""
    found = {}
    for file in folder.rglob("CTestTestfile.cmake"):
        for name, words in DECLARED.findall(file.read_text()):
            found[name] = words.split('" "')
    return found


def _named(test: dict, folder: pathlib.Path) -> set[str]:
    """What would be targets of the build if it made what the test's command names."""
    named: set[str] = set()
    properties = {one["name"]: one["value"] for one in test.get("properties", [])}
    own = pathlib.Path(properties.get("WORKING_DIRECTORY", ""))
    for word in test.get("command", []):
        for part in word.rpartition("=")[2].split(";"):
            path = pathlib.Path(part)
            if path.is_relative_to(folder) and not path.is_relative_to(own):
                named.add("all" if path.is_dir() else path.name)
            elif path.is_relative_to(folder):
                named.add(path.name)
    return named


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
