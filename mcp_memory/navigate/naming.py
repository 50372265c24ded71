"""What a node or grip may be called besides its id: by a date, by a time, or without its prefix."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from mcp_memory.domain.events import parse_ulid
from mcp_memory.domain.nodes import event_grip_id
from mcp_memory.domain.toc import Level, NodeRef, covering, local_day, parse_node_id
from mcp_memory.errors import BadId, Step, UnknownTimePhrase, UsageError
from mcp_memory.times.resolve import TimeRange, resolve

#: How many days a phrase may mean to be one day, week, month or year.
_LENGTHS = ((Level.DAY, 0, 1.1), (Level.WEEK, 6.9, 7.1), (Level.MONTH, 27.9, 31.1), (Level.YEAR, 364.9, 366.1))
_DAY_MS = 86_400_000
#: What is given alone of a grip's id, or of an event's: in a list, the part that is printed behind `grip:`.
_BARE_GRIP = re.compile(r"(?:[0-9A-HJKMNP-TV-Z]{8}|\d+:[0-9A-HJKMNP-TV-Z]{26})(?:\+\d+)?", re.I)
_BARE_EVENT = re.compile(r"([0-9A-HJKMNP-TV-Z]{26})((?:\+\d+)?)", re.I)


def node_id_of(given: str, now: datetime, zone: tzinfo) -> str:
    """Return the id of a node that is named by its id, by what an id ends with (2026-W07), or by a time (last week)."""
    text, at, project = given.strip().partition("@")
    if text.lower().startswith("toc:"):
        return given
    for level in Level:
        try:
            return f"{parse_node_id(f'toc:{level.label}:{text}')[0].node_id()}{at}{project}"
        except BadId:
            continue
    if not text:
        return given
    try:
        when = resolve(text, now, zone)
    except UnknownTimePhrase:
        return given  # whoever reads it says what ids look like
    ref = _period_of(when, zone)
    if ref is None:
        step = Step(f"browse_time({text!r}) shows all of it.", f"`mcp-memory timeline {text!r}` shows all of it.")
        raise UsageError(f"{text[:80]!r} is not one day, week, month or year.", step)
    return f"{ref.node_id()}{at}{project}"


def _period_of(when: TimeRange, zone: tzinfo) -> NodeRef | None:
    """Return the day, week, month or year that a time is.

    It holds the middle of the time, since months begin with a week.
    """
    days = (when.end_ms - when.start_ms) / _DAY_MS
    level = next((level for level, least, most in _LENGTHS if least <= days <= most), None)
    middle = local_day((when.start_ms + when.end_ms) // 2, zone)
    return covering(level, middle) if level is not None else None


def grip_id_of(given: str) -> str:
    """Return the id of a grip, of which `grip:` may be missing; an event's id names the whole event."""
    text = given.strip()
    if _BARE_GRIP.fullmatch(text):
        return f"grip:{text}"
    if event := _BARE_EVENT.fullmatch(text):
        return event_grip_id(*parse_ulid(event[1])) + event[2]
    return given
