"""Nodes of the table of contents: what they say, of what kind each bullet is, and the grips that lead to the words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from mcp_memory.domain.events import AGENT, NOTES_CLIENT, Event, is_by_agent, parse_ulid, ulid
from mcp_memory.domain.quoting import quoted, quoted_name
from mcp_memory.domain.text import safe
from mcp_memory.domain.toc import Level, NodeRef, Position
from mcp_memory.errors import SEE_GRIPS, BadId


class Depth(StrEnum):
    """Ordered from the shortest texts to the longest."""

    NONE = "none"
    BRIEF = "brief"
    STANDARD = "standard"
    DETAILED = "detailed"
    HIERARCHICAL = "hierarchical"


#: A text of fewer tokens than this is summarized to this depth; a longer one hierarchically.
THRESHOLDS = {Depth.NONE: 100, Depth.BRIEF: 500, Depth.STANDARD: 3_000, Depth.DETAILED: 15_000}


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a summary was made of and what came out; `compression_ratio` is output by input, from 0 to 1."""

    depth: Depth
    input_tokens: int
    output_tokens: int
    compression_ratio: float


def depth_of(tokens: int) -> Depth:
    return next((depth for depth, limit in THRESHOLDS.items() if tokens < limit), Depth.HIERARCHICAL)


def measure(input_tokens: int, output_tokens: int, depth: Depth | None = None) -> Metrics:
    """The metrics of a summary; a summary longer than its text counts as no compression."""
    ratio = min(max(output_tokens / input_tokens, 0.0), 1.0) if input_tokens > 0 else 1.0
    return Metrics(depth or depth_of(input_tokens), input_tokens, output_tokens, round(ratio, 4))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a bullet's words stand: characters `start` to `end` of one event's text."""

    event_key: bytes
    start: int
    end: int


class Kind(StrEnum):
    """What a statement tells, and a bullet made of it: this is all that is known of a kind.

    A row gives its name, the label that is shown before the text, how much such a statement matters beside others in a
    segment, and what a model is told of it, if it may give it to a bullet.
    """

    label: str
    weight: float
    meaning: str

    def __new__(cls, name: str, label: str = "", weight: float = 0.0, meaning: str = "") -> Kind:
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.label, kind.weight, kind.meaning = label, weight, meaning
        return kind

    NOTE = "note", "Note", 3.0
    DECISION = "decision", "Decided", 2.4, "what the user chose or agreed to"
    CORRECTION = "correction", "Corrected", 2.4, "what the user set right"
    RULE = "rule", "Rule", 2.0, "what the user wants to hold from now on"
    FIXED = "fixed", "Fixed", 2.0, "what was wrong and is mended"
    CAUSE = "cause", "", 2.0, "why something happened"
    OUTCOME = "outcome", "", 1.9, "what was done"
    COMMIT = "commit", "Committed", 1.8
    REQUEST = "request", "Asked", 1.5
    REPORT = "report", "Reported", 1.5
    OPEN = "open", "Open", 1.5, "what is left"
    ERROR = "error", "Error", 1.5
    #: What someone says in a talk between people; the text begins with the name.
    SAID = "said", "", 1.2
    #: What a user said besides, in summaries of earlier versions.
    REMARK = "remark", "User", 1.2
    FINDING = "finding", "", 0.9, "what was found out"
    STATED = "stated", "", 0.9, "anything else"
    DID = "did", "", 0.9
    RESULT = "result", "", 0.8
    STEP = "step", "", 0.5
    #: Only models tell it: what rules find refused is left out.
    REFUSED = "refused", "Refused", 0.0, "what the user turned down"
    #: These never become a bullet: a step that waits, a title that a client gave, and what tells nothing.
    PLANNED = "planned"
    HEADING = "heading"
    NOISE = "noise"

    @classmethod
    def _missing_(cls, value: object) -> Kind:
        """A kind of an earlier version, or one that a later version or a model made up."""
        return cls.REMARK if value in ("choice", "demand") else cls.STATED

    def shown(self, text: str) -> str:
        """A text of this kind as people and agents read it."""
        return f"{self.label}: {text}" if self.label else text


#: How much is shown of the name of the client that an agent's note came through.
_AGENT_CHARS = 40
#: What a note may be said to be; its bullets are of that kind.
NOTE_KINDS = (Kind.NOTE, Kind.DECISION, Kind.OUTCOME, Kind.RULE, Kind.OPEN)


def note_kind(event: Event) -> Kind:
    """The kind that a note was given."""
    return next((kind for kind in NOTE_KINDS if kind == event.metadata.get("kind")), Kind.NOTE)


def note_shown(event: Event, most: int) -> str:
    """A note as people and agents read it where it is plain that it is one; at most so many characters of it."""
    kind, text = note_kind(event), quoted(event.text, most)
    return text if kind is Kind.NOTE else kind.shown(text)


def note_author(event: Event) -> str:
    """Return which agent wrote a note, in parentheses; nothing for a note of the user's own."""
    if not is_by_agent(event):
        return ""
    name = event.metadata.get(AGENT)
    return f" (agent {quoted_name(name, _AGENT_CHARS)})" if isinstance(name, str) and name else " (agent)"


