"""Who works, on what, and at what cost: the lease of the pipeline, what is left to do, the ledger of calls to models.


The token grows with every change of hands. Each write of the pipeline checks it in its own transaction, so a process
that was asleep while another took over cannot write any more.

No wall clock decides. The holder counts from before it wrote its row. Whoever waits takes over a row that has stayed
the same for a whole duration, by its own clock, from when it first saw it: later than the holder gives up, always.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from mcp_memory.capture.redaction import redact_json
from mcp_memory.domain.toc import GRACE, Level
from mcp_memory.errors import CapReached, LeaseLost, MemoryFault, StoreReplaced
from mcp_memory.models.port import PlannedCall, Prices
from mcp_memory.store.port import Clock
from mcp_memory.store.sqlite.database import ERASURES, Database, Transaction

NAME = "pipeline"
DURATION_SECONDS = 20.0
#: How many times it is renewed while it lasts, so that one renewal that has to wait does not lose it.
_RENEWALS = 4
_ROW = "SELECT holder, token, expires_ms FROM lease WHERE name = ?"


class _Held(NamedTuple):
    """The lease as its row tells it."""

    holder: str
    token: int
    expires_ms: int


class SqliteLease:
    """Implements the Lease port."""

    def __init__(
        self,
        database: Database,
        holder: str | None = None,
        name: str = NAME,
        duration: float = DURATION_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._name = name
        self._clock = clock
        self._until = 0.0
        self._seen: _Held | None = None
        self._seen_at = 0.0
        self.duration = duration
        self.holder = holder or f"{machine()}:{os.getpid()}"
        self.token: int | None = None

    def holds(self) -> bool:
        return self.token is not None and self._clock() < self._until

    async def acquire(self) -> bool:
        """Take or renew the lease. False while another living process holds it."""
        started = self._clock()
        # A look comes before the write: servers that wait for their turn must not write to find out.
        if not self._may_take([_Held(*row) for row in await self._database.fetch(_ROW, (self._name,))]):
            return False
        token = await self._database.write(self._take, self._may_take)
        if token:
            self.token, self._until = token, started + self.duration
        return bool(token)

    def _take(self, tx: Transaction, may_take: Callable[[list[_Held]], bool]) -> int:
        """Write the row; its token, or 0 if someone else has it."""
        held = [_Held(*row) for row in tx.fetch(_ROW, (self._name,))]
        if not may_take(held):
            return 0
        token = held[0].token + (not self._is_mine(held)) if held else 1
        expires = time.time_ns() // 1_000_000 + round(self.duration * 1000)
        expires += bool(held and held[0].expires_ms == expires)  # a renewal must show
        tx.run("INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)", (self._name, self.holder, token, expires))
        return token

    def _is_mine(self, held: list[_Held]) -> bool:
        return bool(held) and held[0].token == self.token

    def _may_take(self, held: list[_Held]) -> bool:
        """Whether it is ours, given back, held by a process of this machine that is gone, or no longer renewed."""
        if not held or self._is_mine(held) or not held[0].expires_ms or _is_dead(held[0].holder):
            return True
        if held[0] != self._seen:
            self._seen, self._seen_at = held[0], self._clock()
        return self._clock() - self._seen_at >= self.duration

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew it while the block runs, from a thread of its own: whatever the event loop is busy with."""
        stop = threading.Event()
        threading.Thread(target=self._renew_until, args=(stop,), name=f"lease {self._name}", daemon=True).start()
        try:
            yield
        finally:
            stop.set()

    def _renew_until(self, stop: threading.Event) -> None:
        while not stop.wait(self.duration / _RENEWALS):
            started = self._clock()
            # A database that is busy now may be free at the next try; if not, the time runs out by itself.
            with suppress(MemoryFault):
                token = self._database.write_here(self._take, self._is_mine)
                if not stop.is_set():
                    self._until = started + self.duration if token else 0.0

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
    if tx.fetch("SELECT token FROM lease WHERE name = ?", (NAME,)) != [(token,)]:
        raise LeaseLost("Another process took over the pipeline; this one stops writing.")


def machine() -> str:
    """Where process numbers mean the same. A container has numbers of its own, and perhaps the name of its host."""
    try:
        return f"{socket.gethostname()}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # only Linux has such a place
        return socket.gethostname()


def _is_dead(holder: str) -> bool:
    """Whether the holder is a process of this machine that no longer lives."""
    host, _, pid = holder.rpartition(":")
    if os.name != "posix" or host != machine() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


