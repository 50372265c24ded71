"""The option `--now MOMENT`, which runs tests as if it were another time.

It sets the clock of the test process, which goes on ticking from there; each module of tests begins at the moment
itself, so that a test meets the same time however many run before it. What only measures how long something takes,
`time.monotonic` and the event loop, is left alone. A program that a test starts gets the time of its start as
MCP_MEMORY_NOW, at which its clock stands still, unless the test sets that variable to something else or to nothing. The
hook ignores that variable, and so do the tokens of a team: their time is the real one. For their sake the clock of the
hook and of the console script is set as that of the tests is.

A moment without an offset is one of the local time zone, which TZ in the environment may set.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine

from tests.support import REPO

HOOK = REPO / "hooks" / "capture.py"
SCRIPT = Path(sys.executable).with_name("mcp-memory")
AT_MOMENT = Path(__file__).with_name("at_moment.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--now", metavar="MOMENT", help="run the tests as if it were this time (RFC 3339)")


def pytest_configure(config: pytest.Config) -> None:
    given = config.getoption("now")
    if given is None:
        return
    try:
        moment = datetime.fromisoformat(given).astimezone()
    except ValueError:
        raise pytest.UsageError(f"--now {given} is not a time such as 2027-01-01T00:03Z") from None
    travel = time_machine.travel(moment, tick=True)
    config.pluginmanager.register(_Clock(moment, travel.start()), "clock of the tests")
    config.add_cleanup(travel.stop)
    config.add_cleanup(_tell_programs())


class _Clock:
    """Sets the clock back to the moment whenever another module of tests begins."""

    def __init__(self, moment: datetime, traveller: time_machine.Traveller) -> None:
        self._moment, self._traveller = moment, traveller
        self._module: Path | None = None

    def pytest_report_header(self) -> str:
        return f"clock: {self._moment.isoformat()} ({time.tzname[0]})"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if item.path != self._module:
            self._module = item.path
            self._traveller.move_to(self._moment, tick=True)


def _tell_programs() -> Any:
    """Let programs that are started know the time; return what ends that."""
    begin: Any = vars(subprocess.Popen)["__init__"]

    def begin_now(self: Any, args: Any, *more: Any, env: Any = None, **options: Any) -> None:
        now = datetime.now().astimezone()
        told = {"MCP_MEMORY_NOW": now.isoformat(timespec="milliseconds")} | dict(os.environ if env is None else env)
        begin(self, _at(now, args), *more, env=told, **options)

    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(subprocess.Popen, "__init__", begin_now)
    return monkeypatch.undo


def _at(now: datetime, command: Any) -> Any:
    """Return a command so that the hook or the console script in it runs at a time; a shell may start the hook."""
    before = [str(AT_MOMENT), str(round(now.timestamp() * 1000))]
    if isinstance(command, str):
        return command.replace(str(HOOK), f"{shlex.join(before)} {HOOK}")
    if not isinstance(command, list | tuple):
        return command
    if command and str(command[0]) == str(SCRIPT):
        return [sys.executable, *before, *command]
    return [part for given in command for part in ([*before, given] if str(given) == str(HOOK) else [given])]
