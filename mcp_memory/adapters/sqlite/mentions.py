"""Which segments speak of which file or name, so that those that share one are found by key, not by a search."""

from __future__ import annotations

from mcp_memory.adapters.sqlite.database import Transaction
from mcp_memory.domain.summaries import Node
from mcp_memory.domain.toc import Level

_ADD = (
    "INSERT OR IGNORE INTO mention (project, term, start_ms, node, since) "
    "SELECT project, ?, start_ms, id, current FROM node WHERE id = ?"
)


def folded(term: str) -> str:
    return term.casefold()


def note_mentions(tx: Transaction, number: int, node: Node) -> None:
    """Note the names that a segment's new version speaks of. Those of earlier versions stay, for views of the past."""
    if node.level is Level.SEGMENT and not node.removed:
        tx.run_many(_ADD, [(folded(term), number) for term in node.keywords])
