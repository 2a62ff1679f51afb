# SPDX-License-Identifier: Apache-2.0
"""Where the trace of a trial is."""

from __future__ import annotations

from pathlib import Path

from lab.records import Located


def trace_of(trial: Located) -> Path | None:
    name = trial.record.get("lab", {}).get("trace") or trial.record.get("trace")
    if not isinstance(name, str):
        return None
    path = trial.path.parent / name
    return path if path.is_file() else None
