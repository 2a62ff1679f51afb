# SPDX-License-Identifier: Apache-2.0
"""Links of the documentation's site that lead nowhere are found."""

import pathlib
import tempfile
import unittest

from devtool import site


def faults_of(files):
    """Of a site of these files. Beside it there is a page of somebody else's."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "other.html").write_text("", encoding="utf-8")
        root = pathlib.Path(folder) / "site"
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return site.broken_links(root)


def faults(**pages):
    """Of a site of these pages, a.html and so on."""
    return faults_of({f"{name}.html": text for name, text in pages.items()})


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
        for link in ("../x.html", "../other.html"):
            self.assertEqual(faults(a=f'<a href="{link}">x</a>'), [f"a.html: there is no {link}"])

    def test_links_are_followed_as_a_browser_does(self):
        there = "a folder/index.html", '<a name="Größe"></a> <a href="../x.txt#line-3">x</a>'
        link = '<a href="a%20folder/#Gr%C3%B6%C3%9Fe">y</a>'
        self.assertEqual(faults_of({"a.html": link, there[0]: there[1], "x.txt": "x"}), [])
        found = faults_of({"a.html": '<a href="empty/">y</a>', "empty/x.txt": ""})
        self.assertEqual(found, ["a.html: there is no empty/"])

    def test_the_reference_and_the_page_for_missing_ones_are_left_alone(self):
        broken = '<a href="gone.html">x</a>'
        self.assertEqual(faults_of({"api/a.html": broken, "404.html": broken}), [])

    def test_what_a_browser_would_fetch_from_elsewhere(self):
        for part in (
            '<script src="https://x.org/x.js">',
            '<source src="https://x.org/x.png">',
            '<link rel="stylesheet" href="//x.org">',
        ):
            self.assertEqual(len(faults(a=part)), 1, part)


if __name__ == "__main__":
    unittest.main()
