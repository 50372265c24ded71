"""What is local to this machine, in inbox.db: what hooks captured and print, what agents were handed, how far
transcripts were read.

It cannot be in one transaction with the memory, which may lie elsewhere. So the memory stores events first, and what
they came from leaves the inbox after that: whoever is killed in between tells the memory the same once more, which by
their keys changes nothing. It is opened when it is first asked for.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio

from mcp_memory.clients.port import BadLine
from mcp_memory.domain.failures import Pause
from mcp_memory.domain.forget import ForgetScope
from mcp_memory.domain.handed import BRIEF, Handed, HandedQuery, HandedTotal
from mcp_memory.domain.projects import PlaceName
from mcp_memory.domain.tombstones import TombstoneKey, TombstoneRows
from mcp_memory.errors import LeaseLost
from mcp_memory.store.inbox_port import CopyKind, CopyMade, InboxCounts, InboxRow, Local, Payload
from mcp_memory.store.sql import tombstones
from mcp_memory.store.sql.database import ERASURES, Row, Transaction, note_erasure
from mcp_memory.store.sqlite import keys
from mcp_memory.store.sqlite.database import Database, SqliteTransaction
from mcp_memory.store.sqlite.migrations import INBOX, is_fixed

_ROWS = "SELECT id, received_ms, client, root, label, payload, remote FROM inbox WHERE state = 0 ORDER BY id LIMIT ?"
_FOLLOWED = "SELECT key, value FROM meta WHERE key IN ('memory', 'reached')"
_PAYLOADS = "SELECT id, received_ms, root, label, payload, remote FROM inbox"
_POST = "INSERT INTO inbox (received_ms, client, root, label, payload, remote) VALUES (?, ?, ?, ?, ?, ?)"
_TO_REOPEN = (
    "SELECT 1 FROM inbox WHERE state = 1 "
    "AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'read_by' AND value = nullif(?, '')) LIMIT 1"
)
_NOTE = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"
#: Under what a pause of the pipeline is kept.
PAUSE = "pause"
PAUSED = f"SELECT value FROM meta WHERE key = '{PAUSE}'"
_KEEP = (
    "INSERT INTO brief (root, text, updated_ms) VALUES (?, ?, ?) ON CONFLICT (root) DO UPDATE "
    "SET text = excluded.text, updated_ms = excluded.updated_ms WHERE text <> excluded.text"
)
_NOTE_COPY = "INSERT OR REPLACE INTO copy_made (path, kind, at_ms) VALUES (?, ?, ?)"
_COUNTS = "SELECT (SELECT count(*) FROM inbox WHERE state = 0), (SELECT count(*) FROM inbox WHERE state = 1)"
#: The transcripts that were set aside: path, line and reason.
SET_ASIDE = """
    SELECT json_extract(failed, '$.path'), json_extract(failed, '$.line'), json_extract(failed, '$.reason') FROM (
        SELECT CASE WHEN json_valid(position) THEN json_extract(position, '$.failed') END AS failed
        FROM checkpoint WHERE name LIKE 'transcript:%'
    ) WHERE failed IS NOT NULL ORDER BY 1
"""

_HANDED = "at_ms, kind, client, session, root, label, remote, server, asked, ids, tokens, opened_ms, id"
_ADD_HANDED = """
    INSERT INTO handed (at_ms, kind, client, session, root, label, remote, server, asked, ids, tokens)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
#: What this run of the server answered, and what the hook printed here lately, as far as it was not opened yet.
_UNOPENED = f"""
    SELECT {_HANDED} FROM (SELECT * FROM handed ORDER BY id DESC LIMIT 300)
    WHERE opened_ms IS NULL AND (server = ?1 OR (kind = '{BRIEF}' AND root = ?2 AND label = ?3 AND at_ms >= ?4))
"""
_DAY_MS = 24 * 60 * 60 * 1000
_HANDED_TOTALS = """
    SELECT kind, count(*), sum(tokens), count(opened_ms) FROM handed WHERE at_ms >= ?{where}
    GROUP BY kind ORDER BY 2 DESC, 1
"""
_OLD_HANDED = "SELECT 1 FROM handed WHERE at_ms < ? LIMIT 1"
#: So many old rows go at once; what is left goes with the next round.
_EXPIRE_HANDED = "DELETE FROM handed WHERE id IN (SELECT id FROM handed WHERE at_ms < ? ORDER BY at_ms LIMIT 1000)"


