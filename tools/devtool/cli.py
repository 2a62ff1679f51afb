# SPDX-License-Identifier: Apache-2.0
"""The command line of ./dev: what there is, with an example for each."""

from __future__ import annotations

import argparse
import os
import sys

from devtool import commands, demo, packages, process, quick, site, stages
from devtool.process import ROOT, dev_error

PRESETS = list(commands.PRESET_NEEDS)
# All arguments after these commands go to the program that they run, --help too.
PASSED_ON = ("bench", "lab")
CHOICE = "programs whose names fit this regular expression; CASES: a GoogleTest filter"
DESCRIPTION = """\
Builds, tests, measures and packages this project. It installs missing Debian packages where
this user may, and puts everything else that it makes under build/."""


def _test(args: argparse.Namespace) -> int:
    ways = [bool(args.name), args.quick, bool(args.all or args.stage or args.pattern)]
    if sum(ways) > 1:
        raise dev_error("NAME and --quick take no other choice beside them", 2)
    if args.all and args.pattern and args.stage != ["systems"]:
        raise dev_error("--all records how whole stages ended: leave out --all or -k", 2)
    if args.name:
        return quick.run_named(args.name)
    if args.quick:
        return quick.run_quick()
    return stages.run_stages(args.stage, args.pattern, args.verbose, args.all)


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = argparse.ArgumentParser(
        prog="./dev",
        description=DESCRIPTION,
        epilog="`./dev help COMMAND` says more and has examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    table = parser.add_subparsers(dest="command", metavar="COMMAND")
    known: dict[str, argparse.ArgumentParser] = {}

    def add(name: str, action, text: str, *examples: str) -> argparse.ArgumentParser:
        command = table.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog="examples:\n" + "\n".join(f"  ./dev {line}" for line in examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(action=action)
        known[name] = command
        return command

    _add_run_commands(add)
    _add_check_commands(add)
    _add_house_commands(add)
    command = add("help", None, "show this, or the help of one command", "help", "help test")
    command.add_argument("about", nargs="?", metavar="COMMAND")
    return parser, known


def _add_run_commands(add) -> None:
    command = add(
        "demo",
        demo.run,
        "build the library, show what it does in five pictures, and check what it promises",
        "demo",
        "demo --no-open",
    )
    command.description = (
        "Installs g++, cmake and ninja where they are missing, builds the library and a small "
        "program, runs it for some twenty seconds, and writes one page: memory beside a sleeping "
        "reader, a held snapshot, a queue beside a held reader, kill -9 in the middle of commits, "
        "a backup beside load. The exit code is 1 if a promise was broken. If it is "
        "interrupted, the next run goes on where it was. The first run takes about three minutes."
    )
    command.add_argument("--no-open", action="store_true", help="do not open the page in a browser")
    add(
        "bench",
        commands.bench,
        "build spolia-bench and run it; all arguments go to it",
        "bench --help",
    )
    add(
        "lab",
        commands.lab,
        "run the laboratory: sweeps, reports; all arguments go to it",
        "lab quick",
        "lab --help",
        "lab sweep --help",
    )


def _add_check_commands(add) -> None:
    command = add(
        "test",
        _test,
        "run what continuous integration runs, or some stages of it",
        "test",
        "test --quick",
        "test db_query",
        "test 'db_query/*groups*'",
        "test --all",
        "test --all --stage bench",
        "test --stage release",
        "test --stage tsan --stage model -k token",
    )
    command.add_argument(
        "--stage",
        action="append",
        default=[],
        choices=[*stages.NAMES, *stages.LONG_NAMES],
        metavar="STAGE",
        help="only this stage; may be repeated: "
        + ", ".join(stages.NAMES)
        + "; of --all also "
        + ", ".join(stages.LONG_NAMES),
    )
    command.add_argument(
        "name", nargs="?", metavar="NAME[/CASES]", help="only these tests, in the release build"
    )
    command.add_argument(
        "--quick",
        action="store_true",
        help="the tests of what has changed, with one type, not optimised",
    )
    command.add_argument(
        "--all",
        action="store_true",
        help="also the stages that take hours, or with --stage only those named; "
        "docs/last-full-test.md records how each ended",
    )
    command.add_argument("-k", dest="pattern", metavar="PROGRAM[/CASES]", help=CHOICE)
    command.add_argument(
        "--verbose", action="store_true", help="show every line here; else it is in the logs"
    )

    command = add(
        "model",
        commands.model,
        "run the model checker's tests",
        "model",
        "model -k token",
        "model --deeper 1 -k token",
    )
    command.add_argument("-k", dest="pattern", metavar="PROGRAM[/CASES]", help=CHOICE)
    command.add_argument(
        "--deeper",
        type=int,
        choices=(1, 2),
        help="search deeper, with so many more preemptions and ten times the samples (minutes to "
        "hours); -k then chooses whole programs",
    )

    command = add(
        "stress",
        commands.stress,
        "repeat the long tests for some time, until one fails",
        "stress --minutes 30",
        "stress --preset tsan -k list_stress/*churn*",
    )
    command.add_argument("--minutes", type=float, default=10, help="minutes to run (10)")
    command.add_argument(
        "--preset",
        choices=PRESETS,
        default="release",
        metavar="PRESET",
        help="the build to run (release)",
    )
    command.add_argument(
        "-k", dest="pattern", metavar="PROGRAM[/CASES]", help=f"{CHOICE}; quick or long"
    )

    command = add(
        "crash",
        commands.crash,
        "kill processes that use a database again and again, and check what is there",
        "crash --seconds 60",
        "crash --seconds 3600 --directory build/crash",
    )
    command.add_argument("--seconds", type=float, default=60, help="seconds to run (60)")
    command.add_argument(
        "--seed", type=int, help="the seed of a run to repeat, as far as timing allows"
    )
    command.add_argument("--directory", help="where the stores lie (a disk in memory)")

    command = add(
        "coverage", commands.coverage, "show which lines the tests reach", "coverage --quick"
    )
    command.add_argument("--quick", action="store_true", help="the quick tests only")


def _add_house_commands(add) -> None:
    command = add("build", commands.build, "configure and build one preset", "build", "build tsan")
    command.add_argument(
        "preset",
        nargs="?",
        choices=PRESETS,
        default="release",
        metavar="PRESET",
        help=", ".join(PRESETS),
    )
    command.add_argument("--target", action="append", default=[], help="only this target")

    command = add(
        "format",
        commands.format_code,
        "format the C++ and Python code, and write docs/departures.md",
        "format --check",
    )
    command.add_argument("--check", action="store_true", help="only say what is not formatted")

    command = add(
        "lint",
        commands.lint,
        "check the rules that a program can check",
        "lint",
        "lint floors orders",
    )
    command.add_argument("check", nargs="*", help="only these checks")
    command.add_argument("--tidy", action="store_true", help="also run clang-tidy (slow)")

    command = add(
        "docs",
        site.run,
        "build the documentation as a site under build/site, with its links checked",
        "docs",
        "docs --check",
        "docs --serve",
    )
    command.add_argument(
        "--serve", action="store_true", help="serve the site, and build it again after each edit"
    )
    command.add_argument("--check", action="store_true", help="also check the prose")

    command = add(
        "install",
        commands.install,
        "build the library, and install it with its licence and guides",
        "install",
        "install ~/local",
        "install --shared /opt/spolia",
        "install --sanitize thread ~/local",
    )
    command.add_argument(
        "prefix",
        nargs="?",
        default="/usr/local",
        metavar="PREFIX",
        help="where to install (/usr/local)",
    )
    command.add_argument(
        "--shared", action="store_true", help="build a shared library, not a static one"
    )
    command.add_argument(
        "--sanitize",
        metavar="NAME",
        help="a library for programs built with -fsanitize=NAME (thread, memory), or run under "
        "valgrind's helgrind (valgrind); it lies beside the usual one in PREFIX",
    )

    command = add(
        "package",
        packages.run,
        "make a package under build/package: " + ", ".join(packages.KINDS),
        "package",
        "package debian --try",
    )
    command.add_argument("kind", nargs="?", default="archive", choices=packages.KINDS)
    command.add_argument(
        "--try", action="store_true", help="debian: install and use it in a fresh root (as root)"
    )

    command = add("clean", commands.clean, "remove what was built", "clean", "clean --all")
    command.add_argument("--all", action="store_true", help="also the Python environment")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser, known = _parser()
    if arguments[:1] and arguments[0] in PASSED_ON:
        args = parser.parse_args(arguments[:1])
        args.rest = arguments[1:]
        return args
    args = parser.parse_args(arguments)
    if args.command in (None, "help"):
        about = getattr(args, "about", None)
        if about is not None and about not in known:
            parser.error(f"there is no command '{about}'")
        args.action = lambda _: (known[about] if about else parser).print_help()
    return args


def main(arguments: list[str]) -> int:
    # Clones of the project share what ccache knows, wherever they are.
    os.environ.setdefault("CCACHE_BASEDIR", str(ROOT))
    os.environ.setdefault("CCACHE_NOHASHDIR", "1")
    # ccache runs no preprocessor for what it has not seen yet, and accepts the tests' precompiled
    # headers: these do not change what the code means.
    os.environ.setdefault("CCACHE_DEPEND", "1")
    os.environ.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")
    process.end_when_told()
    try:
        args = _parse(arguments)
        return args.action(args) or 0
    except dev_error as error:
        print(f"dev: {error}", file=sys.stderr)
        return error.status
    finally:
        process.end_children()
