"""The ledger of calls to models: what may still be spent today, what was spent, and the answers that were paid for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

from mcp_memory.capture.redaction import redact_json
from mcp_memory.domain.toc import Level
from mcp_memory.errors import CapReached
from mcp_memory.models.port import PlannedCall
from mcp_memory.ports.work import Clock
from mcp_memory.store.sqlite.database import Database, Transaction
from mcp_memory.store.sqlite.erasures import ERASURES

#: Dollars for a million tokens of input and of output.
Prices = Mapping[str, tuple[float, float]]

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
