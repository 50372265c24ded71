"""`import` and `demo`: where history is read from, and how it comes into memory."""

from __future__ import annotations

import argparse
import codecs
import gzip
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import anyio

from mcp_memory import sample
from mcp_memory.app import App
from mcp_memory.clients import CLIENTS, default_places, detect, user_folders
from mcp_memory.clients.jsonl import event_of_line
from mcp_memory.clients.port import BadLine, Client, Folders
from mcp_memory.config import environment
from mcp_memory.domain.events import Captured, Intake
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.toc import Level, Scope
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.pipeline.importing import import_files
from mcp_memory.pipeline.ingest import reason_of
from mcp_memory.store.inbox_port import CopyKind
from mcp_memory.surfaces import output
from mcp_memory.surfaces.noted_places import note_place
from mcp_memory.surfaces.output import Answer
from mcp_memory.surfaces.process_command import until_idle
from mcp_memory.surfaces.server import first_steps

_SHOWN_SKIPPED = 20
#: How many days `demo` shows.
_LATEST = 3
#: Directories that hold a program's own files, and no one's history.
_PROGRAMS = frozenset({".git", "node_modules", ".venv", "__pycache__"})
_TRANSCRIPTS = frozenset({".jsonl", ".json", ".md"})
_STDIN = "-"
_PART = 1 << 20
_SAMPLE = 4096
#: Where Linux lists what a process has open; each opened there is read from its start.
_OPEN_FILES = Path("/proc/self/fd")
_GZIP = b"\x1f\x8b"
#: How a file begins that PowerShell has written by `>`.
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UNPACKABLE = (EOFError, zlib.error, gzip.BadGzipFile, UnicodeError)
#: A file without a name is open as long as it is needed, and no process may have many open.
_MOST_NAMELESS = 200
Source = tuple[Client, Path]


async def load(app: App, options: argparse.Namespace) -> Answer:
    home = user_folders(environment())
    shown = not options.json
    with ExitStack() as stack:
        with output.spinner("Looking for history", enabled=shown):
            # Whoever interrupts it does not wait for a pipe that says nothing.
            paths, files = await anyio.to_thread.run_sync(
                stack.enter_context, laid_out(options.paths), abandon_on_cancel=True
            )
            sources, unknown = await anyio.to_thread.run_sync(find_sources, home, paths, options.client, files)
        root = await app.store.root_of(options.project) if options.project else None
        with output.progress("Importing", enabled=shown, unit=output.BYTES) as progress:
            result = await import_files(
                app.store,
                app.inbox,
                sources,
                app.intaker,
                project=options.project or "",
                project_root=root or "",
                dry_run=options.dry_run,
                passing=files.names,
                progress=progress,
            )
    if not options.dry_run:
        await _note_sources(app, options.paths)
    skipped = [files.called(bad) for bad in (*unknown, *result.skipped)]
    shape: dict[str, Any] = {
        "files": result.files,
        "events_new": result.events_new,
        "events_known": result.events_known,
        "skipped": [{"path": bad.path, "line": bad.line, "reason": bad.reason} for bad in skipped],
        "notes_as_events": result.notes,
        "seconds": result.seconds,
    }
    if options.dry_run:
        shape |= {"dry_run": True, "projects": result.projects, "months": dict(sorted(result.months.items()))}
    if not (result.events_new or result.events_known or any(bad.line for bad in skipped)):
        shape["hint"] = looked_for(home, options.paths, options.client)
    return shape if options.json else "\n".join(_told(shape))


async def _note_sources(app: App, names: Sequence[str]) -> None:
    """Remember which files and directories a user has imported, so that `forget` finds the transcripts again."""
    for path in [Path(name) for name in names if name != _STDIN]:
        if path.is_dir() or path.is_file():
            await note_place(app, path, CopyKind.IMPORT)


def _told(shape: Mapping[str, Any]) -> Iterator[str]:
    lines = sum(1 for bad in shape["skipped"] if bad["line"])
    files = len(shape["skipped"]) - lines
    verb = "would be new" if "dry_run" in shape else "new"
    yield (
        f"{shape['files']} files: {shape['events_new']} events {verb}, {shape['events_known']} known, "
        f"{lines} lines{f' and {files} files' if files else ''} skipped, in {shape['seconds']:.1f} s"
    )
    for name in ("projects", "months"):
        yield from (f"  {key}: {count}" for key, count in shape.get(name, {}).items())
    for bad in shape["skipped"][:_SHOWN_SKIPPED]:
        place = f"{bad['path']}:{bad['line']}" if bad["line"] else bad["path"]
        yield f"  {place}: {bad['reason']}"
    if len(shape["skipped"]) > _SHOWN_SKIPPED:
        yield f"  … and {len(shape['skipped']) - _SHOWN_SKIPPED} more (all with --json)"
    if notes := shape["notes_as_events"]:
        yield f"{notes} lines that say they are notes, or pinned, are ordinary events here; `remember` keeps notes."
    if "hint" in shape:
        yield shape["hint"]
    if shape["events_new"] and "dry_run" not in shape:
        yield "Next: `mcp-memory process` builds the table of contents (a running server does so by itself)."


