"""A memory is the same after a move, in whichever direction, however often that was interrupted."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from threading import Timer

import psycopg
import pytest

from mcp_memory.domain.events import EventQuery
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.people import Viewer
from mcp_memory.errors import StoreBusy, UsageError
from mcp_memory.store.postgres import migrations
from mcp_memory.store.postgres.store import PostgresStore
from mcp_memory.store.postgres.tables import MOVING, ServerTables
from mcp_memory.store.sql import moving
from mcp_memory.store.sql.moving import LEFT_OUT, OF_A_SERVER, WORKED_OUT, Copied
from mcp_memory.store.sqlite.migrations import latest
from mcp_memory.store.sqlite.store import SqliteStore
from mcp_memory.store.sqlite.tables import FileTables
from tests.postgres import files_holding, new_database, shared_server
from tests.store.engines import LATER, add, build, said, talk, texts
from tests.store.sqlite.test_upgrade import rows, stored, tables
from tests.support import REPO

pytestmark = pytest.mark.anyio
OWN = {"moved", "scrubbed", "rewritten", "counted"}


def copy(source: Path | str, target: Path | str, changes: Callable[[], int] = lambda: 0) -> Copied:
    with (
        FileTables.origin(source) if isinstance(source, Path) else ServerTables.origin(source) as origin,
        (
            FileTables.destination(target, lambda held: moving.check(origin, held))
            if isinstance(target, Path)
            else ServerTables.destination(target, lambda held: moving.check(origin, held))
        ) as filled,
    ):
        return moving.move(origin, filled, changes, lambda *_: None)


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    columns = {name: names for name, names in tables(path).items() if name not in LEFT_OUT}
    held = rows(path, columns)
    held["meta"] = [row for row in held["meta"] if row[0] not in OWN]
    return held


def empty_database() -> str:
    return shared_server().new_database()


@asynccontextmanager
async def file(path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore.open(path, LATER) as store:
        yield store


def test_every_table_and_column_is_moved_or_named_as_left_out(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    stored(path, latest())
    with FileTables.origin(path) as here, ServerTables.origin(new_database()) as there:
        files, servers = here.tables(), there.tables()
    assert {*servers} - {*files} <= {*LEFT_OUT, *OF_A_SERVER}
    assert {*files} - {*servers} <= {*LEFT_OUT}
    for name in ({*files} & {*servers}) - {*LEFT_OUT}:
        assert {*servers[name].columns} ^ {*files[name].columns} <= WORKED_OUT.get(name, set()), name


def test_each_table_comes_to_a_server_and_back(tmp_path: Path) -> None:
    path, url, back = tmp_path / "memory.db", empty_database(), tmp_path / "back.db"
    stored(path, latest())
    before = contents(path)
    there = copy(path, url)
    again = copy(url, back)
    assert contents(path) == before == contents(back)
    counts = {name: each.rows for name, each in there.tables.items()}
    assert counts == {name: len(each) for name, each in before.items()}
    assert there.tables == again.tables
    assert back.stat().st_mode & 0o777 == 0o600
    assert copy(url, back).written == copy(path, url).written == 0


async def test_a_copy_that_has_just_ended_is_not_in_the_way_of_the_next(tmp_path: Path) -> None:
    path, url = tmp_path / "memory.db", empty_database()
    async with file(path) as store:
        await add(store, *talk())
    with psycopg.connect(url, autocommit=True) as ending:
        ending.execute("SELECT pg_advisory_lock(%s)", (MOVING,))
        gone = Timer(0.2, ending.close)
        gone.start()
        assert copy(path, url).written
        gone.join()


async def test_what_was_said_forgotten_and_pinned_meanwhile_comes_with_the_next_copy(tmp_path: Path) -> None:
    path, url = tmp_path / "memory.db", empty_database()
    async with file(path) as store:
        await add(store, *talk(), *talk("s2", 1), said("The walrus has a name nobody may know.", 5, session="s3"))
        await build(store)
        copy(path, url)
        await add(store, said("A narwhal came by.", 7, session="s4"))
        await store.forget(ForgetRequest(match="walrus"), dry_run=False)
        await build(store)
        assert copy(path, url).written
        async with PostgresStore.open(url) as server:
            words = ["narwhal", "walrus", "token"]
            assert await server.known(words) == await store.known(words)
            assert await texts(server, EventQuery()) == await texts(store, EventQuery())
            assert await server.position() == await store.position()
            # What was forgotten stays so, and what is said next has a number of its own.
            walrus = said("The walrus has a name nobody may know.", 5, session="s3")
            assert await add(server, walrus, said("A seal, too.", 8, session="s4")) == 1
            await build(server)


def words_on(url: str, word: str) -> list[str]:
    """The tables of a server that hold a word in any column."""
    with psycopg.connect(url) as connection:
        names = [
            name
            for (name,) in connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'mcp_memory'"
            ).fetchall()
        ]
        sql = 'SELECT 1 FROM mcp_memory."{}" t WHERE t::text ILIKE %s LIMIT 1'
        return [name for name in names if connection.execute(sql.format(name), (f"%{word}%",)).fetchone()]


async def test_a_move_after_a_forget_takes_the_words_off_the_server(tmp_path: Path) -> None:
    path, url = tmp_path / "memory.db", empty_database()
    async with file(path) as store:
        await add(store, *talk(), said("The walrus has a name nobody may know.", 5, session="s3"))
        await build(store)
        copy(path, url)
        assert "event" in words_on(url, "walrus")
        assert "event_2026q1" in files_holding(url, "walrus")
        await store.forget(ForgetRequest(match="walrus"), dry_run=False)
        await build(store)
    copy(path, url)
    assert words_on(url, "walrus") == []
    assert files_holding(url, "walrus") == set()
    async with PostgresStore.open(url) as server:
        assert await texts(server, EventQuery()) == [event.text for event in talk()]


STEPS = ("begin", "change", "ensure_quarters", "fill_index", "finish")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_move_after_a_forget_that_breaks_at_a_step_is_completed_by_the_next(
    tmp_path: Path, step: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, url = tmp_path / "memory.db", empty_database()
    async with file(path) as store:
        await add(store, *talk(), *talk("s2", 120), said("The walrus has a name nobody may know.", 5, session="s3"))
        await build(store)
        copy(path, url)
        await store.forget(ForgetRequest(match="walrus"), dry_run=False)
        await build(store)
    owner = migrations if step == "ensure_quarters" else ServerTables
    original = getattr(owner, step)

    def broken(*args: object, **named: object) -> None:
        if after:
            original(*args, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(owner, step, broken)
        with pytest.raises(KeyboardInterrupt):
            copy(path, url)
    again = copy(path, url)
    assert words_on(url, "walrus") == []
    assert kept_true(url) == kept_true(new_database())
    fresh = empty_database()
    assert copy(path, fresh).sha256 == again.sha256
    async with PostgresStore.open(url) as server, PostgresStore.open(fresh) as other:
        assert await texts(server, EventQuery()) == await texts(other, EventQuery())
        assert await server.known(["walrus", "token"]) == await other.known(["walrus", "token"])


async def test_a_file_that_was_copied_to_holds_nothing_of_what_is_forgotten(tmp_path: Path) -> None:
    url, path = new_database(), tmp_path / "memory.db"
    async with PostgresStore.open(url) as server:
        await add(server, *talk(), said("The walrus has a name nobody may know.", 5, session="s3"))
        await build(server)
        copy(url, path)
        assert b"walrus" in path.read_bytes()
        await server.forget(ForgetRequest(match="walrus"), dry_run=False)
        copy(url, path)
        assert b"walrus" not in path.read_bytes()
        async with file(path) as store:
            assert await store.known(["walrus", "token"]) == await server.known(["walrus", "token"])


async def test_a_busy_source_is_copied_as_it_was_and_that_is_said(tmp_path: Path) -> None:
    path, url = tmp_path / "memory.db", empty_database()
    async with file(path) as store:
        await add(store, *talk())
    counter = iter(range(1_000))
    found = copy(path, url, lambda: next(counter))
    assert found.meanwhile
    assert found.rounds > 1
    assert not copy(path, url).meanwhile


async def test_a_place_that_holds_anything_else_is_left_alone(tmp_path: Path) -> None:
    path, url, other = tmp_path / "memory.db", empty_database(), tmp_path / "other" / "memory.db"
    for each, text in ((path, "Something."), (other, "Something else.")):
        async with file(each) as store:
            await store.identity()
            await add(store, said(text, 1))
    before = contents(other)
    with pytest.raises(UsageError, match="holds a memory already"):
        copy(path, other)
    copy(path, url)
    with pytest.raises(UsageError, match="another memory"):
        copy(other, url)
    async with PostgresStore.open(url) as server:
        await add(server, said("It is used there now.", 2))
    with pytest.raises(UsageError, match="was added since"):
        copy(path, url)
    assert contents(other) == before


async def test_half_a_copy_is_opened_by_no_one_but_the_next_move(tmp_path: Path) -> None:
    path, url = tmp_path / "memory.db", empty_database()
    async with file(path) as store:
        await add(store, *talk())

    def broken() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy(path, url, broken)
    with pytest.raises(StoreBusy, match="mcp-memory move"):
        async with PostgresStore.open(url):
            pass
    copy(path, url)
    async with PostgresStore.open(url) as server:
        assert len(await server.log(0, None, 99)) == 2
    assert kept_true(url) == kept_true(new_database())


def kept_true(url: str) -> list[tuple[str, str]]:
    """The keys and indexes by which a database keeps its tables in order."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE conparentid = 0 AND "
            "conrelid::regclass::text NOT LIKE '%event\\_%' UNION ALL SELECT tablename, indexdef FROM pg_indexes "
            "WHERE schemaname = 'mcp_memory' AND tablename NOT LIKE 'event\\_%' ORDER BY 1, 2"
        ).fetchall()


