# SPDX-License-Identifier: Apache-2.0
"""The benchmark program: where it is, what it offers, and one trial of it.

`spolia-bench list --json -` prints one JSON object:
    {"structures": ["abtree", ...], "releases": [...],
     "schemes": {"token": {"title": ..., "source": ..., "bound": ..., ...}, ...},
     "combinations": [{"structure": "abtree", "scheme": "token", "release": "batch"}, ...],
     "rivals": {"structures": {"std_map": {...}, ...}, "schemes": {...}, "combinations": [...]},
     "version_storages": ["one-shot", ...], "engines": ["spolia", ...]}
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from lab import allocators
from lab.errors import LabError
from lab.matrix import Cell
from lab.records import flatten, impossible

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_BENCH = ROOT / "build" / "release" / "bench" / "spolia-bench"


@dataclass(frozen=True)
class Catalogue:
    """The names that the program knows and the combinations that it can run."""

    structures: tuple[str, ...]
    schemes: tuple[str, ...]
    releases: tuple[str, ...]
    combinations: frozenset[tuple[str, str, str]]
    about: dict[str, dict]
    # Of other libraries, if the program was built with any: structure, scheme, release.
    rivals: tuple[tuple[str, str, str], ...] = ()
    # What the program says of each structure of another library.
    foreign: dict[str, dict] = field(default_factory=dict)
    # How the store may keep old versions.
    storages: tuple[str, ...] = ()
    # Ways to synchronize, by structure, and pointers; None: the program does not tell.
    ways: dict[str, list[str]] | None = None
    pointers: list[str] | None = None

    def supports(self, structure: str, scheme: str, release: str) -> bool:
        return (structure, scheme, release) in self.combinations

    def runs(self, cell: Cell) -> bool:
        """Other libraries' sets have no batches and traces, and not all stand a stalled reader."""
        rival = self.foreign.get(cell.structure)
        able = rival is None or not (
            cell.batch or cell.trace or cell.count or (cell.stall and not rival.get("stalls"))
        )
        return able and self.supports(*cell.combination())


@dataclass
class Trial:
    """What came of one run: a record, or in one line why there is none."""

    record: dict | None = None
    failure: str = ""
    command: list[str] = field(default_factory=list)


def parse_catalogue(text: str) -> Catalogue:
    try:
        found = json.loads(text)
        others = found.get("rivals", {"structures": {}, "schemes": {}, "combinations": []})
        rivals = _combinations(others)
        about = dict(found["schemes"])
        return Catalogue(
            structures=(*found["structures"], *others["structures"]),
            schemes=(*about, *others["schemes"]),
            releases=(*found["releases"], *sorted({release for _, _, release in rivals})),
            combinations=frozenset(_combinations(found) | rivals),
            about=about,
            rivals=tuple(sorted(rivals)),
            foreign=dict(others["structures"]),
            storages=tuple(found.get("version_storages", ())),
            ways=found.get("rlu_ways"),
            pointers=found.get("pointers"),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"'spolia-bench list --json -' printed something unexpected ({error!r}); "
            "build the program again from the same sources"
        ) from error


def _combinations(listing: dict) -> set[tuple[str, str, str]]:
    return {(c["structure"], c["scheme"], c["release"]) for c in listing["combinations"]}


