# SPDX-License-Identifier: Apache-2.0
"""Cells (one configuration each) and the matrices they are written as."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lab.errors import LabError, one_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# A list is searched from its head, so it gets far fewer keys than a tree when none are named.
DEFAULT_KEYS = {"abtree": 200_000, "avl": 200_000, "external_bst": 200_000, "list": 1_000,
                "urcu_list": 1_000, "cds_michael_list": 1_000, "cds_lazy_list": 1_000}  # fmt: skip
LIMITS = {
    "threads": (1, 4096),
    "keys": (2, 10**10),
    "update": (0, 100),
    "seconds": (0.01, 3600),
    "trials": (1, 1000),
    "batch": (1, 2**31),
    "seed": (0, 2**63 - 1),
    "timeout": (1, 86_400),
    "minutes": (0.05, 10_000),
}


@dataclass(frozen=True)
class Cell:
    """One configuration of spolia-bench together with the allocator under it."""

    structure: str
    scheme: str
    release: str
    threads: int
    keys: int
    update: int
    seconds: float
    allocator: str = "glibc"
    stall: bool = False
    batch: int | None = None
    trace: bool = False
    count: bool = False
    twin: bool = False  # the same once more, to compare with

    def configuration(self) -> dict:
        """What is not counted, or no twin, leaves no word of it: older results keep their names."""
        fields = asdict(self)
        return {k: v for k, v in fields.items() if v or k not in ("count", "twin")}

    def hash(self) -> str:
        """Names the cell in a results file; equal configurations have equal names forever."""
        text = json.dumps(self.configuration(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def combination(self) -> tuple[str, str, str]:
        return self.structure, self.scheme, self.release

    def label(self) -> str:
        extras = [self.allocator]
        if self.stall:
            extras.append("stalled reader")
        if self.batch:
            extras.append(f"batch {self.batch}")
        if self.trace:
            extras.append("traced")
        if self.count:
            extras.append("counted")
        if self.twin:
            extras.append("twin")
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{self.structure} {self.scheme}/{self.release} {threads} {' '.join(extras)}"

    def arguments(self, seed: int) -> list[str]:
        """What spolia-bench is told, without where to write."""
        words = ["sets"]
        for name in ("structure", "scheme", "release", "threads", "keys", "update"):
            words += [f"--{name}", str(getattr(self, name))]
        words += ["--seconds", f"{self.seconds:g}", "--trials", "1", "--seed", str(seed)]
        if self.stall:
            words.append("--stall")
        if self.batch:
            words += ["--batch", str(self.batch)]
        if self.count:
            words.append("--count")
        return words


@dataclass
class Matrix:
    """The product of its lists; unsupported combinations are dropped by `expand`."""

    structure: list[str] = field(default_factory=lambda: ["abtree"])
    scheme: list[str] = field(default_factory=lambda: ["none", "token", "debra"])
    release: list[str] = field(default_factory=lambda: ["batch", "amortized"])
    threads: list[int] = field(default_factory=lambda: [1, 2, 4])
    keys: list[int] = field(default_factory=list)
    update: list[int] = field(default_factory=lambda: [100])
    seconds: list[float] = field(default_factory=lambda: [1.0])
    allocator: list[str] = field(default_factory=lambda: ["glibc"])
    stall: list[bool] = field(default_factory=lambda: [False])
    batch: list[int | None] = field(default_factory=lambda: [None])
    trace: list[bool] = field(default_factory=lambda: [False])
    count: list[bool] = field(default_factory=lambda: [False])

    def cells(self) -> list[Cell]:
        found = []
        for structure in self.structure:
            keys = self.keys or [DEFAULT_KEYS.get(structure, 200_000)]
            product = itertools.product(
                self.scheme, self.release, self.threads, keys, self.update, self.seconds,
                self.allocator, self.stall, self.batch, self.trace, self.count,
            )  # fmt: skip
            found += [Cell(structure, *values) for values in product]
        return found


@dataclass
class Plan:
    """Everything a sweep needs to know before its first trial."""

    cells: list[Cell]
    trials: int = 3
    seed: int = 1
    skipped: list[Cell] = field(default_factory=list)


def check_number(name: str, value, source: str = "") -> None:
    """Refuses numbers that cannot be meant; `source` says where the number stood."""
    low, high = LIMITS[name]
    whole = name not in ("seconds", "minutes")
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not good or (whole and value != int(value)) or not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        raise LabError(f"{source}{name} is {value!r}; it must be {kind} from {low} to {high}")


def check_matrix(matrix: Matrix, catalogue, allocators, source: str = "") -> None:
    """Refuses unknown names and absurd numbers, each with what is allowed."""
    known = {
        "structure": catalogue.structures,
        "scheme": catalogue.schemes,
        "release": catalogue.releases,
        "allocator": allocators,
    }
    for what, names in known.items():
        for name in getattr(matrix, what):
            if name not in names:
                raise one_of(what, str(name), names, source)
    for what in ("threads", "keys", "update", "seconds", "batch"):
        for value in getattr(matrix, what):
            if value is not None:
                check_number(what, value, source)
    for what in ("stall", "trace", "count"):
        for value in getattr(matrix, what):
            if not isinstance(value, bool):
                raise LabError(f"{source}{what} is {value!r}; it must be true or false")


def expand(matrices: list[Matrix], catalogue) -> tuple[list[Cell], list[Cell]]:
    """All cells of all matrices, each once: those that can run, and those that cannot."""
    cells = list(dict.fromkeys(cell for matrix in matrices for cell in matrix.cells()))
    good = [c for c in cells if catalogue.runs(c)]
    bad = [c for c in cells if not catalogue.runs(c)]
    return good, bad


def read_toml(path: Path, defaults: Matrix) -> tuple[list[Matrix], dict]:
    """The matrices of a TOML file and its plan-wide settings (trials, seed)."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LabError(f"{path} is not valid TOML: {error}") from error
    tables = data.pop("matrix", [{}])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise LabError(f"{path}: matrices are written as [[matrix]] tables")
    settings = {name: data.pop(name) for name in ("trials", "seed") if name in data}
    common = _fields(data, f"{path}: ")
    matrices = []
    for number, table in enumerate(tables, 1):
        own = _fields(table, f"{path}, matrix {number}: ")
        matrices.append(replace(defaults, **{**common, **own}))
    return matrices, settings


def _fields(table: dict, source: str) -> dict:
    allowed = list(Matrix.__dataclass_fields__)
    for name in table:
        if name not in allowed:
            raise one_of("setting", name, [*allowed, "trials", "seed"], source)
    values = {}
    for name, value in table.items():
        values[name] = value if isinstance(value, list) else [value]
        if not values[name]:
            raise LabError(f"{source}{name} is empty; name at least one value")
    return values
