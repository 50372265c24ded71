"""The records of sessions: which sessions have grown, their chains, and the records that wait for a model."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from mcp_memory.capture.redaction import redact
from mcp_memory.domain.compaction import Turn
from mcp_memory.domain.events import Event, EventType, event_key, ulid
from mcp_memory.domain.nodes import THRESHOLDS, Depth
from mcp_memory.domain.records import Account, ActionItem, Body, Compactions, Facets, Record, Rewrite, digest
from mcp_memory.store.sqlite.database import Database, Reads, Row, Transaction
from mcp_memory.store.sqlite.log import EVENT_COLUMNS, event_of
from mcp_memory.store.sqlite.work import check_lease

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
        SELECT ?
        UNION ALL SELECT refreshes FROM compaction JOIN link USING (id) WHERE refreshes IS NOT NULL
    )
    SELECT e.timestamp_ms, e.key FROM link JOIN compaction_source o ON o.compaction = link.id
    JOIN event e ON e.id = o.event ORDER BY e.timestamp_ms, e.id
"""
LATEST = (1 << 63) - 1


async def chain_of(database: Reads, session: int, at: int = LATEST, *, sources: bool = False) -> list[Record]:
    """A session's records, oldest first; with `sources` also the ids of the events behind each."""
    rows = await database.fetch(_CHAIN, (session, at))
    return [record_of(row, await _event_ids(database, row[0]) if sources else ()) for row in rows]


async def _event_ids(database: Reads, record: int) -> tuple[str, ...]:
    return tuple(ulid(ms, key) for ms, key in await database.fetch(_SOURCES, (record,)))


async def record_by_number(database: Database, number: int) -> Record | None:
    rows = await database.fetch(f"SELECT {_COLUMNS} FROM {_TABLES} WHERE c.id = ?", (number,))
    return record_of(rows[0], ()) if rows else None


async def latest_records(database: Database, limit: int) -> list[tuple[Record, str]]:
    """The latest records of all sessions, newest first, each with the name of its session."""
    rows = await database.fetch(
        f"SELECT {_COLUMNS}, s.session_id FROM {_TABLES} JOIN session s ON s.id = c.session ORDER BY c.id DESC LIMIT ?",
        (limit,),
    )
    return [(record_of(row, ()), row[-1]) for row in rows]


def record_of(row: Row, event_ids: Sequence[str]) -> Record:
    parent, refreshed = row[18:20], row[20:22]
    return Record(
        key=row[1],
        timestamp_ms=row[2],
        depth=row[3],
        parent_id=ulid(parent[1], parent[0]) if parent[0] else None,
        body=Body(row[5], tuple(json.loads(row[6])), facets_of(json.loads(row[7]))),
        event_ids=tuple(event_ids),
        tokens=row[13],
        written_by=row[17],
        reason=row[4],
        refreshes=ulid(refreshed[1], refreshed[0]) if refreshed[0] else None,
        through=(row[8], row[9]),
        seen=(row[10], row[11]),
        messages=row[12],
        tokens_before=row[14],
        tokens_after=row[15],
        window=row[16],
    )


def facets_of(value: dict[str, Any]) -> Facets:
    items = tuple(ActionItem(item["task"], item["owner"], item["due"]) for item in value["action_items"])
    texts = {name: tuple(value[name]) for name in ("participants", "decisions", "unresolved", "domain_entities")}
    return Facets(action_items=items, **texts)


def facets_json(facets: Facets) -> str:
    items = [{"owner": item.owner, "task": item.task, "due": item.due} for item in facets.action_items]
    value = {
        "participants": facets.participants,
        "decisions": facets.decisions,
        "action_items": items,
        "unresolved": facets.unresolved,
        "domain_entities": facets.domain_entities,
    }
    return json.dumps(value, ensure_ascii=False)


