"""What a conversation says, as statements: of what kind each is, how it is meant, who said it and where it stands.

They are found by structure: who speaks, what closes a turn, what was asked and answered, what a tool did and whether it
was refused. Wording decides only how a sentence is meant. What holds of them is settled in `truth`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

from mcp_memory import lexicon
from mcp_memory.domain.events import Event, EventType, Role, is_by_agent
from mcp_memory.domain.nodes import Evidence, Kind, note_kind
from mcp_memory.domain.segments import FOLLOWING
from mcp_memory.domain.sentences import Form, sentences
from mcp_memory.domain.text import folded, has_unspaced_script, terms
from mcp_memory.summaries.calls import (
    Source,
    call_of,
    edited_files,
    error_span,
    lasting_errors,
    told_by_call,
    was_refused,
)
from mcp_memory.summaries.messages import (
    SAYS,
    Thought,
    offers,
    own_words,
    pasted_in,
    plain,
    readable,
    says,
    speaker_of,
    speakers,
    spoken,
    units,
)

_FILES = 4


class Mood(StrEnum):
    """How a sentence is meant. Only facts are told as such."""

    FACT = "fact"
    GUESS = "guess"
    OPTION = "option"
    PROPOSAL = "proposal"
    QUESTION = "question"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class Statement:
    """Characters `start` to `end` of an event, and what they tell; `more` is what else it rests on.

    `place` counts the statements of its message from 0. `lead` is the heading or line that it stands under.
    """

    kind: Kind
    text: str
    event: Event
    start: int
    end: int
    turn: int
    source: Source
    mood: Mood = Mood.FACT
    form: Form = "prose"
    place: int = 0
    lead: str = ""
    more: tuple[Evidence, ...] = ()

    @property
    def by_user(self) -> bool:
        return self.event.role is Role.USER

    @property
    def terms(self) -> frozenset[str]:
        return terms(self.text)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return (Evidence(self.event.key, self.start, self.end), *self.more)


@dataclass(slots=True)
class Exchange:
    """What a user said, and all that came of it until the user spoke again."""

    number: int
    asked: list[Event] = field(default_factory=list)
    said: list[Event] = field(default_factory=list)
    calls: list[Event] = field(default_factory=list)
    interrupted: bool = False
    statements: list[Statement] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return any(map(changes_something, self.calls))

    @property
    def closing(self) -> Event | None:
        """The last message, unless work went on after it."""
        last = self.said[-1] if self.said else None
        return None if last is None or (self.calls and follows(self.calls[-1], last)) else last


def follows(event: Event, other: Event) -> bool:
    return event.timestamp_ms > other.timestamp_ms


def turns_of(events: Sequence[Event]) -> list[Exchange]:
    """The turns of a conversation; the first one has no request if the user's stands before it."""
    turns = [Exchange(0)]
    for event in events:
        current = turns[-1]
        if event.event_type is EventType.ASSISTANT_STOP:
            current.interrupted |= event.metadata.get("is_interrupt") is True
        elif not event.says_something or event.is_commentary or event.event_type is EventType.NOTE:
            continue
        elif event.role is Role.USER:
            if current.said or current.calls or current.interrupted:
                current = Exchange(len(turns))
                turns.append(current)
            current.asked.append(event)
        elif event.role is Role.ASSISTANT:
            current.said.append(event)
        elif event.role is Role.TOOL:
            current.calls.append(event)
    return turns


def changes_something(event: Event) -> bool:
    """Whether it is the result of a call that edited a file or committed."""
    call = call_of(event)
    if call is None or call.failed or was_refused(event):
        return False
    return call.verb == "Edited" or (call.verb == "Ran" and "git commit" in call.target)


