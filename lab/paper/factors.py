# SPDX-License-Identifier: Apache-2.0
"""What two arms of a claim may differ in, and nothing else: the factors that claims compare, and
which fields of a record are conditions. Each field that is not known as a result is a condition."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Factor:
    """A factor is one thing that a claim compares, and all fields that come with it."""

    name: str
    fields: frozenset[str]
    """Two arms have to differ in one of these."""
    why: str
    """Which fields belong together, and why."""
    own: frozenset[str] = frozenset()
    """Fields that only one of two such ways may have; where both have them, they are equal."""
    along: frozenset[str] = frozenset()
    """Fields that go with the factor, and may differ as they like."""

    def spares(self, field: str, ones: set, others: set) -> bool:
        """Whether a difference in that field is the factor's."""
        lacks = any(values <= LACKING for values in (ones, others))
        return field in self.fields | self.along or (field in self.own and lacks)


def _factor(name: str, fields: str, why: str, own: str = "", along: str = "") -> Factor:
    return Factor(name, frozenset(fields.split()), why, *(frozenset(f.split())
                                                          for f in (own, along)))  # fmt: skip


_LOGS = "detector low_watermark high_watermark walk_watermark segment_bytes turn_us in_place"
_PARTITIONS = "partition partition_cache partitions_most"

NO_FACTOR = _factor("nothing", "", "Two arms of no factor are not compared.")
WITHIN = _factor("the figure", "", "Two figures of the same trials: no condition differs.")
RELEASE = _factor("the release policy", "release",
                  "A release policy is one field; both policies get bags of one size.")  # fmt: skip
SCHEME = _factor("the scheme", "scheme release",
                 "A scheme as it was published has its own way of freeing: with it come the "
                 "release policy, its bag, and whether frees are timed, since leaking frees "
                 "nothing.", "time_frees", "bag")  # fmt: skip
STRUCTURE = _factor("the structure", "structure", "A structure is one field.")
LIBRARY = _factor("the library", "structure scheme release",
                  "Another library is another structure, another scheme and another way of "
                  "freeing, without our bags, timed frees and giving way.",
                  "time_frees turn_us", "bag")  # fmt: skip
THREADS = _factor("the number of threads", "threads",
                  "The number of threads is one field. TPC-C has a warehouse for each thread, as "
                  "the papers have it, so that warehouses go with the threads.",
                  "", "warehouses")  # fmt: skip
SYNC = _factor("the way to synchronize", "sync",
               "A way to synchronize comes with how many sections it defers together; logs and "
               "their watermarks are many versions' own.", _LOGS, "together")  # fmt: skip
VERSIONING = _factor("one copy or many versions", "sync",
                     "Many versions come with a log, so all settings of logs come with it, also "
                     "where records of one copy have the usual ones.", "",
                     f"together {_LOGS}")  # fmt: skip
STALL = _factor("a section that sleeps", "stall", "One field: a section sleeps, or none does.")
UPDATE = _factor("the share of updates", "update", "The share of updates is one field.")
THETA = _factor("the keys' distribution", "theta", "Theta is one field.")
ENGINE = _factor("the engine", "engine",
                 "An engine comes with its version storage, its index, what it keeps of a change, "
                 "and the partitions that only one storage has.", _PARTITIONS,
                 "versions index changes_only")  # fmt: skip
VERSIONS = _factor("the version storage", "versions",
                   "A version storage comes with what it keeps of a change; one-shot storages "
                   "alone have partitions.", _PARTITIONS, "changes_only")  # fmt: skip
PARTITIONS = _factor("the number of partitions", "partitions_most", "One field of a storage.")
SCANNERS = _factor("a reader beside", "scanners", "The number of threads that scan is one field.")
HOLD = _factor("a held reader", "hold", "The number of held readers is one field.")
READS = _factor("the length of read transactions", "rtx_most",
                "The most keys of a read transaction are one field.")  # fmt: skip
COLLECTOR = _factor("the collector", "collector", "A collector is one field.")
POINTER = _factor("the pointer", "pointer", "A pointer is one field.")
PEER = _factor("the program", "engine",
               "Another engine is another program: how it was built, how it allocates, how its "
               "version is called, how it warms up, what the store does beside a report, and what "
               "the program says of the machine are its own. The laboratory's name of the machine "
               "is compared.",
               "allocator compiler flags revision engine_version warm_up_s load parts machine",
               "versions")  # fmt: skip