_SESSION = "s.id, s.client, s.session_id, p.slug"
_SESSIONS = "session s JOIN project p ON p.id = s.project"
_DUE = (
    f"SELECT {_SESSION}, d.asked, d.seq FROM {_SESSIONS} JOIN dirty_compaction d ON d.session = s.id "
    "WHERE d.retry_ms <= ? ORDER BY d.asked DESC, d.session LIMIT ?"
)
#: Of clients that share a session's name, the one heard of last.
_NAMED = (
    f"SELECT {_SESSION}, '', 0 FROM {_SESSIONS} WHERE s.session_id = ? "
    "ORDER BY (SELECT max(timestamp_ms) FROM event WHERE session = s.id) DESC LIMIT 1"
)
#: What a tool printed is counted in part when it is stored; what the model saw of it was all of it. What a subagent
#: did fills a window of its own.
_TURNS = """
    SELECT id, timestamp_ms, type,
           CASE WHEN json_extract(metadata, '$.agent_id') <> '' THEN 0
                WHEN role = 'tool' THEN max(tokens, length(text) / 4) ELSE tokens END,
           CASE WHEN type = 'assistant_message' THEN json_extract(metadata, '$.usage') END,
           CASE WHEN type IN ('assistant_message', 'session_start') THEN json_extract(metadata, '$.model') END
    FROM event WHERE session = ? AND (timestamp_ms, id) > (?, ?)
    ORDER BY timestamp_ms, id
"""
_BETWEEN = f"""
    SELECT {EVENT_COLUMNS} FROM event e
    WHERE session = ? AND (timestamp_ms, id) > (?, ?) AND (timestamp_ms, id) <= (?, ?) ORDER BY timestamp_ms, id
"""
_CITED = """
    SELECT o.event, o.sha256, e.text FROM compaction c JOIN compaction_source o ON o.compaction = c.id
    LEFT JOIN event e ON e.id = o.event WHERE c.session = ?
"""
_TAIL = f"""
    SELECT {EVENT_COLUMNS} FROM event e
    WHERE session = ? AND type IN ('user_message', 'assistant_message', 'note') AND text <> ''
    ORDER BY timestamp_ms DESC, id DESC LIMIT ?
"""
_ADD = (
    "INSERT INTO compaction (id, key, session, created_ms, depth, parent, refreshes, reason, summary, key_points, "
    "context, through_ms, through_event, seen_ms, seen_event, messages, tokens, tokens_before, tokens_after, window, "
    "written_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SAVE_TEXT = (
    "INSERT INTO brief (root, text, updated_ms) VALUES (?, ?, ?) ON CONFLICT (root) DO UPDATE "
    "SET text = excluded.text, updated_ms = excluded.updated_ms WHERE text <> excluded.text"
)
#: A record made from any of the events, and all that were made from such a record.
_TAINTED = """
    WITH RECURSIVE tainted (id) AS (
        SELECT DISTINCT compaction FROM compaction_source WHERE event IN ({marks})
        UNION SELECT c.id FROM compaction c JOIN tainted t ON c.parent = t.id OR c.refreshes = t.id
    )
    SELECT id FROM tainted
"""
_NOTHING = (-(1 << 62), 0)
_SHOWN = 5


