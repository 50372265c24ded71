"""An invented history of a few weeks, for the first look and for tests."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

_WEEK = timedelta(weeks=1)


def lines(now: datetime | None = None) -> list[dict[str, Any]]:
    """The history as lines of the generic import.

    With `now`, which must know its zone, every timestamp moves by the same number of whole weeks, so that weekdays and
    hours stay what they were and the last line falls into the seven days before `now`.
    """
    text = Path(__file__).with_name("history.jsonl").read_text(encoding="utf-8")
    told: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    if now is None:
        return told
    last = max(datetime.fromisoformat(line["timestamp"]) for line in told)
    shift = (now - last) // _WEEK * _WEEK
    return [line | {"timestamp": _shifted(line["timestamp"], shift)} for line in told]


def _shifted(timestamp: str, shift: timedelta) -> str:
    moved = datetime.fromisoformat(timestamp) + shift
    return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")
