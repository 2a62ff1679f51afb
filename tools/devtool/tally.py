# SPDX-License-Identifier: Apache-2.0
"""Counts of tests."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class failure:
    """One test that failed, and lines that say how."""

    name: str
    lines: list[str] = field(default_factory=list)


@dataclass
class tally:
    """What one stage found. `note` says why a stage failed that has no failed test to show;
    `failures` may be fewer than have failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    failures: list[failure] = field(default_factory=list)

    def add(self, other: tally) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.note = self.note or other.note
        self.failures += other.failures
