"""Find events that were forgotten and are stored again."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_memory.store.sql.database import Transaction
from mcp_memory.store.sql.forget import find_refused
from mcp_memory.store.sql.tombstones import ALL_TEXTS, ForgottenTexts, summary


@dataclass(frozen=True, slots=True)
class Returned:
    """How many events were forgotten, in how many runs, and how many that should be refused are stored.

    `key_lost`: the key of the tombstones is gone, so they cannot be compared.
    """

    refused: int = 0
    runs: int = 0
    stored: int = 0
    key_lost: bool = False


def find_returned(tx: Transaction) -> Returned:
    """Compare all stored events with the tombstones."""
    known, key = summary(tx), tx.tombstone_key()
    if key is None:
        return Returned(known.events, len(known.forgettings), key_lost=bool(known.events or known.forgettings))
    refused, bearing = find_refused(tx, key, ForgottenTexts(key, tx.fetch(ALL_TEXTS)))
    return Returned(known.events, len(known.forgettings), len(refused) + len(bearing), known.key_lost)
