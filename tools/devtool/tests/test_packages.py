# SPDX-License-Identifier: Apache-2.0
"""The archive of the sources is the same for all who make it, and the files for packagers fit."""

import fnmatch
import json
import os
import pathlib
import re
import subprocess
import tarfile
import tempfile
import unittest
from unittest import mock

from devtool import library, packages
from devtool.process import ROOT

PACKAGING = ROOT / "packaging"
# What a build with BUILD_SHARED_LIBS installs into /usr, one file of each kind.
INSTALLED = """\
bin/spolia
include/spolia/db.hpp
lib/cmake/spolia/model_program.cmake
lib/cmake/spolia/spolia-config-version.cmake
lib/cmake/spolia/spolia-config.cmake
lib/cmake/spolia/spolia-targets-none.cmake
lib/cmake/spolia/spolia-targets.cmake
lib/cmake/spolia/spolia-with-model-none.cmake
lib/cmake/spolia/spolia-with-model.cmake
lib/libspolia.so
lib/libspolia.so.VERSION
lib/libspolia.so.MINOR
lib/libspolia_model.a
lib/pkgconfig/spolia.pc
share/bash-completion/completions/spolia
share/doc/spolia-devel/docs/building.md
share/fish/vendor_completions.d/spolia.fish
share/man/man1/spolia.1
share/spolia/valgrind.supp
share/zsh/site-functions/_spolia
"""
MACROS = {
    "_bindir": "bin",
    "_includedir": "include",
    "_libdir": "lib",
    "_datadir": "share",
    "_docdir": "share/doc",
    "_mandir": "share/man",
    "bash_completions_dir": "share/bash-completion/completions",
    "fish_completions_dir": "share/fish/vendor_completions.d",
    "zsh_completions_dir": "share/zsh/site-functions",
}


def read(name):
    return (PACKAGING / name).read_text(encoding="utf-8")


def files_of_spec(text):
    """Of each package of Fedora's, the patterns of its files."""
    patterns = {}
    for section in re.split(r"^%files", text, flags=re.M)[1:]:
        name, *lines = re.split(r"^%changelog", section, flags=re.M)[0].splitlines()
        named = [line.removeprefix("%doc ") for line in lines if not line.startswith("%dir")]
        whole = [re.sub(r"%\{(\w+)\}", lambda m: MACROS[m[1]], one) for one in named]
        patterns[name.strip()] = [re.sub(r"/$", "/*", one) for one in whole if "/" in one]
    return patterns


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


class recipes(unittest.TestCase):
    def test_have_the_version_of_the_library(self):
        version = library.version()
        self.assertRegex(read("debian/changelog"), rf"^spolia \({re.escape(version)}-")
        self.assertEqual(json.loads(read("vcpkg/spolia/vcpkg.json"))["version-semver"], version)
        spec = read("fedora/spolia.spec")
        self.assertEqual(re.search(r"^Version: +(\S+)$", spec, re.M)[1], version)
        self.assertIn(f"<spolia@example.org> - {version}-1\n", spec)
        cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
        self.assertIn(f"\nversion: {version}\n", cited)

    def test_for_arch_says_what_it_is_and_has_its_steps(self):
        name = PACKAGING / "arch" / "PKGBUILD"
        script = 'set -eu; . "$1"; declare -F build check package >&2; '
        script += 'echo "$pkgname $pkgver ${source[*]}"'
        said = subprocess.run(
            ["bash", "-c", script, "bash", str(name)], capture_output=True, text=True, check=True
        )
        version = library.version()
        self.assertEqual(said.stdout, f"spolia {version} spolia-{version}.tar.gz\n")

    def test_for_debian_and_fedora_name_the_library_by_its_minor_version(self):
        minor = library.version().rpartition(".")[0]
        self.assertIn(f"\nPackage: libspolia{minor}\n", read("debian/control"))
        self.assertIn(f"%{{_libdir}}/libspolia.so.{minor}*\n", read("fedora/spolia.spec"))

    def test_for_fedora_put_each_file_into_one_package(self):
        version = library.version()
        installed = INSTALLED.replace("VERSION", version)
        installed = installed.replace("MINOR", version.rpartition(".")[0]).split()
        packages_of = files_of_spec(read("fedora/spolia.spec"))
        self.assertEqual(list(packages_of), ["", "libs", "devel", "static"])
        for patterns in packages_of.values():
            for one in patterns:
                self.assertTrue(fnmatch.filter(installed, one), one)
        for file in installed:
            has = [
                name
                for name, patterns in packages_of.items()
                if any(fnmatch.fnmatch(file, one) for one in patterns)
            ]
            self.assertEqual(len(has), 1, file)


if __name__ == "__main__":
    unittest.main()
