"""What each agent client says, turned into captured events."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from mcp_memory.clients.claude_code import ClaudeCode
from mcp_memory.clients.codex import Codex
from mcp_memory.clients.cursor import Cursor
from mcp_memory.clients.gemini import Gemini
from mcp_memory.clients.jsonl import GenericJsonl
from mcp_memory.clients.port import ClientAdapter, Folders
from mcp_memory.clients.vscode import VSCode

_ALL = (ClaudeCode(), Codex(), Gemini(), Cursor(), VSCode(), GenericJsonl())
#: Every client we understand, by the name that the hook gives it.
ADAPTERS: Mapping[str, ClientAdapter] = MappingProxyType({adapter.name: adapter for adapter in _ALL})


def detect(path: Path) -> ClientAdapter | None:
    """The adapter that recognizes the file; None if none does."""
    return next((adapter for adapter in _ALL if adapter.recognizes(path)), None)


def default_places(home: Folders) -> dict[str, list[Path]]:
    """Where the known clients keep their transcripts below a home directory, by the client's name."""
    return {adapter.name: places for adapter in _ALL if (places := adapter.default_places(home))}
