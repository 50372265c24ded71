"""ULIDs made from a time and 80 given bits, so that the same source always gets the same id."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from mcp_memory.capture.clipping import clean
from mcp_memory.domain.storable import MAX_PLACE_CHARS, bounded_name, storable_metadata
from mcp_memory.errors import BadId

if TYPE_CHECKING:
    from mcp_memory.capture.redaction import Clean
    from mcp_memory.domain.toc import Position


_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {char: value for value, char in enumerate(_ALPHABET)} | {"I": 1, "L": 1, "O": 0}
#: Two characters at a time: ids are made by the dozen for every answer.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = tuple(range(120, -1, -10))
_MAX_MS = (1 << 48) - 1
KEY_BYTES = 10


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)


def short_session(session_id: str) -> str:
    """As much of a session's name as is needed to name it: of a UUID its beginning."""
    return session_id[:8] if _UUID.fullmatch(session_id) else session_id


def ulid(timestamp_ms: int, key: bytes) -> str:
    """The 26 characters of the ULID with this time (clamped to what a ULID can hold) and this random part."""
    number = (min(max(timestamp_ms, 0), _MAX_MS) << 80) | int.from_bytes(key, "big")
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS])


def parse_ulid(text: str) -> tuple[int, bytes]:
    """The time and the random part of a ULID."""
    if len(text) != 26 or not text.isascii() or text[0] > "7":
        raise BadId(f"{text!r} is not a ULID: 26 characters such as 01HN4QXKN6YWXVKZ3JMHP4BCDE are expected.")
    try:
        number = 0
        for char in text.upper():
            number = number << 5 | _VALUES[char]
    except KeyError as error:
        raise BadId(f"{text!r} is not a ULID: it holds the character {error}.") from None
    return number >> 80, (number & ((1 << 80) - 1)).to_bytes(KEY_BYTES, "big")


def opaque(name: str) -> str:
    """A name that tells this one from all others, and says nothing of it."""
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


#: The times an event can have, in milliseconds: those of years that leave room on both sides, since a zone moves a time
#: and a week and a year end after it, and Python counts the years 1 to 9999.
TIMES = range(-62_104_060_800_000, 253_370_764_800_000)


class EventType(StrEnum):
    SESSION_START = "session_start"
    USER_MESSAGE = "user_message"
    ASSISTANT_MESSAGE = "assistant_message"
    TOOL_RESULT = "tool_result"
    ASSISTANT_STOP = "assistant_stop"
    SUBAGENT_START = "subagent_start"
    SUBAGENT_STOP = "subagent_stop"
    COMPACTION = "compaction"
    NOTE = "note"
    SESSION_TITLE = "session_title"
    SESSION_END = "session_end"


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


#: Types that mark a point in a session's life and say nothing that a summary could cite.
LIFECYCLE = frozenset(
    {EventType.SESSION_START, EventType.ASSISTANT_STOP, EventType.SUBAGENT_START, EventType.SESSION_END}
)


#: The client under whose name notes are kept, and how the name of a project's notes begins. They are no session.
NOTES_CLIENT, NOTES_SESSION = "mcp-memory", "notes:"
#: The client of events that are imported from lines which name none.
IMPORT_CLIENT = "jsonl"

#: In a note's metadata: who wrote it, where that was not the user, the name of the agent's client, and that the agent
#: wanted it pinned, to which the user has not agreed.
BY, BY_AGENT, AGENT, PIN_ASKED = "by", "agent", "agent", "pin_asked"

#: In an event's metadata: the time that its source gave, if that was in the future.
STATED_TIME = "stated_time"

#: Who of a team may read an event.
PRIVATE, TEAM = "private", "team"

#: How something ended that did not go on as it was meant to.
Outcome = Literal["refused", "failed", "interrupted"]
#: What clients write where the user stops them or turns a call down, in events whose metadata does not say so.
_INTERRUPTED = re.compile(r"\s*\[Request interrupted by user")
_REFUSED = re.compile(r"(?:[^\n]*\n)?(?:Error: )?The user doesn't want to (?:proceed with this tool|take this action)")


@dataclass(frozen=True, slots=True)
class Captured:
    """One event as a client told it, before redaction, clipping and counting.

    `source_key` names the event within (client, session) whichever way it reached us, so that the hook and the
    transcript of one message give one event; `source_ids` are the client's own names of the lines behind it. `key` is
    given where the event was stored before, and comes back from an export. `cwd` is the directory it was said in,
    `project` and `remote` what the source calls its project; `was_note`: the source calls it a note or pinned.
    """

    client: str
    session_id: str
    source_key: str
    timestamp_ms: int
    event_type: EventType
    role: Role
    text: str
    source_ids: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    key: bytes = b""
    cwd: str = ""
    project: str = ""
    remote: str = ""
    was_note: bool = False

    def __post_init__(self) -> None:
        # The directory is left as the system names it, or it would not be found.
        for name in ("text", "remote"):
            object.__setattr__(self, name, clean(getattr(self, name)))
        object.__setattr__(self, "project", bounded_name(self.project, MAX_PLACE_CHARS))
        object.__setattr__(self, "source_ids", tuple(map(clean, self.source_ids)))
        object.__setattr__(self, "metadata", storable_metadata(self.metadata))