def collect(events: Sequence[Event], context: Sequence[Event] = ()) -> list[Exchange]:
    """The turns of a segment with their statements, in the order in which they were said."""
    named = bool(speakers([*context, *events]))
    turns = turns_of(events)
    for turn in turns:
        turn.statements += _told_in(turn, named)
    for turn in turns[:-1]:
        # Open is what the end left open.
        settled = {Kind.OPEN: Kind.STATED}
        turn.statements = [replace(one, kind=settled.get(one.kind, one.kind)) for one in turn.statements]
    for event in events:
        # What a summary hands over is the task with which a session begins, and of no later segment.
        if event.event_type is EventType.COMPACTION and not context:
            turns[0].statements += _handed_over(event)
        elif event.event_type is EventType.NOTE and event.says_something:
            turns[-1].statements += _noted(event, turns[-1].number)
        elif event.event_type is EventType.SESSION_TITLE and (heading := plain(event.text)):
            place = (0, len(event.text), turns[-1].number)
            turns[-1].statements.append(Statement(Kind.HEADING, heading, event, *place, Source.TITLE))
    if edited := edited_files(call for turn in turns for call in turn.calls):
        (event, *more), last = edited.values(), turns[-1].number
        rest = f" and {len(edited) - _FILES} more" if len(edited) > _FILES else ""
        heads = [Evidence(one.key, 0, one.text.find("\n") % (len(one.text) + 1)) for one in more[: _FILES - 1]]
        told = f"Edited {', '.join(list(edited)[:_FILES])}{rest}"
        end = event.text.find("\n") % (len(event.text) + 1)
        turns[-1].statements.append(Statement(Kind.STEP, told, event, 0, end, last, Source.ACTION, more=tuple(heads)))
    for event, start, end in lasting_errors([call for turn in turns for call in turn.calls]):
        told = plain(event.text[start:end])
        told = told[7:] if told[:7].lower() == "error: " else told  # as its label says
        turns[-1].statements.append(Statement(Kind.ERROR, told, event, start, end, turns[-1].number, Source.ACTION))
    return turns


def next_turns(after: Sequence[Event]) -> list[Exchange]:
    """The turns that follow a segment, as far as they may set right what it tells."""
    turns = [turn for turn in turns_of(after) if turn.asked][:FOLLOWING]
    for turn in turns[:-1]:
        turn.statements += _told_in(turn, named=False)
    # Nothing follows the last one that could set right what is answered there.
    for event in turns[-1].asked if turns else ():
        turns[-1].statements += said_by_user(event, turns[-1].number, named=False)
    return turns


def _done_silently(turn: Exchange) -> Iterator[Statement]:
    """What an assistant announced right before it changed something, where no closing message tells it."""
    changes = [event for event in turn.calls if changes_something(event)]
    for said, following in zip(turn.said, [*turn.said[1:], None], strict=False):
        if any(follows(event, said) and not (following and follows(event, following)) for event in changes):
            for unit in units(said.text)[-1:]:
                announced = SAYS["announces"].match(folded(unit.text))
                if announced and len(unit.text) - announced.end() > 15:
                    told = unopened(unit.text[announced.end() :])
                    yield Statement(Kind.DID, told, said, unit.start, unit.end, turn.number, Source.PASSING)


def _told_in(turn: Exchange, named: bool) -> Iterator[Statement]:
    closing, changed = turn.closing, turn.changed
    for event in turn.asked:
        yield from said_by_user(event, turn.number, named)
    for event in turn.said:
        if named:
            yield from said_by_user(event, turn.number, named)
        else:
            yield from said_by_assistant(event, turn.number, event is closing, changed)
    if closing is None and not named:
        yield from _done_silently(turn)
    for event in turn.calls:
        for kind, source, start, end, text, name in told_by_call(event):
            yield Statement(kind, text, event, start, end, turn.number, source, lead=name)


def _noted(event: Event, turn: int) -> Iterator[Statement]:
    """What someone asked to be remembered, of the kind that was given with it."""
    kind, author = note_kind(event), "(agent's note) " if is_by_agent(event) else ""
    for place, unit in enumerate(units(event.text)):
        yield Statement(kind, author + unit.text, event, unit.start, unit.end, turn, Source.NOTE, place=place)


