"""What models cost and write: the ledger of calls, and the nodes that wait for a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from mcp_memory.capture.redaction import redact_json
from mcp_memory.domain.nodes import THRESHOLDS, Depth, Grip, Node, Upgrade
from mcp_memory.domain.toc import Level, NodeRef
from mcp_memory.errors import CapReached
from mcp_memory.models.port import PlannedCall, Prices
from mcp_memory.store.port import Clock
from mcp_memory.store.sqlite.database import ERASURES, Database, Transaction
from mcp_memory.store.sqlite.nodes import (
    Placed,
    write_grips,
    write_nodes,
)

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
    "SELECT model, count(*), sum(input_tokens), sum(output_tokens), count(*) FILTER (WHERE outcome <> 'ok'), "
    "sum((input_tokens + output_tokens) * (day = ?)), sum(input_tokens * (day = ?)), sum(output_tokens * (day = ?)) "
    "FROM llm_call GROUP BY model"
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

    async def facts(self) -> dict[str, Any]:
        day = self._day(self._clock.now_ms())
        rows = await self._database.fetch(_BY_MODEL, (day, day, day))
        return {
            "llm": {
                "calls": sum(row[1] for row in rows),
                "input_tokens": sum(row[2] for row in rows),
                "output_tokens": sum(row[3] for row in rows),
                "today": sum(row[5] for row in rows),
                "cap": self._cap,
                "failed": sum(row[4] for row in rows),
                "cost": self._cost([(row[0], row[2], row[3]) for row in rows]),
                "cost_today": self._cost([(row[0], row[6], row[7]) for row in rows]),
            },
            "compression": await self._compression("v.depth", str),
            "compression_by_level": await self._compression("n.level", lambda level: Level(level).label),
        }

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

    async def _compression(self, by: str, name: Any) -> dict[str, float]:
        rows = await self._database.fetch(_COMPRESSION.format(by=by))
        return {name(key): round(min(out / given, 1.0), 3) for key, given, out in rows}

    def _day(self, now_ms: int) -> str:
        return datetime.fromtimestamp(now_ms / 1000, self._zone).date().isoformat()


#: Nodes that a model should write: closed, long enough, and not left alone after a failure.
_CANDIDATES = f"""
    SELECT n.id, n.current, n.project, n.level, n.key, n.start_ms, n.end_ms, v.input_hash, v.input_tokens
    FROM node n JOIN node_version v ON v.id = n.current
    WHERE n.removed = 0 AND n.open = 0 AND v.written_by = 'extractive'
      AND v.input_tokens >= {THRESHOLDS[Depth.NONE]}
      AND NOT EXISTS (
          SELECT 1 FROM llm_attempt a WHERE a.node = n.id AND a.version = n.current AND a.retry_ms > :now
      )
"""
#: How many of the newest are looked at. What lies beneath a period starts no earlier than it, so it is among them too.
_POOL = 400
#: Of those, the ones beneath which nothing waits for a model, is open, or has yet to be rolled up.
_WAITING = f"""
    WITH candidate AS MATERIALIZED ({_CANDIDATES} ORDER BY n.start_ms DESC, n.level DESC LIMIT {_POOL}),
    unsettled AS MATERIALIZED (
        SELECT project, level, start_ms FROM candidate
        UNION ALL
        SELECT project, level, start_ms FROM node WHERE open = 1 AND removed = 0
        UNION ALL
        SELECT c.project, c.level, c.start_ms
        FROM dirty_node d JOIN node c ON c.project = d.project AND c.level = d.level AND c.key = d.key
    )
    SELECT n.id, n.current, n.project, p.slug, n.level, n.key, n.input_hash, n.input_tokens,
           coalesce((SELECT failures FROM llm_attempt a WHERE a.node = n.id AND a.version = n.current), 0)
    FROM candidate n JOIN project p ON p.id = n.project
    WHERE NOT EXISTS (SELECT 1 FROM dirty_node d WHERE d.project = n.project AND d.level = n.level AND d.key = n.key)
      AND NOT EXISTS (SELECT 1 FROM segment g WHERE g.node = n.id AND (g.input_hash <> g.done_hash OR g.closed = 0))
      AND NOT EXISTS (
          SELECT 1 FROM unsettled c
          WHERE n.level < {int(Level.SEGMENT)} AND c.project = n.project AND c.level > n.level
            AND c.start_ms >= n.start_ms AND c.start_ms < n.end_ms
      )
    ORDER BY n.start_ms DESC, n.level DESC LIMIT :limit
