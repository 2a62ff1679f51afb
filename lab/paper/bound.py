# SPDX-License-Identifier: Apache-2.0
"""The bound on versions (PPoPP 2023), H + c P^2 log P: what is held and not needed, with many
threads for each core. All stand still at times, so that both are counted at one instant."""

from __future__ import annotations

import math
from itertools import product

from lab import look
from lab.paper import arms, blocks
from lab.paper.found import Found
from lab.paper.page import Page, Scale, Shown, one_trial

THREADS = 32
TITLES = {"hash": "Hash map", "tree": "Tree"}
KEYS = {0.0: "uniform", 0.99: "Zipf, 0.99"}
TRACKING = ("bbf", "dl_rt", "sl_rt")
COMMON = ("--structure", "hash,tree", "--collector", ",".join(TRACKING),
          "--still-every", "100")  # fmt: skip
MIXED = ("--threads", "32", "--update", "50", "--rtx-share", "1", "--rtx", "1024")
UPDATES = ("--threads", "32", "--update", "100", "--rtx-share", "0")
BESIDE = ("--threads", "16", "--update", "100", "--rtx-share", "0",
          "--small-readers", "8", "--readers", "8")  # fmt: skip
# By what records of them are called.
WORK = {
    "mixed": MIXED, "updates only": UPDATES, "beside 1024": (*BESIDE, "--rtx", "1024"),
    **{f"beside 16 to {most}": (*BESIDE, "--rtx", "16", "--rtx-most", most)
       for most in ("256", "65536")},
}  # fmt: skip

# With P threads and B = P log P, of the collectors' promise; of BBF+ twice that, and as many as
# there are lists.
OF_THREADS, OF_ENDED, OF_NEEDED = 5, 6, 3


def _workers(record: dict) -> int:
    return sum(record.get(field) or 0 for field in ("threads", "readers", "small_readers"))


def _share(record: dict) -> float:
    """The c of the bound, were all that is not needed put down to it."""
    p = max(2, _workers(record))
    return record["versions_excess_peak"] / (p * p * math.log2(p))


def _allowed(record: dict) -> float:
    """Versions that the bound allows on top of those that are needed."""
    ever = _workers(record) + 2  # and the thread that filled the map, and the one that counts
    batch = max(64, ever * ever.bit_length())
    current = record["versions_current"]
    needed = max(0, record["versions_needed_peak"] - current)
    once = OF_NEEDED * needed + OF_THREADS * ever * batch + OF_ENDED * batch
    return (2 * once + current if record["collector"] == "bbf" else once) - needed


def share_of_allowed(record: dict) -> float | None:
    """Versions that are held and obsolete, of those that the bound allows; None: in no moment of
    the trial was that counted."""
    return record["versions_excess_peak"] / _allowed(record) if record.get("stills") else None


def _work(record: dict) -> str:
    if not record.get("readers"):
        return "mixed" if record.get("rtx_share") else "updates only"
    least, most = record["rtx"], record["rtx_most"]
    return f"beside {least}" + (f" to {most}" if most not in (0, least) else "")


def _row(record: dict) -> list:
    return [
        f"{TITLES[record['structure']]}, {look.collector_title(record['collector'])}",
        _work(record), KEYS.get(record["theta"], f"Zipf, {record['theta']}"),
        str(record["stills"]), look.count(record["versions_peak"]),
        look.count(record["versions_needed_peak"]), look.count(record["versions_excess_peak"]),
        f"{_share(record):.2f}", look.percent(share_of_allowed(record)),
    ]  # fmt: skip


def _show(found: Found) -> Shown | None:
    last, every = {}, {}
    for r in found.snapshots:
        asked = r.get("still_every") or r.get("stills")
        if asked and not r.get("hold") and r["structure"] in TITLES:
            key = (r["structure"], r["collector"], _work(r), r["theta"])
            every.setdefault(key, []).append(r)
            last |= {key: r} if r.get("stills") else {}
    if not last:
        return None
    head = ["", "read transactions", "keys", "times counted", "most versions", "most needed",
            "most not needed", "of P² log P", "of what is allowed"]  # fmt: skip
    table = blocks.table(head, [_row(r) for _, r in sorted(last.items())])
    worst = max(last.values(), key=_share)
    nearest = max(share_of_allowed(r) or 0.0 for r in last.values())
    here = (
        f"At most {_share(worst):.2f} P² log P versions are held that are obsolete "
        f"({TITLES[worst['structure']]}, {look.collector_title(worst['collector'])}), "
        f"{look.percent(nearest)} of what the collectors allow themselves."
    )
    claims = [
        arms.promised(every.get(key, ()), f"{TITLES[key[0]]}, {look.collector_title(key[1])}, "
                      f"{key[2]}, {KEYS[key[3]]}: versions held that are obsolete, of what is "
                      "allowed", share_of_allowed, 1.0)
        for key in product(TITLES, TRACKING, WORK, KEYS)
    ]  # fmt: skip
    return Shown([table], here, claims)


def _commands(scale: Scale) -> list[tuple[str, ...]]:
    size = ("--keys", str(scale.keys), "--seconds", f"{scale.seconds / 2:g}")
    return [("snapshots", *COMMON, *size, "--theta", str(theta), *work)
            for work in WORK.values() for theta in KEYS]  # fmt: skip


BOUND = Page(
    key="snapshots-bound", name="Snapshots, the bound",
    title="Obsolete versions that are held, many threads",
    paper="At any moment at most H + c P² log P versions are linked, H those that are current or "
          "seen by a snapshot, P the threads, c a constant (PPoPP 2023, sections 2 to 5).",
    cells=one_trial,
    show=_show,
    commands=_commands,
    limits=f"{THREADS} threads in all. Each tenth of a second all stand still, in the middle of "
           "their read transactions, and what is needed is counted; what is not is let go of at "
           "this. The most versions are of samples in between, too.",
)  # fmt: skip

PAGES = [BOUND]
