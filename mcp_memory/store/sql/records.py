"""The records of sessions: which sessions have grown, their chains, and the records that wait for a model."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from mcp_memory.domain.compaction import Turn
from mcp_memory.domain.events import IMPORT_CLIENT, NOTES_CLIENT, Event, EventType, event_key, ulid
from mcp_memory.domain.failures import Stage
from mcp_memory.domain.nodes import THRESHOLDS, Depth
from mcp_memory.domain.records import Account, ActionItem, Body, Compactions, Facets, Record, Rewrite, digest
from mcp_memory.store.sql.database import SUMMARIZED, Reads, Row, SqlDatabase, Transaction, marks
from mcp_memory.store.sql.failures import settle_failures
from mcp_memory.store.sql.work import SET_STATE, check_lease

LATEST = (1 << 63) - 1
#: The session of a name; of clients that share it, the one heard of last. What an import without a client or a note
#: tells under the name of a client's session comes after that.
SESSION_NAMED = (
    "(SELECT id FROM session WHERE session_id = ? "
    f"ORDER BY CASE WHEN client IN ('{IMPORT_CLIENT}', '{NOTES_CLIENT}') THEN 1 ELSE 0 END, "
    "(SELECT max(timestamp_ms) FROM event WHERE session = session.id) DESC NULLS LAST LIMIT 1)"
)
_COLUMNS = (
    "c.id, c.key, c.created_ms, c.depth, c.reason, c.summary, c.key_points, c.context, c.through_ms, c.through_event, "
    "c.seen_ms, c.seen_event, c.messages, c.tokens, c.tokens_before, c.tokens_after, c.window, c.written_by, "
    "p.key, p.created_ms, r.key, r.created_ms"
)
_TABLES = "compaction c LEFT JOIN compaction p ON p.id = c.parent LEFT JOIN compaction r ON r.id = c.refreshes"
#: From the latest record back along the parents: what was refreshed is not on that way.
_CHAIN = f"""
    WITH RECURSIVE link (id) AS (
        SELECT max(id) FROM compaction WHERE session = ?1 AND id <= ?2
        UNION ALL SELECT parent FROM compaction JOIN link USING (id) WHERE parent IS NOT NULL
    )
    SELECT {_COLUMNS} FROM {_TABLES} JOIN link ON link.id = c.id ORDER BY c.depth
"""
#: A record that took another's place also stands for what that one was made from.
_SOURCES = """
    WITH RECURSIVE link (id) AS (
        SELECT CAST(? AS BIGINT)
        UNION ALL SELECT refreshes FROM compaction JOIN link USING (id) WHERE refreshes IS NOT NULL
    )
    SELECT e.timestamp_ms, e.key FROM link JOIN compaction_source o ON o.compaction = link.id
    JOIN event e ON e.id = o.event ORDER BY e.timestamp_ms, e.id
"""
_SESSION = "s.id, s.client, s.session_id, p.slug"
_SESSIONS = "session s JOIN project p ON p.id = s.project"
#: What was asked for and failed is still wanted.
_ASKED = (
    "CASE WHEN d.asked <> '' THEN d.asked ELSE coalesce((SELECT f.asked FROM failure f "
    f"WHERE f.stage = '{Stage.RECORD}' AND f.name = CAST(s.id AS TEXT)), '') END"
)
_DUE = (
    f"SELECT {_SESSION}, {_ASKED}, d.seq FROM {_SESSIONS} JOIN dirty_compaction d ON d.session = s.id "
    "WHERE d.retry_ms <= ? ORDER BY d.asked DESC, d.session LIMIT ?"
)
#: What a tool printed is counted in part when it is stored; what the model saw of it was all of it. What a subagent
#: did fills a window of its own.
_TURNS = f"""
    SELECT id, timestamp_ms, type,
           CASE WHEN json_extract(metadata, '$.agent_id') <> '' THEN 0
                WHEN role = 'tool' AND length(text) / 4 > tokens THEN length(text) / 4 ELSE tokens END,
           CASE WHEN type = 'assistant_message' THEN json_extract(metadata, '$.usage') END,
           CASE WHEN type IN ('assistant_message', 'session_start') THEN json_extract(metadata, '$.model') END
    FROM event WHERE session = ? AND (timestamp_ms, id) > (?, ?) AND {SUMMARIZED}
    ORDER BY timestamp_ms, id
