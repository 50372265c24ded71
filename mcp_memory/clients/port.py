"""What a client is to the rest of the program: one row that says all there is to know of it, and what its reader gives.

The rows themselves stand in `mcp_memory.clients`. They are data alone, so that a command which only needs a name or a
settings file does not load the readers.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from mcp_memory.domain.events import Captured

#: The scopes of an installation: the user's settings, or those of one project.
USER = "user"
PROJECT = "project"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of a transcript that could not be read."""

    path: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
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


class ClientReader(Protocol):
    """What the module of a client offers."""

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Reading:
        """Turn a hook payload into events. Never raises: what it cannot read is `unknown`."""
        ...

    def read(self, path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
        """Read a transcript from `state.offset`, advancing `state` after each line taken.

        A last line without a newline is left for the next time, unless it is complete JSON.
        """
        ...

    def recognizes(self, path: Path) -> bool:
        """Whether the file looks like a transcript of this client."""
        ...


@dataclass(frozen=True, slots=True)
class Folders:
    """A home or project directory, and the clients' folders that lie elsewhere, by the client's name."""

    root: Path
    moved: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How hook and server are registered with a client.

    `hooks` and `servers` name the settings files by scope, below the home or the project directory. `timeout` is in the
    client's own unit; `shorter` gives the events to which it allows less. A hook of ours stands in a group with others
    if hooks are `grouped`; `hook_extra` and `server_extra` are what each entry needs beside the command, `top` what the
    servers' file needs beside the entry, `version` what the hooks' file begins with. `signs` (files below the home
    directory) and `programs` tell that the client is here. `plugins` is the setting that lists the plugins in use, one
    of which may bring hook and server; a client that `asks_trust` runs hooks only once the user has agreed to them.
    """

    events: tuple[str, ...]
    hooks: Mapping[str, str]
    servers: Mapping[str, str]
    timeout: int
    shorter: Mapping[str, int] = field(default_factory=dict)
    hook_extra: Mapping[str, Any] = field(default_factory=dict)
    server_extra: Mapping[str, Any] = field(default_factory=dict)
    top: Mapping[str, int] = field(default_factory=dict)
    grouped: bool = True
    version: int | None = None
    signs: tuple[str, ...]
    programs: tuple[str, ...]
    plugins: str = ""
    asks_trust: bool = False
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """All that is known of one client: install, import, doctor, the pipeline and the docs' tests read it here.

    `reader` is the module of `mcp_memory.clients` that understands it, or an object with the same functions. `variable`
    moves `folder`, which is below the home directory. Its transcripts end in `suffixes` and lie in `places` below the
    home directory and in `local_places` below the current one. A directory that is `mixed` holds other files, too: of
    these count what the reader recognizes, and all in a folder called `chats`.
    """

    name: str
    title: str
    reader: str | ClientReader
    folder: str = ""
    variable: str = ""
    suffixes: tuple[str, ...] = (".jsonl",)
    places: tuple[str, ...] = ()
    local_places: tuple[str, ...] = ()
    mixed: bool = False
    chats: str = ""
    prompt_logs: tuple[str, ...] = ()
    opens_with_header: bool = False
    setup: Setup | None = None

    @property
    def _reader(self) -> ClientReader:
        if not isinstance(self.reader, str):
            return self.reader
        return cast("ClientReader", importlib.import_module(f"mcp_memory.clients.{self.reader}"))

    def hook(self, payload: Mapping[str, Any], received_ms: int) -> Reading:
        return self._reader.hook(payload, received_ms)

    def read(self, path: Path, state: TranscriptState) -> Iterator[Captured | BadLine]:
        return self._reader.read(path, state)

    def recognizes(self, path: Path) -> bool:
        return self._reader.recognizes(path)

    def transcripts(self, places: Sequence[Path]) -> Iterable[Path]:
        """The transcripts among these files and directories. A session comes before its subagents."""
        for path in files_below(places, self.suffixes):
            parents = (path.parent.name, path.parent.parent.name)
            if not self.mixed or path in places or (self.chats and self.chats in parents) or self.recognizes(path):
                yield path

    def default_places(self, home: Folders) -> list[Path]:
        """Where it keeps its transcripts. A relative place is below the current directory, even if that is gone."""
        found: list[Path] = []
        for place in self.places:
            found += sorted(home.root.glob(place)) if "*" in place else [self.path(home, place)]
        return found + [Path(place) for place in self.local_places]

    def path(self, home: Folders, name: str) -> Path:
        """A file or folder of the client, named as it lies below the home directory.

        What Claude Code keeps beside its folder it keeps inside once that is moved.
        """
        moved = home.moved.get(self.name)
        return moved / name.removeprefix(self.folder) if moved else home.root / name

    def settings_files(self, scope: str, root: Folders) -> list[Path]:
        """The settings files of the scope; none if the client has no such scope."""
        setup = self.registered
        names = [places[scope] for places in (setup.hooks, setup.servers) if scope in places]
        return [self.path(root, name) for name in dict.fromkeys(names)]

    def is_here(self, home: Folders) -> bool:
        """Whether the client seems to be in use on this machine."""
        if self.name in home.moved:
            signs = [home.moved[self.name]]
        else:
            signs = [home.root / sign for sign in self.registered.signs]
        return any(sign.exists() for sign in signs) or any(map(shutil.which, self.registered.programs))

    @property
    def registered(self) -> Setup:
        """How it is registered with; only for clients of `installable`."""
        assert self.setup is not None
        return self.setup


def files_below(places: Sequence[Path], suffixes: Sequence[str] = (".jsonl",)) -> Iterator[Path]:
    """Files as they are given, and those with one of the suffixes in the given directories, each once.

    Of a directory the files of each suffix come in turn, sorted: `s.jsonl` before `s/subagents/`. A pipe or a socket is
    no file: reading it would wait for someone to write.
    """
    seen: set[Path] = set()
    for place in places:
        if place.is_dir():
            inside = [Path(folder, name) for folder, _, names in os.walk(place) for name in names]
            inside.sort(key=os.fspath)
            found = [path for suffix in suffixes for path in inside if path.name.endswith(suffix) and path.is_file()]
        else:
            found = [place] if place.is_file() else []
        for path in found:
            if path not in seen:
                seen.add(path)
                yield path
