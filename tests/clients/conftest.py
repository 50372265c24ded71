"""Invented transcripts, and what an reader makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.port import BadLine, TranscriptState
from mcp_memory.domain.events import Captured

Line = dict[str, Any] | str | bytes


class Transcript:
    """A transcript in the making: write lines, read what is new."""

    def __init__(self, path: Path, client: str) -> None:
        self.path = path
        self.state = TranscriptState()
        self.bad: list[BadLine] = []
        self._client = CLIENTS[client]
        self._count = 0

    def write(self, *lines: Line, end: bytes = b"\n") -> Transcript:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            for line in lines:
                text = json.dumps(line) if isinstance(line, dict) else line
                file.write((text.encode() if isinstance(text, str) else text) + end)
        return self

    def events(self) -> list[Captured]:
        """What is new; the state goes through JSON between two reads, as it does when it is saved."""
        self.state.memory = json.loads(json.dumps(self.state.memory))
        found = list(self._client.read(self.path, self.state))
        self.bad += [item for item in found if isinstance(item, BadLine)]
        return [item for item in found if isinstance(item, Captured)]

    def say(self, kind: str, content: object, **fields: object) -> dict[str, Any]:
        """A line of Claude Code's."""
        self._count += 1
        message = {"role": kind, "content": content, **({"model": "claude-x"} if kind == "assistant" else {})}
        return {
            "type": kind,
            "uuid": f"u{self._count}",
            "parentUuid": f"u{self._count - 1}",
            "sessionId": "s1",
            "timestamp": f"2026-03-01T10:00:{self._count:02d}.250Z",
            "cwd": "/home/dev/project",
            "gitBranch": "main",
            "isSidechain": False,
            "message": message,
            **fields,
        }

    def use(self, name: str, given: dict[str, Any], tool_id: str = "t1", **fields: object) -> dict[str, Any]:
        return self.say("assistant", [{"type": "tool_use", "id": tool_id, "name": name, "input": given}], **fields)

    def result(self, content: object, response: object = None, tool_id: str = "t1", **fields: object) -> dict[str, Any]:
        failed = {"is_error": True} if fields.pop("failed", False) else {}
        block = {"type": "tool_result", "tool_use_id": tool_id, "content": content, **failed}
        told = {} if response is None else {"toolUseResult": response}
        return self.say("user", [block], **{**told, **fields})


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path / "s1.jsonl", "claude-code")


@pytest.fixture
def agent_transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path / "s1" / "subagents" / "agent-a7.jsonl", "claude-code")


@pytest.fixture
def generic(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path / "history.jsonl", "jsonl")


@pytest.fixture
def payload() -> Callable[..., dict[str, Any]]:
    """A hook payload of Claude Code's."""

    def make(event: str, **fields: object) -> dict[str, Any]:
        return {
            "session_id": "s1",
            "transcript_path": "/home/dev/.claude/projects/-home-dev-project/s1.jsonl",
            "cwd": "/home/dev/project",
            "hook_event_name": event,
            "prompt_id": "p1",
            **fields,
        }

    return make