#: Open periods that have closed meanwhile.
CLOSED = "FROM node WHERE open = 1 AND ({})".format(
    " OR ".join(
        f"(level = {int(level)} AND end_ms <= :now - {round(grace.total_seconds() * 1000)})"
        for level, grace in GRACE.items()
    )
)
#: What an earlier revision wrote and can be written anew now. Of a long list the newest are looked at, in the order of
#: the index, so that it takes no longer where there are many. Few have to wait: what lies beneath a period hardly
#: starts before it, and few segments are about to change.
OUTDATED = f"""
    WITH pool AS MATERIALIZED (
        SELECT id FROM node WHERE revision < :revision ORDER BY revision DESC, start_ms DESC, level DESC LIMIT 800
    )
    SELECT n.id, n.level FROM pool CROSS JOIN node n ON n.id = pool.id WHERE CASE n.level
        WHEN {int(Level.SEGMENT)} THEN EXISTS (SELECT 1 FROM segment WHERE node = n.id AND input_hash = done_hash)
        ELSE NOT EXISTS (
            SELECT 1 FROM node c WHERE c.project = n.project AND c.level = n.level + 1 AND c.parent = n.key
              AND c.revision < :revision
        ) END
    ORDER BY n.start_ms DESC, n.level DESC LIMIT :limit
"""
REVISIONS = "SELECT revision, count(*) FROM node WHERE revision IS NOT NULL GROUP BY revision"
_WAITING = f"""
    SELECT EXISTS (SELECT 1 FROM dirty_session)
        OR EXISTS (SELECT 1 FROM dirty_node)
        OR EXISTS (SELECT 1 FROM dirty_brief)
        OR EXISTS (SELECT 1 FROM dirty_compaction WHERE retry_ms <= :now)
        OR EXISTS (SELECT 1 FROM segment WHERE input_hash <> done_hash
                      AND (closed = 1 OR end_ms NOT BETWEEN :busy_from AND :busy_to))
        OR EXISTS (SELECT 1 FROM segment WHERE closed = 0 AND end_ms < :closed_before)
        OR EXISTS (SELECT 1 {CLOSED})
        OR EXISTS (SELECT 1 FROM ({OUTDATED}))
"""


class WorkPart:
    """What waits, and who may do it: that part of the Store port."""

    _database: Database

    def lease(self, name: str = NAME) -> SqliteLease:
        return SqliteLease(self._database, name=name)

    async def changes(self) -> int:
        return await self._database.data_version()

    async def has_work(self, now_ms: int, busy: range, closed_before_ms: int, revision: int = 0) -> bool:
        quiet = {"busy_from": busy.start, "busy_to": busy.stop - 1}
        values = {"now": now_ms, "closed_before": closed_before_ms, "revision": revision, "limit": 1, **quiet}
        return bool(await self._database.value(_WAITING, values))


_DAY_MS = 86_400_000
#: An answer that was not asked for again in this time is thrown away.
_KEPT_MS = 90 * _DAY_MS
_SPENT = "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM llm_call WHERE day = ?"
_RESERVE = (
    "INSERT INTO llm_call (id, started_ms, day, purpose, node, model, input_tokens, output_tokens, outcome) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'started')"
)
_SETTLE = "UPDATE llm_call SET outcome = ?, input_tokens = ?, output_tokens = ?, latency_ms = ? WHERE id = ?"
_BY_MODEL = (
    "SELECT model, count(*), count(*) FILTER (WHERE outcome <> 'ok'), sum(input_tokens), sum(output_tokens), "
    "sum(input_tokens * (day = ?)), sum(output_tokens * (day = ?)) FROM llm_call GROUP BY model"
)
_AUTHORS = (
    "SELECT v.written_by, count(*) FROM node n JOIN node_version v ON v.id = n.current WHERE n.removed = 0 "
    "GROUP BY 1 ORDER BY 2 DESC, 1"
)
_COMPRESSION = (
    "SELECT {by}, sum(v.input_tokens), sum(v.output_tokens) FROM node n JOIN node_version v ON v.id = n.current "
    "WHERE n.removed = 0 AND v.input_tokens > 0 GROUP BY 1"
)


