"""What the index in PostgreSQL keeps of a row beside its words: who may read it, and where it belongs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mcp_memory.domain.events import Event, EventType, Intake
from mcp_memory.domain.people import Viewer
from mcp_memory.domain.terms import Within, terms_of
from mcp_memory.store.postgres import migrations, reindexing
from mcp_memory.store.postgres.database import Link
from mcp_memory.store.postgres.index import PostgresIndex
from mcp_memory.store.postgres.matching import Visible
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.postgres.translation import by_keys, in_arrays, translated
from mcp_memory.store.sql.database import Transaction
from tests.postgres import new_database
from tests.store.engines import build, said

pytestmark = pytest.mark.anyio

MAY_READ = "visibility = 'team' AND project = ANY(:open) OR author = :viewer"


@asynccontextmanager
async def memory() -> AsyncIterator[PostgresStore]:
    async with PostgresStore.open(new_database()) as store:
        yield store


async def tell(store: PostgresStore, event: Event, author: str = "", project: str = "alpha") -> None:
    assert await store.add([Intake((event,), f"/home/ada/{project}", author=author)])


def index_for(store: PostgresStore, viewer: str, *open_projects: int) -> PostgresIndex:
    return PostgresIndex(store.database, Visible(MAY_READ, {"viewer": viewer, "open": list(open_projects)}))


async def found(index: PostgresIndex, words: str, within: Within | None = None) -> list[str]:
    pool = await index.pool(terms_of(words), within or Within(), cited=False, limit=20)
    return sorted(message.text for message in pool.messages[: pool.matched])


async def two_people(store: PostgresStore) -> None:
    mine = said("the walrus sleeps", 1, session="a")
    await tell(store, mine, "ada")
    await tell(store, replace(said("the walrus wakes", 2, session="b"), visibility="team"), "bob")
    await tell(store, said("the walrus hides in src/ice_floe.py", 3, session="b"), "bob")


async def test_who_may_not_see_a_message_does_not_find_it_in_any_way() -> None:
    async with memory() as store:
        await two_people(store)
        assert await found(index_for(store, "ada", 1), "walrus") == ["the walrus sleeps", "the walrus wakes"]
        assert await found(index_for(store, "ada"), "walrus") == ["the walrus sleeps"]
        assert await found(index_for(store, "eve"), "walrus") == []
        index = index_for(store, "ada", 1)
        assert await found(index, "ice_floe") == []
        assert await found(index, '"hides in src"') == []
        assert await index.known(["walrus", "floe", "hides"]) == {"walrus": 2}
        every = await index.search(terms_of("walrus floe"), Within(), kinds=None, limit=9)
        assert {entry.event.text for entry in every if entry.event} == {"the walrus sleeps", "the walrus wakes"}


async def test_how_often_a_rare_word_is_said_is_not_told_of_what_may_not_be_seen() -> None:
    async with memory() as store:
        await two_people(store)
        told = await index_for(store, "ada", 1).pool(terms_of("walrus floe"), Within(), cited=False, limit=5)
        assert list(told.frequencies.values()) == [2, 0]


async def test_a_file_is_found_only_where_it_may_be_seen() -> None:
    async with memory() as store:
        told = said("Edit: src/ice_floe.py", 1, kind=EventType.TOOL_RESULT)
        await tell(store, replace(told, role="tool"), "bob")  # type: ignore[arg-type]

        async def holding(viewer: str) -> int:
            sql, values = index_for(store, viewer).holding("src/ice_floe.py", 5)
            return len(await store.database.fetch(sql, values))

        assert [await holding(viewer) for viewer in ("bob", "ada")] == [1, 0]


async def test_a_row_follows_when_its_session_moves_and_when_others_may_read_it() -> None:
    async with memory() as store:
        await tell(store, said("the walrus sleeps", 1), "ada")
        await tell(store, said("a penguin", 2, session="s2"), "ada", "beta")
        await store.merge("alpha", "beta")
        assert await found(store.index, "walrus", Within("beta")) == ["the walrus sleeps"]  # type: ignore[arg-type]
        assert await found(index_for(store, "bob", 2), "walrus") == []
        await store.database.write(lambda tx: tx.run("UPDATE event SET visibility = 'team' WHERE id = 1"))
        assert await found(index_for(store, "bob", 2), "walrus") == ["the walrus sleeps"]
        assert await found(index_for(store, "bob"), "walrus") == []


async def test_what_the_tree_says_is_for_all_who_may_read_its_project() -> None:
    async with memory() as store:
        await tell(store, said("Please move the walrus to the other zoo.", 1), "ada")
        await build(store)
        terms = terms_of("walrus")
        kinds = frozenset({"segment", "day"})
        assert await index_for(store, "bob", 1).search(terms, Within(), kinds=kinds, limit=9)
        assert await index_for(store, "bob").search(terms, Within(), kinds=kinds, limit=9) == []


def test_a_statement_that_looks_rows_up_takes_its_numbers_as_arrays() -> None:
    sql = "SELECT '?' FROM event e WHERE e.id IN (?,?,?) AND e.session NOT IN (?) AND e.tokens > ? LIMIT 2"
    told, sizes = by_keys(sql) or ("", ())
    assert told == "SELECT '?' FROM event e WHERE e.id = ANY(%s) AND e.session <> ALL(%s) AND e.tokens > %s LIMIT 2"
    assert in_arrays([1, 2, 3, 4, 5], sizes) == [[1, 2, 3], [4], 5]
    # Of these the plan depends on the values.
    assert by_keys("SELECT id FROM event WHERE session = ? LIMIT ?") is None
    assert by_keys("SELECT id FROM event WHERE id > ?") is None
    assert by_keys("SELECT id FROM event WHERE id = :number") is None
    assert by_keys("UPDATE event SET tokens = 1 WHERE id = ?") is None


async def test_what_is_kept_of_a_plan_outlives_the_read_and_serves_every_viewer() -> None:
    async with memory() as store:
        await two_people(store)
        for viewer in ("ada", "bob", "ada"):
            found = await store.seen_by(Viewer(viewer)).candidates([1, 2])
            assert sorted(entry.document.author for entry in found.values() if isinstance(entry.document, Event))

        def kept(link: Link) -> list[str]:
            return [told for (told,) in link.execute("SELECT statement FROM pg_prepared_statements")]

        told = await store.database.read(kept)
        assert told
        assert len(told) == len(set(told))
        assert not any("'ada'" in each or "'bob'" in each for each in told)


def test_a_few_rows_for_each_are_looked_up_beside_it() -> None:
    each = (
        "FROM segment g CROSS JOIN event e ON e.id IN (SELECT id FROM event WHERE (f(a) = (1) OR (b)) LIMIT 3) WHERE x"
    )
    assert translated(each) == (
        "FROM segment g CROSS JOIN LATERAL (SELECT id FROM event WHERE (f(a) = (1) OR (b)) LIMIT 3) few "
        "JOIN event e ON e.id = few.id WHERE x"
    )
    assert translated("FROM a CROSS JOIN b e ON e.id = a.id") == "FROM a JOIN b e ON e.id = a.id"


async def test_the_words_of_the_index_lie_beside_its_rows_and_nothing_waits_to_be_put_in() -> None:
    async with memory() as store:
        told = " ".join(f"word{number}" for number in range(100))
        for number in range(30):
            await tell(store, said(f"{told} {number}", number))
        assert await store.database.value("SELECT avg(pg_column_size(terms)) FROM search") > 1_000
        assert await store.database.value("SELECT pg_relation_size('search')") == 8_192
        assert await store.database.value("SELECT reloptions::text FROM pg_class WHERE relname = 'search_terms'") == (
            "{fastupdate=off}"
        )


async def test_documents_stemmed_by_an_earlier_rule_are_indexed_again_in_portions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reindexing, "BATCH", 2)
    url = new_database()

    def as_before(tx: Transaction) -> None:
        """Store words as the earlier rule stemmed them, and how often they were counted."""
        tx.run("UPDATE search SET terms = $$'straße':1 'walrus':2$$::tsvector")
        tx.run("INSERT INTO frequency (word, documents, spoken) VALUES ('straße', 9, 9)")
        tx.run("INSERT INTO meta (key, value) VALUES ('counted', '5')")
        tx.run(next(text for _, name, text in migrations.steps() if "stems" in name))

    async with PostgresStore.open(url) as store:
        for number in range(5):
            await tell(store, said(f"Straße {number} ist gesperrt", number, session=f"s{number}"))
        await build(store)
        assert not await store.index_keeper.behind()
        await store.database.write(as_before)
    async with PostgresStore.open(url) as store:
        keeper = store.index_keeper
        await store.database.write(lambda tx: tx.run("DELETE FROM event WHERE id = 5"))
        assert await found(keeper, "straße") == []
        assert await keeper.behind()
        assert (await keeper.state()).state == "behind"
        assert await keeper.catch_up() == 2
        assert await found(keeper, "straße") == ["Straße 0 ist gesperrt"]
        while await keeper.catch_up():
            pass
        assert await found(keeper, "straße") == [f"Straße {number} ist gesperrt" for number in range(4)]
        assert await keeper.search(terms_of("gesperrt"), Within(), kinds=frozenset({"day"}), limit=9)
        assert not await keeper.behind()
        assert (await keeper.state()).state == "current"
        assert await store.database.fetch("SELECT word FROM frequency") == []
