# SPDX-License-Identifier: Apache-2.0
"""The papers, and what their experiments were made with; what a page's own records were made with
beside it, parameter by parameter. Which page is which figure says origins.py."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Paper:
    name: str
    title: str
    venue: str
    doi: str
    """Of the version that was published."""
    setup: dict[str, str]
    """Of all its experiments, where a figure does not say otherwise."""
    figures: int
    """So many are printed, with those of its supplement."""
    tables: int = 0
    preprint: str = ""
    """On arXiv, where its text is to be had by all."""


@dataclass(frozen=True)
class Origin:
    """Where a page is from: the figures as they are printed, and what is special about them."""

    paper: Paper
    figures: str
    setup: dict[str, str] = field(default_factory=dict)
    left_out: str = ""

    def told(self) -> dict[str, str]:
        """A parameter of the paper that this figure does not have is empty."""
        return {name: text for name, text in {**self.paper.setup, **self.setup}.items() if text}


TOKENS = Paper(
    "Token-EBR", "Are Your Epochs Too Epic? Batch Free Can Be Harmful", "PPoPP 2024",
    "10.1145/3627535.3638491",
    {"machine": "4 × Xeon Platinum 8160, 96 cores", "processors": "192", "pinning": "pinned",
     "memory": "interleaved over sockets", "compiler": "g++ 9.3 -O3",
     "threads": "6, 12, 24, 36, 48, 96, 144, 192", "keys": "20,000,000, half present",
     "keys drawn": "uniform", "updates": "100 %, half of them inserts", "seconds": "5",
     "trials": "3", "shown": "mean; least and most", "warm-up": "until the size is stable",
     "allocator": "jemalloc 5.0.1", "bag": "what an epoch leaves"},
    figures=29, tables=4, preprint="2401.11347",
)  # fmt: skip
FRC = Paper(
    "FRC", "FRC: A High-Performance Concurrent Parallel Deferred Reference Counter for C++",
    "ISMM 2018", "10.1145/3210563.3210569",
    {"machine": "2 × Xeon E5-2660, 16 cores", "processors": "32", "pinning": "pinned",
     "compiler": "g++ 6.3 -O3", "threads": "32", "operations": "100,000 of each thread",
     "trials": "100", "shown": "mean; standard deviation", "allocator": "not said"},
    figures=9,
)  # fmt: skip
MVRLU = Paper(
    "MV-RLU", "MV-RLU: Scaling Read-Log-Update with Multi-Versioning", "ASPLOS 2019",
    "10.1145/3297858.3304040",
    {"machine": "8 × Xeon Platinum 8180, 224 cores", "processors": "448", "pinning": "not said",
     "compiler": "not said", "threads": "up to 448", "keys": "10,000 items",
     "keys drawn": "uniform", "updates": "2, 20, 80 %", "seconds": "not said",
     "trials": "not said", "shown": "no spread", "warm-up": "not said", "allocator": "jemalloc",
     "logs": "512 KB of each thread", "watermarks": "75, 50 and 50 % of the log"},
    figures=10, tables=1,
)  # fmt: skip
ONESHOT = Paper(
    "One-shot",
    "One-shot Garbage Collection for In-memory OLTP through Temporality-aware Version Storage",
    "SIGMOD 2023", "10.1145/3588699",
    {"machine": "2 × Xeon Gold 6132, 28 cores", "processors": "56", "pinning": "pinned",
     "compiler": "not said", "threads": "28", "seconds": "not said", "trials": "not said",
     "shown": "no spread", "warm-up": "a phase of its own", "versions": "whole rows",
     "partitions": "2 of 10 GB", "transactions a partition": "1,024", "index": "cuckoo hashing",
     "allocator": "4 GB of each thread, faulted in (Steam)"},
    figures=14,
)  # fmt: skip
VERSIONS = Paper(
    "Multiversion GC",
    "Practically and Theoretically Efficient Garbage Collection for Multiversioning",
    "PPoPP 2023", "10.1145/3572848.3577508",
    {"machine": "2 × Xeon Platinum 8375C, 64 cores", "processors": "128", "pinning": "not said",
     "compiler": "Java, OpenJDK 19", "threads": "120", "keys": "200,000, half present",
     "keys drawn": "Zipf 0.99", "read transactions": "a range from a uniform key on",
     "seconds": "5", "trials": "5", "shown": "mean; variance", "warm-up": "25 s",
     "pairs a leaf": "1", "allocator": "Java's heap, 64 GB",
     "bytes": "what is reachable after the run"},
    figures=8, preprint="2212.13557",
)  # fmt: skip
PAPERS = (TOKENS, MVRLU, ONESHOT, FRC, VERSIONS)

# What records say of how they were made, and how a page calls it.
TOLD = {"threads": "threads", "readers": "threads that only read",
        "small_readers": "threads of small reads", "update": "updates", "writes": "updates",
        "seconds": "seconds", "bag": "bag", "allocator": "allocator", "compiler": "compiler",
        "buckets": "buckets", "records": "rows of each thread", "rows": "rows",
        "columns": "columns", "width": "bytes a column", "warehouses": "warehouses",
        "items": "items", "customers": "customers of a district", "mix": "mix",
        "operations_each": "operations", "partitions_most": "partitions",
        "partition": "transactions a partition", "index": "index", "rtx": "least keys of a read",
        "rtx_most": "most keys of a read", "rtx_share": "read transactions, %",
        "scanners": "threads that scan", "stall": "a section that sleeps",
        "segment_bytes": "bytes a log grows by", "low_watermark": "low watermark, bytes",
        "high_watermark": "high watermark, bytes", "walk_watermark": "watermark of walks",
        "pointer": "pointers", "collector": "collectors", "versions": "version storages",
        "engine": "engines", "sync": "ways"}  # fmt: skip
# Of these, half are present at any time.
HALF = ("sets", "rlu", "snapshots")
# These begin to measure right after they have filled what they work on.
COLD = ("snapshots", "ycsb", "tpcc")
ALWAYS = {"pinning": "none", "shown": "median; least and most"}
MANY = 6


def here(records: list[dict], rounds: int) -> dict[str, str]:
    """What a page's own records were made with."""
    made: dict[str, set] = {}
    for record in records:
        for name, value in _of(record).items():
            if value is not None and isinstance(value, (int, float, str)):
                made.setdefault(name, set()).add(value)
    told = {name: _values(values) for name, values in made.items()}
    return {**told, "trials": str(rounds), **ALWAYS}


