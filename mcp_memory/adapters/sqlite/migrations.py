"""Numbered migrations: schema/NNNN_name.sql, each applied once, in a transaction, after a backup of what was there."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import suppress
from pathlib import Path

from mcp_memory.capture.inbox import RESCUE
from mcp_memory.errors import StoreBusy, StoreNewer

_NAME = re.compile(r"(\d{4})_\w+\.sql")


def steps() -> list[tuple[int, str]]:
    """All migrations, in order: number and SQL."""
    found = []
    for entry in Path(__file__).with_name("schema").iterdir():
        match = _NAME.fullmatch(entry.name)
        if match:
            found.append((int(match[1]), entry.read_text("utf-8")))
    return sorted(found)


def latest() -> int:
    return steps()[-1][0]


def rescue_of(path: Path) -> Path:
    """The name under which a new database is made from a damaged one; while it is there, no one opens the memory."""
    return path.with_name(path.name + RESCUE)


def create(connection: sqlite3.Connection) -> None:
    """Give an empty file the latest schema."""
    _apply(connection, steps())


def migrate(path: Path) -> None:
    """Bring the file to the latest schema. A newer one is refused before anything is written."""
    if rescue_of(path).exists():
        raise StoreBusy(
            f"{path} is being made anew from a damaged one. Wait for that to end; if it was interrupted, run "
            "`mcp-memory process --set-aside-corrupt` again. What is captured meanwhile is kept."
        )
    fresh = not path.exists()
    if fresh:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, timeout=15)
    try:
        version = _version(connection)
        todo = [step for step in steps() if step[0] > version]
        if version > latest():
            raise StoreNewer(
                f"{path} has schema {version}, this program knows up to {latest()}. Nothing was changed. "
                "Update mcp-memory (pip install --upgrade mcp-memory) or set MCP_MEMORY_HOME to another directory."
            )
        if todo:
            connection.execute("PRAGMA journal_mode = WAL")
            if version:
                backup(connection, path.with_name(f"{path.name}.schema-{version}.bak"))
            _apply(connection, todo)
    finally:
        connection.close()


def backup(connection: sqlite3.Connection, target: Path) -> None:
    """A complete copy, made under a temporary name and then renamed."""
    partial = target.with_name(target.name + ".tmp")
    partial.unlink(missing_ok=True)
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_RDWR, 0o600))
        copy = sqlite3.connect(partial)
        try:
            connection.backup(copy)
        finally:
            copy.close()
        os.replace(partial, target)
    finally:
        remove_partial(partial)


def remove_partial(path: Path) -> None:
    """What was left of a file that could not be finished takes the room of the one that is tried next."""
    for name in (path.name, f"{path.name}-journal"):
        with suppress(OSError):
            path.with_name(name).unlink(missing_ok=True)


def _apply(connection: sqlite3.Connection, todo: list[tuple[int, str]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated while this one waited for the lock.
        done = _version(connection)
        for number, sql in todo:
            if number > done:
                for statement in statements(sql):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def statements(sql: str) -> list[str]:
    """Split a script into statements, since executescript would commit the transaction around it."""
    found, current = [], ""
    for line in sql.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found + ([current] if current.strip() and not current.strip().startswith("--") else [])


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
