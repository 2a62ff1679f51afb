# SPDX-License-Identifier: Apache-2.0
"""What `./dev` starts, once there is a Python."""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)

from devtool.cli import main  # noqa: E402  (the path above has to come first)

sys.exit(main(sys.argv[1:]))
