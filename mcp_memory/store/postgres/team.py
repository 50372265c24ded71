"""People of a team in PostgreSQL: their tokens, the members of projects, and who did what."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import TypeVar

from mcp_memory.domain.events import Intake
from mcp_memory.domain.people import ROLES, AuditRow, TeamProject, TeamUser, Viewer, valid_name
from mcp_memory.errors import NotFound, TooLarge, UsageError
from mcp_memory.store.postgres.database import ACCESS, CHANNEL, PostgresDatabase
from mcp_memory.store.sql.database import SET_FACT, SqlDatabase, Transaction, marks
from mcp_memory.store.sql.forget import own_key
from mcp_memory.store.sql.log import add_events
from mcp_memory.store.sql.projects import named_project, project_of
from mcp_memory.store.sql.records import drop_records
from mcp_memory.store.sql.store import start_anew
from mcp_memory.store.sql.tombstones import is_marked
from mcp_memory.store.team_port import Received

Result = TypeVar("Result")
#: What a token begins with, so that it is known for one where it does not belong.
PREFIX = "mcpm_"
#: Projects that one push, and one member in all, may begin: each question looks at all that one may read.
MAX_NEW_PROJECTS, MAX_PROJECTS = 20, 200
_VIEWER = """
    SELECT u.name, u.role, t.expires_ms FROM team_token t JOIN team_user u ON u.name = t.name
    WHERE t.sha256 = ? AND t.expires_ms > ? AND u.revoked_ms IS NULL
"""
_SESSION_VIEWER = """
    SELECT u.name, u.role, least(b.expires_ms, t.expires_ms) FROM team_session b JOIN team_token t ON t.sha256 = b.token
    JOIN team_user u ON u.name = t.name
    WHERE b.sha256 = ? AND b.expires_ms > ? AND t.expires_ms > ? AND u.revoked_ms IS NULL
"""
_USERS = """
    SELECT u.name, u.role, u.created_ms, u.revoked_ms,
           (SELECT count(*) FROM team_token t WHERE t.name = u.name AND t.expires_ms > :now AND u.revoked_ms IS NULL),
           (SELECT max(t.expires_ms) FROM team_token t WHERE t.name = u.name AND u.revoked_ms IS NULL),
           (SELECT count(*) FROM session s WHERE s.author = u.name AND s.shared = 1)
    FROM team_user u ORDER BY u.name
"""
_PROJECTS = """
    SELECT p.id, p.slug, p.root, coalesce(substr((
        SELECT min(n.root) FROM (
            SELECT p.root UNION ALL SELECT a.root FROM project_alias a WHERE a.project = p.id
        ) n WHERE n.root LIKE 'remote:%'
    ), 8), '') FROM project p ORDER BY p.slug
"""
_ERASURE_MARKS = """
    SELECT project, coalesce(e.mark, '') FROM unnest(projects_of(?)) readable (project)
    LEFT JOIN team_erasure e USING (project) ORDER BY project
