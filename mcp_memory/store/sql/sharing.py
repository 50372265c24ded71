"""Sharing with a team: rules, and what its server is still to be told.

A rule is of a project or of a session, and the session's comes first. Events that a rule shares are marked for the team
and put into a queue in the transaction that stores them; what is taken back or forgotten goes into another one. Both
queues are emptied by whoever has the server's answer, so that nothing is lost wherever a process is killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from mcp_memory.domain.events import NOTES_SESSION, PRIVATE, TEAM, TIMES, Event, EventType, event_key
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.store.sharing_port import Amount, Chosen, SharedPart, Waiting
from mcp_memory.store.sql.database import SET_FACT, SqlDatabase, Transaction, marks

_CHUNK = 500
_ANY_RULE = "SELECT 1 FROM shared_project UNION ALL SELECT 1 FROM shared_session LIMIT 1"
_RULES = """
    SELECT s.author, p.since_ms, r.key, r.since_ms, r.session FROM session s
    LEFT JOIN shared_project p ON p.project = s.project LEFT JOIN shared_session r ON r.key = ? WHERE s.id = ?
"""
#: Which server what is shared was sent to.
_SERVER = "SELECT value FROM meta WHERE key = 'joined'"
#: One's own events: in the memory of a team no others are shared from here.
_OURS = "FROM event e JOIN session s ON s.id = e.session WHERE s.author = '' AND"
_WITHDRAW = (
    "INSERT INTO to_withdraw (key, forget) SELECT e.key, {forget} {of} ON CONFLICT (key) DO UPDATE SET forget = "
    "CASE WHEN excluded.forget > to_withdraw.forget THEN excluded.forget ELSE to_withdraw.forget END"
)
_OFFER = "INSERT INTO to_push (event) SELECT e.id {of} ON CONFLICT DO NOTHING"
_KEEP_PRIVATE = "INSERT INTO shared_session (key, session, since_ms) VALUES (?, ?, NULL) ON CONFLICT DO NOTHING"
_BOTH = "SELECT project, since_ms FROM shared_project WHERE project IN (?, ?)"
_SHARABLE = f"""
    {_OURS} {{its}} AND e.visibility = '{PRIVATE}' AND e.type <> '{EventType.NOTE}' AND e.timestamp_ms >= ?2
    AND s.session_id NOT LIKE '{NOTES_SESSION}%'