class LaidOut:
    """Standard input, pipes, compressed files and those in UTF-16, each as a plain file for the time of an import."""

    def __init__(self, folder: Path, kept: ExitStack) -> None:
        self._folder, self._kept = folder, kept
        #: What the user calls each of these files.
        self.names: dict[Path, str] = {}

    def add(self, name: str) -> str:
        """The path to read for a name that was given: its own, or that of a copy."""
        if name == _STDIN:
            return self._copy(sys.stdin.buffer, name, "stdin.jsonl")
        path = Path(name)
        try:
            mode = path.stat().st_mode
            if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
                raise UsageError(
                    f"{path} is a device. Give a transcript, a directory that holds some, or - for a pipe."
                )
            if stat.S_ISFIFO(mode):
                with path.open("rb") as pipe:
                    return self._copy(pipe, name, f"{path.name}.jsonl")
            return str(self.plain(path)) if stat.S_ISREG(mode) else name
        except _UNPACKABLE as error:
            raise UsageError(f"{path} cannot be unpacked: {error}. Nothing was imported.") from error
        except (FileNotFoundError, PermissionError):
            return name  # told where it is looked for

    def plain(self, path: Path) -> Path:
        """The path to read for a file: its own, or that of a copy."""
        with path.open("rb") as file:
            head = file.read(2)
        if head == _GZIP:
            with gzip.open(path) as packed:
                if b"\0" in packed.read(_SAMPLE):  # no text, and who knows how large
                    return path
                packed.seek(0)
                return Path(self._copy(packed, str(path), path.name.removesuffix(".gz")))
        if head in _UTF16:
            with path.open(encoding="utf-16", newline="") as wide:
                return Path(self._copy(wide, str(path), path.name))
        return path

    def called(self, bad: BadLine) -> BadLine:
        """The same by the name that the user knows."""
        return replace(bad, path=self.names.get(Path(bad.path), bad.path))

    def _copy(self, source: IO[bytes] | IO[str] | gzip.GzipFile, name: str, file_name: str) -> str:
        target = Path(tempfile.mkdtemp(dir=self._folder), file_name)
        file: IO[bytes]
        with ExitStack() as filling:
            if len(self.names) < _MOST_NAMELESS and _OPEN_FILES.exists():
                # It may hold secrets: without a name of its own, not even a kill leaves anything of it.
                file = self._kept.enter_context(tempfile.TemporaryFile(dir=target.parent))
                target.symlink_to(_OPEN_FILES / str(file.fileno()))
            else:
                file = filling.enter_context(target.open("wb"))
            while part := source.read(_PART):
                file.write(part.encode() if isinstance(part, str) else part)
            file.flush()
        self.names[target] = name
        return str(target)


