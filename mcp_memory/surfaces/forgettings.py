"""What was forgotten when, without a word of it: as a list, and as a line for `status` and `doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_memory.app import App
from mcp_memory.domain.tombstones import Forgetting
from mcp_memory.errors import NotFound, did_you_mean
from mcp_memory.navigate.shapes import iso, tombstones_shape
from mcp_memory.surfaces.output import Answer

_KINDS = {
    "session": "a session",
    "event": "an event",
    "project": "a project",
    "before": "all before a date",
    "match": "a text",
}


def account(found: Mapping[str, Any]) -> str:
    """Return `tombstones_shape` as a sentence."""
    times = "once" if found["times"] == 1 else f"{found['times']} times"
    events = "1 event is" if found["events"] == 1 else f"{found['events']:,} events are"
    return f"Forgotten {times}, last on {found['last']}: {events} refused. `mcp-memory forget --list` tells more."


async def list_forgettings(app: App, *, as_json: bool) -> Answer:
    found = await app.store.tombstones()
    if as_json:
        return tombstones_shape(found) | {"forgettings": [_shape(each) for each in found.forgettings]}
    if not found.forgettings:
        return "Nothing has been forgotten."
    return "\n".join([*map(_line, found.forgettings), "`mcp-memory forget --lift ID` lets it come in again."])


async def lift_forgetting(app: App, name: str, *, as_json: bool) -> Answer:
    """Let what one run of `forget` refuses be imported again."""
    known = [each.id for each in (await app.store.tombstones()).forgettings]
    if name not in known:
        hint = did_you_mean(name, known)
        raise NotFound(f"There is no forgetting {name[:40]!r}.{hint} `mcp-memory forget --list` lists them.")
    await app.inbox.lift(name)
    await app.store.lift(name)
    if as_json:
        return {"lifted": name}
    return f"Lifted {name}: `mcp-memory import` brings in what is still in the clients' transcripts."


def _shape(found: Forgetting) -> dict[str, Any]:
    return {
        "id": found.id,
        "kind": found.kind,
        "at": iso(found.at_ms),
        "events": found.events,
        "refuses_before": iso(found.before_ms) if found.before_ms is not None else None,
    }


def _line(found: Forgetting) -> str:
    events = "1 event" if found.events == 1 else f"{found.events:,} events"
    scope = "only what was stored"
    if found.before_ms is not None:
        scope = f"also refuses what is dated before {iso(found.before_ms)}"
    return f"{found.id}  {iso(found.at_ms)}  {_KINDS[found.kind]}, {events}; {scope}"
