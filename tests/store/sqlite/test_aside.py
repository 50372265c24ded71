"""Setting a damaged database aside: only a damaged one, never while others use it, and whatever interrupts it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from mcp_memory.capture import inbox
from mcp_memory.capture.redaction import Clean
from mcp_memory.errors import NotFound, StoreBusy, StoreError
from mcp_memory.store.sqlite import aside
from mcp_memory.store.sqlite.diagnosis import database
from mcp_memory.store.sqlite.migrations import create, migrate, rescue_of, steps
from tests.store.sqlite.damage import events, filled, overwrite, root_of, spoiled, value
from tests.support import REPO

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM session").fetchone()
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return anyio.run(filled, tmp_path_factory.mktemp("original"), 10)


@pytest.fixture
def damaged(original: Path, tmp_path: Path) -> Path:
    return spoiled(original, overwrite(root_of(original, "event_time")), tmp_path)


def test_a_whole_database_is_left_alone(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, lambda data: None, tmp_path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is whole and was left alone"):
        aside.set_aside(path, "UTC")
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.corrupt-*"))
    assert not rescue_of(path).exists()


def test_a_newer_database_is_left_alone(damaged: Path) -> None:
    with closing(sqlite3.connect(damaged)) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(StoreError, match="schema 999"):
        aside.set_aside(damaged, "UTC")
    assert not rescue_of(damaged).exists()


def test_without_a_database_there_is_nothing_to_set_aside(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing to set aside"):
        aside.set_aside(tmp_path / "memory.db", "UTC")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows itself keeps a file that is open from being renamed")
def test_a_database_that_another_program_has_open_is_left_alone(damaged: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(damaged)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        before = damaged.read_bytes()
        with pytest.raises(StoreBusy, match="End your agents"):
            aside.set_aside(damaged, "UTC")
        assert damaged.read_bytes() == before
        assert not rescue_of(damaged).exists()
        holder.communicate("")
    aside.set_aside(damaged, "UTC")
    assert database(damaged)[1] == []


def test_no_one_opens_a_memory_that_is_being_made_anew(damaged: Path) -> None:
    rescue_of(damaged).touch()
    with pytest.raises(StoreBusy, match="--set-aside-corrupt"):
        migrate(damaged)
    inbox.append(str(damaged.parent), inbox.Row(1, "codex", "/w", "", Clean("{}")))
    assert len(list((damaged.parent / inbox.SPOOL).iterdir())) == 1
    [problem] = database(damaged)[1]
    assert "interrupted" in problem.what
    assert "--set-aside-corrupt" in problem.fix


@pytest.mark.parametrize("schema", [1, 2])
def test_a_damaged_database_of_an_older_schema_is_brought_over(tmp_path: Path, schema: int) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for number, sql in steps()[:schema]:
            connection.executescript(sql)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("INSERT INTO project (slug, root) VALUES ('alpha', '/alpha')")
        connection.execute("INSERT INTO session (client, session_id, project) VALUES ('codex', 's1', 1)")
        connection.execute(
            "INSERT INTO event (key, session, timestamp_ms, type, role, text, tokens, truncated, source_ids, metadata) "
            "VALUES (x'00112233445566778899', 1, 1000, 'user_message', 'user', 'from long ago', 3, 0, '[]', '{}')"
        )
    data = bytearray(path.read_bytes())
    overwrite(root_of(path, "event_time"))(data)
    path.write_bytes(data)
    assert "is damaged" in database(path)[1][0].what
    _, found = aside.set_aside(path, "UTC")
    assert found.damaged == ()
    assert [row[5] for row in events(path)] == ["from long ago"]
    assert value(path, "PRAGMA user_version") == steps()[-1][0]


def test_a_new_file_is_laid_out_as_one_that_is_made_for_a_rescue(tmp_path: Path) -> None:
    migrate(tmp_path / "one.db")
    with closing(sqlite3.connect(tmp_path / "two.db", isolation_level=None)) as connection:
        create(connection)
    sql = "SELECT group_concat(name || rootpage) FROM sqlite_schema"
    assert value(tmp_path / "one.db", sql) == value(tmp_path / "two.db", sql)


DRIVER = """
import json, os, shutil, sys
from pathlib import Path
from mcp_memory.store.sqlite import aside, damaged
from mcp_memory.store.sqlite.database import Transaction
from mcp_memory.errors import MemoryFault
from tests.store.sqlite.damage import events

source, root = Path(sys.argv[1]), Path(sys.argv[2])
aside._SETTLE_SECONDS = 0.0
bytes_before = source.read_bytes()
log_before = b"no log of its own, but one that must not get lost"

def die_at(number):
    left = [number]
    def wrap(owner, name):
        original = getattr(owner, name)
        def counted(*args, **named):
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)
            return original(*args, **named)
        setattr(owner, name, counted)
    for owner, name in ((aside.os, "rename"), (aside.os, "replace"), (aside.os, "truncate"), (aside.os, "fsync"),
                        (Transaction, "run"), (damaged.Damaged, "rows"), (aside, "_taken"), (aside, "create")):
        wrap(owner, name)

def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except MemoryFault as fault:
            print(fault, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def look(path):
    olds = [old for old in path.parent.glob("memory.db.corrupt-*") if not old.name.endswith(("-wal", "-shm"))]
    assert len(olds) == 1, olds
    assert olds[0].read_bytes() == bytes_before
    assert olds[0].with_name(olds[0].name + "-wal").read_bytes() == log_before
    assert not list(path.parent.glob("*.rescue*"))
    return events(path)

def run(number):
    home = root / str(number)
    home.mkdir()
    path = home / "memory.db"
    path.write_bytes(bytes_before)
    (home / "memory.db-wal").write_bytes(log_before)
    def first():
        if number is not None:
            die_at(number)
        aside.set_aside(path, "UTC")
    code = child(first)
    held = [entry for entry in home.iterdir() if entry.read_bytes() == bytes_before]
    assert len(held) == 1, held
    if code == 9:
        placed = path.exists() and path.read_bytes() != bytes_before
        assert placed or child(lambda: aside.set_aside(path, "UTC")) == 0
    else:
        assert code == 0
    return code, look(path)

code, wanted = run(None)
killed = different = number = 0
while True:
    code, found = run(number)
    if code == 0:
        break
    killed += 1
    different += found != wanted
    number += 1
print(json.dumps({"killed": killed, "different": different, "events": len(wanted)}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_rescue_that_is_killed_is_taken_up_by_the_next(damaged: Path, tmp_path: Path) -> None:
    root = tmp_path / "killed"
    root.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER, str(damaged), str(root)],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["killed"] > 40
    assert found["different"] == 0
    assert found["events"] == len(events(damaged))
