"""Candidates from tool results: commits, errors, refusals, steps of a to-do list, and what was done to which file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mcp_memory.domain.events import Event, EventType
from mcp_memory.domain.text import one_line
from mcp_memory.summaries import cues
from mcp_memory.summaries.candidate import MAX_EXCERPT, Candidate, Said, said, user_text
from mcp_memory.summaries.cues import Kind
from mcp_memory.summaries.messages import plain
from mcp_memory.summaries.toolcalls import (
    Call,
    call_of,
    commit_span,
    error_span,
    is_rejected,
    message_span,
    plan_span,
    rejection_span,
    result_span,
    steps,
)

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
_ERROR_WORD = re.compile(r"^error:\s+", re.I)


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
            yield said(text, *reason, user_text(body, kind, ""), kind)
    elif call.verb == "Ran" and (came_of_it := _from_command(text, call)):
        yield came_of_it


def _from_command(text: str, call: Call) -> Said | None:
    """What came of a command: a commit, an error, or how its tests did."""
    if subject := commit_span(text, call.head):
        line, number = text[slice(*subject)].split("] ", 1)[::-1]
        return said(text, *subject, f"Committed: {plain(line)} ({number})", Kind.OUTCOME, _COMMITTED)
    if not call.failed and (subject := message_span(text, call.head)):
        return said(text, *subject, f"Committed: {plain(text[slice(*subject)])}", Kind.OUTCOME, _COMMITTED)
    if call.failed and (span := error_span(text, call.head)):
        return said(text, *span, error_text(text[slice(*span)]), Kind.ERROR)
    return _result(text, call, span) if (span := result_span(text, call.head)) else None


def _result(text: str, call: Call, span: tuple[int, int]) -> Said:
    """What a run of tests came to, with the command that ran them."""
    told = one_line(plain(text[slice(*span)]).strip("= "), 120)
    name = one_line(plain(call.target), 60).replace("`", "")
    made = said(text, *span, f"Ran `{name}`: {told}", Kind.RESULT, 0.0 if _SOME_FAILED.search(told) else _ALL_WELL)
    return made._replace(more=((0, min(call.head, MAX_EXCERPT)),))


def error_text(line: str) -> str:
    return f"Error: {_ERROR_WORD.sub('', plain(line))}"


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
            Candidate(event, start, end, text, Kind.DID, order + len(found), turn, bonus, more=tuple(spans[1:]))
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
