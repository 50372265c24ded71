"""Which client wrote a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_memory.clients import CLIENTS, default_places, detect
from mcp_memory.clients.port import Folders


@pytest.mark.parametrize(
    ("lines", "client"),
    [
        ([{"type": "summary", "summary": "A fence", "leafUuid": "u1"}], "claude-code"),
        ([{"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}], "claude-code"),
        (["garbage", {"type": "user", "sessionId": "s1", "message": {"content": "x"}}], "claude-code"),
        ([{"session_id": "s1", "timestamp": "2026-03-01T10:00:00Z", "role": "user", "text": "x"}], "jsonl"),
        ([{"timestamp": "2026-03-01T10:00:00Z", "type": "session_meta", "payload": {}}], "codex"),
        ([{"id": "x", "timestamp": "2025-06-01T10:00:00Z", "instructions": None}], "codex"),
        ([{"sessionId": "s1", "projectHash": "h", "startTime": "2026-03-01T10:00:00Z", "kind": "main"}], "gemini"),
        ([{"role": "user", "message": {"content": [{"type": "text", "text": "x"}]}}], "cursor"),
        ([{"type": "note", "payload": {}}, {"role": "user"}, {"sessionId": "s1"}], None),
        ([{"type": ["user"], "sessionId": 7}, [1], 7], None),
        ([], None),
    ],
)
def test_a_client_is_recognized_by_its_first_lines(tmp_path: Path, lines: list[object], client: str | None) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    found = detect(path)
    assert (found.name if found else None) == client


def test_what_cannot_be_read_is_of_no_client(tmp_path: Path) -> None:
    assert detect(tmp_path / "missing.jsonl") is None
    assert detect(tmp_path) is None


def test_clients_are_found_by_the_names_they_have() -> None:
    assert [client.name for client in CLIENTS.values()] == list(CLIENTS)
    assert list(CLIENTS) == ["claude-code", "codex", "gemini", "cursor", "vscode", "jsonl"]


def test_the_rows_are_data_and_load_no_reader() -> None:
    code = "import sys, mcp_memory.clients; print(*(name for name in sys.modules if name.startswith('mcp_memory')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"mcp_memory", "mcp_memory.clients", "mcp_memory.clients.port"}


def test_the_places_of_the_clients_are_known() -> None:
    home = Path("/home/dev")
    assert default_places(Folders(home)) == {
        "claude-code": [home / ".claude" / "projects"],
        "codex": [home / ".codex" / "sessions", home / ".codex" / "archived_sessions"],
        "gemini": [home / ".gemini" / "tmp"],
        "cursor": [home / ".cursor" / "projects", Path(".specstory") / "history"],
    }
