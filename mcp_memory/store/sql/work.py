"""What is left to do, who may do it, and at what cost: queues, the check of the lease, calls to models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

from mcp_memory.capture.redaction import redact_json
from mcp_memory.domain.failures import Stage
from mcp_memory.domain.toc import GRACE, Level
from mcp_memory.errors import CapReached, LeaseLost
from mcp_memory.models.port import PlannedCall, Prices
from mcp_memory.store.port import Clock
from mcp_memory.store.sql.database import ERASURES, SqlDatabase, Transaction

#: The lease of the pipeline.
NAME = "pipeline"


def check_lease(tx: Transaction, token: int | None) -> None:
    """Refuse a write of a process whose lease has passed to another. No token: not a write of the pipeline."""
    if token is None:
        return
    if tx.fetch(f"SELECT token FROM lease WHERE name = ? {tx.held}", (NAME,)) != [(token,)]:
        raise LeaseLost("Another process took over the pipeline; this one stops writing.")


#: Open periods that have closed meanwhile, except periods whose roll-up failed.
CLOSED = (
    "FROM node WHERE open = 1 AND ({}) AND NOT EXISTS (SELECT 1 FROM failure f WHERE f.stage = '{}' "
    "AND f.name = node.project || ' ' || node.level || ' ' || node.key)"
).format(
    " OR ".join(
        f"(level = {int(level)} AND end_ms <= :now - {round(grace.total_seconds() * 1000)})"
        for level, grace in GRACE.items()
    ),
    Stage.ROLLUP,
)
#: Open segments that nothing will join any more, without those of sessions that cannot be cut.
EXPIRED = (
    f"FROM segment WHERE closed = 0 AND end_ms < {{}} AND session NOT IN "
    f"(SELECT session FROM failure WHERE stage = '{Stage.CUT}' AND session IS NOT NULL)"
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
        OR EXISTS (SELECT 1 {EXPIRED.format(":closed_before")})
        OR EXISTS (SELECT 1 {CLOSED})
        OR EXISTS (SELECT 1 FROM ({OUTDATED}) outdated)
"""


class WorkPart:
    """What waits, and who may do it: that part of the Store port."""

    _database: SqlDatabase

    async def changes(self, *, own: bool = False) -> int:
        return await self._database.data_version(own=own)

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
    "sum(CASE WHEN day = ? THEN input_tokens ELSE 0 END), sum(CASE WHEN day = ? THEN output_tokens ELSE 0 END) "
    "FROM llm_call GROUP BY model"
)
_KEEP = (
    "INSERT INTO llm_answer (key, answer, kept_ms) VALUES (?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET answer = excluded.answer, kept_ms = excluded.kept_ms"
)
#: Keeps what is known of a model, or of what it was asked for.
SET_STATE = "INSERT INTO llm_state (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_AUTHORS = (
    "SELECT v.written_by, count(*) FROM node n JOIN node_version v ON v.id = n.current WHERE n.removed = 0 "
    "GROUP BY 1 ORDER BY 2 DESC, 1"
)
_COMPRESSION = (
    "SELECT {by}, sum(v.input_tokens), sum(v.output_tokens) FROM node n JOIN node_version v ON v.id = n.current "
    "WHERE n.removed = 0 AND v.input_tokens > 0 GROUP BY 1"
)


class SqlLedger:
    """Implements the Ledger port. Days are those of the memory's time zone."""

    def __init__(
        self, database: SqlDatabase, clock: Clock, zone: tzinfo, cap: int = 0, prices: Prices | None = None
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
            tx.lock(["ledger"])
            spent = int(tx.fetch(_SPENT, (day,))[0][0])
            if spent + wanted > self._cap:
                raise CapReached(
                    f"Of the {self._cap:,} tokens a day {max(self._cap - spent, 0):,} are left, and the next call may "
                    f"take {wanted:,}. It waits for tomorrow, or for a higher summarizer.daily_token_cap."
                )
            [number] = tx.new_ids("llm_call")
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
            tx.run(_KEEP, (key, answer, now_ms))

        await self._database.write(write)

    async def state(self, name: str) -> dict[str, Any]:
        found = await self._database.value("SELECT value FROM llm_state WHERE name = ?", (name,))
        return dict(json.loads(found)) if found else {}

    async def set_state(self, name: str, value: Mapping[str, Any]) -> None:
        await self._database.write(Transaction.run, SET_STATE, (name, json.dumps(redact_json(dict(value)))))

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
