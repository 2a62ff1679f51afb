# SPDX-License-Identifier: Apache-2.0
"""The command line: sweep, report, paper, quick."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import click
from rich.console import Console

from lab import allocators, quick, sweep
from lab.bench import DEFAULT_BENCH, ROOT, Bench
from lab.errors import LabError
from lab.matrix import LIMITS, Matrix, Plan, check_matrix, check_number, expand, read_toml
from lab.paper import run as paper
from lab.records import Store
from lab.report import write_report

OUT = ROOT / "build" / "lab"
BENCH = click.option(
    "--bench",
    type=click.Path(path_type=Path),
    default=DEFAULT_BENCH,
    envvar="SPOLIA_BENCH",
    show_default=str(DEFAULT_BENCH.relative_to(ROOT)),
    help="The benchmark program.",
)


class _List(click.ParamType):
    """A comma-separated list of one kind of value."""

    def __init__(self, kind, name: str):
        self.kind, self.name = kind, name

    def convert(self, value, param, ctx):
        if isinstance(value, list):
            return value
        try:
            found = [self.kind(word.strip()) for word in value.split(",") if word.strip()]
        except ValueError:
            self.fail(f"'{value}' is not a list of {self.name}, such as 1,2,4", param, ctx)
        return found or self.fail("name at least one value", param, ctx)


NAMES = _List(str, "names")
WHOLE = _List(int, "whole numbers")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """Runs sweeps of spolia-bench, and draws their results on one page."""


@cli.command("sweep")
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file with [[matrix]].")
@click.option("--structure", type=NAMES, help="Comma-separated; so are all lists below.")
@click.option("--scheme", type=NAMES, help="Which schemes.")
@click.option("--release", type=NAMES, help="Which release policies.")
@click.option("--threads", type=WHOLE, help="Numbers of threads.")
@click.option("--keys", type=WHOLE, help="Key ranges.  [default: 200000 in trees, 1000 in list]")
@click.option("--update", type=WHOLE, help="Updates, per cent.")
@click.option("--allocator", type=NAMES, help="glibc, jemalloc, tcmalloc, mimalloc.")
@click.option(
    "--stall",
    type=click.Choice(["no", "yes", "both"]),
    help="Whether one more reader sleeps in a guard.",
)
@click.option("--batch", type=WHOLE, help="Batch sizes.")
@click.option("--seconds", type=float, help="Length of one trial.")
@click.option("--trace/--no-trace", default=None, help="Keep traces, for timelines.")
@click.option("--count/--no-count", default=None, help="Count and time each free; slower.")
@click.option("--trials", type=int, help="Repetitions of each cell.  [default: 3]")
@click.option("--seed", type=int, help="Seed of keys and of the order of trials.  [default: 1]")
@click.option("--timeout", type=float, help="Give up on a trial after so many seconds.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT / "sweep.jsonl",
              show_default="build/lab/sweep.jsonl", help="Results; added to.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Run nothing; say what would run.")
@BENCH
def sweep_command(config, trials, seed, timeout, out, dry_run, bench, **lists) -> None:
    """Run a matrix of configurations, interleaved. The same command again goes on where it was."""
    console = Console(stderr=True)
    program = Bench(bench)
    plan = _plan(program, config, lists, trials, seed)
    if timeout is not None:
        check_number("timeout", timeout)
    if plan.skipped:
        console.print(f"{len(plan.skipped)} combinations cannot run and are left out:")
        for cell in {(c.structure, c.scheme, c.release): c for c in plan.skipped}.values():
            console.print(f"  {cell.structure} {cell.scheme}/{cell.release}", highlight=False)
    if dry_run:
        for cell in plan.cells:
            click.echo(f"{cell.hash()}  {cell.label()}")
        click.echo(f"{len(plan.cells)} cells, {plan.trials} trials each")
        return
    with Store(out) as store:
        limits = sweep.Limits(trial_timeout=timeout)
        outcome = sweep.run(plan, program, store, limits, console)
    sweep.summarise(outcome, lambda text: console.print(text, highlight=False))
    click.echo(f"results: {out}\nnext:    ./dev lab report {out} --out report.html")
    if outcome.failed:
        sys.exit(1)


def _plan(program: Bench, config, lists: dict, trials, seed) -> Plan:
    if lists["stall"] is not None:
        lists["stall"] = {"no": [False], "yes": [True], "both": [False, True]}[lists["stall"]]
    for name in ("seconds", "trace", "count"):
        lists[name] = None if lists[name] is None else [lists[name]]
    given = {name: value for name, value in lists.items() if value is not None}
    catalogue = program.catalogue()
    matrices, settings, source = [Matrix(**given)], {}, ""
    if config is not None:
        matrices, settings = read_toml(config, Matrix())
        for matrix in matrices:
            vars(matrix).update(given)
        source = f"{config}: "
    for matrix in matrices:
        check_matrix(matrix, catalogue, list(allocators.ALLOCATORS), source)
        for name in matrix.allocator:
            allocator = allocators.ALLOCATORS[name]
            if not allocator.installed():
                raise LabError(f"{name} is not installed; apt-get install {allocator.package}")
    numbers = {"trials": 3, "seed": 1, **settings}
    numbers.update({k: v for k, v in (("trials", trials), ("seed", seed)) if v is not None})
    for name, value in numbers.items():
        check_number(name, value, source)
    cells, skipped = expand(matrices, catalogue)
    if not cells:
        raise LabError("none of these combinations can run; see 'spolia-bench list'")
    return Plan(cells, numbers["trials"], numbers["seed"], skipped)


@cli.command("report")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=OUT / "report.html",
              show_default="build/lab/report.html", help="The page to write.")  # fmt: skip
@click.option("--title", default="Spolia laboratory", help="The heading of the page.")
def report_command(results, out, title) -> None:
    """Draw results files as one self-contained HTML page."""
    write_report(list(results), out, title)
    click.echo(f"{out} ({out.stat().st_size / 1e6:.1f} MB)\n{out.resolve().as_uri()}")


@cli.command("paper")
@click.option("--quick", is_flag=True, help="Shorter trials, fewer of them, fewer threads.")
@click.option("--full", is_flag=True, help="Longer trials, more of them, more threads.")
@click.option(
    "--seconds", type=float, help="Length of one trial.  [default: 0.5; quick 0.3; full 1]"
)
@click.option("--trials", type=int, help="Rounds of everything.  [default: 5; full 10]")
@click.option(
    "--threads", type=WHOLE, help="Numbers of threads in sweeps.  [default: 1 to 4 a core]"
)
@click.option("--keys", type=int, help="Range of keys in trees.  [default: 200000]")
@click.option("--minutes", type=float, help="End after so many.  [default: 90; quick 45; full 480]")
@click.option("--only", type=NAMES, help="Pages by key or its beginning: figure-2,experiment-1.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of keys and of the order."
)
@click.option("--list", "listing", is_flag=True, help="Run nothing; name the pages.")
@click.option("--dry-run", is_flag=True, help="Run nothing; say what would run.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT / "paper",
              show_default="build/lab/paper", help="Folder for results and page.")  # fmt: skip
@BENCH
def paper_command(listing, dry_run, out, bench, only, threads, **wishes) -> None:
    """The papers' evaluations at this machine's scale, a page for each figure and table.

    The same command again goes on where it was."""
    pages = paper.chosen(tuple(only or ()))
    if listing:
        for line in paper.listing(pages):
            click.echo(line)
        return
    for name in ("seconds", "trials", "keys", "seed", "minutes"):
        if wishes[name] is not None:
            check_number(name, wishes[name])
    for count in threads or ():
        check_number("threads", count)
    wanted = paper.Wishes(**wishes, only=tuple(only or ()), threads=tuple(threads or ()))
    cores = os.cpu_count() or 1
    if dry_run:
        built = Bench(bench) if bench.is_file() else None
        for line in paper.dry_run(pages, built, out, wanted, cores):
            click.echo(line)
        return
    program = Bench(bench)
    work = paper.work_of(pages, paper.scale_of(program, wanted, cores), wanted)
    console = Console(stderr=True)
    well = paper.run(program, out, work, console)
    page, wrong = paper.report(out, "The papers' evaluations on this machine")
    for told in wrong:
        click.echo(told, err=True)
    click.echo(f"{page} ({page.stat().st_size / 1e6:.1f} MB)\n{page.resolve().as_uri()}")
    if wrong or not well:
        sys.exit(1)


@cli.command("quick")
@click.option("--budget", type=float, default=540, show_default=True,
              help="Seconds for everything, the report included.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), default=OUT / "quick",
              show_default="build/lab/quick", help="Folder for results and page.")  # fmt: skip
@BENCH
def quick_command(budget, out, bench) -> None:
    """A quick look at this machine: nine minutes of trials, then the page."""
    if not 10 <= budget <= LIMITS["seconds"][1]:
        raise LabError(f"budget is {budget:g}; it must be from 10 to 3600 seconds")
    if not quick.run(Bench(bench), out, budget, Console()):
        sys.exit(1)


def _stop(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    # These signals end the trial, too. It is in a process group of its own, so that the signal
    # itself does not reach it.
    for one in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(one) != signal.SIG_IGN:  # by nohup, say
            signal.signal(one, _stop)
    try:
        cli(prog_name="./dev lab", standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"lab: {error.format_message()}", err=True)
        sys.exit(2)
    except LabError as error:
        click.echo(f"lab: {error}", err=True)
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        click.echo("\nlab: stopped; the same command goes on where it was", err=True)
        sys.exit(130)
