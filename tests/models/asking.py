"""A caller with the real SDK, a real ledger and a scripted model; waits are noted instead of waited."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from mcp_memory.models import forms
from mcp_memory.models.caller import Caller, ModelSettings
from mcp_memory.models.forms import NOTHING, Claims, Prompt, SectionAnswer
from mcp_memory.models.providers import OpenAIProvider
from mcp_memory.store.sql.work import SqlLedger
from mcp_memory.store.sqlite.database import Database
from tests.models.scripted import KEY, Respond, Scripted, scripted
from tests.support import StoppedClock

MATERIAL = "[1] user: The login times out after five minutes; please look at SESSION_TTL in app/session.py today."


def question(text: str = MATERIAL, claims: Claims = NOTHING) -> Prompt[SectionAnswer]:
    return forms.section("segment", text, "", "", claims, (2, 5), 10)


@dataclass
class Asking:
    """Everything around one caller."""

    caller: Caller
    model: Scripted
    ledger: SqlLedger
    database: Database
    clock: StoppedClock
    waits: list[float] = field(default_factory=list)

    async def rows(self) -> list[dict[str, Any]]:
        names = ("purpose", "node", "model", "input_tokens", "output_tokens", "outcome", "latency_ms", "day")
        found = await self.database.fetch(f"SELECT {', '.join(names)} FROM llm_call ORDER BY id")
        return [dict(zip(names, row, strict=True)) for row in found]

    async def outcomes(self) -> list[str]:
        return [row["outcome"] for row in await self.rows()]


@asynccontextmanager
async def asking(
    home: Path,
    kind: str,
    respond: Respond,
    *,
    models: tuple[str, ...] = ("test-model",),
    cap: int = 1_000_000,
    timeout: float = 20.0,
    key: str = KEY,
    clock: StoppedClock | None = None,
    concurrency: int = 4,
    make: type[OpenAIProvider] | None = None,
    command: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Asking]:
    clock = clock or StoppedClock()
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with scripted(respond) as model:
        async with Database.open(home / "memory.db") as database:
            ledger = SqlLedger(database, clock, UTC, cap, {"test-model": (1.0, 5.0)})
            program = (command, os.environ if environment is None else environment)
            settings = ModelSettings(kind, models, key, model.url(kind), 256, timeout, concurrency, *program)
            caller = Caller(settings, ledger, clock, make=make, sleep=sleep, chance=lambda: 0.5)
            try:
                yield Asking(caller, model, ledger, database, clock, waits)
            finally:
                await caller.close()
