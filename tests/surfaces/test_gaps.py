"""The table of contents says when capture has gone silent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_memory.adapters.sqlite.database import Transaction
from mcp_memory.config import Settings
from mcp_memory.domain.events import Captured, EventType, Role
from mcp_memory.ports.events import Intake
from mcp_memory.surfaces.gaps import GAP_MS, capture_gap
from tests.support import memory

pytestmark = pytest.mark.anyio
LAST_MS = 1_772_000_000_000


def silent(tmp_path: Path, after_ms: int) -> None:
    """A transcript of Claude Code that was written to so long after its last captured event."""
    transcript = tmp_path / "user" / ".claude" / "projects" / "-work" / "s.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text('{"type": "user"}\n')
    seconds = (LAST_MS + after_ms) / 1000
    os.utime(transcript, (seconds, seconds))


@pytest.mark.parametrize(("after_ms", "told"), [(GAP_MS + 1_000, True), (GAP_MS - 1_000, False), (-GAP_MS, False)])
async def test_sessions_a_day_after_the_last_capture_are_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_ms: int, told: bool
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    silent(tmp_path, after_ms)
    async with memory(tmp_path / "home") as app:
        event = Captured("claude-code", "s", "k", LAST_MS, EventType.USER_MESSAGE, Role.USER, "Say it.")
        await app.log.add([Intake(tuple(app.intaker.prepare([event])), "/work")])
    notice = capture_gap(Settings(home=tmp_path / "home"))
    assert ("claude-code since 2026-02-25" in notice) is told


async def test_a_client_that_was_never_captured_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    (tmp_path / "user" / ".claude" / "projects" / "x").mkdir(parents=True)
    (tmp_path / "user" / ".claude" / "projects" / "x" / "s.jsonl").write_text('{"type": "user"}\n')
    async with memory(tmp_path / "home"):
        pass
    assert capture_gap(Settings(home=tmp_path / "home")) == ""


async def test_it_is_told_without_looking_through_the_whole_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    silent(tmp_path, 2 * GAP_MS)
    async with memory(tmp_path / "home") as app:
        event = Captured("claude-code", "s", "k", LAST_MS, EventType.USER_MESSAGE, Role.USER, "Say it.")
        await app.log.add([Intake(tuple(app.intaker.prepare([event])), "/work")])
        # Only who reads every text finds this.
        await app.database.write(Transaction.run, "UPDATE event SET text = CAST(x'ff' AS TEXT)")
    assert "claude-code since" in capture_gap(Settings(home=tmp_path / "home"))


async def test_payloads_of_unknown_form_are_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    async with memory(tmp_path / "home") as app:
        await app.log.post([(LAST_MS, "gemini", "/", "", '{"odd": 1}')])
        await app.pipeline.until_idle()
        notice = capture_gap(Settings(home=tmp_path / "home"))
        assert notice == " 1 payload of gemini is of no known form: `mcp-memory doctor` says what to do."
