"""A user's machine for the commands that edit or inspect it: a home, a project, a memory, no client installed."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import touch_now
from tests.surfaces.shell import SCRIPT, here

HOUR = 3_600_000


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
        return here(args, {**self.env, **(env or {})}, cwd or self.project)

    def json(self, *args: str) -> dict[str, Any]:
        done = self.run(*args, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def files(self) -> dict[str, bytes]:
        """Every file of the user, by name."""
        found = [path for base in (self.home, self.project) for path in base.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in found if ".git" not in path.parts}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def problems(machine: Machine, **env: str) -> list[dict[str, str]]:
    done = machine.run("doctor", "--json", env=env)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["ok"]) == ((1, False) if answer["problems"] else (0, True)), done.stderr
    assert all(set(problem) == {"what", "why", "fix"} and all(problem.values()) for problem in answer["problems"])
    return list(answer["problems"])


def whats(machine: Machine, **env: str) -> list[str]:
    return [problem["what"] for problem in problems(machine, **env)]


def mend(machine: Machine) -> None:
    """Run the command that the first problem names."""
    name, *args = shlex.split(problems(machine)[0]["fix"])
    assert name == "mcp-memory"
    assert machine.run(*args).returncode == 0


def sql(machine: Machine, statement: str, *values: Any) -> None:
    local = any(f" {table} " in f"{statement} " for table in ("inbox", "checkpoint"))
    connection = sqlite3.connect(machine.memory / ("inbox.db" if local else "memory.db"), isolation_level=None)
    connection.execute(statement, values)
    connection.close()


def post(machine: Machine, received_ms: int, client: str = "claude-code") -> None:
    payload = json.dumps({"hook_event_name": "Stop", "session_id": "s", "at": received_ms})
    insert = "INSERT INTO inbox (received_ms, client, root, payload) VALUES (?, ?, '/', ?)"
    sql(machine, insert, received_ms, client, payload)


def fire(machine: Machine, **fields: Any) -> None:
    """Have Claude Code's registered hook run, as the client does."""
    settings = json.loads((machine.home / ".claude/settings.json").read_text())
    command = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
    payload = {"hook_event_name": "Stop", "session_id": "s", "cwd": str(machine.project), **fields}
    subprocess.run(command, shell=True, input=json.dumps(payload).encode(), env=machine.env, check=True)
    for file in (machine.memory / "spool").glob("*.json"):
        touch_now(file)


def connected(machine: Machine) -> Machine:
    """The machine, on which Claude Code has our hook now, and has used it."""
    assert machine.run("install", "claude-code").returncode == 0
    fire(machine)
    assert machine.run("process").returncode == 0
    return machine
