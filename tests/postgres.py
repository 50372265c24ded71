"""A PostgreSQL server for tests, on a free loopback port with its own data directory; one for each worker.

It keeps nothing safe against a power cut, which makes it fast. Where there is no PostgreSQL, tests that need it skip.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from mcp_memory.store.postgres.migrations import migrate

_UNSAFE = (
    *("fsync=off", "synchronous_commit=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0"),
    *("max_wal_size=64MB", "min_wal_size=32MB", "autovacuum=off", "max_connections=200", "shared_buffers=64MB"),
)
#: What lies here needs no disk, which makes a new database ten times as fast; and so much has to be free there.
_QUICK, _ROOM = Path("/dev/shm"), 4 << 30
#: Who owns the databases of tests: no superuser, as with any managed offer.
OWNER = "memory"


@dataclass(frozen=True)
class Server:
    """A running server. `bin` are its programs, `data` its directory."""

    bin: Path
    data: Path
    port: int

    def url(self, database: str, user: str = OWNER) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def run(self, program: str, *words: str, check: bool = True) -> None:
        """Run one of its programs as the user who may."""
        subprocess.run(
            [str(self.bin / program), *words],
            check=check,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=_user(),
            cwd="/",
        )

    def start(self, *settings: str) -> None:
        given = " ".join(f"-c {setting}" for setting in settings)
        where = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.data} {given}"
        self.run("pg_ctl", "-D", str(self.data), "-o", where, "-l", str(self.data / "log"), "-w", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-m", "immediate", "stop", check=False)

    def sql(self, text: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database, "postgres"), autocommit=True) as connection:
            connection.execute(cast(Any, text))

    def drop_database(self, url: str) -> None:
        self.sql(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")

    def new_database(self, template: str = "") -> str:
        """A new database; the URL of it."""
        name = f"memory_{uuid.uuid4().hex[:12]}"
        self.sql(
            f"CREATE DATABASE {name} OWNER {OWNER}" + (f" TEMPLATE {template} STRATEGY file_copy" * bool(template))
        )
        return self.url(name)


def _user() -> str | None:
    """PostgreSQL does not run as root."""
    return "postgres" if os.getuid() == 0 else None


def programs() -> Path | None:
    """Where the server's programs are."""
    found = shutil.which("pg_ctl")
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4].split(".")[0])
    )
    return Path(found).resolve().parent if found else versions[-1].parent if versions else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def new_server(*settings: str, place: Path | None = None) -> Server:
    """A server of its own, for a test that kills it. Skips where there is none."""
    found = programs()
    if found is None:
        pytest.skip("needs PostgreSQL (Debian: apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="mcp-memory-pg-", dir=place))
    if user := _user():
        shutil.chown(folder, user)
    server = Server(found, folder / "data", free_port())
    atexit.register(_remove, server)
    server.run(
        "initdb", "-D", str(server.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C"
    )
    server.start(*settings)
    server.sql(f"CREATE ROLE {OWNER} LOGIN CREATEDB CREATEROLE")
    return server


def _remove(server: Server) -> None:
    server.stop()
    shutil.rmtree(server.data.parent, ignore_errors=True)


@cache
def shared_server() -> Server:
    """The server that the tests of this worker share."""
    quick = _QUICK.is_dir() and os.access(_QUICK, os.W_OK) and shutil.disk_usage(_QUICK).free > _ROOM
    return new_server(*_UNSAFE, place=_QUICK if quick else None)


@cache
def _template() -> str:
    url = shared_server().new_database()
    migrate(url)
    return url.rpartition("/")[2]


def new_database() -> str:
    """The URL of a new memory with its tables."""
    return shared_server().new_database(_template())


def drop_database(url: str) -> None:
    """Throw it away, which many tests together need: each has some megabytes."""
    shared_server().drop_database(url)


def superuser(url: str) -> psycopg.Connection[Any]:
    """A connection that may read the catalog and have all pages written."""
    return psycopg.connect(shared_server().url(url.rpartition("/")[2], "postgres"), autocommit=True)


def files_holding(url: str, word: str) -> set[str]:
    """The tables, indexes and other files of a database in which the bytes of a word stand, but for the server's log.

    What PostgreSQL has compressed is not looked into.
    """
    with superuser(url) as connection:
        connection.execute("CHECKPOINT")
        rows = connection.execute("SELECT pg_relation_filepath(oid), relname FROM pg_class WHERE relfilenode <> 0")
        relations: dict[str, str] = dict(rows.fetchall())
        [(database,)] = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchall()
    data, sought = shared_server().data, word.lower().encode()
    files = [path for folder in (f"base/{database}", "global") for path in (data / folder).iterdir() if path.is_file()]
    names = [str(path.relative_to(data)) for path in files if sought in path.read_bytes().lower()]
    return {relations.get(name, name) for name in names}
