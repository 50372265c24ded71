"""The event log: each event once, however often and whichever way it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.events import Captured, EventType, Intake, Role
from tests.support import conversation, memory, said, tell

pytestmark = pytest.mark.anyio


def prompt(key: str, text: str, at_ms: int, via: str, ids: tuple[str, ...] = (), role: Role = Role.USER) -> Captured:
    kind = EventType.USER_MESSAGE if role is Role.USER else EventType.ASSISTANT_MESSAGE
    return Captured("claude-code", "s1", key, at_ms, kind, role, text, ids, {"via": via})


async def add(app: App, *events: Captured) -> int:
    return await app.store.add([Intake(tuple(app.intaker.prepare(events)), "/projects/alpha")])


async def stored(app: App) -> list[tuple[str, tuple[str, ...]]]:
    return [(event.text, event.source_ids) for _, event in await app.store.log(0, None, 99)]


async def test_ids_are_the_same_in_every_memory(tmp_path: Path) -> None:
    found = []
    for home in ("one", "two"):
        async with memory(tmp_path / home) as app:
            await tell(app, conversation())
            found.append([event.event_id for _, event in await app.store.log(0, None, 99)])
    assert found[0] == found[1]
    assert found[0] == sorted(found[0])


async def test_a_fallback_is_stored_only_if_the_transcript_did_not_tell_it(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        line = prompt("line:u1", "Done.", 5_000, "transcript", role=Role.ASSISTANT)
        same = prompt("stop:1", "Done.", 6_000, "hook", role=Role.ASSISTANT)
        other = prompt("stop:2", "Really done.", 7_000, "hook", role=Role.ASSISTANT)
        assert await add(app, line, same, other) == 2
        assert [text for text, _ in await stored(app)] == ["Done.", "Really done."]


async def test_events_can_be_found_before_any_segment_closes(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, [said("The zephyrium gateway listens on port 48613.", "2026-05-31T23:59:59Z")])
        found, _ = await app.answers.search("zephyrium port", "*")
        assert found.hits[0].passage.text == "The zephyrium gateway listens on port 48613."


async def test_long_texts_are_cut_in_the_middle_and_marked(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, [said("start " + "ä" * 200_000 + " end", "2026-03-02T09:00:00Z")])
        ((_, event),) = await app.store.log(0, None, 9)
    assert event.truncated
    assert len(event.text.encode()) <= 65_536
    assert event.text.startswith("start ")
    assert event.text.endswith(" end")
    assert "cut" in event.text


async def test_odd_texts_are_stored_and_found(tmp_path: Path) -> None:
    texts = [
        "lone \ud800 surrogate kept",
        "nul \x00 inside kept",
        "emoji 👩‍👩‍👧 kept",
        "العربية kept",
        "\u202eright to left kept",
    ]
    async with memory(tmp_path) as app:
        lines = [said(text, f"2026-03-02T09:0{n}:00Z") for n, text in enumerate(texts)]
        assert await tell(app, lines) == len(texts)
        await app.pipeline.until_idle()
        found, _ = await app.answers.search("kept", "*", limit=20)
        assert len({event_id for hit in found.hits for event_id in hit.event_ids}) == len(texts)
