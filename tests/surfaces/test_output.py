"""What a terminal shows while a command works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_memory.surfaces import output
from mcp_memory.surfaces.process_command import until_idle, watched
from tests.support import conversation, learn, memory, tell
from tests.surfaces.shell import Shell

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


COUNTING = """
import sys
from mcp_memory.surfaces import output
output.MOMENT_SECONDS = 0
with output.progress("Counting", enabled=True, unit=sys.argv[1]) as meter:
    meter(1_000, 4_000)
    sys.stdin.readline()
print("done")
"""


@pytest.mark.parametrize(
    ("unit", "told"), [("kestrels", "1,000 of 4,000 kestrels"), ("bytes", "1.0 kB of 4.0 kB")], ids=["many", "bytes"]
)
def test_work_that_tells_how_far_it_is_shows_how_much_is_left(unit: str, told: str) -> None:
    assert seen([sys.executable, "-c", COUNTING, unit], until=told).rstrip().endswith("done")


@pytest.mark.parametrize(
    ("speed", "told"),
    [
        (None, "10 of 70 kestrels"),
        (2.0, "10 of 70 kestrels · 2/s · 0:00:30 left"),
        (0.5, "10 of 70 kestrels · 30/min · 0:02:00 left"),
    ],
)
def test_rate_and_time_left_are_told_once_they_are_known(speed: float | None, told: str) -> None:
    assert output.pace(10, 70, "kestrels", speed) == told


class Noted(output.Meter):
    """Keeps what it is told."""

    def __init__(self, label: str, unit: str, *, shown: bool) -> None:
        super().__init__(label, unit, shown=shown)
        self.told: list[tuple[int, int, str, str]] = []

    def __call__(self, done: int, total: int, label: str = "", unit: str = "") -> None:
        self.told.append((done, total, label, unit))


@pytest.mark.anyio
async def test_the_pipeline_tells_what_is_left_of_each_stage(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        meter = Noted("Processing", "", shown=True)
        lines = [line for day in range(1, 4) for line in conversation(f"2026-03-0{day}", session=f"s{day}")]
        await tell(app, lines)
        await until_idle(app, watch=watched(app, meter))
    assert meter.told[0] == (0, 3, "Summarizing", "segments")
    assert (0, 3, "Rolling up", "periods") in meter.told


@pytest.mark.anyio
async def test_a_backup_tells_its_pages(tmp_path: Path) -> None:
    meter = Noted("Copying", "pages", shown=True)
    async with memory(tmp_path / "home") as app:
        await learn(app, conversation())
        await app.store.backup(tmp_path / "copy.db", meter)
    done, pages, *_ = meter.told[-1]
    assert done == pages > 0


def test_facts_are_shown_in_words_and_not_as_python_values(capsys: pytest.CaptureFixture[str]) -> None:
    nested = {"input_tokens": 7, "cost": None, "asked": False, "ids": ["a"]}
    shape = {"ready": True, "cost_today": 0.0, "price": 0.25, "reason": None, "by": {}, "used": nested, "set": [1]}
    output.facts(shape)
    assert capsys.readouterr().out.splitlines() == [
        "ready       yes",
        "cost today  0",
        "price       0.25",
        "reason      –",
        "by          –",
        "used        input tokens 7, cost –, asked no",
        "set         1",
    ]


@pytest.mark.parametrize("command", [["models"], ["status", "--verbose"], ["process", "--dry-run"]])
def test_no_command_prints_python_values(shell: Shell, command: list[str]) -> None:
    shell.json("remember", "The harbour gate is green.")
    done = shell.run(*command)
    assert done.returncode == 0
    assert not re.search(r"\b(None|True|False)\b|[{}]", done.stdout)
