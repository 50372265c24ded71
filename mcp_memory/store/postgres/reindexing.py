"""Indexing every document again after its words are made in another way, in portions while the index is in use.

A migration sets the mark. Until a document's turn has come it is found by its old words.
"""

from __future__ import annotations

from mcp_memory.store.sql.database import EVENT, NODE, SET_FACT, SqlConnection, Transaction, marks
from mcp_memory.store.sql.log import index_events
from mcp_memory.store.sql.nodes import reindex_nodes

#: Documents of one write, during which no one else can write.
BATCH = 200
_MARK = "SELECT value FROM meta WHERE key = 'reindex'"
_NEXT = "SELECT doc FROM search WHERE doc > ? AND doc <= ? ORDER BY doc LIMIT ?"
_EVENTS = "SELECT id, role, type, text FROM event WHERE id IN ({marks})"


def is_due(connection: SqlConnection) -> bool:
    return connection.execute(_MARK).fetchone() is not None


def reindex(tx: Transaction) -> int:
    """Index the next documents again and return how many.

    No other write may run meanwhile, or words that it forgets could come back.
    """
    found = tx.fetch(_MARK)
    if not found:
        return 0
    after, last = map(int, found[0][0].split())
    documents = [doc for (doc,) in tx.fetch(_NEXT, (after, last, BATCH))]
    if not documents:
        # The words that were counted are no longer those of the index. They are counted again from the beginning.
        tx.run("DELETE FROM frequency")
        tx.run("DELETE FROM meta WHERE key IN ('counted', 'reindex')")
        return 0
    if events := [doc // 4 for doc in documents if doc % 4 == EVENT]:
        index_events(tx, tx.fetch(_EVENTS.format(marks=marks(events)), events))
    if nodes := [doc // 4 for doc in documents if doc % 4 == NODE]:
        reindex_nodes(tx, nodes)
    tx.run(SET_FACT, ("reindex", f"{documents[-1]} {last}"))
    return len(documents)
