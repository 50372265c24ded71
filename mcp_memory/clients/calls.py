"""One call of a hook: its payload, and the events it becomes. Every client's hook adapter starts here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_memory.clients.account import Account, path_of, text_of
from mcp_memory.clients.lines import whole
from mcp_memory.clients.port import Hooked
from mcp_memory.domain.events import Captured, EventType, Role


@dataclass(frozen=True, slots=True)
class Call:
    payload: Mapping[str, Any]
    account: Account

    def text(self, key: str) -> str:
        return text_of(self.payload, key)

    def path(self, key: str = "transcript_path") -> Path | None:
        return path_of(self.payload, key)

    def event(
        self,
        key: str,
        event_type: EventType,
        role: Role,
        text: str,
        source_ids: tuple[str, ...] = (),
        **metadata: object,
    ) -> Captured:
        return self.account.event(key, event_type, role, text, source_ids, **metadata)

    def hooked(self, *events: Captured, fallback: tuple[Captured, ...] = (), path: Path | None = None) -> Hooked:
        return Hooked(self.account.session_id, events, fallback, path or self.path())


Reader = Callable[[Call], Hooked | None]


def understood(
    payload: Mapping[str, Any], session: str, read: Reader | None, account: Callable[[Mapping[str, Any]], Account]
) -> Hooked:
    """What a payload means by the reader of its event; one without a reader, or of no known form, is kept as it is."""
    try:
        payload = whole(dict(payload))
        result = read(Call(payload, account(payload))) if read else None
    except RecursionError:
        result = None
    return result or Hooked(session, unknown=True)


def session_start(call: Call) -> Hooked:
    source = call.text("source")
    key = f"start:{source}:{call.account.ms}"
    return call.hooked(call.event(key, EventType.SESSION_START, Role.SYSTEM, source, source=source))


def session_end(call: Call) -> Hooked:
    reason = call.text("reason")
    key = f"end:{reason}:{call.account.ms}"
    return call.hooked(call.event(key, EventType.SESSION_END, Role.SYSTEM, reason, reason=reason))
