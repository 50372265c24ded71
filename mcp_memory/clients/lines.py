"""Reading files of JSON lines as they grow: exact offsets, tolerant of whatever a crash or another program left.

Every client adapter that reads transcripts starts here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from mcp_memory.capture.clipping import clean, looked_through
from mcp_memory.capture.redaction import redact
from mcp_memory.clients.port import BadLine, Hooked, Told, TranscriptState
from mcp_memory.domain.events import Captured, EventType, Role

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
#: Years that leave room on both sides: a zone moves a time, a week and a year end after it, and Python has 1 to 9999.
_YEARS = range(2, 9999)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)")
_DECODER = json.JSONDecoder()
_DIGESTED = 2_000
_PEEKED_LINES = 20
_PEEKED_BYTES = 1 << 20
_LONG_BYTES = 48_000
_KEPT_CHARS = 8_000
#: What is read from a file at once. Every read lets other threads run, and waits for them when it is done.
_READ_BYTES = 1 << 20
#: Up to which place in the file everything was told, in the memory of a reader that must read it again to remember.
TOLD = "told_to"
_RECENT_LINES = 64


class Unreadable(Exception):
    """A line that is JSON but not what it should be; the message says why."""


def growing(path: Path, state: TranscriptState) -> Iterator[bytes]:
    """The lines after `state.offset`. The state moves past a line when the next one is asked for.

    So whoever saves the state between two lines never skips one: at worst a line is read twice. A file that shrank
    or was replaced is read from its start.
    """
    try:
        # A client names its transcript before it writes it; a pipe by that name would be waited for forever.
        file = path.open("rb", _READ_BYTES) if path.is_file() else None
    except FileNotFoundError:
        file = None
    if file is None:
        return
    with file:
        _seek(file, state)
        for raw in file:
            ended = raw.endswith(b"\n")
            if not ended and parse(raw)[1]:
                return
            yield raw
            state.offset += len(raw)
            if not state.memory.pop("unended", False):
                state.line += 1
            if not ended:
                state.memory["unended"] = True


def _seek(file: BinaryIO, state: TranscriptState) -> None:
    size = os.fstat(file.fileno()).st_size
    place = max(state.offset, state.memory.get(TOLD, 0))
    if place > size or (place and not _stands_after_line(file, place, state)):
        state.offset, state.line = 0, 0
        state.memory.clear()
    file.seek(state.offset)


def _stands_after_line(file: BinaryIO, place: int, state: TranscriptState) -> bool:
    file.seek(place - 1)
    return file.read(1) == b"\n" or bool(state.memory.get("unended"))


class Earlier:
    """Lines that a reader needs again later. Only their places are saved: words stay in the file that told them."""

    def __init__(self, path: Path, state: TranscriptState, part: Callable[[Any], object] = lambda value: value) -> None:
        self._path, self._state, self._part = path, state, part
        self._recent: dict[int, list[Any]] = {}

    def keep(self, value: object) -> int:
        """The place of the line that is being read; `value` is the part of it that is needed again."""
        place = self._state.offset
        values = self._recent.setdefault(place, [])
        if not any(value is known for known in values):
            values.append(value)
        keep_newest(self._recent, _RECENT_LINES)
        return place

    def at(self, place: object) -> list[dict[str, Any]]:
        """That part of the line at this place; nothing if the file no longer has it."""
        if not isinstance(place, int):
            return []
        if place not in self._recent:
            try:
                with self._path.open("rb") as file:
                    file.seek(place)
                    again = [self._part(value) for value in parse(file.readline())[0]]
            except (OSError, Unreadable, AttributeError):  # the file may have been written anew since
                return []
            self._recent[place] = again
            keep_newest(self._recent, _RECENT_LINES)
        return [value for value in self._recent[place] if isinstance(value, dict)]


class LineReader(Protocol):
    """Turns a file's lines into events, in order."""

    def take(self, value: object) -> Iterable[Told]: ...

    def settle(self) -> None:
        """The line is done: now, and not before, what it told may be kept, so that one read again reads the same."""
        ...


def told_by(reader: LineReader, lines: Iterable[bytes], path: Path, state: TranscriptState) -> Iterator[Told | BadLine]:
    """The events of the lines, and what was wrong with those that could not be read."""
    for raw in lines:
        known = state.offset < state.memory.get(TOLD, 0)
        values, problem = parse(raw)
        bad = [problem] if problem else []
        for value in values:
            try:
                told = reader.take(value)
                yield from () if known else told
            except Unreadable as error:
                bad.append(str(error))
            except RecursionError:
                bad.append("nested too deeply")
        for reason in () if known else bad:
            yield BadLine(str(path), state.line + 1, reason)
        reader.settle()


