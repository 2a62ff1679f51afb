# SPDX-License-Identifier: Apache-2.0
"""What the end of `./dev test` says of each test that has failed."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

from devtool import failures, process, stages
from devtool.tally import failure, tally

CTEST = """\
      Start  1: list.1
      Start  3: ended
 1/6 Test #1: list.1 ........................***Failed    0.00 sec
printed by list.1
      Start  4: raced
 2/6 Test #3: ended ...............Subprocess aborted***Exception:   0.10 sec
[ RUN      ] ended.soon
terminate called

      Start  5: held
 3/6 Test #4: raced ...................***Failed    0.07 sec
[       OK ] raced.case
WARNING: ThreadSanitizer: data race (pid=1)
  Write of size 8
      Start  6: fine
 4/6 Test #6: fine ..................   Passed    0.10 sec
 5/6 Test #7: elsewhere ................***Not Run (Disabled)   0.00 sec
 6/6 Test #8: by_root ................***Skipped   0.00 sec

50% tests passed, 3 tests failed out of 6
"""

REPORT = {
    "testsuites": [
        {
            "testsuite": [
                {"name": "keeps", "classname": "maps/0", "result": "COMPLETED"},
                {
                    "name": "loses",
                    "classname": "maps/0",
                    "result": "COMPLETED",
                    "failures": [{"failure": f"{process.ROOT}/tests/a.cpp:7\nExpected: 1"}],
                },
            ]
        }
    ]
}

UNITTEST = f"""\
.F
{"=" * 70}
FAIL: test_a (lint.tests.a.b.test_a)
{"-" * 70}
Traceback (most recent call last):
AssertionError: 1 != 2

{"-" * 70}
Ran 2 tests in 0.001s

FAILED (failures=1)
"""


def in_all(results):
    """What the end of a run prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        stages._summary(results)
    return out.getvalue().splitlines()


class Failures(unittest.TestCase):
    def of_ctest(self, output, report=REPORT):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "list.1.json").write_text(json.dumps(report))
            return failures.of_ctest(output, folder)

    def test_cases_are_named_and_other_tests_by_their_last_lines(self):
        case, ended, raced, held = self.of_ctest(CTEST)
        self.assertEqual(case.name, "list.1/maps/0.loses")
        self.assertEqual(case.lines, [f"{process.ROOT}/tests/a.cpp:7", "Expected: 1"])
        self.assertEqual(ended.name, "ended (Subprocess aborted Exception)")
        self.assertEqual(ended.lines, ["[ RUN      ] ended.soon", "terminate called"])
        self.assertEqual(raced.name, "raced (Failed)")
        self.assertIn("ThreadSanitizer", raced.lines[0])
        self.assertEqual(held, failure("held (had not ended)"))

    def test_a_program_that_failed_beyond_its_cases_is_named(self):
        (named, *_) = self.of_ctest(CTEST, {"testsuites": []})
        self.assertEqual(named, failure("list.1 (Failed)", ["printed by list.1"]))

    def test_a_build_is_told_from_its_first_error_on(self):
        output = "[1/2] Building\nFAILED: a.o\na.cpp:1: error: x\n[2/2] Building\n"
        self.assertEqual(failures.of_build(output)[:2], ["FAILED: a.o", "a.cpp:1: error: x"])
        self.assertEqual(failures.of_build("ended\n"), ["ended"])

    def test_the_tools_tests_are_named(self):
        (found,) = stages.parse_unittest(UNITTEST).failures
        self.assertEqual(found.name, "FAIL: test_a (lint.tests.a.b.test_a)")
        self.assertEqual(found.lines[-1], "AssertionError: 1 != 2")
        summary = "=== short test summary info ===\nFAILED lab/a.py::test_b - assert 1\n"
        pytest = stages.parse_pytest(f"{summary}ERROR lab/c.py::test_d\n1 failed in 0.1s\n")
        wanted = [failure("lab/a.py::test_b", ["assert 1"]), failure("lab/c.py::test_d")]
        self.assertEqual(pytest.failures, wanted)
        lint = stages.parse_lint("lint: words ... ok\na.hpp:1: bad\nlint: floors ... 1 findings\n")
        self.assertEqual(lint.failures, [failure("floors", ["a.hpp:1: bad"])])

    def test_what_ran_nothing_or_too_long_is_named(self):
        late = stages._checked(process.outcome(0, "a\nb\n", timed_out=True), tally(3), "x")
        self.assertEqual(late.failures, [failure("x: over its time", ["a", "b"])])
        known = [failure("y")]
        late = stages._checked(
            process.outcome(0, "", timed_out=True), tally(3, 1, failures=known), "x"
        )
        self.assertEqual(late.failures, known)

    def test_they_are_the_last_lines_before_the_count(self):
        lines = [f"{process.ROOT}/a.cpp:1", "x" * 999, *map(str, range(40))]
        found = tally(5, 1, failures=[failure("list.1/maps/0.loses", lines)])
        shown = in_all({"lint": tally(1), "release": found})
        begin = shown.index("failed in release: list.1/maps/0.loses")
        self.assertEqual(shown[begin + 1], "    a.cpp:1")
        self.assertLess(len(shown[begin + 2]), failures.COLUMNS + 5)
        self.assertEqual(shown[-1], "6 passed, 1 failed")
        self.assertEqual(len(shown) - 1 - begin, failures.LINES)
        self.assertTrue(shown[begin - 1].startswith("logs: "))

    def test_of_many_each_stage_has_some(self):
        many = tally(0, 50, failures=[failure(f"case{n}", ["why"]) for n in range(50)])
        one = tally(0, 1, failures=[failure("alone")])
        shown = in_all({"release": many, "tsan": one})
        named = [line for line in shown if line.startswith("failed in ")]
        self.assertEqual(len(named), failures.FAILURES)
        self.assertEqual(named[0], "failed in release: case0")
        self.assertEqual(named[-1], "failed in tsan: alone")
        self.assertEqual(shown[-2], "and 41 more: see the logs")

    def test_a_stage_without_names_shows_the_end_of_its_log(self):
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name)
            (build / "logs").mkdir()
            (build / "logs" / "site.log").write_text("first\nlast\n")
            with (
                mock.patch.object(stages, "BUILD", build),
                mock.patch.object(stages, "ROOT", build),
            ):
                shown = in_all({"site": tally(failed=1, note="a link")})
        self.assertEqual(shown[-4:-1], ["failed in site: a link", "    first", "    last"])
        self.assertEqual(in_all({"lint": tally(3)})[-1], "3 passed, 0 failed")


if __name__ == "__main__":
    unittest.main()
