"""A user's machine for the commands that edit or inspect it: a home, a project, a memory, no client installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(sys.executable).with_name("mcp-memory")


class Machine:
    """Runs the console script with nothing of the real user's in its environment."""

    def __init__(self, root: Path) -> None:
        self.home, self.project, self.memory = root / "home", root / "project", root / "memory"
        for folder in (self.home, self.project / ".git", self.project / "src", root / "bin"):
            folder.mkdir(parents=True)
        (self.project / ".git/HEAD").write_text("ref: refs/heads/main\n")
        self.env = {"PATH": str(root / "bin"), "HOME": str(self.home), "MCP_MEMORY_HOME": str(self.memory)}

    def run(self, *args: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPT), *args],
            cwd=cwd or self.project,
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    def json(self, *args: str) -> dict[str, Any]:
        done = self.run(*args, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def files(self) -> dict[str, bytes]:
        """Every file of the user, by name."""
        found = [path for base in (self.home, self.project) for path in base.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in found if ".git" not in path.parts}
