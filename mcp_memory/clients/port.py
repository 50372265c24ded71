"""What the adapters of clients tell: hook payloads and transcripts as events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mcp_memory.domain.events import Captured


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of a transcript that could not be read."""

    path: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Hooked:
    """What one hook payload means.

    `transcript` names a file to read on from where it was left. `unknown` marks a payload of no known form, which is
    kept. `fallback` events are stored only if the transcript does not tell the same text. `compacting`: the client is
    about to replace the session's words by a summary.
    """

    session_id: str = ""
    events: tuple[Captured, ...] = ()
    fallback: tuple[Captured, ...] = ()
    transcript: Path | None = None
    unknown: bool = False
    compacting: bool = False


@dataclass(slots=True)
class TranscriptState:
    """What must be remembered between two reads of one growing transcript; JSON-serializable in `memory`."""

    offset: int = 0
    line: int = 0
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """One event of a transcript with the directory it was said in; `was_note`: the source calls it a note or pinned."""

    event: Captured
    cwd: str = ""
    project: str = ""
    was_note: bool = False


class ClientAdapter(Protocol):
    """Understands one agent client: its hook payloads and its transcripts."""

    @property
    def name(self) -> str: ...

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Hooked:
        """Turn a hook payload into events. Never raises: what it cannot read is `unknown`."""
        ...

    def read(self, path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
        """Read a transcript from `state.offset`, advancing `state` after each line taken.

        A last line without a newline is left for the next time, unless it is complete JSON.
        """
        ...

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """The transcript files among these files and directories."""
        ...

    def recognizes(self, path: Path) -> bool:
        """Whether the file looks like a transcript of this client."""
        ...


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
