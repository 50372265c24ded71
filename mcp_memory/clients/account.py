"""One account of something that happened: what all events of a hook payload or a transcript's line have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcp_memory.clients.port import Told
from mcp_memory.domain.events import Captured, EventType, Role

HOOK = "hook"
TRANSCRIPT = "transcript"
_NOTHING: tuple[object, ...] = ("", None, False, [])


@dataclass(frozen=True, slots=True)
class Account:
    """Who tells it, of which session, when and from where; `facts` go into the metadata of every event."""

    client: str
    session_id: str
    ms: int
    via: str
    cwd: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)

    def at(self, ms: int, **facts: object) -> Account:
        return replace(self, ms=ms, facts={**self.facts, **facts})

    def event(
        self,
        key: str,
        event_type: EventType,
        role: Role,
        text: str,
        source_ids: tuple[str, ...] = (),
        **metadata: object,
    ) -> Captured:
        known = {"via": self.via, "cwd": self.cwd, **self.facts, **metadata}
        return Captured(
            client=self.client,
            session_id=self.session_id,
            source_key=key,
            timestamp_ms=self.ms,
            event_type=event_type,
            role=role,
            text=text,
            source_ids=source_ids,
            metadata={name: value for name, value in known.items() if value not in _NOTHING},
        )

    def tell(
        self,
        key: str,
        event_type: EventType,
        role: Role,
        text: str,
        source_ids: tuple[str, ...] = (),
        **metadata: object,
    ) -> Told:
        return Told(self.event(key, event_type, role, text, source_ids, **metadata), self.cwd)


def text_of(value: object, key: str) -> str:
    """A field that should be text; empty if it is missing or something else."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else ""


def object_of(value: object, key: str) -> Mapping[str, Any]:
    """A field that should be an object; empty if it is missing or something else."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def path_of(value: object, key: str) -> Path | None:
    name = text_of(value, key)
    return Path(name) if name and "\0" not in name else None
