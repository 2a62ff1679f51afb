# SPDX-License-Identifier: Apache-2.0
"""A mistake that is planted in the library is looked for by a test of the model checker.

And what a test looks for in the library is planted there: a fault whose name has changed would be
found by no test, and the test could not fail for the right reason.
"""

from __future__ import annotations

import re

from lint.source import line_of

_PLANTED = re.compile(r'SPOLIA_FAULT\("([^"]+)"\)')
_LOOKED_FOR = re.compile(
    r'(?:expect_found|found)(?:<[^;]*?>)?\([^;]*?"([a-z0-9_]+\.[a-z0-9_]+)"', re.S
)
_NO_REASON = re.compile(r'\bexpect_found\([^;]*?,\s*""\)')
TESTS = "tests/model/"


def check(project):
    tests = {path: project.text(path) for path in project.matching((".cpp", ".hpp"), TESTS)}
    in_tests = set(re.findall(r'"([a-z0-9_]+\.[a-z0-9_]+)"', "\n".join(tests.values())))
    planted = set()
    for path in project.matching((".hpp", ".cpp"), "include/", "src/", "tests/", "bench/"):
        text = project.text(path)
        for match in _PLANTED.finditer(text):
            planted.add(match[1])
            if "//" in text[text.rfind("\n", 0, match.start()) + 1 : match.start()]:
                continue  # an example
            if path.startswith(("include/", "src/")) and match[1] not in in_tests:
                yield path, line_of(text, match.start()), f"no model test looks for {match[1]}"
    for path, text in tests.items():
        for match in _NO_REASON.finditer(text):
            yield path, line_of(text, match.start()), "say what is found: any failure would do"
        for match in _LOOKED_FOR.finditer(text):
            if match[1] not in planted:
                yield path, line_of(text, match.start(1)), f"{match[1]} is planted nowhere"
