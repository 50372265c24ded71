"""Find events that were forgotten and are stored again."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_memory.store.sql.database import Transaction

_TOMBSTONES = "SELECT count(*) FROM forgotten"
_STORED_AGAIN = "SELECT count(*) FROM event e JOIN forgotten f ON f.key = e.key"


@dataclass(frozen=True, slots=True)
class Returned:
    """How many events are refused because they were forgotten, and how many of them are stored all the same."""

    refused: int = 0
    stored: int = 0


def find_returned(tx: Transaction) -> Returned:
    return Returned(int(tx.fetch(_TOMBSTONES)[0][0]), int(tx.fetch(_STORED_AGAIN)[0][0]))
