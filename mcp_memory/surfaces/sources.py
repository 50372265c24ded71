"""What `import` reads: the transcripts below the places it is given, or where the known clients keep theirs."""

from __future__ import annotations

import codecs
import gzip
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from mcp_memory.adapters.clients import ADAPTERS, default_places, detect
from mcp_memory.adapters.clients.lines import files_below
from mcp_memory.adapters.folders import Folders
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.ports.clients import BadLine, ClientAdapter

_TRANSCRIPTS = ("*.jsonl", "session-*.json", "*.md")
_STDIN = "-"
_PART = 1 << 20
#: Where Linux lists what a process has open; each opened there is read from its start.
_OPEN_FILES = Path("/proc/self/fd")
_GZIP = b"\x1f\x8b"
#: How a file begins that PowerShell has written by `>`.
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

Source = tuple[ClientAdapter, Path]


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
            head = _head(path) if stat.S_ISREG(mode) else b""
            if head == _GZIP:
                with gzip.open(path) as packed:
                    return self._copy(packed, name, path.name.removesuffix(".gz"))
            if head in _UTF16:
                with path.open(encoding="utf-16", newline="") as wide:
                    return self._copy(wide, name, path.name)
        except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeError) as error:
            raise UsageError(f"{path} cannot be unpacked: {error}. Nothing was imported.") from error
        except (FileNotFoundError, PermissionError):
            pass  # told where it is looked for
        return name

    def called(self, bad: BadLine) -> BadLine:
        """The same by the name that the user knows."""
        return replace(bad, path=self.names.get(Path(bad.path), bad.path))

    def _copy(self, source: IO[bytes] | IO[str] | gzip.GzipFile, name: str, file_name: str) -> str:
        folder = self._folder / str(len(self.names))
        folder.mkdir()
        target = folder / file_name
        file = self._kept.enter_context(_blank(target))
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


@contextmanager
def _blank(target: Path) -> Iterator[IO[bytes]]:
    """A file to fill, to be read by the name of `target` as long as it is open.

    It may hold secrets. So where the system can, it is a file without a name, of which not even a kill leaves anything.
    """
    nameless = _OPEN_FILES.exists()
    with tempfile.TemporaryFile(dir=target.parent) if nameless else target.open("wb") as file:
        if nameless:
            target.symlink_to(_OPEN_FILES / str(file.fileno()))
        yield file


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(2)


def find_sources(home: Folders, paths: list[str], client: str) -> tuple[list[Source], list[BadLine]]:
    """The transcripts to read and the adapter of each; files of no known form are reported, not guessed at."""
    if not paths:
        places = default_places(home)
        chosen = list(places) if client == "auto" else [client]
        return [source for name in chosen for source in _sources_of(name, places.get(name, []))], []
    sources: list[Source] = []
    unknown: list[BadLine] = []
    for place in map(Path, paths):
        _check(place)
        found, bad = _detected(place) if client == "auto" else (_sources_of(client, [place]), [])
        sources += found
        unknown += bad
    return sources, unknown


def _sources_of(client: str, places: list[Path]) -> list[Source]:
    return [(ADAPTERS[client], path) for path in ADAPTERS[client].transcripts(places)]


def _detected(place: Path) -> tuple[list[Source], list[BadLine]]:
    """The transcripts in a place, recognized by what they hold, and the files that look like one but are not."""
    sources: list[Source] = []
    unknown: list[BadLine] = []
    for path in _offered(place):
        if adapter := detect(path):
            sources.append((adapter, path))
        elif path.stat().st_size and (path == place or path.suffix == ".jsonl"):
            unknown.append(BadLine(str(path), 0, "not a transcript of a known client; name it with --client"))
    return sources, unknown


def _check(place: Path) -> None:
    if not place.exists():
        raise NotFound(f"{place} does not exist. Give a transcript or a directory that holds some.")
    whole = place.resolve()
    if whole == whole.parent:
        raise UsageError(
            f"{place} is the whole disk. Name the directory that holds the transcripts; without a path, `mcp-memory "
            "import` looks where the known clients keep them."
        )


def _offered(place: Path) -> list[Path]:
    """The files that may be transcripts; beside them a directory may hold any other JSON and Markdown."""
    if not place.is_dir():
        return [place]
    found = files_below([place], *(form.rpartition("*")[2] for form in _TRANSCRIPTS))
    return sorted(path for path in found if any(path.match(form) for form in _TRANSCRIPTS))


def looked_for(home: Folders, paths: list[str], client: str) -> str:
    """What an import that found nothing has looked for, and where."""
    if paths:
        names = ", ".join(ADAPTERS) if client == "auto" else client
        return f"No history was found in {', '.join(paths)}: no {', '.join(_TRANSCRIPTS)} with events of {names}."
    known = default_places(home)
    places = [str(place) for name in known if client in ("auto", name) for place in known[name]]
    where = f" in {', '.join(places)}" if places else ""
    return f"No history was found{where}. Name a file or directory: mcp-memory import PATH."
