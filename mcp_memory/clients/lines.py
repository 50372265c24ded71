"""What the readers of all clients share: files of JSON lines as they grow, fields of JSON, and the making of events.

Tolerant of whatever a crash or another program left in a file; exact about the place up to which it was read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

from mcp_memory.capture.clipping import clean, looked_through
from mcp_memory.capture.hook import CURSOR
from mcp_memory.capture.redaction import redact
from mcp_memory.clients.port import BadLine, Reading, TranscriptState
from mcp_memory.domain.events import Captured, EventType, Role

#: How an event reached us.
HOOK: Final = "hook"
TRANSCRIPT: Final = "transcript"
EXPORT: Final = "export"
#: Who speaks in an event of a type; what is not listed the client says itself.
_ROLES = {
    EventType.USER_MESSAGE: Role.USER,
    EventType.ASSISTANT_MESSAGE: Role.ASSISTANT,
    EventType.TOOL_RESULT: Role.TOOL,
}
_NOTHING: tuple[object, ...] = ("", None, False, [])
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


class UnreadableLine(Exception):
    """A line that is JSON but not what it should be; the message says why."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Who tells of something, of which session, when and from where; `facts` go into the metadata of every event."""

    client: str
    session_id: str
    ms: int
    via: str
    cwd: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    #: The repository's remote as the client recorded it, normalized.
    remote: str = field(default="", kw_only=True)

    def event(
        self, key: str, event_type: EventType, text: str, source_ids: tuple[str, ...] = (), **metadata: object
    ) -> Captured:
        known = {"via": self.via, "cwd": self.cwd, **self.facts, **metadata}
        return Captured(
            client=self.client,
            session_id=self.session_id,
            source_key=key,
            timestamp_ms=self.ms,
            event_type=event_type,
            role=_ROLES.get(event_type, Role.SYSTEM),
            text=text,
            source_ids=tuple(filter(None, source_ids)),
            metadata={name: value for name, value in known.items() if value not in _NOTHING},
            cwd=self.cwd,
            remote=self.remote,
        )


@dataclass(frozen=True, slots=True)
class HookCall(Origin):
    """One call of a hook: its payload, and the events it becomes."""

    payload: Mapping[str, Any] = field(default_factory=dict)

    def text(self, key: str) -> str:
        return text_of(self.payload, key)

    def path(self, key: str = "transcript_path") -> Path | None:
        name = self.text(key)
        return Path(name) if name and "\0" not in name else None

    def reading(self, *events: Captured, fallback: tuple[Captured, ...] = (), path: Path | None = None) -> Reading:
        return Reading(self.session_id, events, fallback, path or self.path())

    def message(self, text: str, event_type: EventType, key: str, source_ids: tuple[str, ...] = ()) -> Reading:
        """What was typed or answered, if it was anything."""
        return self.reading(*([self.event(f"{key}:{digest(text)}", event_type, text, source_ids)] if text else []))

    def turn_end(self, text: str, kind: str, turn: str = "") -> Reading:
        """The end of a turn, and what the agent said last, where no transcript tells it."""
        ended = self.event(f"turn:{self.ms}", EventType.ASSISTANT_STOP, "")
        key = f"{kind}:{turn or self.ms}:{digest(text)}"
        last = (self.event(key, EventType.ASSISTANT_MESSAGE, text),) if text else ()
        return self.reading(ended, fallback=last)


def stop_event(origin: Origin, key: str, error: str, *, stopped: bool) -> Captured:
    """How a turn ended that did not end well: the user stopped it, or there was an error."""
    text, facts = "Interrupted by the user" if stopped else f"API error: {error}", {"is_interrupt": stopped}
    return origin.event(key, EventType.ASSISTANT_STOP, text, (), failed=not stopped, **facts)


HookReaders = Mapping[str, Callable[[HookCall], Reading | None]]


def hook_readers(silent: str, **readers: Callable[[HookCall], Reading | None]) -> HookReaders:
    """What reads each event: those of `silent` tell nothing, or nothing that another event does not tell better."""
    quiet = dict.fromkeys(silent.split(), lambda call: Reading(call.session_id))
    return {"SessionStart": session_edge, "SessionEnd": session_edge, **quiet, **readers}


