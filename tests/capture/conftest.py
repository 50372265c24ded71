"""A scratch user whose hooks run as clients run them: as a process of their own."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).parents[2]
HOOK = REPO / "hooks" / "capture.py"
SCHEMA = sorted((REPO / "mcp_memory" / "store" / "sqlite" / "schema" / "inbox").glob("*.sql"))


class Machine:
    """A home for memory, a project, and the hook."""

    def __init__(self, place: Path) -> None:
        self.home = place / "home"
        self.project = place / "project"
        self.project.mkdir(parents=True)
        self.database = self.home / "inbox.db"

    def command(self, *args: str, python: str = sys.executable) -> list[str]:
        return [python, "-I", "-S", str(HOOK), *args]

    def environment(self, **env: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MCP_MEMORY_")}
        return {**kept, "MCP_MEMORY_HOME": str(self.home), **env}

    def payload(self, event: str, **fields: object) -> dict[str, Any]:
        return {"hook_event_name": event, "session_id": "s1", "cwd": str(self.project), **fields}

    def hook(
        self, payload: object, *args: str, python: str = sys.executable, **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        done = subprocess.run(
            self.command(*args, python=python),
            input=data,
            capture_output=True,
            env=self.environment(**env),
            cwd=self.project,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        return done

    def make_database(self, version: int = len(SCHEMA)) -> None:
        """An inbox as the server makes it, or as one of an earlier version did."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        with closing(sqlite3.connect(self.database)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            for step in SCHEMA[:version] or SCHEMA:
                database.executescript(step.read_text(encoding="utf-8"))
            database.execute(f"PRAGMA user_version = {version}")

    def say(self, brief: str, place: str = "") -> None:
        with closing(sqlite3.connect(self.database)) as database, database:
            database.execute("INSERT INTO brief VALUES (?, ?, 0)", (place or str(self.project.resolve()), brief))

    def rows(self) -> list[dict[str, Any]]:
        """What is in the inbox, oldest first."""
        if not self.database.exists():
            return []
        with closing(sqlite3.connect(self.database)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute("SELECT * FROM inbox ORDER BY id")]

    def handed(self) -> list[dict[str, Any]]:
        """What was noted of what agents were given, oldest first."""
        with closing(sqlite3.connect(self.database)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute("SELECT * FROM handed ORDER BY id")]

    def spooled(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in sorted((self.home / "spool").glob("*"))]

    def payloads(self) -> list[dict[str, Any]]:
        """Whatever was captured, wherever it is."""
        return [json.loads(row["payload"]) for row in self.rows() + self.spooled()]

    def disk(self) -> bytes:
        """Every byte below the home, the write-ahead log included."""
        return b"".join(path.read_bytes() for path in sorted(self.home.rglob("*")) if path.is_file())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
