"""From what a client told to what is stored: redact, clip, count. The only way into the event log."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_memory.capture.clipping import clean, clip, looked_through
from mcp_memory.capture.redaction import Clean, redact, redact_json
from mcp_memory.domain.events import TIMES, Captured, Event, Role, event_key, opaque

CountAll = Callable[[Sequence[str]], list[int]]
Cleared = tuple[Clean, bool]


@dataclass(frozen=True, slots=True)
class Intaker:
    """How events are prepared: size limit, how much of a tool result counts, and the tokenizer."""

    max_event_bytes: int
    tool_result_chars: int
    count_all: CountAll

    def prepare(self, captured: Sequence[Captured]) -> list[Event]:
        """Events ready to be stored; their project is given by the store."""
        texts = self.clear(captured)
        return self.events(captured, texts, self.count(captured, texts))

    def clear(self, captured: Sequence[Captured]) -> list[Cleared]:
        """The texts without secrets and no longer than the limit, and whether they were cut."""
        texts = [
            clip(redact(looked_through(clean(item.text), self.max_event_bytes)), self.max_event_bytes)
            for item in captured
        ]
        # White space alone says nothing: such an event is kept for its time, without a text.
        return [(Clean(text if text.strip() else ""), cut) for text, cut in texts]

    def count(self, captured: Sequence[Captured], texts: Sequence[Cleared]) -> list[int]:
        """One tokenizer pass for all of them."""
        return self.count_all(
            [
                text[: self.tool_result_chars] if item.role is Role.TOOL else text
                for item, (text, _) in zip(captured, texts, strict=True)
            ]
        )

    def events(self, captured: Sequence[Captured], texts: Sequence[Cleared], counted: Sequence[int]) -> list[Event]:
        return [
            Event(
                key=item.key or event_key(item.client, item.session_id, item.source_key),
                client=item.client,
                session_id=_named(item.session_id),
                project="",
                timestamp_ms=min(max(item.timestamp_ms, TIMES.start), TIMES.stop - 1),
                event_type=item.event_type,
                role=item.role,
                text=text,
                tokens=tokens,
                truncated=cut,
                source_ids=tuple(map(_named, item.source_ids)),
                metadata=redact_json(_finite(dict(item.metadata))),
            )
            for item, (text, cut), tokens in zip(captured, texts, counted, strict=True)
        ]


def _named(name: str) -> str:
    """A client's own name for something. A secret in it is taken out, and what is left still tells it from others."""
    clear = redact(clean(name))
    return clear if clear == name else f"{clear} {opaque(name)[:8]}"


def _finite(value: Any) -> Any:
    """The value with null for numbers that JSON has no word for, and that no reader of the database would take."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
