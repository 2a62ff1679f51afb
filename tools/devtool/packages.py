# SPDX-License-Identifier: Apache-2.0
"""`./dev package KIND`: what packagers make of the library, made and tried here.

archive  an installed copy, and an archive of it
source   the sources in one archive, for packagers: always the same one of a commit
debian   Debian's packages, looked at by lintian; with --try in a fresh root, and used there
conan    the recipe of packaging/conan, with its test package, in a cache of its own
online   the library in two files, for compilers that are web pages; a program is compiled with them
"""

from __future__ import annotations

import argparse
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

from devtool import commands, library, process, setup
from devtool.process import BUILD, ROOT, dev_error, plain, say
from lint.source import files_of

PLACE = BUILD / "package"
RELEASE = "bookworm"
IN_ROOT = ["g++", "cmake", "ninja-build", "pkgconf", "ca-certificates"]


KINDS = ("archive", "source", "debian", "conan", "online")


def run(args: argparse.Namespace) -> int:
    return dict(zip(KINDS, (archive, source, debian, conan, online), strict=True))[args.kind](args)


def archive(_: argparse.Namespace) -> int:
    commands.build_preset("release")
    stage = PLACE / "spolia"
    shutil.rmtree(stage, ignore_errors=True)
    plain(["cmake", "--install", str(BUILD / "release"), "--prefix", str(stage)])
    made = shutil.make_archive(str(stage), "gztar", stage.parent, "spolia")
    say(f"installed into {stage.relative_to(ROOT)}; archive {os.path.relpath(made, ROOT)}")
    return 0


def source(_: argparse.Namespace) -> int:
    made = PLACE / f"spolia-{library.version()}.tar.gz"
    made.parent.mkdir(parents=True, exist_ok=True)
    pack(ROOT, made)
    say(f"archive {made.relative_to(ROOT)}")
    return 0


def pack(root: pathlib.Path, made: pathlib.Path) -> None:
    """All files of a checkout in one archive. Its bytes depend on those of the files and on the
    time of the commit (SOURCE_DATE_EPOCH), and not on where, when and by whom it is made."""
    when = int(os.environ.get("SOURCE_DATE_EPOCH") or process.commit_time() or 0)

    def plainly(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.mtime, info.uid, info.gid, info.uname, info.gname = when, 0, 0, "", ""
        info.mode = 0o755 if info.mode & 0o100 else 0o644
        return info

    with made.open("wb") as file, gzip.GzipFile("", "wb", 9, file, when) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for name in files_of(root):
                tar.add(root / name, f"spolia-{library.version()}/{name}", filter=plainly)


def debian(args: argparse.Namespace) -> int:
    setup.require("debian")
    place = PLACE / "debian"
    for old in place.glob("*spolia*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    tree = place / f"spolia-{library.version()}"
    place.mkdir(parents=True, exist_ok=True)
    original = place / f"spolia_{library.version()}.orig.tar.gz"
    pack(ROOT, original)
    shutil.unpack_archive(original, place)
    shutil.copytree(tree / "packaging/debian", tree / "debian")
    _in(tree, ["dpkg-buildpackage", "-us", "-uc", f"-j{process.jobs()}"])
    changes = next(place.glob("*.changes"))
    strict = ["--display-info", "--fail-on", "error,warning,info"]
    _in(place, ["lintian", "--allow-root", *strict, changes.name])
    say(f"packages in {place.relative_to(ROOT)}")
    if vars(args).get("try"):
        _try_debian(place, tree)
    return 0


def _try_debian(place, tree) -> None:
    """Installs them where nothing else is, and builds and runs programs there."""
    if os.geteuid() != 0:
        raise dev_error("--try makes a fresh root, which only root can do", 2)
    root = place / "root"
    shutil.rmtree(root, ignore_errors=True)
    strap = ["debootstrap", "--variant=minbase", f"--include={','.join(IN_ROOT)}"]
    _in(place, [*strap, RELEASE, str(root)])
    debs = [deb.name for deb in place.glob("*.deb") if "dbgsym" not in deb.name]
    for name in debs:
        shutil.copy2(place / name, root / "tmp" / name)
    shutil.copy2(tree / "debian/tests/builds", root / "tmp/builds")
    inside = ["chroot", str(root), "env", "DEBIAN_FRONTEND=noninteractive"]
    packages = [f"/tmp/{name}" for name in debs]
    quiet = ["apt-get", "-qq", "-y", "--no-install-recommends", "install"]
    _in(place, [*inside, *quiet, *packages])
    _in(place, [*inside, "sh", "-e", "/tmp/builds"])
    shutil.rmtree(root)
    say(f"installed and used in a fresh {RELEASE}: {', '.join(sorted(debs))}")


def conan(_: argparse.Namespace) -> int:
    tools = setup.packagers_venv()
    env = {**os.environ, "CONAN_HOME": str(PLACE / "conan"), "PATH": _path_with(tools)}
    _in(ROOT, ["conan", "profile", "detect", "--force"], env)
    recipe = ["conan", "create", "packaging/conan", f"--version={library.version()}", "--no-remote"]
    test_folder = f"tools.cmake.cmake_layout:test_folder={PLACE / 'conan-test'}"
    _in(ROOT, [*recipe, "-s", "compiler.cppstd=20", "-c", test_folder], env)
    return 0


def online(_: argparse.Namespace) -> int:
    place = PLACE / "online"
    place.mkdir(parents=True, exist_ok=True)
    plain([sys.executable, "-B", str(ROOT / "tools/online.py"), str(place)])
    program = ROOT / "examples" / "durable_bank.cpp"
    text = re.sub(r"#include <spolia/.*\n", "", program.read_text(encoding="utf-8"))
    (place / "program.cpp").write_text('#include "spolia.hpp"\n' + text, encoding="utf-8")
    sources = [str(place / name) for name in ("program.cpp", "spolia.cpp")]
    options = ["-std=c++20", "-O1", "-DNDEBUG", f"-I{place}", "-pthread"]
    plain(["g++", *options, *sources, "-o", str(place / "program")])
    plain([str(place / "program")])
    say(f"two files in {place.relative_to(ROOT)}")
    return 0


def _path_with(folder) -> str:
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def _in(folder, command: list[str], env: dict[str, str] | None = None) -> None:
    """Runs it there; what it says goes into a log, and is shown if it fails."""
    say(" ".join(command[:4]))
    log = BUILD / "logs" / f"package-{command[0]}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as sink:
        done = subprocess.run(command, cwd=folder, env=env, stdout=sink, stderr=sink, check=False)
    if done.returncode != 0:
        print("\n".join(log.read_text(encoding="utf-8").splitlines()[-30:]), file=sys.stderr)
        raise dev_error(
            f"`{' '.join(command)}` failed; the whole output is in {log.relative_to(ROOT)}"
        )
