# SPDX-License-Identifier: Apache-2.0
"""`./dev test --quick` and `./dev test NAME`: what a developer runs between two edits."""

from __future__ import annotations

import difflib
import json
import pathlib
import re

from devtool import ctest, process, setup
from devtool.process import BUILD, dev_error, plain, say

PRESET = "quick"
NEAR = 6


def run_quick() -> int:
    """All programs, and the tests of those that have changed since they last passed.

    By clang, which takes half of g++'s time where nothing is optimised.
    """
    setup.require("build", "clang")
    plain(["cmake", "--preset", PRESET, "--log-level=WARNING"])
    jobs = str(process.jobs())
    plain(["cmake", "--build", "--preset", PRESET, "-j", jobs, "--target", "spolia-quick-tests"])
    programs = _programs(ctest.listed(PRESET, "-L", "quick"))
    passed = _read()
    due = [name for name, now in programs.items() if not now or passed.get(name) != now]
    if not due:
        say(f"nothing has changed since all {len(programs)} tests passed")
        return 0
    say(f"{len(due)} of {len(programs)} tests are due")
    chosen = "^(" + "|".join(re.escape(name) for name in due) + ")$"
    ctest.forget(PRESET)
    log = BUILD / "logs" / f"{PRESET}.log"
    log.unlink(missing_ok=True)
    command = ["ctest", "--preset", PRESET, f"-j{2 * process.jobs()}", "-R", chosen]
    outcome = process.watched(command, QUICK_SECONDS, log)
    good = ctest.passed(outcome.output)
    still = {name: state for name, state in passed.items() if name in programs}
    _write({**still, **{name: programs[name] for name in good}})
    counts = ctest.count(outcome.output, ctest.results(PRESET))
    failed = max(counts.failed, int(not outcome.ok))
    say(f"{counts.passed} passed, {failed} failed")
    return 1 if failed else 0


QUICK_SECONDS = 900


def run_named(name: str) -> int:
    """Tests whose name fits, each source a unit: what is quickest after an edit."""
    setup.require("build", "bench", "tool")
    plain(["cmake", "--preset", "release", "--log-level=WARNING"])
    program, _, cases = name.partition("/")
    try:
        chosen = ctest.targets("release", program)
    except re.error as error:
        raise dev_error(f"'{program}' is no regular expression: {error}", 2) from None
    if chosen is None:
        raise dev_error(_unknown(program), 2)
    if chosen:
        command = ["cmake", "--build", "--preset", "release", "-j", str(process.jobs())]
        plain([*command, "--target", *chosen])
    arguments, env = ctest.selection(name)
    plain(["ctest", "--preset", "release", f"-j{2 * process.jobs()}", *arguments], env)
    return 0


def _unknown(name: str) -> str:
    known = sorted(test["name"] for test in ctest.listed("release"))
    near = difflib.get_close_matches(name, known, NEAR, 0.5)
    near += [one for one in known if name[:4] in one and one not in near][: NEAR - len(near)]
    hint = f"near it: {', '.join(near)}" if near else f"there are {len(known)}"
    return f"no test is called {name}; {hint} (all: ctest --preset release -N)"


def _programs(tests: list[dict]) -> dict[str, list]:
    """What each test runs, as it is now; of what is no file of the build, nothing is kept."""
    found = {}
    for test in tests:
        command = test.get("command", [""])
        file = pathlib.Path(command[0])
        ours = file.is_relative_to(BUILD) and file.exists()
        found[test["name"]] = [command, file.stat().st_mtime_ns] if ours else None
    return found


def _record() -> pathlib.Path:
    return BUILD / PRESET / "passed.json"


def _read() -> dict:
    try:
        return json.loads(_record().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _write(passed: dict) -> None:
    _record().write_text(json.dumps({n: s for n, s in passed.items() if s}), encoding="utf-8")