async def test_a_teams_people_come_to_another_server_and_stay_away_from_a_file(tmp_path: Path) -> None:
    url, other = new_database(), empty_database()
    async with PostgresStore.open(url) as server:
        token = await server.add_user("ada", "member", 1_000, LATER)
        await add(server, *talk())
    copy(url, other)
    async with PostgresStore.open(other) as server:
        assert await server.viewer_of(token, 2_000) == Viewer("ada")
        await server.add_user("bob", "member", 1_000, LATER)
    found = copy(url, tmp_path / "memory.db")
    assert found.left_out == {"team_token": 1, "team_user": 1}


DRIVER = """
import json, os, sqlite3, sys
from pathlib import Path
import psycopg
from mcp_memory.store.sql import moving
from tests.store.test_moving import copy

moving.PAGE = 2
source, way, *databases = Path(sys.argv[1]), *sys.argv[2:]
left, count = [None], [0]

def counted():
    count[0] += 1
    if left[0] is not None and count[0] > left[0]:
        os._exit(9)

class Mortal(sqlite3.Connection):
    def execute(self, *args):
        counted()
        return super().execute(*args)
    def executemany(self, *args):
        counted()
        return super().executemany(*args)

def mortal(owner, name):
    original = getattr(owner, name)
    def wrapped(*args, **named):
        counted()
        return original(*args, **named)
    setattr(owner, name, wrapped)

connect = sqlite3.connect
sqlite3.connect = lambda *args, **named: connect(*args, factory=Mortal, **named)
for owner, name in ((psycopg.Connection, "execute"), (psycopg.Cursor, "copy"), (os, "replace")):
    mortal(owner, name)

def child(limit, *ends):
    pid = os.fork()
    if pid == 0:
        left[0] = limit
        sys.stdout = sys.stderr
        found = copy(*ends)
        os.write(pipe[1], json.dumps({"count": count[0], "sha256": found.sha256}).encode())
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

pipe = os.pipe()
if way == "back":
    child(None, source, databases[0])
    os.read(pipe[0], 999)
    ends = [(databases[0], source.parent / f"copy-{number}.db") for number in range(6)]
else:
    ends = [(source, url) for url in databases]
assert child(None, *ends[0]) == 0
first = json.loads(os.read(pipe[0], 999))
killed = different = 0
for number in range(1, 6):
    killed += child(first["count"] * number // 6, *ends[number]) == 9
    assert child(None, *ends[number]) == 0
    different += json.loads(os.read(pipe[0], 999))["sha256"] != first["sha256"]
print(json.dumps({"killed": killed, "different": different}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.parametrize("way", ["out", "back"])
def test_a_move_that_is_killed_at_any_point_is_taken_up_by_the_next(tmp_path: Path, way: str) -> None:
    path = tmp_path / "memory.db"
    stored(path, latest())
    databases = [new_database() for _ in range(6 if way == "out" else 1)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER, str(path), way, *databases],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(REPO)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {"killed": 5, "different": 0}


def test_a_new_memory_beside_a_copy_is_not_overwritten(tmp_path: Path) -> None:
    url, path = new_database(), tmp_path / "memory.db"

    def meanwhile() -> int:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS other (id)")
        return 0

    with pytest.raises(StoreBusy, match="made a new"):
        copy(url, path, meanwhile)
