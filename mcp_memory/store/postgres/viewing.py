"""The memory as one member of a team sees it.

What may be seen is decided twice. Each statement of the shared SQL is given a condition wherever it names a table that
holds what people said: the table is replaced by the part of it that the viewer may read, which PostgreSQL takes into
its plan, indexes included. And it runs in the role of a viewer, for whom row-level security says the same once more
(schema/0002_team.sql); a statement that the first missed would find no more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar, cast

from anyio import to_thread
from psycopg import errors

from mcp_memory.domain.people import Viewer
from mcp_memory.errors import NotAllowed, StoreError
from mcp_memory.store.postgres.database import SCHEMA, Link, PostgresDatabase, PostgresSnapshot, PostgresTransaction
from mcp_memory.store.postgres.translation import bound, by_keys, in_arrays, translated
from mcp_memory.store.sql.database import Row, Values, finished

P = ParamSpec("P")
Result = TypeVar("Result")
_OF_PROJECT = "SELECT x.* FROM {0} x WHERE x.project = ANY (§projects)"
_OF_SESSION = "SELECT x.* FROM {0} x JOIN session y ON y.id = x.session WHERE y.project = ANY (§projects) AND §session"
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
    **{
        table: _OF_PROJECT.format(table)
        for table in ("project_alias", "node", "mention", "removed_node", "erased", "dirty_node", "dirty_brief")
    },
    **{table: _OF_SESSION.format(table) for table in ("segment", "compaction", "dirty_session", "dirty_compaction")},
    "compaction_source": (
        "SELECT x.* FROM compaction_source x JOIN compaction c ON c.id = x.compaction "
        "JOIN session y ON y.id = c.session WHERE y.project = ANY (§projects) AND §session"
    ),
    **{table: _OF_NODE.format(table) for table in ("node_version", "grip")},
    "bullet": (
        "SELECT x.* FROM bullet x JOIN node_version v ON v.id = x.node_version JOIN node y ON y.id = v.node "
        "WHERE y.project = ANY (§projects)"
    ),
}
#: The index is kept from a viewer by its own columns alone: under row-level security PostgreSQL would not use it to
#: find words. Its rows are numbers of what is then looked up in the tables above.
INDEX = {"search": "SELECT x.* FROM search x WHERE x.project = ANY (§projects) AND (x.level >= 0 OR §found)"}
#: Tables that a viewer reads as they are: what is true of all of the memory.
OPEN = ("meta", "log_place", "migration", "lease", "quarter", "frequency")
_REPLACED = GUARDED | INDEX
#: A table where it is read from, and the name it goes by there.
_READ = re.compile(
    rf"\b(FROM|JOIN)(\s+)({'|'.join(sorted(_REPLACED, key=len, reverse=True))})\b(?:\s+(?:AS\s+)?([a-z]\w*))?"
)
#: The role of viewers owns nothing and logs in nowhere. Roles are the server's, so each owner of a memory has its own.
ROLE_OF = "SELECT 'mcp_memory_viewer_' || left(current_user, 40)"


@lru_cache(maxsize=2048)
def guarded(sql: str) -> str:
    """The statement with each table replaced by the part of it that the viewer may read."""

    def part(found: re.Match[str]) -> str:
        word, space, table, alias = found.groups()
        return f"{word}{space}({_REPLACED[table]}) {alias or table}"

    return _READ.sub(part, sql)


class SeenLink(Link):
    """A connection in a transaction of a viewer."""

    def __init__(self, link: Link, viewer: Viewer, projects: str, own: bool) -> None:
        super().__init__(link.raw)
        mine, found = (f"{table}.author = {_quoted(viewer.name)}" for table in "yx")
        self._parts = {
            "§projects": f"{_quoted(projects)}::bigint[]",
            "§session": mine if own else f"(y.shared = 1 OR {mine})",
            "§found": found if own else f"(x.visibility = 'team' OR {found})",
            "§event": mine if own else f"(x.visibility = 'team' OR {mine})",
        }

    def told(self, sql: str) -> str:
        """What PostgreSQL is told."""
        return self._seen(translated(sql))

    def _seen(self, told: str) -> str:
        seen = guarded(told)
        for mark, part in self._parts.items():
            seen = seen.replace(mark, part)
        return seen

    def execute(self, sql: str, values: Values = (), /) -> Any:
        if (keyed := by_keys(sql)) and all(type(value) is int for value in values):
            return self._look_up(self._seen(keyed[0]), in_arrays(cast(Any, values), keyed[1]))
        told = self.told(sql)
        return self.raw.execute(cast(Any, told), bound(told, values))


class SeenDatabase(PostgresDatabase):
    """Reads of a viewer, over the connections of the memory that it is a view of. Nothing can be written here."""

    def __init__(self, whole: PostgresDatabase, viewer: Viewer, *, own: bool = False) -> None:
        super().__init__(whole.url, whole._pool)
        self._whole, self._viewer, self._own = whole, viewer, own
        self._ending, self._away = whole._ending, whole._away

    async def fetch(self, sql: str, values: Values = ()) -> list[Row]:
        return await to_thread.run_sync(self._read, lambda link: link.execute(sql, values).fetchall())

    async def at_once(self, work: Callable[[Any], Coroutine[Any, Any, Result]]) -> Result:
        return await self.read(lambda link: finished(work(PostgresSnapshot(link))))

    async def read_as_transaction(self, work: Callable[[Any], Result]) -> Result:
        return await self.read(lambda link: work(PostgresTransaction(link)))

    async def data_version(self) -> int:
        return await self._whole.data_version()

    def _read(self, work: Callable[[Link], Result]) -> Result:
        def once(link: Link) -> Result:
            try:
                return work(self._enter(link, role_of(self._whole, link)))
            finally:
                if not link.raw.closed:
                    link.raw.rollback()

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
        return SeenLink(link, self._viewer, str(told.fetchall()[0][0]), self._own)

    async def write(self, work: Callable[Concatenate[Any, P], Result], *args: P.args, **named: P.kwargs) -> Result:
        return self._refuse()

    async def write_alone(
        self, work: Callable[Concatenate[Any, P], Result], *args: P.args, **named: P.kwargs
    ) -> Result:
        return self._refuse()

    def write_here(self, work: Callable[Concatenate[Any, P], Result], *args: P.args, **named: P.kwargs) -> Result:
        return self._refuse()

    async def run_alone(self, sql: str) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotAllowed("What a member sees is for reading: nothing is written through it.")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''").replace("%", "%%") + "'"


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