class Bench:
    """A built spolia-bench."""

    def __init__(self, path: Path):
        self.path = path
        if not path.is_file() or not os.access(path, os.X_OK):
            raise LabError(
                f"no benchmark program at {path}; build it (cmake --preset release, "
                "cmake --build --preset release) or name one with --bench"
            )

    def fingerprint(self) -> str:
        """Changes when the program changes, so that two builds never share a results file."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]

    def catalogue(self) -> Catalogue:
        try:
            done = subprocess.run(
                [str(self.path), "list", "--json", "-"], capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(f"cannot run {self.path}: {error}") from error
        if done.returncode != 0:
            raise LabError(f"'{self.path} list' failed: {last_line(done.stderr, done.returncode)}")
        return parse_catalogue(done.stdout)

    def guards(self, target: Path, timeout: float) -> str:
        """Measures what guards cost, into `target`; empty, or why there is no such file."""
        return self._whole_file(["guards"], target, timeout)

    def announcements(self, target: Path, timeout: float, *more: str) -> str:
        """Counts announcements read, into `target`; empty, or why there is no such file."""
        return self._whole_file(["announcements", *more], target, timeout)

    def records(self, command: list[str], target: Path, timeout: float,
                allocator: str = "glibc") -> str:  # fmt: skip
        """Runs another sub-command into `target`; empty, or why there is no such file."""
        return self._whole_file(command, target, timeout, over=allocators.preload(allocator))

    def peers(self, arguments: list[str], target: Path, timeout: float) -> str:
        """Measures other engines by lab/peers.py; empty, or why there is no such file."""
        return self._whole_file(arguments, target, timeout, (sys.executable, "-m", "lab.peers"))

    def snapshots(self, target: Path, timeout: float, *more: str) -> str:
        """Measures maps with snapshots, into `target`; empty, or why there is no such file."""
        return self._whole_file(["snapshots", *more], target, timeout)

    def _whole_file(self, command: list[str], target: Path, timeout: float,
                    program: tuple[str, ...] = (),
                    over: dict[str, str] | None = None) -> str:  # fmt: skip
        partial = target.with_name(target.name + ".partial")
        partial.unlink(missing_ok=True)
        words = [*(program or (str(self.path),)), *command, "--json", str(partial)]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        failure = _run(words, {**os.environ, "PYTHONPATH": path, **(over or {})}, timeout)
        if failure or not partial.is_file():
            partial.unlink(missing_ok=True)
            return failure or "the program wrote nothing"
        partial.replace(target)
        return ""

    def trial(self, cell: Cell, seed: int, timeout: float, trace: Path | None) -> Trial:
        """Runs one trial. The record is read only after the program ended well, so a trial that
        is killed or fails leaves nothing behind. The trace, if asked for, is put at `trace`."""
        arguments = cell.arguments(seed)
        environment = allocators.preload(cell.allocator)
        shown = [f"{name}={value}" for name, value in environment.items()]
        outcome = Trial(command=[*shown, _shown_path(self.path), *arguments])
        with tempfile.TemporaryDirectory(prefix="spolia-lab-") as folder:
            record_file = Path(folder) / "record.jsonl"
            trace_file = Path(folder) / "trace.jsonl"
            command = [str(self.path), *arguments, "--json", str(record_file)]
            if trace is not None:
                command += ["--trace", str(trace_file)]
            outcome.failure = _run(command, {**os.environ, **environment}, timeout)
            if not outcome.failure:
                _collect(outcome, cell, record_file)
            if not outcome.failure and trace is not None:
                if trace_file.is_file():
                    keep_compressed(trace_file, trace)
                else:
                    outcome.failure = "the program wrote no trace"
        return outcome


def _run(command: list[str], environment: dict[str, str], timeout: float) -> str:
    """Empty when the command ended well, else what went wrong."""
    try:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return f"cannot run {command[0]}: {error}"
    try:
        _, complaint = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"no end after {timeout:g} s; stopped"
    finally:
        # The trial is its own process group: whatever ends this call, nothing of it runs on.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        return last_line(complaint, process.returncode)
    return ""


def _collect(outcome: Trial, cell: Cell, record_file: Path) -> None:
    try:
        lines = [line for line in record_file.read_text().splitlines() if line.strip()]
        records = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        outcome.failure = f"the program ended well but its record cannot be read: {error}"
        return
    if len(records) != 1:
        outcome.failure = f"expected one record, the program wrote {len(records)}"
        return
    record = flatten(records[0])
    if "ops_per_s" not in record:
        outcome.failure = "the record has no ops_per_s"
        return
    wrong = impossible(records)
    if wrong:
        outcome.failure = wrong
        return
    detected = record.get("allocator")
    if detected is not None and detected != cell.allocator:
        outcome.failure = f"asked for {cell.allocator}, the program found {detected} under itself"
        return
    outcome.record = records[0]


def keep_compressed(source: Path, target: Path) -> None:
    """Puts `source` at `target` gzipped, all of it or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with source.open("rb") as plain, gzip.open(partial, "wb", compresslevel=5) as packed:
        shutil.copyfileobj(plain, packed)
    partial.replace(target)


def last_line(text: str, code: int) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return f"{ended}: {lines[-1].strip()}" if lines else ended


def _shown_path(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return str(path)
