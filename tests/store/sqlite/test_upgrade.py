"""Files of every earlier schema, with rows in each of their tables, are brought up to date and lose nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.store.sqlite.migrations import INBOX, latest, migrate, steps
from tests.support import REPO

#: The last schema with what is local to a machine in the memory itself.
TOGETHER = 5
LOCAL = ("inbox", "brief", "checkpoint")
#: Facts that are drawn by lot, and tables of which an upgrade makes keyed hashes.
CHANCE = ("memory", "erasures", "scrubbed", "rewritten", "tombstone_key", "tombstone_keys")
HASHED = ("forgotten", "forgotten_words")
#: Values that are not told by their column's type.
GIVEN: dict[str, Any] = {"state": 0, "truncated": 0, "removed": 0, "open": 0, "closed": 1, "level": 4, "live": 1}
LISTS, OBJECTS = ("source_ids", "keywords", "children", "grips", "key_points"), ("metadata", "context")
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'search%' AND name NOT LIKE 'sqlite%'"
Rows = dict[str, list[tuple[Any, ...]]]


def tables(path: Path) -> dict[str, list[str]]:
    """The columns of each table."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute(_TABLES)]
        return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in sorted(names)}


def rows(path: Path, columns: dict[str, list[str]]) -> Rows:
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: sorted(connection.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall(), key=repr)
            for table, names in columns.items()
        }


def value(table: str, column: str, kind: str, number: int) -> Any:
    if column in GIVEN:
        return GIVEN[column]
    if column in LISTS or column in OBJECTS:
        return "[]" if column in LISTS else "{}"
    if (table, column) == ("checkpoint", "name"):
        return f"transcript:/home/ada/{number}.jsonl"
    if (table, column) == ("checkpoint", "position"):
        return json.dumps({"offset": number, "line": number, "events": number, "memory": {}})
    return {"INTEGER": number, "REAL": 0.5, "BLOB": bytes([number] * 10)}.get(kind, f"{table} {column} {number}")


def stored(path: Path, schema: int) -> None:
    """A file as the version made it that had this schema, with three rows in every table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        for number, sql in steps()[:schema]:
            connection.create_function("opaque", 1, str)
            connection.executescript(sql)
            connection.execute(f"PRAGMA user_version = {number}")
        for (table,) in connection.execute(_TABLES).fetchall():
            columns = [(row[1], row[2]) for row in connection.execute(f"PRAGMA table_info({table})")]
            marks = ", ".join("?" * len(columns))
            for number in range(1, 4):
                values = [value(table, column, kind, number) for column, kind in columns]
                connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)


def contents(path: Path) -> tuple[Rows, Rows]:
    """All rows of the memory and of what is local beside it, without what is made by chance."""
    found = []
    for file in (path, path.with_name("inbox.db")):
        columns = tables(file)
        held = rows(file, columns)
        held["meta"] = [row for row in held["meta"] if row[0] not in CHANCE]
        held |= {table: [("a keyed hash",)] * len(held[table]) for table in HASHED}
        found.append(held)
    return found[0], found[1]


@pytest.mark.parametrize("schema", range(1, TOGETHER + 1))
def test_a_file_of_an_earlier_schema_loses_nothing(tmp_path: Path, schema: int) -> None:
    path = tmp_path / "memory.db"
    stored(path, schema)
    before = tables(path)
    wanted = rows(path, before)
    migrate(path)
    memory, local = contents(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (latest(),)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    held = {**tables(path), **{name: tables(tmp_path / "inbox.db")[name] for name in LOCAL}}
    for table, columns in before.items():
        found = rows(tmp_path / "inbox.db" if table in LOCAL else path, {table: columns})[table]
        if table == "checkpoint":  # since the fourth schema their names tell nothing
            assert sorted(row[1] for row in found) == sorted(row[1] for row in wanted[table])
        elif table in HASHED:
            assert len(found) == len(wanted[table])
            assert not set(found) & set(wanted[table])
        elif table == "inbox":
            assert [row[1:] for row in sorted(found)] == [row[1:] for row in wanted[table]]
        else:
            assert set(wanted[table]) <= set(found), table
        assert set(columns) <= set(held[table])
    assert not set(LOCAL) & set(memory)
    assert len(local["inbox"]) == 3
    [copy] = tmp_path.glob("memory.db.schema-*.bak")
    if schema >= 4:
        assert rows(copy, before) == wanted | {table: [] for table in HASHED if table in wanted}


def test_plain_tombstones_leave_the_backups_that_were_made_before(tmp_path: Path) -> None:
    path, backup = tmp_path / "memory.db", tmp_path / "backups" / "memory-0000000000001-1.db"
    for file in (path, backup):
        stored(file, 16)
    kept = {name: columns for name, columns in tables(backup).items() if name not in HASHED}
    plain, wanted = rows(backup, {"forgotten": ["key"]})["forgotten"], rows(backup, kept)
    migrate(path)
    assert len(plain) == 3
    assert rows(backup, dict.fromkeys(HASHED, ["key"])) == dict.fromkeys(HASHED, [])
    assert rows(backup, kept) == wanted


def test_an_inbox_that_hooks_wrote_to_already_keeps_what_they_wrote(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    stored(path, 4)
    migrate(tmp_path / "inbox.db", INBOX)
    with closing(sqlite3.connect(tmp_path / "inbox.db", isolation_level=None)) as connection:
        connection.execute("INSERT INTO inbox (received_ms, client, root, payload) VALUES (9, 'new', '/w', '{}')")
    migrate(path)
    with closing(sqlite3.connect(tmp_path / "inbox.db")) as connection:
        clients = [client for (client,) in connection.execute("SELECT client FROM inbox ORDER BY id")]
    assert clients == ["inbox client 1", "inbox client 2", "inbox client 3", "new"]


DRIVER = """
import json, os, sqlite3, sys
from pathlib import Path
from mcp_memory.store.sqlite import migrations
from tests.store.sqlite.test_upgrade import contents, stored

root, schema = Path(sys.argv[1]), int(sys.argv[2])
left = [None]

def counted():
    if left[0] is not None:
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)

class Mortal(sqlite3.Connection):
    def execute(self, *args):
        counted()
        return super().execute(*args)
    def executemany(self, *args):
        counted()
        return super().executemany(*args)
    def backup(self, *args, **named):
        counted()
        return super().backup(*args, **named)

connect = sqlite3.connect
def child(path, number):
    pid = os.fork()
    if pid == 0:
        left[0] = number
        sqlite3.connect = lambda *args, **named: connect(*args, factory=Mortal, **named)
        for name in ("replace", "link", "rename", "unlink"):
            def wrapped(*args, original=getattr(os, name), **named):
                counted()
                return original(*args, **named)
            setattr(os, name, wrapped)
        migrations.migrate(path)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def run(number):
    path = root / str(number) / "memory.db"
    path.parent.mkdir()
    path.write_bytes(old)
    code = child(path, number)
    assert code in (0, 9), code
    if code:
        assert child(path, None) == 0
    return code, contents(path)

stored(root / "memory.db", schema)
old = (root / "memory.db").read_bytes()
wanted = run(None)[1]
killed = different = 0
while True:
    code, found = run(killed)
    if code == 0:
        break
    different += found != wanted
    killed += 1
print(json.dumps({"killed": killed, "different": different}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_an_upgrade_that_is_killed_at_any_point_is_taken_up_by_the_next(tmp_path: Path) -> None:
    """From the first schema, so that it goes through all of them."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER, str(tmp_path), "1"],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(REPO)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["killed"] > 30
    assert found["different"] == 0
