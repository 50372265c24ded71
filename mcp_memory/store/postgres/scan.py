"""Read every row of a memory on a server, and the planner's samples, to look for what should not be there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from mcp_memory.domain.unicode61 import index_words
from mcp_memory.store.postgres.database import SCHEMA, Link, configure, explain
from mcp_memory.store.sql.indexed import count_finds

#: Rows that are fetched at once.
_ROWS = 500
STATISTICS = "pg_stats"
_TABLES = """
    SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_class c
    WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'm') ORDER BY c.relname
"""
_SAMPLES = """
    SELECT tablename || '.' || attname, concat_ws(' ', most_common_vals::text, histogram_bounds::text,
        most_common_elems::text) FROM pg_stats WHERE schemaname = %s
"""


def relations(url: str) -> list[tuple[str, int]]:
    """Return the name and the size on disk of each table, its indexes and long values included."""
    with _connected(url) as connection:
        return [(name, size) for name, size in connection.execute(_TABLES, (SCHEMA,))]


def values(url: str) -> Iterator[tuple[str, str]]:
    """Yield each row as text with the name of its table; then the samples of each column, as `pg_stats`."""
    names = [name for name, _ in relations(url)]
    with _connected(url) as connection:
        for name in names:
            query = sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(SCHEMA, name))
            with connection.cursor(name="scan") as cursor:
                cursor.itersize = _ROWS
                for (row,) in cursor.execute(query):
                    yield name, row
        for name, sample in connection.execute(_SAMPLES, (SCHEMA,)):
            yield f"{STATISTICS} {name}", sample


def count_indexed(url: str, text: str) -> int:
    """Return how many documents the index finds by a text and which hold it, or are no documents any more."""
    words = index_words(text)
    if not words:
        return 0
    query = " <-> ".join("'" + word.replace("\\", "\\\\").replace("'", "''") + "'" for word in words)
    with _connected(url) as connection:
        rows = connection.execute("SELECT doc FROM search WHERE terms @@ %s::tsquery", (query,)).fetchall()
        return count_finds(Link(connection), [int(document) for (document,) in rows], text)


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection[Any]]:
    try:
        with psycopg.connect(url) as connection:
            configure(connection)
            yield connection
    except psycopg.Error as error:
        raise explain(error, url) from error