class SqliteCompactions:
    """Implements the CompactionStore port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, now_ms: int, limit: int) -> list[Account]:
        async def read(snapshot: Reads) -> list[Account]:
            return [await _account(snapshot, row) for row in await snapshot.fetch(_DUE, (now_ms, limit))]

        return await self._database.at_once(read)

    async def account(self, session_id: str) -> Account | None:
        rows = await self._database.fetch(_NAMED, (session_id,))
        return await _account(self._database, rows[0]) if rows else None

    async def events(self, account: Account, through: Turn) -> list[Event]:
        after = account.last.through if account.last else _NOTHING
        rows = await self._database.fetch(_BETWEEN, (account.session, *after, *through.place))
        return [event_of(row, account.client, account.session_id, account.project) for row in rows]

    async def tail(self, account: Account, messages: int) -> list[Event]:
        rows = await self._database.fetch(_TAIL, (account.session, messages))
        return [event_of(row, account.client, account.session_id, account.project) for row in reversed(rows)]

    async def save(self, account: Account, record: Record, sources: Sequence[Event]) -> bool:
        return await self._database.write(_save, account, record, sources)

    async def drop_broken(self, account: Account) -> int:
        rows = await self._database.fetch(_CITED, (account.session,))
        broken = [event for event, sha256, text in rows if text is None or digest(text) != sha256]
        return await self._database.write(forget_records, broken) if broken else 0

    async def settle(self, accounts: Sequence[Account], lease_token: int) -> None:
        if not accounts:
            return
        done = [(account.session, account.seq) for account in accounts]

        def write(tx: Transaction) -> None:
            check_lease(tx, lease_token)
            tx.run_many("DELETE FROM dirty_compaction WHERE session = ? AND seq = ?", done)

        await self._database.write(write)

    async def postpone(self, account: Account, failure: str, until_ms: int, lease_token: int) -> None:
        def write(tx: Transaction) -> None:
            check_lease(tx, lease_token)
            tx.run(
                "UPDATE dirty_compaction SET failed = ?, retry_ms = ? WHERE session = ? AND seq = ?",
                (redact(failure), until_ms, account.session, account.seq),
            )

        await self._database.write(write)

    async def keep_text(self, account: Account, text: str, now_ms: int) -> None:
        place = text_key(account.client, account.session_id)
        await self._database.write(Transaction.run, _SAVE_TEXT, (place, text, now_ms))

    async def summary(self) -> Compactions:
        records, sessions = (await self._database.fetch("SELECT count(*), count(DISTINCT session) FROM compaction"))[0]
        waiting = await self._database.fetch("SELECT count(*), max(failed) FROM dirty_compaction")
        latest = await latest_records(self._database, _SHOWN)
        return Compactions(records, sessions, waiting[0][0], tuple(latest), waiting[0][1] or "")


async def _account(database: Reads, row: Row) -> Account:
    session, client, session_id, slug, asked, seq = row
    chain = await chain_of(database, session)
    after = chain[-1].through if chain else _NOTHING
    turns = await database.fetch(_TURNS, (session, *after))
    return Account(
        session=session,
        session_key=event_key(client, session_id, ""),
        client=client,
        session_id=session_id,
        project=slug,
        chain=tuple(chain),
        turns=tuple(_turn(turn) for turn in turns),
        asked=asked,
        seq=seq,
    )


def text_key(client: str, session_id: str) -> str:
    """Where the hook finds a session's own text: among the briefs, under a name that is no directory."""
    return f"session:{client}:{session_id}"


def forget_records(tx: Transaction, events: Sequence[int]) -> int:
    """Take out every record that was made from any of these events, with all that were made from those."""
    gone = tainted_by(tx, events)
    drop_records(tx, gone)
    return len(gone)


def tainted_by(tx: Transaction, events: Sequence[int]) -> set[int]:
    """The records that were made from any of these events, and all that were made from those."""
    gone: set[int] = set()
    for start in range(0, len(events), 500):
        part = events[start : start + 500]
        gone |= {row[0] for row in tx.fetch(_TAINTED.format(marks=",".join("?" * len(part))), part)}
    return gone


def drop_records(tx: Transaction, gone: Collection[int]) -> None:
    """Take out these records; their sessions are looked at anew."""
    for record in sorted(gone, reverse=True):
        named = tx.fetch(
            "SELECT s.client, s.session_id, s.id, lower(hex(c.key)) FROM compaction c "
            "JOIN session s ON s.id = c.session WHERE c.id = ?",
            (record,),
        )
        tx.run("DELETE FROM compaction_source WHERE compaction = ?", (record,))
        tx.run("DELETE FROM compaction WHERE id = ?", (record,))
        for client, session_id, session, key in named:
            tx.run("DELETE FROM brief WHERE root = ?", (text_key(client, session_id),))
            tx.run("DELETE FROM llm_state WHERE name = ?", (f"record:{key}",))
            tx.run("INSERT OR IGNORE INTO dirty_compaction (session) VALUES (?)", (session,))


def _turn(row: Row) -> Turn:
    number, timestamp_ms, kind, tokens, usage, model = row
    known = usage if isinstance(usage, int) and usage > 0 else None
    return Turn(number, timestamp_ms, EventType(kind), tokens, known, model if isinstance(model, str) else "")


def _save(tx: Transaction, account: Account, record: Record, sources: Sequence[Event]) -> bool:
    if _newest(tx, account.session) != (account.last.key if account.last else None):
        return False
    if len(sources) != sum(len(tx.fetch("SELECT 1 FROM event WHERE key = ?", (event.key,))) for event in sources):
        return False  # something of it was forgotten meanwhile
    number = tx.next_id("compaction")
    tx.run(_ADD, (number, *_row(tx, account, record)))
    tx.run_many(
        "INSERT INTO compaction_source (compaction, event, sha256) SELECT ?, id, ? FROM event WHERE key = ?",
        [(number, digest(event.text), event.key) for event in sources],
    )
    return True