def _handed_over(event: Event) -> Iterator[Statement]:
    """The first request that stands below a heading for requests in the summary of what came before."""
    asked = lexicon.expressions("facets")["summary_head"]
    found = sentences(event.text)
    for head, task in zip(found, found[1:], strict=False):
        if head.end - head.start > 60 or not asked.fullmatch(folded(event.text[head.start : head.end])):
            continue
        body = plain(event.text[task.start : task.end])
        who = lexicon.expressions("facets")["says_who"].match(folded(body))
        body = body[who.end() :] if who else body
        if readable(body):
            yield Statement(Kind.REQUEST, body, event, task.start, task.end, 0, Source.MESSAGE)
        return


_NUMBERED = re.compile(r"\(?\d{1,2}[.)]\s+")


def unopened(body: str) -> str:
    """A sentence without praise before it and marks after it."""
    opening = SAYS["opening"].match(folded(body)) or _NUMBERED.match(body)
    if opening and len(body) - opening.end() > 12:
        body = body[opening.end() :]
    body = body.lstrip(" .,;:)…–—") if body[:1] in ".,;:)…–—" and not body[1:2].isalnum() else body
    body = body if body.endswith(("?", "!", "？")) else body.rstrip(" .:;,：。")
    return body[:1].upper() + body[1:] if body[:1].islower() and body.partition(" ")[0].isalpha() else body


@lru_cache(maxsize=1 << 12)
def mood_of(body: str, lead: str = "") -> Mood:
    """How an assistant means a sentence, by its wording and the line above it."""
    low = folded(body)
    if body.endswith(("?", "？")):
        return Mood.QUESTION
    if SAYS["option"].match(low) or (lead and (SAYS["option"].match(folded(lead)) or offers(lead))):
        return Mood.OPTION
    opening = SAYS["opening"].match(low)
    start = opening.end() if opening else 0
    if SAYS["empty"].fullmatch(low) or SAYS["empty"].fullmatch(low, start) or SAYS["step"].match(low, start):
        return Mood.STEP
    if SAYS["proposes"].match(low, start):
        return Mood.PROPOSAL
    if SAYS["condition"].match(low, start) or SAYS["guess"].search(low):
        return Mood.GUESS
    return Mood.FACT


def said_by_assistant(event: Event, turn: int, closing: bool, changed: bool) -> Iterator[Statement]:
    """What an assistant says: in the message that closes a turn what came of it, before that what was found out."""
    place = 0
    source = Source.CLOSING if closing else Source.PASSING
    for unit in units(event.text):
        meant = None if unit.form == "heading" else _meant(unit.text, unit.lead)
        if meant is None or _LINK.fullmatch(event.text, unit.start, unit.end):
            continue
        mood, kind, text = meant
        if mood is Mood.FACT and kind is Kind.STATED:
            if closing and changed and (unit.form == "item" or not place):
                kind = Kind.OUTCOME
            elif not closing:
                kind = Kind.FINDING
        yield Statement(kind, text, event, unit.start, unit.end, turn, source, mood, unit.form, place, unit.lead)
        place += 1


_LINK = re.compile(r"\W*\[[^\]]*\]\([^)]*\)\W*")


@lru_cache(maxsize=1 << 12)
def _meant(body: str, lead: str) -> tuple[Mood, Kind, str] | None:
    """How an assistant means a sentence, its kind by its wording, and how it is told; None for a client's own line."""
    if not _tells(body) or any(SAYS["footer"].fullmatch(folded(part)) for part in (lead, body) if part):
        return None
    mood, kind = mood_of(body, lead), Kind.STATED
    if mood is Mood.FACT:
        done = Kind.OUTCOME if SAYS["done"].match(folded(body)) else kind
        kind = Kind.CAUSE if says("cause", body) else Kind.OPEN if says("open", body) else done
    return mood, kind, unopened(body)


def _tells(body: str) -> bool:
    if not readable(body):
        return False
    return has_unspaced_script(body) or (len(body) > 11 and body.count(" ") > 1)


