"""One telling line of a Claude Code transcript: the fields that all of them have, and the events they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_memory.clients.claude_hooks import CLIENT
from mcp_memory.clients.lines import Unreadable, digest
from mcp_memory.clients.port import Told
from mcp_memory.domain.events import Captured, EventType, Role


@dataclass(frozen=True, slots=True)
class Line:
    """The fields that every telling line has. `agent` is the subagent that it belongs to, if any."""

    value: Mapping[str, Any]
    session_id: str
    uuid: str
    ms: int
    cwd: str
    agent: str = ""

    def text(self, key: str) -> str:
        value = self.value.get(key)
        return value if isinstance(value, str) else ""

    def message(self) -> Mapping[str, Any]:
        message = self.value.get("message")
        if not isinstance(message, dict):
            raise Unreadable("message is not an object")
        return message

    def blocks(self) -> list[Mapping[str, Any]]:
        content = self.message().get("content")
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        if not isinstance(content, list):
            raise Unreadable("message.content is neither text nor a list of blocks")
        return [block for block in content if isinstance(block, dict)]

    def tell(
        self,
        key: str,
        event_type: EventType,
        role: Role,
        text: str,
        source_ids: tuple[str, ...] | None = None,
        **metadata: object,
    ) -> Told:
        known = {
            "via": "transcript",
            "prompt_id": self.text("promptId"),
            "cwd": self.cwd,
            "branch": self.text("gitBranch"),
            "agent_id": self.agent,
            "sidechain": bool(self.agent),
            **metadata,
        }
        event = Captured(
            client=CLIENT,
            session_id=self.session_id,
            source_key=key or f"line:{self.uuid or digest(f'{self.ms} {text}')}",
            timestamp_ms=self.ms,
            event_type=event_type,
            role=role,
            text=text,
            source_ids=(self.uuid,) * bool(self.uuid) if source_ids is None else source_ids,
            metadata={name: value for name, value in known.items() if value not in ("", None, False, [])},
        )
        return Told(event, self.cwd)
