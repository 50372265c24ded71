"""Repair of a damaged database: what is found, by kind of damage, with and without `sqlite3` and a backup."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from mcp_memory.errors import NotFound, StoreBusy, StoreError
from mcp_memory.store.sql.tombstones import add_keys, key_for_writing
from mcp_memory.store.sqlite import repair
from mcp_memory.store.sqlite.database import SqliteTransaction
from mcp_memory.store.sqlite.diagnosis import database
from mcp_memory.store.sqlite.migrations import migrate, rescue_of, steps
from tests.store.sqlite.damage import PAGE, events, filled, flip, overwrite, root_of, scatter, spoiled, value
from tests.support import REPO, conversation, learn, memory

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM session").fetchone()
print("open", flush=True)
sys.stdin.read()
"""
#: Stands for a `sqlite3` program that can recover: it finds all there was, and is fed what it found.
PROGRAM = """#!{python}
import sqlite3, sys
if ".recover" in sys.argv[-1]:
    print("{whole}")
else:
    sqlite3.connect(sys.stdin.read().strip()).backup(sqlite3.connect(sys.argv[-1]))
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return anyio.run(filled, tmp_path_factory.mktemp("original"))


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "_SETTLE_SECONDS", 0.0)


@pytest.fixture
def without_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


def mended(path: Path) -> repair.Repaired:
    """Repair the file; it is found as it was, and the new one is whole and private."""
    before = path.read_bytes()
    found = repair.repair(path, "UTC")
    assert found.path.read_bytes() == before
    assert database(path)[1] == []
    assert path.stat().st_mode & 0o077 == 0
    assert not list(path.parent.glob("*.rescue*"))
    assert not list(path.parent.glob("repair-*"))
    assert found.events == len(events(path))
    return found


def cut(data: bytearray) -> None:
    del data[len(data) * 3 // 4 :]


INDEXES = ["event_time", "sqlite_autoindex_event_1", "search_data", "segment_todo"]


@pytest.mark.parametrize("tree", INDEXES)
def test_damage_to_an_index_loses_nothing_and_keeps_the_tree(original: Path, tmp_path: Path, tree: str) -> None:
    path = spoiled(original, overwrite(root_of(original, tree), 1), tmp_path)
    found = mended(path)
    assert (found.lost, found.sources, found.damaged, found.tree) == (0, ("file",), (), True)
    assert events(path) == events(original)
    for table in ("node_version", "bullet", "grip", "mention"):
        count = f"SELECT count(*) FROM {table}"
        assert value(path, count) == value(original, count)
    rank = "SELECT count(*) FROM search WHERE search MATCH 'timeout'"
    assert value(path, rank) == value(original, rank)


@pytest.mark.usefixtures("without_program")
@pytest.mark.parametrize("seed", range(4))
def test_of_a_file_with_holes_the_rest_is_found(original: Path, tmp_path: Path, seed: int) -> None:
    path = spoiled(original, scatter(seed, 0.02), tmp_path)
    found = mended(path)
    had, has = {row[1]: row for row in events(original)}, {row[1]: row for row in events(path)}
    assert all(has[key][:10] == had[key][:10] for key in has)
    assert found.lost == len(had) - len(has)
    assert len(has) > 0.6 * len(had) or "event" in found.damaged


@pytest.mark.usefixtures("without_program")
@pytest.mark.parametrize("seed", range(6))
def test_flipped_bits_leave_a_memory_that_can_be_used(original: Path, tmp_path: Path, seed: int) -> None:
    path = spoiled(original, flip(seed, 400), tmp_path)
    if not database(path)[1]:
        pytest.skip("no bit of these is noticed")
    mended(path)

    async def use() -> None:
        async with memory(tmp_path) as app:
            await learn(app, conversation("2026-05-01", session="after"))
            assert (await app.store.counts()).nodes

    anyio.run(use)


@pytest.mark.usefixtures("without_program")
def test_pages_that_lead_back_to_themselves_do_not_keep_it_forever(original: Path, tmp_path: Path) -> None:
    start = (root_of(original, "event") - 1) * PAGE

    def lead_back(data: bytearray) -> None:
        cells = [int.from_bytes(data[start + 12 + at : start + 14 + at]) for at in range(0, 2 * data[start + 4], 2)]
        first = data[start + cells[0] : start + cells[0] + 4]
        for cell in cells:
            data[start + cell : start + cell + 4] = first
        data[start + 8 : start + 12] = bytes(4)

    found = mended(spoiled(original, lead_back, tmp_path))
    assert 0 < found.events < len(events(original))


@pytest.mark.usefixtures("without_program")
def test_of_a_file_that_was_cut_off_the_rest_is_found(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, cut, tmp_path)
    found = mended(path)
    had = {row[1]: row[:10] for row in events(original)}
    assert all(had[row[1]] == row[:10] for row in events(path))
    assert found.lost == len(had) - found.events
    assert "event" in found.damaged


DAMAGES = {
    "truncated": cut,
    "header": lambda data: data.__setitem__(slice(0, 100), bytes(100)),
    "garbage": lambda data: data.__setitem__(slice(None), b"no database " * 500),
    "empty": lambda data: data.clear(),
}


@pytest.mark.usefixtures("without_program")
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_backup_gives_back_what_the_file_does_not(original: Path, tmp_path: Path, kind: str) -> None:
    path = spoiled(original, DAMAGES[kind], tmp_path)
    (tmp_path / "backups").mkdir()
    shutil.copyfile(original, tmp_path / "backups" / "memory-0000000000002-9.db")
    # A newer one that is not whole itself is passed over.
    (tmp_path / "backups" / "memory-0000000000003-9.db").write_bytes(original.read_bytes()[: 20 * PAGE])
    found = mended(path)
    assert events(path) == events(original)
    assert (found.sources[-1], found.lost) == ("backup", 0)


@pytest.mark.usefixtures("without_program")
def test_what_is_newer_than_the_backup_comes_from_the_file(original: Path, tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    copy = tmp_path / "backups" / "memory-0000000000002-9.db"
    shutil.copyfile(original, copy)
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("DELETE FROM event WHERE id > 150")
    path = spoiled(original, overwrite(root_of(original, "session"), 1), tmp_path)
    found = mended(path)
    assert found.sources == ("file", "backup")
    assert [row[:10] for row in events(path)] == [row[:10] for row in events(original)]
    assert {row[11] for row in events(path)[:150]} == {row[11] for row in events(original)[:150]}


def test_what_was_forgotten_does_not_come_back_from_a_backup(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, lambda data: None, tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        tx = SqliteTransaction(connection)
        add_keys(tx, key_for_writing(tx), [key for (key,) in tx.fetch("SELECT key FROM event WHERE id < 9")])
        connection.execute("DELETE FROM event WHERE id < 9")
    spoiled(path, overwrite(root_of(path, "session"), 1), tmp_path)
    (tmp_path / "backups").mkdir()
    shutil.copyfile(original, tmp_path / "backups" / "memory-0000000000002-9.db")
    assert mended(path).events == len(events(original)) - 8


def program(folder: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "sqlite3").write_text(PROGRAM.format(python=sys.executable, whole=whole))
    (folder / "sqlite3").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
def test_what_the_sqlite3_program_recovers_is_taken(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", original, monkeypatch)
    path = spoiled(original, overwrite(root_of(original, "event"), 1), tmp_path / "home")
    found = mended(path)
    assert events(path) == events(original)
    assert (found.lost, found.tree) == (0, False)
    assert "recover" in found.sources


@pytest.mark.skipif(sys.platform == "win32", reason="a script is no program there")
@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nyes 'SELECT nothing;' | head -9\n"])
def test_a_program_that_cannot_recover_is_done_without(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    program(tmp_path / "bin", original, monkeypatch)
    (tmp_path / "bin" / "sqlite3").write_text(text)
    path = spoiled(original, cut, tmp_path / "home")
    found = mended(path)
    assert "recover" not in found.sources
    assert found.events


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="there is no sqlite3 program here")
def test_the_real_program_takes_nothing_away(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, cut, tmp_path)
    had = {row[1]: row[:10] for row in events(original)}
    mended(path)
    assert all(had[row[1]] == row[:10] for row in events(path))


@pytest.mark.usefixtures("without_program")
@pytest.mark.parametrize("data", [b"no database " * 500, random.Random(7).randbytes(300_000), b"SQLite format 3\0"])
def test_from_a_file_without_rows_and_no_backup_nothing_is_found(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "memory.db").write_bytes(data)
    found = mended(tmp_path / "memory.db")
    assert (found.events, found.sources) == (0, ())
    assert "event" in found.damaged


def test_a_whole_database_is_left_alone(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, lambda data: None, tmp_path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is whole and was left alone"):
        repair.repair(path, "UTC")
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.corrupt-*"))
    assert not rescue_of(path).exists()


def test_a_newer_database_is_left_alone(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, lambda data: None, tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(StoreError, match="schema 999"):
        repair.repair(path, "UTC")
    assert not rescue_of(path).exists()


def test_without_a_database_there_is_nothing_to_repair(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing to repair"):
        repair.repair(tmp_path / "memory.db", "UTC")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def damaged(original: Path, tmp_path: Path) -> Path:
    return spoiled(original, overwrite(root_of(original, "event_time")), tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows itself keeps a file that is open from being renamed")
def test_a_database_that_two_servers_have_open_is_left_alone_until_both_end(damaged: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(damaged)]
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as one,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as two,
    ):
        before = damaged.read_bytes()
        for holder in (one, two):
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
        for holder in (one, two):
            with pytest.raises(StoreBusy, match="End your agents"):
                repair.repair(damaged, "UTC")
            assert damaged.read_bytes() == before
            assert not rescue_of(damaged).exists()
            holder.communicate("")
    mended(damaged)


def test_no_one_opens_a_memory_that_is_being_repaired(damaged: Path) -> None:
    rescue_of(damaged).touch()
    with pytest.raises(StoreBusy, match="doctor --repair"):
        migrate(damaged)
    [problem] = database(damaged)[1]
    assert "interrupted" in problem.what
    assert "doctor --repair" in problem.fix


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
        connection.execute("INSERT INTO inbox (received_ms, client, root, payload) VALUES (7, 'codex', '/w', '{}')")
    spoiled(path, overwrite(root_of(path, "event_time")), tmp_path)
    assert "is damaged" in database(path)[1][0].what
    found = mended(path)
    assert (found.damaged, found.tree) == ((), False)
    assert [row[5] for row in events(path)] == ["from long ago"]
    assert value(tmp_path / "inbox.db", "SELECT received_ms FROM inbox") == 7  # it waited in the memory itself
    assert value(path, "PRAGMA user_version") == steps()[-1][0]


def test_a_whole_memory_is_indexed_anew_and_a_tree_with_a_hole_is_dropped(original: Path, tmp_path: Path) -> None:
    path = spoiled(original, lambda data: None, tmp_path)
    found = "SELECT count(*) FROM search WHERE search MATCH 'timeout'"
    wanted = value(path, found)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO search (search) VALUES ('delete-all')")
        assert repair.mend_derived(SqliteTransaction(connection), "UTC") is True
        assert connection.execute(found).fetchone()[0] == wanted
        connection.execute("DELETE FROM node_version WHERE id = (SELECT current FROM node LIMIT 1)")
        assert repair.mend_derived(SqliteTransaction(connection), "UTC") is False
        assert connection.execute("SELECT count(*) FROM dirty_session").fetchone()[0] == 40


DRIVER = """
import json, os, shutil, sys
from pathlib import Path
from mcp_memory.store.sqlite import repair
from mcp_memory.store.sqlite.database import SqliteTransaction
from mcp_memory.errors import MemoryFault
from tests.store.sqlite.damage import events

source, root = Path(sys.argv[1]), Path(sys.argv[2])
repair._SETTLE_SECONDS = 0.0
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
    for owner, name in ((repair.os, "rename"), (repair.os, "replace"), (repair.os, "truncate"), (repair.os, "fsync"),
                        (SqliteTransaction, "run"), (repair, "_rows"), (repair, "_make_anew"), (repair, "create")):
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
        repair.repair(path, "UTC")
    code = child(first)
    held = [entry for entry in home.iterdir() if entry.is_file() and entry.read_bytes() == bytes_before]
    assert len(held) == 1, held
    if code == 9:
        placed = path.exists() and path.read_bytes() != bytes_before
        assert placed or child(lambda: repair.repair(path, "UTC")) == 0
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_repair_that_is_killed_is_taken_up_by_the_next(damaged: Path, tmp_path: Path) -> None:
    root = tmp_path / "killed"
    root.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER, str(damaged), str(root)],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PATH": ""},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["killed"] > 30
    assert found["different"] == 0
    assert found["events"] == len(events(damaged))
