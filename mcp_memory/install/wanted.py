"""What a settings file should hold of ours, and what it does hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Wanted:
    """Hooks by event, the server's entry, and `top`: settings at the top of the file, unless the user has set them.

    `grouped`: a hook stands in a group with a matcher, as Claude Code's.
    """

    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    server: Mapping[str, Any] | None = None
    grouped: bool = True
    version: int | None = None
    top: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """Our hook commands by event, our server's entries, where each hook stands (event, group, …), our top settings."""

    hooks: Mapping[str, list[str]] = field(default_factory=dict)
    servers: list[Mapping[str, Any]] = field(default_factory=list)
    places: list[tuple[str | int, ...]] = field(default_factory=list)
    top: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.hooks or self.servers or self.top)
