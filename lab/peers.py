# SPDX-License-Identifier: Apache-2.0
"""The reports of `spolia-bench reports` by SQLite and DuckDB: a table of the same shape, one
connection that holds a snapshot from before all rows were updated, another that updates, and what
a row costs in each report there and at a new snapshot. One thread, processor time.

    python -m lab.peers --rows 100000 --age 10 --json peers.jsonl

SQLite has a file of its own, with a log (WAL) that is not synced, and prices as whole numbers.
DuckDB is in memory, with decimals; its rows are updated in bulk, half of the table by a statement,
since it is not made for single ones. An engine that is not installed is left out."""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import string
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import duckdb
except ImportError:
    duckdb = None

COLUMNS = ("orderkey", "linenumber", "quantity", "extendedprice", "discount", "tax", "returnflag",
           "linestatus", "shipdate", "comment")  # fmt: skip
FIRST_DAY, LAST_DAY, OPEN_FROM = 8035, 10560, 9298
DAYS = {"q1_end": 10472, "q6_begin": 8766, "q6_end": 9131}  # since 1970, as shipdate is
# Sums as the store's program takes them, and products, which SQL can say.
Q1 = """select returnflag, linestatus, sum(quantity), sum(extendedprice),
    sum(extendedprice * ({one} - discount)),
    sum(extendedprice * ({one} - discount) * ({one} + tax)), avg(quantity), avg(extendedprice),
    avg(discount), count(*)
    from lineitem where shipdate < {q1_end} group by 1, 2 order by 1, 2"""
Q6 = """select sum(extendedprice * discount) from lineitem where shipdate >= {q6_begin}
    and shipdate < {q6_end} and discount between 5 * {unit} and 7 * {unit}
    and quantity < 2400 * {unit}"""
LETTERS = string.ascii_lowercase[:16]
LEAST, MOST = 3, 30


def rows(count: int, dice: random.Random) -> Iterator[tuple]:
    for n in range(count):
        shipped = dice.randint(FIRST_DAY, LAST_DAY)
        still_open = shipped > OPEN_FROM
        yield (n // 4, n % 4, *changed(dice)[:3], dice.randrange(9),
               "N" if still_open else dice.choice("AR"), "O" if still_open else "F", shipped,
               comment(dice))  # fmt: skip


def changed(dice: random.Random) -> tuple:
    """Quantity, price and discount, in hundredths, and a comment."""
    return (100 * dice.randint(1, 50), 90_000 + dice.randrange(10_000_000), dice.randrange(11),
            comment(dice))  # fmt: skip


def comment(dice: random.Random) -> str:
    text = "".join(dice.choices(LETTERS, k=dice.randint(20, 60)))
    return text if dice.randrange(50) else "special" + text[7:]


