"""The second guard: what the role of viewers may read of each table, by the database's own list of them.

A table that is added later fails here until someone has decided who may read it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from mcp_memory.app import open_app
from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.people import MEMBER, Viewer
from mcp_memory.store.postgres.database import SCHEMA
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.postgres.viewing import GUARDED, INDEX, OPEN
from tests.store.engines import DAY
from tests.store.test_team_private import ADA, BOB, HUSH, build, settings_at, tell

pytestmark = pytest.mark.anyio
#: What no viewer reads: people and tokens, the audit, what was asked of models, and what only waits or is bookkeeping.
SHUT = {
    *(
        "team_user",
        "team_token",
        "team_session",
        "team_member",
        "audit",
        "owner",
        "begun_project",
        "forgotten",
        "forgotten_words",
        "forgotten_name",
        "forgetting",
        "secret",
    ),
    *("llm_answer", "llm_attempt", "llm_call", "llm_state"),
    "failure",
    *("shared_project", "shared_session", "to_push", "to_withdraw", "to_rewrite", "team_erasure"),
}


@asynccontextmanager
async def team(home: Path) -> AsyncIterator[PostgresStore]:
    """Ada has said something to herself in a session that the team reads, and in one that it does not."""
    async with open_app(settings_at(home), for_team=True) as app:
        store = cast(PostgresStore, app.store)
        await store.become_team("UTC")
        await store.add_user("ada", MEMBER, 0, DAY)
        await tell(store)
        await build(app)
        await store.seen_by(BOB).slugs()  # makes the role
        yield store


@contextmanager
def raw(store: PostgresStore, viewer: str | None = None) -> Iterator[psycopg.Connection[Any]]:
    """Any SQL one likes, in the role of viewers."""
    role = store.database.viewer_role
    with psycopg.connect(store.database.url) as connection, connection.transaction(force_rollback=True):
        connection.execute(cast(Any, f'SET LOCAL search_path = {SCHEMA}; SET LOCAL ROLE "{role}"'))
        if viewer is not None:
            connection.execute("SELECT set_config('mcp_memory.viewer', %s, true)", (viewer,))
        yield connection


def fetched(store: PostgresStore, sql: str) -> list[Any]:
    """As the owner of the tables."""
    with psycopg.connect(store.database.url) as connection:
        return connection.execute(cast(Any, sql)).fetchall()


def listed(store: PostgresStore, what: str) -> dict[str, Any]:
    """Something of each table and view, by its name."""
    held = f"c.relnamespace = '{SCHEMA}'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
    return dict(fetched(store, f"SELECT c.relname, {what} FROM pg_class c WHERE {held}"))


async def test_of_each_table_it_is_decided_who_may_read_it(tmp_path: Path) -> None:
    async with team(tmp_path) as store:
        tables = listed(store, "c.relispartition")
        quarters = {name for name, is_part in tables.items() if is_part}
        decided = [set(GUARDED), set(INDEX), set(OPEN), SHUT]
        assert quarters
        assert tables.keys() - quarters == set().union(*decided)
        assert sum(map(len, decided)) == len(tables.keys() - quarters)
        role = store.database.viewer_role
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"):
            may = listed(store, f"has_table_privilege('{role}', c.oid, '{right}')")
            reads = {*GUARDED, *INDEX, *OPEN} if right == "SELECT" else set()
            assert {name for name, it_may in may.items() if it_may} == reads, right


async def test_each_table_that_holds_what_someone_said_is_guarded_by_a_policy(tmp_path: Path) -> None:
    async with team(tmp_path) as store:
        policies = (
            "c.relrowsecurity::text || (SELECT string_agg(p.polcmd, '') FROM pg_policy p WHERE p.polrelid = c.oid)"
        )
        found = listed(store, policies)
        assert {name: found[name] for name in GUARDED} == dict.fromkeys(GUARDED, "truer")
        # A word in the index is kept by no policy, or it could not be looked up by it; test_team_sight tries that.
        told = set[str]()
        for viewer in (None, "", "bob", "root"):
            with raw(store, viewer) as connection:
                for name in (*GUARDED, *OPEN):
                    rows = str(connection.execute(cast(Any, f"SELECT t::text FROM {name} t")).fetchall())
                    assert HUSH not in rows, f"{name} to {viewer}"
                    assert viewer or rows == "[]" or name in OPEN
                    told |= {name} if viewer and rows != "[]" else set()
        assert told >= {"event", "session", "node", "bullet", "grip", "compaction", "project"}
        with raw(store, "ada") as connection:
            assert HUSH in str(connection.execute("SELECT text FROM event").fetchall())


async def test_the_role_of_viewers_logs_in_nowhere_and_owns_nothing(tmp_path: Path) -> None:
    async with team(tmp_path) as store:
        role = store.database.viewer_role
        rights = "rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls"
        assert set(*fetched(store, f"SELECT {rights} FROM pg_roles WHERE rolname = '{role}'")) == {False}
        for held in ("pg_class WHERE relowner", "pg_proc WHERE proowner", "pg_auth_members WHERE member"):
            assert fetched(store, f"SELECT count(*) FROM {held} = '{role}'::regrole") == [(0,)]


async def test_only_the_login_of_the_server_may_take_the_role_of_viewers(tmp_path: Path) -> None:
    """Whoever may could read the words of the index, which no policy guards (docs/SECURITY.md)."""
    async with team(tmp_path) as store:
        role = store.database.viewer_role
        members = f"SELECT DISTINCT member::regrole::text FROM pg_auth_members WHERE roleid = '{role}'::regrole"
        assert fetched(store, members) == fetched(store, "SELECT current_user::text")


async def test_the_one_function_that_reads_more_than_its_caller_tells_numbers_and_looks_in_one_place(
    tmp_path: Path,
) -> None:
    async with team(tmp_path) as store:
        told = "proname, prorettype::regtype::text, proconfig"
        owned = f"pronamespace = '{SCHEMA}'::regnamespace AND prosecdef"
        rows = fetched(store, f"SELECT {told} FROM pg_proc WHERE {owned}")
        assert rows == [("projects_of", "bigint[]", [f"search_path={SCHEMA}, pg_temp"])]


HOSTILE = (
    "'; SELECT set_config('mcp_memory.viewer', 'ada', true); --",
    f"{HUSH}' OR ''='",
    f"{HUSH}:* | !x & \\' §projects §session %s ? :project",
    "') UNION SELECT text FROM event --\0",
    " OR set_config($$mcp_memory.viewer$$, $$ada$$, true) IS NOT NULL OR y.author = $$§by$$ OR y.author = ",
)


@pytest.mark.slow
async def test_no_words_of_a_question_become_words_of_a_statement(tmp_path: Path) -> None:
    async with open_app(settings_at(tmp_path), for_team=True) as app:
        store = cast(PostgresStore, app.store)
        await store.become_team("UTC")
        await tell(store)
        await build(app)
        ada, bob = app.seen_by(ADA), app.seen_by(BOB)
        for words in HOSTILE:
            for project in ("*", "alpha"):
                hits, _ = await bob.answers.teleport(words, project, None, budget=2_000)
                assert not [hit for hit in hits.hits if f"the {HUSH}" in str(hit)]
            assert await bob.store.sessions(words, 9) == []
            assert await bob.store.root_of(words) is None
            assert await bob.store.known([words]) == {}
            assert await bob.store.slugs() == ["alpha"]
            # Nor those of a name: of a person's that is asked for by a page, and of the one who asks.
            assert await app.seen_by(BOB, words).store.events(EventQuery()) == []
            assert await store.seen_by(Viewer(words)).sessions("", 9) == ["a1"]
        hits, _ = await ada.answers.teleport(HOSTILE[1], "*", None, budget=2_000)
        assert [hit for hit in hits.hits if f"the {HUSH}" in str(hit)]
