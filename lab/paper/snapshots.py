# SPDX-License-Identifier: Apache-2.0
"""The promise of versions (PPoPP 2023): memory over time with one snapshot held throughout."""

from __future__ import annotations

from lab import charts, legends, look
from lab.paper import arms, blocks, factors
from lab.paper.found import Found
from lab.paper.page import Page, Shown, one_trial
from lab.verdict import BOUND, EQUAL, Sub

# What is measured, of `spolia-bench snapshots`; without a time, so many updates.
ARGUMENTS = ("--structure", "hash,tree", "--keys", "20000", "--update", "100",
             "--rtx-share", "0", "--hold")  # fmt: skip
UPDATES = "3200000"  # beside the snapshot that is held
TITLES = {"hash": "Hash map", "tree": "Tree"}
# Versions at the end, and the bytes of their blocks, over those that are current or seen by the
# snapshot; and a constant: 5 P B, three threads of which one holds the snapshot, B = 64.
PROMISED = 1.3
EPOCHS, TRACKING = "epoch_collector", ("bbf", "dl_rt", "sl_rt")
CONSTANT = 960


def _held(found: Found) -> list[dict]:
    return [
        r for r in found.snapshots
        if r.get("hold") and r.get("versions_needed") and r.get("bytes_over_time")
    ]  # fmt: skip


def _over_time(records: list[dict]) -> dict:
    top = max(r["bytes_peak"] for r in records)
    low = max(1, min(b for r in records for _, b in r["bytes_over_time"]))
    data = [
        {
            "type": "scatter", "mode": "lines", "meta": r["collector"],
            "x": [ms / 1000 for ms, _ in r["bytes_over_time"]],
            "y": [max(1, b) for _, b in r["bytes_over_time"]],
            "line": {"color": look.collector_colour(r["collector"]), "width": 2.2},
            "hoverinfo": "text",
            "hovertext": [f"<b>{look.collector_title(r['collector'])}</b><br>"
                          f"{ms / 1000:.2f} s: {look.size(b)}" for ms, b in r["bytes_over_time"]],
        }
        for r in records
    ]  # fmt: skip
    ticks, texts = look.log_ticks(low, top, look.size)
    y = charts.axis("bytes in blocks, logarithmic", type="log", tickvals=ticks, ticktext=texts)
    return charts.figure(data, 340, charts.axis("seconds"), y)


def _row(record: dict) -> list:
    return [
        f"{TITLES.get(record['structure'], record['structure'])}, "
        f"{look.collector_title(record['collector'])}",
        look.count(record["updates"]), look.rate(record["updates_per_s"]),
        look.count(record["versions_live"]), look.count(record["versions_peak"]),
        look.count(record["versions_needed"]), f"{_excess(record):.2f}",
        look.size(record["bytes"]), look.size(record["bytes_peak"]), look.size(_waiting(record)),
        look.size(record["bytes_needed"]), f"{_weight(record):.2f}",
    ]  # fmt: skip


def _show(found: Found) -> Shown | None:
    last: dict[tuple[str, str], dict] = {}
    for r in _held(found):
        last[r["structure"], r["collector"]] = r
    if not last:
        return None
    made = []
    for structure in sorted({s for s, _ in last}):
        some = [r for (s, _), r in sorted(last.items()) if s == structure]
        legend = legends.collectors([r["collector"] for r in some])
        title = f"{TITLES.get(structure, structure)}, one snapshot held throughout"
        made.append(blocks.charts_block(title, [_over_time(some)], legend))
    head = ["", "updates", "updates/s", "versions at the end", "most during the run", "needed",
            "at the end, over needed", "bytes at the end", "most during the run",
            "at the end, waiting to be freed", "needed",
            "without those waiting, over needed"]  # fmt: skip
    made.append(blocks.table(head, [_row(r) for _, r in sorted(last.items())]))
    kept = {key: r for key, r in last.items() if key[1] != "epoch_collector"}
    if not kept:
        return Shown(made, "Only the epoch collector was run.", _claims(found))
    worst = max(kept, key=lambda key: _excess(kept[key]))
    here = (
        f"At the end the collectors that collect between snapshots hold at most "
        f"{_excess(kept[worst]):.2f} times the versions that are needed "
        f"({TITLES.get(worst[0], worst[0])}, {look.collector_title(worst[1])}), and at most "
        f"{max(_weight(r) for r in kept.values()):.2f} times their bytes, and on top of that up to "
        f"{look.size(max(_waiting(r) for r in kept.values()))} that wait to be freed. The page "
        f"asks for at most {PROMISED} times, and {CONSTANT} versions more"
    )
    epochs = [_excess(r) for key, r in last.items() if key[1] == "epoch_collector"]
    if epochs:
        here += f". Epochs hold up to {max(epochs):.0f} times the versions that are needed"
    return Shown(made, here + ".", _claims(found))


def _excess(record: dict) -> float:
    return record["versions_live"] / record["versions_needed"]


def _waiting(record: dict) -> int:
    return record.get("bytes_waiting") or 0


def _weight(record: dict) -> float:
    return (record["bytes"] - _waiting(record)) / record["bytes_needed"]


def _allowed(record: dict) -> float:
    """What is promised: so many times what is needed, in versions and in the bytes of so many."""
    return PROMISED + CONSTANT / record["versions_needed"]


def versions_share(record: dict) -> float | None:
    """Versions that are held, of those that the promise allows; None: nothing was needed."""
    return _excess(record) / _allowed(record) if record.get("versions_needed") else None


def bytes_share(record: dict) -> float | None:
    """The same of the bytes of their blocks."""
    return _weight(record) / _allowed(record) if record.get("versions_needed") else None


def _claims(found: Found) -> list[Sub]:
    """That epochs keep what was overwritten, those which track ranges keep what is promised, and
    epochs hold more."""
    records = arms.where(found.snapshots, hold=True)
    claims: list[Sub] = []
    for structure in TITLES:
        mine = arms.where(records, structure=structure)
        kept, made = (
            arms.arm(mine, f"{look.collector_title(EPOCHS)}: {what}", field, collector=EPOCHS)
            for field, what in (("versions_live", "versions at the end"), ("updates", "updates"))
        )
        claims.append(arms.claim(kept, made, TITLES[structure], 1 / EQUAL, BOUND,
                                 factors.WITHIN))  # fmt: skip
        for collector in TRACKING:
            told = f"{TITLES[structure]}, {look.collector_title(collector)}"
            some = arms.where(mine, collector=collector)
            claims += [
                arms.promised(some, f"{told}: {what}, of what is promised", share, 1.0)
                for what, share in (("versions", versions_share), ("bytes", bytes_share))
            ]
            claims.append(arms.versus(mine, "collector", EPOCHS, collector, "versions_live",
                                      told=f"{told}: versions at the end",
                                      varies=factors.COLLECTOR))  # fmt: skip
    return arms.measured(claims)


HELD = Page(
    key="held-snapshot", name="Snapshots, one held",
    title="Memory over time with one snapshot held",
    paper="A collector that only knows the oldest snapshot keeps everything that was overwritten "
          "since; those that track ranges keep what is current, what the snapshot sees "
          "and a constant (PPoPP 2023, sections 2 to 5).",
    cells=one_trial,
    show=_show,
    commands=lambda scale: [("snapshots", *ARGUMENTS, "--updates", UPDATES)],
    limits="Bytes of the blocks that were given out and not taken back, what waits to be freed "
           "included: threads that lose the processor in the middle of an operation hold that up "
           "for a while, which shows as peaks.",
)  # fmt: skip

PAGES = [HELD]
