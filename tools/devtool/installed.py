# SPDX-License-Identifier: Apache-2.0
"""The installed library, and programs of its users under tools and in other hosts: the rows of
docs/where-it-runs.md that begin with a prefix, as `./dev install` makes one."""

from __future__ import annotations

import os
import pathlib
import re
import shutil

from devtool import library, process
from devtool.process import ROOT
from devtool.systems import FOLDER, PROGRAM, row, started, told, used
from devtool.tally import tally

SOURCES = ROOT / "tests" / "systems"
MISTAKEN = ROOT / "tests" / "users" / "sanitized.cpp"
SMALL = ROOT / "tests" / "package" / "small"
PREFIX = FOLDER / "prefix"
SUPPRESSIONS = PREFIX / "share" / "spolia" / "valgrind.supp"
# Lines for what the tools say.
OPTIONS = ("-std=c++20", "-g1", "-DNDEBUG", "-pthread")
# The optimiser puts functions into each other, which valgrind's suppressions have to live with; the
# sanitizers' own code is slower to compile than to run.
OPTIMISED, PLAIN = "-O1", "-O0"
GCC = "g++-12"
CLANG = "clang++-19"
# What a memory sanitizer has not seen written, it takes for not written: so that it sees strings
# and streams, which are compiled into the C++ library, they are compiled into the program. Paths of
# files cannot be, and so only the parts without files are run.
INSTANTIATED = "-D_GLIBCXX_EXTERN_TEMPLATE=0"


def _installed(run, compiler: str, tool: str = "", flags: str = OPTIMISED):
    """The library for programs under this tool, beside the others in PREFIX; the outcome."""
    variant, way = library.variant(tool)
    build = FOLDER / f"install{variant}"
    options = [f"-DSPOLIA_BUILD_{part}=OFF" for part in ("TESTS", "TOOL", "BENCH", "EXAMPLES")]
    options += ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_FLAGS_RELEASE=-g1 -DNDEBUG {flags}"]
    options += ["-DSPOLIA_UNITY=ON", f"-D{way}", f"-DCMAKE_INSTALL_PREFIX={PREFIX}"]
    configure = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(build)]
    outcome = run.step([*configure, f"-DCMAKE_CXX_COMPILER={compiler}", *options])
    jobs = ["-j", str(process.jobs())]
    for step in (["--build", str(build), *jobs], ["--install", str(build)]):
        if outcome.ok:
            outcome = run.step(["cmake", *step])
    return outcome


def _flags(run, tool: str = "", where: pathlib.Path = PREFIX) -> list[str]:
    """What pkg-config says of it."""
    name = "spolia" + library.variant(tool)[0]
    env = dict(os.environ, PKG_CONFIG_PATH=str(where / "lib" / "pkgconfig"))
    return run.step(["pkg-config", "--cflags", "--libs", name], env=env).output.split()


def _parted(words: list[str]) -> tuple[list[str], list[str]]:
    """The words of a command but for its libraries, and these, which follow the sources."""
    libraries = [word for word in words if word.startswith(("-l", "-L"))]
    return [word for word in words if word not in libraries], libraries


def _silent(outcome, tool: str) -> tally:
    """No word of the tool's, which ends with a status of its own, and says its name."""
    quiet = "Sanitizer" not in outcome.output and "==" not in outcome.output
    if outcome.ok and not quiet:
        return tally(failed=1, note=f"{tool} reports something")
    return told(outcome, f"the program under {tool}")


def _compiled(run, command: list[str], source, program):
    program.parent.mkdir(parents=True, exist_ok=True)
    rest, libraries = _parted(command)
    return run.step([*rest, str(source), "-o", str(program), *libraries])


def _everywhere(run, start: list[str], program, tool: str) -> tally:
    data = program.parent / "data"
    shutil.rmtree(data, ignore_errors=True)
    return _silent(started(run, [*start, str(program)], str(data)), tool)


def _sanitized(
    sanitizer: str,
    compiler: str,
    variant: bool,
    mistake: str,
    extra: tuple[str, ...] = (),
    files: bool = True,
):
    """A user's program with -fsanitize= is silent over the library, and its mistake is found."""

    def check(run, one: row) -> tally:
        if variant:
            outcome = _installed(run, compiler, sanitizer, " ".join([PLAIN, *extra]))
        else:
            outcome = _installed(run, compiler)
        if not outcome.ok:
            return told(outcome, "the installation")
        of_user = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", *extra]
        command = [compiler, *OPTIONS, PLAIN, *of_user, *_flags(run, sanitizer if variant else "")]
        outcome = _compiled(run, command, PROGRAM, one.program)
        if not outcome.ok:
            return told(outcome, "the compiler")
        if files:
            counts = _everywhere(run, [], one.program, "the sanitizer")
        else:
            counts = _silent(run.step([str(one.program), "parts"]), "the sanitizer")
        if counts.failed == 0:
            counts = _mistake_is_found(run, command, one, mistake)
        if counts.failed == 0 and variant:
            counts = _found_by_cmake(run, compiler, sanitizer, one)
        return counts

    return check


