"""Marks of erasures: whoever keeps something derived outside of the database sees that it must let go of some of it."""

from __future__ import annotations

from mcp_memory.adapters.sqlite.database import Transaction

#: The marks, with spaces between them, the latest last.
ERASURES = "SELECT value FROM meta WHERE key = 'erasures'"
#: How many marks are kept. What has missed more is made anew.
_KEPT = 64
_LENGTH = 12
_ADD = (
    "INSERT INTO meta (key, value) VALUES ('erasures', lower(hex(randomblob(6)))) ON CONFLICT (key) DO UPDATE "
    f"SET value = substr(value || ' ' || excluded.value, -{_KEPT * (_LENGTH + 1) - 1})"
)


def note_erasure(tx: Transaction) -> None:
    """Leave a mark in the transaction that erases."""
    tx.run(_ADD)