# Features of read-log-update with many versions, by the field that each of them is.
FEATURES = {
    field: _factor(f"the feature {field}", field, "A feature is one setting of a log.")
    for field in _LOGS.split()
}
FACTORS = (NO_FACTOR, WITHIN, RELEASE, SCHEME, STRUCTURE, LIBRARY, THREADS, SYNC, VERSIONING, STALL,
           UPDATE, THETA, READS,
           ENGINE, VERSIONS, PARTITIONS, SCANNERS, HOLD, COLLECTOR, POINTER, PEER,
           *FEATURES.values())  # fmt: skip

ABSENT = "no such field"
LACKING = {ABSENT, "null"}  # a feature that is off is a setting, and no lack of it
# What tells one record from another, and the trials of one condition from each other.
NUMBERING = frozenset({"trial", "trials", "seed", "time", "lab", "conditions"})
# What came of a trial, where a record does not say itself which of its fields are conditions.
RESULTS = frozenset({
    "abort_ratio", "aborts", "announcements_per_op", "by_kind", "bytes", "bytes_needed",
    "bytes_peak", "bytes_waiting", "census_looks", "chain_length_mean", "chain_lengths",
    "checkpoint_bytes", "checkpoint_s", "checkpoint_throughput", "checkpoints", "commits",
    "conditions_held", "conflicts", "count_ns", "cuts", "elapsed_s", "end_ns", "ended_per_epoch",
    "epochs", "fill_s", "free_run_max", "free_runs", "free_share", "freed", "frees",
    "frees_over_100us", "frees_remote", "garbage_bound", "garbage_peak", "limits", "load_s",
    "log_bytes", "log_bytes_peak", "log_flushes", "longest_flush_ns", "lookups", "make_ns",
    "missed", "mops", "ns_per_op", "over_time_columns", "page_faults", "partition_drops",
    "partitions", "passed_per_cut", "pauses", "pauses_below_ns", "peak_rss_bytes", "report_age",
    "rest_ns", "retired", "rss_filled_bytes", "rss_growth_bytes", "rtxs", "samples", "scan_ns",
    "scans", "set_ns", "size_end", "stills", "sweep_ns", "table_bytes", "trace_offset_ms",
    "transactions", "tx_per_cpu_s", "unreclaimed_peak", "updates", "version_bytes_end",
    "version_bytes_peak", "version_reads", "versions_alive", "versions_current", "versions_dropped",
    "versions_dropped_between", "versions_excess_peak", "versions_live", "versions_made",
    "versions_needed", "versions_needed_peak", "versions_peak", "waiting_end", "waiting_peak",
})  # fmt: skip
PATTERNS = re.compile(
    r".*_per_s|.*_over_time|over_time|garbage_per_epoch|latency_ns_\w+|free_ns_\w+|"
    r"free_call_ns_\w+|allocator_\w+|(old|new|first)_\w+_ns(_\w+)?|(first_row|old_read|old_scan)_ns"
    r"_\w+|(pause|work)_(p\d+|max)_ns|(first_row|old_read|old_scan)_\w+"
)  # fmt: skip
# Operations are what was asked of these kinds, and what was done in the others.
ASKED_OPERATIONS = ("ycsb", "announcements")


def conditions(record: dict) -> dict[str, str]:
    """What a trial was made under, by name: what the record calls so, or else all but its results;
    and of the laboratory the build, the machine, and what the program does not tell."""
    named = record.get("conditions")
    if isinstance(named, list):
        wanted: Iterable[str] = {"kind", *named} - NUMBERING
    else:
        wanted = [name for name in record if not _result(record, name)]
    found = {name: _plain(record[name]) if name in record else ABSENT for name in wanted}
    lab = record.get("lab") or {}
    asked = lab.get("configuration") or {}
    found.update({f"lab.{name}": _plain(lab[name]) for name in ("build", "machine") if name in lab})
    return found | {f"lab.{name}": _plain(asked[name]) for name in ("batch", "trace", "twin")
                    if asked.get(name)}  # fmt: skip


def _result(record: dict, name: str) -> bool:
    """Or no field of the program's: a page's own labels begin with an underscore."""
    if name in NUMBERING or name.startswith("_"):
        return True
    if name == "operations":
        return record.get("kind") not in ASKED_OPERATIONS
    return name in RESULTS or PATTERNS.fullmatch(name) is not None


def _plain(value) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def values(records: Iterable[dict]) -> dict[str, set[str]]:
    """Of each condition the values that records have. A field that one lacks is a value, too."""
    every = [conditions(record) for record in records]
    names = {name for each in every for name in each}
    return {name: {each.get(name, ABSENT) for each in every} for name in names}
