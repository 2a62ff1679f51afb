# SPDX-License-Identifier: Apache-2.0
"""The claims of 'Are Your Epochs Too Epic? Batch Free Can Be Harmful' beside what was seen, by the
rule of the papers' pages. A claim is undecided if what it names did not run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab import look, words
from lab.paper import arms, factors
from lab.paper.amortizing import IMMUNE, PAPER_FACTORS, gains_of
from lab.paper.evaluation import LEAK
from lab.paper.evaluation import OURS as PAPERS  # its ring, and not ours
from lab.paper.tokens import early_garbage, late_garbage
from lab.stats import Config, allocator_groups, by_conditions, compare, find, stalled
from lab.verdict import CONTRADICTED, MISSING, Arm, Sub, weakest

NAIVE, NEXT = ("token_naive", "batch"), ("neutralization_plus", "batch")
DEBRA = "debra"
AHEAD = 1.7  # times as fast as the next fastest, NBR+


@dataclass(frozen=True)
class Claim:
    claim: str
    paper: str
    here: str
    verdict: str


def check(configs: list[Config], ref: words.Reference | None) -> list[Claim]:
    return [
        _amortized_faster(ref),
        _beats_leaking(ref),
        _beats_rivals(ref),
        _pauses(configs),
        _pile_up(configs),
        _mimalloc(configs),
        _robust(configs),
    ]


def _verdict(claims: Iterable[Sub]) -> str:
    return weakest(claim.verdict for claim in claims)


def _times(one: Config | None, other: Config | None, field: str = "ops_per_s") -> str:
    """As far as it is known."""
    known = compare(*(getattr(c, field) for c in (one, other))) if one and other else None
    return look.times(known.ratio) if known else "–"


def _amortized_faster(ref) -> Claim:
    """Of every scheme that ran both ways, and of DEBRA."""
    claim, paper = "Freeing a few at a time is faster than in batches", "2.6 × (DEBRA)"
    both = {s: [ref.find((s, release)) for release in ("amortized", "batch")]
            for s in sorted({c.scheme for c in ref.at()})} if ref else {}  # fmt: skip
    ran = {s: pair for s, pair in both.items() if all(pair)}
    if not ran:
        return Claim(claim, paper, "–", MISSING)
    judged = [
        arms.of_configs(*ran.get(s, (None, None)), "ops_per_s", "speed", varies=factors.RELEASE,
                        factor=PAPER_FACTORS["jemalloc"] if s == DEBRA else 1.0)
        for s in {*ran, DEBRA}
    ]  # fmt: skip
    here = ", ".join(f"{look.scheme(s).title} {_times(*pair)}" for s, pair in ran.items())
    return Claim(claim, paper, here, _verdict(judged))


def _beats_leaking(ref) -> Claim:
    claim = "The paper's token, amortized, is faster than leaking"
    paper = "faster at every thread count (figure 11a)"
    ours, leak = (ref.find(PAPERS), ref.find(LEAK)) if ref else (None, None)
    if not ours or not leak:
        return Claim(claim, paper, "–", MISSING)
    counts = sorted({c.threads for c in ref.configs if c.series in (PAPERS, LEAK)})
    judged = [arms.of_series(ref.configs, PAPERS, LEAK, threads, "ops_per_s", "speed")
              for threads in counts]  # fmt: skip
    here = ", ".join(f"{_times(*(find(ref.configs, s, n) for s in (PAPERS, LEAK)))} with "
                     f"{words.threads_text(n)}" for n in counts)  # fmt: skip
    return Claim(claim, paper, here, _verdict(judged))


def _beats_rivals(ref) -> Claim:
    """Of those that ran, by name, and of the next fastest in the paper."""
    paper = f"{AHEAD} × the next fastest (NBR+)"
    rivals = [c for c in ref.at() if c.scheme != "none" and not c.scheme.startswith("token")
              and c.release == "batch"] if ref else []  # fmt: skip
    names = words.listed([look.scheme(c.scheme).title for c in rivals]) or "other schemes"
    claim = f"The paper's token, amortized, is faster than {names} with batches"
    ours = ref.find(PAPERS) if ref else None
    if not rivals or not ours:
        return Claim(claim, paper, "–", MISSING)
    series = dict.fromkeys([NEXT, *(c.series for c in rivals)])
    judged = [arms.of_configs(ours, ref.find(s), "ops_per_s", "speed",
                              factor=AHEAD if s == NEXT else 1.0) for s in series]  # fmt: skip
    here = ", ".join(f"{_times(ours, c)} {words.title(c.series)}" for c in rivals)
    return Claim(claim, paper, here, _verdict(judged))


def _pauses(configs) -> Claim:
    claim = "Freeing in batches causes long single pauses, amortized freeing does not"
    paper = "many frees of milliseconds against few (figure 3)"
    amortized, batch = words.pause_pair(configs) or (None, None)
    if amortized is None:
        return Claim(claim, paper, "–", MISSING)
    here = f"99.9 %: {_times(batch, amortized, 'free_ns_p999')} shorter amortized"
    judged = arms.of_configs(
        batch, amortized, "free_ns_p999", "pause, 99.9 %", varies=factors.RELEASE
    )
    return Claim(claim, paper, here, judged.verdict)


def _pile_up(configs) -> Claim:
    """In one set of conditions, the one with most threads: that garbage grows to the end, and that
    there is more of it than with DEBRA."""
    claim = "The naive token piles up garbage"
    paper = "garbage grows through the whole run (figure 6)"
    able = [(c.threads, c.conditions.structure == "abtree", len(members), c, members)
            for conditions, members in by_conditions(configs).items() if not conditions.stall
            for c in members if c.series == NAIVE]  # fmt: skip
    if not able:
        return Claim(claim, paper, "–", MISSING)
    threads, _, _, naive, members = max(able, key=lambda one: one[:3])
    debra = find(members, (DEBRA, "batch"), threads)
    judged = [
        _grows(naive),
        arms.of_configs(naive, debra, "garbage_peak", "garbage"),
    ]
    here = f"{_times(naive, debra, 'garbage_peak')} the garbage of DEBRA at {threads} threads"
    return Claim(claim, paper, here, _verdict(judged))


def _grows(config: Config) -> Sub:
    records = arms.records_of(config)
    late, early = (
        Arm(f"{look.series_title(config.series)}: garbage, {when} quarter", records, of)
        for when, of in (("last", late_garbage), ("second", early_garbage))
    )
    return arms.claim(late, early, arms.place(config), varies=factors.WITHIN)  # fmt: skip


def _mimalloc(configs) -> Claim:
    """Of DEBRA, as in the paper, in the group with most allocators. What it gains under one that
    the paper does not have is told only."""
    claim = "On mimalloc amortized freeing brings nothing, on jemalloc and tcmalloc it does"
    paper = "mimalloc 0.91 ×, jemalloc 2.6 ×, tcmalloc 3.3 × (DEBRA)"
    ran: dict[str, tuple[Config, Config]] = {}
    for members in allocator_groups(configs):
        found: dict[str, tuple[Config, Config]] = {}
        for name in sorted({c.conditions.allocator for c in members}):
            own = [c for c in members if c.conditions.allocator == name]
            batch, amortized = (find(own, (DEBRA, release)) for release in ("batch", "amortized"))
            if batch and amortized:
                found[name] = batch, amortized
        ran = max(ran, found, key=len)
    if IMMUNE not in ran or len(ran) < 2:
        return Claim(claim, paper, "–", MISSING)
    judged = [gains_of(*ran.get(name, (None, None)), name)[0] for name in (*PAPER_FACTORS, IMMUNE)]
    here = ", ".join(f"{name} {_times(*reversed(pair))}" for name, pair in ran.items())
    return Claim(claim, paper, here, _verdict(judged))


def _robust(configs) -> Claim:
    """A bound that one trial breaks is broken; that it is kept takes as many trials as any bound.
    Of those without one, that garbage grows as long as the reader stands still."""
    claim = "Robust schemes hold their bound with a stalled reader, epochs hold none"
    paper = "a single delayed thread can keep all from reclaiming"
    kept, broken, unbounded = words.bounds(stalled(configs))
    if not kept and not broken:
        return Claim(claim, paper, "–", MISSING)
    here = f"{len(kept)} of {len(kept) + len(broken)} bounds kept"
    if unbounded:
        most = max(c.garbage_peak.high for c in unbounded)
        here += f"; without a bound up to {look.count(most)} nodes"
    if broken:
        return Claim(claim, paper, here, CONTRADICTED)
    judged: list[Sub] = [
        arms.promised(arms.records_of(c), f"{look.series_title(c.series)}: garbage, of its bound",
                      of_bound, 1.0, arms.place(c)) for c in kept
    ]  # fmt: skip
    judged += [_grows(c) for c in unbounded if c.scheme != "none"] or [
        arms.missed("garbage without a bound", "", "not measured")
    ]
    return Claim(claim, paper, here, _verdict(judged))


def of_bound(record: dict) -> float | None:
    """Garbage at its peak, of what the scheme says it is at most."""
    peak, bound = record.get("garbage_peak"), record.get("garbage_bound")
    return None if peak is None or not bound else peak / bound