"""
_UNWRITTEN = """
    SELECT s.project, g.start_ms, g.tokens FROM segment g JOIN session s ON s.id = g.session
    WHERE g.closed = 1 AND g.input_hash <> g.done_hash
"""
#: A parent that no model will write, because it is open or short, follows its children at no cost.
_TELL = f"""
    INSERT OR IGNORE INTO dirty_node (project, level, key)
    SELECT n.project, n.level, n.key FROM node n JOIN node_version v ON v.id = n.current
    WHERE n.project = ? AND n.level = ? AND n.key = ? AND n.removed = 0
      AND (n.open = 1 OR v.input_tokens < {THRESHOLDS[Depth.NONE]})
"""
_FAILED = """
    INSERT INTO llm_attempt (node, version, failures, retry_ms) VALUES (?, ?, 1, ?)
    ON CONFLICT (node) DO UPDATE SET
        failures = CASE WHEN version = excluded.version THEN failures + 1 ELSE 1 END,
        version = excluded.version, retry_ms = excluded.retry_ms
"""


class UpgradePart:
    """The nodes that wait for a model: closed, extractive, with nothing beneath them that waits for anything itself."""

    _database: Database

    async def upgrades(self, limit: int, now_ms: int) -> list[Upgrade]:
        rows = await self._database.fetch(_WAITING, {"now": now_ms, "limit": limit})
        return [
            Upgrade(number, version, project, slug, NodeRef(Level(level), key), input_hash, tokens, failures)
            for number, version, project, slug, level, key, input_hash, tokens, failures in rows
        ]

    async def upgrade_backlog(self, now_ms: int) -> list[tuple[Level, int]]:
        rows = await self._database.fetch(f"SELECT level, input_tokens FROM ({_CANDIDATES})", {"now": now_ms})
        return [(Level(level), tokens) for level, tokens in rows]

    async def unwritten_segments(self) -> list[tuple[int, int, int]]:
        return [(project, start_ms, tokens) for project, start_ms, tokens in await self._database.fetch(_UNWRITTEN)]

    async def save_upgrade(self, upgrade: Upgrade, node: Node, session: int | None, grips: Sequence[Grip]) -> bool:
        return await self._database.write(_save, upgrade, node, session, grips)

    async def postpone_upgrade(self, upgrade: Upgrade, retry_ms: int) -> None:
        await self._database.write(Transaction.run, _FAILED, (upgrade.number, upgrade.version, retry_ms))


def _save(tx: Transaction, upgrade: Upgrade, node: Node, session: int | None, grips: Sequence[Grip]) -> bool:
    place = (upgrade.project, int(upgrade.ref.level), upgrade.ref.key)
    current = tx.fetch("SELECT current FROM node WHERE id = ? AND removed = 0", (upgrade.number,))
    changing = tx.fetch(
        "SELECT 1 FROM dirty_node WHERE project = ? AND level = ? AND key = ? "
        "UNION ALL SELECT 1 FROM segment WHERE node = ? AND input_hash <> done_hash",
        (*place, upgrade.number),
    )
    if current != [(upgrade.version,)] or changing:
        return False  # it is no longer what the model was shown
    write_nodes(tx, [Placed(upgrade.project, session, node)], tell_parents=False)
    if upgrade.ref.level is Level.SEGMENT:
        write_grips(tx, {upgrade.number: grips})
    tx.run("DELETE FROM llm_attempt WHERE node = ?", (upgrade.number,))
    if parent := upgrade.ref.parent:
        tx.run(_TELL, (upgrade.project, int(parent.level), parent.key))
    return True