def user_first(notes: Iterable[Event]) -> list[Event]:
    """Return the notes with the user's own before those of agents, each in their order."""
    return sorted(notes, key=is_by_agent)


@dataclass(frozen=True, slots=True)
class DraftBullet:
    """A bullet of a segment. Without evidence it gets no grip, rather than a wrong one."""

    text: str
    evidence: tuple[Evidence, ...] = ()
    kind: Kind = Kind.STATED

    @property
    def shown(self) -> str:
        return self.kind.shown(self.text)


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """A segment's summary; `written_by` is who wrote it, if not the summarizer that was asked."""

    title: str
    bullets: tuple[DraftBullet, ...]
    keywords: tuple[str, ...]
    written_by: str = ""
    metrics: Metrics | None = None


@dataclass(frozen=True, slots=True)
class Bullet:
    """A stored bullet: its grips lead to the words, its children to where it came from."""

    text: str
    grip_ids: tuple[str, ...] = ()
    child_ids: tuple[str, ...] = ()
    kind: Kind = Kind.STATED
    #: Who said it, where a period of a team is told; found by its grips and stored nowhere.
    author: str = ""

    @property
    def shown(self) -> str:
        text = self.kind.shown(self.text)
        return f"{self.author}: {text}" if self.author else text

    def quoted(self, width: int = 0) -> str:
        """Return the bullet with its label, and its words so that they cannot pose as another label."""
        labels = "".join(
            f"{label}: " for label in (quoted_name(self.author) if self.author else "", self.kind.label) if label
        )
        return labels + quoted(self.text, max(width - len(labels), 1) if width else 0)


def foremost(bullets: Sequence[Bullet], most: int) -> list[Bullet]:
    """The few bullets of the weightiest kinds, in their order."""
    chosen = sorted(range(len(bullets)), key=lambda at: -bullets[at].kind.weight)[:most]
    return [bullets[at] for at in sorted(chosen)]


@dataclass(frozen=True, slots=True)
class RollupSummary:
    """A period's summary: `topic` joins the calendar title, bullets carry grips and children upward."""

    topic: str
    bullets: tuple[Bullet, ...]
    keywords: tuple[str, ...]
    written_by: str = ""
    metrics: Metrics | None = None


#: Who signs what no model wrote.
EXTRACTIVE = "extractive"


#: What stands behind a title of what is not closed yet, and before the names that follow a period's themes.
SO_FAR, NAMES = " (so far)", " · "


def fitting(title: str, width: int) -> str:
    """A title with as many of the names behind its themes as there is room for."""
    themes, mark, names = title.removesuffix(SO_FAR).partition(NAMES)
    end = SO_FAR if title.endswith(SO_FAR) else ""
    while mark and len(themes) + len(mark) + len(names) + len(end) > width:
        names, more, _ = names.rpartition(", ")
        mark = mark if more else ""
    return f"{themes}{mark}{names}{end}"


