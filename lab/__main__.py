# SPDX-License-Identifier: Apache-2.0
"""Entry point of `python -m lab`."""

from lab.cli import main

main()
