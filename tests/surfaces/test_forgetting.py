"""Forgetting reaches everything: events, summaries, index, inbox, spool and the free pages of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_memory.adapters.sqlite.database import Transaction
from mcp_memory.adapters.sqlite.forgetting import Wish
from mcp_memory.app import App
from mcp_memory.navigate.asked import Search
from mcp_memory.surfaces.forgetting import carry_out, key_of
from tests.support import all_nodes, conversation, learn, memory, said, tell

pytestmark = pytest.mark.anyio
SECRET = "quaggaword"


async def filled(app: App) -> None:
    await learn(
        app,
        [
            *conversation("2026-03-02"),
            said(f"Remember that the {SECRET} plan starts in May.", "2026-03-02T09:06:00Z"),
            *conversation("2026-03-10", session="s2", project="beta"),
        ],
    )


def traces(home: Path) -> list[str]:
    return [path.name for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


async def test_a_matched_text_leaves_no_trace_in_any_file(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await filled(app)
        assert traces(tmp_path)
        payload = json.dumps(
            {"session_id": "x", "hook_event_name": "UserPromptSubmit", "prompt": f"the {SECRET} again"}
        )
        await app.log.post([(1, "nobody", "/x", "", payload)])
        app.settings.spool.mkdir()
        (app.settings.spool / "1-1-a.unreadable").write_text(f"{SECRET} {{oops")
        found = await carry_out(app, Wish(match=SECRET.upper()), dry_run=False)
        assert (found.events, found.inbox) == (1, 1)
        hits, _ = await app.answers.search(Search(SECRET, "*"))
        assert not hits.hits
        assert await all_nodes(app)
        assert not any(SECRET in bullet.text for node in await all_nodes(app) for bullet in node.bullets)
    assert traces(tmp_path) == []


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await filled(app)
        before = await app.library.counts()
        found = await carry_out(app, Wish(match=SECRET), dry_run=True)
        assert found.events == 1
        assert await app.library.counts() == before


async def test_the_rest_of_the_session_stays_and_is_summarized_anew(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await filled(app)
        await carry_out(app, Wish(match=SECRET), dry_run=False)
        hits, _ = await app.answers.search(Search("mobile app refreshes", "alpha"))
        assert hits.hits
        assert {node.project for node in await all_nodes(app)} == {"alpha", "beta"}
        await app.database.write(Transaction.run, "INSERT INTO search (search) VALUES ('integrity-check')")


async def test_a_later_import_does_not_bring_it_back(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await filled(app)
        await carry_out(app, Wish(session_id="s1"), dry_run=False)
        assert await tell(app, [*conversation("2026-03-02"), said("Something new.", "2026-03-05T09:00:00Z")]) == 1


async def test_a_project_a_time_and_an_event_can_be_forgotten(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await filled(app)
        assert (await carry_out(app, Wish(project="beta"), dry_run=False)).events == 8
        assert {node.project for node in await all_nodes(app)} == {"alpha"}
        hits, _ = await app.answers.search(Search(SECRET, "*"))
        key = await key_of(app, hits.hits[0].event_ids[0])
        assert (await carry_out(app, Wish(event_key=key), dry_run=False)).events == 1
        when = app.answers.when("2026-03-03")
        assert when is not None
        assert (await carry_out(app, Wish(before_ms=when.start_ms), dry_run=False)).events == 8
        assert not await all_nodes(app)
        assert (await app.library.counts()).events == 0