def parse(raw: bytes) -> tuple[list[Any], str]:
    """The JSON values of a line, and what is wrong with it, if anything.

    One value is the rule; a crash may leave two of them glued together.
    """
    try:
        # Twice as fast as the standard library; it refuses halves of surrogate pairs, and more that is let pass below.
        return [_from_json()(raw)], ""
    except ValueError:
        return _parse_odd(raw)


@cache
def _from_json() -> Callable[[bytes], Any]:
    """Loaded when a line is read: it takes a tenth of the time in which all other modules are."""
    from pydantic_core import from_json

    return from_json


def _parse_odd(raw: bytes) -> tuple[list[Any], str]:
    text = raw.decode("utf-8", "replace").strip("\ufeff\x00 \t\r\n")
    if not text:
        return [], ""
    try:
        values = [json.loads(text)]
        problem = ""
    except (ValueError, RecursionError):
        values, problem = _glued(text)
    if "\\u" in text:
        try:
            values = [whole(value) for value in values]
        except RecursionError as error:
            return [], f"not JSON: {error}"
    return values, problem


def _glued(text: str) -> tuple[list[Any], str]:
    values: list[Any] = []
    position = 0
    while position < len(text):
        try:
            value, position = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            return values, f"not JSON: {error.msg} at character {error.pos + 1}"
        except (ValueError, RecursionError) as error:
            return values, f"not JSON: {error}"
        values.append(value)
        while position < len(text) and text[position].isspace():
            position += 1
    return values, ""


def whole(value: Any) -> Any:
    """The value without halves of surrogate pairs, which JSON can spell and no file can hold."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {whole(key): whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return value


def milliseconds(timestamp: object) -> int | None:
    """An RFC 3339 time as milliseconds since 1970; None if it is no such time, or none the calendar can hold."""
    if not isinstance(timestamp, str) or not _RFC3339.fullmatch(timestamp):
        return None
    try:
        moment = datetime.fromisoformat(timestamp.upper())
    except ValueError:
        return None
    return (moment - _EPOCH) // _MILLISECOND if moment.year in _YEARS else None


def modified_ms(path: Path) -> int:
    try:
        return int(path.stat().st_mtime * 1000)
    except OSError:
        return 0


def digest(text: str) -> str:
    """Eight characters that tell texts apart, whatever their spacing.

    The hook hands texts on redacted and clipped, a transcript has them whole: both must give the same.
    """
    head = " ".join(redact(looked_through(text, _LONG_BYTES))[:_DIGESTED].split())
    return hashlib.blake2b(head.encode("utf-8", "replace"), digest_size=4).hexdigest()


def settled(text: str) -> str:
    """A long text cut to its ends, so that it reads the same whole and as the hook clipped it.

    For clients that give what they tell no name: there, hook and transcript are one event only if their words agree.
    """
    if len(text) * 4 <= _LONG_BYTES or len(text.encode("utf-8", "replace")) <= _LONG_BYTES:
        return text
    text = redact(looked_through(text, _LONG_BYTES))
    return f"{text[:_KEPT_CHARS].rstrip()}\n[…]\n{text[-_KEPT_CHARS:].lstrip()}"


def rewritten(path: Path, state: TranscriptState) -> Iterator[bytes]:
    """The whole of a file that its client writes anew each time, if it has changed since it was read."""
    try:
        data = path.read_bytes() if path.is_file() else None
    except FileNotFoundError:
        data = None
    if data is None:
        return
    state.memory.pop(TOLD, None)  # such a file is told whole, each time
    seen = hashlib.blake2b(data, digest_size=8).hexdigest()
    if state.memory.get("seen") == seen:
        return
    yield data
    state.offset = len(data)
    state.memory["seen"] = seen


def keep_newest(entries: dict[Any, Any], count: int) -> None:
    """Forget the oldest entries of what is remembered between two reads."""
    while len(entries) > count:
        del entries[next(iter(entries))]


def peek(path: Path) -> Iterator[dict[str, Any]]:
    """The objects among the first lines of a file; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            for _ in range(_PEEKED_LINES):
                values, _problem = parse(file.readline(_PEEKED_BYTES))
                yield from (value for value in values if isinstance(value, dict))
    except OSError:
        return


