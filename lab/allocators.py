# SPDX-License-Identifier: Apache-2.0
"""Allocators that can be put under the benchmark with LD_PRELOAD."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

FOLDERS = [
    Path(f"/usr/lib/{platform.machine()}-linux-gnu"),
    Path("/usr/lib64"),
    Path("/usr/lib"),
    Path("/usr/local/lib"),
]


@dataclass(frozen=True)
class Allocator:
    name: str
    patterns: tuple[str, ...]
    package: str

    def library(self) -> Path | None:
        """The shared object to preload; None for glibc and where it is not installed."""
        for folder in FOLDERS:
            for pattern in self.patterns:
                found = sorted(folder.glob(pattern), key=lambda path: len(path.name))
                if found:
                    return found[0]
        return None

    def installed(self) -> bool:
        return not self.patterns or self.library() is not None


ALLOCATORS = {
    allocator.name: allocator
    for allocator in (
        Allocator("glibc", (), ""),
        Allocator("jemalloc", ("libjemalloc.so.2",), "libjemalloc2"),
        Allocator("tcmalloc", ("libtcmalloc_minimal.so.4",), "libtcmalloc-minimal4"),
        Allocator("mimalloc", ("libmimalloc.so.2*", "libmimalloc.so.3*"), "libmimalloc2.0"),
    )
}


def installed() -> list[str]:
    return [name for name, allocator in ALLOCATORS.items() if allocator.installed()]


def preload(name: str) -> dict[str, str]:
    """What the environment of a trial needs for this allocator."""
    library = ALLOCATORS[name].library()
    return {"LD_PRELOAD": str(library)} if library else {}