class SqliteInbox:
    """Implements the Inbox port. `memory` tells which memory is open, and how far its log reaches."""

    def __init__(self, path: Path, memory: Callable[[], Awaitable[tuple[str, int]]], stack: AsyncExitStack) -> None:
        self._path = path
        self._memory = memory
        self._stack = stack
        self._opened: Database | None = None
        self._opening = anyio.Lock()
        self._mark: list[Any] | None = None

    async def database(self) -> Database:
        """The open file, which is made where there is none."""
        async with self._opening:
            if self._opened is None:
                with anyio.CancelScope(shield=True):  # interrupted half way, a thread would be left behind
                    database = await self._stack.enter_async_context(Database.open(self._path, INBOX))
                if not is_fixed(self._path):
                    await self._follow(database)
                    await database.scrub()
                self._opened = database
        return self._opened

    async def _follow(self, database: Database) -> None:
        """If the memory is another one than before, or an earlier state of it, transcripts are read anew."""
        name, reached = await self._memory()
        before: dict[str, str] = dict(await database.fetch(_FOLLOWED))
        if before.get("memory") == name and int(before.get("reached", 0)) <= reached:
            return

        def write(tx: Transaction) -> None:
            if before.get("memory"):
                tx.run("DELETE FROM checkpoint")
                tx.run("DELETE FROM brief")
            tx.run_many(_NOTE, [("memory", name), ("reached", str(reached))])

        await database.write(write)

    async def begin(self) -> None:
        """A round of the pipeline begins: what it writes counts only if nothing is forgotten meanwhile."""
        self._mark = await (await self.database()).fetch(ERASURES)

    async def _write(self, work: Callable[[Transaction], Any]) -> Any:
        def write(tx: Transaction) -> Any:
            if self._mark is not None and tx.fetch(ERASURES) != self._mark:
                raise LeaseLost("Something was forgotten meanwhile; this round is given up.")
            return work(tx)

        return await (await self.database()).write(write)

    async def rows(self, limit: int) -> list[InboxRow]:
        return [InboxRow(*row) for row in await (await self.database()).fetch(_ROWS, (limit,))]

    async def post(self, rows: Iterable[Payload]) -> None:
        await self._write(lambda tx: tx.run_many(_POST, [(*row, "")[:6] for row in rows]))

    async def reopen(self, version: str = "") -> None:
        if await (await self.database()).value(_TO_REOPEN, (version,)):

            def write(tx: Transaction) -> None:
                tx.run("UPDATE inbox SET state = 0 WHERE state = 1")
                tx.run(_NOTE, ("read_by", version))

            await self._write(write)

    async def checkpoint(self, name: str) -> dict[str, Any]:
        sql = "SELECT position FROM checkpoint WHERE name = ?"
        position = await (await self.database()).value(sql, (name,))
        return dict(json.loads(position)) if position else {}

    async def settle(
        self,
        *,
        consumed: Sequence[int] = (),
        unknown: Sequence[int] = (),
        checkpoints: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        _, reached = await self._memory()

        def write(tx: Transaction) -> None:
            tx.run_many("DELETE FROM inbox WHERE id = ?", [(row,) for row in consumed])
            tx.run_many("UPDATE inbox SET state = 1 WHERE id = ?", [(row,) for row in unknown])
            positions = [(name, json.dumps(position)) for name, position in (checkpoints or {}).items()]
            tx.run_many("INSERT OR REPLACE INTO checkpoint (name, position) VALUES (?, ?)", positions)
            tx.run(_NOTE, ("reached", str(reached)))

        if consumed or unknown or checkpoints:
            await self._write(write)

    async def keep(self, texts: Mapping[str, str], now_ms: int) -> None:
        await self._write(lambda tx: tx.run_many(_KEEP, [(root, text, now_ms) for root, text in texts.items()]))

    async def drop(self, roots: Iterable[str]) -> None:
        there = {root for (root,) in await (await self.database()).fetch("SELECT root FROM brief")}
        gone = [(root,) for root in roots if root in there]
        if gone:
            await self._write(lambda tx: tx.run_many("DELETE FROM brief WHERE root = ?", gone))

    async def drop_all(self) -> None:
        def write(tx: Transaction) -> None:
            tx.run("DELETE FROM brief")
            note_erasure(tx)  # a round that has begun writes none of before

        await (await self.database()).write(write)

    async def forget(self, scope: ForgetScope, *, dry_run: bool) -> Local:
        database = await self.database()

        def found(tx: Transaction) -> tuple[list[int], list[int]]:
            return _covered(tx.fetch(_PAYLOADS), scope), _handed_covered(tx, scope)

        def write(tx: Transaction) -> Local:
            payloads, answers = found(tx)
            tx.run_many("DELETE FROM inbox WHERE id = ?", [(number,) for number in payloads])
            tx.run_many("DELETE FROM handed WHERE id = ?", [(number,) for number in answers])
            _reset_readers(tx, scope)
            named = [(path,) for (path,) in tx.fetch("SELECT path FROM copy_made") if scope.is_in(path)]
            tx.run_many("DELETE FROM copy_made WHERE path = ?", named)
            tx.run("DELETE FROM brief")
            note_erasure(tx)
            return Local(len(payloads), len(answers))

        if dry_run:
            return Local(*map(len, await database.read(lambda connection: found(SqliteTransaction(connection)))))
        return await database.write(write)

    async def tombstone_state(self) -> tuple[str, list[str]]:
        database = await self.database()
        mark = await database.value(f"SELECT value FROM meta WHERE key = '{keys.SYNCED}'")
        return str(mark or ""), [name for (name,) in await database.fetch("SELECT id FROM forgetting")]

    async def tombstone_rows(self) -> TombstoneRows:
        return await (await self.database()).read_as_transaction(tombstones.all_rows)

    async def keep_tombstones(self, rows: TombstoneRows, key: TombstoneKey | None, mark: str) -> None:
        def write(tx: Transaction) -> None:
            tombstones.insert_rows(tx, rows)
            tx.run(_NOTE, (keys.SYNCED, mark))
            if key:
                tx.run(_NOTE, (keys.NAME, key.secret.hex()))

        await (await self.database()).write(write)

    async def lift(self, name: str) -> bool:
        def write(tx: Transaction) -> bool:
            tx.run("DELETE FROM checkpoint WHERE name LIKE 'transcript:%'")
            return tombstones.lift(tx, name)

        return await (await self.database()).write(write)

    async def note_handed(self, row: Handed, wanted: Sequence[str], home: tuple[str, str]) -> None:
        await (await self.database()).write(_add_handed, row, wanted, home)

    async def expire_handed(self, before_ms: int) -> None:
        database = await self.database()
        if await database.value(_OLD_HANDED, (before_ms,)):
            await database.write(lambda tx: tx.run(_EXPIRE_HANDED, (before_ms,)))

    async def handed(self, query: HandedQuery) -> list[Handed]:
        return await (await self.database()).read(lambda connection: _list_handed(connection, query))

    async def handed_totals(self, since_ms: int, places: Sequence[PlaceName] | None = None) -> list[HandedTotal]:
        return await (await self.database()).read(lambda connection: _count_handed(connection, since_ms, places))

    async def handed_places(self) -> list[PlaceName]:
        places = await (await self.database()).fetch("SELECT DISTINCT root, label, remote FROM handed")
        return [(root, label, remote) for root, label, remote in places]

    async def note_pause(self, pause: Pause | None) -> None:
        database = await self.database()
        if pause:
            await database.write(Transaction.run, _NOTE, (PAUSE, json.dumps(asdict(pause))))
        elif await database.value(PAUSED):
            await database.write(Transaction.run, "DELETE FROM meta WHERE key = ?", (PAUSE,))

    async def note_copies(self, copies: Iterable[CopyMade], now_ms: int) -> None:
        rows = [(copy.path, str(copy.kind), now_ms) for copy in copies]
        await (await self.database()).write(Transaction.run_many, _NOTE_COPY, rows)

    async def copies_made(self) -> list[CopyMade]:
        rows = await (await self.database()).fetch("SELECT path, kind FROM copy_made ORDER BY at_ms, path")
        return [CopyMade(path, CopyKind(kind)) for path, kind in rows]

    async def transcripts_rewritten(self, told_to: Mapping[str, int]) -> None:
        def write(tx: Transaction) -> None:
            for name, offset in told_to.items():
                for (position,) in tx.fetch("SELECT position FROM checkpoint WHERE name = ?", (name,)):
                    fresh = _from_start(json.loads(position), offset)
                    tx.run("UPDATE checkpoint SET position = ? WHERE name = ?", (json.dumps(fresh), name))
            note_erasure(tx)

        await (await self.database()).write(write)

    async def counts(self) -> InboxCounts:
        if not self._path.exists():  # who only looks makes none
            return InboxCounts(0, 0, ())
        database = await self.database()
        waiting, unknown = (await database.fetch(_COUNTS))[0]
        return InboxCounts(waiting, unknown, tuple(BadLine(*row) for row in await database.fetch(SET_ASIDE)))

    async def changes(self) -> int:
        return await (await self.database()).data_version()

    async def scrub(self, wait_ms: int = 0) -> str:
        return await (await self.database()).scrub(wait_ms)


def _covered(rows: Iterable[Row], scope: ForgetScope) -> list[int]:
    return [number for number, *payload in rows if scope.covers(*payload)]


def _reset_readers(tx: Transaction, scope: ForgetScope) -> None:
    """Let go of what readers of transcripts keep: ids, and directories. They find it again in their files, silently."""
    names = set(scope.sessions)
    for place in scope.places:
        # Clients also write it with a hyphen for each other character, in the path of a transcript that was set aside.
        names |= {json.dumps(place, ensure_ascii=False)[1:-1], re.sub("[^A-Za-z0-9]", "-", place)}
    for name, position in tx.fetch("SELECT name, position FROM checkpoint WHERE name LIKE 'transcript:%'"):
        held = [one for one in names if one in position]
        if any(re.search(rf"(?<!\w){re.escape(one)}(?!\w)", position) for one in held) or scope.is_in(position):
            saved = json.loads(position)
            told = max(saved.get("offset", 0), saved.get("memory", {}).get("told_to", 0))
            tx.run("UPDATE checkpoint SET position = ? WHERE name = ?", (json.dumps(_from_start(saved, told)), name))


def _from_start(position: Mapping[str, Any], told_to: int) -> dict[str, Any]:
    """Return the position of a reader that reads from the start, and tells what comes after an offset."""
    return {"offset": 0, "line": 0, "memory": {"told_to": told_to}, "events": position.get("events", 0)}


def _add_handed(tx: Transaction, row: Handed, wanted: Sequence[str], home: tuple[str, str]) -> None:
    """Add a row, and note of earlier ones that named what was `wanted` now that they were opened."""
    if wanted:
        earlier = map(_handed, tx.fetch(_UNOPENED, (row.server, *home, row.at_ms - _DAY_MS)))
        opened = [(row.at_ms, one.id) for one in earlier if one.names(wanted)]
        tx.run_many("UPDATE handed SET opened_ms = ? WHERE id = ?", opened)
    asked = tombstones.conceal(tx, row.asked)
    told = (row.at_ms, row.kind, row.client, row.session, *row.place, row.server, asked)
    tx.run(_ADD_HANDED, (*told, json.dumps(row.ids), row.tokens))


def _list_handed(connection: sqlite3.Connection, query: HandedQuery) -> list[Handed]:
    """The rows of a query. Each place is looked up by itself, since an index has the order of one only."""
    given = {"kind = ?": query.kind, "session = ?": query.session, "id < ?": query.before}
    clauses = {clause: value for clause, value in given.items() if value is not None}
    found: list[Handed] = []
    for place in [()] if query.places is None else query.places:
        where = " AND ".join([*clauses, *(["root = ? AND label = ? AND remote = ?"] if place else [])]) or "1"
        sql = f"SELECT {_HANDED} FROM handed WHERE {where} ORDER BY id DESC LIMIT ?"
        found += map(_handed, connection.execute(sql, (*clauses.values(), *place, query.limit)))
    return sorted(found, key=lambda row: -row.id)[: query.limit]


def _count_handed(
    connection: sqlite3.Connection, since_ms: int, places: Sequence[PlaceName] | None
) -> list[HandedTotal]:
    """How often, how much and how much of it was opened, by kind, the most frequent first."""
    pairs = " OR ".join(["(root = ? AND label = ? AND remote = ?)"] * len(places or ())) or "0"
    where = "" if places is None else f" AND ({pairs})"
    values = [part for place in places or () for part in place]
    return [HandedTotal(*row) for row in connection.execute(_HANDED_TOTALS.format(where=where), (since_ms, *values))]


def _handed_covered(tx: Transaction, scope: ForgetScope) -> list[int]:
    """The rows that a request to forget takes."""
    told = tx.fetch(f"SELECT {_HANDED} FROM handed")
    rows = map(_handed, told)
    return [row.id for row in rows if row.falls_under(scope)]


def _handed(row: Row) -> Handed:
    at_ms, kind, client, session, root, label, remote, server, asked, ids, tokens, opened_ms, number = row
    named = tuple(json.loads(ids))
    return Handed(at_ms, kind, client, session, root, label, remote, server, asked, named, tokens, opened_ms, number)
