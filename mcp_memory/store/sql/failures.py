"""Work that failed: taken out of its queue, kept with its reason, and put back when it may succeed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mcp_memory import __version__
from mcp_memory.capture.redaction import redact
from mcp_memory.domain.failures import FailedWork, Failure, Stage, versions_mark
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.store.sql.database import SqlConnection, SqlDatabase, Transaction, marks
from mcp_memory.store.sql.work import check_lease

_ADD = """
    INSERT INTO failure (stage, name, session, project, reason, asked, version, since_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (stage, name) DO UPDATE SET
        reason = excluded.reason, asked = excluded.asked, version = excluded.version
"""
_LIST = """
    SELECT f.stage, f.name, f.reason, f.since_ms, s.session_id, coalesce(p.slug, q.slug, '') FROM failure f
    LEFT JOIN session s ON s.id = f.session LEFT JOIN project p ON p.id = s.project
    LEFT JOIN project q ON q.id = f.project ORDER BY f.since_ms, f.stage, f.name
"""
_CHILDREN = "SELECT current FROM node WHERE project = ? AND level = ? AND parent = ? AND removed = 0"
_CUT_ALL = """
    INSERT INTO dirty_session (session, from_ms) SELECT session, min(timestamp_ms) FROM event WHERE session = ?
    GROUP BY session ON CONFLICT (session) DO UPDATE SET from_ms = excluded.from_ms, seq = dirty_session.seq + 1
"""
_NUMBERS = re.compile(r"\d+")


class FailurePart:
    """What is set aside: that part of the Store port."""

    _database: SqlDatabase

    async def set_aside(
        self, failures: Sequence[Failure], now_ms: int, lease_token: int, revision: int | None = None
    ) -> None:
        def write(tx: Transaction) -> None:
            check_lease(tx, lease_token)
            for failure in failures:
                if _leave_queue(tx, failure, revision):
                    what = (failure.stage, failure.name, failure.session, failure.project)
                    tx.run(_ADD, (*what, redact(failure.reason), failure.asked, __version__, now_ms))

        if failures:
            await self._database.write(write)

    async def retry_failures(self, *, all_versions: bool = False) -> int:
        def write(tx: Transaction) -> int:
            found = _due(tx.fetch("SELECT stage, name, version FROM failure"), all_versions)
            for stage, name in found:
                _enter_queue(tx, Stage(stage), name)
                tx.run("UPDATE failure SET version = ? WHERE stage = ? AND name = ?", (__version__, stage, name))
            return len(found)

        rows = await self._database.fetch("SELECT stage, name, version FROM failure")
        return await self._database.write(write) if _due(rows, all_versions) else 0

    async def failures(self) -> list[FailedWork]:
        return await self._database.read(failed_work)


def failed_work(connection: SqlConnection) -> list[FailedWork]:
    """Return what is set aside and still there: a segment may have been replaced, a session forgotten."""
    found = []
    for stage, name, reason, since_ms, session_id, slug in connection.execute(_LIST).fetchall():
        if stage == Stage.SUMMARY and not _has_segment(connection, name):
            continue
        if stage == Stage.ROLLUP:
            _, level, key = name.split(" ", 2)
            what = NodeRef(Level(int(level)), key).node_id()
        elif stage == Stage.BRIEF:
            what = f"project {slug}"
        elif session_id is None:
            continue
        else:
            what = f"session {session_id}"
        found.append(FailedWork(Stage(stage), what, slug, reason, since_ms))
    return found


def settle_failures(tx: Transaction, stage: Stage, names: Iterable[str]) -> None:
    """Drop what was set aside and has succeeded now."""
    held = {name for (name,) in tx.fetch("SELECT name FROM failure WHERE stage = ?", (stage,))}
    if done := sorted(held & {*names}) if held else []:
        tx.run(f"DELETE FROM failure WHERE stage = ? AND name IN ({marks(done)})", (stage, *done))


def _has_segment(connection: SqlConnection, name: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM segment WHERE key = ?", (bytes.fromhex(name),)).fetchone())


def _due(rows: Sequence[Sequence[str]], all_versions: bool) -> list[tuple[str, str]]:
    """Stage and name of what failed in an earlier version of the program, or in any."""
    own = _order(__version__)
    return [(stage, name) for stage, name, version in rows if all_versions or _order(version) < own]


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBERS.findall(version)))


def _leave_queue(tx: Transaction, failure: Failure, revision: int | None) -> bool:
    """Take failed work out of its queue; return False if its inputs have changed meanwhile.

    With a `revision`, the node that is there stays as if it were of that revision of the summarizer.
    """
    name, mark = failure.name, failure.mark
    if failure.stage in (Stage.CUT, Stage.RECORD):
        queue = "dirty_session" if failure.stage is Stage.CUT else "dirty_compaction"
        tx.run(f"DELETE FROM {queue} WHERE session = ? AND seq = ?", (failure.session, int(mark)))
        return not tx.fetch(f"SELECT 1 FROM {queue} WHERE session = ?", (failure.session,))
    if failure.stage is Stage.SUMMARY:
        place = (bytes.fromhex(name), mark)
        if not tx.fetch("SELECT 1 FROM segment WHERE key = ? AND input_hash = ?", place):
            return False
        tx.run("UPDATE segment SET done_hash = input_hash WHERE key = ? AND input_hash = ?", place)
        if revision is not None:
            node = "(SELECT node FROM segment WHERE key = ?)"
            tx.run(f"UPDATE node SET revision = ? WHERE id = {node}", (revision, place[0]))
        return True
    if failure.stage is Stage.ROLLUP:
        project, level, key = _period(name)
        children = tx.fetch(_CHILDREN, (project, level + 1, key))
        if versions_mark(tuple(version for (version,) in children)) != mark:
            return False
        tx.run("DELETE FROM dirty_node WHERE project = ? AND level = ? AND key = ?", (project, level, key))
        if revision is not None:
            node = "project = ? AND level = ? AND key = ?"
            tx.run(f"UPDATE node SET revision = ? WHERE {node}", (revision, project, level, key))
        return True
    tx.run("DELETE FROM dirty_brief WHERE project = ?", (int(name),))
    return True


def _enter_queue(tx: Transaction, stage: Stage, name: str) -> None:
    """Put failed work back into its queue, if there is still anything to do it on."""
    if stage is Stage.CUT:
        tx.run(_CUT_ALL, (int(name),))
    elif stage is Stage.SUMMARY:
        tx.run("UPDATE segment SET done_hash = '' WHERE key = ?", (bytes.fromhex(name),))
    elif stage is Stage.RECORD:
        sql = "INSERT INTO dirty_compaction (session) SELECT id FROM session WHERE id = ? ON CONFLICT DO NOTHING"
        tx.run(sql, (int(name),))
    elif stage is Stage.ROLLUP:
        sql = (
            "INSERT INTO dirty_node (project, level, key) SELECT id, CAST(? AS BIGINT), CAST(? AS TEXT) FROM project "
            "WHERE id = ? ON CONFLICT DO NOTHING"
        )
        project, level, key = _period(name)
        tx.run(sql, (level, key, project))
    else:
        sql = "INSERT INTO dirty_brief (project) SELECT id FROM project WHERE id = ? ON CONFLICT DO NOTHING"
        tx.run(sql, (int(name),))


def _period(name: str) -> tuple[int, int, str]:
    project, level, key = name.split(" ", 2)
    return int(project), int(level), key