"""
_CITED = """
    SELECT o.event, o.sha256, e.text FROM compaction c JOIN compaction_source o ON o.compaction = c.id
    LEFT JOIN event e ON e.id = o.event WHERE c.session = ?
"""
_ADD = (
    "INSERT INTO compaction (id, key, session, created_ms, depth, parent, refreshes, reason, summary, key_points, "
    'context, through_ms, through_event, seen_ms, seen_event, messages, tokens, tokens_before, tokens_after, "window", '
    "written_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
#: A record made from any of the events, and all that were made from such a record.
_TAINTED = """
    WITH RECURSIVE tainted (id) AS (
        SELECT DISTINCT compaction FROM compaction_source WHERE event IN ({marks})
        UNION SELECT c.id FROM compaction c JOIN tainted t ON c.parent = t.id OR c.refreshes = t.id
    )
    SELECT id FROM tainted
"""
_LAST_FAILURE = "SELECT reason FROM failure WHERE stage = ? ORDER BY since_ms DESC, name LIMIT 1"
_NOTHING = (-(1 << 62), 0)
_SHOWN = 5
#: How many of the newest records are looked at for a model to write.
_POOL = 400
#: What a tool printed is cut to a few lines before a model reads it.
_TOOL_TOKENS = 100
_TOKENS = f"""
    SELECT coalesce(sum(
        CASE WHEN e.role = 'tool' AND e.tokens > {_TOOL_TOKENS} THEN {_TOOL_TOKENS} ELSE e.tokens END), 0)
    FROM compaction_source o JOIN event e ON e.id = o.event WHERE o.compaction = c.id
"""
_WAITING = f"""
    WITH newest AS MATERIALIZED (SELECT * FROM compaction ORDER BY id DESC LIMIT {_POOL}),
    attempt AS (SELECT name, value FROM llm_state WHERE name LIKE 'record:%')
    SELECT c.refreshes, s.id, s.client, s.session_id, p.slug, CAST(json_extract(a.value, '$.failures') AS BIGINT),
           ({_TOKENS}) AS reading
    FROM newest c JOIN session s ON s.id = c.session JOIN project p ON p.id = s.project
    LEFT JOIN attempt a ON a.name = 'record:' || lower(hex(c.key))
    WHERE c.written_by = 'extractive' AND c.seen_ms >= :since
      AND NOT EXISTS (SELECT 1 FROM compaction n WHERE n.session = c.session AND n.id > c.id)
      AND coalesce(CAST(json_extract(a.value, '$.retry_ms') AS BIGINT), 0) <= :now
      AND ({_TOKENS}) >= {THRESHOLDS[Depth.NONE]}
    ORDER BY c.id DESC LIMIT :limit
