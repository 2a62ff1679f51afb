# SPDX-License-Identifier: Apache-2.0
"""The rules of the house that a program can check. Each module has a check(tree) that yields
findings (path, line, message)."""