def read_hook(
    client: str, payload: Mapping[str, Any], ms: int, readers: HookReaders, facts: Sequence[str] = ()
) -> Reading:
    """What a payload means by the reader of its event; one without a reader, or of no known form, is kept as it is."""
    event, session = text_of(payload, "hook_event_name"), text_of(payload, "session_id")
    if not session or event not in readers or ("cursor_version" in payload and client != CURSOR):
        return Reading(session, unknown=True)
    try:
        payload = without_surrogates(dict(payload))
        told = {name: text_of(payload, name) for name in facts}
        found = readers[event](HookCall(client, session, ms, HOOK, text_of(payload, "cwd"), told, payload))
    except RecursionError:
        found = None
    return found or Reading(session, unknown=True)


def session_edge(call: HookCall) -> Reading:
    """The start or the end of a session, with what brought it about."""
    source, reason = call.text("source"), call.text("reason")
    if call.text("hook_event_name") == "SessionStart":
        return call.reading(call.event(f"start:{source}:{call.ms}", EventType.SESSION_START, source, source=source))
    return call.reading(call.event(f"end:{reason}:{call.ms}", EventType.SESSION_END, reason, reason=reason))


class TranscriptReader:
    """Reads one file's lines in order. What later lines need of earlier ones lies in `memory`, which is saved.

    So it holds names, numbers and the places of lines, but none of their words. `part` is what is needed again of a
    line that was kept.
    """

    def __init__(self, path: Path, state: TranscriptState, part: Callable[[Any], object] = lambda value: value) -> None:
        self.path, self.state, self.memory = path, state, state.memory
        #: What the line that is being read has told or answered, until it is done.
        self.fresh: list[str] = []
        self._part = part
        self._recent: dict[int, list[Any]] = {}

    def take(self, value: dict[str, Any]) -> Iterable[Captured]:
        """The events of one line."""
        raise NotImplementedError

    def settle(self) -> None:
        """The line is done: now, and not before, what it told may be kept, so that one read again reads the same."""

    def rest(self) -> Iterable[Captured]:
        """What can be told at the file's end."""
        return ()

    def read(self, lines: Iterable[bytes]) -> Iterator[Captured | BadLine]:
        """The events of the lines, and what was wrong with those that could not be read."""
        state = self.state
        for raw in lines:
            known = state.offset < state.memory.get(TOLD, 0)
            values, problem = parse(raw)
            bad = [problem] if problem else []
            for value in values:
                try:
                    if not isinstance(value, dict):
                        raise UnreadableLine("not a JSON object")
                    events = self.take(value)
                    yield from () if known else events
                except UnreadableLine as error:
                    bad.append(str(error))
                except RecursionError:
                    bad.append("nested too deeply")
            for reason in () if known else bad:
                yield BadLine(str(self.path), state.line + 1, reason)
            self.settle()
            self.fresh.clear()
        yield from self.rest()

    def remember(self, name: str, key: str, value: object, count: int) -> None:
        """Keep the newest values under a name of the memory."""
        known: dict[str, object] = self.memory.setdefault(name, {})
        known[key] = value
        keep_newest(known, count)

    def moment(self, timestamp: object) -> int:
        """The time of a line; without one it has that of the line before, or the file's."""
        ms = milliseconds(timestamp)
        self.memory["ms"] = ms = self.memory.get("ms", modified_ms(self.path)) if ms is None else ms
        return int(ms)

    def keep(self, value: object) -> int:
        """The place of the line that is being read; `value` is the part of it that is needed again."""
        place = self.state.offset
        values = self._recent.setdefault(place, [])
        if not any(value is known for known in values):
            values.append(value)
        keep_newest(self._recent, _RECENT_LINES)
        return place

    def kept(self, place: object) -> list[dict[str, Any]]:
        """That part of the line at this place; nothing if the file no longer has it."""
        if not isinstance(place, int):
            return []
        if place not in self._recent:
            try:
                with self.path.open("rb") as file:
                    file.seek(place)
                    again = [self._part(value) for value in parse(file.readline())[0]]
            except (OSError, UnreadableLine, AttributeError):  # the file may have been written anew since
                return []
            self._recent[place] = again
            keep_newest(self._recent, _RECENT_LINES)
        return [value for value in self._recent[place] if isinstance(value, dict)]


def growing(path: Path, state: TranscriptState) -> Iterator[bytes]:
    """The lines after `state.offset`. The state moves past a line when the next one is asked for.

    So whoever saves the state between two lines never skips one: at worst a line is read twice. A file that shrank
    or was replaced is read from its start.
    """
    # A client names its transcript before it writes it; a pipe by that name would be waited for forever.
    if not path.is_file():
        return
    with path.open("rb", _READ_BYTES) as file:
        place = max(state.offset, state.memory.get(TOLD, 0))
        replaced = place > os.fstat(file.fileno()).st_size
        if place and not replaced:
            file.seek(place - 1)
            replaced = file.read(1) != b"\n" and not state.memory.get("unended")
        if replaced:
            state.offset, state.line = 0, 0
            state.memory.clear()
        file.seek(state.offset)
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


