# SPDX-License-Identifier: Apache-2.0
"""Runs the checks: `python3 tools/lint [CHECK...]`, from anywhere. Prints file:line: message."""

import pathlib
import sys

TOOLS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOOLS))

from lint import (  # noqa: E402
    banned,
    departures,
    faults,
    floors,
    headers,
    limits,
    messages,
    orders,
    prose,
    references,
    tables,
    words,
)
from lint.source import tree  # noqa: E402

CHECKS = {
    "floors": floors.check,
    "orders": orders.check,
    "headers": headers.check,
    "limits": limits.check,
    "banned": banned.check,
    "departures": departures.check,
    "references": references.check,
    "faults": faults.check,
    "tables": tables.check,
    "messages": messages.check,
    "words": words.check,
    "prose": prose.check,
}


def main(arguments: list[str]) -> int:
    unknown = [name for name in arguments if name not in CHECKS]
    if unknown:
        print(f"lint: no check '{unknown[0]}'; there are {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    project = tree(TOOLS.parent)
    bad = 0
    for name in arguments or CHECKS:
        findings = sorted(CHECKS[name](project))
        for path, line, message in findings:
            print(f"{path}:{line}: {message}")
        print(f"lint: {name} ... {'ok' if not findings else f'{len(findings)} findings'}")
        bad += bool(findings)
    return 1 if bad else 0


sys.exit(main(sys.argv[1:]))
