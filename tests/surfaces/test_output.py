"""What a terminal shows while a command works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

if sys.platform == "win32":
    pytest.skip("terminals are opened by POSIX's means", allow_module_level=True)

WAITING = """
import sys
from mcp_memory.surfaces import output
output.MOMENT_SECONDS = float(sys.argv[1])
with output.spinner("Counting the kestrels", enabled=sys.argv[2] == "shown"):
    sys.stdin.readline()
print("done")
"""


def seen(command: list[str], *, until: str = "") -> str:
    """All that a program shows on a terminal; it gets its one line of input once `until` is there."""
    mine, its = os.openpty()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=its, stderr=its) as process:
        os.close(its)
        shown = b""
        while until.encode() not in shown:
            shown += os.read(mine, 1_000)
        assert process.stdin is not None
        process.stdin.close()
        try:
            while part := os.read(mine, 1_000):
                shown += part
        except OSError:  # how Linux tells that the other end is closed
            pass
    os.close(mine)
    assert process.returncode == 0
    return shown.decode()


def test_work_that_takes_longer_than_a_moment_shows_that_it_goes_on() -> None:
    shown = seen([sys.executable, "-c", WAITING, "0", "shown"], until="Counting the kestrels")
    assert shown.rstrip().endswith("done")


@pytest.mark.parametrize("args", [["60", "shown"], ["0", "json"]])
def test_short_work_and_machines_see_nothing_of_it(args: list[str]) -> None:
    assert seen([sys.executable, "-c", WAITING, *args]).strip() == "done"
