"""NULs that earlier versions stored leave a memory when it is upgraded, and fail no statement until then."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from mcp_memory.domain.events import EventQuery, Intake
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.store.postgres.migrations import steps
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sqlite.store import SqliteStore
from mcp_memory.surfaces.doctor import examine
from tests.postgres import new_database
from tests.store.engines import LATER, add, build, said, talk, texts, without_tombstone_keys
from tests.support import all_nodes, conversation, database_of, learn, memory, tell

pytestmark = pytest.mark.anyio
METADATA = r'{"file_path": "/tmp/a\u0000b", "\u0000": ["\\u0000", "\\\u0000"], "via": "hook"}'
CLEAN = {"file_path": "/tmp/a\ufffdb", "\ufffd": ["\\u0000", "\\\ufffd"], "via": "hook"}


async def test_nuls_leave_a_file_when_it_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with SqliteStore.open(path, LATER) as store:
        await add(store, *talk(), said("A walrus met a kite.", 9, session="s2"))
        await build(store)
        known = await store.known(["walrus", "kite", "token"])
        [account] = [each for each in await store.accounts_due(LATER, 9) if each.session_id == "s2"]
    with closing(sqlite3.connect(path, isolation_level=None)) as earlier:
        earlier.create_function("nul", 0, lambda: "\0")
        earlier.execute("UPDATE event SET text = 'A walrus' || nul() || ' met a kite.' WHERE text LIKE '%walrus%'")
        earlier.execute(
            "UPDATE event SET metadata = ?, source_ids = ? WHERE text LIKE '%walrus%'", (METADATA, '["\\u0000"]')
        )
        earlier.execute("UPDATE session SET session_id = 's' || nul() || '2' WHERE id = ?", (account.session,))
        earlier.execute("UPDATE project SET root = root || nul()")
        earlier.execute("UPDATE bullet SET text = text || nul()")
        without_tombstone_keys(earlier)
        earlier.execute("PRAGMA user_version = 13")
    async with SqliteStore.open(path, LATER) as store:
        [event] = await store.events(EventQuery(session_id="s\ufffd2"))
        assert (event.text, dict(event.metadata)) == ("A walrus\ufffd met a kite.", CLEAN)
        assert event.source_ids == ("\ufffd",)
        assert await store.known(["walrus", "kite", "token"]) == known
        # The index holds just what it would be told to forget.
        await store.forget(ForgetRequest(match="walrus"), dry_run=False)
        assert await store.known(["walrus", "kite"]) == {}
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO search (search) VALUES ('integrity-check')")
        assert b"\0" not in "".join(connection.iterdump()).encode()


async def test_nuls_leave_a_server_when_it_is_upgraded() -> None:
    url = new_database()
    async with PostgresStore.open(url) as store:
        await add(store, said("A walrus met a kite.", 9))
        await poison(store)
    with psycopg.connect(url) as earlier:
        earlier.execute("SET search_path = mcp_memory")
        earlier.execute("DROP FUNCTION without_nul")
        [step] = [text for _, name, text in steps() if "storable" in name]
        earlier.execute(step.encode())
    async with PostgresStore.open(url) as store:
        [event] = await store.events(EventQuery())
        assert dict(event.metadata) == CLEAN
        assert event.source_ids == ("\ufffd",)


async def test_a_document_that_is_no_json_fails_no_statement_of_a_server() -> None:
    async with PostgresStore.open(new_database()) as store:
        assert await store.database.fetch("SELECT json_extract('no JSON', '$.x')") == [(None,)]


async def poison(store: PostgresStore) -> None:
    sql = "UPDATE event SET metadata = ?, source_ids = ? WHERE text LIKE '%kite%'"
    await store.database.write(Transaction.run, sql, (METADATA, '["\\u0000"]'))


@pytest.mark.usefixtures("engine")
async def test_an_event_with_a_nul_keeps_no_other_out(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await tell(app, [*conversation(session="odd"), *conversation("2026-03-03", session="even")])
        odd = "SELECT id FROM session WHERE session_id = 'odd'"
        sql = f"UPDATE event SET metadata = ? WHERE session IN ({odd}) AND type = 'assistant_message'"
        await database_of(app).write(Transaction.run, sql, (METADATA,))
        await learn(app, [])
        assert {node.session_id for node in await all_nodes(app) if node.session_id} == {"odd", "even"}
        problems = examine(app.settings, thorough=False).problems
        assert not [problem for problem in problems if "pauses" in problem.what or "could not" in problem.what]


@pytest.mark.usefixtures("engine")
async def test_json_is_read_as_it_was_before(tmp_path: Path) -> None:
    values = ["a", "", "1", 1, 1.5, True, False, None, {"b": ["c", None]}, [1, "d"], "é\n\\", "\\u0000"]
    rows = ", ".join(["(CAST(? AS BIGINT), CAST(? AS TEXT))"] * len(values))
    given = [part for number, value in enumerate(values) for part in (number, json.dumps({"x": value, "y": 1}))]
    told = "CAST(json_extract(held, '$.x') AS TEXT)"
    sql = f"WITH v (number, held) AS (VALUES {rows}) SELECT {told} FROM v ORDER BY number"
    async with memory(tmp_path) as app:
        found = [value for (value,) in await database_of(app).fetch(sql, given)]
        gone = await database_of(app).value("SELECT json_extract('{\"y\": 1}', '$.x')")
    wanted = ["a", "", "1", "1", "1.5", "1", "0", None]
    assert [found[:8], found[10:], gone] == [wanted, ["é\n\\", "\\u0000"], None]
    assert [json.loads(str(value)) for value in found[8:10]] == [{"b": ["c", None]}, [1, "d"]]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_what_is_handed_to_a_store_is_stored_without_nuls(tmp_path: Path, engine: str) -> None:
    from tests.store.engines import ENGINES

    event = said("A\0 kite.", 1, session="s\0" + "1", **json.loads(METADATA))
    async with ENGINES[engine](tmp_path)() as store:
        await store.add([Intake((event,), "/w/al\0pha", "", "")])
        [stored] = await store.events(EventQuery())
        assert (stored.text, stored.session_id) == ("A\ufffd kite.", "s\ufffd1")
        assert dict(stored.metadata) == CLEAN
        assert await store.root_of(stored.project) == "/w/al\ufffdpha"
        assert await texts(store, EventQuery()) == ["A\ufffd kite."]
