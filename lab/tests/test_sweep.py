# SPDX-License-Identifier: Apache-2.0
"""Sweeps: interleaved, resumable, and never leaving half a record."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from lab.bench import ROOT
from lab.errors import LabError
from lab.matrix import Cell, Matrix, expand, read_toml
from lab.records import Store, open_failures, read_lines
from lab.sweep import Limits, order
from lab.tests.conftest import FAKE


def trials(path):
    return [record for record in read_lines(path) if record["kind"] == "sets"]


def test_records_hold_what_was_asked_and_what_came_out(small_sweep):
    run, out = small_sweep
    assert run("--trials", "2", "--seed", "7").returncode == 0
    records = trials(out)
    assert len(records) == 4
    first = records[0]
    assert first["lab"]["configuration"]["scheme"] == first["scheme"]
    assert first["lab"]["others_cores"] >= 0
    assert first["seed"] == 7 + first["lab"]["round"]
    assert "--scheme" in first["lab"]["command"]
    assert read_lines(out)[0]["kind"] == "schemes"


def test_trials_are_interleaved(small_sweep):
    run, out = small_sweep
    run("--trials", "4", "--threads", "1,2")
    rounds = [record["lab"]["round"] for record in trials(out)]
    assert rounds == sorted(rounds)
    for number in range(4):
        cells = {r["lab"]["cell"] for r in trials(out) if r["lab"]["round"] == number}
        assert len(cells) == 4


def test_the_order_of_a_round_follows_the_seed():
    cells = [Cell("abtree", "token", "batch", t, 10, 100, 1) for t in range(1, 30)]
    assert order(cells, 1, 0) == order(cells, 1, 0)
    assert order(cells, 1, 0) != order(cells, 1, 1)
    assert order(cells, 1, 0) != order(cells, 2, 0)
    assert sorted(order(cells, 1, 0), key=lambda c: c.threads) == cells


def test_a_second_run_adds_only_what_is_missing(small_sweep):
    run, out = small_sweep
    run("--trials", "1")
    before = out.read_text()
    done = run("--trials", "3")
    assert out.read_text().startswith(before)
    assert len(trials(out)) == 6
    assert "4 trials run, 2 were there already" in done.stderr


def test_a_torn_last_line_is_dropped_and_run_again(small_sweep):
    run, out = small_sweep
    run("--trials", "2")
    whole = out.read_text()
    out.write_text(whole[:-50])
    assert len(trials(out)) == 3
    assert run("--trials", "2").returncode == 0
    assert len(trials(out)) == 4


def test_another_build_is_not_mixed_in(small_sweep, tmp_path):
    run, out = small_sweep
    run("--trials", "1")
    other = tmp_path / "other-bench"
    other.write_text(FAKE.read_text() + "\n# another build\n")
    other.chmod(0o755)
    done = run("--trials", "2", SPOLIA_BENCH=str(other))
    assert done.returncode == 2
    assert "another build" in done.stderr
    assert len(trials(out)) == 2


def test_one_writer_at_a_time(tmp_path):
    with Store(tmp_path / "a.jsonl"), pytest.raises(LabError, match="another sweep is writing"):
        Store(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("crash", "exit code 134: token ring broke"),
        ("partial", "killed by signal 9"),
        ("silent", "cannot be read"),
        ("liar", "asked for glibc, the program found bump"),
        ("bare", "no ops_per_s"),
        ("still", "ops_per_s is 0"),
        ("nan", "ops_per_s is nan"),
    ],
)
def test_a_failed_trial_leaves_no_record(small_sweep, fault, told):
    run, out = small_sweep
    done = run("--trials", "1", FAKE_BENCH_FAULT=f"{fault}:debra")
    assert done.returncode == 1
    assert told in done.stderr
    assert [record["scheme"] for record in trials(out)] == ["token"]
    assert [entry["configuration"]["scheme"] for entry in open_failures([out])] == ["debra"]
    assert run("--trials", "1").returncode == 0
    assert open_failures([out]) == []


def test_a_trial_without_end_is_stopped(small_sweep):
    run, out = small_sweep
    done = run("--trials", "1", "--timeout", "1", FAKE_BENCH_FAULT="hang:token")
    assert done.returncode == 1
    assert "no end after 1 s" in done.stderr
    # The other one is tried, too; on a busy machine it may need longer than a second as well.
    failed = {entry["configuration"]["scheme"] for entry in open_failures([out])}
    assert "token" in failed
    assert failed | {record["scheme"] for record in trials(out)} == {"token", "debra"}
    assert run("--trials", "1").returncode == 0
    assert sorted(record["scheme"] for record in trials(out)) == ["debra", "token"]


def test_a_broken_program_is_given_up(small_sweep):
    run, out = small_sweep
    done = run("--trials", "9", FAKE_BENCH_FAULT="crash")
    assert done.returncode == 2
    assert "5 trials failed in a row" in done.stderr
    assert trials(out) == []


def test_a_killed_laboratory_goes_on_where_it_was(small_sweep):
    run, out = small_sweep
    arguments = ["sweep", "--scheme", "token,debra", "--release", "batch", "--threads", "2",
                 "--trials", "9", "--out", str(out)]  # fmt: skip
    slow = {**os.environ, "SPOLIA_BENCH": str(FAKE), "FAKE_BENCH_SLEEP": "1"}
    process = subprocess.Popen([sys.executable, "-m", "lab", *arguments], cwd=ROOT, env=slow,
                               stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not out.exists() or len(trials(out)) < 2):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = len(trials(out))
    assert 2 <= before < 18
    # No process waits for the trial that was under way. It writes only to its own folder.
    assert run("--trials", "9").returncode == 0
    assert len(trials(out)) == 18


def test_traces_are_kept_beside_the_results(small_sweep):
    run, out = small_sweep
    run("--trials", "1", "--trace")
    for record in trials(out):
        with gzip.open(out.parent / record["lab"]["trace"], "rt") as lines:
            assert "event" in json.loads(next(lines))


def test_a_dry_run_runs_nothing(small_sweep):
    run, out = small_sweep
    done = run("--dry-run")
    assert done.returncode == 0
    assert "2 cells, 3 trials each" in done.stdout
    assert not out.exists()


def test_unsupported_combinations_are_left_out_and_named(small_sweep):
    run, _ = small_sweep
    done = run("--scheme", "token,hazard_pointers", "--dry-run")
    assert "abtree hazard_pointers/batch" in done.stderr
    assert "1 cells" in done.stdout


def test_hashes_tell_all_settings_apart_and_stay():
    base = Cell("abtree", "token", "batch", 2, 10, 100, 1.0)
    others = [Cell("abtree", "token", "batch", 2, 10, 100, 1.0, **more)
              for more in ({"stall": True}, {"batch": 7}, {"allocator": "jemalloc"},
                           {"trace": True})]  # fmt: skip
    assert len({cell.hash() for cell in [base, *others]}) == 5
    assert base.hash() == Cell("abtree", "token", "batch", 2, 10, 100, 1.0).hash()


def test_matrices_of_a_toml_file(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        'trials = 4\nseconds = 0.5\n[[matrix]]\nscheme = ["token", "debra"]\nrelease = "batch"\n'
        "threads = [1, 2]\n[[matrix]]\nstructure = 'list'\nscheme = 'token'\nstall = [true]\n"
        "release = 'batch'\n"
    )
    matrices, settings = read_toml(path, Matrix())
    assert settings == {"trials": 4}

    class Everything:
        def runs(self, _):
            return True

    cells, skipped = expand(matrices, Everything())
    assert skipped == []
    assert len(cells) == 4 + 3
    assert {cell.seconds for cell in cells} == {0.5}
    assert {cell.keys for cell in cells} == {200_000, 1_000}


RIVALS = ("--structure", "abtree,std_map", "--scheme", "token,mutex",
          "--release", "amortized,own", "--threads", "1,2")  # fmt: skip


@pytest.mark.long
def test_other_libraries_run_between_ours_and_are_reported(lab, tmp_path):
    out, page = tmp_path / "rivals.jsonl", tmp_path / "page.html"
    assert lab("sweep", *RIVALS, "--trials", "2", "--out", out).returncode == 0
    for number in range(2):
        ran = [r["structure"] for r in trials(out) if r["lab"]["round"] == number]
        assert sorted(ran) == ["abtree", "abtree", "std_map", "std_map"]
    assert lab("report", out, "--out", page).returncode == 0
    assert "One mutex" in page.read_text()


@pytest.mark.long
def test_what_other_libraries_cannot_do_is_left_out(lab, tmp_path):
    out = tmp_path / "rivals.jsonl"
    for option in (("--stall", "yes"), ("--batch", "64"), ("--trace",), ("--count",)):
        done = lab("sweep", *RIVALS, *option, "--dry-run", "--out", out)
        assert "std_map mutex/own" in done.stderr
        assert "std_map" not in done.stdout
        assert "abtree token/amortized" in done.stdout


def test_limits_leave_a_first_round_more_time():
    limits = Limits(deadline=time.monotonic(), first_round_deadline=time.monotonic() + 100)
    assert limits.allows(0, 1)
    assert not limits.allows(1, 1)
    assert Limits().allows(5, 1e9)
