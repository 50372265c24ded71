"""The adapter of Claude Code: its hooks, its transcripts and where it keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_memory.clients import claude_hooks, claude_transcript
from mcp_memory.clients.folders import Folders
from mcp_memory.clients.lines import files_below, peek
from mcp_memory.clients.port import BadLine, Hooked, Told, TranscriptState

_TYPES = frozenset("user assistant system attachment progress queue-operation pr-link".split())
#: Lines without a session that a transcript may begin with, each with a field that only it has.
_OPENERS = {"summary": "leafUuid", "file-history-snapshot": "snapshot"}


class ClaudeCode:
    """Understands Claude Code."""

    name = claude_hooks.CLIENT

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        return claude_hooks.hooked(payload, received_ms)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        return claude_transcript.read(path, state)

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """Each session comes before its subagents: `s.jsonl` sorts before `s/subagents/`."""
        return files_below(places)

    def recognizes(self, path: Path) -> bool:
        return any(map(_is_ours, peek(path)))

    def default_places(self, home: Folders) -> list[Path]:
        return [home.path(self.name, ".claude/projects")]


def _is_ours(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    opener = _OPENERS.get(kind)
    return opener in value if opener else kind in _TYPES and isinstance(value.get("sessionId"), str)
