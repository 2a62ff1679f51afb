# SPDX-License-Identifier: Apache-2.0
"""The demonstration says which promise was broken, and ends with 1 if one was."""

import argparse
import contextlib
import io
import json
import pathlib
import tempfile
import unittest
import xml.dom.minidom
from unittest import mock

from devtool import demo, demo_page, process, setup

POINT = {"kind": "point", "curve": "token", "x": 1, "y": 2}
KEPT = {"kind": "check", "ok": True, "says": "stays below its bound"}
BROKEN = {"kind": "check", "ok": False, "says": "grows beyond its bound"}


def record(folder, *lines, cut=""):
    file = pathlib.Path(folder) / "sleeper.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + cut)
    return file


class The_record(unittest.TestCase):
    def read(self, *lines, **how):
        with tempfile.TemporaryDirectory() as folder:
            return demo_page.read("sleeper", record(folder, *lines, **how))

    def test_a_kept_promise(self):
        part = self.read(POINT, KEPT, cut='{"kind": "ch')
        self.assertTrue(part.kept)
        self.assertEqual(part.curves, {"token": [(1, 2)]})

    def test_a_broken_promise_is_named(self):
        part = self.read(POINT, KEPT, BROKEN)
        self.assertFalse(part.kept)
        self.assertIn(BROKEN["says"], "\n".join(demo_page.summary([part])))
        page = demo_page.page([part], "")
        self.assertIn("BROKEN: " + BROKEN["says"], page)
        self.assertIn("1 of 2 promises were broken", page)

    def test_a_part_that_checked_nothing_kept_nothing(self):
        self.assertFalse(self.read(POINT).kept)

    def test_a_part_that_died_kept_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            part = demo_page.read("sleeper", record(folder, KEPT), "it ended with -11")
        self.assertFalse(part.kept)
        self.assertIn("it ended with -11", demo_page.page([part], ""))


class The_picture(unittest.TestCase):
    def test_one_file_without_network(self):
        with tempfile.TemporaryDirectory() as folder:
            page = demo_page.page([demo_page.read("sleeper", record(folder, POINT, KEPT))], "")
        self.assertNotRegex(page, r"(src|href)=|https?://|@import|url\(")

    def test_the_chart_alone_is_a_file_that_tells_of_each_curve(self):
        bound = {"kind": "bound", "curve": "token", "y": 3}
        other = {**POINT, "curve": "liburcu"}
        with tempfile.TemporaryDirectory() as folder:
            part = demo_page.read("sleeper", record(folder, POINT, other, bound, KEPT))
        drawn = xml.dom.minidom.parseString(demo_page.picture(part))
        said = [text.firstChild.data for text in drawn.getElementsByTagName("text")]
        self.assertIn("token: at most 3 MB", said)
        self.assertIn("liburcu: no bound", said)

    def test_round_ticks_over_the_whole_axis(self):
        ticks = demo_page.Axis(0, 17.3, 0, 100, False).ticks()
        self.assertEqual(ticks, [0, 5, 10, 15])
        ticks = demo_page.Axis(0.2, 130, 0, 100, True).ticks()
        self.assertEqual([round(t, 3) for t in ticks], [0.1, 1, 10, 100, 1000])

    def test_a_line_of_text(self):
        self.assertEqual(demo_page.sparkline([(0, 0), (1, 4), (2, 8)], 8, 3), " ▄█")
        self.assertEqual(demo_page.sparkline([], 8), "")


class The_command(unittest.TestCase):
    def run_demo(self, folder, status, *lines):
        """Its exit code and output, with a program that writes these lines and ends so."""
        folder = pathlib.Path(folder)
        program = folder / "program"
        program.write_text("")
        names = []

        def run(command, *_, **__):
            names.append(command[1])
            record = folder / "results" / f"{command[1]}.jsonl"
            record.write_text("".join(json.dumps(line) + "\n" for line in lines))
            return process.outcome(status, "")

        said = io.StringIO()
        with (
            mock.patch.multiple(
                demo,
                FOLDER=folder,
                RESULTS=folder / "results",
                DONE=folder / "results" / "done.json",
                PAGE=folder / "demo.html",
                PICTURE=folder / "held-reader.svg",
                PROGRAM=program,
                _build=lambda at: at.next("build"),
            ),
            mock.patch.object(setup, "require"),
            mock.patch.object(process, "watched", side_effect=run),
            contextlib.redirect_stdout(said),
        ):
            code = demo.run(argparse.Namespace(no_open=True))
        return code, said.getvalue(), names

    def test_all_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            code, said, names = self.run_demo(folder, 0, POINT, KEPT)
            self.assertTrue((pathlib.Path(folder) / "demo.html").exists())
        self.assertEqual(code, 0)
        self.assertIn("all 5 checks passed", said)
        self.assertEqual(names, list(demo_page.PARTS))

    def test_a_broken_promise_ends_with_one(self):
        with tempfile.TemporaryDirectory() as folder:
            code, said, _ = self.run_demo(folder, 1, POINT, BROKEN)
        self.assertEqual(code, 1)
        self.assertIn(BROKEN["says"], said)

    def test_a_crash_ends_with_one(self):
        with tempfile.TemporaryDirectory() as folder:
            code, said, _ = self.run_demo(folder, -11, POINT, KEPT)
        self.assertEqual(code, 1)
        self.assertIn("the part ended with -11", said)

    def test_it_begins_again_where_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results"
            results.mkdir()
            record(results, POINT, KEPT)
            with mock.patch.object(demo, "_finished", return_value=["sleeper"]):
                _, said, names = self.run_demo(folder, 0, POINT, KEPT)
        self.assertNotIn("sleeper", names)
        self.assertIn("measured before the interruption", said)

    def test_what_another_program_has_finished_does_not_count(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            program, done = folder / "program", folder / "done.json"
            program.write_text("")
            with mock.patch.multiple(demo, RESULTS=folder, DONE=done, PROGRAM=program):
                self.assertEqual(demo._finished(), [])
                for age, parts in ((0, ["sleeper"]), (1, [])):
                    known = {"program": program.stat().st_mtime_ns - age, "parts": ["sleeper"]}
                    done.write_text(json.dumps(known))
                    self.assertEqual(demo._finished(), parts)
