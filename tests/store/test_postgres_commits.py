"""Writes to PostgreSQL whose COMMIT gets no answer, and writes to tables that a later version has upgraded."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

import psycopg
import pytest

from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.people import MEMBER, Viewer
from mcp_memory.errors import StoreNewer
from mcp_memory.models.port import PlannedCall
from mcp_memory.store.postgres.migrations import latest
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sql.work import SqlLedger
from tests.postgres import new_database
from tests.store.engines import DAY, add, said
from tests.support import StoppedClock

pytestmark = pytest.mark.anyio
KEPT, LOST = "kept", "lost"


@dataclass
class Proxy:
    """Passes everything on to a server; breaks a connection at COMMIT if it was asked to."""

    target: tuple[str, int]
    #: What becomes of the next commit: `kept`, and its answer is lost, or `lost` before the server hears of it.
    next_commits: list[str] = field(default_factory=list)
    broken: int = 0
    _sockets: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, listening: socket.socket) -> None:
        self._run(self._accept, listening)

    def stop(self) -> None:
        for held in self._sockets:
            _shut(held)
        for thread in self._threads:
            thread.join(10)
        for held in self._sockets:
            held.close()

    def _run(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket) -> None:
        self._sockets.append(listening)
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(self.target)
                self._sockets += (client, server)
                self._run(self._pump, client, server, True)
                self._run(self._pump, server, client, False)

    def _pump(self, source: socket.socket, sink: socket.socket, is_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if is_client and b"COMMIT" in data and self.next_commits:
                    self.broken += 1
                    _shut(source)
                    if self.next_commits.pop(0) == KEPT:
                        sink.sendall(data)
                        sink.shutdown(socket.SHUT_WR)
                        return
                    break
                sink.sendall(data)
        _shut(source)
        _shut(sink)


def _shut(held: socket.socket) -> None:
    with suppress(OSError):
        held.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy in front of a database, and the URL that leads through it."""
    place = psycopg.conninfo.conninfo_to_dict(url)
    proxy = Proxy((str(place["host"]), int(place["port"] or 0)))
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    proxy.start(listening)
    try:
        yield proxy, url.replace(f":{place['port']}/", f":{port}/")
    finally:
        proxy.stop()


@asynccontextmanager
async def breakable() -> AsyncIterator[tuple[PostgresStore, Proxy]]:
    with proxy_to(new_database()) as (proxy, url):
        async with PostgresStore.open(url) as store:
            yield store, proxy


FATES = pytest.mark.parametrize("fates", [[KEPT], [LOST], [KEPT, LOST], [LOST, KEPT]], ids="-".join)


@FATES
async def test_a_new_member_gets_the_token_that_was_stored(fates: list[str]) -> None:
    async with breakable() as (store, proxy):
        proxy.next_commits = [*fates]
        token = await store.add_user("ada", MEMBER, 0, DAY)
        assert proxy.broken
        assert await store.viewer_of(token, 1) == Viewer("ada")
        [user] = await store.users(1)
        assert user.tokens == 1


@FATES
async def test_a_further_token_is_made_once(fates: list[str]) -> None:
    async with breakable() as (store, proxy):
        await store.add_user("ada", MEMBER, 0, DAY)
        proxy.next_commits = [*fates]
        token = await store.add_token("ada", 0, DAY)
        assert proxy.broken
        assert await store.viewer_of(token, 1) == Viewer("ada")
        [user] = await store.users(1)
        assert user.tokens == 2


@FATES
async def test_a_call_to_a_model_is_counted_once(fates: list[str]) -> None:
    async with breakable() as (store, proxy):
        ledger = SqlLedger(store.database, StoppedClock(), UTC, 10_000)
        proxy.next_commits = [*fates]
        await ledger.reserve(PlannedCall("segment", "toc:year:2026", "model", 100, 20))
        assert proxy.broken
        assert await ledger.room() == 10_000 - 120


@FATES
async def test_an_event_is_reported_as_new_although_the_answer_was_lost(fates: list[str]) -> None:
    async with breakable() as (store, proxy):
        proxy.next_commits = [*fates]
        assert await add(store, said("The walrus is here.", 1)) == 1
        assert proxy.broken


async def test_nothing_is_written_to_tables_that_a_later_version_upgraded_meanwhile() -> None:
    url = new_database()
    async with PostgresStore.open(url) as store:
        await add(store, said("Before.", 1))
        with psycopg.connect(url) as later:
            later.execute("INSERT INTO mcp_memory.migration (number, name) VALUES (%s, 'later')", (latest() + 1,))
        with pytest.raises(StoreNewer, match="Update mcp-memory"):
            await add(store, said("After.", 2))
        with pytest.raises(StoreNewer):
            await store.database.write_alone(Transaction.run, "DELETE FROM event")
        assert await store.database.value("SELECT count(*) FROM event") == 1
        with psycopg.connect(url) as later:
            later.execute("ALTER TABLE mcp_memory.event RENAME COLUMN text TO words")
        with pytest.raises(StoreNewer):
            await store.events(EventQuery())


async def test_a_transaction_that_the_server_has_never_heard_of_was_not_committed() -> None:
    """As where a standby took over that had not received it."""
    async with PostgresStore.open(new_database()) as store:
        database = store.database
        assert not database._tried(lambda link: database._was_committed(link, str(1 << 40)))
