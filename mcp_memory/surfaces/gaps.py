"""Whether capture goes on: sessions that no hook told of, and payloads that no one could read.

`doctor` asks for it, and the table of contents mentions it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from heapq import heappop, heappush
from pathlib import Path

from mcp_memory.clients import default_places
from mcp_memory.clients.port import Folders, of_user
from mcp_memory.config import Settings
from mcp_memory.errors import MemoryFault
from mcp_memory.install.apply import Record
from mcp_memory.install.catalog import CLIENTS, Client
from mcp_memory.store.sqlite import diagnosis
from mcp_memory.store.sqlite.diagnosis import Facts

GAP_MS = 24 * 3_600_000
#: More directories are not looked into; those that changed last come first.
MOST_FOLDERS = 2_000
_TRANSCRIPTS = (".jsonl", ".json")
_FRESH_SECONDS = 900.0
_looked: dict[Path, tuple[float, str]] = {}


def capture_gap(settings: Settings) -> str:
    """What to say of it, or nothing. Looks at most every quarter of an hour, since it reads directories."""
    when, text = _looked.get(settings.home, (-_FRESH_SECONDS, ""))
    if time.monotonic() - when >= _FRESH_SECONDS:
        facts = diagnosis.facts(settings.database)
        text = _silent(settings, facts, of_user(settings.client_folders)) + _unread(facts)
        _looked[settings.home] = (time.monotonic(), text)
    return text


def _silent(settings: Settings, facts: Facts, home: Folders) -> str:
    silent = []
    for client in CLIENTS.values():
        last = last_heard(client, settings, facts)
        newest = newest_transcript(client, home) if last else None
        if newest is not None and newest - last > GAP_MS:
            day = datetime.fromtimestamp(last / 1000, UTC).date()
            silent.append(f"{client.name} since {day}")
    if not silent:
        return ""
    return f" Capture was silent though sessions went on ({', '.join(silent)}): `mcp-memory doctor` says why."


def _unread(facts: Facts) -> str:
    told = ", ".join(diagnosis.unread(client, count) for client, (count, _) in facts.unknown.items())
    return f" {told}: `mcp-memory doctor` says what to do." if told else ""


def last_heard(client: Client, settings: Settings, facts: Facts) -> int:
    """When the client last told something, or was connected; 0 if neither ever happened."""
    installed = 0
    with suppress(MemoryFault):  # an unreadable record is a finding of `doctor`, and no reason to answer nothing
        installed = max((entry.installed_ms for entry in Record(settings.home).entries(client.name)), default=0)
    return max(installed, facts.last_ms.get(client.name, 0))


def newest_transcript(client: Client, home: Folders) -> int | None:
    """When a session of the client last wrote something, as the times of its files tell."""
    folders: list[tuple[float, str]] = []
    for place in default_places(home).get(client.name, []):
        if place.is_absolute():  # a project's own exports are of any client's sessions
            heappush(folders, (0.0, str(place)))
    newest: int | None = None
    for _ in range(MOST_FOLDERS):
        if not folders:
            break
        with suppress(OSError):
            for entry in os.scandir(heappop(folders)[1]):
                changed = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    heappush(folders, (-changed.st_mtime, entry.path))
                elif entry.name.endswith(_TRANSCRIPTS):
                    newest = max(newest or 0, changed.st_mtime_ns // 1_000_000)
    return newest
