"""Turns of a session: which of them changed a file, and what one began with and came to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mcp_memory.domain.events import Event, TurnOutline
from mcp_memory.domain.terms import Within
from mcp_memory.store.sql.database import Reads, SqlConnection, marks
from mcp_memory.store.sql.log import DONE_WELL, EVENTS, OPENED, event_of
from mcp_memory.store.sql.pool import SqlIndex
from mcp_memory.store.sql.records import LATEST

#: A call that committed has the message after its command, of which 4,000 characters are kept.
_COMMITTED = "e.type = 'tool_result' AND instr(substr(e.text, 1, 6000), '\nCommit message: ') > 0"
#: What a subagent says closes nothing.
_REPLIED = "e.type = 'assistant_message' AND e.text <> '' AND coalesce(json_extract(e.metadata, '$.agent_id'), '') = ''"
_ASKED = "e.role = 'user'"
_HERE = "(e.timestamp_ms, e.id)"
_REST = f"{_HERE} >= (?, ?) AND {_HERE} < (?, ?)"
_PLACE = "SELECT session, timestamp_ms, id FROM event WHERE key = ?"
_PLACES = "SELECT session, timestamp_ms, id FROM event WHERE id IN ({})"
#: So many of the latest tool results that hold a file's name are looked at, since README.md stands in very many.
_HOLDING = 4_000
_EDITS = f"""
    WITH holding AS MATERIALIZED ({{holding}})
    {EVENTS.replace(" FROM event e", f", e.session, {OPENED} FROM holding CROSS JOIN event e ON e.id = holding.number")}
    WHERE e.type = 'tool_result' AND (:project IS NULL OR p.slug = :project)
      AND e.timestamp_ms >= :start AND e.timestamp_ms < :end
      AND instr(lower(substr(e.text, 1, instr(e.text || '\n', '\n'))), :name) > 0
      AND (({_COMMITTED}) OR (instr(e.text, ':') > 0
           AND lower(substr(e.text, 1, instr(e.text, ':') - 1)) IN ({{tools}})))
      AND {DONE_WELL}
    ORDER BY e.timestamp_ms DESC, e.id DESC LIMIT :limit
"""


class TurnPart:
    """Turns of a session: that part of the ReadStore port."""

    _reads: Reads
    index: SqlIndex

    async def edits(self, name: str, tools: Collection[str], within: Within, limit: int) -> list[list[Event]]:
        # Half a character stands in no file's name that was captured, and a database takes none.
        name = name.encode("utf-8", "replace").decode()
        values = {
            # As the database makes letters small.
            "name": "".join(letter.lower() if letter.isascii() else letter for letter in name),
            **{f"tool{number}": tool for number, tool in enumerate(tools)},
            "project": within.project,
            "start": -LATEST if within.start_ms is None else within.start_ms,
            "end": LATEST if within.end_ms is None else within.end_ms,
            "limit": limit,
        }
        turns: dict[tuple[int, int | None], list[Event]] = {}
        holding, sought = self.index.holding(name, _HOLDING)
        sql = _EDITS.format(holding=holding, tools=", ".join(f":tool{number}" for number in range(len(tools))))
        for row in await self._reads.fetch(sql, {**values, **sought}):
            session, opened = row[-2:]
            turns.setdefault((session, opened), []).insert(0, event_of(row))
        return list(turns.values())

    async def turn_of(self, key: bytes) -> TurnOutline:
        def read(connection: SqlConnection) -> TurnOutline:
            for session, *place in connection.execute(_PLACE, (key,)):
                asked = _first(connection, session, f"{_HERE} <= (?, ?) AND {_ASKED}", place, "DESC")
                end = _end(connection, session, place)
                commit = _first(connection, session, f"{_REST} AND {_COMMITTED}", [*place, *end])
                reply = _first(connection, session, f"{_REST} AND {_REPLIED}", [*place, *end], "DESC")
                return TurnOutline(*(found[0] if found else None for found in (asked, commit, reply)))
            return TurnOutline()

        return await self._reads.read(read)

    async def closings(self, turns: Sequence[int]) -> dict[int, Event]:
        def read(connection: SqlConnection) -> dict[int, Event]:
            found: dict[int, Event] = {}
            for session, *place in connection.execute(_PLACES.format(marks(turns)), turns).fetchall():
                rest = [*place, *_end(connection, session, place)]
                if reply := _first(connection, session, f"{_REST} AND {_REPLIED}", rest, "DESC"):
                    found[place[-1]] = reply[0]
            return found

        return await self._reads.read(read)

    async def following(self, turns: Sequence[int]) -> dict[int, tuple[int, Event]]:
        def read(connection: SqlConnection) -> dict[int, tuple[int, Event]]:
            found: dict[int, tuple[int, Event]] = {}
            for session, *place in connection.execute(_PLACES.format(marks(turns)), turns).fetchall():
                if later := _first(connection, session, f"{_HERE} > (?, ?) AND {_ASKED}", place):
                    found[place[-1]] = later[1], later[0]
            return found

        return await self._reads.read(read)


def _end(connection: SqlConnection, session: int, place: Sequence[int]) -> Sequence[int]:
    """Where the user speaks next."""
    later = _first(connection, session, f"{_HERE} > (?, ?) AND {_ASKED}", place)
    return (later[0].timestamp_ms, later[1]) if later else (LATEST, LATEST)


def _first(
    connection: SqlConnection, session: int, where: str, values: Sequence[int], way: str = "ASC"
) -> tuple[Event, int] | None:
    """The first event of a session for which something holds, this way round, and its number."""
    sql = f"{EVENTS} WHERE e.session = ? AND {where} ORDER BY e.timestamp_ms {way}, e.id {way} LIMIT 1"
    rows = connection.execute(sql, (session, *values))
    return next(((event_of(row), row[-1]) for row in rows), None)
