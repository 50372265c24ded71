"""The tree of a damaged database, as it is, if every bit of it can be read: then no history of a node is lost, and no
model is paid twice. A tree with a hole is left to the pipeline, which makes it anew from the events."""

from __future__ import annotations

import sqlite3

from mcp_memory.store.sqlite.damaged import Damaged

#: All that the pipeline makes, but for the index, and its queues.
_TABLES = (
    *("segment", "node", "node_version", "bullet", "grip", "mention", "brief", "llm_attempt"),
    *("dirty_session", "dirty_node", "dirty_brief", "dirty_compaction"),
)
#: What no tree has that the program wrote.
_ODD = (
    "SELECT 1 FROM node n LEFT JOIN node_version v ON v.id = n.current AND v.node = n.id WHERE v.id IS NULL",
    "SELECT 1 FROM node WHERE project NOT IN (SELECT id FROM project)",
    "SELECT 1 FROM node_version WHERE node NOT IN (SELECT id FROM node)",
    "SELECT 1 FROM node_version WHERE NOT (json_valid(keywords) AND json_valid(children))",
    "SELECT 1 FROM bullet WHERE node_version NOT IN (SELECT id FROM node_version)",
    "SELECT 1 FROM bullet WHERE NOT (json_valid(grips) AND json_valid(children))",
    "SELECT 1 FROM segment WHERE session NOT IN (SELECT id FROM session)",
    "SELECT 1 FROM segment WHERE node IS NOT NULL AND node NOT IN (SELECT id FROM node)",
    "SELECT 1 FROM grip WHERE node NOT IN (SELECT id FROM node)",
    *(
        f"SELECT 1 FROM grip WHERE {column} NOT IN (SELECT id FROM event)"
        for column in ("event", "first_event", "last_event")
    ),
)


def bring_tree(source: Damaged, connection: sqlite3.Connection) -> bool:
    """Whether the tree was brought over. If not, what came of it is still there, and of no use."""
    # In an older schema, columns are missing that an update fills from others.
    if source.image.version != connection.execute("PRAGMA user_version").fetchone()[0]:
        return False
    for name in _TABLES:
        source.copy_to(connection, name, lambda row: True, loose=False)
        stored = connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        if not source.readings[name].whole or source.readings[name].rows != stored:
            return False
    return not any(connection.execute(f"{sql} LIMIT 1").fetchone() for sql in _ODD)
