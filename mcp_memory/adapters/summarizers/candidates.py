"""From events to candidate bullets: every sentence worth keeping, with its kind and its exact place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from mcp_memory.adapters.summarizers import cues, patterns
from mcp_memory.adapters.summarizers.cues import Kind
from mcp_memory.adapters.summarizers.messages import (
    is_log,
    is_log_line,
    log_start,
    plain,
    readable,
    speaker_of,
    speakers,
    spoken,
    windows,
)
from mcp_memory.adapters.summarizers.sentences import Sentence, clipped, sentences
from mcp_memory.adapters.summarizers.toolcalls import Call, call_of, commit_span, error_span, rejection_span, steps
from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.text import has_unspaced_script, one_line

MAX_BULLET = 220
MAX_EXCERPT = 300
_MAX_TARGETS = 4

_CONNECTED = re.compile(
    r"(?:so|this|that|it|these|those|they|but|which|otherwise|then|both|instead|previously|also|since)\b", re.I
)


_KEY_SECTION = re.compile(r"\b(?:cause|fix|fixes|solution|decision|resolution|conclusion|recommendation)\b")
_ERROR_WORD = re.compile(r"^error:\s+", re.I)
_PLAN = re.compile(r"(?:plan|task|todo)\s*:\s*", re.I)
_ORDINARY = re.compile(r"[a-z]+(?:['’][a-z]+)?(?:[\s,]|$)")
_SHORT_CODE = re.compile(r"\s*```\w*\n([^\n`]{1,120}(?:\n[^\n`]{1,60})?)\n\s*```")
_LINK_ONLY = re.compile(r"\[[^\]]*\]\([^)]*\)\W*$")

# The later an item stands in a list, the less it matters.
_LISTED = {"prose": 0.0, "heading": 0.0, "item": 0.1, "row": 0.2}


class Candidate(NamedTuple):
    """A possible bullet. `order` is its place in the segment, `turn` the user message it follows."""

    event: Event
    start: int
    end: int
    text: str
    kind: Kind
    order: int
    turn: int
    bonus: float = 0.0
    listed: bool = False
    more: tuple[tuple[Event, int, int], ...] = ()


def candidates(events: Sequence[Event]) -> list[Candidate]:
    """All candidates of a segment, in conversation order."""
    named = bool(speakers(events))
    final = next((event for event in reversed(events) if event.role is Role.ASSISTANT and event.says_something), None)
    found: list[Candidate] = []
    turn = 0
    for index, event in enumerate(events):
        if not event.says_something or event.event_type is EventType.COMPACTION:
            continue
        if event.role is Role.USER and event.event_type is not EventType.NOTE:
            turn += 1
        last = _is_last_word(events, index)
        for candidate in sorted(_of_event(event, turn, last=last, named=named), key=lambda one: one.start):
            left_open = candidate.kind is Kind.OPEN and event is final
            found.append(candidate._replace(order=len(found), bonus=candidate.bonus + (0.5 if left_open else 0.0)))
    return found + _actions(events, len(found), turn)


def _of_event(event: Event, turn: int, *, last: bool, named: bool) -> Iterator[Candidate]:
    if event.event_type is EventType.NOTE:
        return _notes(event, turn)
    if event.role is Role.USER:
        return _said_by_user(event, turn, named)
    if event.role is Role.TOOL or event.event_type is EventType.TOOL_RESULT:
        return _from_tool(event, turn)
    return _said_by_user(event, turn, named) if named else _said_by_assistant(event, turn, last)


def _notes(event: Event, turn: int) -> Iterator[Candidate]:
    for sentence in _sentences(event.text):
        yield _candidate(
            event,
            sentence.start,
            sentence.end,
            f"Note: {plain(event.text[sentence.start : sentence.end])}",
            Kind.NOTE,
            turn,
        )


def _said_by_user(event: Event, turn: int, named: bool) -> Iterator[Candidate]:
    text = spoken(event)
    if not text.strip():
        return
    speaker = speaker_of(text) if named else ""
    found = _sentences(text)
    if not named and is_log(text) and (span := error_span(text)):
        found = [sentence for sentence in found if sentence.end <= log_start(text)]
        # What the user says about a log tells more than its lines.
        yield _candidate(event, *span, _error_text(text[slice(*span)]), Kind.ERROR, turn, 0.0 if found else 1.5)
    first = True
    structured = any(sentence.form == "heading" for sentence in found)
    for group in _joined(text, found):
        start, end, form = group
        start += len(speaker) + 2 if first and speaker and text.startswith(speaker, start) else 0
        body = plain(text[start:end])
        if not readable(body) or (not named and is_log_line(text, start, end)):
            continue
        if form == "heading":
            body = _PLAN.sub("", body)
        kind = Kind.REQUEST if form == "heading" else Kind.SAID if speaker else cues.user_kind(body)
        if kind is Kind.NOISE or (body.endswith(":") and cues.is_label(body)):
            continue
        yield _candidate(
            event,
            start,
            end,
            _user_text(body, kind, speaker),
            kind,
            turn,
            _user_bonus(first, form, structured) - _asking(body, turn) if not speaker else cues.chat_value(body),
        )
        first = False


def _user_bonus(first: bool, form: str, structured: bool) -> float:
    """The opening of a message says what it is about; the parts of a pasted plan matter less."""
    if first:
        return 1.2 if form == "heading" else 0.8
    return -1.2 if form == "heading" else -0.6 if structured else -0.4 if form != "prose" else 0.0


def _asking(body: str, turn: int) -> float:
    """A question in between matters less than the task, and than what came of it."""
    return 0.7 if turn > 1 and patterns.WH.match(cues.without_politeness(cues.without_interjection(body))) else 0.0


def _user_text(body: str, kind: Kind, speaker: str) -> str:
    if speaker:
        return f"{speaker}: {body}"
    if kind is Kind.REQUEST:
        return f"Asked: {cues.without_politeness(cues.without_interjection(body))}"
    return f"{'Reported' if kind is Kind.REPORT else 'User'}: {cues.without_interjection(body)}"


def _said_by_assistant(event: Event, turn: int, last: bool) -> Iterator[Candidate]:
    text = event.text
    section = ""
    found = _sentences(text)
    skip_until = listed = 0
    for index, sentence in enumerate(found):
        if sentence.start < skip_until:
            continue
        start, end = sentence.start, sentence.end
        body = plain(text[start:end])
        if sentence.form == "heading":
            section = body.lower()
            if not cues.is_label(body) and body.count(" ") > 1:
                yield _candidate(event, start, end, body, Kind.HEADING, turn)
            continue
        if body.endswith((":", "：")):
            body, end = _with_items(text, body, end, found[index + 1 :])
            if end == sentence.end and cues.is_label(body):
                continue
        elif sentence.form == "prose" and index + 1 < len(found):
            body, end = _with_next(text, body, start, end, sentence, found[index + 1])
        skip_until = end
        kind = _assistant_kind(body, sentence, section, last)
        if kind is Kind.NOISE or len(body) < 6 or _named_only(body) or _LINK_ONLY.match(text, start, end):
            continue
        listed = listed + 1 if sentence.form in ("item", "row") else 0
        bonus = (0.35 if last else 0.0) + (0.4 if _KEY_SECTION.search(section) else 0.0)
        bonus += 0.3 if kind is Kind.DECISION and patterns.REASON.search(body) else 0.0
        bonus -= (0.3 if _CONNECTED.match(body) else 0.0) + min(_LISTED[sentence.form] * listed, 0.6)
        found_one = _candidate(event, start, end, _shown(body, kind), kind, turn, bonus)
        yield found_one._replace(listed=bool(listed))


def _named_only(body: str) -> bool:
    """Whether all it says is the name of a file: `File: config.go`."""
    return body.count(" ") < 2 and not has_unspaced_script(body)


def _assistant_kind(body: str, sentence: Sentence, section: str, last: bool) -> Kind:
    kind = cues.assistant_kind(body)
    if kind is Kind.STATED and "cause" in section:
        return Kind.CAUSE
    if kind is Kind.STATED and sentence.form in ("item", "row") and last:
        return Kind.OUTCOME
    return kind


def _shown(body: str, kind: Kind) -> str:
    body = cues.plan_of(body) if kind in (Kind.PLANNED, Kind.DECISION) else cues.finding(cues.unopened(body))
    return body[:1].upper() + body[1:] if _ORDINARY.match(body) else body


def _with_items(text: str, lead: str, end: int, following: Sequence[Sentence]) -> tuple[str, int]:
    """A lead that ends in a colon, told together with the list items it announces."""
    items: list[str] = []
    label = cues.is_label(lead)
    for _, parts in groupby(following, key=lambda part: part.block):
        first, *rest = parts
        stop = rest[-1].end if rest else first.end
        if first.form != "item" or label or len(lead) + sum(map(len, items)) + stop - first.start > MAX_BULLET:
            break
        items.append(plain(text[first.start : stop]).rstrip(".;:"))
        end = stop
    if not items and not label and (code := _SHORT_CODE.match(text, end)):
        items, end = [f"`{plain(code[1]).replace('`', '')}`"], code.end(1)
    lead = lead.rstrip(":： ")
    return (f"{lead}: {'; '.join(items)}" if items else lead), end


def _with_next(text: str, body: str, start: int, end: int, this: Sentence, following: Sentence) -> tuple[str, int]:
    """A sentence together with the next one when that one only makes sense after it."""
    raw = text[following.start : following.end]
    fits = following.block == this.block and following.end - start <= MAX_BULLET and not raw.rstrip().endswith(":")
    if fits and _CONNECTED.match(raw) and cues.assistant_kind(body) not in (Kind.NOISE, Kind.PLANNED):
        return f"{body} {plain(raw)}", following.end
    return body, end


def _from_tool(event: Event, turn: int) -> Iterator[Candidate]:
    call = call_of(event)
    if call is None:
        return
    text = event.text
    for start, end in steps(text, call.head):
        yield _candidate(event, start, end, plain(text[start:end]), Kind.STEP, turn)
    if reason := rejection_span(text, call.head):
        body = plain(text[slice(*reason)])
        kind = cues.user_kind(body)
        if kind is not Kind.NOISE:
            yield _candidate(event, *reason, _user_text(body, kind, ""), kind, turn)
    elif call.verb == "Ran" and (subject := commit_span(text, call.head)):
        yield _candidate(event, *subject, f"Committed: {plain(text[slice(*subject)])}", Kind.OUTCOME, turn, 0.7)
    elif call.failed and call.verb == "Ran" and (span := error_span(text, call.head)):
        yield _candidate(event, *span, _error_text(text[slice(*span)]), Kind.ERROR, turn, -0.4)


def _error_text(line: str) -> str:
    return f"Error: {_ERROR_WORD.sub('', plain(line))}"


def _actions(events: Sequence[Event], order: int, turn: int) -> list[Candidate]:
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
        bonus = 0.3 if verb == "Edited" else 0.0
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


def _candidate(event: Event, start: int, end: int, text: str, kind: Kind, turn: int, bonus: float = 0.0) -> Candidate:
    if end - start > MAX_EXCERPT:
        cut = event.text.rfind(" ", start, start + MAX_EXCERPT)
        end = cut if cut > start + MAX_EXCERPT // 2 else start + MAX_EXCERPT
    text = text if cues.is_question(text) or text.endswith("!") else text.rstrip(" .:;,：。")
    return Candidate(event, start, end, clipped(text, MAX_BULLET), kind, 0, turn, bonus)


def _sentences(text: str) -> list[Sentence]:
    return [sentence for low, high in windows(len(text)) for sentence in sentences(text, low, high)]


def _joined(text: str, found: Iterable[Sentence]) -> Iterator[tuple[int, int, str]]:
    """Neighbouring short sentences of one paragraph as one, since a user's thought rarely fits into one sentence."""
    for _, group in groupby(found, key=lambda sentence: sentence.block):
        parts = list(group)
        if len(parts) > 1 and text[: parts[-1].end].endswith(":") and cues.is_label(text[parts[-1].start : parts[-1].end]):
            parts.pop()
        while parts:
            count = len(parts)
            while count > 1 and parts[count - 1].end - parts[0].start > MAX_BULLET - 20:
                count -= 1
            yield parts[0].start, parts[count - 1].end, parts[0].form
            parts = parts[count:]


def _is_last_word(events: Sequence[Event], index: int) -> bool:
    """Whether an assistant message ends its turn: that is where outcomes are told."""
    for event in events[index + 1 :]:
        if event.role is Role.USER:
            return True
        if event.says_something:
            return False
    return True
