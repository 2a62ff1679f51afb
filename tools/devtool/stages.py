# SPDX-License-Identifier: Apache-2.0
"""`./dev test`: the stages of continuous integration, one table, and the count at the end."""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from devtool import ctest, failures, installed, process, record, setup, systems
from devtool.process import BUILD, ROOT, say
from devtool.tally import failure, tally

QUICK = ["-L", "quick"]
QUICK_PROGRAMS = ("spolia-quick-tests",)
NOT_PACKAGE = ["-LE", "package"]
PYTEST_RAN_NONE = 5

# Built and run before the rest of a release build: programs, see ctest.selection().
FIRST = "^db_[a-z_]+$"
HEADERS = "all_verify_interface_header_sets"

# The rows of docs/where-it-runs.md, and of their lines in docs/last-full-test.md the names.
ROWS = systems.ROWS + installed.ROWS
TITLES = [systems.title(one) for one in ROWS]


@dataclass
class stage:
    """`seconds` is the limit of the whole stage, three times what it takes and more: it is for what
    hangs; `needs` are sets of setup.NEEDS."""

    name: str
    seconds: int
    needs: tuple[str, ...]
    run: Callable[[context], tally] = field(repr=False)


@dataclass
class context:
    """One stage while it runs: its log, what is left of its time, and the user's choices."""

    name: str
    deadline: float
    verbose: bool
    pattern: str | None
    keep: Callable[[str, tally], None] = lambda name, result: None  # for lines of the record

    def step(self, command: list[str], env: dict[str, str] | None = None) -> process.outcome:
        left = self.deadline - time.monotonic()
        log = BUILD / "logs" / f"{self.name}.log"
        return process.watched(command, left, log, env=env, verbose=self.verbose)


def parse_pytest(output: str) -> tally:
    """The counts of the last line of pytest; errors are failures."""
    lines = re.findall(r"^=* ?((?:\d+ \w+,? ?)+) in [\d.]+s.*$", output, re.M)
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", lines[-1])} if lines else {}
    return tally(
        counts.get("passed", 0),
        counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0),
        counts.get("skipped", 0) + counts.get("xfailed", 0),
        failures=failures.of_pytest(output),
    )


def parse_unittest(output: str) -> tally:
    """The counts of a run of Python's unittest."""
    ran = re.search(r"^Ran (\d+) tests? in", output, re.M)
    count = int(ran[1]) if ran else 0
    bad = sum(int(n) for n in re.findall(r"(?:failures|errors|unexpected successes)=(\d+)", output))
    skipped = sum(int(n) for n in re.findall(r"skipped=(\d+)", output))
    return tally(count - bad - skipped, bad, skipped, failures=failures.of_unittest(output))


def parse_lint(output: str) -> tally:
    """One line `lint: name ... ok|N findings` for each check."""
    results = re.findall(r"^lint: \w+ \.\.\. (\w+)", output, re.M)
    good = sum(result == "ok" for result in results)
    return tally(good, len(results) - good, failures=failures.of_lint(output))


def _checked(outcome: process.outcome, counts: tally, what: str) -> tally:
    """A run that failed has a failure in its counts, and so has one that ran nothing."""
    why = ""
    if outcome.timed_out:
        why = f"{what}: over its time"
    elif counts.failed == 0 and outcome.status != 0:
        why = counts.note or f"{what} failed"
    elif counts.passed + counts.failed == 0:
        why = f"{what} ran no test"
    if why:
        named = counts.failures or [failure(why, failures.last_lines(outcome.output))]
        return tally(counts.passed, counts.failed + 1, counts.skipped, why, failures=named)
    return counts


def build(
    run: context, preset: str, targets: tuple[str, ...] = (), pattern: str | None = None
) -> tally | None:
    """Configure and build what fits the pattern, if there is one; why to go no further, or None."""
    command = ["cmake", "--preset", preset]
    outcome = run.step(command)
    if outcome.ok and pattern:
        chosen = ctest.targets(preset, pattern)
        if chosen is None:
            return tally(note="no test fits")
        if not chosen:
            return None  # they build what they need
        targets = tuple(chosen)
    if outcome.ok:
        command = ["cmake", "--build", "--preset", preset, "-j", str(process.jobs())]
        outcome = run.step([*command, "--target", *(targets or ("all",))])
    if outcome.ok:
        return None
    why = f"`{' '.join(command)}` failed"
    found = failure(why, failures.of_build(outcome.output))
    return _checked(outcome, tally(failed=1, note=why, failures=[found]), "build")


def tests(run: context, preset: str, *selection: str) -> tally:
    # More than processors: many tests wait for something.
    jobs = f"-j{2 * process.jobs()}"
    command = ["ctest", "--preset", preset, jobs, "--no-tests=error", "--output-on-failure"]
    chosen, env = ctest.selection(run.pattern)
    ctest.forget(preset)
    outcome = run.step([*command, *chosen, *selection], env=env)
    counts = ctest.count(outcome.output, ctest.results(preset))
    counts.failures = failures.of_ctest(outcome.output, ctest.results(preset))
    none = outcome.ok or "No tests were found" in outcome.output
    if run.pattern and none and counts == tally():
        return tally(note="no test fits")
    return _checked(outcome, counts, "ctest")


