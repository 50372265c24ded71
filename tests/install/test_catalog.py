"""The commands that are registered, and how they are told from others'."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_memory.capture.settings import home_dir
from mcp_memory.clients import installable
from mcp_memory.clients.port import USER, Folders
from mcp_memory.install.catalog import Launch, is_our_hook, is_our_server, this_installation, wanted_entries


def test_the_registered_programs_exist() -> None:
    launch = this_installation(Path(home_dir({})))
    assert Path(launch.python).is_file()
    assert Path(launch.capture).is_file()
    assert launch.home == ""
    assert subprocess.run([*launch.server[:-1], "--version"], capture_output=True, check=True).stdout


def test_a_memory_elsewhere_is_written_into_the_registration(tmp_path: Path) -> None:
    launch = this_installation(tmp_path)
    assert launch.entry()["env"] == {"MCP_MEMORY_HOME": str(tmp_path)}
    assert shlex.split(launch.hook("codex"))[-2:] == ["--home", str(tmp_path)]


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell is needed")
def test_the_hook_runs_in_a_shell_and_captures_into_the_registered_home(tmp_path: Path) -> None:
    home = tmp_path / "a memory's home"
    payload = '{"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "hello", "cwd": "/tmp"}'
    command = this_installation(home).hook("claude-code")
    done = subprocess.run(
        command, shell=True, input=payload, text=True, capture_output=True, env={"HOME": str(tmp_path)}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(list((home / "spool").glob("*.json"))) == 1


@pytest.mark.parametrize("client", list(installable()))
def test_session_end_is_within_what_the_client_allows(client: str) -> None:
    launch = Launch("/p", "/h/hooks/capture.py", ("/s", "serve"))
    entries = wanted_entries(installable()[client], USER, Folders(Path("/home/ada")), launch).values()
    seconds = {name: entry["timeout"] for part in entries for name, entry in part.hooks.items()}
    most = {"claude-code": 1, "codex": 3, "gemini": 10_000, "cursor": 10}[client]
    assert seconds[next(name for name in seconds if name.lower() == "sessionend")] <= most
    assert min(seconds.values()) >= (1_000 if client == "gemini" else 1)


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("/usr/bin/python3 -I -S /x/hooks/capture.py --client codex", True),
        ("python '/my dir/hooks/capture.py' --client codex --home /m", True),
        (r'"C:/py/python.exe" -I -S "C:\x\mcp_memory\hooks\capture.py" --client cursor', True),
        ("python ~/src/mcp-memory/hooks/capture.py", True),
        ("python /x/hooks/capture.py", False),
        ("screen/capture.py --client x", False),
        ("true", False),
    ],
)
def test_our_hooks_are_told_from_others(command: str, ours: bool) -> None:
    assert is_our_hook({"command": command}) is ours


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        ({"command": "/venv/bin/mcp-memory", "args": ["serve"]}, True),
        ({"command": "python", "args": ["-m", "mcp_memory", "serve"]}, True),
        ({"command": "uvx", "args": ["mcp-memory", "serve"]}, True),
        ({"command": "/venv/bin/mcp-memory-toc", "args": ["serve"]}, True),
        ({"command": r"C:\py\Scripts\mcp-memory.exe"}, True),
        ({"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}, False),
        ({"url": "http://127.0.0.1:1"}, False),
        ("mcp-memory", False),
    ],
)
def test_our_servers_are_told_from_others(entry: object, ours: bool) -> None:
    assert is_our_server(entry) is ours
