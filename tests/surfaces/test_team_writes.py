"""Who writes what on a team's server: a reader nothing, and a member as itself, who forgets no words but its own."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_memory.domain.events import EventQuery
from mcp_memory.store.postgres.database import SCHEMA
from tests.surfaces.client import Era, ask, refused, said
from tests.surfaces.team_server import BASE, TeamDesk, team_server
from tests.surfaces.team_talk import three_people
from tests.surfaces.team_world import ALONE, CLOSED, HIDDEN_SESSION, NOTE, OWN, WITHIN, team, values_of
from tests.surfaces.test_team_incoming import body, line
from tests.surfaces.walk import Walk, agree

pytestmark = pytest.mark.anyio
#: Tables of which a row tells nothing of what was said: the server notes there who asked, and what it does itself.
_OF_THE_SERVER = ("audit", "lease")


def rows_of(desk: TeamDesk) -> dict[str, str]:
    """All that is written in each table, as a hash."""
    with psycopg.connect(desk.store.database.url) as connection:
        connection.execute(cast(Any, f"SET search_path = {SCHEMA}"))
        named = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        assert len(named) > 30
        told = "SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {} t"
        return {
            table: str(connection.execute(cast(Any, told.format(table))).fetchone())
            for (table,) in named
            if table not in _OF_THE_SERVER
        }


@pytest.mark.slow
async def test_a_reader_writes_nothing_by_anything_that_is_listed_and_is_told_why(tmp_path: Path) -> None:
    async with team(tmp_path) as desk:
        values = {name: some[:1] for name, some in (await values_of(desk)).items()} | {"session": ["ada-1"]}
        values |= {"project": ["shop"], "session_id": ["ada-1"], "kind": ["rule"]}
        before = rows_of(desk)
        async with desk.agent("rita", asks=agree) as agent:
            tools = (await agent.list_tools()).tools
            writers = {tool.name for tool in tools if not (tool.annotations and tool.annotations.read_only_hint)}
            found = await Walk(agent, values).everything()
        assert writers >= {"remember", "forget"}
        for name in (*writers, "resummarize"):
            others = {told for told in found[name] if "a reader writes nothing" not in told}
            assert others <= {"Give one of grip_id, session_id or match (at least 3 characters)."}, name
            assert len(others) < len(found[name])
        async with desk.client("rita") as laptop:
            for path in ("/team/push", "/team/withdraw"):
                answer = await laptop.post(path, content=body([line("1", "I write.")]))
                assert (answer.status_code, "a reader writes nothing" in answer.text) == (403, True)
        assert rows_of(desk) == before
        async with desk.agent("bob") as agent:  # by whom the same is done
            await ask(agent, "remember", text="I may write.", project="shop")
            await agent.get_prompt("resummarize", {"session": "ada-1"})
        after = rows_of(desk)
        assert {"event", "compaction", "search"} <= {table for table, rows in after.items() if rows != before[table]}


async def test_a_member_forgets_what_it_said_and_nothing_of_others(tmp_path: Path) -> None:
    async with team(tmp_path) as desk, desk.agent("bob", asks=agree) as bob, desk.agent("ada", asks=agree) as ada:
        events = {event.text: event for event in await desk.store.events(EventQuery())}
        shared, hidden = (
            next(event for text, event in events.items() if word in text) for word in ("Idempotency-Key", ALONE)
        )
        theirs: list[dict[str, Any]] = [{"match": "Idempotency"}, {"session_id": "ada-1"}, {"session_id": "carol-1"}]
        for wish in (*theirs, {"grip_id": f"grip:{shared.timestamp_ms}:{shared.event_id}"}):
            for confirm in (False, True):
                assert "Others said that" in await refused(bob, "forget", **wish, confirm=confirm)
        unknown: list[dict[str, Any]] = [{"session_id": HIDDEN_SESSION}, *({"match": word} for word in OWN)]
        for wish in (*unknown, {"grip_id": f"grip:{hidden.timestamp_ms}:{hidden.event_id}"}):
            assert "Nothing was erased." in await ask(bob, "forget", **wish, confirm=True)
        assert {event.text for event in await desk.store.events(EventQuery())} == events.keys()

        # What all of them said goes as far as bob said it.
        assert "Forgot 3 events of 1 sessions." in await ask(bob, "forget", match="the", confirm=True)
        left = {event.text for event in await desk.store.events(EventQuery())}
        assert {events[text].author for text in events.keys() - left} == {"bob"}
        assert len(events) - len(left) == 3

        for wish in ({"session_id": HIDDEN_SESSION}, {"match": NOTE}, {"match": WITHIN}):
            assert "Nothing was erased" not in await ask(ada, "forget", **wish, confirm=True)
        left = {event.text for event in await desk.store.events(EventQuery())}
        assert not [text for text in left if any(word in text for word in (ALONE, NOTE, WITHIN))]


async def test_an_admin_writes_what_any_member_may(tmp_path: Path) -> None:
    async with team(tmp_path) as desk, desk.agent("root", asks=agree) as agent, desk.client("root") as laptop:
        assert "Others said that" in await refused(agent, "forget", session_id="ada-1", confirm=True)
        assert "no project" in await refused(agent, "remember", text="Into the closed one.", project=CLOSED)
        pushed = _plain([line("1", "Into the closed one.", project=CLOSED, remote="")])
        told = (await laptop.post("/team/push", content=pushed)).json()
        assert (told["new"], told["refused"][0]["reason"][:16]) == (0, "you are no membe")
        assert "Remembered" in await ask(agent, "remember", text="A note of root's.", project="shop")


async def test_who_asks_is_told_by_the_token_and_by_nothing_else(tmp_path: Path) -> None:
    async with team_server(tmp_path, three_people) as desk:
        ada = desk.tokens["ada"]
        query = f"user=ada&name=ada&token={ada}&access_token={ada}"
        names = ("x-user", "x-forwarded-user", "remote-user", "x-mcp-user", "from", "x-authorization", "cookie")
        claims = dict.fromkeys(names, "ada") | {"x-authorization": f"Bearer {ada}", "cookie": f"mcp_memory_team={ada}"}
        async with desk.client("bob", **claims) as http:
            stream = streamable_http_client(f"{BASE}/mcp?{query}", http_client=http)
            async with Client(stream) as agent:
                for claim in ("author", "user", "viewer", "name"):
                    assert "has no argument" in await refused(
                        agent, "remember", text="x", project="shop", **{claim: "ada"}
                    )
                meta: Any = {
                    "user": "ada",
                    "author": "ada",
                    "io.modelcontextprotocol/user": "ada",
                    "authorization": ada,
                }
                kept = await agent.call_tool("remember", {"text": "Whose is it?", "project": "shop"}, meta=meta)
                assert "Remembered" in said(kept.content)
                assert '"name": "bob"' in str((await agent.read_resource("memory://status")).contents)
            assert (await http.get(f"/team/me?{query}")).json()["name"] == "bob"
            assert (await http.post(f"/team/ask?{query}", json={"tool": "news", "author": "ada"})).status_code == 400
            lies = line("1", "It is hers, says bob.", author="ada", visibility="private", user="ada")
            assert (await http.post(f"/team/push?{query}", content=_plain([lies]))).json()["new"] == 1
        told = {str(event.text): event.author for event in await desk.store.events(EventQuery())}
        assert (told["Whose is it?"], told["It is hers, says bob."]) == ("bob", "bob")
        async with desk.client(**claims) as stranger:
            for path in ("/mcp", "/team/me", "/toc"):
                assert (await stranger.get(f"{path}?{query}")).status_code == 401


def _plain(lines: list[dict[str, Any]]) -> bytes:
    return gzip.decompress(body(lines))


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_two_who_ask_at_once_are_each_answered_as_who_they_are(tmp_path: Path, era: Era) -> None:
    async with team(tmp_path) as desk, desk.agent("ada", era) as ada, desk.agent("bob", era) as bob:
        for _ in range(2):
            assert f"the {WITHIN} customer" in await ask(ada, "teleport", query=WITHIN.upper(), project="shop")
            assert f"the {WITHIN} customer" not in await ask(bob, "teleport", query=WITHIN.upper(), project="shop")


async def test_no_one_goes_on_in_a_session_that_another_has_opened(tmp_path: Path) -> None:
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    accept = {"accept": "application/json, text/event-stream"}
    async with team_server(tmp_path) as desk, desk.client("ada", **accept) as ada, desk.client("bob", **accept) as bob:
        opened = await ada.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        wish = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert (await ada.post("/mcp", json=wish, headers=session)).status_code == 200
        for method in ("POST", "GET", "DELETE"):
            assert (await bob.request(method, "/mcp", json=wish, headers=session)).status_code == 404
        assert (await ada.post("/mcp", json=wish, headers=session)).status_code == 200
