# SPDX-License-Identifier: Apache-2.0
"""Where the library runs: compilers, processors and hosts, one row each (docs/where-it-runs.md).

A row compiles the whole library and tests/systems/everywhere.cpp, which uses every part of it, and
runs that. What cannot be had on a machine is skipped, and says so.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from devtool import library, setup
from devtool.process import BUILD, ROOT
from devtool.tally import tally

FOLDER = BUILD / "systems"
PROGRAM = ROOT / "tests" / "systems" / "everywhere.cpp"
HOST = ROOT / "tests" / "systems" / "host.cpp"
MUSL_LOADER = "/lib/ld-musl-x86_64.so.1"
# A tenth of a processor, by the older and the newer interface.
GROUPS = (
    ("/sys/fs/cgroup/cpu/spolia-test", "cpu.cfs_quota_us", "10000"),
    ("/sys/fs/cgroup/spolia-test", "cpu.max", "10000 100000"),
)
COPIES = 40  # more than fit into the room that loaders have for such memory
WARNINGS = ROOT / "tests" / "users" / "warnings.cmake"
DEBIAN = FOLDER / "debian-sid"
ZIG = "ziglang==0.17.1"
# Not optimised: what the optimiser does is for other stages.
OPTIONS = ("-O0", "-DNDEBUG", "-pthread")


@dataclass(frozen=True)
class row:
    """`compiler` begins the command; `runs` stands before the program where the processor is
    another one; `needs` are Debian's packages, as in setup.NEEDS."""

    name: str
    compiler: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    check: Callable | None = None

    @property
    def program(self) -> pathlib.Path:
        return FOLDER / self.name / "everywhere"


def warnings() -> list[str]:
    text = WARNINGS.read_text(encoding="utf-8")
    return re.search(r"set\(careful_warnings\s(.*?)\)", text, re.S)[1].split()


def unit(folder: pathlib.Path) -> pathlib.Path:
    """The library as one source."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "library.cpp"
    lines = [f'#include "{name}"\n' for name in library.sources()]
    whole.write_text("".join(lines), encoding="utf-8")
    return whole


def compiled(run, one: row):
    """The library as one unit and the program, linked; the outcome."""
    folders = [f"-I{ROOT / name}" for name in ("include", "src", ".")]
    what = [str(unit(one.program.parent)), str(PROGRAM), "-o", str(one.program)]
    return run.step([*one.compiler, *OPTIONS, *folders, *what])


def used(run, one: row, how: tuple[str, ...] = ()):
    """The program's two parts, the second with a database that it makes."""
    data = one.program.parent / "data"
    shutil.rmtree(data, ignore_errors=True)
    return started(run, [*(how or one.runs), str(one.program)], str(data))


def started(run, start: list[str], data: str):
    outcome = run.step([*start, "parts"])
    for what in ("write", "check"):
        if outcome.ok:
            outcome = run.step([*start, what, data])
    return outcome


def told(outcome, what: str) -> tally:
    if outcome.timed_out:
        return tally(failed=1, note=f"{what}: over its time")
    return tally(passed=1) if outcome.ok else tally(failed=1, note=f"{what} failed")


def builds_and_runs(run, one: row) -> tally:
    outcome = compiled(run, one)
    return told(used(run, one), "the program") if outcome.ok else told(outcome, "the compiler")


def other_processor(run, one: row) -> tally:
    """And each reads what the other has written."""
    counts = builds_and_runs(run, one)
    host = by_name("gcc-12")
    if counts.failed or not host.program.exists():
        return counts
    data = str(one.program.parent / "exchanged")
    for writer, reader in ((one, host), (host, one)):
        shutil.rmtree(data, ignore_errors=True)
        outcome = run.step([*writer.runs, str(writer.program), "write", data])
        if outcome.ok:
            outcome = run.step([*reader.runs, str(reader.program), "check", data])
        if not outcome.ok:
            return told(outcome, f"{reader.name} reads what {writer.name} wrote:")
    return counts


def careful(run, one: row) -> tally:
    """Optimised, in both build variants: some warnings are about what the optimiser finds."""
    for checks in ("0", "1"):
        flags = ["-O2", f"-DSPOLIA_CHECKS={checks}", "-Werror", *warnings()]
        outcome = run.step(
            [*one.compiler, *flags, f"-I{ROOT / 'include'}", "-c", str(PROGRAM), "-o", os.devnull]
        )
        if not outcome.ok:
            return told(outcome, f"SPOLIA_CHECKS={checks}:")
    return tally(passed=1)


def refused(run, one: row) -> tally:
    """One sentence, and nothing else that is wrong."""
    outcome = run.step([*one.compiler, f"-I{ROOT / 'include'}", "-fsyntax-only", str(PROGRAM)])
    errors = re.findall(r"error: (.*)", outcome.output)
    good = len(errors) == 2 and "#error" in errors[0] and "see_the_error_above" in errors[1]
    return tally(passed=1) if good else tally(failed=1, note=f"{len(errors)} errors, not two")