"""
_AUDIT = "SELECT at_ms, name, action, project, many, outcome FROM audit"


class TeamPart:
    """Implements the TeamRegister port."""

    _database: SqlDatabase
    database: PostgresDatabase

    async def become_team(self, timezone: str) -> None:
        def write(tx: Transaction) -> None:
            tx.lock(["become team"])
            if not tx.fetch("SELECT 1 FROM meta WHERE key = 'team'"):
                tx.run(SET_FACT, ("team", "1"))
                if tx.fetch("SELECT 1 FROM event WHERE visibility <> 'team' LIMIT 1"):
                    # Whatever was made of it so far was made for one person.
                    records = tx.fetch("SELECT id FROM compaction")
                    drop_records(tx, {number for (number,) in records})
                    start_anew(tx, timezone)

        if not await self._database.value("SELECT 1 FROM meta WHERE key = 'team'"):
            await self._database.write_alone(write)

    async def add_user(self, name: str, role: str, now_ms: int, expires_ms: int) -> str:
        valid_name(name), _valid_role(role)

        def write(tx: Transaction) -> str:
            tx.lock([f"team user {name}"])
            found = tx.fetch("SELECT revoked_ms FROM team_user WHERE name = ?", (name,))
            if found and found[0][0] is None:
                raise UsageError(
                    f"There is a member {name!r} already. `mcp-memory team user token {name}` makes a further token, "
                    f"`team user role {name} ROLE` changes what it may do."
                )
            tx.run(
                "INSERT INTO team_user (name, role, created_ms) VALUES (?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET role = excluded.role, revoked_ms = NULL",
                (name, role, now_ms),
            )
            return _new_token(tx, name, now_ms, expires_ms)

        return await self._change_access(write)

    async def add_token(self, name: str, now_ms: int, expires_ms: int) -> str:
        def write(tx: Transaction) -> str:
            _must_live(tx, name)
            return _new_token(tx, name, now_ms, expires_ms)

        return await self._database.write(write)

    async def set_role(self, name: str, role: str) -> None:
        def write(tx: Transaction) -> None:
            _must_live(tx, name)
            tx.run("UPDATE team_user SET role = ? WHERE name = ?", (_valid_role(role), name))

        await self._change_access(write)

    async def revoke_user(self, name: str, now_ms: int) -> int:
        def write(tx: Transaction) -> int:
            _must_live(tx, name)
            gone = tx.fetch("DELETE FROM team_token WHERE name = ? RETURNING expires_ms", (name,))
            tx.run("UPDATE team_user SET revoked_ms = ? WHERE name = ?", (now_ms, name))
            return sum(expires_ms > now_ms for (expires_ms,) in gone)

        return await self._change_access(write)

    async def _change_access(self, write: Callable[[Transaction], Result]) -> Result:
        """Write, and let this server and all others look tokens up again."""

        def told(tx: Transaction) -> Result:
            result = write(tx)
            tx.run("SELECT pg_notify(?, ?)", (CHANNEL, ACCESS))
            return result

        result = await self._database.write(told)
        self.database.access_changes += 1
        return result

    async def erasure_mark(self, name: str) -> str:
        marks_of = await self._database.fetch(_ERASURE_MARKS, (name,))
        return hashlib.sha256(repr(marks_of).encode()).hexdigest()[:32]

    def access_version(self) -> int:
        return self.database.access_changes

    async def users(self, now_ms: int) -> list[TeamUser]:
        return [TeamUser(*row) for row in await self._database.fetch(_USERS, {"now": now_ms})]

    async def viewer_of(self, token: str, now_ms: int) -> Viewer | None:
        rows = await self._database.fetch(_VIEWER, (_digest(token), now_ms))
        return Viewer(*rows[0]) if rows else None

    async def open_session(self, token: str, now_ms: int, expires_ms: int) -> str:
        def write(tx: Transaction) -> str:
            session = secrets.token_urlsafe(32)
            tx.run("DELETE FROM team_session WHERE expires_ms <= ?", (now_ms,))
            tx.run(
                "INSERT INTO team_session (sha256, token, expires_ms) VALUES (?, ?, ?)",
                (_digest(session), _digest(token), expires_ms),
            )
            return session

        return await self._database.write(write)

    async def close_session(self, session: str) -> None:
        key = (_digest(session),)
        await self._change_access(lambda tx: tx.run("DELETE FROM team_session WHERE sha256 = ?", key))

    async def viewer_of_session(self, session: str, now_ms: int) -> Viewer | None:
        rows = await self._database.fetch(_SESSION_VIEWER, (_digest(session), now_ms, now_ms))
        return Viewer(*rows[0]) if rows else None

    async def team_projects(self) -> list[TeamProject]:
        members: dict[int, list[str]] = {}
        for project, name in await self._database.fetch("SELECT project, name FROM team_member ORDER BY name"):
            members.setdefault(project, []).append(name)
        rows = await self._database.fetch(_PROJECTS)
        return [TeamProject(slug, root, remote, tuple(members.get(number, ()))) for number, slug, root, remote in rows]

    async def add_member(self, project: str, name: str) -> None:
        def write(tx: Transaction) -> None:
            _must_live(tx, name)
            place = (_project(tx, project), name)
            tx.run("INSERT INTO team_member (project, name) VALUES (?, ?) ON CONFLICT DO NOTHING", place)

        await self._database.write(write)

    async def remove_member(self, project: str, name: str, *, opens: bool = False) -> None:
        def write(tx: Transaction) -> None:
            number = _project(tx, project)
            tx.lock([f"members {number}"])
            left = [one for (one,) in tx.fetch("SELECT name FROM team_member WHERE project = ?", (number,))]
            if name not in left:
                raise NotFound(f"{name!r} is no member of {project!r}; `mcp-memory team project list` names them.")
            if left == [name] and not opens:
                raise UsageError(
                    f"{name!r} is the last member of {project!r}: without one it would be open to all of the team. "
                    "Add another first, or give --open if that is meant."
                )
            tx.run("DELETE FROM team_member WHERE project = ? AND name = ?", (number, name))

        await self._database.write(write)

    async def receive(self, intakes: Sequence[Intake]) -> Received:
        return await self._database.write(_receive, intakes)

    async def note_audit(self, rows: Sequence[AuditRow], oldest_ms: int, most: int) -> None:
        def write(tx: Transaction) -> None:
            tx.insert("audit (at_ms, name, action, project, many, outcome)", [astuple(row) for row in rows])
            tx.run("DELETE FROM audit WHERE at_ms < ?", (oldest_ms,))
            tx.run("DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ?", (most,))

        await self.database.write_aside(write)

    async def audit(self, user: str | None, limit: int) -> list[AuditRow]:
        where, values = ("WHERE name = ?", [user]) if user is not None else ("", [])
        rows = await self._database.fetch(f"{_AUDIT} {where} ORDER BY id DESC LIMIT ?", (*values, limit))
        return [AuditRow(*row) for row in rows]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _new_token(tx: Transaction, name: str, now_ms: int, expires_ms: int) -> str:
    token = PREFIX + secrets.token_urlsafe(32)
    row = (_digest(token), name, now_ms, expires_ms)
    tx.run("INSERT INTO team_token (sha256, name, created_ms, expires_ms) VALUES (?, ?, ?, ?)", row)
    return token


def _must_live(tx: Transaction, name: str) -> None:
    rows = tx.fetch("SELECT revoked_ms FROM team_user WHERE name = ?", (name,))
    if not rows:
        raise NotFound(f"There is no member {name!r}; `mcp-memory team user list` names all.")
    if rows[0][0] is not None:
        raise UsageError(f"{name!r} was revoked. `mcp-memory team user add {name}` lets that member come back.")


def _valid_role(role: str) -> str:
    if role not in ROLES:
        raise UsageError(f"{role!r} is no role; there are {', '.join(ROLES)}.")
    return role


def _project(tx: Transaction, slug: str) -> int:
    rows = tx.fetch("SELECT id FROM project WHERE slug = ?", (slug,))
    if not rows:
        raise NotFound(f"There is no project {slug!r} in memory; `mcp-memory team project list` names all.")
    return int(rows[0][0])


_SESSION = "SELECT author, project FROM session WHERE client = ? AND session_id = ?"
_OTHERS = "SELECT e.key, s.author FROM event e JOIN session s ON s.id = e.session WHERE s.author <> ? AND e.key IN ({})"
_OWNED = "SELECT key FROM owner WHERE author <> ? AND key IN ({})"
_BEGUN = "SELECT count(*) FROM begun_project WHERE author = ?"
_BEGIN = "INSERT INTO begun_project (project, author) VALUES (?, ?) ON CONFLICT DO NOTHING"
_SHUT = (
    "SELECT 1 FROM team_member WHERE project = ?1 "
    "AND NOT EXISTS (SELECT 1 FROM team_member WHERE project = ?1 AND name = ?2) LIMIT 1"
)


@dataclass(slots=True)
class _Receipt:
    """One push on its way into the memory of a team."""

    tx: Transaction
    author: str
    #: Ids that another member's events or sessions had before they were taken back.
    owned: frozenset[bytes]
    taken: list[Intake] = field(default_factory=list)
    refused: dict[bytes, str] = field(default_factory=dict)
    forgotten: int = 0
    #: The projects that this push begins, and how many its author has begun before.
    begun: list[int] = field(default_factory=list)
    begun_before: int | None = None

    def take(self, intake: Intake) -> None:
        """Sort out which events of a session can be stored."""
        if reason := self._unfit(intake):
            self.refused |= {event.key: reason for event in intake.events}
            return
        keys = list(dict.fromkeys(event.key for event in intake.events))
        others = {key for key, _ in self.tx.fetch(_OTHERS.format(marks(keys)), (self.author, *keys))}
        others |= self.owned.intersection(keys)
        self.refused |= dict.fromkeys(others, "it is someone else's")
        own_keys = {own_key(self.author, key): key for key in keys}
        left = {own_keys[own] for own in is_marked(self.tx, [*own_keys])} | others
        self.taken.append(replace(intake, events=tuple(event for event in intake.events if event.key not in left)))
        self.forgotten += len(left - others)

    def _unfit(self, intake: Intake) -> str:
        """Why nothing of a session can be taken; nothing if it can."""
        event = intake.events[0]
        rows = self.tx.fetch(_SESSION, (event.client, event.session_id))
        is_owned = _owner_key(event.client, event.session_id) in self.owned
        if (rows and rows[0][0] != self.author) or (not rows and is_owned):
            return f"the session is someone else's: {event.session_id[:60]}"
        project = rows[0][1] if rows else self._project(intake)
        if project is None:
            return f"you have begun {MAX_PROJECTS} projects, and no one begins more: {intake.label[:60]}"
        if self.tx.fetch(_SHUT, (project, self.author)):
            return f"you are no member of the project: {intake.label[:60]}"
        return ""

    def _project(self, intake: Intake) -> int | None:
        """The project of a new session; None if it would be one more than a member begins."""
        found = named_project(self.tx, intake.label, intake.remote)
        if found is not None:
            return found
        if self.begun_before is None:
            [(self.begun_before,)] = self.tx.fetch(_BEGUN, (self.author,))
        if self.begun_before + len(self.begun) >= MAX_PROJECTS:
            return None
        if len(self.begun) >= MAX_NEW_PROJECTS:
            raise TooLarge(f"A push begins at most {MAX_NEW_PROJECTS} projects: send it in smaller portions.")
        project = project_of(self.tx, intake.root, intake.label, intake.remote)
        self.tx.run(_BEGIN, (project, self.author))
        self.begun.append(project)
        return project


def _receive(tx: Transaction, intakes: Sequence[Intake]) -> Received:
    intakes = [intake for intake in intakes if intake.events]
    sessions = {(intake.events[0].client, intake.events[0].session_id) for intake in intakes}
    tx.lock(f"session {client} {session_id}" for client, session_id in sessions)
    if not intakes:
        return Received(0, 0)
    author = intakes[0].author
    keys = [*(_owner_key(*name) for name in sessions), *(event.key for intake in intakes for event in intake.events)]
    owned = frozenset(key for (key,) in tx.fetch(_OWNED.format(marks(keys)), (author, *keys)))
    receipt = _Receipt(tx, author, owned)
    for intake in intakes:
        receipt.take(intake)
    new = add_events(tx, [intake for intake in receipt.taken if intake.events])
    known = sum(len(intake.events) for intake in receipt.taken) - new + receipt.forgotten
    return Received(new, known, receipt.refused)


def _owner_key(client: str, session_id: str) -> bytes:
    """By which the table of owners knows a session."""
    return hashlib.sha256(f"{client}\x1f{session_id}".encode("utf-8", "replace")).digest()[:20]