@dataclass(frozen=True, slots=True)
class Event:
    """A stored event. `tokens` counts what segmentation counts: tool results only up to the configured characters.

    Its text is known to hold no secrets: only `redact` makes such text, or what derives from it.
    """

    key: bytes
    client: str
    session_id: str
    project: str
    timestamp_ms: int
    event_type: EventType
    role: Role
    text: Clean
    tokens: int
    truncated: bool = False
    source_ids: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    #: Who of a team may read it: its author alone, or all who may read the project.
    visibility: str = PRIVATE
    #: Whose session it is, in the memory of a team; nothing in one's own.
    author: str = ""

    @property
    def event_id(self) -> str:
        return ulid(self.timestamp_ms, self.key)

    def storable(self) -> Event:
        """Return the event as every database can hold it: itself, if it is so already."""
        wanted: dict[str, Any] = {
            "client": bounded_name(self.client),
            "session_id": bounded_name(self.session_id),
            "text": clean(self.text),
            "source_ids": tuple(map(bounded_name, self.source_ids)),
            "metadata": storable_metadata(self.metadata),
        }
        changed = {name: value for name, value in wanted.items() if value != getattr(self, name)}
        return replace(self, **changed) if changed else self

    @property
    def source_id(self) -> str:
        return self.source_ids[0] if self.source_ids else ""

    @property
    def says_something(self) -> bool:
        """Whether a summary could cite this event."""
        return self.event_type not in LIFECYCLE and bool(self.text) and not self.text.isspace()

    @property
    def is_commentary(self) -> bool:
        """Whether an agent only narrates its work in progress, as its client marks it."""
        return self.metadata.get("phase") == "commentary"

    @property
    def call_end(self) -> int:
        """Where the lines end that name a call: after the first one, or after those of a shell script."""
        return call_end(self.text, self.metadata)

    @property
    def outcome(self) -> Outcome | None:
        """Whether the user refused a call, or says why; whether it failed, or the user stopped the agent at it."""
        facts, is_tool = self.metadata, self.event_type is EventType.TOOL_RESULT
        if facts.get("refused") is True or "refuses" in facts or (is_tool and _REFUSED.match(self.text)):
            return "refused"
        if facts.get("is_interrupt") is True or _INTERRUPTED.match(self.text):
            return "interrupted"
        return "failed" if facts.get("failed") is True else None


def event_key(client: str, session_id: str, source_key: str) -> bytes:
    """The 80 bits that identify an event whatever its timestamp; they are the random part of its ULID."""
    name = "\x1f".join((client, session_id, source_key))
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=10).digest()


@dataclass(frozen=True, slots=True)
class Intake:
    """Events of one session, and the project it belongs to if the session is new. `author`: whose session it is."""

    events: tuple[Event, ...]
    root: str
    label: str = ""
    remote: str = ""
    author: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(event.storable() for event in self.events))
        for name in ("root", "label", "remote"):
            object.__setattr__(self, name, bounded_name(getattr(self, name), MAX_PLACE_CHARS))


def is_by_agent(note: Event) -> bool:
    """Whether a note was written by an agent, and not by the user."""
    return note.metadata.get(BY) == BY_AGENT


#: What was said, in contrast to what tools and the client did.
MESSAGES = (EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE, EventType.NOTE)


#: The `source` of a title that the user gave; a title of any other source is the client's own.
USER_TITLE = "custom-title"


def given_title(events: Iterable[Event]) -> Event | None:
    """Return the title that holds of these events of a session: the user's latest, else the client's latest."""
    titles = [event for event in events if event.event_type is EventType.SESSION_TITLE and event.says_something]
    titles.sort(key=lambda title: (title.metadata.get("source") == USER_TITLE, title.timestamp_ms))
    return titles[-1] if titles else None


def call_end(text: str, metadata: Mapping[str, Any]) -> int:
    """Return where the lines of a call's text end that name it; its metadata tells how many these are."""
    lines, end = metadata.get("call_lines"), -1
    for _ in range(lines if isinstance(lines, int) and lines > 1 else 1):
        end = text.find("\n", end + 1)
        if end < 0:
            return len(text)
    return end


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Which events are wanted: those for which all holds that is given. They come oldest first.

    A `session_id` means the session of that name; of several clients' the one that was active last, unless a `client`
    is named. `pinned` asks for pinned notes. `after` and `through` are places in a session. `record` is the key of a
    record that was made from them. `summarized` leaves out those of which no summary is made. `last` asks for no more
    than the latest so many. Empty texts are left out with `types`, and only then.
    """

    project: str | None = None
    session_id: str | None = None
    client: str | None = None
    types: tuple[EventType, ...] = ()
    pinned: bool = False
    after: tuple[int, int] | None = None
    through: tuple[int, int] | None = None
    record: bytes | None = None
    summarized: bool = False
    at: Position | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class TurnOutline:
    """A turn around one of its events: the user's message that opened it; from the event on, the first commit and the
    last reply before the user speaks again. Each is None if there is none."""

    opening: Event | None = None
    commit: Event | None = None
    closing: Event | None = None
