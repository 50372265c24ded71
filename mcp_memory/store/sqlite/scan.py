"""Read every value of an SQLite file, to look for what should not be in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from mcp_memory.store.sql.indexed import count_finds
from mcp_memory.store.sqlite.database import told
from mcp_memory.store.sqlite.migrations import uri

MAGIC = b"SQLite format 3\0"
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
_HAS_INDEX = "SELECT count(*) FROM sqlite_schema WHERE name = 'search' AND sql LIKE 'CREATE VIRTUAL TABLE%'"
_MATCHING = "SELECT rowid FROM search WHERE search MATCH ?"


def is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def values(path: Path) -> Iterator[tuple[str, str | bytes]]:
    """Yield each text and blob with the name of its table, put together from all its pages."""
    with told(path), closing(sqlite3.connect(uri(path), uri=True)) as connection:
        connection.text_factory = _text
        for (schema,) in connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall():
            yield "schema", schema
        for (table,) in connection.execute(_TABLES).fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    if isinstance(value, str | bytes):
                        yield table, value


def count_indexed(path: Path, text: str) -> int:
    """Return how many documents the memory's index finds by a text and which hold it, or are no documents any more."""
    phrase = '"' + text.replace('"', " ").replace("\0", " ") + '"'
    with told(path), closing(sqlite3.connect(uri(path), uri=True)) as connection:
        if connection.execute(_HAS_INDEX).fetchone()[0] == 0:
            return 0
        documents = [number for (number,) in connection.execute(_MATCHING, (phrase,))]
        return count_finds(connection, documents, text)


def count_documents(path: Path, documents: Sequence[int], text: str) -> int:
    """Return the same of the documents that another index has found."""
    with told(path), closing(sqlite3.connect(uri(path), uri=True)) as connection:
        return count_finds(connection, documents, text)


def count_free_pages(path: Path) -> int:
    """Return how many pages are in no table and may still hold what was deleted."""
    with told(path), closing(sqlite3.connect(uri(path), uri=True)) as connection:
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
