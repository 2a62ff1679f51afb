# SPDX-License-Identifier: Apache-2.0
"""Results files: JSON lines that only ever grow by whole records."""

from __future__ import annotations

import fcntl
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

# These stay objects; any other object in a record only groups fields and is opened up.
KEPT_OBJECTS = ("machine", "lab")
# Of a record, the first of these that it has: how much was done in a second.
SPEEDS = ("ops_per_s", "mops", "tx_per_s", "updates_per_s")
REQUIRED = ("structure", "scheme", "release", "threads", "ops_per_s")


def flatten(record: dict) -> dict:
    flat = {}
    for name, value in record.items():
        if isinstance(value, dict) and name not in KEPT_OBJECTS:
            flat.update(value)
        else:
            flat[name] = value
    return flat


def impossible(records: list[dict]) -> str:
    """What of these records is a speed that cannot be; empty: all is well. In a trial of sets
    something is done in any case."""
    for flat in map(flatten, records):
        sets = flat.get("kind", "sets") == "sets"
        for name in SPEEDS:
            value = flat.get(name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is None or (number and (0 < value < math.inf or (value == 0 and not sets))):
                continue
            return f"{name} is {value}"
    return ""


@dataclass(frozen=True)
class Located:
    """A flat record and the file it stands in (traces are found beside it)."""

    record: dict
    path: Path


def read_lines(path: Path) -> list[dict]:
    """All records of a file. A last line without its newline was cut off and is left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"cannot read {path}: {error}") from error
    if not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
    records = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise LabError(f"{path}:{number} is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise LabError(f"{path}:{number} is not a JSON object")
        records.append(record)
    return records


def load(paths: list[Path], none_will_do: bool = False) -> list[Located]:
    """The trials of all files, checked for the fields that nothing can be drawn without."""
    located = []
    for path in paths:
        for number, record in enumerate(read_lines(path), 1):
            flat = flatten(record)
            if flat.get("kind", "sets") != "sets":
                continue
            missing = [name for name in REQUIRED if flat.get(name) is None]
            if missing:
                raise LabError(f"{path}: record {number} has no {', '.join(missing)}")
            if wrong := impossible([flat]):
                raise LabError(f"{path}: of record {number}, {wrong}")
            located.append(Located(flat, path))
    if not located and not none_will_do:
        names = ", ".join(str(path) for path in paths)
        raise LabError(f"no trials in {names}; run './dev lab sweep' or './dev lab quick'")
    return located


def of_kind(paths: list[Path], kind: str) -> list[dict]:
    """Records of another kind than trials: 'schemes' (what the program says of each scheme) and
    'guards' (what entering, leaving and protecting cost), and more."""
    return [r for path in paths for r in read_lines(path) if r.get("kind") == kind]


class Store:
    """A results file open for a sweep: one writer at a time, whole records only."""

    def __init__(self, path: Path):
        self.path = path
        self.failures = path.with_name(path.stem + ".failures.jsonl")
        self.traces = path.with_name(path.stem + ".traces")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab+")
        except OSError as error:
            raise LabError(f"cannot write {path}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise LabError(f"another sweep is writing {path}; give another --out") from error
        self._drop_torn_line()
        self.records = read_lines(path)
        self._drop_torn_pass()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_) -> None:
        self._file.close()

    def _drop_torn_line(self) -> None:
        content = self.path.read_bytes()
        if content and not content.endswith(b"\n"):
            self._file.truncate(content.rfind(b"\n") + 1)

    def _drop_torn_pass(self) -> None:
        """The last pass, if some of its records were cut off as whole lines: those that are there
        say how many there were to be."""
        last = (self.records[-1].get("lab") or {}) if self.records else {}
        there = 0
        for record in reversed(self.records):
            lab = record.get("lab") or {}
            if (lab.get("cell"), lab.get("round")) != (last.get("cell"), last.get("round")):
                break
            there += 1
        if there >= last.get("records", 1):
            return
        lines = self.path.read_bytes().splitlines(keepends=True)
        left = len(lines)
        while there:  # empty lines are no records
            left -= 1
            there -= bool(lines[left].strip())
        self._file.truncate(len(b"".join(lines[:left])))
        self.records = read_lines(self.path)

    def finished(self) -> set[tuple[str, int]]:
        """Which cell has been run in which round."""
        labs = [record["lab"] for record in self.records if "lab" in record]
        return {(lab["cell"], lab["round"]) for lab in labs}

    def require_build(self, fingerprint: str) -> None:
        """One file, one build: medians over two programs would mean nothing."""
        for record in self.records:
            if record.get("lab", {}).get("build", fingerprint) != fingerprint:
                raise LabError(
                    f"{self.path} holds trials of another build of spolia-bench "
                    f"(revision {record.get('revision', 'unknown')}); give another --out"
                )

    def append(self, *records: dict) -> None:
        """All of them in one piece: what is cut off is found, and is left out."""
        lines = "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in records)
        self._file.write(lines.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records += records

    def note_failure(self, entry: dict) -> None:
        with self.failures.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def open_failures(paths: list[Path]) -> list[dict]:
    """Trials that failed and were not made up for by a later run."""
    left = []
    for path in paths:
        failures = path.with_name(path.stem + ".failures.jsonl")
        if not failures.is_file():
            continue
        labs = [record["lab"] for record in read_lines(path) if "lab" in record]
        done = {(lab["cell"], lab["round"]) for lab in labs}
        latest = {(entry["cell"], entry["round"]): entry for entry in read_lines(failures)}
        left += [entry for key, entry in latest.items() if key not in done]
    return left
