"""Looking at a memory on a server for trouble, without needing it to be in order."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import psycopg

from mcp_memory.domain.projects import Claim
from mcp_memory.errors import UPDATE, Problem
from mcp_memory.store.postgres.database import SCHEMA, Link, PostgresTransaction, configure, explain, shown
from mcp_memory.store.postgres.migrations import latest, unfit, version_of
from mcp_memory.store.postgres.rewriting import pending
from mcp_memory.store.postgres.viewing import ROLE_OF
from mcp_memory.store.sql.facts import HOOKED, LAST, PINS_ASKED, SOURCES, Facts, differing, joined
from mcp_memory.store.sql.failures import failed_work
from mcp_memory.store.sql.projects import claim_of
from mcp_memory.store.sql.tombstones import summary
from mcp_memory.store.sql.work import REVISIONS

T = TypeVar("T")
_SECONDS = 5
_OF_TEAM = "SELECT EXISTS (SELECT 1 FROM team_user) OR EXISTS (SELECT 1 FROM meta WHERE key = 'team')"
_LEASE = "SELECT holder, expires_ms FROM lease WHERE name = 'pipeline'"
_RIGHTS = f"""
    SELECT has_schema_privilege('{SCHEMA}', 'USAGE')
       AND NOT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = '{SCHEMA}' AND NOT pg_has_role(tableowner, 'USAGE'))
"""
#: Whether there is a role that members read by, or one may be made.
_VIEWERS = f"""
    SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = ({ROLE_OF}) AND pg_has_role(oid, 'MEMBER'))
        OR EXISTS (SELECT 1 FROM pg_roles WHERE rolname = current_user AND (rolcreaterole OR rolsuper))
"""
#: A part of the connections that the server allows, above which it is told that they run out.
_CONNECTIONS = """
    SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
           current_setting('max_connections')::int
"""
_CROWDED = 0.9


class LocalDiagnosis(Protocol):
    """What hooks left on this machine."""

    def facts(self) -> Facts: ...

    def problems(self) -> list[Problem]: ...

    def has_captured(self) -> bool: ...


@dataclass(frozen=True)
class ServerDiagnosis:
    """What `doctor` asks of a memory on a server."""

    url: str
    local: LocalDiagnosis

    def database(self) -> tuple[Facts, list[Problem]]:
        """What the server tells, and whether all is there that a memory needs."""
        local = self.local.problems()
        try:
            with self._connected() as connection:
                problems = self._problems(connection)
                usable = not problems and version_of(connection) == latest()
                return (self._facts(connection) if usable else self._joined(Facts())), [*problems, *local]
        except psycopg.Error as error:
            # A message tells what is wrong, why in brackets, and then what to do.
            told, ends, fix = str(explain(error, self.url)).partition("). ")
            fix = fix or "Look into the log of the server, then run: mcp-memory doctor"
            found = Problem("the memory on the server cannot be used", told + ends.strip(), fix)
            return self._joined(Facts()), [found, *local]

    def _problems(self, connection: psycopg.Connection[Any]) -> list[Problem]:
        where, version = shown(self.url), version_of(connection)
        if reason := unfit(connection):
            return [Problem(f"{where} cannot hold a memory", reason, "Name another in [store] url.")]
        if version > latest():
            why = f"It has schema {version}, this program knows up to {latest()}: a later version wrote it."
            return [Problem(f"{where} is of a newer version", why, UPDATE)]
        if version and not _one(connection, _RIGHTS)[0]:
            why = "The tables belong to another user, or may not be used by this one."
            fix = "Name their owner in [store] url, or see docs/TEAM.md for what to grant."
            return [Problem(f"{where}: rights are missing", why, fix)]
        if not version and not _one(connection, "SELECT has_database_privilege(current_database(), 'CREATE')")[0]:
            name = connection.info.dbname
            fix = f'GRANT CREATE ON DATABASE "{name}" TO "{connection.info.user}"'
            return [Problem(f"{where}: the tables cannot be made", "The user may not make a schema there.", fix)]
        problems = []
        if version == latest() and _one(connection, _OF_TEAM)[0] and not _one(connection, _VIEWERS)[0]:
            why = "They read by a role of their own, which the user of [store] url may not make."
            fix = f'As an administrator of the server: ALTER ROLE "{connection.info.user}" CREATEROLE'
            problems.append(Problem(f"{where}: members cannot read", why, fix))
        if _one(connection, "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool")[0]:
            why = "It is a standby, or default_transaction_read_only is on: nothing new can be stored."
            problems.append(Problem(f"{where} can only be read", why, "Name the primary server in [store] url."))
        used, allowed = _one(connection, _CONNECTIONS)
        if used > allowed * _CROWDED:
            why = f"{used} of {allowed} are in use; the next may be refused."
            problems.append(Problem(f"{where} runs out of connections", why, "Raise max_connections on the server."))
        return problems

    def facts(self) -> Facts:
        """What the memory knows; what waits on this machine, where it cannot be reached."""
        return self._looked(self._facts, self._joined(Facts()))

    def _facts(self, connection: psycopg.Connection[Any]) -> Facts:
        link = Link(connection)
        held_by, until_ms = link.execute(_LEASE).fetchone() or ("", 0)
        last = {client: last_ms for client, last_ms in link.execute(LAST) if last_ms is not None}
        known = Facts(
            last_ms=last,
            holder=held_by,
            lease_until_ms=until_ms,
            models={name: json.loads(value) for name, value in link.execute("SELECT name, value FROM llm_state")},
            revisions=dict(link.execute(REVISIONS).fetchall()),
            of_team=bool(link.execute(_OF_TEAM).fetchone()[0]),
            pins_asked=tuple(link.execute(PINS_ASKED).fetchall()),
            failed=tuple(failed_work(link)),
            tombstones=summary(PostgresTransaction(link)),
            to_rewrite=pending(connection, time.time_ns() // 1_000_000),
        )
        return self._joined(known)

    def _joined(self, known: Facts) -> Facts:
        return joined(known, self.local.facts())

    def claim(self, root: str, label: str, remote: str = "") -> Claim:
        return self._looked(lambda one: claim_of(PostgresTransaction(Link(one)), root, label, remote), Claim())

    def has_captured(self) -> bool:
        if self.local.has_captured():
            return True
        return self._looked(lambda one: bool(Link(one).execute(HOOKED).fetchone()[0]), False)

    def records(self) -> list[Problem]:
        return self._looked(lambda one: differing(Link(one).execute(SOURCES)), [])

    def _looked(self, look: Callable[[psycopg.Connection[Any]], T], otherwise: T) -> T:
        try:
            with self._connected() as connection:
                return look(connection) if version_of(connection) == latest() else otherwise
        except psycopg.Error:
            return otherwise

    def _connected(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(
            self.url, autocommit=True, connect_timeout=_SECONDS, cursor_factory=psycopg.ClientCursor
        )
        configure(connection)
        return connection


def _one(connection: psycopg.Connection[Any], sql: str) -> Any:
    return connection.execute(cast(Any, sql)).fetchone()
