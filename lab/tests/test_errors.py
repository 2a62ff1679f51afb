# SPDX-License-Identifier: Apache-2.0
"""Bad input: one line that says what is wrong and what is allowed, exit code 2, nothing written."""

from __future__ import annotations

import pytest

from lab import allocators
from lab.errors import LabError
from lab.matrix import Matrix, read_toml

BAD = [
    (("--scheme", "tokem"), "unknown scheme 'tokem'; known: none, token"),
    (("--structure", "heap"), "unknown structure 'heap'; known: abtree, avl, external_bst, list"),
    (("--release", "never"), "unknown release 'never'"),
    (("--allocator", "bump"), "unknown allocator 'bump'; known: glibc, jemalloc"),
    (("--threads", "0"), "threads is 0; it must be a whole number from 1 to 4096"),
    (("--threads", "two"), "not a list of whole numbers"),
    (("--threads", ","), "name at least one value"),
    (("--update", "101"), "update is 101"),
    (("--seconds", "nan"), "seconds is nan"),
    (("--seconds", "-1"), "seconds is -1.0"),
    (("--trials", "0"), "trials is 0"),
    (("--seed", "-4"), "seed is -4"),
    (("--timeout", "0"), "timeout is 0"),
    (("--stall", "maybe"), "'maybe' is not one of"),
    (("--frobnicate",), "No such option"),
    (("--structure", "abtree", "--scheme", "hazard_pointers"), "none of these combinations"),
]


@pytest.mark.parametrize(("arguments", "complaint"), BAD)
def test_a_bad_sweep_says_why_and_writes_nothing(lab, tmp_path, arguments, complaint):
    out = tmp_path / "out.jsonl"
    done = lab("sweep", *arguments, "--out", out)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.startswith("lab: ")
    assert done.stderr.count("\n") == 1
    assert not out.exists()


def test_no_benchmark_program(lab, tmp_path):
    done = lab("sweep", "--out", tmp_path / "out.jsonl", bench=tmp_path / "missing")
    assert done.returncode == 2
    assert "no benchmark program at" in done.stderr


def test_a_program_that_is_no_benchmark(lab, tmp_path):
    done = lab("sweep", "--out", tmp_path / "out.jsonl", bench="/bin/echo")
    assert done.returncode == 2
    assert "printed something unexpected" in done.stderr


def test_an_unwritable_results_file(lab):
    done = lab("sweep", "--out", "/proc/nowhere/out.jsonl")
    assert done.returncode == 2
    assert "cannot write /proc/nowhere/out.jsonl" in done.stderr


def test_an_unwritable_report(small_sweep, lab):
    run, out = small_sweep
    run("--trials", "1")
    done = lab("report", out, "--out", "/proc/nowhere/report.html")
    assert done.returncode == 2
    assert "cannot write /proc/nowhere/report.html" in done.stderr


def test_a_report_of_nothing_leaves_the_old_one(lab, tmp_path):
    page, results = tmp_path / "report.html", tmp_path / "empty.jsonl"
    page.write_text("old")
    results.write_text("")
    done = lab("report", results, "--out", page)
    assert done.returncode == 2
    assert "no trials in" in done.stderr
    assert page.read_text() == "old"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{not json}\n", ":1 is not JSON"),
        ("[1]\n", ":1 is not a JSON object"),
        ('{"kind": "sets", "structure": "abtree"}\n', "has no scheme, release, threads, ops_per_s"),
        (
            '{"structure": "abtree", "scheme": "none", "release": "batch", "threads": 1, '
            '"ops_per_s": NaN}\n',
            "of record 1, ops_per_s is nan",
        ),
    ],
)
def test_a_broken_results_file_is_named(lab, tmp_path, text, complaint):
    results = tmp_path / "broken.jsonl"
    results.write_text(text)
    done = lab("report", results, "--out", tmp_path / "report.html")
    assert done.returncode == 2
    assert complaint in done.stderr


def test_an_absurd_budget(lab):
    done = lab("quick", "--budget", "1")
    assert done.returncode == 2
    assert "it must be from 10 to 3600" in done.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("threds = 2", "unknown setting 'threds'"),
        ("[[matrix]]\nthreads = []", "threads is empty"),
        ("matrix = 3", "written as"),
        ("threads = [", "not valid TOML"),
    ],
)
def test_a_bad_toml_file(tmp_path, text, complaint):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with pytest.raises(LabError, match=complaint.replace("[", r"\[")):
        read_toml(path, Matrix())


def test_a_wrong_type_in_a_toml_file(lab, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text('stall = "yes"')
    done = lab("sweep", "--config", path, "--out", tmp_path / "out.jsonl")
    assert done.returncode == 2
    assert "stall is 'yes'; it must be true or false" in done.stderr


def test_an_allocator_that_is_not_installed(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(allocators, "FOLDERS", [tmp_path])
    assert allocators.installed() == ["glibc"]
    assert allocators.preload("jemalloc") == {}


def test_the_shortest_name_of_a_library_is_preloaded(tmp_path, monkeypatch):
    monkeypatch.setattr(allocators, "FOLDERS", [tmp_path])
    for name in ("libmimalloc.so.2.0", "libmimalloc.so.2"):
        (tmp_path / name).touch()
    assert allocators.preload("mimalloc") == {"LD_PRELOAD": str(tmp_path / "libmimalloc.so.2")}
