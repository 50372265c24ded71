"""A memory, and repositories in which an agent's hook speaks up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mcp_memory.config import Calendar, Settings
from tests.support import REPO
from tests.surfaces.shell import Shell

HOOK = REPO / "hooks" / "capture.py"


class Desk(Shell):
    """A memory, and repositories in which an agent's hook speaks up."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.root = root
        del self.environment["MCP_MEMORY_NOW"]

    def repository(self, name: str, claim: str = "") -> Path:
        place = (self.root / name).resolve()
        (place / ".git").mkdir(parents=True)
        (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        if claim:
            (place / ".mcp-memory.toml").write_text(f'project = "{claim}"\n')
        return place

    def hook(self, place: Path, event: str, session: str, **more: str) -> str:
        payload = {"hook_event_name": event, "session_id": session, "cwd": str(place), **more}
        done = subprocess.run(
            [sys.executable, str(HOOK)],
            input=json.dumps(payload),
            env=self.environment,
            cwd=place,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0
        return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""

    def talk(self, place: Path, session: str, words: str) -> None:
        self.hook(place, "SessionStart", session, source="startup")
        self.hook(place, "UserPromptSubmit", session, prompt=words)
        self.hook(place, "SessionEnd", session)
        self.json("process")

    def at(self, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
        self.cwd = place
        return self.run(*words)

    def projects(self) -> dict[str, int]:
        return {project["slug"]: project["sessions"] for project in self.json("projects")["projects"]}

    def notes(self) -> dict[str, int]:
        """Return how many notes each project has."""
        lines = self.json("export")["lines"]
        return dict(Counter(line["project"] for line in lines if line["event_type"] == "note"))

    def settings(self) -> Settings:
        return Settings(home=self.home, calendar=Calendar("UTC"))