def quoted_title(title: str, width: int, *, is_period: bool, starts_line: bool = False) -> str:
    """Return a title whose themes, of which a period has several behind its name, cannot pose as lines of ours."""
    name, colon, themes = title.partition(": ") if is_period else ("", "", title)
    if not colon:
        return quoted(fitting(title, width), width, starts_line=starts_line)
    room = max(width - len(name) - len(colon), 1)
    return f"{safe(name)}{colon}{quoted_themes(themes, room)}"


def quoted_themes(themes: str, width: int) -> str:
    """Return the themes of a period, each quoted by itself."""
    return "; ".join(quoted(theme) for theme in safe(fitting(themes, width), width).split("; "))


@dataclass(frozen=True, slots=True)
class Node:
    """One version of one node."""

    ref: NodeRef
    project: str
    version: int
    title: str
    start_ms: int
    end_ms: int
    bullets: tuple[Bullet, ...]
    keywords: tuple[str, ...]
    child_ids: tuple[str, ...]
    open: bool
    written_by: str
    input_hash: str
    tokens: int = 0
    removed: bool = False
    created_ms: int = 0
    session_id: str | None = None
    metrics: Metrics | None = None
    #: How much lies beneath: the tokens of conversation.
    weight: int = 0
    #: Whose session a segment is of, in the memory of a team.
    author: str = ""
    #: The client of a segment's session.
    client: str = ""
    #: That of the extractive summarizer which writes it; none if a model does.
    revision: int | None = None

    @property
    def level(self) -> Level:
        return self.ref.level

    @property
    def holds_notes(self) -> bool:
        """Whether it is a segment of notes and not of a session."""
        return self.client == NOTES_CLIENT

    @property
    def node_id(self) -> str:
        return self.ref.node_id()


State = Literal["exact", "moved", "gone"]
#: An id may end in a place within its event, such as +1200: words that stand deep in a long text are opened there.
_PLACE = re.compile(r"\+([0-9]{1,9})\s*\Z")
_SHORT = re.compile(r"grip:([0-9A-HJKMNP-TV-Z]{8})", re.I)
#: What was said before 1970, as a wrong clock or an imported diary tells, has a time below zero.
_FORM = re.compile(r"grip:(-?[0-9]{1,15}):([0-9A-Za-z]{26})(?:@([\w.-]+))?", re.I)


@dataclass(frozen=True, slots=True)
class Grip:
    """An excerpt of one event, with the range of events that belong to it."""

    key: bytes
    timestamp_ms: int
    event_key: bytes
    start: int
    end: int
    excerpt: str
    first_event_key: bytes
    last_event_key: bytes

    @property
    def grip_id(self) -> str:
        return grip_id(self.timestamp_ms, self.key)


def grip_id(timestamp_ms: int, key: bytes) -> str:
    return f"grip:{timestamp_ms}:{ulid(timestamp_ms, key)}"


def grip_key(event_key: bytes, start: int, end: int) -> bytes:
    name = event_key + f"{start}:{end}".encode()
    return hashlib.blake2b(name, digest_size=10, person=b"grip").digest()


def event_grip_id(timestamp_ms: int, event_key: bytes) -> str:
    """Every event can be gripped whole, without a bullet: its own key stands in the id."""
    return grip_id(timestamp_ms, event_key)


def short_grip_id(key: bytes) -> str:
    """The beginning of a key, enough to find it again: for long lists, where a whole id costs more than its line."""
    return f"grip:{ulid(0, key)[10:18]}"


def parse_short_grip_id(text: str) -> bytes | None:
    """The first bytes of the key that a short id names; None for anything else."""
    match = _SHORT.fullmatch(_PLACE.sub("", text).strip())
    return parse_ulid(f"0000000000{match[1]}00000000")[1][:5] if match else None


def place_in(text: str) -> int:
    """The place within the event that an id ends with; 0 if it names none."""
    match = _PLACE.search(text)
    return int(match[1]) if match else 0


