"""Migrations: applied once, in a transaction, never to a newer file, and never without a backup."""

from __future__ import annotations

import json
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.capture import inbox
from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.events import opaque
from mcp_memory.domain.nodes import Kind
from mcp_memory.errors import StoreNewer
from mcp_memory.pipeline.ingest import checkpoint_name
from mcp_memory.store.sqlite import migrations
from mcp_memory.store.sqlite.database import Database
from mcp_memory.store.sqlite.migrations import INBOX, latest, migrate, statements
from tests.store.engines import without_tombstone_keys
from tests.support import conversation, learn, memory, said

pytestmark = pytest.mark.anyio


def version(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


def test_a_new_file_gets_the_latest_schema_and_wal_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    migrate(path)
    assert version(path) == latest()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    connection.close()
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_hook_writes_to_an_inbox_of_the_latest_schema(tmp_path: Path) -> None:
    migrate(tmp_path / inbox.DATABASE, INBOX)
    inbox.append(str(tmp_path), inbox.Row(1, "claude-code", "/w", "", Clean("{}")))
    connection = sqlite3.connect(tmp_path / inbox.DATABASE)
    assert connection.execute("SELECT count(*) FROM inbox").fetchone() == (1,)
    connection.close()
    assert not (tmp_path / inbox.SPOOL).exists()


def test_migrating_twice_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    migrate(path)
    before = path.read_bytes()
    migrate(path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.bak"))


def test_a_newer_file_is_refused_and_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE future (x)")
    connection.execute(f"PRAGMA user_version = {latest() + 1}")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreNewer, match="Update mcp-memory"):
        migrate(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["memory.db"]


def test_an_upgrade_keeps_the_rows_and_leaves_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.db"
    migrate(path)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO meta VALUES ('kept', 'yes')")
    connection.commit()
    connection.close()
    more = [*migrations.steps(), (latest() + 1, "-- Why: a test.\nCREATE TABLE extra (x);\n")]
    monkeypatch.setattr(migrations, "steps", lambda kind="": more)
    migrate(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT value FROM meta WHERE key = 'kept'").fetchone() == ("yes",)
    assert connection.execute("SELECT count(*) FROM extra").fetchone() == (0,)
    connection.close()
    backups = list(tmp_path.glob("*.bak"))
    assert len(backups) == 1
    assert version(backups[0]) == latest() - 1


def test_a_failing_migration_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.db"
    migrate(path)
    bad = [*migrations.steps(), (latest() + 1, "CREATE TABLE extra (x);\nINSERT INTO nowhere VALUES (1);\n")]
    monkeypatch.setattr(migrations, "steps", lambda kind="": bad)
    with pytest.raises(sqlite3.OperationalError):
        migrate(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)
    connection.close()
    assert version(path) == latest() - 1


def test_every_migration_opens_with_its_reason() -> None:
    assert all(sql.startswith("-- Why: ") for _, sql in migrations.steps())
    assert [number for number, _ in migrations.steps()] == list(range(1, latest() + 1))


def test_statements_are_split_outside_of_comments_and_strings() -> None:
    sql = "-- one; two\nCREATE TABLE a (x TEXT DEFAULT ';');\nCREATE TABLE b (y);\n"
    assert [part.strip().splitlines()[-1] for part in statements(sql)] == [
        "CREATE TABLE a (x TEXT DEFAULT ';');",
        "CREATE TABLE b (y);",
    ]


def older(path: Path, before: int, *rows: str) -> None:
    """A file as the version before this one made it, with some rows."""
    connection = sqlite3.connect(path)
    connection.create_function("opaque", 1, opaque)
    for number, sql in migrations.steps():
        if number < before:
            connection.executescript(sql)
            connection.execute(f"PRAGMA user_version = {number}")
    for row in rows:
        connection.executescript(row)
    connection.close()


def test_nodes_of_an_older_file_get_the_weight_of_what_lies_beneath_them(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    older(path, WEIGHED, OLD_TREE)
    migrate(path)
    connection = sqlite3.connect(path)
    weights = connection.execute(
        "SELECT n.key, v.weight FROM node n JOIN node_version v ON v.id = n.current ORDER BY n.id"
    ).fetchall()
    connection.close()
    assert weights == [
        ("2026", 700),
        ("2026-03", 700),
        ("2026-W10", 700),
        ("2026-03-02", 700),
        ("2026-03-02:a", 300),
        ("2026-03-02:b", 400),
    ]


async def test_words_that_readers_had_kept_leave_the_file_and_its_copies(tmp_path: Path) -> None:
    path, transcript = tmp_path / "memory.db", tmp_path / "gnuword.jsonl"
    kept = {"offset": 7, "line": 2, "events": 2, "memory": {"tools": {"t1": ["Bash", {"command": "quaggaword"}, "u"]}}}
    rest = {"offset": 9, "line": 3, "events": 3, "memory": {"cwd": "/home/dev", "tools": {}, "counts": {"a": 2}}}
    values = ", ".join(
        f"('transcript:{name}', '{json.dumps(row)}')" for name, row in ((transcript, kept), ("/b", rest))
    )
    older(path, WORDLESS, f"INSERT INTO checkpoint VALUES {values}")
    (tmp_path / "memory.db.schema-2.bak").write_bytes(path.read_bytes())
    async with Database.open(path) as database, Database.open(tmp_path / "inbox.db", INBOX) as local:
        rows: dict[str, str] = dict(await local.fetch("SELECT name, position FROM checkpoint"))
        assert await database.scrub() == ""
    assert json.loads(rows[checkpoint_name(Path("/b"))]) == rest
    found = json.loads(rows[checkpoint_name(transcript)])
    assert (found["offset"], found["line"], found["memory"]["told_to"]) == (0, 0, 7)
    assert len(list(tmp_path.glob("memory.db.schema-*.bak"))) == 2
    assert b"gnuword" not in path.read_bytes()
    assert [file.name for file in tmp_path.iterdir() if b"quaggaword" in file.read_bytes()] == []


async def test_bullets_of_an_older_file_get_their_kind_and_are_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    told = {
        "Asked: Rename the job": Kind.REQUEST,
        "Reported: it hangs": Kind.REPORT,
        "User: never on Fridays": Kind.REMARK,
        "Committed: Add a lock (6f3ac1d)": Kind.COMMIT,
        "Error: no such file": Kind.ERROR,
        "Note: ports are fixed": Kind.NOTE,
        "Ran `make`: 2 failed": Kind.RESULT,
        "Edited job.py": Kind.DID,
        "The job is renamed": Kind.STATED,
    }
    rows = ", ".join(f"(1, {at}, '{text}', '[]', '[]')" for at, text in enumerate(told))
    older(path, KINDS, OLD_TREE, f"INSERT INTO bullet (node_version, position, text, grips, children) VALUES {rows}")
    versions = "SELECT id, version, input_hash FROM node_version"
    with closing(sqlite3.connect(path)) as connection:
        before = connection.execute(versions).fetchall()
    async with Database.open(path) as database:
        found = await database.fetch("SELECT kind, text FROM bullet ORDER BY position")
        assert await database.fetch(versions) == before
        assert await database.fetch("SELECT * FROM dirty_node") == []
    assert {Kind(kind).shown(text): kind for kind, text in found} == told
    assert found[0] == ("request", "Rename the job")


KINDS = 5
WORDLESS = 4
WEIGHED = 3
OLD_TREE = """
INSERT INTO project (id, root, slug) VALUES (1, '/p', 'p');
INSERT INTO session (id, session_id, client, project) VALUES (1, 's', 'test', 1);
INSERT INTO node (id, project, level, key, parent, current, start_ms, end_ms) VALUES
    (1, 1, 0, '2026', '', 1, 0, 9), (2, 1, 1, '2026-03', '2026', 2, 0, 9), (3, 1, 2, '2026-W10', '2026-03', 3, 0, 9),
    (4, 1, 3, '2026-03-02', '2026-W10', 4, 0, 9), (5, 1, 4, '2026-03-02:a', '2026-03-02', 5, 0, 9),
    (6, 1, 4, '2026-03-02:b', '2026-03-02', 6, 0, 9);
INSERT INTO node_version (id, node, version, title, start_ms, end_ms, keywords, children, open, removed, written_by,
    input_hash, tokens, created_ms)
    SELECT id, id, 1, key, 0, 9, '[]', '[]', 0, 0, 'extractive', '', 10, 0 FROM node;
INSERT INTO segment (id, key, session, start_ms, end_ms, first_event, last_event, context_ms, context_event, events,
    tokens, closed, input_hash, node) VALUES
    (1, x'0a', 1, 0, 9, 1, 1, 0, 1, 1, 300, 1, 'h', 5), (2, x'0b', 1, 0, 9, 2, 2, 0, 2, 1, 400, 1, 'h', 6);
"""


@pytest.mark.anyio
async def test_the_index_is_filled_anew_where_a_step_empties_it(tmp_path: Path) -> None:
    log = "\n".join(f"line {n} of the log says obscure{n}" for n in range(400))
    async with memory(tmp_path) as app:
        await learn(app, [said(log, "2026-03-02T10:00:00Z", role="tool"), *conversation()])
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as connection:
        connection.execute("INSERT INTO search (search) VALUES ('delete-all')")
        for table in ("shared_project", "shared_session", "to_push", "to_withdraw", "failure"):
            connection.execute(f"DROP TABLE {table}")
        without_tombstone_keys(connection)
        connection.execute("DROP INDEX event_shared")
        connection.execute("ALTER TABLE event DROP COLUMN visibility")
        connection.execute("ALTER TABLE session DROP COLUMN author")
        connection.execute("DROP TABLE place")
        connection.execute("ALTER TABLE session DROP COLUMN place")
        connection.execute("PRAGMA user_version = 7")
    async with memory(tmp_path) as app:
        assert (await app.answers.search("obscure200", "*"))[0].hits[0].role == "tool"
        segments = (await app.answers.search("login timeout", "*", kind="segment"))[0].hits
        assert {hit.kind for hit in segments} == {"segment"}
    assert version(tmp_path / "memory.db") == latest()
