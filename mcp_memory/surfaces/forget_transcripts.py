"""Which lines of the clients' transcripts hold what is to be forgotten.

A transcript is the client's own file. The memory keeps no paths of those that it has read, so they are looked for where
the clients keep them, and where a user has imported them from.
"""

from __future__ import annotations

import json
import os
import re
import time
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mcp_memory.capture.project import detect as detect_project
from mcp_memory.capture.project import places
from mcp_memory.clients import CLIENTS, default_places, detect
from mcp_memory.clients.lines import milliseconds, parse, text_of
from mcp_memory.clients.port import USER, BadLine, Client, Folders, TranscriptState, files_below
from mcp_memory.domain.events import Captured, EventType, event_key
from mcp_memory.domain.forget import KEY_BEGINNING, ForgetScope
from mcp_memory.domain.text import holds, same_letters

#: How long transcripts are searched; of the rest is said that it was not looked at.
MAX_SECONDS = 120.0
#: The same where an agent or a browser waits for the answer.
BRIEF_SECONDS = 5.0
#: Copies of an event in other lines of its transcript are at most this far from it, by how much of its text they share.
_TWIN_MS, _SHORT_TWIN_MS = 120_000, 5_000
#: A text that is this long is no other event's by chance.
_LONG_TEXT_CHARS = 12
_ASCII_RUN = re.compile("[a-z0-9]+")
#: Letters with a stroke, which Unicode does not decompose.
_STROKED = frozenset("øłđðħŧæœØŁĐÐĦŦÆŒıİ")
_ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})")
_SMALL_LETTERS = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
#: All other bytes may stand between the letters of a text: emphasis, hidden characters, accents.
_NO_ASCII_LETTERS = bytes(byte for byte in range(256) if not (byte < 128 and chr(byte).isalnum()))
_ASCII = bytes(range(128))
#: Letters of other scripts that look like Latin ones are told apart by their script: Greek and Cyrillic.
_LATIN_LOOKING = (range(0x370, 0x400), range(0x400, 0x530))
Progress = Callable[[int, int], None]
_NO_TRANSCRIPT = "it is no transcript; delete it yourself if you can do without it"
#: A larger file of a client is no text, or too much to look through.
_MAX_OTHER_BYTES = 32_000_000


class TranscriptLines(NamedTuple):
    """A transcript that holds something of a request."""

    client: str
    path: Path
    lines: int
    #: Why its lines cannot be removed by this program; empty if they can.
    fixed: str = ""


@dataclass(frozen=True, slots=True)
class TranscriptSearch:
    """What was found, and how many transcripts were not searched because the time was over."""

    found: tuple[TranscriptLines, ...] = ()
    unsearched: int = 0
    #: Directories of transcripts that bear the text in their path.
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CoveredLines:
    """The places of the lines of one transcript that a request takes, and of those that it takes and that must stay."""

    places: frozenset[int]
    kept: frozenset[int] = frozenset()

    @property
    def count(self) -> int:
        return len(self.places) + len(self.kept)


def search_transcripts(
    home: Folders,
    scope: ForgetScope,
    imported: Sequence[Path] = (),
    progress: Progress = lambda done, total: None,
    max_seconds: float = MAX_SECONDS,
) -> TranscriptSearch:
    """Look through the transcripts of all clients for what falls under a request."""
    sources = list(_sources(home, imported))
    folders = {str(path.parent) for _, path in sources} if scope.request.match is not None else set()
    named = tuple(sorted(folder for folder in folders if scope.is_in(folder)))
    sizes = [_size(path) for _, path in sources]
    finder, found, done = LineFinder(scope), list[TranscriptLines](), 0
    end = time.monotonic() + max_seconds
    for number, (client, path) in enumerate(sources):
        if time.monotonic() > end:
            return TranscriptSearch(tuple(found), len(sources) - number, named)
        progress(done, sum(sizes))
        try:
            covered = finder.lines(client, path)
        except OSError:
            covered = CoveredLines(frozenset())
        if covered.count:
            found.append(TranscriptLines(client.name, path, covered.count, fixed_reason(path)))
        done += sizes[number]
    for client, path in _other_files(home, {path for _, path in sources}):
        if time.monotonic() > end:
            break
        with suppress(OSError):
            if lines := finder.lines_beside(path):
                found.append(TranscriptLines(client.name, path, lines, _NO_TRANSCRIPT))
    return TranscriptSearch(tuple(found), directories=named)


