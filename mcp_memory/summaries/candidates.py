"""From events to candidate bullets: every sentence worth keeping, with its kind and its exact place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter, is_not
from typing import NamedTuple

from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.sentences import sentences
from mcp_memory.domain.text import one_line
from mcp_memory.summaries import cues
from mcp_memory.summaries.messages import (
    Call,
    call_of,
    commit_span,
    error_span,
    is_rejected,
    message_span,
    plain,
    plan_span,
    rejection_span,
    result_span,
    speakers,
    steps,
)
from mcp_memory.summaries.statements import (
    MAX_EXCERPT,
    Candidate,
    Said,
    error_said,
    said,
    said_by_assistant,
    said_by_person,
    said_by_summary,
    said_by_user,
)

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
        for start, end, label, text, kind, bonus, listed, more in _of_event(event, place, named):
            if kind is Kind.OPEN and event is final:
                bonus += _OPEN_AT_END
            elif kind is Kind.ERROR and event.key in mended:
                bonus -= _MENDED
            spans = tuple([(event, *span) for span in more])
            found.append(Candidate(event, start, end, label, text, kind, len(found), turn, bonus, listed, spans))
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
    latest: dict[str, Candidate] = {pick.label: pick for pick in found if pick.kind is Kind.RESULT}
    return [pick for pick in found if pick.kind is not Kind.RESULT or latest[pick.label] is pick] if latest else found


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
        yield said(text, start, end, plain(text[start:end]), Kind.NOTE, label=Kind.NOTE.label)


_MAX_TARGETS = 4
_PREAMBLE = re.compile(r"^(?:cd [^&;]+(?:&&|;)\s*|\w+=\S+\s+)+")
_PLAN = re.compile(r"(?:(?:implementation )?plan|task)\s*(?::|for|to|[–—-])\s+", re.I)
_SOME_FAILED = re.compile(r"\b[1-9][\d,]* (?:\w+ )?(?:failed|failing|failures?|errors?)\b")
#: What a run loses in which nothing failed: that it does not go without saying is why failures are told.
_ALL_WELL = -0.4
#: What a commit gains: it sums up what was done.
_COMMITTED = 0.7
#: What the edits of files gain beside other actions.
_EDITS = 0.3


def changes_something(event: Event) -> bool:
    """Whether it is the result of a call that edited a file or committed."""
    if event.event_type is not EventType.TOOL_RESULT:
        return False
    call = call_of(event)
    return call is not None and (call.verb == "Edited" or (call.verb == "Ran" and "commit" in call.target))


def edited_files(events: Sequence[Event]) -> frozenset[str]:
    """The names of the files that were changed."""
    calls = [call_of(event) for event in events if event.event_type is EventType.TOOL_RESULT]
    return frozenset(call.target for call in calls if call and call.verb == "Edited")


def mended_calls(events: Sequence[Event]) -> frozenset[bytes]:
    """Failed commands that succeeded when they ran again: their errors are of no interest any more."""
    succeeded: set[str] = set()
    mended: list[bytes] = []
    for event in reversed(events):
        call = call_of(event) if event.event_type is EventType.TOOL_RESULT else None
        if call and call.verb == "Ran":
            name = " ".join(_PREAMBLE.sub("", call.target).split()[:3])
            if not call.failed:
                succeeded.add(name)
            elif name in succeeded:
                mended.append(event.key)
    return frozenset(mended)


def from_tool(event: Event) -> Iterator[Said]:
    """What a tool result tells: a plan, steps, why it was refused, or what came of a command."""
    call = call_of(event)
    if call is None:
        return
    text = event.text
    if call.tool == "ExitPlanMode" and not is_rejected(text, call.head) and (heading := plan_span(text, call.head)):
        yield said(text, *heading, _PLAN.sub("", plain(text[slice(*heading)])), Kind.HEADING)
    for start, end in steps(text, call.head):
        yield said(text, start, end, plain(text[start:end]), Kind.STEP)
    if reason := rejection_span(text, call.head):
        body = plain(text[slice(*reason)])
        kind = cues.user_kind(body)
        if kind is not Kind.NOISE:
            yield said_by_person(text, *reason, body, kind)
    elif call.verb == "Ran" and (came_of_it := _from_command(text, call)):
        yield came_of_it


def _from_command(text: str, call: Call) -> Said | None:
    """What came of a command: a commit, an error, or how its tests did."""
    if subject := commit_span(text, call.head):
        line, number = text[slice(*subject)].split("] ", 1)[::-1]
        told = f"{plain(line)} ({number})"
        return said(text, *subject, told, Kind.OUTCOME, _COMMITTED, label=Kind.COMMIT.label)
    if not call.failed and (subject := message_span(text, call.head)):
        told = plain(text[slice(*subject)])
        return said(text, *subject, told, Kind.OUTCOME, _COMMITTED, label=Kind.COMMIT.label)
    if call.failed and (span := error_span(text, call.head)):
        return error_said(text, *span)
    return _result(text, call, span) if (span := result_span(text, call.head)) else None


def _result(text: str, call: Call, span: tuple[int, int]) -> Said:
    """What a run of tests came to, with the command that ran them."""
    told = one_line(plain(text[slice(*span)]).strip("= "), 120)
    name = one_line(plain(call.target), 60).replace("`", "")
    bonus = 0.0 if _SOME_FAILED.search(told) else _ALL_WELL
    made = said(text, *span, told, Kind.RESULT, bonus, label=f"Ran `{name}`")
    return made._replace(more=((0, min(call.head, MAX_EXCERPT)),))


def actions(events: Sequence[Event], order: int, turn: int) -> list[Candidate]:
    """What the tools did, by verb, for segments in which little was said."""
    done: dict[str, dict[str, tuple[Event, Call]]] = {}
    for event in events:
        if event.event_type is EventType.TOOL_RESULT and (call := call_of(event)) and call.target.strip("{}[]"):
            done.setdefault(call.verb, {}).setdefault(call.target, (event, call))
    found: list[Candidate] = []
    for verb in sorted(done, key=["Edited", "Ran", "Fetched", "Used", "Searched", "Read"].index):
        targets = list(done[verb].values())[:_MAX_TARGETS]
        text = _action_text(verb, [call for _, call in targets], len(done[verb]))
        if not text:
            continue
        spans = [(event, 0, min(call.head, MAX_EXCERPT)) for event, call in targets]
        event, start, end = spans[0]
        bonus = _EDITS if verb == "Edited" else 0.0
        found.append(
            Candidate(event, start, end, "", text, Kind.DID, order + len(found), turn, bonus, more=tuple(spans[1:]))
        )
    return found


def _action_text(verb: str, calls: Sequence[Call], total: int) -> str:
    names = [one_line(plain(_target(verb, call)), 60) for call in calls]
    if verb == "Searched":
        names = [name.replace("\\", "") for name in names]
    if verb in ("Ran", "Searched"):
        names = [f"`{name.replace('`', '')}`" for name in names]
    names = [name for name in names if name.strip("`")]
    rest = f" and {total - len(calls)} more" if total > len(calls) else ""
    return f"{verb}{' for' if verb == 'Searched' else ''} {', '.join(names)}{rest}" if names else ""


def _target(verb: str, call: Call) -> str:
    if verb == "Fetched":
        return call.target.partition("://")[2] or call.target
    return f"{call.tool} {call.target}" if verb == "Used" else call.target
