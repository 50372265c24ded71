"""Whether the pipeline has anything to do: one read, so that idle servers need not write to find out."""

from __future__ import annotations

from mcp_memory.domain.toc import GRACE
from mcp_memory.store.sqlite.database import Database

_CLOSED = " OR ".join(
    f"(level = {int(level)} AND end_ms <= :now - {round(grace.total_seconds() * 1000)})"
    for level, grace in GRACE.items()
)
_WAITING = f"""
    SELECT EXISTS (SELECT 1 FROM inbox WHERE state = 0)
        OR EXISTS (SELECT 1 FROM dirty_session)
        OR EXISTS (SELECT 1 FROM dirty_node)
        OR EXISTS (SELECT 1 FROM dirty_brief)
        OR EXISTS (SELECT 1 FROM dirty_compaction WHERE retry_ms <= :now)
        OR EXISTS (SELECT 1 FROM segment WHERE input_hash <> done_hash
                      AND (closed = 1 OR end_ms NOT BETWEEN :busy_from AND :busy_to))
        OR EXISTS (SELECT 1 FROM segment WHERE closed = 0 AND end_ms < :closed_before)
        OR EXISTS (SELECT 1 FROM node WHERE open = 1 AND ({_CLOSED}))
"""


class SqliteBacklog:
    """Implements the Backlog port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def waits(self, now_ms: int, busy: range, closed_before_ms: int) -> bool:
        values = {
            "now": now_ms,
            "busy_from": busy.start,
            "busy_to": busy.stop - 1,
            "closed_before": closed_before_ms,
        }
        return bool(await self._database.value(_WAITING, values))