"""
_STALE = "DELETE FROM llm_state WHERE name LIKE 'record:%' AND CAST(json_extract(value, '$.retry_ms') AS BIGINT) < ?"
_MONTH_MS = 30 * 86_400_000


class RecordPart:
    """Records of sessions: that part of the Store port."""

    _database: SqlDatabase

    async def accounts_due(self, now_ms: int, limit: int) -> list[Account]:
        async def read(snapshot: Reads) -> list[Account]:
            return [await _account(snapshot, row) for row in await snapshot.fetch(_DUE, (now_ms, limit))]

        return await self._database.at_once(read)

    async def account(self, session_id: str) -> Account | None:
        async def read(snapshot: Reads) -> Account | None:
            sql = f"SELECT {_SESSION}, '', 0 FROM {_SESSIONS} WHERE s.id = {SESSION_NAMED}"
            rows = await snapshot.fetch(sql, (session_id,))
            return await _account(snapshot, rows[0]) if rows else None

        return await self._database.at_once(read)

    async def save_record(self, account: Account, record: Record, sources: Sequence[Event]) -> bool:
        return await self._database.write(_save, account, record, sources)

    async def drop_broken_records(self, account: Account) -> int:
        rows = await self._database.fetch(_CITED, (account.session,))
        broken = [event for event, sha256, text in rows if text is None or digest(text) != sha256]
        return await self._database.write_alone(forget_records, broken) if broken else 0

    async def settle_accounts(self, accounts: Sequence[Account], lease_token: int) -> None:
        def write(tx: Transaction) -> None:
            check_lease(tx, lease_token)
            done = [(account.session, account.seq) for account in accounts]
            tx.run_many("DELETE FROM dirty_compaction WHERE session = ? AND seq = ?", done)
            settle_failures(tx, Stage.RECORD, [str(account.session) for account in accounts])

        if accounts:
            await self._database.write(write)

    async def rewrites(self, since_ms: int, now_ms: int, limit: int) -> list[Rewrite]:
        async def read(snapshot: Reads) -> list[Rewrite]:
            found = []
            rows = await snapshot.fetch(_WAITING, {"since": since_ms, "now": now_ms, "limit": limit})
            for refreshed, session, client, session_id, slug, failures, tokens in rows:
                key = event_key(client, session_id, "")
                chain = tuple(await chain_of(snapshot, session))
                account = Account(session, key, client, session_id, slug, chain, ())
                before = await snapshot.fetch(f"SELECT {_COLUMNS} FROM {_TABLES} WHERE c.id = ?", (refreshed,))
                replaced = record_of(before[0], ()) if before else None
                found.append(Rewrite(account, replaced, int(tokens), failures or 0))
            return found

        return await self._database.at_once(read)

    async def postpone_rewrite(self, rewrite: Rewrite, retry_ms: int) -> None:
        value = json.dumps({"failures": rewrite.failures + 1, "retry_ms": retry_ms})

        def write(tx: Transaction) -> None:
            tx.run(_STALE, (retry_ms - _MONTH_MS,))
            name = f"record:{rewrite.record.key.hex()}"
            tx.run(SET_STATE, (name, value))

        await self._database.write(write)


async def compactions(reads: Reads) -> Compactions:
    """How compaction goes."""
    [(records, sessions)] = await reads.fetch("SELECT count(*), count(DISTINCT session) FROM compaction")
    [(waiting,)] = await reads.fetch("SELECT count(*) FROM dirty_compaction")
    failed = await reads.value(_LAST_FAILURE, (Stage.RECORD,))
    rows = await reads.fetch(
        f"SELECT {_COLUMNS}, s.session_id FROM {_TABLES} JOIN session s ON s.id = c.session ORDER BY c.id DESC LIMIT ?",
        (_SHOWN,),
    )
    latest = tuple((record_of(row, ()), row[-1]) for row in rows)
    return Compactions(records, sessions, waiting, latest, failed or "")


async def chain_of(reads: Reads, session: int, at: int = LATEST, *, sources: bool = False) -> list[Record]:
    """A session's records, oldest first; with `sources` also the ids of the events behind each."""
    chain = []
    for row in await reads.fetch(_CHAIN, (session, at)):
        cited = await reads.fetch(_SOURCES, row[:1]) if sources else []
        chain.append(record_of(row, tuple(ulid(ms, key) for ms, key in cited)))
    return chain


def record_of(row: Row, event_ids: tuple[str, ...]) -> Record:
    """A record from `_COLUMNS`."""
    _, key, created_ms, depth, reason, summary, key_points, context, *more = row
    through_ms, through_event, seen_ms, seen_event, messages, tokens, before, after, window, written_by, *more = more
    parent_key, parent_ms, refreshed_key, refreshed_ms, *_ = more
    facets = json.loads(context)
    items = tuple(ActionItem(**item) for item in facets.pop("action_items"))
    held = Facets(action_items=items, **{name: tuple(value) for name, value in facets.items()})
    parent = ulid(parent_ms, parent_key) if parent_key else None
    refreshed = ulid(refreshed_ms, refreshed_key) if refreshed_key else None
    body = Body(summary, tuple(json.loads(key_points)), held)
    made = (tokens, written_by, reason, refreshed, (through_ms, through_event), (seen_ms, seen_event))
    return Record(key, created_ms, depth, parent, body, event_ids, *made, messages, before, after, window)


