"""The table of contents: levels, node ids and the calendar they live in.

A week belongs to the month and year of its Thursday, so a day may belong to another year than its date says:
2024-12-30 lies in 2025-W01, in January 2025. Titles, bounds and parents all follow from `period`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import IntEnum

from mcp_memory.domain.events import parse_ulid
from mcp_memory.errors import SEE_ALL, TAKE_SNAPSHOT, BadId, OutOfReach


class Level(IntEnum):
    """Ordered from the root down."""

    YEAR = 0
    MONTH = 1
    WEEK = 2
    DAY = 3
    SEGMENT = 4

    @property
    def label(self) -> str:
        return self.name.lower()


#: How many bullets a node of this level has when there is that much to say.
BULLETS = {
    Level.YEAR: (3, 5),
    Level.MONTH: (5, 8),
    Level.WEEK: (5, 10),
    Level.DAY: (3, 8),
    Level.SEGMENT: (2, 5),
}

#: How long after its end a period still counts as open, because late events are likely.
GRACE = {
    Level.YEAR: timedelta(days=7),
    Level.MONTH: timedelta(hours=24),
    Level.WEEK: timedelta(hours=24),
    Level.DAY: timedelta(hours=1),
}

_FORMS = {
    Level.YEAR: re.compile(r"(\d{4})", re.A),
    Level.MONTH: re.compile(r"(\d{4})[-:](\d{2})", re.A),
    Level.WEEK: re.compile(r"(\d{4})[-:]W(\d{2})", re.A | re.I),
    Level.DAY: re.compile(r"(\d{4})[-:](\d{2})[-:](\d{2})", re.A),
    Level.SEGMENT: re.compile(r"(\d{4})[-:](\d{2})[-:](\d{2}):([0-9A-Za-z]{26}|[0-9A-Za-z]{10})", re.A),
}
#: Before the slug of a project whose tree is a team's, in ids as the team's server prints them.
TEAM = "team/"
_SLUG = re.compile(r"(?:team/)?[\w.-]+")
#: A segment is also known by the part of its ULID that says the time, which in long lists is all that is shown.
_ULID, _TIME_PART = 26, 10
_HELP = (
    "Ids look like toc:year:2024, toc:month:2024-01, toc:week:2024-W03, toc:day:2024-01-15 or "
    "toc:segment:2024-01-15:<ULID>."
)


@dataclass(frozen=True, slots=True, order=True)
class NodeRef:
    """A node's place in its project's tree: the level and the canonical rest of its id."""

    level: Level
    key: str

    def node_id(self, project: str | None = None) -> str:
        """The id; with a project, the form that other projects use."""
        suffix = f"@{project}" if project else ""
        return f"toc:{self.level.label}:{self.key}{suffix}"

    def short_id(self, project: str | None = None) -> str:
        """The id, of a segment without what only tells it from others of the same instant."""
        whole = self.node_id(project)
        return whole.replace(self.key, self.key[: -(_ULID - _TIME_PART)]) if self._whole_segment else whole

    @property
    def _whole_segment(self) -> bool:
        return self.level is Level.SEGMENT and len(self.key) == len("2024-01-15:") + _ULID

    @property
    def shortened(self) -> bool:
        """Whether only the beginning of a segment's id was given."""
        return self.level is Level.SEGMENT and not self._whole_segment

    @property
    def day(self) -> date:
        """The first day of this node's period."""
        if self.level is Level.YEAR:
            return first_day_of_year(int(self.key))
        if self.level is Level.MONTH:
            year, month = self.key.split("-")
            return first_day_of_month(int(year), int(month))
        if self.level is Level.WEEK:
            year, week = self.key.split("-W")
            return date.fromisocalendar(int(year), int(week), 1)
        return date.fromisoformat(self.key[:10])

    @property
    def end_day(self) -> date:
        """The day after this node's last day."""
        start = self.day
        if self.level is Level.YEAR:
            return first_day_of_year(int(self.key) + 1)
        if self.level is Level.MONTH:
            year, month = map(int, self.key.split("-"))
            return first_day_of_month(year + month // 12, month % 12 + 1)
        return start + timedelta(days=7 if self.level is Level.WEEK else 1)

    @property
    def parent(self) -> NodeRef | None:
        if self.level is Level.YEAR:
            return None
        if self.level is Level.SEGMENT:
            return NodeRef(Level.DAY, self.key[:10])
        if self.level is Level.MONTH:
            return NodeRef(Level.YEAR, self.key[:4])
        if self.level is Level.WEEK:
            thursday = self.day + timedelta(days=3)
            return NodeRef(Level.MONTH, f"{thursday.year:04d}-{thursday.month:02d}")
        iso = self.day.isocalendar()
        return NodeRef(Level.WEEK, f"{iso.year:04d}-W{iso.week:02d}")

    def bounds(self, zone: tzinfo) -> tuple[int, int]:
        """First millisecond and first millisecond after the period, in the user's zone."""
        return start_of_day_ms(self.day, zone), start_of_day_ms(self.end_day, zone)

    @property
    def title(self) -> str:
        """The calendar name of a period; a segment's title comes from its summary."""
        start, last = self.day, self.end_day - timedelta(days=1)
        if self.level is Level.YEAR:
            return self.key
        if self.level is Level.MONTH:
            return f"{_MONTHS[int(self.key[5:7]) - 1]} {self.key[:4]}"
        if self.level is Level.WEEK:
            if start.year != last.year:
                return f"Week of {_day(start)}, {start.year} – {_day(last)}, {last.year}"
            right = str(last.day) if start.month == last.month else _day(last)
            return f"Week of {_day(start)}–{right}, {last.year}"
        return f"{_WEEKDAYS[start.weekday()]}, {_day(start)}, {start.year}"


_MONTHS = (
    "January February March April May June July August September October November December"
).split()  # fmt: skip
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def _day(day: date) -> str:
    return f"{_MONTHS[day.month - 1]} {day.day}"


def first_day_of_month(year: int, month: int) -> date:
    """The Monday of the first week whose Thursday lies in this month."""
    first = date(year, month, 1)
    thursday = first + timedelta(days=(3 - first.weekday()) % 7)
    return thursday - timedelta(days=3)


def first_day_of_year(year: int) -> date:
    return first_day_of_month(year, 1)


def start_of_day_ms(day: date, zone: tzinfo) -> int:
    """The first instant of a local day. Where midnight does not exist, the clock's first instant after the jump."""
    local = datetime.combine(day, time(), zone)
    return round(local.astimezone(UTC).timestamp() * 1000)


def local_day(timestamp_ms: int, zone: tzinfo) -> date:
    return datetime.fromtimestamp(timestamp_ms / 1000, zone).date()


def day_ref(timestamp_ms: int, zone: tzinfo) -> NodeRef:
    return NodeRef(Level.DAY, local_day(timestamp_ms, zone).isoformat())


def segment_ref(timestamp_ms: int, zone: tzinfo, segment_ulid: str) -> NodeRef:
    return NodeRef(Level.SEGMENT, f"{local_day(timestamp_ms, zone).isoformat()}:{segment_ulid}")


def ancestors(ref: NodeRef) -> list[NodeRef]:
    """From the parent up to the year."""
    found = []
    parent = ref.parent
    while parent:
        found.append(parent)
        parent = parent.parent
    return found


def covering(level: Level, day: date) -> NodeRef:
    """The node of a level whose period holds this day."""
    ref = NodeRef(Level.DAY, day.isoformat())
    return next(node for node in [ref, *ancestors(ref)] if node.level is level)


def parse_node_id(text: str) -> tuple[NodeRef, str | None]:
    """Read both forms of an id; the second value is the project after `@`, if any."""
    body, _, project = text.strip().partition("@")
    prefix, _, rest = body.partition(":")
    name, _, key = rest.partition(":")
    level = next((level for level in Level if level.label == name.lower()), None)
    if prefix.lower() != "toc" or level is None or (project and not _SLUG.fullmatch(project)):
        raise BadId(f"{text[:80]!r} is not a node id. {_HELP}", SEE_ALL)
    match = _FORMS[level].fullmatch(key)
    if not match:
        raise BadId(f"{text[:80]!r} is not the id of a {level.label}. {_HELP}", SEE_ALL)
    ref = NodeRef(level, _canonical(level, match.groups()))
    try:
        _ = [(node.day, node.end_day) for node in (ref, *ancestors(ref))]
    except (ValueError, OverflowError):
        raise BadId(f"{text[:80]!r} names a date that does not exist. {_HELP}", SEE_ALL) from None
    return ref, project or None


def _canonical(level: Level, parts: tuple[str, ...]) -> str:
    if level is Level.WEEK:
        return f"{parts[0]}-W{parts[1]}"
    if level is Level.SEGMENT:
        parse_ulid(parts[3].ljust(_ULID, "0"))
        return f"{'-'.join(parts[:3])}:{parts[3].upper()}"
    return "-".join(parts)


_FORM = re.compile(r"snap:([0-9a-f]{1,15})\.([0-9a-f]{1,15})\.([0-9a-f]{1,15})\.([0-9a-f]{4})", re.I)


@dataclass(frozen=True, slots=True)
class Position:
    """The latest node version, event and record that belong to a view."""

    versions: int
    events: int
    records: int


def encode(position: Position) -> str:
    return f"snap:{position.versions:x}.{position.events:x}.{position.records:x}.{_check(position)}"


def decode(text: str) -> Position:
    """The place that a snapshot names; one that was guessed or cut is told by its check."""
    match = _FORM.fullmatch(text.strip())
    if match:
        position = Position(*(int(match[number], 16) for number in (1, 2, 3)))
        if match[4].lower() == _check(position):
            return position
    raise BadId(f"{text[:60]!r} is not a snapshot.", TAKE_SNAPSHOT)


def _check(position: Position) -> str:
    name = f"{position.versions}.{position.events}.{position.records}"
    return hashlib.blake2b(name.encode(), digest_size=2, person=b"snapshot").hexdigest()


@dataclass(frozen=True, slots=True)
class Scope:
    """`home` is the current project, if known; `project` the one that is asked about, None for all of them.

    `alone`: nothing of other projects may be told, not even that they have something. `team`: it is the memory of a
    team, whose ids say so, since a laptop has a memory of the same project.
    """

    home: str | None
    project: str | None
    alone: bool = False
    team: bool = False

    def admit(self, project: str) -> None:
        """Refuse what belongs to a project that may not be read."""
        if self.alone and project != self.home:
            raise out_of_reach(self.home)

    def id_of(self, node_id: str, project: str) -> str:
        """A node id as seen from home: those of other projects carry their slug."""
        return node_id if project == self.home else f"{node_id}@{self.name_of(project)}"

    def short_id_of(self, ref: NodeRef, project: str) -> str:
        return ref.short_id(None if project == self.home else self.name_of(project))

    def name_of(self, project: str) -> str:
        """A project as ids name it."""
        return f"{TEAM}{project}" if self.team else project

    def slug_of(self, name: str) -> str:
        """The project that an id names."""
        return name.removeprefix(TEAM) if self.team else name


def is_of_team(node_id: str) -> bool:
    """Whether the id is that of a node in a team's memory, as its server prints it."""
    return f"@{TEAM}" in node_id


def out_of_reach(home: str | None) -> OutOfReach:
    only = f"only this project, {home}, can" if home else "and here memory knows no project, so nothing can"
    return OutOfReach(
        f"The user's setting [privacy] isolate is on: over MCP {only} be reached. Go on without it; the user can look "
        "it up on the command line, or turn the setting off."
    )
