"""The memory as one member of a team sees it.

What may be seen is decided twice. Each statement of the shared SQL is given a condition wherever it names a table that
holds what people said: the table is replaced by the part of it that the viewer may read, which PostgreSQL takes into
its plan, indexes included. And it runs in the role of a viewer, for whom row-level security says the same once more
(schema/0002_team.sql); a statement that the first missed would find no more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from anyio import to_thread
from psycopg import errors

from mcp_memory.domain.people import Viewer
from mcp_memory.errors import NotAllowed, StoreError
from mcp_memory.store.postgres.database import (
    SCHEMA,
    Link,
    PostgresDatabase,
    PostgresSnapshot,
    PostgresTransaction,
    ended,
)
from mcp_memory.store.postgres.translation import bound, by_keys, in_arrays, translated
from mcp_memory.store.sql.database import Row, Values, finished

P = ParamSpec("P")
Result = TypeVar("Result")
_OF_PROJECT = "SELECT x.* FROM {0} x WHERE x.project = ANY (§projects)"
_OF_SESSION = "SELECT x.* FROM {0} x JOIN session y ON y.id = x.session WHERE y.project = ANY (§projects) AND §session"
#: Of a person what it said, and the periods in which it said something.
_NODE = "SELECT x.* FROM node x WHERE x.project = ANY (§projects) AND §node"
_OF_NODE = "SELECT x.* FROM {0} x JOIN node y ON y.id = x.node WHERE y.project = ANY (§projects)"
#: What a viewer may read of each table that holds something of someone.
GUARDED = {
    "project": "SELECT x.* FROM project x WHERE x.id = ANY (§projects)",
    "place": (
        "SELECT x.* FROM place x WHERE x.root IN (SELECT p.root FROM project p WHERE p.id = ANY (§projects) "
        "UNION ALL SELECT a.root FROM project_alias a WHERE a.project = ANY (§projects))"
    ),
    "session": "SELECT y.* FROM session y WHERE y.project = ANY (§projects) AND §session",
    "event": (
        "SELECT x.* FROM event x JOIN session y ON y.id = x.session WHERE y.project = ANY (§projects) AND §event"
    ),
    "node": _NODE,
    **{
        table: _OF_PROJECT.format(table)
        for table in ("project_alias", "mention", "removed_node", "erased", "dirty_node", "dirty_brief")
    },
    **{table: _OF_SESSION.format(table) for table in ("segment", "compaction", "dirty_session", "dirty_compaction")},
    "compaction_source": (
        "SELECT x.* FROM compaction_source x JOIN compaction c ON c.id = x.compaction "
        "JOIN session y ON y.id = c.session WHERE y.project = ANY (§projects) AND §session"
    ),
    "continued": (
        "SELECT x.* FROM continued x JOIN session y ON y.id = x.origin WHERE y.project = ANY (§projects) AND §session"
    ),
    **{table: _OF_NODE.format(table) for table in ("node_version", "grip")},
    "bullet": (
        "SELECT x.* FROM bullet x JOIN node_version v ON v.id = x.node_version JOIN node y ON y.id = v.node "
        "WHERE y.project = ANY (§projects)"
    ),
}
#: The index is kept from a viewer by its own columns alone: under row-level security PostgreSQL would not use it to
#: find words. Its rows are numbers of what is then looked up in the tables above.
INDEX = {"search": "SELECT x.* FROM search x WHERE x.project = ANY (§projects) AND (x.level >= 0 OR §found) AND §by"}
#: Tables that a viewer reads as they are: what is true of all of the memory.
OPEN = ("meta", "log_place", "migration", "lease", "quarter", "frequency")
_REPLACED = GUARDED | INDEX
#: Of segments those of a person, of periods those in which there is one.
_TAKEN_PART = (
    "CASE WHEN x.level = 4 THEN EXISTS (SELECT 1 FROM session y WHERE y.id = x.session AND y.author = {by}) "
    "ELSE EXISTS (SELECT 1 FROM node w JOIN session y ON y.id = w.session WHERE w.project = x.project AND w.level = 4 "
    "AND w.start_ms BETWEEN x.start_ms AND x.end_ms AND y.author = {by}) END"
)
#: A table where it is read from, and the name it goes by there.
_READ = re.compile(
    rf"\b(FROM|JOIN)(\s+)({'|'.join(sorted(_REPLACED, key=len, reverse=True))})\b(?:\s+(?:AS\s+)?([a-z]\w*))?"
)
#: Where it is put in who reads, and what.
_MARK = re.compile(r"(\w\.\w+ = ANY \()§projects\)|§\w+")
#: What may be read, and what of that if one person's part is asked for.
_SEEN = {
    "§session": "(y.shared = 1 OR y.author = {viewer})",
    "§event": "(x.visibility = 'team' OR y.author = {viewer})",
    "§found": "(x.visibility = 'team' OR x.author = {viewer})",
}
_PART = {"§session": "y.author = {by}", "§event": "y.author = {by}", "§by": "x.author = {by}", "§node": _TAKEN_PART}
#: A plan that is kept is the same for all viewers: who reads, and what, is looked up once when it runs.
_VIEWER = "(SELECT current_setting('mcp_memory.viewer'))"
_READABLE = "(SELECT current_setting('mcp_memory.projects')::bigint[])::bigint[]"
#: The role of viewers owns nothing and logs in nowhere. Roles are the server's, so each owner of a memory has its own.
ROLE_OF = "SELECT 'mcp_memory_viewer_' || left(current_user, 40)"


@lru_cache(maxsize=2048)
def guarded(sql: str) -> str:
    """The statement with each table replaced by the part of it that the viewer may read."""

    def part(found: re.Match[str]) -> str:
        word, space, table, alias = found.groups()
        return f"{word}{space}({_REPLACED[table]}) {alias or table}"

    return _READ.sub(part, sql)


@dataclass(frozen=True, slots=True)
class _Conditions:
    """What the marks in `GUARDED` and `INDEX` stand for: who reads which projects, and whose part of them, as SQL.

    `kept`: for a plan that is kept. It says them as a number that is not 0, of which PostgreSQL expects that it leaves
    out almost no row, so that what is asked for by number is found by its number, not in all that one may read.
    """

    viewer: str
    projects: str
    by: str
    kept: bool = False

    def of(self, told: str) -> str:
        """The statement, as this viewer may run it."""
        # All at once: what is put in holds names, and is not looked through again.
        return _MARK.sub(self._put, guarded(told))

    def _put(self, found: re.Match[str]) -> str:
        if found[1]:
            clauses = [f"{found[1]}{self.projects})"]
        else:
            clauses = [_SEEN[found[0]]] if found[0] in _SEEN else []
            clauses += [_PART[found[0]]] if self.by and found[0] in _PART else []
            clauses = [clause.format(viewer=self.viewer, by=self.by) for clause in clauses]
        condition = " AND ".join(clauses) or "TRUE"
        return f"(CASE WHEN {condition} THEN 1 ELSE 0 END) <> 0" if self.kept else condition


class SeenLink(Link):
    """A connection in a transaction of a viewer."""

    def __init__(self, link: Link, viewer: Viewer, projects: str, by: str) -> None:
        super().__init__(link.raw)
        part = _quoted(by) if by else ""
        self._seen = _Conditions(_quoted(viewer.name), f"{_quoted(projects)}::bigint[]", part)
        self._seen_by_number = _Conditions(_VIEWER, _READABLE, part, kept=True)

    def told(self, sql: str) -> str:
        """What PostgreSQL is told."""
        return self._seen.of(translated(sql))

    def execute(self, sql: str, values: Values = (), /) -> Any:
        if (keyed := by_keys(sql)) and all(type(value) is int for value in values):
            return self._look_up(self._seen_by_number.of(keyed[0]), in_arrays(cast(Any, values), keyed[1]))
        told = self.told(sql)
        return self.raw.execute(cast(Any, told), bound(told, values))


class SeenDatabase(PostgresDatabase):
    """Reads of a viewer, over the connections of the memory that it is a view of. Nothing can be written here."""

    def __init__(self, whole: PostgresDatabase, viewer: Viewer, by: str = "") -> None:
        super().__init__(whole.url, whole._pool)
        self._whole, self._viewer, self._by = whole, viewer, by
        self._ending, self._away = whole._ending, whole._away

    async def fetch(self, sql: str, values: Values = ()) -> list[Row]:
        return await to_thread.run_sync(self._read, lambda link: link.execute(sql, values).fetchall())

    async def at_once(self, work: Callable[[Any], Coroutine[Any, Any, Result]]) -> Result:
        return await self.read(lambda link: finished(work(PostgresSnapshot(link))))

    async def read_as_transaction(self, work: Callable[[Any], Result]) -> Result:
        return await self.read(lambda link: work(PostgresTransaction(link)))

    async def data_version(self, *, own: bool = False) -> int:
        return await self._whole.data_version(own=own)

    def _read(self, work: Callable[[Link], Result]) -> Result:
        def once(link: Link) -> Result:
            with ended(link):
                return work(self._enter(link, role_of(self._whole, link)))

        return self._tried(once)

    def _enter(self, link: Link, role: str) -> SeenLink:
        """Begin to read one state as the viewer; one trip for all of it."""
        told = link.raw.execute(
            cast(
                Any,
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
                f'SET LOCAL ROLE "{role}";'
                f"SELECT set_config('mcp_memory.viewer', {_quoted(self._viewer.name)}, true);"
                "SELECT set_config('mcp_memory.projects', readable()::text, true)",
            )
        )
        while told.nextset():
            pass
        return SeenLink(link, self._viewer, str(told.fetchall()[0][0]), self._by)

    def _write(self, work: Callable[[Any], Result], alone: bool, tells: bool = True) -> Result:
        self._refuse()

    async def run_alone(self, sql: str) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotAllowed("What a member sees is for reading: nothing is written through it.")


def _quoted(text: str) -> str:
    return "'" + text.replace("\0", "").replace("'", "''").replace("%", "%%") + "'"


def role_of(database: PostgresDatabase, link: Link) -> str:
    """The role that viewers read by; made when it is first needed, and granted what it may read."""
    if not database.viewer_role:
        with link.raw.transaction():
            database.viewer_role = _prepare(link)
    return database.viewer_role


def _prepare(link: Link) -> str:
    def run(sql: str) -> Any:
        return link.raw.execute(cast(Any, sql))

    run(f"SELECT pg_advisory_xact_lock(hashtext('{SCHEMA} viewers'))")
    role = str(run(ROLE_OF).fetchone()[0])
    named = '"' + role.replace('"', '""') + '"'
    try:
        if not run(f"SELECT 1 FROM pg_roles WHERE rolname = {_quoted(role)}").fetchone():
            run(f"CREATE ROLE {named} NOLOGIN")
        try:
            with link.raw.transaction():
                run(f"SET LOCAL ROLE {named}")
                run("RESET ROLE")
        except errors.InsufficientPrivilege:
            run(f"GRANT {named} TO CURRENT_USER")
    except errors.InsufficientPrivilege as error:
        raise StoreError(
            f"Members read by a role of their own, which the user of [store] url may not make. Let an administrator of "
            f"the server run: CREATE ROLE {named} NOLOGIN; GRANT {named} TO <that user>;"
        ) from error
    if not run(f"SELECT has_schema_privilege({_quoted(role)}, '{SCHEMA}', 'USAGE')").fetchone()[0]:
        run(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {named}")
    for table in (*_REPLACED, *OPEN):
        if not run(f"SELECT has_table_privilege({_quoted(role)}, '{table}', 'SELECT')").fetchone()[0]:
            run(f"GRANT SELECT ON {table} TO {named}")
    return role