def _of(record: dict) -> dict:
    """One record's parameters, by the names that pages give them."""
    kind, machine = record.get("kind", "sets"), record.get("machine") or {}
    made = {"machine": machine.get("cpu"), "processors": machine.get("cores")}
    keys = record.get("keys")
    if keys is not None:
        made["keys"] = f"{keys:,}, half present" if kind in HALF else keys
        theta = record.get("theta")
        if theta is not None or kind == "sets":
            made["keys drawn"] = f"Zipf {theta:g}" if theta else "uniform"
    elif record.get("theta") is not None:
        made["rows drawn"] = f"Zipf {record['theta']:g}" if record["theta"] else "uniform"
    for field_name, name in TOLD.items():
        value = record.get(field_name)
        made.setdefault(name, str(value).lower() if isinstance(value, bool) else value)
    if kind == "ycsb":
        made["operations of a transaction"] = record.get("operations")
    warm = record.get("warm_up_s", record.get("warm_up"))
    made["warm-up"] = f"{warm:g} s" if warm is not None else "none" if kind in COLD else None
    return made


def _values(seen: set) -> str:
    ordered = sorted(seen, key=lambda value: (isinstance(value, str), value))
    told = [value if isinstance(value, str) else f"{value:,.6g}" for value in ordered]
    if len(told) <= MANY or any(isinstance(value, str) for value in ordered):
        return ", ".join(told)
    return f"{told[0]} to {told[-1]}"


def beside(origin: Origin | None, mine: dict[str, str]) -> list[tuple[str, str, str]]:
    """A line for each parameter: its name, the paper's value, and the one here."""
    theirs = origin.told() if origin else {}
    names = list(dict.fromkeys([*theirs, *mine]))
    return [(name, theirs.get(name, "–"), mine.get(name, "–")) for name in names]
