"""On a team's server nothing is made of what is private: no node, record, word count or line that others could see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from mcp_memory.app import App, open_app
from mcp_memory.config import Calendar, Settings, StoreSettings
from mcp_memory.domain.events import Event, EventType, Intake
from mcp_memory.domain.inventory import SessionQuery
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.people import Viewer
from mcp_memory.navigate.completions import complete
from mcp_memory.store.postgres.database import SCHEMA
from mcp_memory.store.postgres.store import PostgresStore
from tests.postgres import new_database
from tests.store.engines import LATER, said, talk

pytestmark = pytest.mark.anyio
#: A word that stands in what is private, and nowhere else.
HUSH = "xylograph"
#: How much of its session the team may see: enough for a record.
SHARED = 12
ADA, BOB = Viewer("ada"), Viewer("bob")
REPLY, TITLE, COMPACTED = EventType.ASSISTANT_MESSAGE, EventType.SESSION_TITLE, EventType.COMPACTION


def mixed() -> list[tuple[Event, str]]:
    """A session of the team in the midst of which something private was said, in each way that summaries read."""
    first, second = talk("a1")
    hidden = [
        said(f"Between us: the {HUSH} contract is lost.", 0.2, session="a1"),
        said(f"I decided to drop the {HUSH} module.", 0.4, session="a1", kind=REPLY),
        said(f"The {HUSH} plan", 0.5, session="a1", kind=TITLE),
        said(f"Summary so far: {HUSH}.", 0.6, session="a1", kind=COMPACTED),
        # Just after what the team sees, where corrections are looked for.
        said(f"No, that is wrong: {HUSH}.", 1.1, session="a1"),
        said(f"Fix {HUSH}/login.py, too.", 90, session="a1"),
    ]
    alone = [said(f"All of it is private: {HUSH}.", 5, session=f"{HUSH}-a2")]
    later = [said(f"Then step {number} of the token cache.", 2 + number, session="a1") for number in range(SHARED - 2)]
    return [
        *((event, "team") for event in (first, second, *later)),
        *((event, "private") for event in (*hidden, *alone)),
    ]


async def tell(store: PostgresStore, author: str = "ada") -> None:
    events = [replace(event, visibility=visibility) for event, visibility in mixed()]
    await store.add([Intake((event,), "/w/alpha", "", author=author) for event in events])


def settings_at(home: Path) -> Settings:
    return Settings(home=home, calendar=Calendar("UTC"), store=StoreSettings(new_database()), now_ms=LATER)


def rows_that_say_it(app: App) -> set[str]:
    """The tables that hold the word, what was said itself left out."""
    store = cast(PostgresStore, app.store)
    found = set()
    with psycopg.connect(store.database.url) as connection:
        tables = connection.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition",
            (SCHEMA,),
        ).fetchall()
        assert len(tables) > 30
        for (table,) in tables:
            whole = f"SELECT count(*) FROM {SCHEMA}.{table} t WHERE t::text ILIKE '%{HUSH}%'"
            whole += " AND level >= 0" if table == "search" else ""
            if connection.execute(cast(Any, whole)).fetchone() != (0,):
                found.add(table)
    return found


async def build(app: App) -> None:
    await app.pipeline.until_idle()
    await app.pipeline.compactor.compact("a1", force=True)
    await app.pipeline.until_idle()
    await app.pipeline.lease.release()


async def test_what_is_private_enters_nothing_that_is_made_of_a_session(tmp_path: Path) -> None:
    async with open_app(settings_at(tmp_path), for_team=True) as app:
        store = cast(PostgresStore, app.store)
        await store.become_team("UTC")
        await tell(store)
        await build(app)
        assert rows_that_say_it(app) == {"event", "session"}
        assert [node for node in await store.nodes(NodeQuery("alpha")) if "token" in str(node.bullets)]
        assert await store.records("a1", None)


async def test_a_memory_that_becomes_a_teams_keeps_nothing_that_was_made_for_one(tmp_path: Path) -> None:
    settings = settings_at(tmp_path)
    async with open_app(settings) as app:
        await tell(cast(PostgresStore, app.store), "")
        await build(app)
        assert rows_that_say_it(app) >= {"bullet", "grip", "compaction"}
    async with open_app(settings, for_team=True) as app:
        await cast(PostgresStore, app.store).become_team("UTC")
        await build(app)
        assert rows_that_say_it(app) == {"event", "session"}


async def test_another_member_meets_the_word_nowhere_and_who_said_it_finds_it(tmp_path: Path) -> None:
    async with open_app(settings_at(tmp_path), for_team=True) as app:
        await cast(PostgresStore, app.store).become_team("UTC")
        await tell(cast(PostgresStore, app.store))
        await build(app)
        ada, bob = app.seen_by(ADA), app.seen_by(BOB)
        hits, _ = await ada.answers.teleport(HUSH, "*", None, budget=2_000)
        assert hits.hits
        hits, _ = await bob.answers.teleport(HUSH, "*", None, budget=2_000)
        assert hits.hits == []
        assert await bob.store.known([HUSH]) == {}
        assert (await bob.store.counts()).events == SHARED
        [card] = await bob.store.session_list(SessionQuery())
        assert (card.session_id, HUSH in str(card)) == ("a1", False)
        for argument in ("session", "topic", "grip_id", "node_id", "when"):
            assert HUSH not in str(await complete(bob.answers, argument, ""))
