# SPDX-License-Identifier: Apache-2.0
"""The archive of the sources is the same for all who make it."""

import os
import pathlib
import tarfile
import tempfile
import unittest
from unittest import mock

from devtool import packages


class source_archive(unittest.TestCase):
    def packed(self, mask, time):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        root = pathlib.Path(place.name) / "checkout"
        before = os.umask(mask)
        self.addCleanup(os.umask, before)
        for name, mode in (("src/a.cpp", 0o666), ("dev", 0o777)):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"of {name}", encoding="utf-8")
            (root / name).chmod(mode & ~mask)
            os.utime(root / name, (time, time))
        made = pathlib.Path(place.name) / f"made-at-{time}.tar.gz"
        with mock.patch.dict(os.environ, SOURCE_DATE_EPOCH="1000000000"):
            packages.pack(root, made)
        return made

    def test_says_nothing_of_its_maker(self):
        one, another = self.packed(0o022, 1500000000), self.packed(0o077, 1600000000)
        self.assertEqual(one.read_bytes(), another.read_bytes())
        with tarfile.open(one) as tar:
            modes = {info.name.partition("/")[2]: info.mode for info in tar}
        self.assertEqual(modes, {"dev": 0o755, "src/a.cpp": 0o644})


if __name__ == "__main__":
    unittest.main()
