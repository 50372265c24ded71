"""The adapter of Codex: its hooks, its rollouts and where it keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_memory.clients import codex_hooks, codex_rollout
from mcp_memory.clients.folders import Folders
from mcp_memory.clients.lines import files_below, peek
from mcp_memory.clients.port import BadLine, Hooked, Told, TranscriptState

_TYPES = frozenset("session_meta turn_context response_item event_msg compacted".split())


class Codex:
    """Understands Codex."""

    name = codex_hooks.CLIENT

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        return codex_hooks.hooked(payload, received_ms)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        return codex_rollout.read(path, state)

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """A session's rollout comes before those of its subagents: names begin with the time."""
        return files_below(places)

    def recognizes(self, path: Path) -> bool:
        return any(map(_is_ours, peek(path)))

    def default_places(self, home: Folders) -> list[Path]:
        return [home.path(self.name, f".codex/{name}") for name in ("sessions", "archived_sessions")]


def _is_ours(value: Mapping[str, Any]) -> bool:
    if isinstance(value.get("type"), str) and value["type"] in _TYPES:
        return isinstance(value.get("payload"), Mapping)
    # Early versions began with the session's fields alone.
    return {"id", "timestamp", "instructions"} <= value.keys()