def fixed_reason(path: Path) -> str:
    """Return why no lines can be taken out of a file; empty if they can."""
    if path.suffix == ".md":
        return "it is a text, not lines of JSON"
    if path.suffix == ".json" and _document(path.read_bytes()) is None:
        return "it is not written as its client writes it"
    return ""


def _sources(home: Folders, imported: Sequence[Path]) -> Iterator[tuple[Client, Path]]:
    """Every transcript once, with its client."""
    seen = set[Path]()
    for name, folders in default_places(home).items():
        client = CLIENTS[name]
        logs = [client.path(home, log) for log in client.prompt_logs]
        for path in (*client.transcripts(folders), *filter(Path.is_file, logs)):
            if path not in seen:
                seen.add(path)
                yield client, path
    for path in files_below(imported, (".jsonl", ".json", ".md")):
        if path not in seen and (found := detect(path)):
            seen.add(path)
            yield found, path


def _other_files(home: Folders, transcripts: Container[Path]) -> Iterator[tuple[Client, Path]]:
    """Return what else the clients keep in their folders, such as results of tools and earlier states of files."""
    for client in CLIENTS.values():
        if client.setup and USER in client.setup.hooks:
            folder = client.path(home, client.setup.hooks[USER].partition("/")[0] + "/")
            for place, _, names in os.walk(folder):
                for path in (Path(place, name) for name in sorted(names)):
                    if path not in transcripts and path.is_file() and _size(path) <= _MAX_OTHER_BYTES:
                        yield client, path


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


