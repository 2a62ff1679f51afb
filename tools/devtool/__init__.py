# SPDX-License-Identifier: Apache-2.0
"""What ./dev is made of: setup (packages), process (running things), stages (CI), commands, cli."""
