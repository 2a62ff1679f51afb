# SPDX-License-Identifier: Apache-2.0
"""The claims of 'Are Your Epochs Too Epic? Batch Free Can Be Harmful' beside what was seen."""

from __future__ import annotations

from dataclasses import dataclass

from lab import look, words
from lab.paper import arms, factors
from lab.stats import (
    DEFAULT,
    Config,
    allocator_groups,
    by_conditions,
    compare,
    find,
    stalled,
)
from lab.verdict import CONTRADICTED, LEVEL, MISSING, SEEN, Sub, weakest


@dataclass(frozen=True)
class Claim:
    claim: str
    paper: str
    here: str
    verdict: str


def check(configs: list[Config], ref: words.Reference | None) -> list[Claim]:
    return [
        _amortized_faster(ref),
        _beats(
            ref,
            ("none", "batch"),
            "Token, amortized, is faster than leaking",
            "faster at every thread count (figure 11a)",
        ),
        _beats_rivals(ref),
        _pauses(configs),
        _pile_up(configs),
        _mimalloc(configs),
        _robust(configs),
    ]


def _verdict(claims: list[Sub]) -> str:
    return weakest(claim.verdict for claim in claims)


def _amortized_faster(ref) -> Claim:
    claim, paper = "Freeing a few at a time is faster than in batches", "2.6 × (DEBRA)"
    gains = words.release_gains(ref.at()) if ref else []
    if not gains:
        return Claim(claim, paper, "–", MISSING)
    here = ", ".join(f"{look.scheme(s).title} {look.times(g.ratio)}" for s, g in gains)
    judged = [
        arms.of_configs(ref.find((s, "amortized")), ref.find((s, "batch")), "ops_per_s", "speed",
                        factor=2.56 if s == "debra" else 1.0, varies=factors.RELEASE)
        for s, _ in gains
    ]  # fmt: skip
    return Claim(claim, paper, here, _verdict(judged))


def _beats(ref, rival: tuple[str, str], claim: str, paper: str, factor: float = 1.0) -> Claim:
    one, other = (ref.find(DEFAULT), ref.find(rival)) if ref else (None, None)
    if not one or not other:
        return Claim(claim, paper, "–", MISSING)
    gain = compare(one.ops_per_s, other.ops_per_s)
    judged = arms.of_configs(one, other, "ops_per_s", "speed", factor=factor)
    return Claim(claim, paper, look.times(gain.ratio), judged.verdict)


def _beats_rivals(ref) -> Claim:
    claim = "Token, amortized, is faster than every other scheme in its published (batch) form"
    paper = "1.7 × the next fastest (NBR+)"
    rivals = [c for c in ref.at() if c.scheme not in ("token", "none")] if ref else []
    rivals = [c for c in rivals if not c.scheme.startswith("token") and c.release == "batch"]
    ours = ref.find(DEFAULT) if ref else None
    if not rivals or not ours:
        return Claim(claim, paper, "–", MISSING)
    best = max(rivals, key=lambda c: c.ops_per_s.median)
    factors = {"neutralization_plus": 1.7}
    judged = [arms.of_configs(ours, c, "ops_per_s", "speed", factor=factors.get(c.scheme, 1.0))
              for c in rivals]  # fmt: skip
    gain = compare(ours.ops_per_s, best.ops_per_s)
    here = f"{look.times(gain.ratio)} {words.title(best.series)}"
    return Claim(claim, paper, here, _verdict(judged))


def _pauses(configs) -> Claim:
    claim = "Freeing in batches causes long single pauses, amortized freeing does not"
    paper = "many frees of milliseconds against few (figure 3)"
    pair = words.pause_pair(configs)
    if not pair:
        return Claim(claim, paper, "–", MISSING)
    change = compare(pair[1].free_ns_p999, pair[0].free_ns_p999)
    if change is None:
        return Claim(claim, paper, "–", MISSING)
    here = f"99.9 %: {look.times(change.ratio)} shorter amortized"
    judged = arms.of_configs(
        pair[1], pair[0], "free_ns_p999", "pause, 99.9 %", varies=factors.RELEASE
    )
    return Claim(claim, paper, here, judged.verdict)


def _pile_up(configs) -> Claim:
    claim = "The naive token piles up garbage"
    paper = "garbage grows through the whole run (figure 6)"
    best = None
    for members in by_conditions(configs).values():
        if members[0].conditions.stall:
            continue
        for config in members:
            twin = find(members, DEFAULT, config.threads)
            if config.scheme == "token_naive" and twin:
                change = compare(config.garbage_peak, twin.garbage_peak)
                if change and (best is None or config.threads > best[1]):
                    best = change, config.threads, config, twin
    if best is None:
        return Claim(claim, paper, "–", MISSING)
    change, threads, *both = best
    here = f"{look.times(change.ratio)} the garbage of token, amortized, at {threads} threads"
    judged = arms.of_configs(*both, "garbage_peak", "garbage")
    return Claim(claim, paper, here, judged.verdict)


def _mimalloc(configs) -> Claim:
    claim = "On mimalloc amortized freeing brings nothing, on the others it does"
    paper = "mimalloc 0.91 ×, jemalloc 2.6 ×, tcmalloc 3.3 ×"
    gains, judged = {}, []
    for members in allocator_groups(configs):
        for name in {c.conditions.allocator for c in members}:
            own = [c for c in members if c.conditions.allocator == name]
            both = [find(own, (DEFAULT[0], release)) for release in ("amortized", "batch")]
            if not all(both):
                continue
            gains[name] = compare(*(c.ops_per_s for c in both))
            how = {"kind": LEVEL} if name == "mimalloc" else {}
            judged.append(
                arms.of_configs(*both, "ops_per_s", "speed", varies=factors.RELEASE, **how)
            )
    if "mimalloc" not in gains or len(gains) < 2:
        return Claim(claim, paper, "–", MISSING)
    here = ", ".join(f"{name} {look.times(gain.ratio)}" for name, gain in sorted(gains.items()))
    return Claim(claim, paper, here, _verdict(judged))


def _robust(configs) -> Claim:
    claim = "Robust schemes hold their bound with a stalled reader, epochs hold none"
    paper = "a single delayed thread can keep all from reclaiming"
    kept, broken, unbounded = words.bounds(stalled(configs))
    if not kept and not broken:
        return Claim(claim, paper, "–", MISSING)
    here = f"{len(kept)} of {len(kept) + len(broken)} bounds kept"
    if unbounded:
        most = max(c.garbage_peak.high for c in unbounded)
        here += f"; without a bound up to {look.count(most)} nodes"
    return Claim(claim, paper, here, CONTRADICTED if broken else SEEN)
