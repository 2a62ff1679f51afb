# SPDX-License-Identifier: Apache-2.0
"""The commands of ./dev other than test. Each takes the parsed arguments and returns a status."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from lint import departures
from lint.source import files_of, tree

from devtool import ctest, library, process, setup
from devtool.process import BUILD, ROOT, dev_error, plain, say, tool

PRESET_NEEDS = {
    "release": ("build", "bench", "tool"),
    "clang": ("build", "bench", "tool", "clang"),
    "asan-ubsan": ("build", "tool", "clang"),
    "tsan": ("build", "clang"),
    "coverage": ("build", "clang"),
    "aarch64": ("build", "cross"),
    "debug": ("build",),
    "model": ("build",),
}
CLANG_VERSIONS = ("19", "20", "18")
CPP_FOLDERS = ("include", "src", "bench", "demo", "tests", "tool", "examples")


def build_preset(preset: str, *targets: str, pattern: str | None = None) -> None:
    """All of it, or these targets, or what the tests need that fit `-k`."""
    setup.require(*PRESET_NEEDS[preset])
    # A run of the tests compiles programs without optimisation.
    options = ["-DSPOLIA_PROGRAMS_UNOPTIMISED=OFF"] if preset == "release" else []
    plain(["cmake", "--preset", preset, "--log-level=WARNING", *options])
    if pattern:
        chosen = ctest.targets(preset, pattern)
        if chosen is None:
            raise dev_error(f"no test of {preset} is called {pattern}", 2)
        if not chosen:
            return
        targets = tuple(chosen)
    command = ["cmake", "--build", "--preset", preset, "-j", str(process.jobs())]
    plain([*command, "--target", *targets] if targets else command)


# Of the laboratory: what builds nothing.
NOTHING_RUNS = frozenset({"-h", "--help", "--list", "--dry-run"})


def _laboratory(arguments: list[str]) -> None:
    """Builds nothing for a user that asks for help, or draws what has been measured."""
    words = set(arguments)
    if words and arguments[0] != "report" and words.isdisjoint(NOTHING_RUNS):
        build_preset("release", "spolia-bench")
    process.replace([setup.venv(), "-m", "lab", *arguments])


def build(args: argparse.Namespace) -> int:
    build_preset(args.preset, *args.target)
    return 0


def bench(args: argparse.Namespace) -> int:
    build_preset("release", "spolia-bench")
    process.replace([str(BUILD / "release" / "bench" / "spolia-bench"), *args.rest])
    return 0


def crash(args: argparse.Namespace) -> int:
    """A third of the time each: a disk that refuses, one that fails, and copies."""
    programs = ("spolia-crash", "spolia-crash-failures", "spolia-crash-backups")
    build_preset("release", *programs)
    for name in programs:
        program = BUILD / "release" / "tests" / "db" / name
        command = [str(program), "--seconds", str(args.seconds / len(programs))]
        if args.seed is not None:
            command += ["--seed", str(args.seed)]
        if args.directory:
            command += ["--directory", args.directory]
        plain(command)
    return 0


def lab(args: argparse.Namespace) -> int:
    _laboratory(args.rest)
    return 0


def model(args: argparse.Namespace) -> int:
    build_preset("model", pattern=args.pattern)
    if args.deeper:
        return _search_deeper(args)
    chosen, env = ctest.selection(args.pattern)
    plain(["ctest", "--preset", "model", "-j2", *chosen], env)
    return 0


def _search_deeper(args: argparse.Namespace) -> int:
    """Each program by itself: ctest's time limits are for the usual depth."""
    os.environ["SPOLIA_MODEL_DEEPER"] = str(args.deeper)
    programs = sorted((BUILD / "model" / "tests" / "model").glob("test-*_model"))
    chosen = [p for p in programs if re.search(args.pattern or "", p.name)]
    if not chosen:
        raise dev_error(f"no program of the model checker is called {args.pattern}", 2)
    for program in chosen:
        say(program.name)
        plain([str(program), "--gtest_brief=1"])
    return 0


def stress(args: argparse.Namespace) -> int:
    """Rounds of the long tests until the time is over; the first failure ends it."""
    build_preset(args.preset, pattern=args.pattern)
    chosen, env = ctest.selection(args.pattern)
    command = ["ctest", "--preset", args.preset, "-j2", *(chosen or ["-L", "long"])]
    deadline = time.monotonic() + args.minutes * 60
    rounds = 0
    while rounds == 0 or time.monotonic() < deadline:
        plain(command, env)
        rounds += 1
    say(f"{rounds} rounds, none failed")
    return 0


def _tracked(*suffixes: str) -> list[str]:
    return [name for name in files_of(ROOT) if name.endswith(suffixes)]


