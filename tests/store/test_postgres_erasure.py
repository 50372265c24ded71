"""What is forgotten in PostgreSQL is gone from the planner's samples and from the bytes of every file but the log's."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.store.postgres import migrations, rewriting
from mcp_memory.store.postgres import store as store_module
from mcp_memory.store.postgres.database import configure
from mcp_memory.store.postgres.rewriting import PAUSE_MS, due_tables, pending, prepare_connection, rewrite
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.sql.database import Transaction
from mcp_memory.surfaces.forget_command import carry_out
from tests.postgres import files_holding, new_database, shared_server, superuser
from tests.store.engines import add
from tests.store.engines import said as event
from tests.support import conversation, database_of, learn, memory, on_engine, said

pytestmark = pytest.mark.anyio
CANARY = "quaggaword"
#: A text that PostgreSQL moves out of its row.
LONG = " ".join(str(random.Random(4).randrange(10**9)) for _ in range(9_000))


def sampled(url: str) -> list[tuple[Any, ...]]:
    """The columns of which the catalog keeps samples that hold the canary, whatever kind of samples."""
    with superuser(url) as connection:
        columns = connection.execute(
            "SELECT starelid::regclass::text, staattnum FROM pg_statistic s WHERE strpos(lower(s::text), %s) > 0 "
            "UNION ALL SELECT 'extended', 0 FROM pg_statistic_ext_data d WHERE strpos(lower(d::text), %s) > 0",
            (CANARY, CANARY),
        )
        return columns.fetchall()


def files_with_canary(url: str) -> set[str]:
    return files_holding(url, CANARY)


def keep_uncompressed(url: str) -> None:
    """Compression would hide the words from whoever scans the bytes."""
    with superuser(url) as connection:
        columns = connection.execute(
            "SELECT c.oid::regclass::text, w FROM pg_class c CROSS JOIN LATERAL mcp_memory.word_columns(c.oid) w "
            "WHERE c.relnamespace = 'mcp_memory'::regnamespace AND c.relkind IN ('r', 'p')"
        )
        for table, column in columns.fetchall():
            connection.execute(cast(Any, f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL"))


async def test_no_column_that_may_hold_words_is_ever_sampled() -> None:
    """Also of a later table: a text column is sampled only if its name is one of ours."""
    async with PostgresStore.open(new_database()) as store:
        await add(store, *[event(f"The {CANARY} says {number}.", number, name=f"{number}") for number in range(9)])
        sampled_columns = await store.database.fetch(
            "SELECT c.oid::regclass::text, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
            "LEFT JOIN pg_index i ON i.indexrelid = c.oid "
            "WHERE c.relnamespace = 'mcp_memory'::regnamespace AND c.relkind IN ('r', 'p', 'i', 'I') AND a.attnum > 0 "
            "AND coalesce(a.attstattarget, -1) <> 0 AND ((i.indexrelid IS NULL AND a.attname IN "
            "(SELECT word_columns(c.oid))) OR i.indkey[a.attnum - 1] = 0)"
        )
        assert sampled_columns == []
        words = await store.database.fetch("SELECT word_columns('event_2026q1')")
        assert {name for (name,) in words} == {"text", "source_ids", "metadata"}


async def test_the_upgrade_throws_away_the_samples_that_were_taken_before(monkeypatch: pytest.MonkeyPatch) -> None:
    url, steps = shared_server().new_database(), migrations.steps()
    monkeypatch.setattr(migrations, "steps", lambda: [step for step in steps if step[0] < 10])
    migrations.migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = mcp_memory")
        for statement in (
            "CREATE TABLE event_1970q1 (LIKE event INCLUDING DEFAULTS INCLUDING CONSTRAINTS)",
            "ALTER TABLE event ATTACH PARTITION event_1970q1 FOR VALUES FROM (0) TO (7776000000)",
            "INSERT INTO quarter VALUES ('event_1970q1', 0, 7776000000)",
            f"INSERT INTO project VALUES (1, '{CANARY}', '/{CANARY}')",
            f"INSERT INTO place (root, slug) VALUES ('/{CANARY}', '{CANARY}')",
            f"INSERT INTO session (id, client, session_id, project) VALUES (1, 'c', '{CANARY}', 1)",
            "INSERT INTO event SELECT i, i::text::bytea, 1, i, 'note', 'user', "
            f"'{CANARY} ' || i, 1, 0, format('[\"{CANARY}-{CANARY}-%s\"]', i), '{{}}' FROM generate_series(1, 9) i",
            "ANALYZE",
        ):
            connection.execute(cast(Any, statement))
    before = {name for name, _ in sampled(url)}
    assert {"mcp_memory.event", "mcp_memory.event_1970q1"} < before
    assert any("substring" in name for name in before), "the index on an expression has samples of its own"
    assert "pg_statistic" in files_with_canary(url)
    monkeypatch.setattr(migrations, "steps", lambda: steps)
    async with PostgresStore.open(url) as store:
        assert sampled(url) == []
        await store.database.run_alone("ANALYZE")
        assert sampled(url) == []
        # The catalog's own file is rewritten, too, though nothing has been forgotten yet.
        assert await store.database.fetch("SELECT relation FROM to_rewrite") == [("pg_statistic",)]
        assert await store.scrub(1) == ""
        assert "pg_statistic" not in files_with_canary(url)
        # Members read places by the same rule as before.
        policies = "SELECT count(*) FROM pg_policies WHERE schemaname = 'mcp_memory' AND tablename = 'place'"
        assert await store.database.value(policies) == 1


@pytest.mark.slow
@pytest.mark.parametrize("way", ["match", "session", "project"])
async def test_forgetting_leaves_its_bytes_in_no_table_index_or_sample(tmp_path: Path, way: str) -> None:
    session, project = f"{CANARY}-session", f"{CANARY}-shop"
    request = {
        "match": ForgetRequest(match=CANARY),
        "session": ForgetRequest(session_id=session),
        "project": ForgetRequest(project=project),
    }[way]
    with on_engine("postgres"):
        async with memory(tmp_path) as app:
            url = app.settings.store.url
            keep_uncompressed(url)
            place = {"session": session, "project": project if way != "session" else "shop"}
            lines = [
                said(f"{line['text']} This is {CANARY} number {at}.", f"2026-03-02T09:{at:02}:00Z", **place)
                | {"metadata": {"files": [f"{CANARY}.py"]}}
                for at, line in enumerate(conversation() * 3)
            ]
            lines.append(said(f"{LONG} {CANARY}", "2026-03-02T10:00:00Z", role="tool", **place))
            await learn(app, [*lines, *conversation("2026-05-10", session="s2", project="beta")])
            await app.pipeline.compactor.compact(session, force=True)
            await app.pipeline.until_idle()
            await app.pipeline.lease.release()
            await database_of(app).write(Transaction.run, "INSERT INTO llm_answer VALUES ('k', ?, 1)", (CANARY,))
            await database_of(app).write(
                Transaction.run,
                "INSERT INTO audit (at_ms, name, action, project, many, outcome) VALUES (1, 'ada', 'ask', ?, 1, 'ok')",
                (place["project"],),
            )
            with superuser(url) as connection:
                connection.execute("ANALYZE")
            found = files_with_canary(url)
            assert {"event_2026q1", "search_terms", "node_version", "bullet", "grip", "session"} < found
            assert any(name.startswith("pg_toast") for name in found)
            assert sampled(url) == []

            done = await carry_out(app, request, dry_run=False)
            assert (done.unscrubbed, done.again) == ("", "")
            left = files_with_canary(url)
            assert left == set()
            assert sampled(url) == []
            assert (await app.answers.search("session tests pass", "beta"))[0].hits


async def test_tables_are_not_rewritten_while_someone_reads_an_earlier_state_or_uses_them() -> None:
    url = new_database()
    async with PostgresStore.open(url) as store:
        await add(store, event(f"The {CANARY} swims.", 1), event("The seal says nothing.", 2, session="s2"))
        with psycopg.connect(url) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            assert reader.execute("SELECT count(*) FROM mcp_memory.event").fetchone() == (2,)
            await store.forget(ForgetRequest(match=CANARY), dry_run=False)
            assert f"process {reader.info.backend_pid} of the server" in await store.scrub(1)
            assert "event_2026q1" in files_with_canary(url)
        assert await store.scrub(1) == ""
        assert files_with_canary(url) == set()


async def test_a_table_in_use_is_rewritten_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "_LOCK_MS", 50)
    url = new_database()
    async with PostgresStore.open(url) as store:
        await add(store, event(f"The {CANARY} swims.", 1))
        await store.forget(ForgetRequest(match=CANARY), dry_run=False)
        with psycopg.connect(url) as user:
            # It has read no row, so that it sees no earlier state.
            user.execute("LOCK TABLE mcp_memory.event_2026q1 IN ACCESS SHARE MODE")
            assert await store.scrub(1) == "the table event_2026q1 is in use"
        assert await store.scrub(1) == ""
        assert files_with_canary(url) == set()


async def test_large_tables_wait_for_a_running_server_which_rewrites_them_once_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rewriting, "SMALL_BYTES", 0)
    monkeypatch.setattr(store_module, "_AGAIN_SECONDS", 0.0)
    url, now = new_database(), time.time_ns() // 1_000_000
    async with PostgresStore.open(url) as store:
        await add(store, event(f"The {CANARY} swims.", 1), event(f"The {CANARY} dives.", 2, session="s2"))
        await store.forget(ForgetRequest(session_id="s1"), dry_run=False)
        assert "within the hour" in await store.scrub(1)
        assert await store.scrub() == ""
        await store.forget(ForgetRequest(session_id="s2"), dry_run=False)
        assert "within the hour" in await store.scrub()
        assert "event_2026q1" in files_with_canary(url)
        with psycopg.connect(url, autocommit=True) as connection:
            configure(connection)
            prepare_connection(connection)
            assert "event_2026q1" in {table.name for table in due_tables(connection)}
            assert rewrite(connection, now + 2 * PAUSE_MS, background=True) == ""
            assert (due_tables(connection), pending(connection, now)) == ([], "")
        assert files_with_canary(url) == set()


async def test_a_table_that_an_operator_has_rewritten_is_not_rewritten_again() -> None:
    url = new_database()
    async with PostgresStore.open(url) as store:
        await add(store, event(f"The {CANARY} swims.", 1))
        await store.forget(ForgetRequest(match=CANARY), dry_run=False)
        with psycopg.connect(url, autocommit=True) as operator:
            operator.execute("VACUUM (FULL) mcp_memory.event_2026q1")
            operator.execute("SET search_path = mcp_memory")
            names = {table.name for table in due_tables(operator)}
        assert "search" in names
        assert "event_2026q1" not in names