async def _account(reads: Reads, row: Row) -> Account:
    session, client, session_id, slug, asked, seq = row
    chain = await chain_of(reads, session)
    turns = []
    place = chain[-1].through if chain else _NOTHING
    for number, timestamp_ms, kind, tokens, usage, model in await reads.fetch(_TURNS, (session, *place)):
        known = int(usage) if str(usage).isdecimal() and int(usage) > 0 else None
        said_by = model if isinstance(model, str) else ""
        turns.append(Turn(number, timestamp_ms, EventType(kind), tokens, known, said_by))
    key = event_key(client, session_id, "")
    return Account(session, key, client, session_id, slug, tuple(chain), tuple(turns), asked, seq)


def forget_records(tx: Transaction, events: Sequence[int]) -> int:
    """Take out every record that was made from any of these events, with all that were made from those."""
    gone: set[int] = set()
    for start in range(0, len(events), 500):
        part = events[start : start + 500]
        gone |= {number for (number,) in tx.fetch(_TAINTED.format(marks=marks(part)), part)}
    drop_records(tx, gone)
    return len(gone)


def drop_records(tx: Transaction, gone: Collection[int]) -> None:
    """Take out these records; their sessions are looked at anew."""
    numbers = sorted(gone, reverse=True)
    for start in range(0, len(numbers), 500):
        part = numbers[start : start + 500]
        named = tx.fetch(f"SELECT session, lower(hex(key)) FROM compaction WHERE id IN ({marks(part)})", part)
        tx.run(f"DELETE FROM compaction_source WHERE compaction IN ({marks(part)})", part)
        tx.run(f"DELETE FROM compaction WHERE id IN ({marks(part)})", part)
        states = [f"record:{key}" for _, key in named]
        tx.run(f"DELETE FROM llm_state WHERE name IN ({marks(states)})", states)
        sessions = sorted({(session,) for session, _ in named})
        tx.insert("dirty_compaction (session)", sessions, known="ON CONFLICT DO NOTHING")


def _save(tx: Transaction, account: Account, record: Record, sources: Sequence[Event]) -> bool:
    newest = tx.fetch("SELECT key FROM compaction WHERE session = ? ORDER BY id DESC LIMIT 1", (account.session,))
    if [key for (key,) in newest] != ([account.last.key] if account.last else []):
        return False
    if len(sources) != sum(len(tx.fetch("SELECT 1 FROM event WHERE key = ?", (event.key,))) for event in sources):
        return False  # something of it was forgotten meanwhile
    numbers = {link.id: link.key for link in account.chain}

    def number(record_id: str | None) -> int | None:
        rows = tx.fetch("SELECT id FROM compaction WHERE key = ?", (numbers.get(record_id or "", b""),))
        return int(rows[0][0]) if rows else None

    [row] = tx.new_ids("compaction")
    body = record.body
    values: tuple[Any, ...] = (
        *(row, record.key, account.session, record.timestamp_ms, record.depth),
        *(number(record.parent_id), number(record.refreshes), record.reason, body.summary),
        *(json.dumps(body.key_points, ensure_ascii=False), json.dumps(asdict(body.context), ensure_ascii=False)),
        *(*record.through, *record.seen, record.messages),
        *(record.tokens, record.tokens_before, record.tokens_after, record.window, record.written_by),
    )
    tx.run(_ADD, values)
    tx.run_many(
        "INSERT INTO compaction_source (compaction, event, sha256) SELECT ?, id, ? FROM event WHERE key = ?",
        [(row, digest(event.text), event.key) for event in sources],
    )
    settle_failures(tx, Stage.RECORD, [str(account.session)])
    return True
