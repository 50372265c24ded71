"""`doctor`: everything that can keep memory from working, each with the command that mends it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from mcp_memory import config
from mcp_memory.adapters import diagnosis, integrity
from mcp_memory.adapters.clients import ADAPTERS, default_places
from mcp_memory.adapters.diagnosis import Facts, Problem
from mcp_memory.adapters.folders import Folders, of_user
from mcp_memory.adapters.registration import health
from mcp_memory.adapters.registration.catalog import CLIENTS, Client, project_root
from mcp_memory.adapters.registration.launch import this_installation
from mcp_memory.adapters.registration.record import Record
from mcp_memory.adapters.summarizers.models.health import model_problems
from mcp_memory.adapters.whoosh.diagnosis import index_problems
from mcp_memory.capture.project import detect
from mcp_memory.config import Settings
from mcp_memory.errors import SettingsError
from mcp_memory.surfaces import output

_SLACK_MS = 10 * 60_000


def doctor(options: argparse.Namespace) -> int:
    """Look at everything; 1 if anything is wrong."""
    try:
        with output.spinner("Examining", enabled=not options.json):
            problems, checked = _examine(config.load())
    except SettingsError as error:
        fix = "Correct what is named there, then: mcp-memory doctor"
        problems, checked = [Problem("the settings cannot be used", str(error), fix)], ["settings"]
    if options.json:
        shapes = [{"what": found.what, "why": found.why, "fix": found.fix} for found in problems]
        output.document({"ok": not problems, "problems": shapes, "checked": checked})
    else:
        _tell(problems, checked)
    return 1 if problems else 0


def _examine(settings: Settings) -> tuple[list[Problem], list[str]]:
    now_ms = settings.now_ms if settings.now_ms is not None else time.time_ns() // 1_000_000
    problems = diagnosis.disk(settings.home)
    facts, damage = diagnosis.database(settings.database)
    problems += damage + diagnosis.flow(facts, now_ms) + diagnosis.spool(settings.spool, now_ms)
    problems += integrity.records(settings.database)
    problems += _switched_off(settings)
    if settings.index.kind == "whoosh":
        problems += index_problems(settings.database, settings.whoosh)
    chosen = settings.summarizer
    problems += model_problems(settings.database, chosen.kind, chosen.preferred, chosen.base_url, settings.api_key)
    here = [client for client in CLIENTS.values() if client.is_here(of_user(settings.client_folders))]
    for client in here:
        problems += _client(client, settings, facts)
    checked = ["settings", "disk", "database", "records", "inbox", "lease", "spool", "clock", "capture", "index"]
    return problems, [*checked, *(client.name for client in here)]


def _client(client: Client, settings: Settings, facts: Facts) -> list[Problem]:
    home = of_user(settings.client_folders)
    held, problems = health.registrations(client, home, project_root())
    problems += health.check(client, held, this_installation(settings.home), home)
    return problems or list(_silent(client, settings, facts, home))


def _silent(client: Client, settings: Settings, facts: Facts, home: Folders) -> Iterator[Problem]:
    """A hook that is registered but has not spoken although sessions took place since."""
    since = max((entry.installed_ms for entry in Record(settings.home).entries(client.name)), default=0)
    newest = newest_transcript(client, home)
    if newest is not None and newest > max(since, facts.last_ms.get(client.name, 0)) + _SLACK_MS:
        spoken = [path for path in settings.spool.glob("*.json") if path.stat().st_mtime_ns // 1_000_000 > since]
        if not spoken:
            why = "Its transcripts are newer than the last event captured from it. A session of a project that is not "
            why += "captured looks the same."
            fix = f"mcp-memory install {client.name}, restart the client; mcp-memory import loads what was missed."
            yield Problem(f"{client.name}: the hook is silent", why, fix)


def newest_transcript(client: Client, home: Folders) -> int | None:
    """When a session of the client last wrote something, as its files tell."""
    found = ADAPTERS[client.name].transcripts(default_places(home).get(client.name, []))
    return max((path.stat().st_mtime_ns // 1_000_000 for path in found), default=None)


def _switched_off(settings: Settings) -> Iterator[Problem]:
    if not settings.capture.enabled:
        fix = f"Remove enabled = false from [capture] in {settings.config_file}, or unset MCP_MEMORY_CAPTURE_ENABLED."
        yield Problem("capture is switched off", "The setting capture.enabled is false.", fix)
    project = detect(str(project_root()), {})
    if not project.enabled:
        file = Path(project.root) / ".mcp-memory.toml"
        why = f"{file} says enabled = false: its sessions are not remembered."
        yield Problem("this project is switched off", why, f"Remove that line from {file}, if it should be.")


def _tell(problems: list[Problem], checked: list[str]) -> None:
    for found in problems:
        output.text(f"✗ {found.what}\n  {found.why}\n  → {found.fix}")
    if not problems:
        output.text(f"All is well. Checked: {', '.join(checked)}.")
