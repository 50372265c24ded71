"""Engines of the store, and what is said in one: for tests that know no more of it than its port."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.events import Event, EventQuery, EventType, Intake, Role, event_key
from mcp_memory.domain.segments import Rules
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.pipeline.rollup import rollup
from mcp_memory.pipeline.segment import segment, summarize
from mcp_memory.store.port import ReadStore, Share, Store
from mcp_memory.store.sqlite.store import SqliteStore
from mcp_memory.summaries import ExtractiveSummarizer
from tests.postgres import new_database
from tests.support import store_of

HOUR, DAY = 3_600_000, 86_400_000
#: Monday, 2026-03-02, 09:00 UTC, and long after all that is said here.
START, LATER = 1_772_442_000_000, 1_790_000_000_000
DAY_REF = NodeRef(Level.DAY, "2026-03-02")
Open = Callable[[], AbstractAsyncContextManager[Store]]


def sqlite(home: Path) -> Open:
    """Opens the same memory, as often as it is called: each is what another process would have."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        async with SqliteStore.open(home / "memory.db", LATER) as store:
            yield store

    return opened


def postgres(home: Path) -> Open:
    """The same in a database of its own on the server of this worker."""
    from mcp_memory.store.postgres.store import PostgresStore

    url = store_of(home).url or new_database()

    @asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        async with PostgresStore.open(url) as store:
            yield store

    return opened


ENGINES = {"sqlite": sqlite, "postgres": postgres}


def said(
    text: str,
    minute: float,
    *,
    session: str = "s1",
    client: str = "claude-code",
    kind: EventType = EventType.USER_MESSAGE,
    name: str = "",
    **metadata: Any,
) -> Event:
    roles = {EventType.ASSISTANT_MESSAGE: Role.ASSISTANT, EventType.COMPACTION: Role.SYSTEM}
    key = event_key(client, session, name or f"{minute}:{text}")
    at_ms = START + round(minute * 60_000)
    return Event(key, client, session, "", at_ms, kind, roles.get(kind, Role.USER), Clean(text), 9, False, (), metadata)


async def add(store: Store, *events: Event, root: str = "/home/ada/alpha", label: str = "") -> int:
    return await store.add([Intake((event,), root, label) for event in events])


async def texts(reader: ReadStore, query: EventQuery) -> list[str]:
    return [event.text for event in await reader.events(query)]


async def build(store: Store, now_ms: int = LATER) -> None:
    """Cut, summarize and roll up all there is."""
    lease = store.lease()
    assert await lease.acquire()
    share, author = Share(lease, math.inf), ExtractiveSummarizer()
    await segment(store, Rules(), now_ms, share.token)
    await summarize(store, author, UTC, count_all, now_ms, share, 0)
    await rollup(store, author, UTC, count_all, now_ms, share)
    await lease.release()


def count_all(texts: Sequence[str]) -> list[int]:
    return [len(text) // 4 for text in texts]


def talk(session: str = "s1", day: int = 0) -> list[Event]:
    start = day * 24 * 60
    return [
        said("Please move the token cache of app/login.py to SQLite.", start, session=session),
        said(
            "I moved the token cache to SQLite; all 48 tests pass and logins stay valid.",
            start + 1,
            session=session,
            kind=EventType.ASSISTANT_MESSAGE,
        ),
    ]


def long_talk() -> list[Event]:
    """Enough for a model to be asked for its summary."""
    return [said(f"{'A long message on the token cache. ' * 9} {number}", number) for number in range(30)]


def without_tombstone_keys(connection: Any) -> None:
    """Undo the step of an SQLite file or a PostgreSQL schema that gave tombstones keyed hashes."""
    for table in ("forgetting", "forgotten_name", "secret"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    for table, column in (("forgotten", "sealed"), ("forgotten", "request"), ("forgotten_words", "request")):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
