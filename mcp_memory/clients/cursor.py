"""The adapter of Cursor: its hooks, the transcripts of its agent, and what SpecStory exported of its conversations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_memory.clients import cursor_hooks, cursor_specstory, cursor_transcript
from mcp_memory.clients.folders import Folders
from mcp_memory.clients.lines import files_below, peek
from mcp_memory.clients.port import BadLine, Hooked, Told, TranscriptState

_EXPORT = ".md"


class Cursor:
    """Understands Cursor."""

    name = cursor_hooks.CLIENT

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        return cursor_hooks.hooked(payload, received_ms)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        return cursor_specstory.read(path, state) if path.suffix == _EXPORT else cursor_transcript.read(path, state)

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """Each conversation before its subagents. A directory may hold any other files beside."""
        for place in places:
            found = files_below([place], ".jsonl", _EXPORT)
            yield from (path for path in found if path == place or self.recognizes(path))

    def recognizes(self, path: Path) -> bool:
        if path.suffix == _EXPORT:
            return cursor_specstory.looks_exported(path)
        return any(map(_is_ours, peek(path)))

    def default_places(self, home: Folders) -> list[Path]:
        """Exports lie in the projects themselves: those of the one that we are called in are found."""
        # A relative place is that of the directory we are called in, even if that is gone.
        return [home.path(self.name, ".cursor/projects"), Path(".specstory") / "history"]


def _is_ours(value: Mapping[str, Any]) -> bool:
    return (
        value.get("role") in ("user", "assistant") and isinstance(value.get("message"), Mapping) and "type" not in value
    )