def rewritten(path: Path, state: TranscriptState) -> Iterator[bytes]:
    """The whole of a file that its client writes anew each time, if it has changed since it was read."""
    if not path.is_file():
        return
    data = path.read_bytes()
    state.memory.pop(TOLD, None)  # such a file is told whole, each time
    seen = hashlib.blake2b(data, digest_size=8).hexdigest()
    if state.memory.get("seen") == seen:
        return
    yield data
    state.offset = len(data)
    state.memory["seen"] = seen


def parse(raw: bytes) -> tuple[list[Any], str]:
    """The JSON values of a line, and what is wrong with it, if anything.

    One value is the rule; a crash may leave two of them glued together.
    """
    try:
        # Twice as fast as the standard library; it refuses halves of surrogate pairs, and more that is let pass below.
        return [_from_json()(raw)], ""
    except ValueError:
        text = raw.decode("utf-8", "replace").strip("\ufeff\x00 \t\r\n")
    if not text:
        return [], ""
    try:
        values, problem = [json.loads(text)], ""
    except (ValueError, RecursionError):
        values, problem = _glued(text)
    try:
        return [without_surrogates(value) for value in values] if "\\u" in text else values, problem
    except RecursionError as error:
        return [], f"not JSON: {error}"


@cache
def _from_json() -> Callable[[bytes], Any]:
    """Loaded when a line is read: it takes a tenth of the time in which all other modules are."""
    from pydantic_core import from_json

    return from_json


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


def peek(path: Path) -> Iterator[dict[str, Any]]:
    """The objects among the first lines of a file; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            for _ in range(_PEEKED_LINES):
                values, _problem = parse(file.readline(_PEEKED_BYTES))
                yield from (value for value in values if isinstance(value, dict))
    except OSError:
        return


def modified_ms(path: Path) -> int:
    try:
        return int(path.stat().st_mtime * 1000)
    except OSError:
        return 0


def milliseconds(timestamp: object) -> int | None:
    """An RFC 3339 time as milliseconds since 1970; None if it is no such time, or none the calendar can hold."""
    if not isinstance(timestamp, str) or not _RFC3339.fullmatch(timestamp):
        return None
    try:
        moment = datetime.fromisoformat(timestamp.upper())
    except ValueError:
        return None
    return (moment - _EPOCH) // _MILLISECOND if moment.year in _YEARS else None


def without_surrogates(value: Any) -> Any:
    """The value without halves of surrogate pairs, which JSON can spell and no file can hold."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value


def text_of(value: object, key: str) -> str:
    """A field that should be text; empty if it is missing or something else."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def object_of(value: object, key: str) -> Mapping[str, Any]:
    """A field that should be an object; empty if it is missing or something else."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def objects_of(value: object, key: str) -> list[Mapping[str, Any]]:
    """The objects of a field that should be a list of them."""
    found = value.get(key) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def one_line(text: str) -> str:
    return " ".join(text.split())


def json_of(text: object) -> object:
    """What JSON in a string says; None if it is none."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def digest(text: str) -> str:
    """Eight characters that tell texts apart, whatever their spacing.

    The hook hands texts on redacted and clipped, a transcript has them whole: both must give the same.
    """
    head = " ".join(redact(looked_through(text, _LONG_BYTES))[:_DIGESTED].split())
    return hashlib.blake2b(head.encode("utf-8", "replace"), digest_size=4).hexdigest()


def shortened(text: str) -> str:
    """A long text cut to its ends, so that it reads the same whole and as the hook clipped it.

    For clients that give what they tell no name: there, hook and transcript are one event only if their words agree.
    """
    if len(text) * 4 <= _LONG_BYTES or len(text.encode("utf-8", "replace")) <= _LONG_BYTES:
        return text
    text = redact(looked_through(text, _LONG_BYTES))
    return f"{text[:_KEPT_CHARS].rstrip()}\n[…]\n{text[-_KEPT_CHARS:].lstrip()}"


def keep_newest(entries: dict[Any, Any], count: int) -> None:
    """Forget the oldest entries of what is remembered between two reads."""
    while len(entries) > count:
        del entries[next(iter(entries))]
