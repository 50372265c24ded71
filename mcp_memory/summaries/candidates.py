"""From events to candidate bullets: every sentence worth keeping, with its kind and its exact place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter, is_not
from typing import NamedTuple

from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.summaries.actions import actions, changes_something, from_tool, mended_calls
from mcp_memory.summaries.assistant_words import said_by_assistant
from mcp_memory.summaries.candidate import Candidate, Said, said
from mcp_memory.summaries.cues import Kind
from mcp_memory.summaries.handed_over import said_by_summary
from mcp_memory.summaries.messages import plain, speakers
from mcp_memory.summaries.sentences import sentences
from mcp_memory.summaries.user_words import said_by_user

#: What is still open at the end is what one comes back for.
_OPEN_AT_END = 0.5
#: What an error loses that is gone when the command is run again.
_MENDED = 0.6
_START = attrgetter("start")


def candidates(events: Sequence[Event], named: bool | None = None) -> Sequence[Candidate]:
    """All candidates of a segment, in conversation order; `named` tells if people talk by name, if known.

    Those of the latest segment are kept, since a session's record asks for them several times.
    """
    global _latest
    named = bool(speakers(events)) if named is None else named
    seen, by_name, found = _latest
    if by_name is not named or len(seen) != len(events) or any(map(is_not, seen, events)):
        found = _candidates(events, named)
        _latest = tuple(events), named, found
    return found


_latest: tuple[Sequence[Event], bool, Sequence[Candidate]] = ((), False, ())


def _candidates(events: Sequence[Event], named: bool) -> list[Candidate]:
    mended = mended_calls(events)
    final = next((event for event in reversed(events) if event.role is Role.ASSISTANT and event.says_something), None)
    found: list[Candidate] = []
    turn = 0
    for event, place in _placed(events):
        turn = place.turn
        for start, end, text, kind, bonus, listed, more in _of_event(event, place, named):
            if kind is Kind.OPEN and event is final:
                bonus += _OPEN_AT_END
            elif kind is Kind.ERROR and event.key in mended:
                bonus -= _MENDED
            spans = tuple([(event, *span) for span in more])
            found.append(Candidate(event, start, end, text, kind, len(found), turn, bonus, listed, spans))
    return _latest_results(found) + actions(events, len(found), turn)


class _Place(NamedTuple):
    """Where a message stands: in which turn, whether it ends it, and whether anything was changed in it before."""

    turn: int
    last: bool
    worked: bool


def _placed(events: Sequence[Event]) -> Iterator[tuple[Event, _Place]]:
    """The events that say something, each with its place."""
    turn = 0
    # Which tools ran is known of most clients; where it is not, any turn may have done something.
    tools = any(event.role is Role.TOOL for event in events)
    worked = True
    for event, last in zip(events, _last_words(events), strict=True):
        compacted = event.event_type is EventType.COMPACTION
        # A summary in the course of a session repeats what was said before it.
        if not event.says_something or (compacted and turn):
            continue
        if compacted or (event.role is Role.USER and event.event_type is not EventType.NOTE):
            turn += 1
            worked = not tools
        worked = worked or changes_something(event)
        yield event, _Place(turn, last, worked)


def _last_words(events: Sequence[Event]) -> list[bool]:
    """Of every event, whether nothing more is said in its turn: that is where an assistant tells outcomes."""
    last = [True] * len(events)
    for index in range(len(events) - 1, 0, -1):
        event = events[index]
        last[index - 1] = event.role is Role.USER or (last[index] and not event.says_something)
    return last


def _latest_results(found: list[Candidate]) -> list[Candidate]:
    """The candidates but for runs of tests that were run again: what they came to is out of date."""
    latest: dict[str, Candidate] = {_run(pick): pick for pick in found if pick.kind is Kind.RESULT}
    return [pick for pick in found if pick.kind is not Kind.RESULT or latest[_run(pick)] is pick] if latest else found


def _run(pick: Candidate) -> str:
    return pick.text.partition("`: ")[0]


def _of_event(event: Event, place: _Place, named: bool) -> Sequence[Said]:
    if event.event_type is EventType.NOTE:
        return list(_notes(event.text))
    if event.event_type is EventType.COMPACTION:
        return list(said_by_summary(event.text))
    if event.role is Role.USER:
        return _of_user(event.text, place.turn > 1, named)
    if event.role is Role.TOOL or event.event_type is EventType.TOOL_RESULT:
        return sorted(from_tool(event), key=_START)
    return _of_user(event.text, place.turn > 1, named) if named else _of_assistant(event.text, place.last, place.worked)


# A session's record, its segments and the requests before them are made of the same messages.
@lru_cache(maxsize=1 << 9)
def _of_user(text: str, later: bool, named: bool) -> Sequence[Said]:
    return tuple(sorted(said_by_user(text, later, named), key=_START))


@lru_cache(maxsize=1 << 9)
def _of_assistant(text: str, last: bool, worked: bool) -> Sequence[Said]:
    return tuple(sorted(said_by_assistant(text, last, worked), key=_START))


def _notes(text: str) -> Iterator[Said]:
    for start, end, _, _ in sentences(text):
        yield said(text, start, end, f"Note: {plain(text[start:end])}", Kind.NOTE)
