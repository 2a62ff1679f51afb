# SPDX-License-Identifier: Apache-2.0
"""Running other programs: with a time limit, a log, and on screen only what says something."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
FULL_TEST = ROOT / "docs" / "last-full-test.md"

# Progress lines: they go to the log, and to the screen only as a sign of life now and then.
NOISE = re.compile(
    r"^\[\d+/\d+\]|^-- |^Preset |^  \w+(:\w+)?=|^$"
    r"|^\s*Start\s+\d+: |^\s*\d+/\d+ Test +#\d+: .* Passed "
    r"|^Test project |^Internal ctest|^ninja: |^Label Time|^Total Test|^\w+ += +[\d.]+ sec"
)
SIGN_OF_LIFE_SECONDS = 30
SECONDS_TO_END = 10


class dev_error(Exception):
    """An error whose message is all that the user needs; `status` becomes the exit code."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class outcome:
    status: int
    output: str
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.status == 0 and not self.timed_out


def jobs() -> int:
    """How many compilers at once: SPOLIA_JOBS, or one per processor that this process may use."""
    asked = os.environ.get("SPOLIA_JOBS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


def revision() -> str:
    """The commit, and whether files differ from it; empty without git, or outside of a clone. The
    page of the last full test, which is written after the commit that it is about, may differ."""
    commit = _git("describe", "--always", "--abbrev=12")
    others = f":(exclude){FULL_TEST.relative_to(ROOT)}"
    changed = commit and _git("status", "--porcelain", "--untracked-files=no", "--", ".", others)
    return f"{commit}-dirty" if changed else commit


def commit_time() -> str:
    """Of the commit, in seconds since 1970; empty without git, or outside of a clone."""
    return _git("log", "-1", "--format=%ct")


def _git(*words: str) -> str:
    if not shutil.which("git"):
        return ""
    command = ["git", "-C", str(ROOT), *words]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def say(text: str) -> None:
    print(text, flush=True)


def replace(command: list[str]) -> None:
    """Become `command`, so that its signals and exit code are the caller's. Does not return."""
    sys.stdout.flush()
    os.chdir(ROOT)
    os.execvp(command[0], command)


class _children:
    """What this process has started and has not seen end."""

    running: ClassVar[list[subprocess.Popen]] = []
    starting = False
    told = 0  # the signal that ends it all

    @classmethod
    def start(cls, command: list[str], **how) -> subprocess.Popen:
        """In a process group of its own, which ends when this process has to."""
        cls.starting = True
        try:
            child = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **how)
            cls.running.append(child)
        finally:
            cls.starting = False
        if cls.told:  # meanwhile
            raise SystemExit(128 + cls.told)
        return child

    @classmethod
    def be_told(cls, number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        cls.told = number
        if not cls.starting:
            raise SystemExit(128 + number)


def end_when_told() -> None:
    """From now on signals end this process by SystemExit, for end_children() to be called."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(one) != signal.SIG_IGN:  # by nohup, say
            signal.signal(one, _children.be_told)


def end_children() -> None:
    for child in _children.running:
        if child.returncode is None:
            _end(child)


def _end(child: subprocess.Popen) -> None:
    """The whole group: asked first, for ninja has its compilers in groups of their own."""
    deadline = time.monotonic() + SECONDS_TO_END
    # None of them is left, or they are another user's.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            time.sleep(0.02)
            child.poll()
            os.killpg(child.pid, 0)
        os.killpg(child.pid, signal.SIGKILL)


def status_of(command: list[str], env: dict[str, str] | None = None) -> int:
    """Run with the output attached; the exit code."""
    child = _children.start(command, env=env)
    status = child.wait()
    _children.running.remove(child)
    return status


def plain(command: list[str], env: dict[str, str] | None = None) -> None:
    """As status_of(), but failure is an error."""
    status = status_of(command, env)
    if status != 0:
        raise dev_error(f"`{' '.join(command)}` failed with exit code {status}", 1)


def tool(*names: str) -> str:
    """The first of these programs that is installed."""
    for name in names:
        if shutil.which(name):
            return name
    raise dev_error(f"none of these programs is installed: {', '.join(names)}", 2)


def watched(
    command: list[str],
    seconds: float,
    log: pathlib.Path,
    env: dict[str, str] | None = None,
    verbose: bool = False,
    show: Callable[[str], None] | None = None,
) -> outcome:
    """Run `command` for at most `seconds`, everything into `log`, lines that matter to the screen;
    with `show`, each line goes there and none to the screen.

    The command gets a process group of its own, so that a time-out also ends its children.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    expired = threading.Event()
    with log.open("a", encoding="utf-8") as sink:
        sink.write(f"$ {' '.join(command)}\n")
        child = _children.start(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

        def end_group() -> None:
            expired.set()
            _end(child)

        timer = threading.Timer(max(seconds, 0.1), end_group)
        timer.start()
        try:
            lines = list(_tee(child.stdout, sink, verbose, show))
            child.wait()
            _children.running.remove(child)
        finally:
            timer.cancel()
    if expired.is_set():
        say(f"    ended after {time.monotonic() - started:.0f} s: over its time limit")
    return outcome(child.returncode, "".join(lines), expired.is_set())


def _tee(lines, sink, verbose: bool, show: Callable[[str], None] | None):
    shown = time.monotonic()
    for line in lines:
        sink.write(line)
        if show is not None:
            show(line)
        elif verbose or not NOISE.search(line.rstrip("\n")):
            say("    " + line.rstrip("\n"))
            shown = time.monotonic()
        elif time.monotonic() - shown > SIGN_OF_LIFE_SECONDS and line.strip():
            say("    ... " + line.strip()[:90])
            shown = time.monotonic()
        yield line
