# SPDX-License-Identifier: Apache-2.0
"""The counts that `./dev test` takes from the output of others, and the choice of packages."""

import argparse
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

from devtool import cli, commands, ctest, process, quick, record, setup, stages, systems
from devtool.tally import failure

CTEST = """\
 1/6 Test #1: list.1 ........................   Passed    0.00 sec
 2/6 Test #3: ended ...............Subprocess aborted***Exception:   0.10 sec
 3/6 Test #4: refused/by_a_sentence ........   Passed    2.50 sec
 4/6 Test #2: list.2 ...................***Failed    0.07 sec
 5/6 Test #5: leaks ....................***Failed    0.07 sec
 6/6 Test #6: elsewhere ................***Not Run (Disabled)   0.00 sec

50% tests passed, 3 tests failed out of 6
Errors while running CTest
"""


def report(*results, failures=0):
    """What GoogleTest writes, as far as it is read."""
    cases = [{"result": result} for result in results]
    for case in cases[:failures]:
        case["failures"] = [{"failure": "text"}]
    return json.dumps({"testsuites": [{"testsuite": cases}]})


def counts(tally):
    return tally.passed, tally.failed, tally.skipped


class Parsing(unittest.TestCase):
    def test_ctest(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            one = ["COMPLETED", "COMPLETED", "SKIPPED"]
            (folder / "list.1.json").write_text(report(*one))
            (folder / "list.2.json").write_text(report(*one, failures=1))
            (folder / "leaks.json").write_text(report("COMPLETED", "SUPPRESSED"))
            (folder / "ended.json").write_text("{")
            self.assertEqual(counts(ctest.count(CTEST, folder)), (5, 3, 4))

    def test_help_and_reports_need_no_benchmark(self):
        def built(action, *rest):
            with (
                mock.patch.object(commands, "build_preset") as build,
                mock.patch.object(setup, "venv", return_value="python"),
                mock.patch.object(process, "replace"),
            ):
                action(argparse.Namespace(rest=list(rest)))
            return build.called

        self.assertTrue(built(commands.lab, "paper", "--quick"))
        for words in ("", "-h", "paper --help", "paper --list", "report found.jsonl"):
            self.assertFalse(built(commands.lab, *words.split()), words)

    def test_only_what_fits_is_built(self):
        folder = process.BUILD / "release"

        def ask(*commands):
            own = {"name": "WORKING_DIRECTORY", "value": f"{folder}/tests/map"}
            tests = [{"command": command, "properties": [own]} for command in commands]
            known = "all: phony\ntest-list: phony\ntest-tree: phony\nspolia-bench: phony\n"
            known += "test-map: phony\nlib.a: CXX\n"
            listed = json.dumps({"tests": tests})
            with (
                mock.patch.object(ctest, "_asked", side_effect=[listed, known]),
                mock.patch.object(ctest, "_declared", return_value={}),
            ):
                return ctest.targets("release", "x")

        shards = [[f"{folder}/tests/map/test-list", f"--shard={n}"] for n in range(2)]
        tree = [f"{folder}/tests/map/test-tree"]
        self.assertEqual(ask(*shards, tree), ["test-list", "test-tree"])
        script = ["/usr/bin/cmake", f"-DBENCH={folder}/bench/spolia-bench"]
        script.append(f"-DSCRATCH={folder}/tests/map/scratch")
        self.assertEqual(ask(tree, script), ["spolia-bench", "test-tree"])
        with mock.patch.object(pathlib.Path, "is_dir", return_value=True):
            self.assertEqual(ask(["cmake", f"-DTOOL=x;{folder}/tool"]), ["all"])
        self.assertEqual(ask(["cmake", "-DSOURCE=/elsewhere/test-list"]), [])
        self.assertIsNone(ask())

    def test_what_is_not_built_yet_is_built(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / "release"
            folder.mkdir()
            lines = f'add_test([=[list.1]=] "{folder}/test-list" "--long")\nadd_test(tree "b")\n'
            (folder / "CTestTestfile.cmake").write_text(lines)
            listed = json.dumps({"tests": [{"name": "list.1"}, {"name": "unheard_of"}]})
            with (
                mock.patch.object(ctest, "BUILD", folder.parent),
                mock.patch.object(ctest, "_asked", side_effect=[listed, "test-list: phony\n"]),
            ):
                self.assertEqual(ctest.targets("release", "x"), ["test-list"])

    def test_choice(self):
        self.assertEqual(ctest.selection(None), ([], None))
        self.assertEqual(ctest.selection("list|tree"), (["-R", "list|tree"], None))
        chosen, env = ctest.selection("list/*churn*")
        self.assertEqual((chosen, env["GTEST_FILTER"]), (["-R", "list"], "*churn*"))

    def test_pytest(self):
        for line, expected in (
            ("3 passed in 0.12s", (3, 0, 0)),
            ("1 failed, 2 passed, 1 skipped, 4 warnings in 61.00s (0:01:01)", (2, 1, 1)),
            ("==== 1 passed, 2 errors in 0.10s ====", (1, 2, 0)),
            ("no tests ran in 0.01s", (0, 0, 0)),
        ):
            with self.subTest(line):
                self.assertEqual(counts(stages.parse_pytest(f"...\n{line}\n")), expected)

    def test_unittest(self):
        bad = "Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=1)\n"
        self.assertEqual(counts(stages.parse_unittest(bad)), (2, 2, 1))
        self.assertEqual(counts(stages.parse_unittest("Ran 1 test in 0.0s\n\nOK\n")), (1, 0, 0))

    def test_lint(self):
        text = "a.hpp:1: bad\nlint: floors ... 1 findings\nlint: orders ... ok\n"
        self.assertEqual(counts(stages.parse_lint(text)), (1, 1, 0))

    def test_a_run_that_failed_or_ran_nothing_counts_as_a_failure(self):
        checked = stages._checked
        nothing = checked(process.outcome(0, ""), stages.tally(), "x")
        self.assertEqual((nothing.failed, nothing.note), (1, "x ran no test"))
        self.assertEqual(checked(process.outcome(8, ""), stages.tally(passed=3), "x").failed, 1)
        late = checked(process.outcome(0, "", timed_out=True), stages.tally(passed=3), "x")
        self.assertEqual((late.passed, late.failed), (3, 1))
        self.assertEqual(checked(process.outcome(8, ""), stages.tally(2, 5), "x").failed, 5)


class Stages(unittest.TestCase):
    def test_contributors_are_told_of_each(self):
        text = (process.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        table = text.partition("## Where checks run")[2].partition("\n## ")[0]
        told = re.findall(r"^\| ([a-z0-9-]+) \|", table, re.M)
        self.assertEqual(told, ["stage", *stages.NAMES, *stages.LONG_NAMES])

    def test_the_guide_has_each_row_of_systems(self):
        text = (process.ROOT / "docs" / "where-it-runs.md").read_text(encoding="utf-8")
        told = re.findall(r"`(systems/[^`]+)`", text)
        self.assertEqual(sorted(told), sorted(stages.TITLES))

    def test_only_rows_of_systems_may_be_chosen_and_kept(self):
        chosen = ["test", "--all", "--stage", "systems", "-k", "no such row"]
        self.assertEqual(cli._parse(chosen).stage, ["systems"])
        run = stages.context("systems", 0.0, False, "no such row")
        self.assertEqual(stages._systems(run).note, "no row fits")

    def test_presets_exist(self):
        presets = json.loads((process.ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
        for kind in ("buildPresets", "configurePresets", "testPresets"):
            names = {one["name"] for one in presets[kind]}
            every = [*stages.NAMES, *stages.LONG_NAMES]
            wanted = {f"test-{name}" for name in every} & names | {quick.PRESET}
            self.assertEqual(len(wanted), 9, kind)

    def test_a_record_keeps_the_lines_of_other_stages(self):
        order = ["lint", "release", "bench"]
        old, new = "old | day | m", "new | day | m"
        page = record.with_line("", order, "bench", stages.tally(7, 0, 0, "", 9, 17.6), old)
        page = record.with_line(page, order, "lint", stages.tally(3, 1, 2, "why", 4.6, 8.2), new)
        lint = f"| lint | 3 | 1 | 2 | 5 | 8 | {new} | why |"
        bench = f"| bench | 7 | 0 | 0 | 9 | 18 | {old} |  |"
        self.assertEqual(page.splitlines()[-2:], [lint, bench])
        page = record.with_line(page, order, "bench", stages.tally(8, 0, 0, "", 9, 18), new)
        bench = f"| bench | 8 | 0 | 0 | 9 | 18 | {new} |  |"
        self.assertEqual(page.splitlines()[-2:], [lint, bench])

    def test_a_record_names_what_failed(self):
        found = [failure(f"list/a.{letter}") for letter in "bccdefg"]
        result = stages.tally(7, 7, 0, "a|b", 9, 18, found)
        line = record.with_line("", ["lint"], "lint", result, "now").splitlines()[-1]
        names = "`list/a.b`, `list/a.c`, `list/a.d`, `list/a.e`, `list/a.f`, and 1 more"
        self.assertTrue(line.endswith(f"| now | {names}; a/b |"), line)

    def test_only_whole_stages_are_kept(self):
        with self.assertRaises(process.dev_error):
            cli._test(cli._parse(["test", "--all", "-k", "token"]))


class Quick(unittest.TestCase):
    def test_only_what_has_changed_is_due(self):
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name)
            (build / quick.PRESET).mkdir()
            program = build / quick.PRESET / "tests"
            program.write_text("")
            tests = [
                {"name": "list", "command": [str(program)]},
                {"name": "elsewhere", "command": ["/bin/sh", "x"]},
            ]
            with mock.patch.object(quick, "BUILD", build):
                found = quick._programs(tests)
                quick._write(found)
                again = quick._programs(tests)
                self.assertEqual(quick._read(), {"list": again["list"]})
                os.utime(program, ns=(1, 1))
                self.assertNotEqual(quick._read()["list"], quick._programs(tests)["list"])
                self.assertIsNone(found["elsewhere"])

    def test_an_unknown_test_is_told_what_is_near(self):
        tests = [{"name": n} for n in ("db_query", "db_query_stress", "list", "avl")]
        with mock.patch.object(ctest, "listed", return_value=tests):
            self.assertIn("near it: db_query,", quick._unknown("db_querry"))
            self.assertIn("there are 4", quick._unknown("zzzzz"))


class Watching(unittest.TestCase):
    def run_python(self, code, seconds):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            return process.watched([sys.executable, "-c", code], seconds, log), log.read_text()

    def test_output_goes_to_the_log(self):
        outcome, log = self.run_python("print('-- quiet')", 30)
        self.assertTrue(outcome.ok)
        self.assertEqual(outcome.output, "-- quiet\n")
        self.assertIn("-- quiet\n", log)

    def test_a_time_out_ends_the_children_too(self):
        # The grandchild holds the output open: reading it ends only when that is gone as well.
        sleeper = "[sys.executable, '-c', 'import signal; signal.pause()']"
        outcome, _ = self.run_python(f"import subprocess, sys; subprocess.run({sleeper})", 1)
        self.assertTrue(outcome.timed_out)
        self.assertFalse(outcome.ok)


class Packages(unittest.TestCase):
    def test_missing(self):
        there = {"a", "c1", "c2"}.__contains__
        needs = ["a", "b|a", "c1&c2|d", "c1&e|f", "g++"]
        self.assertEqual(setup.missing(needs, there), ["c1&e|f", "g++"])

    def test_a_package_that_is_only_mentioned_is_not_there(self):
        self.assertTrue(setup.is_there(0, "Package: libmimalloc3\nVersion: 3.0.1\n"))
        self.assertFalse(setup.is_there(0, ""))
        self.assertFalse(setup.is_there(100, "N: no packages found"))

    def test_choose_takes_the_first_way_that_is_wholly_available(self):
        there = {"x1", "y", "z"}.__contains__
        self.assertEqual(setup.choose(["x1&x2|y&z", "w"], there), ["y", "z", "w"])

    def test_each_set_names_packages(self):
        for name, needs in setup.NEEDS.items():
            for need in needs:
                for way in setup.alternatives(need):
                    self.assertTrue(all(package.strip() for package in way), (name, need))


if __name__ == "__main__":
    unittest.main()