class Sqlite:
    name, version = "sqlite", sqlite3.sqlite_version
    one, unit = "100", "1"
    text = "select count(*) from lineitem where instr(comment, 'special') > 0"

    def __init__(self, folder: Path):
        self.path = folder / "peers.db"
        self.writer = self.connect()
        self.writer.execute("pragma journal_mode=wal")
        self.writer.execute("pragma synchronous=off")
        self.writer.execute(
            f"create table lineitem({', '.join(COLUMNS)}, primary key(orderkey, linenumber))"
        )

    def connect(self):
        return sqlite3.connect(self.path, isolation_level=None)

    def fill(self, made: Iterator[tuple]) -> None:
        self.writer.execute("begin")
        marks = ", ".join("?" * len(COLUMNS))
        self.writer.executemany(f"insert into lineitem values ({marks})", made)
        self.writer.execute("commit")

    def update(self, count: int, age: int, dice: random.Random) -> None:
        for _ in range(age):
            self.writer.execute("begin")
            self.writer.executemany(
                "update lineitem set quantity = ?, extendedprice = ?, discount = ?, comment = ?"
                " where orderkey = ? and linenumber = ?",
                ((*changed(dice), n // 4, n % 4)
                 for n in (dice.randrange(count) for _ in range(count))),
            )  # fmt: skip
            self.writer.execute("commit")


class Duckdb:
    name, version = "duckdb", getattr(duckdb, "__version__", "")
    one, unit = "1", "0.01"
    text = "select count(*) from lineitem where contains(comment, 'special')"

    def __init__(self, folder: Path):
        self.writer = duckdb.connect()
        self.writer.execute("set threads = 1")
        number = "decimal(15, 2)"
        types = ("bigint", "bigint", number, number, number, number, "varchar", "varchar",
                 "integer", "varchar")  # fmt: skip
        columns = ", ".join(f"{c} {t}" for c, t in zip(COLUMNS, types, strict=True))
        self.writer.execute(f"create table lineitem({columns})")
        self.file = folder / "rows.csv"

    def connect(self):
        return self.writer.cursor()

    def fill(self, made: Iterator[tuple]) -> None:
        with self.file.open("w") as out:
            for row in made:
                hundredths = (f"{value / 100:.2f}" for value in row[2:6])
                out.write(",".join(map(str, (*row[:2], *hundredths, *row[6:]))) + "\n")
        self.writer.execute(f"copy lineitem from '{self.file}' (header false)")

    def update(self, count: int, age: int, dice: random.Random) -> None:
        for _ in range(age):
            for half in (0, 1):
                self.writer.execute(
                    "update lineitem set quantity = 1 + floor(random() * 50),"
                    " extendedprice = 900 + random() * 100000, discount ="
                    " floor(random() * 11) / 100, comment = substr(comment, 2) || 'x'"
                    " where (orderkey * 4 + linenumber) % 2 = ?", [half])  # fmt: skip


def queries(engine) -> dict[str, str]:
    values = {"one": engine.one, "unit": engine.unit, **DAYS}
    return {"q1": Q1.format(**values), "q6": Q6.format(**values), "text": engine.text}


def timed(count: int, run: Callable[[], list]) -> tuple[float, list]:
    """Nanoseconds of processor time a row, and what was found."""
    begin = time.thread_time_ns()
    found = run()
    return (time.thread_time_ns() - begin) / count, found


def measure(engine_type, count: int, age: int, seconds: float, seed: int) -> dict:
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="spolia-peers-") as folder:
        engine = engine_type(Path(folder))
        engine.fill(rows(count, dice))
        asked = queries(engine)
        old, new = engine.connect(), engine.connect()
        old.execute("begin")
        ask = {name: (lambda at, text=text: at.execute(text).fetchall())
               for name, text in asked.items()}  # fmt: skip
        expected = {name: run(old) for name, run in ask.items()}
        engine.update(count, age, dice)
        costs: dict[str, list[float]] = {}
        start = time.monotonic()
        for n in range(MOST):
            if n >= LEAST and time.monotonic() - start >= seconds:
                break
            for name, run in ask.items():
                cost, _ = timed(count, lambda run=run: run(new))
                costs.setdefault(f"new_{name}_ns", []).append(cost)
                cost, found = timed(count, lambda run=run: run(old))
                costs.setdefault(f"old_{name}_ns", []).append(cost)
                if found != expected[name]:
                    raise SystemExit(f"{engine.name}: {name} at the old snapshot has changed")
        old.execute("commit")
        for connection in (old, new, engine.writer):
            connection.close()
    medians = {name: round(statistics.median(all_of), 2) for name, all_of in costs.items()}
    return {"kind": "reports", "engine": engine.name, "engine_version": engine.version,
            "versions": engine.name, "rows": count, "age": age, "report_age": age, "seed": seed,
            "threads": 1, "seconds": seconds, **medians}  # fmt: skip


def engines(order: int = 0) -> list:
    """As by `spolia-bench --order`: odd ones go backwards, after each two another one begins."""
    every = [Sqlite, *([Duckdb] if duckdb else [])]
    begin = order // 2 % len(every)
    turned = every[begin:] + every[:begin]
    return turned[::-1] if order % 2 else turned


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.peers", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--age", type=int, default=10, help="updates a row")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--order", type=int, default=0, help="in which the engines take turns")
    parser.add_argument("--json", type=Path, required=True, help="append records here")
    options = parser.parse_args()
    for trial in range(options.trials):
        for engine in engines(options.order):
            record = measure(engine, options.rows, options.age, options.seconds, trial + 1)
            with options.json.open("a") as out:
                out.write(json.dumps({**record, "trial": trial}) + "\n")


if __name__ == "__main__":
    main()
