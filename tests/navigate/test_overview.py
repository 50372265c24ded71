"""What people look through: active days, projects, sessions with their titles and ends, files, what is open."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from mcp_memory.domain.events import MESSAGES, Captured, EventQuery, EventType, Intake, Role
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.inventory import SessionQuery
from mcp_memory.domain.toc import Level, Scope
from mcp_memory.navigate import overview
from mcp_memory.navigate.work_questions import work_hits
from mcp_memory.search.question import Query
from tests.support import conversation, learn, memory, said

pytestmark = pytest.mark.anyio


async def test_active_days_count_the_segments_of_a_project_or_of_all(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), *conversation("2026-03-05", "s2", "beta"), *conversation(session="s3")])
        days = await app.store.active_days(None)
        assert [(day.day, day.segments) for day in days] == [(date(2026, 3, 2), 2), (date(2026, 3, 5), 1)]
        assert all(day.weight > 0 for day in days)
        assert [day.day for day in await app.store.active_days("beta")] == [date(2026, 3, 5)]


async def test_sessions_come_by_their_last_activity_and_in_pages(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        days = ["2026-03-02", "2026-03-04", "2026-03-03"]
        await learn(app, [line for at, day in enumerate(days) for line in conversation(day, f"s{at}")])
        cards = await overview.session_cards(app.store, None)
        assert [card.session_id for card in cards] == ["s1", "s2", "s0"]
        first = await overview.session_cards(app.store, "alpha", limit=2)
        rest = await overview.session_cards(app.store, "alpha", before=first[-1].place)
        assert [card.session_id for card in first + rest] == ["s1", "s2", "s0"]
        assert await overview.session_cards(app.store, None, client="codex") == []
        assert [card.session_id for card in await overview.session_cards(app.store, None, session_id="s2")] == ["s2"]
        assert await app.store.clients() == ["jsonl"]


@pytest.mark.parametrize("few", [0, 3_000])
async def test_sessions_of_a_project_are_the_same_whether_it_has_few_or_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("mcp_memory.store.sql.overview._FEW", few)
    async with memory(tmp_path) as app:
        places = [("2026-03-02", "alpha"), ("2026-03-04", "beta"), ("2026-03-03", "alpha"), ("2026-03-05", "alpha")]
        await learn(app, [line for at, (day, slug) in enumerate(places) for line in conversation(day, f"s{at}", slug)])
        query = SessionQuery("alpha", "jsonl", limit=2)
        first = await app.store.session_list(query)
        rest = await app.store.session_list(replace(query, before=first[-1].place))
        assert [info.session_id for info in first + rest] == ["s3", "s2", "s0"]
        assert await app.store.session_list(replace(query, client="codex")) == []
        assert await app.store.session_list(replace(query, project="gamma")) == []


async def test_a_session_has_its_clients_title_and_tells_how_it_ended(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        untitled = (await overview.session_cards(app.store, None))[0]
        assert untitled.title
        assert "timeout is fixed" in untitled.outcome or "SESSION_TTL" in untitled.outcome
        assert (untitled.events, untitled.segments) == (8, 1)
        [event] = await app.store.events(EventQuery(session_id="s1", types=MESSAGES, last=1))
        titles = [("The login timeout", "custom-title"), ("Login", "ai-title"), ("Login timeouts", "ai-title")]
        for number, (text, source) in enumerate([titles[2], titles[0], titles[1]], start=1):
            moment, facts = event.timestamp_ms + number, {"source": source}
            kind, role = EventType.SESSION_TITLE, Role.SYSTEM
            told = Captured(event.client, "s1", f"title {number}", moment, kind, role, text, metadata=facts)
            await app.store.add([Intake(tuple(app.intaker.prepare([told])), "", "alpha")])
            shown = (await overview.session_cards(app.store, None))[0].title
            assert shown == ("Login timeouts" if number == 1 else "The login timeout")


async def test_a_session_without_a_summary_is_listed_by_its_own_words(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [said("Only this was said.", "2026-03-02T09:00:00Z")])
        [card] = await overview.session_cards(app.store, None)
        assert "Only this was said" in card.title + card.outcome


async def test_a_stretch_goes_on_in_both_directions_without_a_gap(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        whole = await app.store.stretch("s1", None, 0, 100)
        assert len(whole.events) == 8
        assert not whole.earlier
        assert not whole.later
        middle = whole.events[4]
        part = await app.store.stretch("s1", middle.key, 2, 2)
        assert part.events == whole.events[2:6]
        assert part.earlier
        assert part.later
        ending = await app.store.stretch("s1", None, 3, 0)
        assert ending.events == whole.events[-3:]
        assert (await app.store.stretch("unknown", None, 0, 5)).events == ()


async def test_files_are_told_by_the_call_where_the_client_does_not_name_them(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, conversation())
        [file] = await overview.changed_files(app.store, None)
        assert (file.path, file.project, file.times) == ("app/session.py", "alpha", 1)
        assert await overview.changed_files(app.store, "beta") == []
        history = await work_hits(app.store, Query(Scope(None, None), "", limit=5), "file", "app/session.py")
        assert "login timeout" in history.hits[0].passage.text


async def test_projects_are_told_without_a_look_at_their_events(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, [*conversation(), *conversation("2026-03-05", "s2", "beta")])
        found = await app.store.active_projects()
        assert [(project.slug, project.sessions) for project in found] == [("beta", 1), ("alpha", 1)]
        assert all(project.weight and project.first_ms for project in found)


async def test_what_was_written_last_comes_first_and_what_was_forgotten_is_gone(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        before = await app.store.position()
        await learn(app, conversation())
        written = await app.store.written_after(before.versions, 10)
        assert {node.level for node in written} == set(Level)
        assert await app.store.written_after((await app.store.position()).versions, 10) == []
        await app.store.forget(ForgetRequest(session_id="s1"), dry_run=False)
        await app.pipeline.until_idle()
        assert await app.store.session_list(SessionQuery()) == []
        assert await app.store.active_days(None) == []


async def test_the_segments_of_a_session_come_in_order(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        later = conversation("2026-03-03")
        await learn(app, [*conversation(), *later, *conversation(session="other")])
        segments = await overview.segments_of(app.store, "s1")
        assert [node.ref.key[:10] for node in segments] == ["2026-03-02", "2026-03-03"]
