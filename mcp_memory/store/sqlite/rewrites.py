"""Records that wait for a model: the latest of a session, extractive, of a session that was heard of lately."""

from __future__ import annotations

import json

from mcp_memory.domain.events import Event, event_key
from mcp_memory.domain.nodes import THRESHOLDS, Depth
from mcp_memory.ports.context import Account, Rewrite
from mcp_memory.store.sqlite.database import Database, Transaction
from mcp_memory.store.sqlite.event_rows import EVENT_COLUMNS, event_of
from mcp_memory.store.sqlite.records import chain_of, record_by_number

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
