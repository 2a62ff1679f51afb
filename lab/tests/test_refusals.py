# SPDX-License-Identifier: Apache-2.0
"""What must not pass: records as the program really writes them, and what they must not be taken
for."""

from __future__ import annotations

from click.testing import CliRunner

from lab.cli import cli
from lab.paper import render, run
from lab.paper.catalogue import PAGES
from lab.paper.found import Found
from lab.report import Figures
from lab.tests.conftest import FAKE
from lab.tests.made import of_page, view


def page_of(key: str):
    return next(entry for entry in PAGES if entry.key == key)


def test_a_storage_without_partitions_has_none_and_the_page_is_made(tmp_path):
    entry = page_of("one-shot-14")
    data = of_page(entry, tmp_path)
    most = {r["versions"]: r["partitions_most"] for r in data.records}
    assert (most["steam"], most["one-shot"]) == (None, 8)
    assert view(entry, data.trials, data.records).claims


def test_a_page_that_falls_over_leaves_the_others_whole_and_fails_the_run(tmp_path, monkeypatch):
    entry, other = page_of("one-shot-2"), page_of("one-shot-12")
    data = [of_page(one, tmp_path) for one in (entry, other)]

    def falls(_):
        raise TypeError("None < 2")

    monkeypatch.setattr(render, "PAGES", [
        type(entry)(**{**vars(entry), "show": falls}), other])  # fmt: skip
    every = [r for one in data for r in one.records]
    made = render.pages(Found([], store=every), Figures())
    assert [bool(page["blocks"]) for page in made] == [False, True]
    assert render.broken(made) == [
        "one-shot-2: this page could not be made: TypeError: None < 2"]  # fmt: skip


def test_a_run_with_a_page_that_fell_over_ends_badly(tmp_path, monkeypatch):
    page = tmp_path / "report.html"
    page.write_text("made")
    monkeypatch.setattr(run, "run", lambda *_: True)
    monkeypatch.setattr(run, "report", lambda *_: (page, ["one-shot-14: no"]))
    monkeypatch.setattr(run, "scale_of", lambda *_: None)
    monkeypatch.setattr(run, "work_of", lambda *_: None)
    done = CliRunner().invoke(cli, ["paper", "--bench", str(FAKE), "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "one-shot-14: no" in done.output