_THOUGHT = 170


def asked_for(body: str, mood: Mood) -> tuple[str, Mood]:
    """A request without `can you` before it; then it is no question any more."""
    polite = SAYS["polite"].match(folded(body))
    if not polite or len(body) - polite.end() < 8:
        return body, mood
    rest = body[polite.end() :]
    if mood is Mood.QUESTION and "?" not in rest[:-1]:
        rest, mood = rest.rstrip("? "), Mood.FACT
    return rest, mood


_SENTENCE = re.compile(r"(?<=[.!?])\s")
#: So many headings make a document of a message, of which so much is told.
_DOCUMENT, _OPENS = 3, 4
#: What a user would do if something were so, which is not known yet.
_MAY_BE = re.compile(
    r"\b(?:if|falls|wenn|si)\b.*\b(?:i think|i guess|maybe|perhaps|(?:we|you|i) (?:could|might|can just))\b"
)


def said_by_user(event: Event, turn: int, named: bool) -> Iterator[Statement]:
    """What a user says: neighbouring short sentences as one thought; what was pasted is not the user's own."""
    text = spoken(event.text)
    name = speaker_of(text) if named else ""
    words = text if named else own_words(text)
    place = 0
    found = list(_thoughts(words))
    if sum(unit.form == "heading" for unit in found) >= _DOCUMENT:
        # A plan that is handed over is told by its name and what it opens with.
        found = [unit for unit in found if unit.form != "heading" or unit is found[0] or unit is found[1]][:_OPENS]
    for unit in found:
        body = unit.text
        if name and body.startswith(f"{name}: "):
            body = body.removeprefix(f"{name}: ")
        if not readable(body):
            continue
        kind = Kind.SAID if named else user_kind(body if place else _opening(body), unit.form)
        mood = Mood.QUESTION if body.endswith(("?", "？")) else Mood.FACT
        if not named:
            if unit.lead and offers(unit.lead) and not unit.text.startswith(unit.lead):
                mood = Mood.OPTION
            elif _MAY_BE.search(folded(body)):
                mood = Mood.GUESS
            body, mood = asked_for(body, mood)
        text_told = f"{name}: {unopened(body)}" if name else unopened(body)
        yield Statement(
            kind, text_told, event, unit.start, unit.end, turn, Source.MESSAGE, mood, unit.form, place, unit.lead
        )
        place += 1
    if not named:
        for log in pasted_in(text):
            if log.log and (span := error_span(text[: log.end], log.start)):
                body = plain(text[slice(*span)])
                if readable(body):
                    yield Statement(Kind.REPORT, body, event, *span, turn, Source.MESSAGE, place=place)
                    return


def _thoughts(text: str) -> Iterator[Thought]:
    """The sentences of a user's message, short neighbours of one paragraph as one."""
    held: Thought | None = None
    for unit in units(text, _THOUGHT):
        fits = held and held.form == unit.form == "prose" and held.block == unit.block
        if held and fits and unit.end - held.start <= _THOUGHT and not unit.text.endswith("?"):
            held = replace(held, end=unit.end, text=f"{held.text} {unit.text}")
        else:
            if held:
                yield held
            held = unit
    if held:
        yield held


def _opening(body: str) -> str:
    """The first sentence that says something: what a message opens with is more than a rule that it adds."""
    return next((one for one in _SENTENCE.split(body) if not SAYS["agrees"].fullmatch(folded(one))), body)


def user_kind(body: str, form: Form) -> Kind:
    """What a user's sentence is, by its wording."""
    low = folded(body)
    if SAYS["agrees"].fullmatch(low) or (body.isascii() and body.rstrip("!.…").isalpha()):
        return Kind.NOISE
    if form == "heading":
        return Kind.REQUEST
    if says("rule", body) and not body.endswith(("?", "？")):
        return Kind.RULE
    if says("problem", body):
        return Kind.REPORT
    return Kind.REQUEST
