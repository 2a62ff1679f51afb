# SPDX-License-Identifier: Apache-2.0
"""The one kind of error that is the user's to mend."""


class LabError(Exception):
    """Says in one line what is wrong and what is allowed; the program ends with exit code 2."""


def one_of(what: str, name: str, allowed, source: str = "") -> LabError:
    """The error for an unknown name, with the names that are known."""
    return LabError(f"{source}unknown {what} '{name}'; known: {', '.join(allowed)}")