@contextmanager
def laid_out(paths: Sequence[str]) -> Iterator[tuple[list[str], LaidOut]]:
    """The places to look at. What is copied for it is private, and gone afterwards."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mcp-memory-")) if paths else ""
        files = LaidOut(Path(folder), stack)
        yield [files.add(name) for name in paths], files


def find_sources(
    home: Folders, paths: Sequence[str], client: str, files: LaidOut
) -> tuple[list[Source], list[BadLine]]:
    """The transcripts to read and the client of each, and whatever else was found, with the reason why it is not read.

    Of the places where the clients keep their own files, only their transcripts are told.
    """
    if not paths:
        places = default_places(home)
        chosen = [CLIENTS[name] for name in (places if client == "auto" else [client])]
        return [(one, path) for one in chosen for path in one.transcripts(places.get(one.name, []))], []
    sources: list[Source] = []
    skipped: list[BadLine] = []
    for place in map(Path, paths):
        if not place.exists():
            raise NotFound(f"{place} does not exist. Give a transcript or a directory that holds some.")
        if place.resolve() == place.resolve().parent:
            raise UsageError(
                f"{place} is the whole disk. Name the directory that holds the transcripts; without a path, "
                "`mcp-memory import` looks where the known clients keep them."
            )
        offered, strange = _files_below(place) if place.is_dir() else ([place], [])
        named = set() if client == "auto" else set(CLIENTS[client].transcripts([place]))
        skipped += strange
        for path in offered:
            try:
                plain, found = _recognized(path, client, files, named=path in named)
            except _UNPACKABLE as error:
                skipped.append(BadLine(str(path), 0, f"the file cannot be unpacked: {error}"))
            except Exception as error:  # whatever is wrong with one file, the others are read
                skipped.append(BadLine(str(path), 0, reason_of(error)))
            else:
                if isinstance(found, str):
                    skipped.append(BadLine(str(path), 0, found))
                else:
                    sources.append((found, plain))
    return sources, skipped


def _recognized(path: Path, client: str, files: LaidOut, *, named: bool) -> tuple[Path, Client | str]:
    """The file to read and whose it is, or why not; `named`: the client that was asked for says it is one of its."""
    if not path.stat().st_size:
        return path, "the file is empty"
    plain = files.plain(path)
    if client != "auto":
        known = named or CLIENTS[client].recognizes(plain)
        return plain, CLIENTS[client] if known else f"not a transcript of {client}"
    if plain.suffix not in _TRANSCRIPTS:  # a crash leaves NUL bytes in transcripts, too
        with plain.open("rb") as file:
            if b"\0" in file.read(_SAMPLE):
                return plain, "not a transcript of a known client"
    hint = "; name it with --client" if path.suffix == ".jsonl" else ""
    return plain, detect(plain) or f"not a transcript of a known client{hint}"


def _files_below(place: Path) -> tuple[list[Path], list[BadLine]]:
    """All files in a directory and those below, each once whatever links lead to it, and what cannot be looked into."""
    files: list[Path] = []
    strange: list[BadLine] = []
    seen: set[tuple[int, int]] = set()
    folders, linked = [place], list[Path]()
    while folders or linked:
        folder = folders.pop() if folders else linked.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name) if _first(folder, seen) else []
        except OSError as error:
            strange.append(BadLine(str(folder), 0, f"the directory cannot be read: {error.strerror}"))
            continue
        for entry in entries:
            is_folder = os.path.isdir(entry.path)
            if is_folder and entry.name in _PROGRAMS:
                strange.append(BadLine(entry.path, 0, "a program's own files are not looked into; name it to do so"))
            elif is_folder:
                (linked if entry.is_symlink() else folders).append(Path(entry.path))
            elif os.path.isfile(entry.path):
                files.append(Path(entry.path))
            elif entry.is_symlink() and not os.path.exists(entry.path):
                strange.append(BadLine(entry.path, 0, "a link that leads nowhere"))
            else:
                strange.append(BadLine(entry.path, 0, "neither a file nor a directory; name a pipe to read it"))
    return [path for path in _in_order(files) if _first(path, seen)], strange


def _in_order(files: Sequence[Path]) -> list[Path]:
    """The files in the order in which they were last written, since a later session may begin with a copy of another.

    A session comes before its subagents: `s.jsonl` before what is below `s/`.
    """
    known = {path: _written_ns(path) for path in files}

    def place(path: Path) -> tuple[int, str, str]:
        sessions = (Path(f"{folder}.jsonl") for folder in path.parents)
        session = next((name for name in sessions if name in known), path)
        return known[session], os.fspath(session), os.fspath(path)

    return sorted(files, key=place)


def _written_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _first(path: Path, seen: set[tuple[int, int]]) -> bool:
    """Whether the file or directory was not come across before, by this name or another."""
    try:
        status = path.stat()
    except OSError:  # gone meanwhile, which is told when it is read
        return True
    known = (status.st_dev, status.st_ino) in seen
    seen.add((status.st_dev, status.st_ino))
    return not known


def looked_for(home: Folders, paths: list[str], client: str) -> str:
    """What an import that found nothing has looked for, and where."""
    if paths:
        names = ", ".join(CLIENTS) if client == "auto" else client
        return f"No history was found in {', '.join(paths)}: no file with events of {names}."
    known = default_places(home)
    places = [str(place) for name in known if client in ("auto", name) for place in known[name]]
    where = f" in {', '.join(places)}" if places else ""
    return f"No history was found{where}. Name a file or directory: mcp-memory import PATH."


async def demo(app: App, options: argparse.Namespace) -> Answer:
    """A first look: the sample history if memory is empty, its latest days, and how to connect a client."""
    empty = not (await app.store.counts()).events
    if empty:
        await load_sample(app)
    await until_idle(app)
    counts = await app.store.counts()
    if options.json:
        shown = {name: getattr(counts, name) for name in ("projects", "sessions", "events", "nodes")}
        return {"loaded": empty, **shown}
    from mcp_memory.surfaces import terminal
    from mcp_memory.surfaces.look_commands import node_entry

    held = f"{counts.events:,} events in {counts.sessions:,} sessions of {counts.projects:,} projects"
    made = "The sample history of an invented team is loaded" if empty else "This memory is already in use"
    days = await app.store.nodes(NodeQuery.latest(None, Level.DAY, _LATEST))
    entries = [node_entry(day, Scope(None, None)) for day in days]
    terminal.show(f"{made}: {held}.", *(["", "The latest days:"] if days else []), *entries)
    return first_steps()


async def load_sample(app: App) -> int:
    """Put the sample history into memory, moved so that it ends in the last days."""
    sessions: dict[tuple[str, str], list[Captured]] = {}
    for line in sample.lines(datetime.fromtimestamp(app.clock.now_ms() / 1000, app.zone)):
        event = event_of_line(line)
        sessions.setdefault((event.session_id, event.project), []).append(event)
    intakes = [Intake(tuple(app.intaker.prepare(events)), "", project) for (_, project), events in sessions.items()]
    return await app.store.add(intakes)
