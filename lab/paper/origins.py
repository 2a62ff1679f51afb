# SPDX-License-Identifier: Apache-2.0
"""Which page is which figure of which paper, what that figure was measured with, and what the page
leaves out; and for each figure that no page repeats, why, and what comes nearest to it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.paper.papers import FRC, MVRLU, ONESHOT, TOKENS, VERSIONS, Origin, Paper


@dataclass(frozen=True)
class Elsewhere:
    """Figures that no page repeats."""

    paper: Paper
    figures: str
    what: str
    why: str
    near: str = ""  # the key of the page that comes nearest


# ---- Token-EBR

MOST = {"threads": "192"}
EACH_BAG = {**MOST, "bag": "32,768"}
SMALL_TREE = {"keys": "2,000,000, half present"}
SCHEMES = {"threads": "numbers of the figure's own, to above 192", "bag": "not said"}
TIMELINE = {**MOST, "drawn": "20 threads, 250 ms"}
WHOLE = {**MOST, "drawn": "all of 5 s"}

# ---- MV-RLU

SHORT = "the list has 500 items in place of 10,000, but with --full"
LISTS = f"{SHORT}; RLU with ORDO, versioned programming, SwissTM"
TABLES = "versioned programming, SwissTM"
HASHES = {"structures": "hash table", "buckets": "1,000"}

# ---- FRC

OBJECTS = {"keys": "", "operations": "100,000 of each thread"}
COUNTED = "boost::shared_ptr; FRC's own program"
CONTAINERS = {
    "keys": "100,000 to read, 3,200,000 to insert, 320,000 to remove from",
    "threads": "32; 1 to 32 in figure 5, with 10,000 operations of each",
    "hot keys": "99 % of reads in 10 % of the keys",
    "leaf of the B-tree": "32 pairs, 512 children",
}

# ---- One-shot

YCSB = {"rows of each thread": "1,000", "columns": "10", "bytes a column": "8",
        "operations of a transaction": "10", "updates": "50, 100 %"}  # fmt: skip
TPCC = {"warehouses": "one of each thread", "items": "100,000",
        "customers of a district": "3,000"}  # fmt: skip
STEAM = "Steam's own memory, faulted in before"
SMALL = f"{STEAM}; full size, but with --full: fewer items and customers"

# ---- Multiversion GC

APART = {"threads": "40 that update, 40 with reads of 16 keys, 40 with longer reads",
         "least keys of a read": "16", "updates": "100 %"}  # fmt: skip
MIXED = {"threads": "up to above 128", "updates": "50 %", "read transactions, %": "1",
         "least keys of a read": "1,024", "most keys of a read": "1,024"}  # fmt: skip
POINTS = "ranges: a read asks for single keys, drawn as updates draw theirs"
ONE_PAIR = f"{POINTS}; buckets of one pair"
NO_RANGES = f"{POINTS}; throughput as a picture: it is in the table"

ORIGINS: dict[str, Origin] = {
    "figure-1": Origin(TOKENS, "Figure 1", {"structures": "ABtree, OCCtree"}),
    "figure-2": Origin(TOKENS, "Figure 2", {**TIMELINE, "threads": "96 and 192"}),
    "table-1": Origin(TOKENS, "Table 1", {"threads": "48, 96, 192"},
                      "shares of time in flush and lock: counted, not timed"),
    "figure-3": Origin(TOKENS, "Figure 3", TIMELINE),
    "table-2": Origin(TOKENS, "Table 2", MOST, "shares of time in flush and lock: counted"),
    "figure-4": Origin(TOKENS, "Figure 4", MOST),
    "table-3": Origin(TOKENS, "Table 3", {**MOST, "allocator": "tcmalloc, mimalloc"}),
    "figure-5": Origin(TOKENS, "Figure 5"),
    **{f"figure-{n}": Origin(TOKENS, f"Figure {n}", WHOLE) for n in (6, 7, 8)},
    "figure-9": Origin(TOKENS, "Figure 9", WHOLE,
                       "single calls of free above 0.1 ms: boxes are the steps of an operation"),
    "figure-10": Origin(TOKENS, "Figure 10"),
    "table-4": Origin(TOKENS, "Table 4", MOST),
    "experiment-1-abtree": Origin(TOKENS, "Figure 11a", SCHEMES),
    "experiment-1-external_bst": Origin(TOKENS, "Figure 14", {**SCHEMES, **SMALL_TREE}),
    "experiment-2-abtree": Origin(TOKENS, "Figures 11b, 12", {**EACH_BAG, "threads": "192; a "
                                  "sweep in figure 12"}, "figure 12's numbers of threads: one"),
    "experiment-2-external_bst": Origin(TOKENS, "Figure 13",
                                        {**EACH_BAG, **SMALL_TREE, "threads": "a sweep"},
                                        "numbers of threads: one"),
    "events": Origin(TOKENS, "Section 3.2", MOST, "profiles: events are counted"),
    "announcements": Origin(TOKENS, "Sections 2 and 4", dict.fromkeys(TOKENS.setup, "")),
    "model": Origin(TOKENS, "Tables 2 and 3", MOST),
    "sections-structures": Origin(MVRLU, "Figure 4", {"structures": "list, hash table, tree",
                                                      "buckets": "1,000"},
                                  f"{SHORT}; RLU with ORDO, versioned programming; libitm in "
                                  "place of SwissTM; the Citrus tree without predicates"),
    "sections-aborts": Origin(MVRLU, "Figure 5", {"structures": "list, hash table",
                                                  "buckets": "1,000"}, LISTS),
    "sections-sizes": Origin(MVRLU, "Figure 6", {
        "structures": "hash table", "keys": "1,000, 10,000, 50,000 items",
        "buckets": "1,000, 1,000, 5,000", "updates": "20 %"}, TABLES),
    "sections-zipf": Origin(MVRLU, "Figure 7", {**HASHES, "threads": "336",
                                                "keys drawn": "Zipf, theta from 0 on"}, TABLES),
    "sections-cumulative": Origin(MVRLU, "Figure 8", {"structures": "list", "threads": "336"},
                                  "ORDO as the first feature: it comes last; the list has 500 "
                                  "items in place of 10,000, but with --full"),
    "sections-features": Origin(MVRLU, "Figure 8", {"structures": "list", "threads": "336"},
                                "steps: here one feature is left out at a time; the list has 500 "
                                "items in place of 10,000, but with --full"),
    "sections-pareto": Origin(MVRLU, "Figure 1", {
        **HASHES, "keys": "1,000 items", "updates": "10 %",
        "keys drawn": "80–20 Pareto"}, TABLES),
    "sections-records": Origin(MVRLU, "Figure 9", {
        "keys": "", "keys drawn": "", "rows drawn": "Zipf 0.7", "rows": "not said",
        "operations of a transaction": "not said"}, "Silo, TicToc, Hekaton"),
    "sections-cache": Origin(MVRLU, "Figure 10", {"keys": "1 GB of data", "updates": "2, 20 %"},
                             "a changed Kyoto Cabinet; its lock for everything; 1 GB"),
    "sections-over-time": Origin(MVRLU, "Section 6", {"updates": ""}),
    "one-shot-2": Origin(ONESHOT, "Figure 2", {**YCSB, "rows drawn": "Zipf 0.5"},
                         STEAM),
    "one-shot-10": Origin(ONESHOT, "Figure 10", {**YCSB, "threads": "1 to 28",
                                                 "rows drawn": "not said"}, STEAM),
    "one-shot-11": Origin(ONESHOT, "Figure 11", {**TPCC, "threads": "1 to 28",
                                                 "mix": "NewOrder and Payment; all five"}, SMALL),
    "one-shot-12": Origin(ONESHOT, "Figure 12", {
        **YCSB, "columns": "1", "operations of a transaction": "several", "updates": "not said",
        "rows drawn": "not said"}, STEAM),
    "one-shot-13": Origin(ONESHOT, "Figure 13", {
        **TPCC, "threads": "13", "threads that scan": "1"}, SMALL),
    "one-shot-14": Origin(ONESHOT, "Figure 14", {
        **TPCC, "threads": "14", "partitions": "2 to 8, 10 GB in all",
        "transactions a partition": "16"},
        f"{SMALL}; partitions of constant total size; one-shot with eager pruning"),
    "pointers-object": Origin(FRC, "Figure 3", OBJECTS, COUNTED),
    "pointers-containers": Origin(FRC, "Figures 4, 5, 6, 7", CONTAINERS,
                                  f"{COUNTED}; raw pointers in a container for one thread"),
    "pointers-strings": Origin(FRC, "Section 4.4", {
        "keys": "28,772,169 strings", "operations": "177,999,203 queries", "trials": "5"}, COUNTED),
    "pointers-times": Origin(FRC, "Figure 8", {"threads": "32", "trials": "5",
                                               "keys": "28,772,169 strings"}),
    "pointers-slop": Origin(FRC, "Figure 9", {"keys": "32,000 of a tree of 320,000",
                                              "operations": "not said"}),
    "pointers-ends": Origin(FRC, "Section 3", {"operations": ""}),
    "snapshots-tree": Origin(VERSIONS, "Figure 4", APART, NO_RANGES),
    "snapshots-hash": Origin(VERSIONS, "Figure 6", APART, f"{NO_RANGES}; buckets of one pair"),
    "snapshots-mixed": Origin(VERSIONS, "Figures 7a, 8", {**MIXED, "keys drawn": "Zipf 0.99; "
                              "uniform in the full version"}, ONE_PAIR),
    "snapshots-zipf": Origin(VERSIONS, "Figures 7a, 8", MIXED, ONE_PAIR),
    "snapshots-large": Origin(VERSIONS, "Figure 7b", {
        **MIXED, "keys": "20,000,000, half present"}, POINTS),
    "snapshots-bound": Origin(VERSIONS, "Sections 2 to 5", {"threads": "any"}),
    "held-snapshot": Origin(VERSIONS, "Sections 2 to 5", {"threads": "any"}),
}  # fmt: skip


def by_number(figures: str) -> tuple[int, int, str]:
    """Figures before tables before sections, each by its first number."""
    kinds = ("Figure", "Table", "Section")
    kind = next((n for n, name in enumerate(kinds) if figures.startswith(name)), len(kinds))
    number = re.search(r"\d+", figures)
    return kind, int(number.group()) if number else 0, figures


_DRAWN = "a drawing or a listing: nothing was measured for it"
_NUMBERS = "one machine, and one or two numbers of threads, are drawn"
ELSEWHERE = (
    Elsewhere(TOKENS, "Figures 15, 16", "other machines", "each machine has a report of its own: "
              "run the page there", "experiment-1-abtree"),
    Elsewhere(TOKENS, "Figure 17", "single calls of free, all threads",
              "the figure plots slow calls; the page counts them", "figure-3"),
    Elsewhere(TOKENS, "Figures 18 to 21", "DEBRA's timelines, 48 to 240 threads, jemalloc",
              _NUMBERS, "figure-2"),
    Elsewhere(TOKENS, "Figures 22 to 29", "the same under tcmalloc and mimalloc",
              "timelines are drawn under jemalloc", "figure-2"),
    Elsewhere(MVRLU, "Figures 2, 3", "how versions are kept", _DRAWN),
    Elsewhere(MVRLU, "Table 1", "kinds of synchronization, side by side", _DRAWN),
    Elsewhere(ONESHOT, "Figures 1, 3 to 9", "how versions are kept and collected", _DRAWN),
    Elsewhere(FRC, "Figures 1, 2", "the collector's parts, a router of four inputs", _DRAWN),
    Elsewhere(VERSIONS, "Figures 1 to 3", "lists and their steps", _DRAWN),
    Elsewhere(VERSIONS, "Figure 5", "figure 4 with 10 million keys",
              "it takes most of a run: ./dev lab paper --only snapshots-tree --keys 20000000",
              "snapshots-tree"),
)  # fmt: skip
