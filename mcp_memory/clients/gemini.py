"""The adapter of Gemini CLI: its hooks, its transcripts and where it keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_memory.clients import gemini_hooks, gemini_transcript
from mcp_memory.clients.folders import Folders
from mcp_memory.clients.lines import files_below, parse, peek
from mcp_memory.clients.port import BadLine, Hooked, Told, TranscriptState

_HEADER = frozenset({"sessionId", "projectHash"})


class Gemini:
    """Understands Gemini CLI."""

    name = gemini_hooks.CLIENT

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        return gemini_hooks.hooked(payload, received_ms)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        return gemini_transcript.read(path, state)

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """Beside its chats the client keeps other files, such as its settings."""
        for place in places:
            found = files_below([place], ".jsonl", ".json")
            yield from (path for path in found if path == place or self._is_chat(path))

    def recognizes(self, path: Path) -> bool:
        if path.suffix == ".json":
            return _is_document(path)
        return any(value.keys() >= _HEADER for value in peek(path))

    def default_places(self, home: Folders) -> list[Path]:
        return [home.path(self.name, ".gemini/tmp")]

    def _is_chat(self, path: Path) -> bool:
        return path.parent.name == "chats" or path.parent.parent.name == "chats" or self.recognizes(path)


def _is_document(path: Path) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    if not all(name.encode() in data for name in _HEADER):  # a directory may hold any other JSON, however large
        return False
    values, _ = parse(data)
    return any(isinstance(value, Mapping) and value.keys() >= _HEADER for value in values)