def parse_grip_id(text: str) -> tuple[int, bytes, str | None]:
    """Time, key and project of a grip id."""
    match = _FORM.fullmatch(_PLACE.sub("", text).strip())
    if not match:
        raise BadId(
            f"{text[:80]!r} is not a grip id. Grip ids look like grip:1705330800000:01HN4QXKN6YWXVKZ3JMHP4BCDE.",
            SEE_GRIPS,
        )
    _, key = parse_ulid(match[2])
    return int(match[1]), key, match[3]


def locate(text: str, excerpt: str, start: int, end: int) -> tuple[State, int, int]:
    """Whether the excerpt still stands where it stood, elsewhere in the text, or nowhere."""
    if text[start:end] == excerpt:
        return "exact", start, end
    found = text.find(excerpt)
    return ("moved", found, found + len(excerpt)) if found >= 0 else ("gone", 0, 0)


@dataclass(frozen=True, slots=True)
class Stale:
    """A period whose children changed, or which has closed.

    `versions` are the children as they were read; `current_hash` is the input hash of the period's current version,
    if it has one that is not removed.
    """

    project: int
    slug: str
    ref: NodeRef
    children: tuple[Node, ...]
    versions: tuple[int, ...]
    current_hash: str | None


@dataclass(frozen=True, slots=True)
class Revising:
    """How what is written anew is told: a period of an earlier revision is not marked, since its own turn comes.

    Nor is one that a model wrote, unless something `moved` beneath it: segments came, went or hold something else.
    """

    revision: int
    moved: bool = False


def revised(nodes: Mapping[int, int], revision: int) -> tuple[int, int] | None:
    """How many nodes are of a revision of the extractive summarizer, of how many it should write; None if all are.

    `nodes` are their numbers by revision.
    """
    done, total = sum(count for number, count in nodes.items() if number >= revision), sum(nodes.values())
    return (done, total) if done < total else None


@dataclass(frozen=True, slots=True)
class BriefSource:
    """What a project's brief is made of: its latest days, newest first, and its pinned notes.

    `roots` are the places by which the hook meets the project.
    """

    project: int
    slug: str
    roots: tuple[str, ...]
    days: tuple[Node, ...]
    notes: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """An event, what a grip cites of it (nothing: all of it), and its segment."""

    event: Event
    excerpt: str
    segment: NodeRef | None


@dataclass(frozen=True, slots=True)
class GripRecord:
    """A grip with the events around it, all of one session, in order."""

    grip_id: str
    excerpt: str
    start: int
    end: int
    node_id: str
    before: tuple[Event, ...]
    events: tuple[Event, ...]
    after: tuple[Event, ...]
    cited: Event | None


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A closed node whose current version is extractive although a model could write a better one.

    `number` and `version` are the store's own numbers of the node and of that version; `failures` tells how often a
    model has failed at it.
    """

    number: int
    version: int
    project: int
    slug: str
    ref: NodeRef
    input_hash: str
    input_tokens: int
    failures: int = 0


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """Which nodes are wanted: those for which all holds that is given. They come oldest first, ties by their keys.

    `refs` come in the order given. `session_id` asks for a session's segments. `beginning` is how the key begins; such
    nodes come by their keys, the last first.
    `between` is a time, the end excluded, that a node must touch. `versions` asks for every version of a node, the
    oldest first, removed ones included. `at` is the view of an earlier moment. `bullets` are left out by whoever shows
    titles alone, which is faster.
    """

    project: str | None = None
    refs: tuple[NodeRef, ...] | None = None
    parent: NodeRef | None = None
    session_id: str | None = None
    level: Level | None = None
    beginning: str | None = None
    between: tuple[int, int] | None = None
    versions: bool = False
    at: Position | None = None
    newest_first: bool = False
    limit: int | None = None
    bullets: bool = True

    @classmethod
    def latest(cls, project: str | None, level: Level, limit: int, *, bullets: bool = True) -> NodeQuery:
        """The latest nodes of a level, newest first."""
        return cls(project, level=level, newest_first=True, limit=limit, bullets=bullets)

    @classmethod
    def touching(cls, project: str | None, level: Level, start_ms: int, end_ms: int, limit: int) -> NodeQuery:
        """The nodes of a level that touch a time, oldest first."""
        return cls(project, level=level, between=(start_ms, end_ms), limit=limit)
