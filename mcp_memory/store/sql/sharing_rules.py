"""What storing, erasing and merging mean for what is shared with a team, and what its server is still to be told.

A rule is of a project or of a session, and the session's comes first. Events that a rule shares are marked for the team
and put into a queue in the transaction that stores them; what is taken back or forgotten goes into another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcp_memory.domain.events import TEAM, TIMES, Event, EventType, event_key
from mcp_memory.store.sql.database import Transaction, marks

_CHUNK = 500
#: Sessions of notes, which are one's own; an import from another machine makes ordinary events of them.
NOTES = "notes:"
_ANY_RULE = "SELECT 1 FROM shared_project UNION ALL SELECT 1 FROM shared_session LIMIT 1"
_RULES = """
    SELECT s.author, p.since_ms, r.key, r.since_ms, r.session FROM session s
    LEFT JOIN shared_project p ON p.project = s.project LEFT JOIN shared_session r ON r.key = ? WHERE s.id = ?
"""
#: Which server what is shared was sent to.
SERVER = "SELECT value FROM meta WHERE key = 'team'"
#: One's own events: in the memory of a team no others are shared from here.
OURS = "FROM event e JOIN session s ON s.id = e.session WHERE s.author = '' AND"
WITHDRAW = (
    "INSERT INTO to_withdraw (key, forget) SELECT e.key, {forget} {of} ON CONFLICT (key) DO UPDATE SET forget = "
    "CASE WHEN excluded.forget > to_withdraw.forget THEN excluded.forget ELSE to_withdraw.forget END"
)
OFFER = "INSERT INTO to_push (event) SELECT e.id {of} ON CONFLICT DO NOTHING"
_KEEP_PRIVATE = "INSERT INTO shared_session (key, session, since_ms) VALUES (?, ?, NULL) ON CONFLICT DO NOTHING"
_BOTH = "SELECT project, since_ms FROM shared_project WHERE project IN (?, ?)"


def session_key(client: str, session_id: str) -> bytes:
    """By which a session is known when it comes again, without its name."""
    return event_key(client, session_id, "\x1fsession")


def in_chunks(tx: Transaction, sql: str, values: Sequence[int] | Sequence[bytes]) -> None:
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
    if author or event.session_id.startswith(NOTES):
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
        in_chunks(tx, OFFER.format(of=f"{OURS} e.visibility = '{TEAM}' AND e.key IN ({{}})"), keys)


def note_forgotten(tx: Transaction, numbers: Sequence[int]) -> None:
    """Before these events are erased: let the team's server forget those that it may have."""
    if not tx.fetch(SERVER):
        in_chunks(tx, "DELETE FROM to_push WHERE event IN ({})", numbers)
        return
    waiting = "e.key IN (SELECT key FROM to_withdraw)"
    of = f"{OURS} (e.visibility = '{TEAM}' OR {waiting}) AND e.id IN ({{}})"
    in_chunks(tx, WITHDRAW.format(forget=1, of=of), numbers)
    in_chunks(tx, "DELETE FROM to_push WHERE event IN ({})", numbers)


def note_cleared(tx: Transaction, numbers: Sequence[int]) -> None:
    """These events say less now: let the server give back what it has of them, and take them as they are."""
    of = f"{OURS} e.visibility = '{TEAM}' AND e.id IN ({{}})"
    if tx.fetch(SERVER):
        in_chunks(tx, WITHDRAW.format(forget=0, of=of), numbers)
        in_chunks(tx, OFFER.format(of=of), numbers)


def note_merge(tx: Transaction, old: int, new: int) -> None:
    """One project becomes a part of another: what was private there stays private, whatever the other one shares."""
    rules: dict[int, int] = dict(tx.fetch(_BOTH, (old, new)))
    tx.run("DELETE FROM shared_project WHERE project = ?", (old,))
    if old in rules and new in rules:
        tx.run("UPDATE shared_project SET since_ms = ? WHERE project = ?", (max(rules.values()), new))
    elif new in rules:
        rows = tx.fetch("SELECT id, client, session_id FROM session WHERE project = ? AND author = ''", (old,))
        tx.run_many(_KEEP_PRIVATE, [(session_key(client, name), number) for number, client, name in rows])


def drop_rules(tx: Transaction, *, session: int | None = None, project: int | None = None) -> None:
    """Nothing is left of a session or project: what may come is private. A session kept private stays so."""
    if session is not None:
        tx.run("DELETE FROM shared_session WHERE session = ? AND since_ms IS NOT NULL", (session,))
    if project is not None:
        tx.run("DELETE FROM shared_project WHERE project = ?", (project,))
