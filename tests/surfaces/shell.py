"""The console script, run as a user would in a directory with a memory of its own."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from mcp_memory.surfaces import cli

SCRIPT = Path(sys.executable).with_name("mcp-memory")


def _in_a_loop() -> bool:
    """Whether an event loop runs here, in which a command could not start its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextlib.contextmanager
def _logging_apart() -> Iterator[None]:
    """A command sets up the logging of its process; here it does so for itself alone."""
    loggers = [(each, each.handlers, each.level) for each in (logging.getLogger(), logging.getLogger("mcp_memory"))]
    raises, disabled = logging.raiseExceptions, logging.root.manager.disable
    for logger, _, _ in loggers:
        logger.handlers = []
    try:
        yield
    finally:
        for logger, handlers, level in loggers:
            for handler in logger.handlers:
                handler.close()
            logger.handlers = handlers
            logger.setLevel(level)
        logging.raiseExceptions = raises
        logging.disable(disabled)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def here(
    args: tuple[str, ...], env: Mapping[str, str], cwd: Path, columns: int = 0, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """A command in this process, which spares the start of another one; given columns, it prints on a terminal."""
    out, err = _Terminal() if columns else io.StringIO(), io.StringIO()
    if columns:
        env = {"TERM": "xterm-256color", "LANG": "C.UTF-8", **env, "COLUMNS": str(columns)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, env, clear=True))
        stack.enter_context(mock.patch.object(sys, "stdin", io.StringIO(stdin)))
        stack.enter_context(contextlib.chdir(cwd))
        stack.enter_context(_logging_apart())
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            code = cli.main(args)
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())


class Shell:
    """Runs the console script in a directory with a memory of its own."""

    def __init__(self, root: Path) -> None:
        self.home, self.cwd = root / "home", root / "work"
        self.cwd.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "MCP_MEMORY_HOME": str(self.home),
            "MCP_MEMORY_CALENDAR_TIMEZONE": "UTC",
            "MCP_MEMORY_NOW": "2026-03-10T12:00:00Z",
        }

    def run(self, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command, in this process if it can be: tests need many of them, and each start takes its time."""
        if _in_a_loop():
            return self.script(*args, **environment)
        return here(args, self.environment | environment, self.cwd)

    def feed(self, stdin: str, *args: str) -> subprocess.CompletedProcess[str]:
        """A command with something on its standard input."""
        return here(args, self.environment, self.cwd, stdin=stdin)

    def script(self, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command in a process of its own."""
        return subprocess.run(
            [str(SCRIPT), *args],
            cwd=self.cwd,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    def json(self, *args: str) -> dict[str, Any]:
        """What a command that must succeed says."""
        done = self.run(*args, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))