def _preset(preset: str, *selection: str, targets: tuple[str, ...] = ()):
    def run(context: context) -> tally:
        failed = build(context, preset, targets, context.pattern)
        return failed or tests(context, preset, *selection)

    return run


def _release(run: context) -> tally:
    """The library and its widest tests before all else: most mistakes show there."""
    whole = _preset("test-release", *NOT_PACKAGE)
    if run.pattern:
        return whole(run)
    failed = build(run, "test-release", pattern=FIRST)
    counts = failed or tests(run, "test-release", "-R", FIRST)
    if failed or counts.failed:
        return counts
    counts.add(_preset("test-release", *NOT_PACKAGE, "-E", FIRST)(run))
    return counts


def _emulated(run: context) -> tally:
    """The tests that are marked as worth running on an emulated processor, see testing.cmake."""
    say("by qemu: membarrier is the host's, and so is the order of memory accesses (for weaker")
    say("ones there is the model); a program cannot start itself again, so one test is skipped")
    return _preset("test-aarch64", "-L", "emulated", targets=("spolia-emulated-tests",))(run)


def _alone(run: context) -> tally:
    """Each header and each source of the library compiles with nothing before it."""
    counts = tally()
    for preset, targets in (("alone", ("spolia", HEADERS)), ("test-model", (HEADERS,))):
        counts.add(build(run, preset, targets) or tally(passed=1))
    return counts


def _systems(run: context) -> tally:
    """The rows of docs/where-it-runs.md that fit the pattern."""
    counts = tally()
    for one in ROWS:
        if run.pattern and not re.search(run.pattern, one.name):
            continue
        result = _timed(lambda one=one: systems.check(run, one))
        run.keep(systems.title(one), result)
        say(_row(one.name, result))
        counts.add(result)
    return counts if counts != tally() else tally(note="no row fits")


def _lint(run: context) -> tally:
    counts = tally()
    for package in ("lint", "devtool"):
        env = dict(os.environ, PYTHONPATH=str(ROOT / "tools"), PYTHONDONTWRITEBYTECODE="1")
        tests = [sys.executable, "-m", "unittest", "discover", "-t", "tools", "-s"]
        outcome = run.step([*tests, f"tools/{package}/tests"], env=env)
        counts.add(_checked(outcome, parse_unittest(outcome.output), f"unittest of {package}"))
    outcome = run.step([sys.executable, "-B", "tools/lint"])
    counts.add(_checked(outcome, parse_lint(outcome.output), "lint"))
    return counts


def _python(run: context, everything: bool = False) -> tally:
    try:
        python = setup.venv()
    except process.dev_error as error:
        return tally(failed=1, note=str(error))
    # A file at a time, for what its tests share.
    command = [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "lab"]
    if not everything and not run.pattern:
        command += ["-m", "not long"]
    if run.pattern:
        command += ["-k", run.pattern.partition("/")[0].replace("|", " or ")]
    outcome = run.step([*command, "-p", "no:cacheprovider"], env=setup.venv_environment())
    if run.pattern and outcome.status == PYTEST_RAN_NONE:
        return tally(note="no test fits")
    return _checked(outcome, parse_pytest(outcome.output), "pytest")


def _bench(run: context) -> tally:
    """The benchmark, and all tests of the laboratory that runs it."""
    counts = _preset("test-bench")(run)
    counts.add(_python(run, everything=True))
    return counts


def _command(*words: str):
    """A command of ./dev as one check."""

    def run(context: context) -> tally:
        command = [sys.executable, "-B", str(ROOT / "tools" / "devtool" / "__main__.py"), *words]
        outcome = context.step(command)
        return _checked(outcome, tally(passed=int(outcome.ok)), " ".join(words))

    return run


def _packages(run: context) -> tally:
    """What packagers make, and the packages' tests that take long."""
    os.environ["SPOLIA_OLD_CMAKE"] = f"{setup.packagers_venv()}/cmake"
    counts = _preset("packages", "-L", "package", targets=QUICK_PROGRAMS)(run)
    attempt = ["--try"] if os.geteuid() == 0 else []
    for words in (["online"], ["conan"], ["debian", *attempt]):
        counts.add(_command("package", *words)(run))
    return counts


