"""Where the clients keep what is theirs: below one directory, or where the user has moved a client's own folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: The folder below the home directory that a client's variable moves; that of Gemini CLI moves the home itself.
_OWN = {"claude-code": ".claude/", "codex": ".codex/", "gemini": ""}


@dataclass(frozen=True, slots=True)
class Folders:
    """A home or project directory, and the clients' folders that lie elsewhere, by the client's name."""

    root: Path
    moved: Mapping[str, Path] = field(default_factory=dict)

    def path(self, client: str, name: str) -> Path:
        """A client's file or folder, named as it lies below the root.

        What Claude Code keeps beside its folder it keeps inside once that is moved.
        """
        folder = self.moved.get(client)
        return folder / name.removeprefix(_OWN[client]) if folder else self.root / name

    def exists(self, client: str, name: str) -> bool:
        return self.moved[client].exists() if client in self.moved else (self.root / name).exists()


def of_user(moved: Mapping[str, Path]) -> Folders:
    """The user's home, with the folders that the user has moved elsewhere."""
    return Folders(Path.home(), moved)
