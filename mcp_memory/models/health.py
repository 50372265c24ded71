"""What keeps the model from writing summaries, for `doctor`: read from the database without opening the memory."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcp_memory.errors import how_to_add
from mcp_memory.models.build import fingerprint
from mcp_memory.models.calling import BREAKER, STOPPED
from mcp_memory.models.retry import Breaker
from mcp_memory.store.sqlite.diagnosis import Problem
from mcp_memory.store.sqlite.place import uri

_MEANWHILE = "Until then summaries are extractive; they are upgraded by themselves afterwards."


def model_problems(database: Path, kind: str, models: Sequence[str], base_url: str, api_key: str) -> list[Problem]:
    """Nothing for the extractive summarizer, which needs nothing."""
    if kind == "extractive":
        return []
    return list(_problems(database, kind, models, base_url, api_key))


def _problems(database: Path, kind: str, models: Sequence[str], base_url: str, api_key: str) -> Iterator[Problem]:
    if find_spec(kind) is None:
        fix = how_to_add(kind)
        yield Problem(f"the package {kind} is not installed", f"summarizer.kind is {kind}. {_MEANWHILE}", fix)
    if not api_key and not base_url:
        fix = f"Set {kind.upper()}_API_KEY, or summarizer.api_key_file in config.toml."
        yield Problem(f"there is no key for {kind}", _MEANWHILE, fix)
    states = _states(database)
    stopped = states.get(STOPPED, {})
    if stopped and stopped.get("fingerprint") == fingerprint(kind, models, base_url, api_key):
        fix = "Correct the key or the other settings of [summarizer]; the model is asked again once they have changed."
        yield Problem(f"{kind} refuses the key", f"{stopped['reason']} {_MEANWHILE}", fix)
    breaker = Breaker(**states.get(BREAKER, {}))
    if breaker.is_open(time.time_ns() // 1_000_000):
        until = datetime.fromtimestamp(breaker.open_until_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        fix = f"See whether the model answers at all; it is asked again after {until}."
        yield Problem(f"{kind} failed {breaker.failures} times in a row", f"{breaker.reason} {_MEANWHILE}", fix)


def _states(database: Path) -> dict[str, Any]:
    if not database.exists():
        return {}
    try:
        connection = sqlite3.connect(uri(database), uri=True, timeout=2)
        with contextlib.closing(connection):
            return {name: json.loads(value) for name, value in connection.execute("SELECT name, value FROM llm_state")}
    except sqlite3.Error:  # told by the examination of the database itself
        return {}
