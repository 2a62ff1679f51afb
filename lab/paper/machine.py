# SPDX-License-Identifier: Apache-2.0
"""A model of a large machine: threads that work, free, and queue for an allocator's locks.

Replays counted events; it measures nothing. Each thread repeats: so many operations, then so many
blocks freed. Blocks go into the thread's buffer; each time the buffer runs over it is flushed: the
blocks in it belong to threads at random, and for each lock that guards some of them the thread
takes that lock, first come first served, and holds it for a base time and a time for each block.
How often a freed block leads to a flush is counted, for either policy. Only the many threads are
modelled.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

MOST_FLUSHES = 2


@dataclass(frozen=True)
class Events:
    """What one operation of a thread costs and causes, counted here."""

    work_ns: float
    """An operation without its frees."""
    frees: float
    """Blocks freed by an operation."""
    batch: float
    """Blocks freed in one go."""
    free_ns: float
    """A free that finds room in the buffer."""
    flushes: float
    """Flushes for each block freed."""
    flush_ns: float
    """A flush that waits for no other thread."""
    threads: int = 2
    """So many threads were counted: what they cost each other is in the figures above."""
    flushed: float = 96
    """Blocks that a flush gives back."""


@dataclass(frozen=True)
class Machine:
    """What cannot be counted here, and is assumed."""

    threads: int
    socket: int = 48
    """Threads of one socket."""
    remote_ns: float = 250
    """A cache line that another socket wrote last."""
    local_ns: float = 40
    """A cache line that another core of the same socket wrote last."""
    lines: float = 4
    """Lines that giving back one block touches: its page's entry, header and bitmap, and itself."""
    wake_ns: float = 4_000
    """Waking a thread that slept for a lock. A thread that waited longer than this pays it."""
    one_lock: bool = False
    """One list for all threads (tcmalloc) in place of one for each thread's arena (jemalloc)."""


@dataclass
class Outcome:
    """Rates of the whole machine and shares of its threads' time."""

    ops_per_s: float
    free_share: float
    wait_share: float
    flushes_per_s: float


def distinct(blocks: float, owners: int) -> float:
    """How many of so many owners some of the blocks belong to, when each has any owner."""
    return owners * (1 - (1 - 1 / owners) ** blocks)


def replay(events: Events, machine: Machine, acquisitions: int = 60_000, seed: int = 1) -> Outcome:
    """Runs the machine until so many locks were taken, or every thread went round often enough."""
    return _Replay(events, machine, random.Random(seed)).run(acquisitions)


class _Replay:
    def __init__(self, events: Events, machine: Machine, dice: random.Random):
        self.e, self.m, self.dice = events, machine, dice
        self.locks = 1 if machine.one_lock else machine.threads
        self.visits = max(1, round(distinct(events.flushed, self.locks)))
        self.miss_ns = max(0.0, self._miss(machine.threads) - self._miss(events.threads))
        own_ns = events.flush_ns / events.flushed
        per_visit = events.flushed / self.visits
        self.hold_ns = self.miss_ns + per_visit * (own_ns + machine.lines * self.miss_ns)
        self.free_at = [0.0] * self.locks
        self.taken = 0
        self.flush_count = 0

    def _miss(self, threads: int) -> float:
        """Reading a line that any thread may have had last."""
        far = max(0.0, 1 - self.m.socket / threads)
        line = far * self.m.remote_ns + (1 - far) * self.m.local_ns
        return (1 - 1 / threads) * line

    def run(self, acquisitions: int) -> Outcome:
        """Threads are steps of a generator each, in the order of their clocks."""
        ready = []
        for number in range(self.m.threads):
            thread = _Thread()
            thread.steps = self._life(thread)
            heapq.heappush(ready, (next(thread.steps), number, thread))
        warm, limit, start = acquisitions // 4, acquisitions, None
        end = None
        rounds = 0
        while ready:
            now, number, thread = heapq.heappop(ready)
            rounds += 1
            if start is None and (self.taken >= warm or rounds >= warm):
                start = now
                before = [t.sums() for _, _, t in [*ready, (now, number, thread)]]
                flushes = self.flush_count
            if start is not None and (self.taken >= limit or rounds >= 4 * limit):
                end = now
                after = [t.sums() for _, _, t in [*ready, (now, number, thread)]]
                break
            heapq.heappush(ready, (thread.steps.send(now), number, thread))
        span = max(end - start, 1.0)
        total = [sum(column) for column in zip(*after, strict=True)]
        first = [sum(column) for column in zip(*before, strict=True)]
        free_ns, wait_ns = (b - a for a, b in zip(first, total, strict=True))
        all_ns = span * self.m.threads
        # Operations are computed from the flushes, since they themselves come in lumps.
        flushed = (self.flush_count - flushes) / span * 1e9
        return Outcome(
            ops_per_s=flushed / self.e.flushes / self.e.frees,
            free_share=min(1.0, free_ns / all_ns),
            wait_share=min(1.0, wait_ns / all_ns),
            flushes_per_s=flushed,
        )

    def _life(self, thread: _Thread):
        """Yields the time at which the thread wants to do its next step."""
        e, dice = self.e, self.dice
        # Rounds that flush nothing are gone through at one step, and longer runs than of a few
        # flushes cut short: neither changes what the threads ask of the locks.
        batch = min(max(e.batch, 1 / e.flushes), MOST_FLUSHES / e.flushes)
        operations = batch / e.frees
        cycle = operations * e.work_ns + batch * e.free_ns
        cycle += batch * e.flushes * self.visits * self.hold_ns
        now = yield dice.random() * cycle
        owed = dice.random()
        while True:
            now = yield now + operations * e.work_ns * dice.uniform(0.9, 1.1)
            owed += batch * e.flushes
            flushes = int(owed)
            owed -= flushes
            parts = max(1, flushes)
            for _ in range(parts):
                now += batch * e.free_ns / parts
                thread.free_ns += batch * e.free_ns / parts
                if flushes:
                    now = yield from self._flush(thread, now)

    def _flush(self, thread: _Thread, now: float):
        locks = self.dice.sample(range(self.locks), self.visits)
        for lock in locks:
            now = yield now
            self.taken += 1
            begin = max(now, self.free_at[lock])
            wait = begin - now
            # A thread that slept is late by the time it takes to wake it. The lock is not held
            # during that time.
            late = self.m.wake_ns if wait > self.m.wake_ns else 0.0
            self.free_at[lock] = begin + self.hold_ns
            done = begin + self.hold_ns + late
            thread.wait_ns += wait + late
            thread.free_ns += done - now
            now = done
        self.flush_count += 1
        return now


class _Thread:
    """One thread's sums."""

    def __init__(self):
        self.steps = None
        self.free_ns = 0.0
        self.wait_ns = 0.0

    def sums(self) -> tuple[float, float]:
        return self.free_ns, self.wait_ns