def with_program_of(name: str, how: Callable) -> Callable:
    """A check of the program that another row has built, under other conditions."""

    def under(run, one: row) -> tally:
        base = by_name(name)
        if not base.program.exists():
            counts = check(run, base)
            if counts.failed or counts.skipped:
                return counts
        return how(run, base)

    return under


def started_by(*how: str) -> Callable:
    return lambda run, base: told(used(run, base, how), "the program")


def with_pages_of(size: int) -> Callable:
    return lambda run, base: told(used(run, base, (*base.runs, "-p", str(size))), "the program")


def alone(run, base: row) -> tally:
    """On each processor alone, so that the numbers of those there are begin above 0, too."""
    counts = tally()
    for number in sorted(os.sched_getaffinity(0)):
        counts.add(told(used(run, base, ("taskset", "-c", str(number))), f"processor {number}:"))
    return counts


def in_empty_root(run, base: row) -> tally:
    """With nothing else in the root directory: no /dev, no /proc, no /sys."""
    if os.geteuid() != 0:
        return tally(skipped=1, note="no rights to change the root directory")
    root = base.program.parent / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    shutil.copy2(base.program, root / base.program.name)
    start = ["chroot", str(root), f"/{base.program.name}"]
    return told(started(run, start, "/data"), "the program")


def without_signals(run, base: row) -> tally:
    """The one scheme that needs a signal is refused by a sentence, and the rest works."""
    outcome = run.step([str(base.program), "signals"])
    return told(outcome, "the program")


def without_threads(run, base: row) -> tally:
    """What needs a thread says so, and the rest does without."""
    data = base.program.parent / "alone"
    shutil.rmtree(data, ignore_errors=True)
    return told(run.step([str(base.program), "threads", str(data)]), "the program")


def with_zig(how: Callable) -> Callable:
    """zig is clang with libc++ and musl, and comes as a package of Python's."""

    def check_with(run, one: row) -> tally:
        python = FOLDER / "zig" / "bin" / "python"
        if not run.step([str(python), "-m", "ziglang", "version"]).ok:
            run.step(["python3", "-m", "venv", str(FOLDER / "zig")])
            if not run.step([str(python), "-m", "pip", "install", "-q", ZIG]).ok:
                return tally(skipped=1, note="zig is not to be had")
        return how(run, row(one.name, (str(python), "-m", "ziglang", "c++", *one.compiler)))

    return check_with


def as_plugins(run, one: row) -> tally:
    """Copies of the program with the library in it, as shared objects, are loaded into a host by
    musl's own loader. It has no room for thread-local memory that is reached by a load."""
    folder = one.program.parent
    plugin, host = folder / "everywhere.so", folder / "host"
    shared = row(one.name, (*one.compiler, "-shared", "-fPIC"))
    outcome = compiled(run, shared)
    if not outcome.ok:
        return told(outcome, "the compiler")
    one.program.replace(plugin)
    outcome = run.step([*one.compiler, "-dynamic", str(HOST), "-o", str(host)])
    if not outcome.ok:
        return told(outcome, "the compiler of the host")
    if "STATIC_TLS" in run.step(["readelf", "-d", str(plugin)]).output:
        return tally(failed=1, note="the plugin wants static thread-local memory")
    copies = [folder / f"copy-{n}.so" for n in range(COPIES)]
    for copy in copies:
        shutil.copy2(plugin, copy)
    return told(run.step([MUSL_LOADER, str(host), *map(str, copies)]), "the host")


def in_container(run, base: row) -> tally:
    """With a gigabyte of addresses and a tenth of a processor, by a cgroup if one can be made."""
    tenth = at_most_a_tenth()
    start = ("prlimit", f"--as={2**30}", "--nofile=64", *tenth)
    counts = told(used(run, base, start), "the program")
    if counts.failed == 0 and tenth[0] == "taskset":
        counts.note = "no cgroup could be made here: one processor, and no share of it"
    for folder, _, _ in GROUPS:
        with contextlib.suppress(OSError):
            pathlib.Path(folder).rmdir()
    return counts


def at_most_a_tenth() -> list[str]:
    """What begins a command so; one whole processor if there is no other way."""
    for folder, file, text in GROUPS:
        place = pathlib.Path(folder)
        try:
            place.mkdir(exist_ok=True)
            (place / file).write_text(text, encoding="ascii")
        except OSError:
            continue
        return ["sh", "-c", f'echo $$ > {place}/cgroup.procs && exec "$@"', "sh"]
    return ["taskset", "-c", str(min(os.sched_getaffinity(0)))]


