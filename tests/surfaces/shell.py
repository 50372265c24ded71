"""The console script, run as a user would in a directory with a memory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(sys.executable).with_name("mcp-memory")


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
        done = self.run(*args, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))
