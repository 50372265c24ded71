"""What a member takes back goes in few statements: they run while everyone else waits to write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from mcp_memory.app import open_app
from mcp_memory.domain.events import Event, EventQuery, Intake
from mcp_memory.store.postgres.database import Link
from mcp_memory.store.postgres.store import PostgresStore
from tests.store.engines import said
from tests.store.test_team_private import settings_at

pytestmark = pytest.mark.anyio


def intakes(author: str, events: list[Event]) -> list[Intake]:
    sessions: dict[str, list[Event]] = {}
    for event in events:
        sessions.setdefault(event.session_id, []).append(replace(event, visibility="team"))
    return [Intake(tuple(told), "", "alpha", author=author) for told in sessions.values()]


@pytest.mark.parametrize("returning", [True, False])
async def test_to_take_back_a_thousand_events_takes_few_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returning: bool
) -> None:
    events = [said(f"Decided: walrus {n} sleeps.", n * 60, session=f"s{n // 20}") for n in range(1_000)]
    async with open_app(settings_at(tmp_path), for_team=True) as app:
        store = cast(PostgresStore, app.store)
        assert (await store.receive(intakes("ada", events))).new == 1_000
        assert (await store.receive(intakes("bob", [said("Bob's walrus stays.", 7, session="b")]))).new == 1
        await app.pipeline.until_idle()
        for session in ("s1", "s2"):
            await app.pipeline.compactor.compact(session, force=True)
        await app.pipeline.lease.release()
        statements, execute = 0, Link.execute

        def counted(self: Link, sql: str, values: Any = (), /) -> Any:
            nonlocal statements
            statements += 1
            return execute(self, sql, values)

        with monkeypatch.context() as patch:
            patch.setattr(Link, "execute", counted)
            gone = await store.forget_events([event.key for event in events], "ada", returning=returning)
        assert gone.events == 1_000
        assert statements < 150
        await app.pipeline.until_idle()
        assert [event.text for event in await store.events(EventQuery())] == ["Bob's walrus stays."]
        found, _ = await app.answers.first_hits("walrus", "*", None, 9)
        assert [hit.session_id for hit in found.hits] == ["b"]
        again = await store.receive(intakes("ada", events[:10]))
        assert (again.new, again.known) == ((10, 0) if returning else (0, 10))
