"""The first command on a fresh machine, whichever it is: what it makes is private, and made whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from mcp_memory.store.sqlite.database import Database
from tests.support import REPO
from tests.surfaces.machine import Machine
from tests.surfaces.shell import SCRIPT

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="modes of files")
#: Runs a program and fails if it makes a directory in the memory that others could enter, be it for a moment.
GUARDED = """
import os, runpy, sys
home = os.environ["MCP_MEMORY_HOME"]
def guard(event, args):
    if event == "os.mkdir" and os.path.abspath(args[0]).startswith(home) and args[1] & 0o077:
        os.write(2, f"WIDE {args[0]} {args[1]:o}\\n".encode())
        os._exit(99)
sys.addaudithook(guard)
os.umask(int(os.environ["TEST_UMASK"], 8))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "Mend the kite."}
COMMANDS: dict[str, list[str]] = {
    "demo": ["demo"],
    "import": ["import", "history.jsonl"],
    "process": ["process"],
    "status": ["status"],
    "doctor": ["doctor"],
    "toc": ["toc"],
    "search": ["search", "kite"],
    "remember": ["remember", "The kite flies at four."],
    "install": ["install", "claude-code"],
    "export": ["export", "-o", "out.jsonl"],
    "markdown": ["export", "--format", "markdown", "-o", "pages"],
    "backup": ["backup", "copy.db"],
    "serve": ["serve"],
}


def first(machine: Machine, program: Path, *args: str, umask: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", GUARDED, str(program), *args],
        cwd=machine.project,
        env={**machine.env, "TEST_UMASK": umask},
        capture_output=True,
        text=True,
        input=stdin,
        timeout=60,
    )


def wide(folder: Path) -> list[str]:
    """What in the data directory, itself included, others could use, or its owner could not."""
    found = [(path, path.stat().st_mode & 0o777) for path in (folder, *folder.rglob("*"))]
    return [f"{path} {mode:o}" for path, mode in found if mode != (0o700 if path.is_dir() else 0o600)]


@posix_only
@pytest.mark.parametrize(("name", "umask"), [*((name, "000") for name in COMMANDS), ("demo", "077"), ("serve", "077")])
def test_whichever_command_comes_first_makes_a_private_directory(tmp_path: Path, name: str, umask: str) -> None:
    machine = Machine(tmp_path)
    machine.env["MCP_MEMORY_HOME"] = str(tmp_path / "data" / "memory")
    line = {"session_id": "s", "timestamp": "2026-03-02T09:00:00Z", "role": "user", "text": "Mend the kite."}
    (machine.project / "history.jsonl").write_text(json.dumps(line) + "\n")
    done = first(machine, SCRIPT, *COMMANDS[name], umask=umask)
    memory = tmp_path / "data" / "memory"
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert memory.is_dir() or name == "doctor"
    assert not memory.exists() or wide(memory) == []
    assert [path for path in machine.project.glob("pages/**/*") if path.stat().st_mode & 0o077] == []


@posix_only
@pytest.mark.parametrize("umask", ["000", "077"])
def test_a_hook_that_comes_first_makes_a_private_directory(tmp_path: Path, umask: str) -> None:
    machine = Machine(tmp_path)
    done = first(machine, REPO / "hooks" / "capture.py", umask=umask, stdin=json.dumps(PROMPT))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((machine.memory / "spool").iterdir())) == 1
    assert wide(machine.memory) == []
    assert first(machine, SCRIPT, "process", umask=umask).returncode == 0
    assert wide(machine.memory) == []


@posix_only
def test_a_directory_that_others_could_enter_is_narrowed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.memory.mkdir()
    machine.memory.chmod(0o755)
    assert machine.run("status").returncode == 0
    assert machine.memory.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_servers_that_start_at_once_share_one_new_memory(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [str(SCRIPT), "remember", f"Kite number {number} flies."],
                    cwd=machine.project,
                    env=machine.env,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(6)
        ]
        told = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [0] * 6, told
    assert machine.json("status")["events"] == 6
    assert not list(machine.memory.glob("memory.db.new*"))


def test_a_database_of_zero_bytes_is_damage_and_not_a_new_memory(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.run("remember", "The kite flies at four.").returncode == 0
    for name in ("memory.db-wal", "memory.db-shm"):
        (machine.memory / name).unlink(missing_ok=True)
    database = machine.memory / "memory.db"
    os.truncate(database, 0)
    for command in (["status"], ["toc"], ["remember", "More"], ["process"]):
        done = machine.run(*command)
        assert done.returncode == 1
        assert "memory.db is damaged (it is empty" in done.stderr
        assert "doctor --repair" in done.stderr
        assert database.stat().st_size == 0
    found = json.loads(machine.run("doctor", "--json").stdout)["problems"]
    assert any(problem["what"] == f"{database} is damaged" and "empty" in problem["why"] for problem in found)
    # What is captured meanwhile is kept.
    hook = [sys.executable, str(REPO / "hooks" / "capture.py")]
    subprocess.run(hook, input=json.dumps(PROMPT).encode(), env=machine.env, cwd=machine.project, check=True)
    assert len(list((machine.memory / "spool").iterdir())) == 1
    assert database.stat().st_size == 0
    done = machine.run("doctor", "--repair")
    assert done.returncode == 0, done.stderr
    assert "Nothing could be read" in done.stdout
    assert machine.json("status")["events"] == 1


@pytest.mark.anyio
async def test_a_new_memory_that_could_not_be_finished_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    """As a kill leaves it: half made under another name, or made and not yet rid of that name."""
    half = tmp_path / "memory.db.new-1-aa"
    half.write_bytes(b"")
    os.utime(half, (1, 1))
    async with Database.open(tmp_path / "memory.db") as database:
        assert await database.value("SELECT count(*) FROM event") == 0
    os.link(tmp_path / "memory.db", tmp_path / "memory.db.new-2-bb")
    async with Database.open(tmp_path / "memory.db") as database:
        assert await database.value("SELECT count(*) FROM event") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["memory.db"]


@pytest.mark.anyio
async def test_a_memory_that_another_process_makes_is_left_alone_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = tmp_path / "memory.db.new-1-aa"
    half.write_bytes(b"")
    ahead = time.time() + 3_600
    monkeypatch.setattr(time, "time", lambda: ahead)
    async with Database.open(tmp_path / "memory.db"):
        assert half.exists()
