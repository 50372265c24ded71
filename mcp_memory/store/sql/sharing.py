"""Sharing with a team: setting rules and taking them back, and the queues of what its server is still to be told.

Both queues are emptied by whoever has the server's answer, so that nothing is lost wherever a process is killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from mcp_memory.domain.events import PRIVATE, TEAM, Event, EventType
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.store.sharing_port import Amount, Chosen, SharedPart, Waiting
from mcp_memory.store.sql.database import SET_FACT, SqlDatabase, Transaction, marks
from mcp_memory.store.sql.log import EVENTS, event_of
from mcp_memory.store.sql.projects import number_of
from mcp_memory.store.sql.sharing_rules import NOTES, OFFER, OURS, SERVER, WITHDRAW, in_chunks, session_key

_SHARABLE = f"""
    {OURS} {{its}} AND e.visibility = '{PRIVATE}' AND e.type <> '{EventType.NOTE}' AND e.timestamp_ms >= ?2
    AND s.session_id NOT LIKE '{NOTES}%'
"""
_NOT_KEPT = "AND NOT EXISTS (SELECT 1 FROM shared_session r WHERE r.session = s.id AND r.since_ms IS NULL)"
_SHARED = f"{OURS} {{its}} AND e.visibility = '{TEAM}'"
#: One's own sessions and a project's, by the slug or name that comes first.
_OF_PROJECT = "s.project = (SELECT id FROM project WHERE slug = ?1)"
_OF_SESSION = "s.session_id = ?1"
_SET_PROJECT = (
    "INSERT INTO shared_project (project, since_ms) VALUES (?, ?) ON CONFLICT (project) DO UPDATE SET since_ms = "
    "CASE WHEN excluded.since_ms < shared_project.since_ms THEN excluded.since_ms ELSE shared_project.since_ms END"
)
_SET_SESSION = (
    "INSERT INTO shared_session (key, session, since_ms) VALUES (?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET session = excluded.session, since_ms = excluded.since_ms"
)
_PROJECTS = f"""
    SELECT p.slug, r.since_ms, count(DISTINCT e.session), count(e.id), count(q.event) FROM project p
    LEFT JOIN shared_project r ON r.project = p.id
    LEFT JOIN session s ON s.project = p.id AND s.author = ''
    LEFT JOIN event e ON e.session = s.id AND e.visibility = '{TEAM}' LEFT JOIN to_push q ON q.event = e.id
    GROUP BY p.id, p.slug, r.since_ms HAVING r.since_ms IS NOT NULL OR count(e.id) > 0 ORDER BY p.slug
"""
_SESSIONS = f"""
    SELECT p.slug, s.session_id, r.since_ms, count(DISTINCT e.session), count(e.id), count(q.event)
    FROM shared_session r JOIN session s ON s.id = r.session JOIN project p ON p.id = s.project
    LEFT JOIN event e ON e.session = s.id AND e.visibility = '{TEAM}' LEFT JOIN to_push q ON q.event = e.id
    GROUP BY s.id, p.slug, s.session_id, r.since_ms ORDER BY p.slug, s.session_id
"""
_WAITING = """
    SELECT (SELECT count(*) FROM to_push q JOIN event e ON e.id = q.event),
           (SELECT count(*) FROM to_withdraw WHERE forget = 0), (SELECT count(*) FROM to_withdraw WHERE forget = 1)