@dataclass
class LineFinder:
    """Finds the lines of files that fall under one request."""

    scope: ForgetScope
    _run: bytes = field(init=False)
    _projects: dict[tuple[str, str], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take the longest run of plain letters and digits, by which most lines are told apart fast."""
        runs = _ASCII_RUN.findall(same_letters(self.scope.request.match or ""))
        self._run = max(runs, key=len, default="").encode()

    def lines(self, client: Client, path: Path) -> CoveredLines:
        """Return the lines of a transcript that the request takes."""
        data = path.read_bytes()
        if not self._is_worth_reading(data, path):
            return CoveredLines(frozenset())
        if path.suffix == ".json":
            return CoveredLines(frozenset(self._messages(client, path, data)))
        raws = split_lines(data)
        if path.name in {Path(log).name for log in client.prompt_logs}:
            return CoveredLines(frozenset(index for index, raw in enumerate(raws) if self.takes(raw)))
        told = _EventsByLine.read(client, path, len(raws))
        covered = self._of_match(raws, told) if self.scope.request.match is not None else self._of_events(raws, told)
        first = {0} & covered
        if first and len(covered) < len(raws) and client.opens_with_header and not told.events.get(0):
            return CoveredLines(frozenset(covered - first), frozenset(first))
        return CoveredLines(frozenset(covered))

    def lines_beside(self, path: Path) -> int:
        """Count the lines of a client's other file that hold the text; all, if its path names a forgotten session."""
        request = self.scope.request
        if request.match is not None:
            data = path.read_bytes()
            return sum(map(self.holds, split_lines(data))) if self._may_hold(data) else 0
        is_of_session = request.session_id is not None or request.project is not None
        if is_of_session and any(session in str(path) for session in self.scope.sessions):
            return len(split_lines(path.read_bytes())) or 1
        return 0

    def holds(self, raw: bytes) -> bool:
        """Whether a line holds the text, or names what the request names."""
        return self._may_hold(raw) and self.scope.is_in(raw.decode("utf-8", "replace"))

    def _may_hold(self, data: bytes) -> bool:
        """Return False if the text cannot be there: its longest run of letters is not, nor a letter that reads so."""
        if self._run in data.translate(_SMALL_LETTERS, _NO_ASCII_LETTERS):
            return True
        escapes = set(_ESCAPE.findall(data)) if b"\\u" in data else set()
        if any(_reads_as_ascii(chr(int(code, 16))) for code in escapes):
            return True
        # Without the ASCII bytes, what is left are whole characters.
        others = set(data.translate(None, _ASCII).decode("utf-8", "replace"))
        return any(map(_reads_as_ascii, others))

    def takes(self, raw: bytes) -> bool:
        """Whether the request takes a line of a file that is no transcript: a log of prompts, or an export."""
        request = self.scope.request
        if request.before_ms is not None:
            times = [time for value in parse(raw)[0] if (time := time_of(value)) is not None]
            return bool(times) and max(times) < request.before_ms
        if request.project is None:
            return self.holds(raw)
        values = [value for row in parse(raw)[0] if isinstance(row, dict) for value in row.values()]
        names = [value for value in values if isinstance(value, str)]
        return any(name in self.scope.sessions or name in self.scope.places for name in names)

    def _is_worth_reading(self, data: bytes, path: Path) -> bool:
        """Whether anything of the request can be in a file, told without parsing it."""
        request = self.scope.request
        if request.match is not None:
            return self._may_hold(data)
        if request.before_ms is not None:
            return True
        names = {*self.scope.sessions, *self.scope.places} - {""}
        if request.event_key is not None and not names:
            return True  # memory does not know the event any more, nor its session
        spelled = {json.dumps(name.removeprefix("label:"), ensure_ascii=False)[1:-1] for name in names}
        return any(name.encode() in data or name in path.name for name in spelled) or not data.isascii()

    def is_covered(self, client: Client, event: Captured) -> bool:
        """Whether the request takes an event of a transcript."""
        scope, request = self.scope, self.scope.request
        key = event_key(client.name, event.session_id, event.source_key)
        if key[:KEY_BEGINNING] in scope.beginnings or key == request.event_key:
            return True
        if request.match is not None:
            return scope.is_in(event.text)
        if request.before_ms is not None:
            return event.timestamp_ms < request.before_ms
        if request.session_id is not None:
            return event.session_id == request.session_id
        if request.project is not None:
            return event.session_id in scope.sessions or self._is_in_project(event)
        return (event.session_id, event.text.strip()) in scope.said

    def _is_in_project(self, event: Captured) -> bool:
        if not event.cwd:
            return False
        place = (event.cwd, event.remote)
        if place not in self._projects:
            found = detect_project(event.cwd, {})
            names = places(found.root, found.label, found.remote or event.remote)
            own, others = self.scope.places, self.scope.others
            first = next((name for name in names if name in own or name in others), "")
            self._projects[place] = first in own
        return self._projects[place]

    def _of_match(self, raws: Sequence[bytes], told: _EventsByLine) -> set[int]:
        covered = {index for index, raw in enumerate(raws) if self.holds(raw)}
        # A text may be spread over the parts of which an event is made.
        return covered | {
            index
            for index, events in told.events.items()
            if index < len(raws) and any(self.scope.is_in(event.text) for event in events)
        }

    def _of_events(self, raws: Sequence[bytes], told: _EventsByLine) -> set[int]:
        states: dict[int, bool] = {}
        taken = list[Captured]()
        for index, events in told.events.items():
            covered = [self.is_covered(told.client, event) for event in events]
            taken += [event for event, is_taken in zip(events, covered, strict=True) if is_taken]
            states[index] = all(covered)
        request = self.scope.request
        if not taken:
            return set()
        if request.event_key is not None:
            return {index for index, is_taken in states.items() if is_taken and index < len(raws)} | {
                index for index, raw in enumerate(raws) if _is_twin(raw, taken)
            }
        if all(states.values()):
            return set(range(len(raws)))
        return {index for index, raw in enumerate(raws) if self._is_between(index, raw, states)}

    def _is_between(self, index: int, raw: bytes, states: Mapping[int, bool]) -> bool:
        """Whether a line is one of the request's, or tells nothing by itself and stands among such lines."""
        if index in states:
            return states[index]
        before_ms = self.scope.request.before_ms
        times = [time for value in parse(raw)[0] if (time := time_of(value)) is not None]
        if before_ms is not None and times:
            return max(times) < before_ms
        earlier = next((states[place] for place in range(index, -1, -1) if place in states), True)
        later = next((states[place] for place in sorted(states) if place > index), True)
        return earlier and later

    def _messages(self, client: Client, path: Path, data: bytes) -> Iterator[int]:
        """Return the places of the messages of a document that the request takes."""
        document = _document(data)
        values = parse(data)[0] if document is None else [document]
        messages = values[0].get("messages") if values and isinstance(values[0], dict) else None
        if not isinstance(messages, list):
            return
        session, request = text_of(values[0], "sessionId"), self.scope.request
        if request.session_id is not None and session == request.session_id:
            yield from range(len(messages))
            return
        in_project = request.project is not None and session in self.scope.sessions
        for index, message in enumerate(messages):
            spelled = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
            when = time_of(message)
            is_older = request.before_ms is not None and when is not None and when < request.before_ms
            is_matched = request.match is not None and self.holds(spelled)
            is_said = any(told == session and _said(message, text) for told, text in self.scope.said)
            if in_project or is_older or is_matched or is_said:
                yield index


@dataclass(frozen=True, slots=True)
class _EventsByLine:
    """The events of a transcript by the place of the line after which its reader tells them."""

    client: Client
    events: dict[int, list[Captured]]

    @classmethod
    def read(cls, client: Client, path: Path, count: int) -> _EventsByLine:
        found: dict[int, list[Captured]] = {}
        state = TranscriptState()
        with suppress(Exception):  # any file may be called a transcript, and its reader fail
            for item in client.read(path, state):
                if not isinstance(item, BadLine):
                    found.setdefault(min(state.line, max(count - 1, 0)), []).append(item)
        return cls(client, found)


@cache
def _reads_as_ascii(char: str) -> bool:
    """Whether a character, or half of one, may be another spelling of a plain letter or digit."""
    if char.isascii():
        return char.isalnum()
    if any(ord(char) in place for place in _LATIN_LOOKING) or "\ud800" <= char <= "\udfff":
        return True
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", char).casefold())
    return any(letter.isascii() and letter.isalnum() for letter in plain) or char in _STROKED


def time_of(value: object) -> int | None:
    """Return the time that a line bears, in milliseconds since 1970."""
    if not isinstance(value, dict):
        return None
    for name in ("timestamp", "ts", "timestamp_ms", "time"):
        given = value.get(name)
        if isinstance(given, str) and (found := milliseconds(given)) is not None:
            return found
        if isinstance(given, int | float) and not isinstance(given, bool):
            return int(given if given > 1e11 else given * 1000)
    return None


def _is_twin(raw: bytes, taken: Sequence[Captured]) -> bool:
    """Whether a line tells an event, or part of it, once more; clients write some things several times."""
    values = [value for value in parse(raw)[0] if isinstance(value, dict)]
    when = next((time for value in values if (time := time_of(value)) is not None), None)
    if when is None:
        return False
    text = raw.decode("utf-8", "replace")
    for event in taken:
        apart = abs(when - event.timestamp_ms)
        if event.event_type is EventType.TOOL_RESULT:
            if apart <= _TWIN_MS and any(f'"{name}"' in text for name in event.source_ids if name):
                return True
            continue
        said = event.text.strip()
        if not said or apart > _TWIN_MS:
            continue
        if holds(text, same_letters(said if len(said) >= _LONG_TEXT_CHARS else f'"{said}"')) and (
            len(said) >= _LONG_TEXT_CHARS or apart <= _SHORT_TWIN_MS
        ):
            return True
    return False


def _said(message: object, text: str) -> bool:
    return holds(json.dumps(message, ensure_ascii=False), same_letters(f'"{text}"'))


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines as a file gives them: only a line feed ends one."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]] + ([last] if (last := data.rpartition(b"\n")[2]) else [])


def _document(data: bytes) -> dict[str, Any] | None:
    """Return a JSON document whose spelling we can repeat byte for byte; None for any other."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and written(value, like=data) == data else None


def written(value: Mapping[str, Any], like: bytes) -> bytes:
    """Spell a document as JavaScript does, with the end of the one that it replaces."""
    end = like[len(like.rstrip()) :]
    return json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass") + end


def without_lines(data: bytes, path: Path, covered: Iterable[int]) -> bytes:
    """Return a transcript without some of its lines or messages; all others stay byte for byte."""
    gone = frozenset(covered)
    if path.suffix == ".json":
        document = json.loads(data)
        document["messages"] = [item for index, item in enumerate(document["messages"]) if index not in gone]
        return written(document, like=data)
    return b"".join(raw for index, raw in enumerate(split_lines(data)) if index not in gone)
