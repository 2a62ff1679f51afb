# SPDX-License-Identifier: Apache-2.0
"""The page: whole, self-contained, and honest."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from lab import quick, report
from lab.cli import cli
from lab.tests.conftest import FAKE, trial

EXTRAS = {"schemes": [], "guards": []}


class Page(HTMLParser):
    """Collects what a test asks about: outside references, ids, headings, charts."""

    def __init__(self, text):
        super().__init__()
        self.outside, self.ids, self.figures, self.hashes = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        for name in ("src", "href", "action", "data"):
            target = values.get(name)
            if target and target.startswith("#"):
                self.hashes.append(target[1:])
            elif target:
                self.outside.append(target)
        self.ids += [values["id"]] if "id" in values else []
        self.figures += [values["data-figure"]] if "data-figure" in values else []


def many():
    """Trials that make every section appear."""
    made = []
    for number in range(4):
        for threads in (1, 2, 4):
            for series, speed in (
                (("none", "batch"), 1.0), (("token", "amortized"), 2.0), (("token", "batch"), 1.5),
                (("debra", "batch"), 1.6),
            ):  # fmt: skip
                made.append(trial(
                    scheme=series[0], release=series[1], threads=threads, garbage_peak=1000,
                    ops_per_s=speed * (1e6 + 1e4 * number), free_ns_p999=500, free_ns_max=900,
                ))  # fmt: skip
    made.append(trial(stall=True, garbage_peak=5000, garbage_over_time=[[0, 0], [9, 5000]]))
    return made


def rendered(trials, extras=EXTRAS, failures=()):
    return report.render(trials, extras, list(failures), "A title")


def test_the_page_needs_nothing_from_outside():
    page = Page(rendered(many()))
    assert page.outside == []
    assert set(page.hashes) <= set(page.ids)


def test_every_chart_has_its_data():
    text = rendered(many())
    data = json.loads(re.search(r'id="figure-data">(.*?)</script>', text, re.S).group(1))
    page = Page(text)
    assert sorted(page.figures) == sorted(data)
    assert len(data) >= 7
    assert all(figure["data"] for figure in data.values())


def test_the_page_is_below_eight_megabytes():
    assert len(rendered(many()).encode()) < 8e6


def test_the_summary_speaks_of_the_figures():
    text = rendered(many())
    assert "Testor, 2 cores" in text
    assert "ran 2.00\N{NO-BREAK SPACE}× as fast as leaking memory" in text


def test_a_small_difference_is_called_unproven():
    close = [trial(scheme=s, release=r, threads=t, ops_per_s=v * share)
             for s, r, v in (("none", "batch", 1e6), ("token", "amortized", 1.1e6))
             for t in (1, 2) for share in (0.9, 0.95, 1.0, 1.1, 1.3)]  # fmt: skip
    assert "(unproven) as fast as leaking" in rendered(close)


def test_single_trials_are_said_to_prove_nothing():
    assert "ran only once: no difference here is proven" in rendered([trial(), trial(threads=4)])


def test_noise_of_other_programs_is_told():
    noisy = [trial(lab={"others_cores": 0.9}), trial(lab={"others_cores": 1.1})]
    assert "Other programs took 1.0 cores" in rendered(noisy)
    assert "ther programs took" not in rendered([trial(lab={"others_cores": 0.05})])


def test_failed_trials_are_listed():
    entry = {"configuration": {"structure": "abtree", "scheme": "token", "release": "batch",
                               "threads": 2}, "failure": "killed by signal 11"}  # fmt: skip
    assert "killed by signal 11" in rendered(many(), failures=[entry])


def test_names_from_a_file_cannot_break_the_page():
    hostile = "</script><script>alert(1)</script>"
    text = rendered([trial(machine={"cpu": hostile}, scheme=hostile, compiler=hostile, threads=t)
                     for t in (1, 2)])  # fmt: skip
    assert "<script>alert" not in text


def test_schemes_and_guards_are_described_when_the_program_did():
    extras = {
        "schemes": [{"schemes": {"token": {"cost": "two stores", "bound": "none"}}}],
        "guards": [{"scheme": "token", "operation": "enter+leave", "ns": 2.1, "ns_min": 2.0,
                    "ns_max": 2.4}],
    }  # fmt: skip
    text = rendered(many(), extras)
    assert "two stores" in text
    assert "enter+leave" in text


def test_a_run_that_freed_nothing_says_so(tmp_path):
    (tmp_path / "t.jsonl").write_text("")
    lone = trial(tmp_path / "r.jsonl", trace="t.jsonl", garbage_peak=4000)
    assert "no epoch went by and nothing was freed" in rendered([lone])


def test_few_pauses_are_told():
    base = {"free_ns_p999": 900, "free_ns_max": 900, "pauses": 30}
    few = [trial(release=release, **base) for release in ("batch", "amortized")]
    assert "as the 99.9th percentile: Token (amortized) and Token (batch)" in rendered(few)


def test_the_rival_of_the_summary_is_no_token():
    naive = [trial(scheme="token_naive", release="batch", threads=t, ops_per_s=9e6) for t in (1, 2)]
    assert "Against DEBRA (batch), the fastest scheme that is not a token" in rendered(
        many() + naive
    )


def test_one_bare_record_is_enough():
    lone = trial()
    for name in ("machine", "peak_rss_bytes", "allocator"):
        del lone.record[name]
    assert "All figures" in rendered([lone])


def test_figures_of_the_table_can_be_sorted():
    text = rendered(many())
    body = text[text.index('<table id="figures"') :]
    assert 'data-sort="2030000.0"' in body


@pytest.mark.parametrize("nested", [True, False])
def test_nested_records_read_as_flat_ones(tmp_path, nested):
    fields = dict(trial().record)
    if nested:
        fields["figures"] = {"ops_per_s": fields.pop("ops_per_s")}
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(fields) + "\n")
    report.write_report([path], tmp_path / "page.html")
    assert "1\N{NO-BREAK SPACE}M/s" in (tmp_path / "page.html").read_text()


def test_the_quick_look_keeps_its_budget_and_says_where_the_page_is(tmp_path, monkeypatch):
    out = tmp_path / "quick"
    monkeypatch.setenv("FAKE_BENCH_SLEEP", "0.08")
    monkeypatch.setenv("COLUMNS", "200")
    # Few enough for the first round on a busy machine; all trials would take longer than that on
    # the fastest one.
    monkeypatch.setattr(quick, "LINES", [("none", "batch"), ("token", "amortized")])
    done = CliRunner().invoke(cli, ["quick", "--budget", "16", "--out", str(out),
                                    "--bench", str(FAKE)])  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "trials left out: no time for them" in done.stdout
    page = out / "report.html"
    assert page.resolve().as_uri() in done.stdout
    assert "Token · amortized" in done.stdout
    text = page.read_text()
    # A busy machine gets no further than the first stage in so little time.
    for section in ("summary", "schemes", "guards", "speed", "memory", "table"):
        assert f'<section id="{section}">' in text


def test_every_kind_of_question_has_a_stage():
    made = quick.stages("jemalloc", ["glibc", "jemalloc"])
    cells = [cell for stage in made for cell in stage.cells]
    assert {cell.structure for cell in cells} == {"abtree", "avl", "external_bst", "list"}
    assert any(cell.count for cell in cells)
    assert {cell.allocator for cell in cells} == {"glibc", "jemalloc"}
    assert any(cell.stall for cell in cells)
    assert any(cell.trace for cell in cells)
    assert any(cell.batch for cell in cells)
    assert sum(stage.share for stage in made) == pytest.approx(1)