"""
_SIZES = "SELECT e.id, length(e.text) FROM to_push q JOIN event e ON e.id = q.event ORDER BY e.id LIMIT ?"


class SharingPart:
    """Implements the SharedLog port."""

    _database: SqlDatabase

    async def share(self, chosen: Chosen, since_ms: int, *, dry_run: bool) -> Amount:
        if dry_run:
            return await self._database.read_as_transaction(lambda tx: _sharable(tx, chosen, since_ms))
        return await self._database.write_alone(_share, chosen, since_ms)

    async def unshare(self, chosen: Chosen, *, dry_run: bool) -> Amount:
        if dry_run:
            return await self._database.read_as_transaction(lambda tx: _amount(tx, chosen, _SHARED))
        return await self._database.write_alone(_unshare, chosen)

    async def shared(self) -> list[SharedPart]:
        projects = [(slug, "", *rest) for slug, *rest in await self._database.fetch(_PROJECTS)]
        return [SharedPart(*row) for row in (*projects, *await self._database.fetch(_SESSIONS))]

    async def waiting(self) -> Waiting:
        [row] = await self._database.fetch(_WAITING)
        return Waiting(*row)

    async def join_team(self, server: str) -> None:
        await self._database.write_alone(_join, server)

    async def push_again(self) -> int:
        return await self._database.write_alone(_offer_all)

    async def to_push(self, limit: int, chars: int) -> list[tuple[int, Event]]:
        sizes = await self._database.fetch(_SIZES, (limit,))
        within = sum(total <= chars for total in accumulate(size for _, size in sizes))
        numbers = [number for number, _ in sizes[: max(1, within)]]
        rows = await self._database.fetch(f"{EVENTS} WHERE e.id IN ({marks(numbers)}) ORDER BY e.id", numbers)
        return [(row[-1], event_of(row)) for row in rows]

    async def pushed(self, numbers: Sequence[int]) -> None:
        await self._database.write(in_chunks, "DELETE FROM to_push WHERE event IN ({})", numbers)

    async def to_withdraw(self, limit: int) -> tuple[list[bytes], bool]:
        rows = await self._database.fetch("SELECT key, forget FROM to_withdraw ORDER BY forget DESC LIMIT ?", (limit,))
        forget = bool(rows and rows[0][1])
        return [key for key, also in rows if bool(also) is forget], forget

    async def withdrawn(self, keys: Sequence[bytes], *, forget: bool) -> None:
        sql = f"DELETE FROM to_withdraw WHERE forget <= {int(forget)} AND key IN ({{}})"
        await self._database.write(in_chunks, sql, keys)


def _its(tx: Transaction, chosen: Chosen) -> tuple[str, str]:
    """What is chosen as a clause, and its value; raises if there is no such thing, or it is never shared."""
    if chosen.project:
        number_of(tx, chosen.project)
        return _OF_PROJECT, chosen.project
    name = chosen.session_id
    if not tx.fetch("SELECT 1 FROM session WHERE session_id = ?", (name,)):
        raise NotFound(f"There is no session {name!r} in memory; `mcp-memory sessions` lists them.")
    if name.startswith(NOTES):
        raise UsageError("Notes are your own: they are never shared. What the team should know, say in a session.")
    return _OF_SESSION, name


def _amount(tx: Transaction, chosen: Chosen, of: str, *more: int) -> Amount:
    its, name = _its(tx, chosen)
    [row] = tx.fetch(f"SELECT count(DISTINCT e.session), count(*) {of.format(its=its)}", (name, *more))
    return Amount(*row)


def _sharable(tx: Transaction, chosen: Chosen, since_ms: int) -> Amount:
    return _amount(tx, chosen, _SHARABLE + (_NOT_KEPT if chosen.project else ""), since_ms)


def _share(tx: Transaction, chosen: Chosen, since_ms: int) -> Amount:
    amount, (its, name) = _sharable(tx, chosen, since_ms), _its(tx, chosen)
    if chosen.project:
        tx.run(_SET_PROJECT, (number_of(tx, name), since_ms))
    for key, session, before_ms in () if chosen.project else _sessions(tx, its, name):
        tx.run(_SET_SESSION, (key, session, since_ms if before_ms is None else min(since_ms, before_ms)))
    of = (_SHARABLE + (_NOT_KEPT if chosen.project else "")).format(its=its)
    tx.run(OFFER.format(of=of), (name, since_ms))
    # What waits is the team's: so these are all that is not marked as such yet.
    tx.run(
        f"UPDATE event SET visibility = '{TEAM}' WHERE visibility = '{PRIVATE}' AND id IN (SELECT event FROM to_push)"
    )
    tx.run(
        "DELETE FROM to_withdraw WHERE forget = 0 AND key IN "
        "(SELECT e.key FROM event e JOIN to_push q ON q.event = e.id)"
    )
    return amount


def _sessions(tx: Transaction, its: str, name: str) -> list[tuple[bytes, int, int | None]]:
    """Sessions with their keys, and since when they are shared by themselves."""
    sql = (
        "SELECT s.id, s.client, s.session_id, r.since_ms FROM session s "
        f"LEFT JOIN shared_session r ON r.session = s.id WHERE s.author = '' AND {its}"
    )
    rows = tx.fetch(sql, (name,))
    return [(session_key(client, session_id), session, since_ms) for session, client, session_id, since_ms in rows]


def _unshare(tx: Transaction, chosen: Chosen) -> Amount:
    amount, (its, name) = _amount(tx, chosen, _SHARED), _its(tx, chosen)
    of = _SHARED.format(its=its)
    if tx.fetch(SERVER):
        tx.run(WITHDRAW.format(forget=0, of=of), (name,))
    tx.run(f"DELETE FROM to_push WHERE event IN (SELECT e.id {of})", (name,))
    tx.run(f"UPDATE event SET visibility = '{PRIVATE}' WHERE id IN (SELECT e.id {of})", (name,))
    if chosen.project:
        tx.run("DELETE FROM shared_project WHERE project = ?", (number_of(tx, name),))
        for _, session, since_ms in _sessions(tx, its, name):
            if since_ms is not None:
                tx.run("DELETE FROM shared_session WHERE session = ?", (session,))
        return amount
    for key, session, _ in _sessions(tx, its, name):
        tx.run(_SET_SESSION, (key, session, None))
    return amount


def _join(tx: Transaction, server: str) -> None:
    known = tx.fetch(SERVER)
    if known != [(server,)]:
        # What another server was to give back is not this one's matter.
        tx.run("DELETE FROM to_withdraw")
        _offer_all(tx)
    tx.run(SET_FACT, ("team", server))


def _offer_all(tx: Transaction) -> int:
    of = _SHARED.format(its="TRUE")
    tx.run(OFFER.format(of=of))
    return int(tx.fetch(f"SELECT count(*) {of}")[0][0])
