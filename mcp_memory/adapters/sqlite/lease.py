"""The lease under which one process at a time works on the pipeline.

The token grows with every change of hands. Each write of the pipeline checks it in its own transaction, so a process
that was asleep while another took over cannot write any more.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from mcp_memory.adapters.sqlite.database import Database, Transaction
from mcp_memory.errors import LeaseLost, StoreReplaced

NAME = "pipeline"
DURATION_MS = 20_000


class SqliteLease:
    """Implements the Lease port."""

    def __init__(self, database: Database, holder: str | None = None, name: str = NAME) -> None:
        self._database = database
        self._name = name
        self.holder = holder or f"{socket.gethostname()}:{os.getpid()}"
        self.token: int | None = None

    async def acquire(self, now_ms: int) -> bool:
        """Take or renew the lease. False while another living process holds it."""
        held = await self._database.fetch("SELECT holder, token, expires_ms FROM lease WHERE name = ?", (self._name,))
        if held and held[0][1] != self.token and not _is_free(held[0], now_ms):
            return False
        token = await self._database.write(self._take, now_ms)
        if token is None:
            return False
        self.token = token
        return True

    def _take(self, tx: Transaction, now_ms: int) -> int | None:
        rows = tx.fetch("SELECT holder, token, expires_ms FROM lease WHERE name = ?", (self._name,))
        if rows and rows[0][1] != self.token and not _is_free(rows[0], now_ms):
            return None
        mine = bool(rows) and rows[0][1] == self.token
        token = int(rows[0][1]) + (not mine) if rows else 1
        tx.run(
            "INSERT INTO lease (name, holder, token, expires_ms) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE "
            "SET holder = excluded.holder, token = excluded.token, expires_ms = excluded.expires_ms",
            (self._name, self.holder, token, now_ms + DURATION_MS),
        )
        return token

    async def release(self) -> None:
        """Let the next process start at once."""
        if self.token is not None:
            token, self.token = self.token, None
            sql = "UPDATE lease SET expires_ms = 0 WHERE name = ? AND token = ?"
            with suppress(StoreReplaced):  # the lease is gone with its file
                await self._database.write(Transaction.run, sql, (self._name, token))


def check_lease(tx: Transaction, token: int | None) -> None:
    """Refuse a write of a process whose lease has passed to another. No token: not a write of the pipeline."""
    if token is None:
        return
    rows = tx.fetch("SELECT token FROM lease WHERE name = ?", (NAME,))
    if not rows or rows[0][0] != token:
        raise LeaseLost("Another process took over the pipeline; this one stops writing.")


def _is_free(row: tuple[object, ...], now_ms: int) -> bool:
    """Expired, from a future that a clock jump made up, or held by a process of this machine that is gone."""
    holder, _, expires = str(row[0]), row[1], int(str(row[2]))
    if expires <= now_ms or expires > now_ms + 2 * DURATION_MS:
        return True
    host, _, pid = holder.rpartition(":")
    return host == socket.gethostname() and pid.isdigit() and not _alive(int(pid))


def _alive(pid: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