def debian_sid(run, one: row) -> tally:
    """Debian's newest, in a folder of its own: only a superuser may run something there."""
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        return tally(skipped=1, note="no debootstrap, or no rights to use it")
    if not (DEBIAN / "usr" / "bin" / "g++").exists():
        made = ["debootstrap", "--variant=minbase", "--include=g++", "sid", str(DEBIAN)]
        outcome = run.step(made)
        if not outcome.ok:
            return tally(skipped=1, note="Debian's packages are not to be had")
    if not (DEBIAN / "usr" / "bin" / one.compiler[0]).exists():
        quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y"]
        wanted = ["--no-install-recommends", "install", one.compiler[0]]
        if not run.step(["chroot", str(DEBIAN), *quiet, *wanted]).ok:
            return tally(skipped=1, note=f"{one.compiler[0]} is not to be had")
    inside = DEBIAN / "spolia"
    shutil.rmtree(inside, ignore_errors=True)
    for name in ("include", "src", "tests/systems"):
        shutil.copytree(ROOT / name, inside / name)
    unit(inside)
    folders = ["-I/spolia/include", "-I/spolia/src", "-I/spolia"]
    what = ["/spolia/library.cpp", "/spolia/tests/systems/everywhere.cpp"]
    command = [*one.compiler, *OPTIONS, *folders, *what, "-o", "/spolia/everywhere"]
    outcome = run.step(["chroot", str(DEBIAN), *command])
    if not outcome.ok:
        return told(outcome, "the compiler")
    start = ["chroot", str(DEBIAN), "/spolia/everywhere"]
    return told(started(run, start, "/spolia/data"), "the program")


def emulated(processor: str, package: str) -> row:
    """Another processor, by Debian's cross compiler and qemu."""
    triple = f"{processor}-linux-gnu"
    qemu = (f"qemu-{processor.replace('powerpc', 'ppc')}", "-L", f"/usr/{triple}")
    needs = (f"g++-{package}-linux-gnu", "qemu-user")
    return row(processor, (f"{triple}-g++", "-std=c++20"), qemu, needs, other_processor)


def clang(number: int, standard: str) -> row:
    command = (f"clang++-{number}", f"-std={standard}")
    return row(f"clang-{number}", command, needs=(f"clang-{number}",))


CHECKED_LIBCXX = "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_EXTENSIVE"
LIBCXX = ("clang-19", "libc++-19-dev", "libc++abi-19-dev")
MUSL = ("-target", "x86_64-linux-musl", "-std=c++20")
OLD_X86 = ("qemu-x86_64", "-cpu", "core2duo")

ROWS = [
    row("gcc-12", ("g++-12", "-std=c++20"), needs=("g++-12",)),
    row("gcc-11", ("g++-11", "-std=c++20"), needs=("g++-11",)),
    *(
        row(f"gcc-{n}", (f"g++-{n}", "-std=c++23"), needs=("debootstrap",), check=debian_sid)
        for n in (13, 14, 15)
    ),
    row("gcc-newest", ("g++", "-std=c++26"), needs=("debootstrap",), check=debian_sid),
    clang(14, "c++20"),
    clang(16, "c++2b"),
    clang(19, "c++23"),
    clang(22, "c++26"),
    row("libc++", ("clang++-19", "-std=c++20", "-stdlib=libc++", CHECKED_LIBCXX), needs=LIBCXX),
    row("no-rtti", ("g++-12", "-std=c++20", "-fno-rtti"), needs=("g++-12",)),
    row("gcc-warnings", ("g++-12", "-std=c++20"), needs=("g++-12",), check=careful),
    row("clang-warnings", ("clang++-19", "-std=c++20"), needs=("clang-19",), check=careful),
    row("musl", MUSL, check=with_zig(builds_and_runs)),
    row("musl-plugins", MUSL, needs=("musl",), check=with_zig(as_plugins)),
    emulated("aarch64", "aarch64"),
    emulated("riscv64", "riscv64"),
    emulated("powerpc64le", "powerpc64le"),
    emulated("s390x", "s390x"),
    row(
        "no-sse4.2",
        needs=("g++-12", "qemu-user"),
        check=with_program_of("gcc-12", started_by(*OLD_X86)),
    ),
    row("pages-16k", needs=("qemu-user",), check=with_program_of("aarch64", with_pages_of(16384))),
    row("pages-64k", needs=("qemu-user",), check=with_program_of("aarch64", with_pages_of(65536))),
    row("one-processor", needs=("g++-12",), check=with_program_of("gcc-12", alone)),
    row("container", needs=("g++-12",), check=with_program_of("gcc-12", in_container)),
    row("empty-root", check=with_program_of("musl", in_empty_root)),
    row("no-signal", needs=("g++-12",), check=with_program_of("gcc-12", without_signals)),
    row("no-threads", needs=("g++-12",), check=with_program_of("gcc-12", without_threads)),
    row("c++17", ("g++-12", "-std=c++17"), needs=("g++-12",), check=refused),
    row(
        "no-exceptions",
        ("g++-12", "-std=c++20", "-fno-exceptions"),
        needs=("g++-12",),
        check=refused,
    ),
    row(
        "32-bits",
        ("i686-linux-gnu-g++", "-std=c++20"),
        needs=("g++-i686-linux-gnu",),
        check=refused,
    ),
]


def by_name(name: str) -> row:
    return next(one for one in ROWS if one.name == name)


def title(one: row) -> str:
    """Of its line in docs/last-full-test.md."""
    return f"systems/{one.name}"


def check(run, one: row) -> tally:
    absent = setup.obtain(list(one.needs))
    if absent:
        return tally(skipped=1, note=f"not to be had: {' '.join(absent)}")
    return (one.check or builds_and_runs)(run, one)