def _mistake_is_found(run, command: list[str], one: row, mistake: str) -> tally:
    mistaken = one.program.parent / "mistaken"
    outcome = _compiled(run, command, MISTAKEN, mistaken)
    if not outcome.ok:
        return told(outcome, "the compiler")
    counts = _silent(run.step([str(mistaken)]), "the sanitizer")
    if counts.failed == 0 and "Sanitizer" not in run.step([str(mistaken), mistake]).output:
        return tally(failed=1, note="a user's mistake is not found")
    return counts


def _found_by_cmake(run, compiler: str, sanitizer: str, one: row) -> tally:
    """COMPONENTS takes it in place of the library without, and says so where it is not there."""
    build = one.program.parent / "small"
    shutil.rmtree(build, ignore_errors=True)
    command = ["cmake", "-G", "Ninja", "-S", str(SMALL), "-B", str(build)]
    command += [f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DCMAKE_CXX_COMPILER={compiler}"]
    command += ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_FLAGS=-fsanitize={sanitizer}"]
    absent = run.step([*command, "-DWITH=leak_sanitizer"])
    if absent.ok or "No component leak_sanitizer" not in absent.output:
        return tally(failed=1, note="a component that is not there is found, or not named")
    for step in (
        [*command, f"-DWITH={sanitizer}_sanitizer"],
        ["cmake", "--build", str(build)],
        [str(build / "small")],
    ):
        outcome = run.step(step)
        if not outcome.ok:
            return told(outcome, "find_package by a component")
    text = (build / "build.ninja").read_text(encoding="utf-8")
    good = f"libspolia-{sanitizer}-sanitizer.a" in text
    return tally(passed=1) if good else tally(failed=1, note="another library is linked")


def _valgrind(tool: str, variant: str, mistake: str, *options: str):
    """Silent about the library, with the variant of it and the file that are there for the tool."""

    def check(run, one: row) -> tally:
        outcome = _installed(run, GCC, variant)
        if not outcome.ok:
            return told(outcome, "the installation")
        program = FOLDER / f"under-valgrind{library.variant(variant)[0]}" / "everywhere"
        mistaken = program.parent / "mistaken"
        command = [GCC, *OPTIONS, OPTIMISED, *_flags(run, variant)]
        for source, made in ((PROGRAM, program), (MISTAKEN, mistaken)):
            outcome = _compiled(run, command, source, made)
            if not outcome.ok:
                return told(outcome, "the compiler")
        start = ["valgrind", f"--tool={tool}", "--quiet", "--error-exitcode=9", *options]
        counts = _everywhere(run, start, program, tool)
        if counts.failed == 0 and run.step([*start, str(mistaken), mistake]).status != 9:
            return tally(failed=1, note="a user's mistake is not found")
        return counts

    return check


def _by_command(run, one: row) -> tally:
    """`./dev install PREFIX`, and what its last lines say; they are followed."""
    prefix = one.program.parent / "prefix"
    shutil.rmtree(prefix, ignore_errors=True)
    outcome = run.step([str(ROOT / "dev"), "install", str(prefix)])
    if not outcome.ok:
        return told(outcome, "the command")
    found = re.search(
        r"to find it: (-DCMAKE_PREFIX_PATH=\S+), or pkg-config spolia$", outcome.output, re.M
    )
    if not found or f"installed into {prefix}: the library, its licence" not in outcome.output:
        return tally(failed=1, note="the last lines do not say where it is")
    documents = prefix / "share" / "doc" / "spolia"
    for wanted in (documents / "LICENSE", documents / "docs" / "building.md"):
        if not wanted.exists():
            return tally(failed=1, note=f"{wanted.relative_to(prefix)} is not installed")
    build = one.program.parent / "small"
    shutil.rmtree(build, ignore_errors=True)
    for step in (
        ["cmake", "-S", str(SMALL), "-B", str(build), found[1]],
        ["cmake", "--build", str(build)],
        [str(build / "small")],
    ):
        outcome = run.step(step)
        if not outcome.ok:
            return told(outcome, "a program over it")
    command = [GCC, *OPTIONS, PLAIN, *_flags(run, where=prefix)]
    outcome = _compiled(run, command, PROGRAM, one.program)
    return told(used(run, one), "the program") if outcome.ok else told(outcome, "the compiler")


def _in_go(run, one: row) -> tally:
    """A host whose runtime takes the signals, and whose threads have stacks of its own for them."""
    outcome = _installed(run, GCC)
    if not outcome.ok:
        return told(outcome, "the installation")
    rest, libraries = _parted(_flags(run))
    env = dict(
        os.environ,
        CXX=GCC,
        GOFLAGS="-mod=mod",
        GOCACHE=str(one.program.parent / "cache"),
        CGO_CXXFLAGS=" ".join([*OPTIONS, *rest]),
        CGO_LDFLAGS=" ".join([*libraries, "-lstdc++", "-pthread"]),
    )
    built = ["env", "-C", str(SOURCES / "go"), "go", "build", "-o", str(one.program), "."]
    outcome = run.step(built, env=env)
    return told(run.step([str(one.program)]), "the host") if outcome.ok else told(outcome, "go")


def _by_module(run, one: row) -> tally:
    """A named module over the headers, and a source beside it that includes them."""
    outcome = _installed(run, GCC)
    if not outcome.ok:
        return told(outcome, "the installation")
    folder, source = one.program.parent, SOURCES / "module"
    rest, libraries = _parted(_flags(run))
    command = [CLANG, *OPTIONS, *rest]
    compiled = folder / "spolia.pcm"
    outcome = _compiled(run, [*command, "--precompile"], source / "spolia.cppm", compiled)
    objects = []
    for unit in (source / "program.cpp", source / "included.cpp", compiled):
        objects.append(folder / f"{unit.stem}.o")
        if outcome.ok:
            made = [*command, f"-fmodule-file=spolia={compiled}", "-c"]
            outcome = _compiled(run, made, unit, objects[-1])
    if outcome.ok:
        linked = [CLANG, *map(str, objects), "-o", str(one.program), *libraries, "-pthread"]
        outcome = run.step(linked)
    if not outcome.ok:
        return told(outcome, "the compiler")
    return told(run.step([str(one.program)]), "the program")


LINES = {
    "spolia lo": ["load"],
    "spolia load --on-conflict ": ["fail", "replace", "skip"],
    "spolia info --ha": ["--hash"],
    "spolia top --": ["--interval", "--json", "--times"],
}


def _in_shells(run, one: row) -> tally:
    """What bash, fish and zsh offer behind each of these words."""
    counts = tally()
    for shell in ("bash", "fish", "zsh"):
        for line, offered in LINES.items():
            outcome = run.step([shell, *SHELLS[shell], line])
            missing = [word for word in offered if word not in outcome.output]
            good = outcome.ok and not missing and "backup" not in outcome.output
            note = "" if good else f"{shell} does not offer {missing} behind '{line}'"
            counts.add(tally(passed=int(good), failed=int(not good), note=note))
    return counts


MANUAL = ROOT / "tool" / "manual"
COMPLETED = SOURCES / "completed"
SHELLS = {
    "bash": ("--norc", str(COMPLETED / "completed.bash"), str(MANUAL / "spolia.bash")),
    "fish": ("--no-config", str(COMPLETED / "completed.fish"), str(MANUAL / "spolia.fish")),
    "zsh": ("-f", str(COMPLETED / "completed.zsh"), str(MANUAL)),
}

ROWS = [
    row("install", needs=("g++-12", "pkg-config|pkgconf"), check=_by_command),
    row(
        "sanitizers",
        needs=("g++-12", "pkg-config|pkgconf"),
        check=_sanitized("address,undefined", GCC, variant=False, mistake="read"),
    ),
    row(
        "thread-sanitizer",
        needs=("g++-12", "pkg-config|pkgconf"),
        check=_sanitized("thread", GCC, variant=True, mistake="race"),
    ),
    row(
        "memory-sanitizer",
        needs=("clang-19", "libclang-rt-19-dev", "pkg-config|pkgconf"),
        check=_sanitized(
            "memory", CLANG, variant=True, mistake="unset", extra=(INSTANTIATED,), files=False
        ),
    ),
    row(
        "memcheck",
        needs=("g++-12", "valgrind", "pkg-config|pkgconf"),
        check=_valgrind("memcheck", "", "read", "--leak-check=full"),
    ),
    row(
        "helgrind",
        needs=("g++-12", "valgrind", "pkg-config|pkgconf"),
        check=_valgrind("helgrind", "valgrind", "race", f"--suppressions={SUPPRESSIONS}"),
    ),
    row("go", needs=("g++-12", "golang-go", "pkg-config|pkgconf"), check=_in_go),
    row("module", needs=("g++-12", "clang-19", "pkg-config|pkgconf"), check=_by_module),
    row("shells", needs=("bash", "fish", "zsh"), check=_in_shells),
]