def files_below(places: Sequence[Path], *suffixes: str) -> Iterable[Path]:
    """Files as they are given, and those with one of the suffixes in the given directories, each once."""
    seen: set[Path] = set()
    for place in places:
        found = _found(place, suffixes or (".jsonl",)) if place.is_dir() else [place] * place.is_file()
        for path in found:
            if path not in seen:
                seen.add(path)
                yield path


def _found(directory: Path, suffixes: Sequence[str]) -> list[Path]:
    """The files of each suffix in turn. A pipe or a socket is no file: reading it would wait for someone to write."""
    paths = [Path(folder, name) for folder, _, names in os.walk(directory) for name in names]
    sought = [[path for path in paths if path.name.endswith(suffix) and path.is_file()] for suffix in suffixes]
    return [path for found in sought for path in sorted(found, key=os.fspath)]


HOOK = "hook"
TRANSCRIPT = "transcript"
_NOTHING: tuple[object, ...] = ("", None, False, [])


@dataclass(frozen=True, slots=True)
class Account:
    """Who tells it, of which session, when and from where; `facts` go into the metadata of every event."""

    client: str
    session_id: str
    ms: int
    via: str
    cwd: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)

    def at(self, ms: int, **facts: object) -> Account:
        return replace(self, ms=ms, facts={**self.facts, **facts})

    def event(
        self,
        key: str,
        event_type: EventType,
        role: Role,
        text: str,
        source_ids: tuple[str, ...] = (),
        **metadata: object,
    ) -> Captured:
        known = {"via": self.via, "cwd": self.cwd, **self.facts, **metadata}
        return Captured(
            client=self.client,
            session_id=self.session_id,
            source_key=key,
            timestamp_ms=self.ms,
            event_type=event_type,
            role=role,
            text=text,
            source_ids=source_ids,
            metadata={name: value for name, value in known.items() if value not in _NOTHING},
        )

    def tell(
        self,
        key: str,
        event_type: EventType,
        role: Role,
        text: str,
        source_ids: tuple[str, ...] = (),
        **metadata: object,
    ) -> Told:
        return Told(self.event(key, event_type, role, text, source_ids, **metadata), self.cwd)


def text_of(value: object, key: str) -> str:
    """A field that should be text; empty if it is missing or something else."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else ""


def object_of(value: object, key: str) -> Mapping[str, Any]:
    """A field that should be an object; empty if it is missing or something else."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def path_of(value: object, key: str) -> Path | None:
    name = text_of(value, key)
    return Path(name) if name and "\0" not in name else None


@dataclass(frozen=True, slots=True)
class Call:
    payload: Mapping[str, Any]
    account: Account

    def text(self, key: str) -> str:
        return text_of(self.payload, key)

    def path(self, key: str = "transcript_path") -> Path | None:
        return path_of(self.payload, key)

    def event(
        self,
        key: str,
        event_type: EventType,
        role: Role,
        text: str,
        source_ids: tuple[str, ...] = (),
        **metadata: object,
    ) -> Captured:
        return self.account.event(key, event_type, role, text, source_ids, **metadata)

    def hooked(self, *events: Captured, fallback: tuple[Captured, ...] = (), path: Path | None = None) -> Hooked:
        return Hooked(self.account.session_id, events, fallback, path or self.path())


Reader = Callable[[Call], Hooked | None]


def understood(
    payload: Mapping[str, Any], session: str, read: Reader | None, account: Callable[[Mapping[str, Any]], Account]
) -> Hooked:
    """What a payload means by the reader of its event; one without a reader, or of no known form, is kept as it is."""
    try:
        payload = whole(dict(payload))
        result = read(Call(payload, account(payload))) if read else None
    except RecursionError:
        result = None
    return result or Hooked(session, unknown=True)


def session_start(call: Call) -> Hooked:
    source = call.text("source")
    key = f"start:{source}:{call.account.ms}"
    return call.hooked(call.event(key, EventType.SESSION_START, Role.SYSTEM, source, source=source))


def session_end(call: Call) -> Hooked:
    reason = call.text("reason")
    key = f"end:{reason}:{call.account.ms}"
    return call.hooked(call.event(key, EventType.SESSION_END, Role.SYSTEM, reason, reason=reason))
