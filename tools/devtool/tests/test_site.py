# SPDX-License-Identifier: Apache-2.0
"""Links of the documentation's site that lead nowhere are found."""

import pathlib
import tempfile
import unittest

from devtool import site


def faults(**pages):
    """Of a site of these pages, a.html and so on."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in pages.items():
            (pathlib.Path(folder) / f"{name}.html").write_text(text, encoding="utf-8")
        return site.broken_links(pathlib.Path(folder))


class Links(unittest.TestCase):
    def test_what_is_there_is_no_fault(self):
        there = '<a href="b.html#place">b</a> <a href="#here" id="here">a</a>'
        elsewhere = '<a href="https://doi.org/10.1145/3588699">a paper</a>'
        self.assertEqual(faults(a=there + elsewhere, b='<h2 id="place">B</h2>'), [])

    def test_files_and_places_that_are_not_there(self):
        self.assertEqual(faults(a='<a href="b.html">b</a>'), ["a.html: there is no b.html"])
        found = faults(a='<a href="b.html#gone">b</a>', b="")
        self.assertEqual(found, ["a.html: b.html has no place gone"])
        self.assertEqual(faults(a='<img src="b.svg">'), ["a.html: there is no b.svg"])
        self.assertEqual(faults(a='<a href="../x.html">x</a>'), ["a.html: there is no ../x.html"])

    def test_what_a_browser_would_fetch_from_elsewhere(self):
        for part in ('<script src="https://x.org/x.js">', '<link rel="stylesheet" href="//x.org">'):
            self.assertEqual(len(faults(a=part)), 1, part)


if __name__ == "__main__":
    unittest.main()