def _newest(tx: Transaction, session: int) -> bytes | None:
    rows = tx.fetch("SELECT key FROM compaction WHERE session = ? ORDER BY id DESC LIMIT 1", (session,))
    return rows[0][0] if rows else None


def _row(tx: Transaction, account: Account, record: Record) -> tuple[Any, ...]:
    numbers = {link.id: link.key for link in account.chain}

    def number(record_id: str | None) -> int | None:
        rows = tx.fetch("SELECT id FROM compaction WHERE key = ?", (numbers.get(record_id or "", b""),))
        return int(rows[0][0]) if rows else None

    return (
        *(record.key, account.session, record.timestamp_ms, record.depth),
        *(number(record.parent_id), number(record.refreshes), record.reason, record.body.summary),
        *(json.dumps(record.body.key_points, ensure_ascii=False), facets_json(record.body.context)),
        *(*record.through, *record.seen, record.messages),
        *(record.tokens, record.tokens_before, record.tokens_after, record.window, record.written_by),
    )


EXTRACTIVE = "extractive"
#: How many of the newest records are looked at.
_POOL = 400
#: What a tool printed is cut to a few lines before a model reads it.
_TOOL_TOKENS = 100
_TOKENS = f"""
    SELECT total(CASE e.role WHEN 'tool' THEN min(e.tokens, {_TOOL_TOKENS}) ELSE e.tokens END)
    FROM compaction_source o JOIN event e ON e.id = o.event WHERE o.compaction = c.id
"""
_WAITING = f"""
    WITH newest AS MATERIALIZED (SELECT * FROM compaction ORDER BY id DESC LIMIT {_POOL}),
    attempt AS (SELECT name, value FROM llm_state WHERE name LIKE 'record:%')
    SELECT c.id, c.refreshes, s.id, s.client, s.session_id, p.slug, json_extract(a.value, '$.failures'),
           ({_TOKENS}) AS reading
    FROM newest c JOIN session s ON s.id = c.session JOIN project p ON p.id = s.project
    LEFT JOIN attempt a ON a.name = 'record:' || lower(hex(c.key))
    WHERE c.written_by = '{EXTRACTIVE}' AND c.seen_ms >= :since
      AND NOT EXISTS (SELECT 1 FROM compaction n WHERE n.session = c.session AND n.id > c.id)
      AND coalesce(json_extract(a.value, '$.retry_ms'), 0) <= :now AND reading >= {THRESHOLDS[Depth.NONE]}
    ORDER BY c.id DESC LIMIT :limit
"""
_EVENTS = f"""
    SELECT {EVENT_COLUMNS}
    FROM compaction_source o JOIN event e ON e.id = o.event WHERE o.compaction = ? ORDER BY e.timestamp_ms, e.id
"""
_STALE = "DELETE FROM llm_state WHERE name LIKE 'record:%' AND json_extract(value, '$.retry_ms') < ?"
_MONTH_MS = 30 * 86_400_000


class SqliteRewrites:
    """Implements the RewriteStore port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def waiting(self, since_ms: int, now_ms: int, limit: int) -> list[Rewrite]:
        rows = await self._database.fetch(_WAITING, {"since": since_ms, "now": now_ms, "limit": limit})
        found = []
        for number, refreshed, session, client, session_id, slug, failures, tokens in rows:
            chain = await chain_of(self._database, session)
            key = event_key(client, session_id, "")
            account = Account(session, key, client, session_id, slug, tuple(chain), ())
            replaced = await record_by_number(self._database, refreshed) if refreshed else None
            found.append(Rewrite(number, account, replaced, int(tokens), failures or 0))
        return found

    async def events(self, rewrite: Rewrite) -> list[Event]:
        account = rewrite.account
        rows = await self._database.fetch(_EVENTS, (rewrite.number,))
        return [event_of(row, account.client, account.session_id, account.project) for row in rows]

    async def failed(self, rewrite: Rewrite, retry_ms: int) -> None:
        value = json.dumps({"failures": rewrite.failures + 1, "retry_ms": retry_ms})

        def write(tx: Transaction) -> None:
            tx.run(_STALE, (retry_ms - _MONTH_MS,))
            name = f"record:{rewrite.record.key.hex()}"
            tx.run("INSERT OR REPLACE INTO llm_state (name, value) VALUES (?, ?)", (name, value))

        await self._database.write(write)
