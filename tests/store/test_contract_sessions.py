"""What every engine tells of sessions as people look through them: their titles, and that notes are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcp_memory.domain.events import NOTES_CLIENT, EventType
from mcp_memory.domain.inventory import SessionQuery
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.segments import Rules, busy
from mcp_memory.domain.toc import Level
from mcp_memory.pipeline.segment import segment
from tests.store.engines import DAY, LATER, Open, add, build, said, talk

pytestmark = pytest.mark.anyio

NOTES = "notes:/home/ada/alpha"


async def test_the_latest_title_of_the_user_comes_before_every_title_of_the_client(opened: Open) -> None:
    titles = [("Token cache", "ai-title"), ("Login", "custom-title"), ("Login cache", "custom-title"), ("A", "summary")]
    shown = []
    async with opened() as store:
        await add(store, *talk())
        for minute, (text, source) in enumerate(titles):
            await add(store, said(text, 60 + minute, kind=EventType.SESSION_TITLE, source=source))
            await build(store)
            [info] = await store.session_list(SessionQuery())
            shown.append(info.title)
    assert shown == ["Token cache", "Login", "Login cache", "Login cache"]


async def test_notes_are_no_session_and_give_no_period_its_title(opened: Open) -> None:
    notes = [
        said(f"Exports go by queue {number}.", number, session=NOTES, client=NOTES_CLIENT, kind=EventType.NOTE)
        for number in range(3)
    ]
    later = [replace(note, timestamp_ms=note.timestamp_ms + 40 * DAY, key=note.key[::-1]) for note in notes]
    async with opened() as store:
        await add(store, *notes, *later)
        lease = store.lease()
        assert await lease.acquire()
        assert lease.token
        await segment(store, Rules(), LATER, lease.token)
        await lease.release()
        assert await store.unsummarized(None) == (0, 6)
        await build(store)
        assert await store.sessions("", 9) == []
        assert await store.session_list(SessionQuery()) == await store.session_list(SessionQuery("alpha")) == []
        counts = await store.counts(busy(LATER, 0))
        assert (counts.sessions, counts.events, await store.clients()) == (0, 6, [])
        assert [found.sessions for found in await store.active_projects()] == [0]
        assert [found.sessions for found in await store.projects()] == [0]
        periods = [node for level in tuple(Level)[:4] for node in await store.nodes(NodeQuery.latest(None, level, 9))]
        assert periods
        assert all("queue" not in node.title and ":" not in node.title for node in periods)
        assert any("queue" in bullet.text for node in periods for bullet in node.bullets)
        [named] = await store.session_list(SessionQuery(session_id=NOTES))
        assert named.client == NOTES_CLIENT
        await add(store, *talk())
        await build(store)
        assert [info.session_id for info in await store.session_list(SessionQuery())] == ["s1"]
        assert (await store.counts(busy(LATER, 0))).sessions == 1
        [year] = await store.nodes(NodeQuery.latest(None, Level.YEAR, 9))
        assert "queue" not in year.title
        assert ": " in year.title
