"""Where else the words of a request to forget are: transcripts, exports, copies, and a memory that was left behind.

None of them is the memory, and forgetting does not reach them. Whatever can be found is named, so that its owner can
delete it; what cannot be looked at is said in words.
"""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from anyio import to_thread

from mcp_memory.clients import CLIENTS, user_folders
from mcp_memory.config import Settings, environment
from mcp_memory.domain.events import parse_ulid
from mcp_memory.domain.forget import KEY_BEGINNING, ForgetRequest, ForgetScope
from mcp_memory.domain.handed import key_of
from mcp_memory.errors import BadId, MemoryFault
from mcp_memory.store.inbox_port import CopyKind, CopyMade
from mcp_memory.store.sqlite import left_behind
from mcp_memory.surfaces.clean_transcripts import CleanedTranscript
from mcp_memory.surfaces.forget_transcripts import (
    BRIEF_SECONDS,
    MAX_SECONDS,
    LineFinder,
    Progress,
    TranscriptLines,
    search_transcripts,
)

if TYPE_CHECKING:
    from mcp_memory.app import App

_SQLITE = b"SQLite format 3\0"
_GZIP = b"\x1f\x8b"
#: What the data directory holds beside copies: these files are cleaned, emptied or hold no words.
_OWN_FOLDERS = frozenset({"whoosh", "spool", "logs"})
#: Files of the data directory that hold settings and names alone.
_OWN_FILES = frozenset(
    "config.toml config.json token browsers registrations.json team.json team-state.json team-known.json".split()
)
_COMPANIONS = ("", "-wal", "-shm", "-journal")
#: Ids of grips and of events, as exports write them.
_IDS = re.compile(r"grip:[\w:.-]+|\b[0-9A-HJKMNP-TV-Z]{26}\b", re.IGNORECASE)
#: A file is read in lines of at most this length, so that one without line ends fits into memory.
_LINE_BYTES = 1 << 24
#: How many names are written out; --json has all.
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What holds the words beside the memory.

    `old` are the files of a memory that has moved to a server; `holds_old` tells whether they hold what is forgotten.
    `servers` are databases that were left or filled by a move. `unsearched` counts the transcripts for which there was
    no time. `cleaned` says what became of transcripts, once their lines were removed.
    """

    old: tuple[Path, ...] = ()
    holds_old: bool = False
    copies: tuple[Path, ...] = ()
    servers: tuple[str, ...] = ()
    transcripts: tuple[TranscriptLines, ...] = ()
    unsearched: int = 0
    cleaned: tuple[CleanedTranscript, ...] = ()
    #: Directories of checkouts and of transcripts that bear the text in their path.
    directories: tuple[str, ...] = ()
    #: What was not looked at, in words.
    unseen: tuple[str, ...] = ()
    scope: ForgetScope | None = None

    @property
    def unscrubbed(self) -> str:
        """Return why the words are still in a memory of this program; empty if they are not."""
        return f"the memory that was left behind in {self.old[0]} still holds it" if self.holds_old else ""

    def remarks(self) -> Iterator[str]:
        """Return what the user should know, and do."""
        if self.holds_old:
            yield (
                f"The memory that was left behind when it moved to a server still holds it: {listed(self.old)}. "
                "`mcp-memory move --erase-old` deletes it with its backups."
            )
        elif self.old:
            yield f"Nothing of it was found in the memory that was left behind: {listed(self.old)}."
        for server in self.servers:
            yield f"A copy of the memory may still be in {server}, which is not touched: drop its schema there."
        if self.transcripts and not self.cleaned:
            yield from self._about_transcripts()
        yield from self._about_cleaned()
        if self.unsearched:
            yield (
                f"{self.unsearched:,} more transcripts were not searched, since that takes too long here. "
                "`mcp-memory forget` on the command line searches longer."
            )
        if self.directories:
            yield (
                f"The text stands in the path of a directory, which memory cannot rename: {listed(self.directories)}. "
                "What is done there is captured with that path again."
            )
        if self.unseen:
            yield f"Not looked at: {'; '.join(self.unseen)}."

    def _about_transcripts(self) -> Iterator[str]:
        lines, files = Counter[str](), Counter[str]()
        removable = [each for each in self.transcripts if not each.fixed]
        others = [each for each in self.transcripts if each.fixed]
        for each in removable:
            lines[each.client] += each.lines
            files[each.client] += 1
        counts = [
            f"{CLIENTS[name].title} ({_many(lines[name], 'line')} in {_many(files[name], 'file')})" for name in lines
        ]
        if removable:
            yield (
                f"Transcripts of your clients hold it, which are not touched: {', '.join(counts)}. "
                "`mcp-memory forget` with --transcripts removes these lines."
            )
            yield from _rows(removable)
        if others:
            yield "Other files of your clients hold it, which this program does not change:"
            yield from _rows(others)

    def _about_cleaned(self) -> Iterator[str]:
        removed = [each for each in self.cleaned if each.removed]
        if removed:
            lines = sum(each.removed for each in removed)
            yield f"Removed {_many(lines, 'line')} from {_many(len(removed), 'transcript')}."
        for each in self.cleaned:
            if each.left:
                yield f"  {each.path}: {each.left}."
        backups = {each.backup.parents[2] for each in self.cleaned if each.backup and each.backup.exists()}
        for folder in backups:
            yield f"The transcripts as they were are in {folder}, words included. Delete them with: rm -r '{folder}'"

    def shape(self) -> dict[str, Any]:
        """Return it for JSON."""
        outcomes = {each.path: each for each in self.cleaned}
        rows = []
        for client, path, lines, fixed in self.transcripts:
            outcome = outcomes.get(path, CleanedTranscript(client, path, left=fixed))
            backup = str(outcome.backup) if outcome.backup and outcome.backup.exists() else None
            row = {"client": client, "path": str(path), "lines": lines, "removed": outcome.removed}
            rows.append({**row, "left": outcome.left, "backup": backup})
        return {
            "transcripts": rows,
            "unsearched": self.unsearched,
            "servers": list(self.servers),
            "directories": list(self.directories),
            "unseen": list(self.unseen),
        }


async def look_elsewhere(
    app: App,
    request: ForgetRequest,
    scope: ForgetScope,
    made: Sequence[Path],
    checkouts: Sequence[str],
    progress: Progress | None,
) -> Elsewhere:
    """Look for the words of a request outside the memory.

    `made` are copies that go with the memory's own events, `checkouts` directories whose path bears the text.
    Transcripts are searched if there is a `progress` to report.
    """
    noted = await app.inbox.copies_made()
    own = frozenset({*made, *app.store.copies()})
    found = await to_thread.run_sync(_look, app.settings, request, scope, own, noted)
    if progress is None:
        return replace(found, directories=tuple(checkouts))
    imported = [Path(copy.path) for copy in noted if copy.kind is CopyKind.IMPORT]
    seconds = MAX_SECONDS if app.typed else BRIEF_SECONDS
    search = partial(search_transcripts, user_folders(environment()), scope, imported, progress, seconds)
    transcripts = await to_thread.run_sync(search)
    return replace(
        found,
        transcripts=transcripts.found,
        unsearched=transcripts.unsearched,
        directories=tuple(sorted({*checkouts, *transcripts.directories})),
    )


async def checkouts_named(app: App, request: ForgetRequest) -> tuple[str, ...]:
    """Return the directories of projects whose path holds the text of a request."""
    if request.match is None:
        return ()
    scope = ForgetScope(request)
    paths = {place.path for info in await app.store.projects() for place in info.places}
    named = sorted(path for path in paths if path and scope.is_in(path))
    return tuple(await to_thread.run_sync(lambda: [path for path in named if Path(path).is_dir()]))


def _look(
    settings: Settings, request: ForgetRequest, scope: ForgetScope, made: frozenset[Path], noted: Sequence[CopyMade]
) -> Elsewhere:
    old = tuple(left_behind.files_of(settings.database)) if settings.store.url else ()
    finder = LineFinder(scope)
    copies = [*old, *find_copies(settings, finder, made)]
    copies += [path for copy in noted for path in _of_noted(copy, finder) if path not in made]
    return Elsewhere(
        old=old,
        holds_old=bool(old) and left_behind.may_hold(settings.database, request),
        copies=tuple(dict.fromkeys(copies)),
        servers=tuple(_servers(settings, noted)),
        unseen=tuple(_unseen(settings)),
        scope=scope,
    )


def find_copies(settings: Settings, finder: LineFinder, made: frozenset[Path]) -> Iterator[Path]:
    """Return the files anywhere in the data directory that hold the words, apart from the memory's own."""
    databases = [settings.inbox] + ([] if settings.store.url else [settings.database])
    own = {file.with_name(file.name + suffix) for file in databases for suffix in _COMPANIONS} | made
    for folder, folders, names in os.walk(settings.home):
        place = Path(folder)
        if place == settings.home:
            folders[:] = sorted(set(folders) - _OWN_FOLDERS)
            names = [name for name in names if name not in _OWN_FILES]
        for path in (place / name for name in sorted(names)):
            with suppress(OSError):
                if path not in own and path.is_file() and is_copy(path, finder):
                    yield path


