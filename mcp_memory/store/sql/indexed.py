"""Tell whether documents that an index finds by a text hold it still, or only other spellings of its words.

An index knows words by their stems: "refresh token" is found where "refresh_tokens" is said, which is another text.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcp_memory.domain.matching import match_of
from mcp_memory.domain.terms import hidden_parts
from mcp_memory.domain.unicode61 import index_words
from mcp_memory.store.sql.database import EVENT, SqlConnection

_EVENT_TEXT = "SELECT text FROM event WHERE id = ?"
_NODE_TEXT = """
    SELECT v.title || ' ' || v.keywords FROM node n JOIN node_version v ON v.id = n.current WHERE n.id = ?1
    UNION ALL SELECT b.text FROM node n JOIN bullet b ON b.node_version = n.current WHERE n.id = ?1
"""


def count_finds(connection: SqlConnection, documents: Iterable[int], text: str) -> int:
    """Return how many documents hold the text, have no row any more, or lack words that the index has of them."""
    match, words = match_of(text), {*index_words(text)}
    found = 0
    for document in documents:
        number, kind = divmod(document, 4)
        statement = _EVENT_TEXT if kind == EVENT else _NODE_TEXT
        body = "\n".join(str(row[0]) for row in connection.execute(statement, (number,)))
        known = {*index_words(body), *index_words(hidden_parts(body))}
        found += match.is_in(body) or not words <= known
    return found
