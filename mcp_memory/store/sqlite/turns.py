"""Turns of a session: which of them changed a file, and what one began with and came to."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from mcp_memory.domain.events import Event, TurnOutline
from mcp_memory.domain.terms import Within
from mcp_memory.store.sqlite.database import Reads
from mcp_memory.store.sqlite.log import EVENTS, OPENED, event_of
from mcp_memory.store.sqlite.records import LATEST

#: A call that committed tells the message after its first line.
_COMMITTED = "e.type = 'tool_result' AND instr(substr(e.text, 1, 2000), char(10) || 'Commit message: ') > 0"
#: What a subagent says closes nothing.
_REPLIED = "e.type = 'assistant_message' AND e.text <> '' AND coalesce(json_extract(e.metadata, '$.agent_id'), '') = ''"
_ASKED = "e.role = 'user'"
_HERE = "(e.timestamp_ms, e.id)"
_REST = f"{_HERE} >= (?, ?) AND {_HERE} < (?, ?)"
_PLACE = "SELECT session, timestamp_ms, id FROM event WHERE key = ?"
_PLACES = "SELECT session, timestamp_ms, id FROM event WHERE id IN (SELECT value FROM json_each(?))"
#: So many of the latest tool results that hold a file's name are looked at, since README.md stands in very many.
_HOLDING = 4_000
_EDITS = f"""
    WITH holding AS MATERIALIZED (
        SELECT rowid / 4 AS number FROM search WHERE search MATCH :match ORDER BY rowid DESC LIMIT {_HOLDING}
    )
    {EVENTS.replace(" FROM event e", f", e.session, {OPENED} FROM holding CROSS JOIN event e ON e.id = number")}
    WHERE e.type = 'tool_result' AND (:project IS NULL OR p.slug = :project)
      AND e.timestamp_ms >= :start AND e.timestamp_ms < :end
      AND instr(lower(substr(e.text, 1, instr(e.text || char(10), char(10)))), lower(:name))
      AND (({_COMMITTED}) OR lower(substr(e.text, 1, instr(e.text, ':') - 1)) IN (SELECT value FROM json_each(:tools)))
      AND NOT coalesce(json_extract(e.metadata, '$.failed'), 0)
      AND NOT coalesce(json_extract(e.metadata, '$.refused'), 0)
    ORDER BY e.timestamp_ms DESC, e.id DESC LIMIT :limit
"""


class TurnPart:
    """Turns of a session: that part of the ReadStore port."""

    _reads: Reads

    async def edits(self, name: str, tools: Collection[str], within: Within, limit: int) -> list[list[Event]]:
        values = {
            # The index falls apart at the same signs as a quoted name. A NUL would end it before its quote.
            "match": 'tool : "{}"'.format(name.replace('"', " ").replace("\0", " ")),
            "name": name,
            "tools": json.dumps(sorted(tools)),
            "project": within.project,
            "start": -LATEST if within.start_ms is None else within.start_ms,
            "end": LATEST if within.end_ms is None else within.end_ms,
            "limit": limit,
        }
        turns: dict[tuple[int, int | None], list[Event]] = {}
        for row in await self._reads.fetch(_EDITS, values):
            session, opened = row[-2:]
            turns.setdefault((session, opened), []).insert(0, event_of(row))
        return list(turns.values())

    async def turn_of(self, key: bytes) -> TurnOutline:
        for session, *place in await self._reads.fetch(_PLACE, (key,)):
            asked = await self._first(session, f"{_HERE} <= (?, ?) AND {_ASKED}", place, "DESC")
            end = await self._end(session, place)
            commit = await self._first(session, f"{_REST} AND {_COMMITTED}", [*place, *end])
            reply = await self._first(session, f"{_REST} AND {_REPLIED}", [*place, *end], "DESC")
            return TurnOutline(*(found[0] if found else None for found in (asked, commit, reply)))
        return TurnOutline()

    async def closings(self, turns: Sequence[int]) -> dict[int, Event]:
        found: dict[int, Event] = {}
        for session, *place in await self._reads.fetch(_PLACES, (json.dumps(list(turns)),)):
            end = await self._end(session, place)
            if reply := await self._first(session, f"{_REST} AND {_REPLIED}", [*place, *end], "DESC"):
                found[place[-1]] = reply[0]
        return found

    async def following(self, turns: Sequence[int]) -> dict[int, tuple[int, Event]]:
        found: dict[int, tuple[int, Event]] = {}
        for session, *place in await self._reads.fetch(_PLACES, (json.dumps(list(turns)),)):
            if later := await self._first(session, f"{_HERE} > (?, ?) AND {_ASKED}", place):
                found[place[-1]] = later[1], later[0]
        return found

    async def _end(self, session: int, place: Sequence[int]) -> Sequence[int]:
        """Where the user speaks next."""
        later = await self._first(session, f"{_HERE} > (?, ?) AND {_ASKED}", place)
        return (later[0].timestamp_ms, later[1]) if later else (LATEST, LATEST)

    async def _first(
        self, session: int, where: str, values: Sequence[int], way: str = "ASC"
    ) -> tuple[Event, int] | None:
        """The first event of a session for which something holds, this way round, and its number."""
        sql = f"{EVENTS} WHERE e.session = ? AND {where} ORDER BY e.timestamp_ms {way}, e.id {way} LIMIT 1"
        rows = await self._reads.fetch(sql, (session, *values))
        return next(((event_of(row), row[-1]) for row in rows), None)
