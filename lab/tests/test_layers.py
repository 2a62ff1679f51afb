# SPDX-License-Identifier: Apache-2.0
"""What the quick look shows of the layers above the schemes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lab import layers, report
from lab.bench import Bench
from lab.records import of_kind
from lab.tests.conftest import FAKE, trial
from lab.tests.fake_bench import STORAGES


def drawn(folder):
    paths = [path for name, _ in layers.files() if (path := folder / name).is_file()]
    records = {kind: of_kind(paths, kind) for kind in layers.kinds()}
    figures = report.Figures()
    return layers.sections(records, figures), figures


def test_each_layer_is_run_and_drawn(tmp_path):
    assert layers.measure(Bench(FAKE), tmp_path) == {}
    sections, figures = drawn(tmp_path)
    assert [section["key"] for section in sections] == [layer.key for layer in layers.LAYERS]
    assert all(section["cards"] for section in sections)
    pointers = next(s for s in sections if s["key"] == "pointers")
    assert "45.0\N{NO-BREAK SPACE}×" in pointers["cards"][0]["words"]
    store = next(s for s in sections if s["key"] == "store")
    named = figures.made[store["cards"][1]["figure"]]["layout"]["annotations"]
    # All that the program has, also those that the laboratory does not know by name.
    assert {note["text"] for note in named} == set(STORAGES)
    tpcc = next(s for s in sections if s["key"] == "tpcc")
    assert [card["title"] for card in tpcc["cards"]] == [
        "Transactions", "Transactions over time", "Memory of old versions"
    ]  # fmt: skip
    lines = figures.made[tpcc["cards"][2]["figure"]]["data"]
    assert len(lines) == len(STORAGES)
    assert "9.00\N{NO-BREAK SPACE}×" in tpcc["cards"][2]["words"]
    held = next(s for s in sections if s["key"] == "held")
    titles = [card["title"] for card in held["cards"]]
    assert titles[:2] == ["Throughput, queue", "Resident memory, queue"]
    assert len(titles) == 6
    dots = figures.made[held["cards"][0]["figure"]]["data"]
    shares = {point["meta"]: point["x"] for point in dots if point.get("meta")}
    assert len(shares) == 2 * len(STORAGES)
    assert shares["steam, hash"] == pytest.approx([0.8])
    assert shares["range, ordered"] == pytest.approx([0.9])


def test_names_at_the_ends_of_lines_do_not_lie_on_each_other():
    flat = {name: [[0, 5.0], [100, 5.0]] for name in ("a", "b", "c")}
    notes = layers._lines(flat, "bytes", str)["layout"]["annotations"]
    heights = sorted(note["y"] for note in notes)
    assert all(high - low > 0.2 for low, high in pairwise(heights))


def test_a_layer_that_failed_is_told_of_and_left_out(tmp_path):
    broken = tmp_path / "bench"
    broken.write_text("#!/bin/sh\necho no such sub-command >&2\nexit 2\n")
    broken.chmod(0o755)
    missed = layers.measure(Bench(broken), tmp_path)
    assert set(missed) == {name for name, _ in layers.files()}
    assert all("no such sub-command" in why for why in missed.values())
    assert drawn(tmp_path)[0] == []


def test_the_page_has_a_section_for_each_layer(tmp_path):
    layers.measure(Bench(FAKE), tmp_path)
    paths = [tmp_path / name for name, _ in layers.files()]
    extras = {kind: of_kind(paths, kind) for kind in layers.kinds()}
    page = report.render([trial()], {"schemes": [], "guards": [], **extras}, [], "title")
    for layer in layers.LAYERS:
        assert f'<section id="layer-{layer.key}">' in page
    assert "./dev bench ycsb --threads 2" in page
