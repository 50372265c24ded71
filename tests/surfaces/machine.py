"""A user's machine for the commands that edit or inspect it: a home, a project, a memory, no client installed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from mcp_memory.surfaces import cli

SCRIPT = Path(sys.executable).with_name("mcp-memory")


class Machine:
    """Runs commands with nothing of the real user's in their environment."""

    def __init__(self, root: Path) -> None:
        self.home, self.project, self.memory = root / "home", root / "project", root / "memory"
        for folder in (self.home, self.project / ".git", self.project / "src", root / "bin"):
            folder.mkdir(parents=True)
        (self.project / ".git/HEAD").write_text("ref: refs/heads/main\n")
        self.env = {"PATH": str(root / "bin"), "HOME": str(self.home), "MCP_MEMORY_HOME": str(self.memory)}

    def script(self, *args: str) -> subprocess.CompletedProcess[str]:
        """The console script, as the user starts it."""
        command = [str(SCRIPT), *args]
        return subprocess.run(
            command, cwd=self.project, env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )

    def run(
        self, *args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same in this process, which spares a start per command."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, {**self.env, **(env or {})}, clear=True))
            stack.enter_context(contextlib.chdir(cwd or self.project))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            try:
                code = cli.main(args)
            except SystemExit as end:
                code = int(end.code or 0)
        return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())

    def json(self, *args: str) -> dict[str, Any]:
        done = self.run(*args, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def files(self) -> dict[str, bytes]:
        """Every file of the user, by name."""
        found = [path for base in (self.home, self.project) for path in base.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in found if ".git" not in path.parts}
