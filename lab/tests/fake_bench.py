#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for spolia-bench: same command line, same records, invented but plausible figures.

FAKE_BENCH_FAULT=KIND[:SCHEME] makes trials (of that scheme) go wrong: crash, hang, partial
(half a record, then killed), silent (no record), liar (wrong allocator), bare (no ops_per_s), still
(a speed of zero), nan.
"""

import argparse
import json
import math
import os
import random
import sys
import time
from functools import cache
from pathlib import Path

STRUCTURES = ["abtree", "avl", "external_bst", "list"]
TREES = STRUCTURES[:3]
RIVALS = [("std_map", "mutex", "own"), ("std_map", "sharded_mutex", "own")]
REGION = ["none", "token", "token_naive", "token_pass_first", "token_periodic", "debra"]
SCHEMES = [*REGION, "hazard_pointers", "neutralization", "neutralization_plus"]
LAYERS = ("counted", "held", "reports", "rlu", "tpcc", "ycsb")
STORAGES = [
    "none",
    "one-shot",
    "one-shot-consolidated",
    "steam",
    "steam-eager",
    "range",
    "one-shot-evacuated",
    "unheard-of",
]
RLU_OPTIONS = {"low_watermark": (32768, "low"), "high_watermark": (1048576, "high"),
               "walk_watermark": (512, "walks"), "turn_us": (300, "turn_us"),
               "in_place": (1, "in_place")}  # fmt: skip
RELEASES = ["batch", "amortized", "pooled"]
MACHINE = {
    "cpu": "AMD EPYC 9B14",
    "cores": 2,
    "memory_bytes": 25_185_566_720,
    "kernel": "6.1.0-31-amd64",
    "os": "Debian GNU/Linux 12 (bookworm)",
}
# Operations per second on one thread, in millions.
SPEED = {
    "none": 2.5, "token": 3.4, "token_naive": 3.45, "token_pass_first": 3.2, "debra": 3.3,
    "token_periodic": 3.25, "hazard_pointers": 1.5, "neutralization": 3.0,
    "neutralization_plus": 3.1,
}  # fmt: skip
COMBINATIONS = [
    (structure, scheme, release)
    for structure in STRUCTURES
    for scheme in SCHEMES
    for release in RELEASES
    if not (structure in TREES and scheme == "hazard_pointers")
    if not (structure == "avl" and scheme not in REGION)
    if not (scheme == "none" and release != "batch")
]


def about(scheme: str) -> dict:
    robust = scheme.startswith(("neutral", "hazard"))
    return {
        "title": scheme.replace("_", " ").capitalize(),
        "source": "invented",
        "protects": "pointer" if scheme == "hazard_pointers" else "region",
        "robust": robust,
        "reclaims": scheme != "none",
        "cost": "two plain stores for each operation",
        "progress": "lock-free",
        "bound": "none" if not robust else "threads x batch",
    }


def offered() -> dict:
    names = ("structure", "scheme", "release")
    combinations = [dict(zip(names, c, strict=True)) for c in COMBINATIONS]
    return {
        "structures": STRUCTURES,
        "schemes": {scheme: about(scheme) for scheme in SCHEMES},
        "releases": RELEASES,
        "combinations": combinations,
        "version_storages": STORAGES,
        "engines": ["spolia"],
        "rivals": {
            "structures": {c[0]: {"stalls": False} for c in RIVALS},
            "schemes": {c[1]: {"title": "locks"} for c in RIVALS},
            "combinations": [dict(zip(names, c, strict=True)) for c in RIVALS],
        },
    }


def allocator() -> str:
    for name in ("jemalloc", "tcmalloc", "mimalloc"):
        if name in os.environ.get("LD_PRELOAD", ""):
            return name
    return "glibc"


class Model:
    """Invents one trial from its configuration and seed."""

    def __init__(self, options):
        self.o = options
        self.dice = random.Random(repr(sorted(vars(options).items(), key=str)))
        self.allocator = allocator()
        self.batch = options.batch or 1024
        self.leaks = options.scheme == "none"
        self.unbounded = self.leaks or options.scheme.startswith(("token", "debra"))

    def noise(self, width=0.05):
        return self.dice.gauss(1, width)

    def speed(self):
        o = self.o
        base = SPEED.get(o.scheme, 1.2) * 1e6 * (0.25 if o.structure == "list" else 1)
        base *= 1 - 0.1 * math.log10(max(1, o.keys / 2e5)) if o.structure in TREES else 1
        base *= min(o.threads, MACHINE["cores"]) ** 0.9 / (1 + 0.015 * max(0, o.threads - 2))
        batch_cost = {"glibc": 1.28, "jemalloc": 1.2, "tcmalloc": 1.35, "mimalloc": 0.97}
        if o.release == "batch" and not self.leaks:
            base /= batch_cost[self.allocator]
        if o.release == "pooled":
            base *= 1.05
        base *= {"glibc": 0.8, "jemalloc": 1, "tcmalloc": 1.02, "mimalloc": 1.06}[self.allocator]
        return base * self.noise() * (0.97 if o.update < 100 else 1)

    def garbage(self, retired):
        o = self.o
        if self.leaks:
            return retired
        if o.stall and self.unbounded:
            return int(retired * 0.97)
        per_thread = {"hazard_pointers": 900, "neutralization": 30_000}.get(o.scheme, 16_000)
        naive = 9 if o.scheme == "token_naive" else 1
        smooth = 1.1 if o.release == "amortized" else 1
        return int(per_thread * naive * o.threads * smooth * self.noise(0.1))

    def bound(self):
        if self.unbounded:
            return None
        per_thread = 1_100 if self.o.scheme == "hazard_pointers" else 49_152
        return per_thread * self.o.threads + 2_048

    def record(self, trial):
        o, speed = self.o, self.speed()
        operations = int(speed * o.seconds)
        retired = int(operations * o.update / 100 * 0.55)
        garbage = self.garbage(retired)
        amortized = {"batch": 900.0, "amortized": 14.0, "pooled": 1.5}.get(o.release, 9.0)
        scale = self.batch / 1024 if o.release == "batch" else 1
        p999 = None if self.leaks else int(1000 * amortized * scale * self.noise(0.15))
        freed = 0 if self.leaks else max(0, retired - garbage // 3)
        memory = 34e6 + o.keys * 20 + garbage * 240 * (0.8 if self.leaks else 1)
        return {
            "kind": "sets", "structure": o.structure, "scheme": o.scheme, "release": o.release,
            "threads": o.threads, "keys": o.keys, "update": o.update, "seconds": o.seconds,
            "trial": trial, "trials": o.trials, "seed": o.seed, "stall": o.stall,
            "bag": None if self.leaks else o.batch or 1, "warm_up_s": 0.1, "page_faults": 7,
            "allocator": self.allocator, "compiler": "g++ 12.2.0 -O2",
            "machine": MACHINE, "revision": "1f6c0de", "time": "2026-11-21T20:14:05Z",
            "elapsed_s": o.seconds * 1.002, "operations": operations, "ops_per_s": speed,
            "peak_rss_bytes": int(memory * self.noise(0.02)), "garbage_peak": garbage,
            "garbage_bound": self.bound(), "free_ns_p50": None if self.leaks else 85,
            "free_ns_p999": p999,
            "free_ns_max": None if self.leaks else int(p999 * self.dice.uniform(2, 9)),
            "retired": retired, "freed": freed,
            "epochs": 0 if self.leaks else int(o.seconds * 2400 / o.threads),
            "size_end": o.keys // 2, "garbage_over_time": self.over_time(garbage),
            "garbage_per_epoch": self.per_epoch(garbage), "count": o.count,
            **(self.counts(freed) if o.count else {}),
        }  # fmt: skip

    def counts(self, freed):
        """A batch runs over the buffer of a thread, a few frees at a time seldom do."""
        batch = self.o.release == "batch"
        flushes = freed // (96 if batch else 400)
        tells = self.allocator == "jemalloc"
        return {
            "frees": freed, "frees_remote": freed // 2, "frees_over_100us": 40 if batch else 3,
            "free_runs": max(1, freed // (self.batch if batch else 2)), "free_run_max": self.batch,
            "free_call_ns_mean": 60.0, "free_call_ns_p50": 19, "free_call_ns_p99": 300,
            "free_call_ns_p999": 2000, "free_call_ns_max": 3_000_000, "free_share": 0.05,
            "allocator_flushes": flushes if tells else None,
            "allocator_fills": flushes if tells else None,
            "allocator_locks": 3 * flushes if tells else None,
            "allocator_lock_waits": 2 if tells else None,
            "allocator_lock_wait_ns": 9000 if tells else None,
        }  # fmt: skip

    def over_time(self, peak):
        steps = 40
        grows = self.leaks or (self.o.stall and self.unbounded)
        points = []
        for step in range(steps + 1):
            at = self.o.seconds * 1000 * step / steps
            level = step / steps if grows else min(1, step / 6) * self.dice.uniform(0.55, 1)
            points.append([round(at, 3), int(peak * level)])
        return points

    def per_epoch(self, peak):
        if self.leaks or self.o.stall:
            return []
        low = 0.75 if self.o.release == "amortized" else 0.25
        return [[epoch, int(peak * self.dice.uniform(low, 1))] for epoch in range(2, 60)]

    def events(self):
        """Frees as the paper describes them: naive one after another, batches long, singles
        short with a few long ones."""
        o, dice = self.o, self.dice
        end, events, when = o.seconds * 1e9, [], 0.0
        mean = 9e6 if o.scheme == "token_naive" else 2.5e6
        step = mean if o.scheme == "token_naive" else 5e6 / o.threads
        turn = 0
        while when < end:
            thread = turn % o.threads
            if o.release == "amortized":
                for _ in range(40):
                    begin = when + dice.uniform(0, step)
                    long = dice.expovariate(1 / 3e4) if dice.random() < 0.03 else 90
                    events.append((begin, begin + long, thread, "single_free", 1))
            else:
                long = dice.expovariate(1 / mean) * (1 + when / end)
                events.append((when, when + long, thread, "batch_freed", int(long / 120)))
                if o.scheme == "token_naive":
                    when += long - step if long > step else 0
            if o.scheme != "token_naive" or when < 0.2 * end:  # its last epoch takes the rest
                events.append((when, when, thread, "epoch_advanced", 1))
            when += step * dice.uniform(0.7, 1.3)
            turn += 1
        return sorted(events, key=lambda event: event[0])


def write(target: str, lines) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text)


def fault(options) -> str:
    kind, _, scheme = os.environ.get("FAKE_BENCH_FAULT", "").partition(":")
    return kind if scheme in ("", options.scheme) else ""


def sets(options) -> int:
    if (options.structure, options.scheme, options.release) not in [*COMBINATIONS, *RIVALS]:
        sys.stderr.write("spolia-bench: this combination cannot run\n")
        return 2
    kind = fault(options)
    if kind == "crash":
        sys.stderr.write("token ring broke\n")
        return 134
    if kind == "hang":
        time.sleep(600)
    model = Model(options)
    time.sleep(float(os.environ.get("FAKE_BENCH_SLEEP", "0")))
    records = [model.record(trial) for trial in range(options.trials)]
    if kind == "partial":
        Path(options.json).write_text(json.dumps(records[0])[:200])
        os.kill(os.getpid(), 9)
    if kind == "liar":
        records[0]["allocator"] = "bump"
    if kind == "bare":
        del records[0]["ops_per_s"]
    if kind in ("still", "nan"):
        records[0]["ops_per_s"] = 0 if kind == "still" else math.nan
    if kind != "silent":
        write(options.json, records)
    if options.trace:
        names = ("t_ns", "end_ns", "thread", "event", "count")
        rows = [dict(zip(names, event, strict=True)) for event in model.events()]
        write(options.trace, [*rows, {"event": "overwritten", "thread": 1, "count": 12}])
    return 0


def guards(options) -> int:
    cost = {"token": 1.9, "debra": 2.4, "hazard_pointers": 1.3}
    write(options.json, [
        {"kind": "guards", "scheme": scheme, "operation": operation, "ns": ns, "ns_min": 0.9 * ns,
         "ns_max": 1.2 * ns, "rounds": 15}
        for operation in ("enter and leave", "protect") for scheme, ns in cost.items()
    ])  # fmt: skip
    return 0


def announcements(options) -> int:
    if os.environ.get("FAKE_BENCH_FAULT") == "announcements":
        sys.stderr.write("nothing to announce\n")
        return 3
    write(options.json, [
        {"kind": "announcements", "scheme": scheme, "threads": threads, "operations": 1000,
         "announcements_per_op": 0.1 if scheme == "debra" else threads / 400, "epochs": 9,
         "retired": 1000}
        for threads in (2, 48, 192) for scheme in SCHEMES if scheme != "none"
    ])  # fmt: skip
    return 0


def snapshots(options) -> int:
    if not options.hold:
        return worked_snapshots(options)
    write(options.json, [
        {"kind": "snapshots", "structure": structure, "collector": collector, "hold": True,
         "threads": 2, "keys": 20000, "updates": 400000, "updates_per_s": 1e6,
         "versions_live": 13000 if collector != "epoch_collector" else 410000,
         "versions_needed": 12500,
         "versions_peak": 13500, "bytes": 1700000, "bytes_waiting": 50000,
         "bytes_needed": 1600000, "bytes_peak": 9000000,
         "bytes_over_time": [[0, 900000], [100, 1500000], [200, 1700000]]}
        for structure in ("hash", "tree")
        for collector in ("epoch_collector", "steam", "bbf", "dl_rt", "sl_rt")
    ])  # fmt: skip
    return 0


def worked_snapshots(options) -> int:
    """Read transactions beside updates; rivals have no versions."""
    sizes = {
        "epoch_collector": 90_000_000,
        "steam": 30_000_000,
        "copies": 50_000_000,
        "none": 8_000_000,
    }
    collectors = ("epoch_collector", "steam", "bbf", "dl_rt", "sl_rt")
    ways = {"std_map": ("copies",), "tbb_hash_map": ("none",)}
    write(options.json, [
        {"kind": "snapshots", "structure": structure, "collector": collector, "hold": False,
         "threads": int(options.threads), "readers": int(options.readers),
         "keys": int(options.keys), "theta": float(options.theta),
         "rtx_share": float(options.rtx_share), "rtx_most": int(options.rtx_most),
         "updates_per_s": 1e6, "rtx_keys_per_s": 2e6, "small_rtx_keys_per_s": 1e6,
         "bytes_peak": sizes.get(collector, 20_000_000),
         "passed_per_cut": 1.01 if collector == "dl_rt" else None,
         "small_readers": int(options.small_readers), "rtx": int(options.rtx),
         "versions_live": None if structure in ways else 13000,
         "versions_needed": None if structure in ways else 12500,
         "versions_current": 12000, "versions_peak": 14000,
         "stills": 5 if int(options.still_every) else 0, "still_every": int(options.still_every),
         "versions_needed_peak": 12800, "versions_excess_peak": 900}
        for structure in options.structure.split(",")
        for collector in ways.get(structure, collectors)
    ])  # fmt: skip
    return 0


def layer_records(options) -> list[dict]:
    """Of the sub-commands that the quick look runs for the layers above the schemes."""
    if options.command == "counted":
        return [
            {"test": options.test, "pointer": name, "mops": mops, "threads": int(threads),
             "structure": None if options.structure == "-" else options.structure,
             **({"pause_p50_ns": 30, "pause_p99_ns": 90, "pause_p999_ns": 5000,
                 "pause_p9999_ns": 20000, "pause_max_ns": 70000, "unreclaimed_peak": 21000,
                 "work_p50_ns": 30, "work_p99_ns": 80, "work_p999_ns": 4000,
                 "work_p9999_ns": 9000, "work_max_ns": 10000,
                 "pauses_below_ns": [[64, 9000], [128, 700], [65536, 3]]}
                if options.test == "destroy" else {}),
             **({"operations": 1000, "count_ns": 9e3, "make_ns": 5e4, "set_ns": 2e4,
                 "scan_ns": 1e3, "sweep_ns": 8e3, "end_ns": 6e3, "rest_ns": 4e5}
                if options.test == "parts" else {}),
             **({"ended_per_epoch": [4000, 9000, 100], "waiting_peak": 5000}
                if options.test in ("stream", "burst") else {})}
            for name, mops in (("raw", 100.0), ("private", 90.0), ("thin", 95.0),
                               ("std-atomic", 2.0))
            for threads in (options.threads if options.threads != "-" else "2").split(",")
        ]  # fmt: skip
    if options.command == "rlu":
        return [{"structure": options.structure, "sync": options.sync, "mops": 3.0,
                 "threads": 2 if options.threads == "-" else int(options.threads),
                 "update": 20 if options.update == "-" else int(options.update),
                 "stall": options.stall, "log_bytes_peak": 1e6,
                 "keys": 20_000 if options.keys == "-" else int(options.keys),
                 "theta": 0 if options.theta == "-" else float(options.theta),
                 **inside(options),
                 "detector": options.detector,
                 **{name: usual if given == "-" else int(given)
                    for name, (usual, option) in RLU_OPTIONS.items()
                    for given in [getattr(options, option)]}}
                for _ in range(2)]  # fmt: skip
    if options.command == "held":
        return held_records(options)
    if options.command == "reports":
        return [r for name in STORAGES for r in lineitem_records(name, 2)]
    if options.engine != "-":
        return [{**store_record(options, "one-shot"), "engine": engine, "conflicts": 5,
                 "transactions": 95, "tx_per_s": 2e5 if engine == "mvrlu" else 1e5}
                for engine in options.engine.split(",") for _ in range(2)]  # fmt: skip
    return [store_record(options, name) for name in STORAGES for _ in range(2)]


def inside(options) -> dict:
    """What read-log-update tells of itself."""
    if not options.sync.startswith(("mvrlu", "rlu")):
        return {}
    told = {"abort_ratio": 0.01 if options.sync == "mvrlu" else 0.2}
    if options.over_time:
        told["over_time_columns"] = ["ms", "written_back", "passes", "conflicts", "log_bytes",
                                     "waiting", "chain_mean", "chain_most"]  # fmt: skip
        told["over_time"] = [[5 * t, 100 * t, 3 * t, t, 4e5, 900, 1.5, 3] for t in range(60)]
    return told


def held_records(options) -> list[dict]:
    """Nine tenths of the speed beside a reader, four fifths with Steam."""
    workloads = "queue,touched,churn" if options.workload == "-" else options.workload
    if workloads == "report":
        return report_records()
    return [
        {"workload": workload, "index": index, "versions": versions, "hold": hold, "trial": trial,
         "tx_per_s": 1e5 * (1 - hold * (0.2 if versions == "steam" else 0.1)),
         "rss_growth_bytes": 2e6 + hold * 1e6, "first_row_ns_p50": 500 * (1 + hold),
         "old_read_ns_p50": 700 if hold else None, "report_age": None,
         **{f"{age}_{way}_ns": None for age in ("old", "new") for way in ("row", "each", "find")},
         "over_time": [[t * 50, 1e5, 2e7 + 1e5 * min(t, 3), 10, 1000] for t in range(20)]}
        for workload in workloads.split(",") for index in ("ordered", "hash")
        for versions in STORAGES for hold in (0, 1) for trial in range(2)
    ]  # fmt: skip


def report_records() -> list[dict]:
    """Five times as much for an old row as for a new one, and twenty times without collecting."""
    return [
        {"workload": "report", "index": "hash", "versions": versions, "hold": 1, "trial": trial,
         "tx_per_s": 1e5, "report_age": 10.5,
         **{f"new_{way}_ns": ns for way, ns in (("row", 2.5), ("each", 20), ("find", 90))},
         **{f"old_{way}_ns": ns * (20 if versions in ("none", "one-shot") else 5)
            for way, ns in (("row", 2.5), ("each", 20), ("find", 90))}}
        for versions in STORAGES for trial in range(3)
    ]  # fmt: skip


def lineitem_records(name: str, dearer: float) -> list[dict]:
    """At the old snapshot reports cost so many times what they cost at a new one."""
    costs = {"q1": 40, "q6": 20, "text": 30, "q1_rows": 60, "q6_rows": 50, "text_rows": 70}
    if name in ("sqlite", "duckdb"):
        costs = {way: ns * 2 for way, ns in costs.items() if not way.endswith("rows")}
    return [
        {"versions": name, "engine": name if name in ("sqlite", "duckdb") else "spolia",
         "trial": trial, **{f"new_{way}_ns": ns for way, ns in costs.items()},
         **{f"old_{way}_ns": ns * dearer for way, ns in costs.items()}}
        for trial in range(3)
    ]  # fmt: skip


def store_record(options, versions: str) -> dict:
    """Steam half as fast as all others; a scanner takes a tenth of that, and versions stay."""
    speed = 1e5 / (2 if versions == "steam" else 1) * (0.9 if options.scanners == "1" else 1)
    leaks = versions in ("none", "one-shot")
    number = {
        name: int(value)
        for name, value in vars(options).items()
        if name in ("writes", "threads", "operations", "scanners") and value != "-"
    }
    return {
        "versions": versions, "tx_per_s": speed, "version_bytes_peak": 9e6 if leaks else 1e6,
        "over_time": [[t * 50, speed, 1000 * (t if leaks else min(t, 3)), t] for t in range(20)],
        "mix": "full" if options.mix == "-" else options.mix, "rows_scanned_per_s": 1e6,
        "partitions_most": partitions_most(options, versions),
        "writes": 50, "operations": 10, "scanners": 0, **number,
        "warehouses": number.get("threads", 2) if options.command == "tpcc" else None,
    }  # fmt: skip


def partitions_most(options, versions: str) -> int | None:
    """Nothing, of a storage that has no partitions."""
    if not versions.startswith("one-shot"):
        return None
    return 256 if options.partitions == "-" else int(options.partitions)


def layer(options) -> int:
    made = layer_records(options)
    write(options.json, [{"kind": options.command, "threads": 2, "machine": MACHINE, **record}
                         for record in made])  # fmt: skip
    return 0


def keep_trace(made: Model, path: Path) -> str:
    """The trace of a trial, beside its results; its name."""
    names = ("t_ns", "end_ns", "thread", "event", "count")
    lines = [json.dumps(dict(zip(names, e, strict=True))) for e in made.events()]
    path.write_text("\n".join(lines))
    return path.name


def records_of(words) -> list[dict]:
    """What a command would write, without a process for it."""
    made: list[dict] = []
    run_with(list(words), lambda _, lines: made.extend(lines))
    return made


def main() -> int:
    return run_with(sys.argv[1:])


@cache
def command_line() -> argparse.ArgumentParser:
    """Made once: it takes longer than a command's records."""
    parser = argparse.ArgumentParser(prog="spolia-bench")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list").add_argument("--json", default="-")
    commands.add_parser("guards").add_argument("--json", default="-")
    counting = commands.add_parser("announcements")
    for name in ("--json", "--threads", "--operations"):
        counting.add_argument(name, default="-")
    held = commands.add_parser("snapshots")
    for name in ("--json", "--structure", "--update", "--rtx-share", "--updates"):
        held.add_argument(name, default="-")
    for name in ("--seconds", "--collector", "--trials", "--seed", "--order"):
        held.add_argument(name, default="-")
    for name in ("--keys", "--threads", "--readers", "--small-readers", "--rtx", "--rtx-most",
                 "--theta", "--still-every"):  # fmt: skip
        held.add_argument(name, default="0")
    held.add_argument("--hold", action="store_true")
    run = commands.add_parser("sets")
    for name in ("structure", "scheme", "release"):
        run.add_argument(f"--{name}", required=True)
    for name in ("threads", "keys", "update", "trials", "seed"):
        run.add_argument(f"--{name}", type=int, default=1)
    run.add_argument("--batch", type=int)
    run.add_argument("--seconds", type=float, default=1)
    run.add_argument("--stall", action="store_true")
    run.add_argument("--count", action="store_true")
    run.add_argument("--json", default="-")
    run.add_argument("--trace")
    for name in LAYERS:
        command = commands.add_parser(name)
        for option in ("--json", "--structure", "--sync", "--test", "--writes", "--threads",
                       "--operations", "--scanners", "--mix", "--partitions",
                       "--update", "--keys", "--low", "--high", "--walks", "--theta", "--engine",
                       "--turn-us", "--in-place", "--workload"):  # fmt: skip
            command.add_argument(option, default="-")
        for flag in ("--stall", "--detector", "--over-time"):
            command.add_argument(flag, action="store_true")
    return parser


def run_with(words, instead=None) -> int:
    """`instead` takes the records in place of the file."""
    if instead is not None:
        kept, globals()["write"] = globals()["write"], instead
        try:
            return run_with(words)
        finally:
            globals()["write"] = kept
    parser = command_line()
    options, unknown = parser.parse_known_args(words)
    if unknown and options.command not in LAYERS:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command == "list":
        write(options.json, [offered()])
        return 0
    own = {
        "guards": guards,
        "announcements": announcements,
        "snapshots": snapshots,
        "sets": sets,
    }
    return own.get(options.command, layer)(options)


if __name__ == "__main__":
    sys.exit(main())