"""
_NOT_KEPT = "AND NOT EXISTS (SELECT 1 FROM shared_session r WHERE r.session = s.id AND r.since_ms IS NULL)"
_SHARED = f"{_OURS} {{its}} AND e.visibility = '{TEAM}'"
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
        return await self._database.write_alone(_all_again)

    async def to_push(self, limit: int, chars: int) -> list[tuple[int, Event]]:
        sizes = await self._database.fetch(_SIZES, (limit,))
        within = sum(total <= chars for total in accumulate(size for _, size in sizes))
        numbers = [number for number, _ in sizes[: max(1, within)]]
        from mcp_memory.store.sql.log import EVENTS, event_of

        rows = await self._database.fetch(f"{EVENTS} WHERE e.id IN ({marks(numbers)}) ORDER BY e.id", numbers)
        return [(row[-1], event_of(row)) for row in rows]

    async def pushed(self, numbers: Sequence[int]) -> None:
        await self._database.write(_in_chunks, "DELETE FROM to_push WHERE event IN ({})", numbers)

    async def to_withdraw(self, limit: int) -> tuple[list[bytes], bool]:
        rows = await self._database.fetch("SELECT key, forget FROM to_withdraw ORDER BY forget DESC LIMIT ?", (limit,))
        forget = bool(rows and rows[0][1])
        return [key for key, also in rows if bool(also) is forget], forget

    async def withdrawn(self, keys: Sequence[bytes], *, forget: bool) -> None:
        sql = f"DELETE FROM to_withdraw WHERE forget <= {int(forget)} AND key IN ({{}})"
        await self._database.write(_in_chunks, sql, keys)


def _project(tx: Transaction, slug: str) -> int:
    rows = tx.fetch("SELECT id FROM project WHERE slug = ?", (slug,))
    if not rows:
        raise NotFound(f"There is no project {slug!r} in memory; `mcp-memory projects` lists them.")
    return int(rows[0][0])


def _its(tx: Transaction, chosen: Chosen) -> tuple[str, str]:
    """What is chosen as a clause, and its value; raises if there is no such thing, or it is never shared."""
    if chosen.project:
        _project(tx, chosen.project)
        return _OF_PROJECT, chosen.project
    name = chosen.session_id
    if not tx.fetch("SELECT 1 FROM session WHERE session_id = ?", (name,)):
        raise NotFound(f"There is no session {name!r} in memory; `mcp-memory sessions` lists them.")
    if name.startswith(NOTES_SESSION):
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
        tx.run(_SET_PROJECT, (_project(tx, name), since_ms))
    for key, session, before_ms in () if chosen.project else _sessions(tx, its, name):
        tx.run(_SET_SESSION, (key, session, since_ms if before_ms is None else min(since_ms, before_ms)))
    of = (_SHARABLE + (_NOT_KEPT if chosen.project else "")).format(its=its)
    tx.run(_OFFER.format(of=of), (name, since_ms))
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
    if tx.fetch(_SERVER):
        tx.run(_WITHDRAW.format(forget=0, of=of), (name,))
    tx.run(f"DELETE FROM to_push WHERE event IN (SELECT e.id {of})", (name,))
    tx.run(f"UPDATE event SET visibility = '{PRIVATE}' WHERE id IN (SELECT e.id {of})", (name,))
    if chosen.project:
        tx.run("DELETE FROM shared_project WHERE project = ?", (_project(tx, name),))
        for _, session, since_ms in _sessions(tx, its, name):
            if since_ms is not None:
                tx.run("DELETE FROM shared_session WHERE session = ?", (session,))
        return amount
    for key, session, _ in _sessions(tx, its, name):
        tx.run(_SET_SESSION, (key, session, None))
    return amount


def _join(tx: Transaction, server: str) -> None:
    known = tx.fetch(_SERVER)
    if known != [(server,)]:
        # What another server was to give back is not this one's matter.
        tx.run("DELETE FROM to_withdraw")
        _offer_all(tx)
    tx.run(SET_FACT, ("joined", server))


def _offer_all(tx: Transaction) -> int:
    of = _SHARED.format(its="TRUE")
    tx.run(_OFFER.format(of=of))
    return int(tx.fetch(f"SELECT count(*) {of}")[0][0])


def _all_again(tx: Transaction) -> int:
    """All that is shared, and all that is forgotten: an older state of the server may have lost both."""
    if tx.fetch(_SERVER):
        from mcp_memory.store.sql.tombstones import unsealed_keys

        rows = [(key, 1) for key in unsealed_keys(tx)]
        tx.insert("to_withdraw (key, forget)", rows, known="ON CONFLICT (key) DO UPDATE SET forget = 1")
    return _offer_all(tx)


def session_key(client: str, session_id: str) -> bytes:
    """By which a session is known when it comes again, without its name."""
    return event_key(client, session_id, "\x1fsession")


def _in_chunks(tx: Transaction, sql: str, values: Sequence[int] | Sequence[bytes]) -> None:
    """Run a statement with as many marks in its braces as a part of the values needs."""
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK]
        tx.run(sql.format(marks(part)), part)


def sharing(tx: Transaction, told: Sequence[tuple[int, Event]]) -> set[int]:
    """Which of these events, given with their sessions, a rule shares: their places in the list."""
    if not told or not tx.fetch(_ANY_RULE):
        return set()
    since: dict[int, int] = {}
    for session, event in dict(told).items():
        since[session] = _since(tx, session, event)
    return {
        place
        for place, (session, event) in enumerate(told)
        if event.event_type is not EventType.NOTE and event.timestamp_ms >= since[session]
    }


def _since(tx: Transaction, session: int, event: Event) -> int:
    """From when on what is said in the session of an event is shared."""
    key = session_key(event.client, event.session_id)
    [(author, project_ms, found, since_ms, number)] = tx.fetch(_RULES, (key, session))
    if author or event.session_id.startswith(NOTES_SESSION):
        return TIMES.stop
    if found is None:
        return TIMES.stop if project_ms is None else int(project_ms)
    if number != session:  # it was forgotten, and goes on
        tx.run("UPDATE shared_session SET session = ? WHERE key = ?", (session, key))
    return TIMES.stop if since_ms is None else int(since_ms)


def offer(tx: Transaction, numbers: Sequence[int]) -> None:
    """Let these events of a shared project or session be sent."""
    tx.insert("to_push (event)", [(number,) for number in numbers], known="ON CONFLICT DO NOTHING")


def offer_retold(tx: Transaction, keys: Sequence[bytes]) -> None:
    """Let the shared ones of these events be sent once more: more of the source's lines are known by now."""
    if keys and tx.fetch(_ANY_RULE):
        _in_chunks(tx, _OFFER.format(of=f"{_OURS} e.visibility = '{TEAM}' AND e.key IN ({{}})"), keys)


def note_forgotten(tx: Transaction, numbers: Sequence[int]) -> None:
    """Before these events are erased: let the team's server forget those that it may have."""
    if not tx.fetch(_SERVER):
        _in_chunks(tx, "DELETE FROM to_push WHERE event IN ({})", numbers)
        return
    waiting = "e.key IN (SELECT key FROM to_withdraw)"
    of = f"{_OURS} (e.visibility = '{TEAM}' OR {waiting}) AND e.id IN ({{}})"
    _in_chunks(tx, _WITHDRAW.format(forget=1, of=of), numbers)
    _in_chunks(tx, "DELETE FROM to_push WHERE event IN ({})", numbers)


def note_cleared(tx: Transaction, numbers: Sequence[int]) -> None:
    """These events say less now: let the server give back what it has of them, and take them as they are."""
    of = f"{_OURS} e.visibility = '{TEAM}' AND e.id IN ({{}})"
    if tx.fetch(_SERVER):
        _in_chunks(tx, _WITHDRAW.format(forget=0, of=of), numbers)
        _in_chunks(tx, _OFFER.format(of=of), numbers)


def note_merge(tx: Transaction, old: int, new: int) -> None:
    """One project becomes a part of another: what was private there stays private, whatever the other one shares."""
    rules: dict[int, int] = dict(tx.fetch(_BOTH, (old, new)))
    tx.run("DELETE FROM shared_project WHERE project = ?", (old,))
    if old in rules and new in rules:
        tx.run("UPDATE shared_project SET since_ms = ? WHERE project = ?", (max(rules.values()), new))
    elif new in rules:
        rows = tx.fetch("SELECT id, client, session_id FROM session WHERE project = ? AND author = ''", (old,))
        tx.run_many(_KEEP_PRIVATE, [(session_key(client, name), number) for number, client, name in rows])


def drop_session_rules(tx: Transaction, sessions: Sequence[int]) -> None:
    """Nothing is left of these sessions: what may come is private. A session kept private stays so."""
    _in_chunks(tx, "DELETE FROM shared_session WHERE since_ms IS NOT NULL AND session IN ({})", sessions)


def drop_project_rule(tx: Transaction, project: int) -> None:
    """Nothing is left of a project: what may come is private."""
    tx.run("DELETE FROM shared_project WHERE project = ?", (project,))
