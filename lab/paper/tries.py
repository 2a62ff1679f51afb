# SPDX-License-Identifier: Apache-2.0
"""How often what fails is tried, and which of it is told of."""

from __future__ import annotations

from collections.abc import Iterable

# In one run; what a run before it has left failed is tried once more.
MOST = 2


class Tries:
    """Of cells and commands by name, over all rounds of one run."""

    def __init__(self, failed_before: Iterable[str] = ()):
        self.left = dict.fromkeys(failed_before, 1)

    def allows(self, name: str) -> bool:
        return self.left.get(name, MOST) > 0

    def failed(self, name: str) -> None:
        self.left[name] = self.left.get(name, MOST) - 1


def reasons(failures: Iterable[dict]) -> dict[str, str]:
    """Of each name why it failed last."""
    return {entry["cell"]: str(entry.get("failure")) for entry in failures}
