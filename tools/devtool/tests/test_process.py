# SPDX-License-Identifier: Apache-2.0
"""Nothing runs on that a process has started which was told to end."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2]
# Starts a shell and a program under it, which print their process ids. Under nohup we ignore
# hangups, and so would it.
PROGRAM = """
import pathlib, signal, sys
from devtool import process
signal.signal(signal.SIGHUP, signal.SIG_DFL)
process.end_when_told()
command = ["sh", "-c", "echo $$; sleep 1000 & echo $!; wait"]
try:
    {}
finally:
    process.end_children()
"""


def alive(pid):
    """Zombies are not: there may be no process that takes what they leave."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@unittest.skipUnless(os.path.exists("/proc/self/stat"), "processes are looked at in /proc")
class told_to_end(unittest.TestCase):
    def check(self, call, how):
        mine = subprocess.Popen(
            [sys.executable, "-B", "-u", "-c", PROGRAM.format(call)],
            env=dict(os.environ, PYTHONPATH=str(TOOLS)),
            stdout=subprocess.PIPE,
            text=True,
        )
        with mine.stdout:
            children = [int(mine.stdout.readline()) for _ in range(2)]
        self.addCleanup(lambda: [os.kill(one, signal.SIGKILL) for one in children if alive(one)])
        self.assertTrue(all(alive(one) for one in children))
        mine.send_signal(how)
        self.assertEqual(mine.wait(), 128 + how)
        while any(alive(one) for one in children):
            time.sleep(0.01)

    def test_what_runs_with_the_output_attached(self):
        self.check("process.plain(command)", signal.SIGTERM)

    def test_what_is_watched(self):
        log = "pathlib.Path('/dev/null')"
        self.check(f"process.watched(command, 1000, {log}, verbose=True)", signal.SIGHUP)


if __name__ == "__main__":
    unittest.main()
