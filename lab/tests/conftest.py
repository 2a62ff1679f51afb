# SPDX-License-Identifier: Apache-2.0
"""What the laboratory's tests share: the stand-in benchmark, and made-up trials."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.bench import ROOT
from lab.records import Located

FAKE = Path(__file__).with_name("fake_bench.py")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: what takes half of the time; of `./dev test --all`")


@pytest.fixture
def lab(tmp_path):
    """Runs `python -m lab ...` over the stand-in, in a process of its own."""

    def run(*arguments, bench=FAKE, **environment):
        return subprocess.run(
            [sys.executable, "-m", "lab", *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, "SPOLIA_BENCH": str(bench), "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


@pytest.fixture
def small_sweep(lab, tmp_path):
    """A sweep of two cells; returns the function that runs it and its results file."""
    out = tmp_path / "results.jsonl"

    def run(*more, **environment):
        arguments = ("--scheme", "token,debra", "--release", "batch", "--threads", "2")
        return lab("sweep", *arguments, "--out", out, *more, **environment)

    return run, out


def trial(path="a.jsonl", **fields) -> Located:
    record = {
        "kind": "sets",
        "structure": "abtree",
        "scheme": "token",
        "release": "amortized",
        "threads": 2,
        "keys": 1000,
        "update": 100,
        "seconds": 1,
        "ops_per_s": 1e6,
        "peak_rss_bytes": 50e6,
        "allocator": "jemalloc",
        "machine": {"cpu": "Testor", "cores": 2},
    }
    return Located({**record, **fields}, Path(path))
