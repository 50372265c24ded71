"""A team's store: who a token belongs to, and that a member sees what is the team's and its own, whatever asks."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import anyio
import psycopg
import pytest

from mcp_memory.domain.events import Event, EventQuery, Intake
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.inventory import SessionQuery
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.people import ADMIN, MEMBER, READER, AuditRow, Viewer
from mcp_memory.errors import NotAllowed, NotFound, UsageError
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.postgres.viewing import GUARDED, guarded
from mcp_memory.store.sql.database import Transaction
from tests.postgres import new_database
from tests.store.engines import DAY, build, said, talk, texts

pytestmark = pytest.mark.anyio
ADA, BOB = Viewer("ada"), Viewer("bob")


@asynccontextmanager
async def team() -> AsyncIterator[PostgresStore]:
    async with PostgresStore.open(new_database()) as store:
        yield store


async def tell(
    store: PostgresStore, author: str, *events: Event, visibility: str = "team", root: str = "/w/alpha"
) -> None:
    told = [replace(event, visibility=visibility) for event in events]
    await store.add([Intake((event,), root, "", author=author) for event in told])


async def test_a_token_is_its_members_until_it_expires_or_the_member_is_revoked() -> None:
    async with team() as store:
        token = await store.add_user("ada", READER, 1_000, 1_000 + DAY)
        further = await store.add_token("ada", 1_000, 2_000)
        assert await store.viewer_of(token, 1_500) == await store.viewer_of(further, 1_500) == Viewer("ada", READER)
        assert await store.viewer_of(further, 2_000) is None
        assert await store.viewer_of("another", 1_500) is None
        await store.set_role("ada", ADMIN)
        assert await store.viewer_of(token, 1_500) == Viewer("ada", ADMIN)
        assert await store.revoke_user("ada", 3_000) == 1
        assert await store.viewer_of(token, 3_000) is None
        # Who comes back comes back with a new token alone.
        again = await store.add_user("ada", MEMBER, 4_000, 4_000 + DAY)
        assert await store.viewer_of(token, 4_000) is None
        assert await store.viewer_of(again, 4_000) == ADA
        [user] = await store.users(4_000)
        assert (user.name, user.role, user.revoked_ms, user.tokens) == ("ada", MEMBER, None, 1)


async def test_no_token_is_stored_as_it_is() -> None:
    async with team() as store:
        token = await store.add_user("ada", MEMBER, 0, DAY)
        with psycopg.connect(store.database.url) as connection:
            rows = connection.execute("SELECT t::text FROM mcp_memory.team_token t").fetchall()
        assert rows
        assert token not in str(rows)
        assert token.removeprefix("mcpm_") not in str(rows)


async def test_people_who_are_not_there_or_are_there_already_are_told_so() -> None:
    async with team() as store:
        await store.add_user("ada", MEMBER, 0, DAY)
        with pytest.raises(UsageError, match="already"):
            await store.add_user("ada", MEMBER, 0, DAY)
        with pytest.raises(UsageError, match="no name"):
            await store.add_user("Ada Lovelace", MEMBER, 0, DAY)
        with pytest.raises(UsageError, match="no role"):
            await store.add_user("bob", "king", 0, DAY)
        with pytest.raises(NotFound):
            await store.add_token("bob", 0, DAY)
        await store.revoke_user("ada", 1)
        with pytest.raises(UsageError, match="revoked"):
            await store.add_token("ada", 2, DAY)


async def test_a_member_sees_what_is_the_teams_and_what_it_said_itself() -> None:
    async with team() as store:
        await tell(store, "ada", said("The release is on Friday.", 0, session="a1"))
        await tell(store, "ada", said("My password hint is a cat.", 5, session="a2"), visibility="private")
        await tell(store, "bob", said("Bob thinks that is early.", 9, session="b1"))
        everything = ["The release is on Friday.", "My password hint is a cat.", "Bob thinks that is early."]
        assert await texts(store, EventQuery()) == everything
        assert await texts(store.seen_by(ADA), EventQuery()) == everything
        assert await texts(store.seen_by(BOB), EventQuery()) == [everything[0], everything[2]]
        assert await texts(store.seen_by(BOB, "bob"), EventQuery()) == [everything[2]]
        assert await store.seen_by(BOB).sessions("", 9) == ["b1", "a1"]
        assert (await store.seen_by(BOB).counts()).events == 2


async def test_a_project_with_members_is_seen_by_them_alone() -> None:
    async with team() as store:
        await store.add_user("ada", MEMBER, 0, DAY)
        await store.add_user("root", ADMIN, 0, DAY)
        await tell(store, "ada", *talk("a1"))
        await tell(store, "bob", said("Beta is open.", 0, session="b1"), root="/w/beta")
        await build(store)
        await store.add_member("alpha", "ada")
        assert await store.seen_by(ADA).slugs() == ["alpha", "beta"]
        for other in (BOB, Viewer("root", ADMIN), Viewer("stranger")):
            seen = store.seen_by(other)
            assert await seen.slugs() == ["beta"]
            assert await seen.nodes(NodeQuery("alpha")) == []
            assert await texts(seen, EventQuery()) == ["Beta is open."]
            assert await seen.session_list(SessionQuery()) != []
            assert [one.project for one in await seen.session_list(SessionQuery())] == ["beta"]
        with pytest.raises(UsageError, match="last member"):
            await store.remove_member("alpha", "ada")
        await store.remove_member("alpha", "ada", opens=True)
        assert await store.seen_by(BOB).slugs() == ["alpha", "beta"]


async def test_a_project_and_a_session_that_hold_nothing_for_someone_have_no_name_there() -> None:
    async with team() as store:
        await tell(store, "ada", said("Mine alone.", 0, session="secret-plan"), visibility="private", root="/w/hush")
        seen = store.seen_by(BOB)
        assert (await seen.slugs(), await seen.sessions("", 9), await seen.projects()) == ([], [], [])
        assert await seen.project_of_root("/w/hush", "") is None
        assert await store.seen_by(ADA).slugs() == ["hush"]


async def test_nothing_is_written_through_what_a_member_sees() -> None:
    async with team() as store:
        await tell(store, "ada", *talk())
        seen = store.seen_by(ADA)
        for attempt in (
            lambda: seen.add([]),
            lambda: seen.forget(ForgetRequest(session_id="s1"), dry_run=False),
            lambda: seen.rename("alpha", "omega"),
            lambda: seen.merge("alpha", "alpha"),
            lambda: seen.rebuild("UTC"),
            lambda: seen.pin(b"", True),
            lambda: seen.trust("/w/alpha", "omega"),
        ):
            with pytest.raises(NotAllowed):
                await attempt()
        assert len(await texts(store, EventQuery())) == 2


async def test_sharing_and_taking_back_change_what_others_see_at_once() -> None:
    async with team() as store:
        await tell(store, "ada", said("First mine.", 0, session="a1"), visibility="private")
        assert await store.seen_by(BOB).sessions("", 9) == []
        for visibility, seen in (("team", ["a1"]), ("private", [])):
            await store.database.write(Transaction.run, "UPDATE event SET visibility = ?", (visibility,))
            assert await store.seen_by(BOB).sessions("", 9) == seen
        await store.database.write(lambda tx: tx.run("UPDATE event SET visibility = 'team'"))
        await store.database.write(lambda tx: tx.run("DELETE FROM event"))
        assert await store.seen_by(BOB).sessions("", 9) == []


async def test_what_was_done_is_noted_for_so_long_and_so_often() -> None:
    async with team() as store:
        rows = [AuditRow(at, "ada", "teleport", "alpha", 3) for at in (1, 2, 3)]
        await store.note_audit([*rows, AuditRow(4, "bob", "toc_root")], 2, 100)
        assert [row.at_ms for row in await store.audit(None, 9)] == [4, 3, 2]
        assert await store.audit("ada", 1) == [rows[2]]
        await store.note_audit([AuditRow(5, "bob", "toc_root")], 0, 2)
        assert [row.at_ms for row in await store.audit(None, 9)] == [5, 4]


async def test_what_is_noted_of_members_is_no_news_to_who_watches_the_memory() -> None:
    async with team() as store:
        before = await store.changes(own=True)
        await store.note_audit([AuditRow(1, "ada", "teleport")], 0, 9)
        await tell(store, "ada", said("One.", 0))
        with anyio.fail_after(10):
            while (after := await store.changes(own=True)) == before:
                await anyio.sleep(0.01)
        assert after == before + 1


# what the two guards are


def test_every_table_that_is_read_from_is_replaced() -> None:
    sql = guarded(
        "SELECT 1 FROM event e JOIN session s ON s.id = e.session LEFT JOIN node ON TRUE WHERE e.id IN (SELECT"
    )
    assert sql.count("§projects") == 3
    assert ") e JOIN (" in sql
    assert ") node ON TRUE" in sql


async def test_raw_sql_in_the_role_of_viewers_sees_what_the_viewer_may_and_without_one_nothing() -> None:
    async with team() as store:
        await store.add_user("ada", MEMBER, 0, DAY)
        await tell(store, "ada", *talk("a1"))
        await tell(store, "ada", said("Mine alone.", 90, session="a2"), visibility="private", root="/w/hush")
        await tell(store, "bob", *[replace(one, key=b"b" + one.key[1:]) for one in talk("b1")], root="/w/beta")
        await build(store)
        await store.add_member("beta", "ada")
        await store.seen_by(ADA).slugs()  # makes the role
        role = store.database.viewer_role
        with psycopg.connect(store.database.url) as connection:

            def count(viewer: str | None) -> dict[str, int]:
                with connection.transaction(force_rollback=True):
                    connection.execute("SET LOCAL search_path = mcp_memory")
                    connection.execute(cast(Any, f'SET LOCAL ROLE "{role}"'))
                    if viewer is not None:
                        connection.execute("SELECT set_config('mcp_memory.viewer', %s, true)", (viewer,))
                    return {
                        table: len(connection.execute(cast(Any, f"SELECT 1 FROM {table}")).fetchall())
                        for table in GUARDED
                    }

            assert set(count(None).values()) == set(count("").values()) == {0}
            ada, bob = count("ada"), count("bob")
            assert (ada["event"], ada["project"], ada["session"]) == (5, 3, 3)
            assert (bob["event"], bob["project"], bob["session"]) == (2, 1, 1)
            for table in ("segment", "node", "node_version", "bullet", "grip"):
                assert 0 < bob[table] < ada[table], table
            for table in ("team_user", "team_token", "team_member", "audit", "llm_answer", "forgotten"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                    connection.execute(cast(Any, f'SET LOCAL ROLE "{role}"'))
                    connection.execute(cast(Any, f"SELECT 1 FROM mcp_memory.{table}"))


async def test_the_same_key_twice_in_one_push_is_one_event_and_keeps_no_other_out() -> None:
    async with team() as store:
        await store.become_team("UTC")
        first = said("A kite.", 1)
        again = replace(said("A kite, once more.", 2), key=first.key)
        elsewhere = replace(said("A kite of another session.", 3, session="s2"), key=first.key)
        heron = said("A heron.", 4)
        intakes = [
            Intake((first, again, heron), "", "alpha", author="ada"),
            Intake((elsewhere,), "", "alpha", author="ada"),
        ]
        received = await store.receive(intakes)
        assert (received.new, received.refused) == (2, {})
        assert (await store.receive(intakes)).new == 0
        assert await texts(store, EventQuery()) == ["A kite.", "A heron."]


async def test_a_push_with_names_and_metadata_of_any_kind_is_taken() -> None:
    long = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(250))
    odd = replace(said("A kite.", 1, session=long, via={"a": []}, n="\0"), source_ids=(long, "\ud83d"))
    async with team() as store:
        await store.become_team("UTC")
        received = await store.receive([Intake((odd, said("A heron.", 2, session=long)), "", long, author="ada")])
        assert received.new == 2
        [event, _] = await store.events(EventQuery())
        assert dict(event.metadata) == {"n": "\ufffd"}
        assert event.session_id.startswith(long[:200])