def format_code(args: argparse.Namespace) -> int:
    setup.require("format")
    sources = [n for n in _tracked(".hpp", ".cpp") if n.split("/")[0] in CPP_FOLDERS]
    formatter = tool(*[f"clang-format-{n}" for n in CLANG_VERSIONS], "clang-format")
    mode = ["--dry-run", "-Werror", "--ferror-limit=1"] if args.check else ["-i"]
    statuses = []
    if sources:
        command = [formatter, *mode, *sources]
        statuses.append(process.status_of(command))
    if "ruff" in (setup.REQUIREMENTS.read_text() if setup.REQUIREMENTS.exists() else ""):
        ruff = [setup.venv(), "-m", "ruff", "format", "--quiet"]
        config = ["--config", "lab/ruff.toml"] if (ROOT / "lab" / "ruff.toml").exists() else []
        command = [*ruff, *config, *(["--check"] if args.check else []), "lab", "tools"]
        statuses.append(process.status_of(command))
    if not args.check:
        page = departures.page_of(tree(ROOT))
        (ROOT / departures.PAGE).write_text(page, encoding="utf-8")
    return 1 if any(statuses) else 0


def lint(args: argparse.Namespace) -> int:
    command = [sys.executable, "-B", "tools/lint", *args.check]
    status = process.status_of(command)
    if not args.tidy:
        return status
    setup.require("build", "bench", "tool", "clang", "tidy")
    build_preset("clang")
    tidy = [tool(*[f"run-clang-tidy-{n}" for n in CLANG_VERSIONS]), "-quiet"]
    where = ["-p", str(BUILD / "clang"), "-j", str(process.jobs())]
    units = "^" + re.escape(str(ROOT)) + "/(src|bench|demo|tests|tool|examples)/"
    return max(status, process.status_of([*tidy, *where, units]))


def coverage(args: argparse.Namespace) -> int:
    preset = BUILD / "coverage"
    shutil.rmtree(preset / "profiles", ignore_errors=True)
    build_preset("coverage")
    plain(["ctest", "--preset", "coverage", "-j2", *(["-L", "quick"] if args.quick else [])])
    suffixes = [f"-{n}" for n in CLANG_VERSIONS] + [""]
    merge = tool(*[f"llvm-profdata{s}" for s in suffixes])
    cov = tool(*[f"llvm-cov{s}" for s in suffixes])
    profiles = sorted(str(p) for p in (preset / "profiles").glob("*.profraw"))
    if not profiles:
        raise dev_error("no test wrote a profile")
    data = str(preset / "coverage.profdata")
    plain([merge, "merge", "--sparse", "-o", data, *profiles])
    programs = [
        str(p) for p in sorted(preset.glob("tests/**/test-*")) if p.is_file() and os.access(p, 1)
    ]
    objects = [programs[0], *(f"--object={p}" for p in programs[1:])]
    only = ["--sources", f"{ROOT}/include", f"{ROOT}/src"]
    common = [f"--instr-profile={data}", *objects, *only]
    plain([cov, "show", "--format=html", f"--output-dir={preset}/html", *common])
    plain([cov, "report", *common])
    say(f"lines in colour: {(preset / 'html' / 'index.html').relative_to(ROOT)}")
    return 0


def install(args: argparse.Namespace) -> int:
    """Needs no more than a compiler and CMake; the tool is built where its packages are."""
    setup.require("demo")
    prefix = pathlib.Path(args.prefix).expanduser().absolute()
    there = next(folder for folder in (prefix, *prefix.parents) if folder.exists())
    if not os.access(there, os.W_OK):
        raise dev_error(f"this user may not write to {there}: try sudo ./dev install {prefix}", 2)
    shared = "ON" if args.shared else "OFF"
    options = [f"-DBUILD_SHARED_LIBS={shared}", f"-DCMAKE_INSTALL_PREFIX={prefix}"]
    variant, way = library.variant(args.sanitize)
    build = BUILD / f"install{variant}"
    if variant:
        options += [f"-D{way}", "-DSPOLIA_BUILD_TOOL=OFF"]
    configure = ["cmake", "--preset", "install", "-B", str(build)]
    plain([*configure, "--log-level=WARNING", *options])
    plain(["cmake", "--build", str(build), "-j", str(process.jobs())])
    log = BUILD / "logs" / "install.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = ["cmake", "--install", str(build)]
    with log.open("w", encoding="utf-8") as sink:
        if subprocess.run(command, stdout=sink, stderr=sink, check=False).returncode != 0:
            raise dev_error(f"the installation failed; see {log.relative_to(ROOT)}")
    say(
        f"installed into {prefix}: the library, its licence and its guides"
        + (", and bin/spolia" if (build / "tool" / "spolia").exists() else "")
    )
    say(f"to find it: -DCMAKE_PREFIX_PATH={prefix}, or pkg-config spolia{variant}")
    if variant:
        say(f"in CMake, beside another: COMPONENTS {variant[1:].replace('-', '_')}")
    return 0


def clean(args: argparse.Namespace) -> int:
    for entry in sorted(BUILD.iterdir()) if BUILD.exists() else []:
        if args.all or entry.name != "venv":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return 0