# In the order of what it costs to find the next mistake.
STAGES = [
    stage("lint", 300, (), _lint),
    stage("release", 3600, ("build", "tool"), _release),
    stage("headers", 1800, ("build", "clang"), _preset("test-headers")),
    stage("asan-ubsan", 2700, ("build", "clang"), _preset("test-asan-ubsan")),
    stage("tsan", 2700, ("build", "clang"), _preset("test-tsan")),
    stage("model", 1800, ("build",), _preset("test-model")),
    stage(
        "package",
        900,
        ("build", "tool", "clang", "package"),
        _preset("test-release", "-L", "package", targets=("spolia",)),
    ),
    stage("python", 900, ("bench", "python"), _python),
]
NAMES = [one.name for one in STAGES]


# What is too long for every run, and other processors and ways to compile.
LONG_STAGES = [
    # What stands above reclaim/ is seen checked in asan-ubsan; here it is the
    # ground that g++ could compile into something else.
    stage("debug", 1800, ("build",), _preset("test-debug", *QUICK, targets=QUICK_PROGRAMS)),
    stage("aarch64", 1800, ("build", "cross"), _emulated),
    stage("alone", 1800, ("build",), _alone),
    stage("packages", 5400, ("build", "tool", "package", "debian", "python"), _packages),
    stage("bench", 1800, ("build", "bench", "python"), _bench),
    stage("site", 900, ("python",), _command("docs", "--check")),
    stage("systems", 7200, ("build",), _systems),
    stage("gcc", 7200, ("build", "bench", "tool"), _preset("release", *NOT_PACKAGE)),
    stage("clang", 7200, ("build", "bench", "tool", "clang"), _preset("clang", *NOT_PACKAGE)),
    stage("asan-ubsan-all", 7200, ("build", "tool", "clang"), _preset("asan-ubsan")),
    stage("tsan-all", 7200, ("build", "clang"), _preset("tsan")),
    stage("crash", 4500, ("build", "bench", "tool"), _command("crash", "--seconds", "3600")),
    stage("stress", 7200, ("build", "bench", "tool"), _command("stress", "--minutes", "60")),
    stage("deeper", 8 * 3600, ("build",), _command("model", "--deeper", "1")),
]
LONG_NAMES = [one.name for one in LONG_STAGES]


def run_stages(
    names: list[str], pattern: str | None, verbose: bool, everything: bool = False
) -> int:
    """Run the named stages; none named: those of every run, or everything. 0 if nothing failed.
    With `everything` it is kept how each has ended."""
    wanted = names or (NAMES + LONG_NAMES if everything else NAMES)
    chosen = [one for one in STAGES + LONG_STAGES if one.name in wanted]
    setup.require(*dict.fromkeys(need for one in chosen for need in one.needs))
    results: dict[str, tally] = {}
    now = record.of_now()

    def keep(name: str, result: tally) -> None:
        if everything:
            record.write(NAMES + LONG_NAMES + TITLES, name, result, now)

    for number, one in enumerate(chosen, 1):
        say(f"=== {one.name} ({number} of {len(chosen)}, at most {one.seconds} s)")
        log = BUILD / "logs" / f"{one.name}.log"
        log.unlink(missing_ok=True)
        run = context(one.name, time.monotonic() + one.seconds, verbose, pattern, keep)
        result = _timed(lambda one=one, run=run: one.run(run))
        results[one.name] = result
        say(f"=== {_row(one.name, result)}")
        if not pattern:
            keep(one.name, result)
    if everything:
        say(f"kept in {process.FULL_TEST.relative_to(ROOT)}")
    return _summary(results)


def _timed(what: Callable[[], tally]) -> tally:
    started, cpu = time.monotonic(), _cpu_seconds()
    result = what()
    result.seconds = time.monotonic() - started
    result.cpu_seconds = _cpu_seconds() - cpu
    return result


def _cpu_seconds() -> float:
    """Of all processes that this one has begun and waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(name: str, result: tally) -> str:
    skipped = f", {result.skipped} skipped" if result.skipped else ""
    note = f"   {result.note}" if result.note else ""
    counts = f"{result.passed:6d} passed {result.failed:4d} failed{skipped}"
    times = f"{result.seconds:9.1f} s, CPU {result.cpu_seconds:7.1f} s"
    return f"{name:<14}{counts}{times}{note}"


def _named(stage: str, result: tally) -> list[failure]:
    """The failures of a stage; of one that names none, the end of its log."""
    if result.failures or not result.failed:
        return result.failures
    log = BUILD / "logs" / f"{stage}.log"
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return [failure(result.note or f"{result.failed} failed", failures.last_lines(text))]


def _summary(results: dict[str, tally]) -> int:
    total = tally()
    say("")
    for name, result in results.items():
        say(_row(name, result))
        total.add(result)
    if total.passed + total.failed == 0:
        total.failed = 1
    seconds = sum(result.seconds for result in results.values())
    cpu_seconds = sum(result.cpu_seconds for result in results.values())
    say(f"{'in all':<14}{seconds:.0f} s, CPU {cpu_seconds:.0f} s")
    say(f"logs: {(BUILD / 'logs').relative_to(ROOT)}/")
    for line in failures.listed({name: _named(name, one) for name, one in results.items()}):
        say(line)
    say(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0