def is_copy(path: Path, finder: LineFinder) -> bool:
    """Whether a file holds what the request takes, or is a database that cannot be searched."""
    with path.open("rb") as file:
        head = file.read(len(_SQLITE))
        # What was set aside may lack its beginning.
        if head == _SQLITE or ".db.corrupt-" in path.name:
            return ".db.corrupt-" in path.name or left_behind.holds(path, finder.scope.request)
        file.seek(0)
        if not head.startswith(_GZIP):
            return any(_is_taken(raw, finder) for raw in _lines(file))
    with suppress(OSError, EOFError), gzip.open(path) as packed:
        return packed.read(len(_SQLITE)) == _SQLITE or any(_is_taken(raw, finder) for raw in _lines(packed))
    return False


def _lines(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while raw := file.readline(_LINE_BYTES):
        yield raw


def _is_taken(raw: bytes, finder: LineFinder) -> bool:
    """Whether a line of an export holds the words, or comes from an event that is forgotten."""
    if finder.scope.request.match is None or not finder.holds(raw):
        found = _IDS.findall(raw.decode("utf-8", "replace")) if finder.scope.beginnings else ()
        return any(_key_beginning(name) in finder.scope.beginnings for name in found) or (
            finder.scope.request.match is None and finder.takes(raw)
        )
    return True


def _key_beginning(name: str) -> bytes:
    if name.lower().startswith("grip:"):
        return key_of(name)
    try:
        return parse_ulid(name)[1][:KEY_BEGINNING]
    except BadId:
        return b""


def _of_noted(copy: CopyMade, finder: LineFinder) -> Iterator[Path]:
    """Return the files of a noted place that hold the words."""
    path = Path(copy.path)
    if copy.kind in (CopyKind.SERVER, CopyKind.IMPORT) or not path.exists():
        return
    files = [path] if path.is_file() else [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    for file in sorted(files):
        with suppress(OSError):
            if file.is_file() and is_copy(file, finder):
                yield file


def _servers(settings: Settings, noted: Sequence[CopyMade]) -> Iterator[str]:
    """Return the addresses of servers that have a copy, apart from the one that the memory is on."""
    current = ""
    if settings.store.url:
        from mcp_memory.store.postgres.database import shown

        current = shown(settings.store.url)
    yield from (
        copy.path
        for copy in noted
        if copy.kind is CopyKind.SERVER and copy.path != current and not _is_dropped(copy.path)
    )


def _is_dropped(url: str) -> bool:
    """Whether a server is known to have no memory any more; one that cannot be asked may have it."""
    from mcp_memory.store.postgres.tables import ServerTables

    with suppress(MemoryFault):
        return not ServerTables.is_there(url)
    return False


def _unseen(settings: Settings) -> Iterator[str]:
    if settings.account.exists():
        yield "the laptops of other members of the team, and dumps of the team's server"


def _rows(transcripts: Sequence[TranscriptLines]) -> Iterator[str]:
    yield from (f"  {each.path}: {_many(each.lines, 'line')}" for each in transcripts[:_SHOWN])
    if len(transcripts) > _SHOWN:
        yield f"  … and {len(transcripts) - _SHOWN} more (all with --json)"


def listed(names: Sequence[object]) -> str:
    """Return the first of the names, and how many more there are."""
    shown = ", ".join(map(str, names[:_SHOWN]))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more (all with --json)"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + "s" * (count != 1)
