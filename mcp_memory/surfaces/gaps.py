"""A word of warning with the table of contents: capture was silent for over a day although sessions went on."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from mcp_memory.adapters import diagnosis
from mcp_memory.adapters.folders import Folders, of_user
from mcp_memory.adapters.registration.catalog import CLIENTS
from mcp_memory.adapters.registration.record import Record
from mcp_memory.config import Settings
from mcp_memory.surfaces.doctor import newest_transcript

GAP_MS = 24 * 3_600_000
_FRESH_SECONDS = 900.0
_looked: dict[Path, tuple[float, str]] = {}


def capture_gap(settings: Settings) -> str:
    """What to say of it, or nothing. Looks at most every quarter of an hour, since it reads directories."""
    when, text = _looked.get(settings.home, (-_FRESH_SECONDS, ""))
    if time.monotonic() - when >= _FRESH_SECONDS:
        text = _look(settings, of_user(settings.client_folders))
        _looked[settings.home] = (time.monotonic(), text)
    return text


def _look(settings: Settings, home: Folders) -> str:
    facts = diagnosis.facts(settings.database)
    silent = []
    for client in CLIENTS.values():
        installed = max((entry.installed_ms for entry in Record(settings.home).entries(client.name)), default=0)
        last = max(facts.last_ms.get(client.name, 0), installed)
        newest = newest_transcript(client, home) if last else None
        if newest is not None and newest - last > GAP_MS:
            day = datetime.fromtimestamp(last / 1000, UTC).date()
            silent.append(f"{client.name} since {day}")
    if not silent:
        return ""
    return f" Capture was silent though sessions went on ({', '.join(silent)}): `mcp-memory doctor` says why."
