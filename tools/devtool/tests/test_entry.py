# SPDX-License-Identifier: Apache-2.0
"""`./dev` itself, on machines that have next to nothing."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

DEV = pathlib.Path(__file__).resolve().parents[3] / "dev"


def run(programs, *arguments):
    """./dev where only these programs are in the path."""
    with tempfile.TemporaryDirectory() as path:
        for program in programs:
            os.symlink(shutil.which(program), pathlib.Path(path) / program)
        return subprocess.run(
            [DEV, *arguments], env={"PATH": path}, capture_output=True, text=True, check=False
        )


class without_python(unittest.TestCase):
    def test_one_line_says_what_to_install(self):
        got = run(["dirname"], "help")
        self.assertEqual(got.returncode, 2)
        self.assertEqual(got.stdout, "")
        self.assertEqual(got.stderr.count("\n"), 1)
        self.assertIn("please install: python3", got.stderr)

    def test_python_is_all_that_help_needs(self):
        got = run(["dirname", "python3"], "help")
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn("usage: ./dev", got.stdout)


if __name__ == "__main__":
    unittest.main()
