# SPDX-License-Identifier: Apache-2.0
"""The papers, and what each of their figures that a page repeats was measured with there: so that a
page is found by its paper and figure, and says how it differs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Paper:
    name: str
    title: str
    venue: str
    doi: str
    setup: dict[str, str]
    """Of all its experiments, where a figure does not say otherwise."""


@dataclass(frozen=True)
class Origin:
    """Where a page is from: the figures as they are printed, and what is special about them."""

    paper: Paper
    figures: str
    setup: dict[str, str] = field(default_factory=dict)
    left_out: str = ""

    def told(self) -> dict[str, str]:
        return {**self.paper.setup, **self.setup}


TOKENS = Paper(
    "Token-EBR", "Are Your Epochs Too Epic? Batch Free Can Be Harmful", "PPoPP 2024",
    "10.1145/3627535.3638491",
    {"processors": "192 (four sockets)", "threads": "6 to 192", "keys": "20,000,000",
     "updates": "100 %", "seconds": "5", "trials": "3", "warm-up": "until the size is stable",
     "allocator": "jemalloc"},
)  # fmt: skip
FRC = Paper(
    "FRC", "FRC: A High-Performance Concurrent Parallel Deferred Reference Counter for C++",
    "ISMM 2018", "10.1145/3210563.3210569",
    {"processors": "32 (two sockets)", "threads": "32", "keys": "100,000",
     "operations": "100,000 of each thread", "trials": "100"},
)  # fmt: skip
MVRLU = Paper(
    "MV-RLU", "MV-RLU: Scaling Read-Log-Update with Multi-Versioning", "ASPLOS 2019",
    "10.1145/3297858.3304040",
    {"processors": "448 (eight sockets)", "threads": "up to 448", "keys": "10,000 items",
     "updates": "2, 20, 80 %", "allocator": "jemalloc"},
)  # fmt: skip
ONESHOT = Paper(
    "One-shot",
    "One-shot Garbage Collection for In-memory OLTP through Temporality-aware Version Storage",
    "SIGMOD 2023", "10.1145/3588699",
    {"processors": "56 (two sockets)", "threads": "28", "rows": "1,000 of each worker",
     "partitions": "2 of 10 GB", "allocator": "reserved and faulted, of each thread (Steam)"},
)  # fmt: skip
VERSIONS = Paper(
    "Multiversion GC",
    "Practically and Theoretically Efficient Garbage Collection for Multiversioning",
    "PPoPP 2023", "10.48550/arXiv.2212.13557",
    {"processors": "128 (two sockets)", "threads": "120", "keys": "100,000 present",
     "seconds": "5", "trials": "5", "warm-up": "25 s", "pairs a leaf": "1"},
)  # fmt: skip
PAPERS = (TOKENS, MVRLU, ONESHOT, FRC, VERSIONS)

_LISTS = "the list has a tenth of the paper's items; no STM, no lock-free hash table"
_SMALL = "fewer items and customers; no allocator of its own for Steam"
_COUNTED = "plain boost::shared_ptr; FRC's own program"
ORIGINS: dict[str, Origin] = {
    "figure-1": Origin(TOKENS, "Figure 1"),
    "figure-2": Origin(TOKENS, "Figure 2", {"threads": "96 and 192"}),
    "table-1": Origin(TOKENS, "Table 1", {"threads": "48, 96, 192"},
                      "shares of time in flush and lock: counted, not timed"),
    "figure-3": Origin(TOKENS, "Figure 3", {"threads": "192", "bag": "32,768"}),
    "table-2": Origin(TOKENS, "Table 2", {"threads": "192", "bag": "32,768"}),
    "figure-4": Origin(TOKENS, "Figure 4", {"threads": "192", "bag": "32,768"}),
    "table-3": Origin(TOKENS, "Table 3", {"threads": "192", "bag": "32,768",
                                          "allocator": "tcmalloc, mimalloc"}),
    **{f"figure-{n}": Origin(TOKENS, f"Figure {n}", {"threads": "192"}) for n in (6, 7, 8, 9)},
    "figure-5": Origin(TOKENS, "Figure 5"),
    "figure-10": Origin(TOKENS, "Figure 10"),
    "table-4": Origin(TOKENS, "Table 4", {"threads": "192"}),
    "experiment-1-abtree": Origin(TOKENS, "Figure 11a"),
    "experiment-1-external_bst": Origin(TOKENS, "Figure 14", {"keys": "2,000,000"}),
    "experiment-2-abtree": Origin(TOKENS, "Figures 11b, 12", {"bag": "32,768"},
                                  "one number of threads"),
    "experiment-2-external_bst": Origin(TOKENS, "Figure 13",
                                        {"bag": "32,768", "keys": "2,000,000"},
                                        "one number of threads"),
    "events": Origin(TOKENS, "Section 3.2", {"threads": "192", "bag": "32,768"}),
    "announcements": Origin(TOKENS, "Sections 2 and 4"),
    "model": Origin(TOKENS, "Tables 2 and 3", {"threads": "192"}),
    "one-shot-2": Origin(ONESHOT, "Figure 2"),
    "one-shot-10": Origin(ONESHOT, "Figure 10", {"threads": "1 to 28"}, _SMALL),
    "one-shot-11": Origin(ONESHOT, "Figure 11", {"rows": "a warehouse a worker"}, _SMALL),
    "one-shot-12": Origin(ONESHOT, "Figure 12", {"columns": "1"}),
    "one-shot-13": Origin(ONESHOT, "Figure 13", {"threads": "13 and a reader"}, _SMALL),
    "one-shot-14": Origin(ONESHOT, "Figure 14", {"partitions": "2 to 8"},
                          "partitions of constant total size; one-shot with eager pruning"),
    "pointers-object": Origin(FRC, "Figure 3", {}, _COUNTED),
    "pointers-containers": Origin(FRC, "Figures 4, 5, 6, 7", {},
                                  f"{_COUNTED}; node locks: writers take turns"),
    "pointers-strings": Origin(FRC, "Section 4.4", {"keys": "28,000,000 strings", "trials": "5"},
                               _COUNTED),
    "pointers-times": Origin(FRC, "Figure 8"),
    "pointers-slop": Origin(FRC, "Figure 9"),
    "pointers-ends": Origin(FRC, "Section 3"),
    "snapshots-tree": Origin(VERSIONS, "Figure 4", {}, "Figure 5 (10 million keys), ranges"),
    "snapshots-hash": Origin(VERSIONS, "Figure 6", {}, "buckets of one pair"),
    "snapshots-mixed": Origin(VERSIONS, "Figures 7a, 8", {}, "ranges"),
    "snapshots-zipf": Origin(VERSIONS, "Figures 7a, 8", {"keys": "100,000 present, Zipf 0.99"}),
    "snapshots-large": Origin(VERSIONS, "Figure 7b", {"keys": "10,000,000 present"}),
    "snapshots-bound": Origin(VERSIONS, "Sections 2 to 5"),
    "held-snapshot": Origin(VERSIONS, "Sections 2 to 5"),
    "sections-structures": Origin(MVRLU, "Figure 4", {}, _LISTS),
    "sections-aborts": Origin(MVRLU, "Figure 5", {}, _LISTS),
    "sections-sizes": Origin(MVRLU, "Figure 6", {"keys": "1,000, 10,000, 50,000 items",
                                                 "updates": "20 %"}, _LISTS),
    "sections-zipf": Origin(MVRLU, "Figure 7", {"threads": "336"}, _LISTS),
    "sections-cumulative": Origin(MVRLU, "Figure 8", {}, _LISTS),
    "sections-features": Origin(MVRLU, "Figure 8", {}, _LISTS),
    "sections-pareto": Origin(MVRLU, "Figure 1", {"keys": "1,000 items", "updates": "10 %"}),
    "sections-records": Origin(MVRLU, "Figure 9", {}, "Silo, TicToc, Hekaton"),
    "sections-cache": Origin(MVRLU, "Figure 10", {"keys": "1 GB"}),
    "sections-over-time": Origin(MVRLU, "Section 6"),
}  # fmt: skip

# What records say of how they were made, and how a page calls it.
TOLD = {"threads": "threads", "keys": "keys", "update": "updates", "writes": "writes",
        "seconds": "seconds", "warm_up_s": "warm-up", "bag": "bag", "allocator": "allocator",
        "buckets": "buckets", "records": "rows", "operations_each": "operations",
        "partitions_most": "partitions", "theta": "theta"}  # fmt: skip
MANY = 6


def here(records: list[dict], rounds: int) -> dict[str, str]:
    """What a page's own records were made with."""
    made = {}
    cores = {(r.get("machine") or {}).get("cores") for r in records} - {None}
    if cores:
        made["processors"] = _values(cores)
    for field_name, name in TOLD.items():
        seen = {r[field_name] for r in records if r.get(field_name) is not None}
        if seen and all(isinstance(value, (int, float, str)) for value in seen):
            made[name] = _values(seen)
    made["trials"] = str(rounds)
    return made


def _values(seen: set) -> str:
    ordered = sorted(seen, key=lambda value: (isinstance(value, str), value))
    told = [value if isinstance(value, str) else f"{value:,.6g}" for value in ordered]
    return ", ".join(told) if len(told) <= MANY else f"{told[0]} to {told[-1]}"


def beside(origin: Origin | None, mine: dict[str, str]) -> list[tuple[str, str, str]]:
    """A line for each parameter: its name, the paper's value, and the one here."""
    theirs = origin.told() if origin else {}
    names = list(dict.fromkeys([*theirs, *mine]))
    return [(name, theirs.get(name, "–"), mine.get(name, "–")) for name in names]