class SqliteLedger:
    """Implements the Ledger port. Days are those of the memory's time zone."""

    def __init__(
        self, database: Database, clock: Clock, zone: tzinfo, cap: int = 0, prices: Prices | None = None
    ) -> None:
        self._database, self._clock, self._zone = database, clock, zone
        self._cap, self._prices = cap, dict(prices or {})
        #: What had been erased when a question was asked that no kept answer was found for.
        self._asked: dict[str, str | None] = {}

    async def reserve(self, call: PlannedCall) -> int:
        now_ms = self._clock.now_ms()
        day = self._day(now_ms)
        wanted = call.input_tokens + call.max_output_tokens

        def write(tx: Transaction) -> int:
            spent = int(tx.fetch(_SPENT, (day,))[0][0])
            if spent + wanted > self._cap:
                raise CapReached(
                    f"Of the {self._cap:,} tokens a day {max(self._cap - spent, 0):,} are left, and the next call may "
                    f"take {wanted:,}. It waits for tomorrow, or for a higher summarizer.daily_token_cap."
                )
            number = tx.next_id("llm_call")
            spending = (call.model, call.input_tokens, call.max_output_tokens)
            tx.run(_RESERVE, (number, now_ms, day, call.purpose, call.node_id, *spending))
            return number

        return await self._database.write(write)

    async def settle(self, number: int, outcome: str, input_tokens: int, output_tokens: int, latency_ms: int) -> None:
        await self._database.write(Transaction.run, _SETTLE, (outcome, input_tokens, output_tokens, latency_ms, number))

    async def room(self) -> int:
        return self._cap - int(await self._database.value(_SPENT, (self._day(self._clock.now_ms()),)))

    async def answer(self, key: str) -> str | None:
        rows = await self._database.fetch("SELECT answer, kept_ms FROM llm_answer WHERE key = ?", (key,))
        if not rows:
            self._asked[key] = await self._database.value(ERASURES)
            return None
        answer, kept_ms = rows[0]
        now_ms = self._clock.now_ms()
        if kept_ms < now_ms - _DAY_MS:  # once a day is enough to tell what is still asked for
            await self._database.write(
                Transaction.run, "UPDATE llm_answer SET kept_ms = ? WHERE key = ?", (now_ms, key)
            )
        return str(answer)

    async def keep(self, key: str, answer: str) -> None:
        now_ms = self._clock.now_ms()
        asked = self._asked.pop(key, None)

        def write(tx: Transaction) -> None:
            if tx.fetch(ERASURES) != ([(asked,)] if asked else []):
                return  # it may quote what was forgotten while the model was at it
            tx.run("DELETE FROM llm_answer WHERE kept_ms < ?", (now_ms - _KEPT_MS,))
            tx.run("INSERT OR REPLACE INTO llm_answer (key, answer, kept_ms) VALUES (?, ?, ?)", (key, answer, now_ms))

        await self._database.write(write)

    async def state(self, name: str) -> dict[str, Any]:
        found = await self._database.value("SELECT value FROM llm_state WHERE name = ?", (name,))
        return dict(json.loads(found)) if found else {}

    async def set_state(self, name: str, value: Mapping[str, Any]) -> None:
        sql = "INSERT OR REPLACE INTO llm_state (name, value) VALUES (?, ?)"
        await self._database.write(Transaction.run, sql, (name, json.dumps(redact_json(dict(value)))))

    async def spending(self) -> dict[str, Any]:
        """What models were asked and what that cost."""
        day = self._day(self._clock.now_ms())
        used = await self._database.fetch(_BY_MODEL, (day, day))
        calls, failed, read, written, *today = [sum(column) for column in [*zip(*used, strict=True)][1:]] or [0] * 6
        return {
            "calls": calls,
            "input_tokens": read,
            "output_tokens": written,
            "today": sum(today),
            "cap": self._cap,
            "failed": failed,
            "cost": self._cost([(model, *tokens) for model, _, _, *tokens, _, _ in used]),
            "cost_today": self._cost([(model, *tokens) for model, _, _, _, _, *tokens in used]),
        }

    async def facts(self) -> dict[str, Any]:
        ratios = {}
        for name, by in (("compression", "v.depth"), ("compression_by_level", "n.level")):
            rows = await self._database.fetch(_COMPRESSION.format(by=by))
            ratios[name] = {
                key if isinstance(key, str) else Level(key).label: round(min(out / given, 1.0), 3)
                for key, given, out in rows
            }
        return {"llm": await self.spending(), "written_by": dict(await self._database.fetch(_AUTHORS)), **ratios}

    def _cost(self, spent: list[tuple[str, int, int]]) -> float | None:
        """Dollars, or None if a model was used whose price is not set."""
        total = 0.0
        for signed, tokens_in, tokens_out in spent:
            if not tokens_in + tokens_out:
                continue
            price = self._prices.get(signed) or self._prices.get(signed.partition(":")[2])
            if price is None:
                return None
            total += (tokens_in * price[0] + tokens_out * price[1]) / 1_000_000
        return round(total, 4)

    def _day(self, now_ms: int) -> str:
        return datetime.fromtimestamp(now_ms / 1000, self._zone).date().isoformat()
