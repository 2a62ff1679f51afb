# SPDX-License-Identifier: Apache-2.0
"""`./dev demo`: installs what it needs, builds the library and the demonstration, runs its parts,
and writes one page. Interrupted, it begins again where it was."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time

from devtool import demo_page, process, setup
from devtool.process import BUILD, ROOT, dev_error, say

FOLDER = BUILD / "demo"
RESULTS = FOLDER / "results"
DONE = RESULTS / "done.json"
PAGE = FOLDER / "demo.html"
PICTURE = FOLDER / "held-reader.svg"  # README's
PROGRAM = FOLDER / "demo" / "spolia-demo"
PART_SECONDS = 120
BUILD_SECONDS = 3600
STEPS = 3 + len(demo_page.PARTS)
DOES = {
    "sleeper": "a reader sleeps while a million nodes are replaced",
    "snapshot": "a snapshot is held while writers continue",
    "queue": "a table as a queue, with and without a held reader",
    "crash": "kill -9 in the middle of commits, six times",
    "backup": "a backup beside load",
}


class steps:
    """Says which step of how many runs, and how much time has gone."""

    def __init__(self) -> None:
        self.number = 0
        self.start = time.monotonic()
        self.shown = 0.0

    def clock(self) -> str:
        gone = int(time.monotonic() - self.start)
        return f"{gone // 60}:{gone % 60:02d}"

    def next(self, text: str) -> None:
        self.number += 1
        say(f"[{self.number} of {STEPS}, {self.clock()}] {text}")
        self.shown = time.monotonic()

    def progress(self, text: str) -> None:
        """On a terminal in place, elsewhere a line every ten seconds."""
        if sys.stdout.isatty():
            print(f"\r    {text}, {self.clock()}   ", end="", flush=True)
        elif time.monotonic() - self.shown > 10:
            say(f"    {text}, {self.clock()}")
            self.shown = time.monotonic()

    def end_progress(self) -> None:
        if sys.stdout.isatty():
            print("\r" + " " * 60 + "\r", end="", flush=True)


def run(args: argparse.Namespace) -> int:
    at = steps()
    at.next("installs g++, cmake and ninja, where they are missing")
    setup.require("demo")
    _build(at)
    finished = _finished()
    parts = [_part(at, name, finished) for name in demo_page.PARTS]
    at.next("writes the page")
    PAGE.write_text(demo_page.page(parts, _about_run()), encoding="utf-8")
    PICTURE.write_text(demo_page.picture(parts[0]), encoding="utf-8")
    DONE.unlink(missing_ok=True)  # the next run measures anew
    return _tell(parts, at, not args.no_open)


def _build(at: steps) -> None:
    at.next("builds the library and the demonstration: one to three minutes the first time")
    log = BUILD / "logs" / "demo.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("", encoding="utf-8")
    for command in (["cmake", "--preset", "demo"], ["cmake", "--build", "--preset", "demo"]):
        if "--build" in command:
            command = [*command, "-j", str(process.jobs()), "--target", "spolia-demo"]
        ran = process.watched(command, BUILD_SECONDS, log, show=lambda line: _show(at, line))
        at.end_progress()
        if not ran.ok:
            raise dev_error(
                f"`{' '.join(command)}` failed:\n{_last(ran.output)}\nThe whole output is in {log}",
                1,
            )


def _last(output: str) -> str:
    errors = [line for line in output.splitlines() if re.search(r"\berror\b|FAILED", line)]
    return "\n".join((errors or output.splitlines())[-10:])


def _show(at: steps, line: str) -> None:
    built = re.match(r"\[(\d+)/(\d+)\]", line)
    if built:
        at.progress(f"{built[1]} of {built[2]} built")


def _finished() -> list[str]:
    """The parts that an interrupted run of the same program has finished."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    try:
        known = json.loads(DONE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return known["parts"] if known.get("program") == PROGRAM.stat().st_mtime_ns else []


def _part(at: steps, name: str, finished: list[str]) -> demo_page.Part:
    record = RESULTS / f"{name}.jsonl"
    if name in finished:
        at.next(f"{DOES[name]}: measured before the interruption")
        return demo_page.read(name, record)
    at.next(DOES[name])
    record.unlink(missing_ok=True)
    log = BUILD / "logs" / "demo.log"
    ran = process.watched([str(PROGRAM), name, str(RESULTS)], PART_SECONDS, log)
    error = ""
    if ran.timed_out:
        error = f"the part did not end within {PART_SECONDS} s"
    elif ran.status not in (0, 1):  # 1: a check failed, and the record says which
        error = f"the part ended with {ran.status}: {ran.output.strip()[-200:]}"
    part = demo_page.read(name, record, error)
    if ran.status == 1 and not part.broken:
        part.error = "the part reports a broken promise, and its record does not say which"
    if part.kept:
        finished.append(name)
        known = {"program": PROGRAM.stat().st_mtime_ns, "parts": finished}
        DONE.write_text(json.dumps(known), encoding="utf-8")
    return part


def _about_run() -> str:
    known = process.revision()
    return (
        f"Made by ./dev demo: {f'revision {known}, ' if known else ''}"
        f"{time.strftime('%Y-%m-%d %H:%M')}, "
        f"{process.jobs()} processors, {platform.system()} {platform.machine()}."
    )


def _tell(parts: list[demo_page.Part], at: steps, may_open: bool) -> int:
    bad = [part for part in parts if not part.kept]
    checks = sum(len(part.checks) for part in parts)
    say("")
    for line in demo_page.summary(parts):
        say(line)
    verdict = f"{len(bad)} parts broke a promise" if bad else f"all {checks} checks passed"
    say(f"  {verdict}, in {at.clock()} minutes")
    opened = may_open and _open()
    if not opened:
        say("")
        for line in demo_page.plot(parts[0]):
            say(line)
    say(f"  the page: {PAGE}")
    return 1 if bad else 0


def _open() -> bool:
    """Shows the page where there is a screen."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    if not shutil.which("xdg-open") or os.environ.get("CI"):
        return False
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen(["xdg-open", str(PAGE)], start_new_session=True, **quiet)
    return True
