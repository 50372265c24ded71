"""Which segments speak of which file or name, so that those that share one are found by key, not by a search."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_memory.domain.nodes import Node
from mcp_memory.domain.toc import Level
from mcp_memory.store.sqlite.database import Transaction

_MENTION = "mention (project, term, start_ms, node, since)"


def folded(term: str) -> str:
    return term.casefold()


def note_mentions(tx: Transaction, written: Sequence[tuple[int, int, int, Node]]) -> None:
    """Note the names that new versions of segments speak of. Those of earlier versions stay, for views of the past.

    What was written is given as the project, the node's number, the version's row, and the node.
    """
    mentions = [
        (project, folded(term), node.start_ms, number, row)
        for project, number, row, node in written
        if node.level is Level.SEGMENT and not node.removed
        for term in node.keywords
    ]
    tx.insert(_MENTION, mentions, known="ON CONFLICT DO NOTHING")
