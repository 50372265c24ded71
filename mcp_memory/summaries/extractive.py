"""Summaries of segments: title, bullets and keywords in the words of the conversation.

Every sentence worth keeping is a candidate, with its kind and its exact place; few of them become bullets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from operator import attrgetter, is_not

from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.nodes import DraftBullet, Evidence, Kind, SegmentSummary, note_kind
from mcp_memory.domain.sentences import sentences
from mcp_memory.domain.text import ELLIPSIS, folded, one_line, printable, similar, terms
from mcp_memory.domain.toc import BULLETS, Level
from mcp_memory.summaries import cues
from mcp_memory.summaries.keywords import COMMON_STEMS, Vocabulary, passages
from mcp_memory.summaries.messages import (
    Call,
    call_of,
    command_name,
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
    MAX_BULLET,
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
from mcp_memory.summaries.titles import title_of

KEYWORDS = 10


def summarize_segment(events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
    """Title, bullets and keywords of a run of one session's events."""
    people = speakers([*context, *events])
    vocabulary = Vocabulary(passages(events, context), people, edited_files(events))
    found = candidates(events, named=bool(people))
    if context:
        # What a summary hands over is the task of the segment with which a session begins, and of no later one.
        found = [pick for pick in found if pick.event.event_type is not EventType.COMPACTION]
    chosen = choose(found, vocabulary.names, begins=not context) or _fallback(events)
    title = title_of(found or chosen, context, vocabulary, candidates) or _plain_title(chosen, events)
    bullets = tuple(map(_bullet, chosen))
    return SegmentSummary(title, bullets, vocabulary.keywords(KEYWORDS))


#: The kinds of bullets that are shown with another label than the kind of their sentence.
_BY_LABEL = {
    (Kind.DECISION, Kind.CHOICE.label): Kind.CHOICE,
    (Kind.RULE, Kind.DEMAND.label): Kind.DEMAND,
    (Kind.OUTCOME, Kind.COMMIT.label): Kind.COMMIT,
}


def _bullet(pick: Candidate) -> DraftBullet:
    evidence = (
        Evidence(pick.event.key, pick.start, pick.end),
        *(Evidence(event.key, start, end) for event, start, end in pick.more),
    )
    kind = _BY_LABEL.get((pick.kind, pick.label), pick.kind)
    if kind.label != pick.label and pick.label == Kind.REMARK.label:
        kind = Kind.REMARK
    # Who speaks in a talk between people, and which tests ran, is part of the text.
    return DraftBullet(pick.text if kind.label == pick.label else pick.shown, evidence, kind)


def _fallback(events: Sequence[Event]) -> list[Candidate]:
    """One candidate of whatever there is: short answers, commands, or a client's own words."""
    for event in sorted(events, key=lambda event: event.event_type is EventType.COMPACTION):
        if not event.says_something:
            continue
        text = event.text
        start = len(text) - len(text.lstrip())
        end = min(len(text.rstrip()), start + MAX_EXCERPT)
        name = command_name(event)
        body = f"Ran the command {name}" if name else plain(text[start:end]) or printable(text[start:end]).strip()
        if event.event_type is EventType.COMPACTION:
            body = f"Carried on from a summary: {body}"
        return [Candidate(event, start, end, "", one_line(body or event.role, MAX_BULLET), Kind.STATED, 0, 0)]
    return []


def _plain_title(chosen: Sequence[Candidate], events: Sequence[Event]) -> str:
    """The title of a segment in which nothing makes a headline: its first words, or what kind of event it was."""
    text = chosen[0].shown if chosen else next((event.text for event in events if event.text.strip()), "")
    text = one_line(printable(text).replace("<", "").replace(">", ""), 60).rstrip(ELLIPSIS)
    return text or next((str(event.event_type) for event in events), "").replace("_", " ").capitalize()


#: So alike are near-duplicates of one speaker, and of two: a request and its outcome share words, and both are told.
_DUPLICATE, _DUPLICATE_OF_OTHER = 0.6, 0.8
_MIN_GAIN = 0.2
_POOL = 30
#: Kinds that are worth telling even of a matter that hardly comes up again, like whatever a user opens with; any other
#: sentence must be about the rest.
_TELLING = frozenset(Kind) - {Kind.STATED, Kind.SAID, Kind.PLANNED, Kind.STEP, Kind.DID}
#: So much these count in any case, and what a session begins with.
_BASE, _BEGINS = 0.3, 0.5
#: A plain task is preferred that tells so much of what the most telling of a message does.
_NEARLY = 0.6
_RAISED = frozenset({Kind.REQUEST, Kind.REPORT})
_SAYS_ENOUGH = 6
#: What is left of a sentence like `fix all of them`.
_SAYS_LITTLE, _FEW = 0.4, 4
#: What a term loses that another bullet tells, and what one weighs that is not known.
_TOLD_AGAIN, _UNKNOWN = 0.6, 0.1
#: What is left of a candidate when another of its kind was chosen, of its turn or of its event.
_SAME_KIND, _BOTH_SAID = 0.7, 0.85
_SAME_TURN = 0.9
_SAME_EVENT, _SAME_MESSAGE = 0.85, 0.65
_GAIN = attrgetter("gain")


def choose(found: Sequence[Candidate], weights: Mapping[str, float], *, begins: bool) -> list[Candidate]:
    """Up to five candidates that together tell most: different kinds, turns and terms, near-duplicates once.

    `begins` tells that a session does: what it begins with is what it was for.
    """
    low, high = BULLETS[Level.SEGMENT]
    told = [pick for pick in found if pick.kind is not Kind.HEADING]
    # What is about to be done is told only where little else is.
    done = [pick for pick in told if pick.kind is not Kind.PLANNED]
    weighed = _TermWeights(weights)
    options = [_Choice(pick, weighed) for pick in (done if len(done) >= low else told)]
    if opening := _opening(options):
        # To ask for a look, as in `check the comments`, is only the way to a matter.
        looks = cues.INSPECTION.match(folded(opening.pick.text))
        opening.tell_of(_BEGINS if begins and not looks else _BASE)
    # Comparing every sentence of a long segment with every other takes too long.
    rest = options if len(options) <= _POOL else sorted(options, key=_GAIN, reverse=True)[:_POOL]
    chosen: list[Candidate] = []
    covered: set[str] = set()
    while rest and len(chosen) < high:
        best = max(rest, key=_GAIN)
        if best.gain < (_MIN_GAIN if len(chosen) >= low else 0.0):
            break
        chosen.append(best.pick)
        fresh = best.own - covered
        covered |= fresh
        rest = [option for option in rest if option is not best and not _repeats(option, best)]
        for option in rest:
            option.after(best.pick, covered if not fresh.isdisjoint(option.own) else None)
    return sorted(chosen, key=lambda pick: pick.order)


class _TermWeights(dict[str, float]):
    """The weights of terms; one that is not known counts a little."""

    def __missing__(self, term: str) -> float:
        return _UNKNOWN


class _Choice:
    """A candidate while bullets are chosen, and what it would add to those chosen so far."""

    __slots__ = ("_base", "_factor", "_says", "_told", "_weights", "gain", "own", "pick")

    def __init__(self, pick: Candidate, weights: _TermWeights) -> None:
        self.pick = pick
        self.own = terms(pick.shown)
        self._weights = weights
        # Words that say nothing by themselves make no bullet, whatever they announce.
        said = len(self.own) - len(self.own & COMMON_STEMS)
        self._says = min(said / _SAYS_ENOUGH, 1.0)
        self._base = _BASE * self._says if pick.kind in _TELLING else 0.0
        self._factor = _SAYS_LITTLE if said < 2 and len(self.own) <= _FEW else 1.0
        self._tell(frozenset())

    def tell_of(self, base: float) -> None:
        """Count it for so much at least, however little its matter comes up again."""
        self._base = base * self._says
        self._tell(frozenset())

    def _tell(self, covered: Set[str]) -> None:
        weigh = self._weights.__getitem__
        new = math.fsum(map(weigh, self.own))
        if covered:
            new -= _TOLD_AGAIN * math.fsum(map(weigh, self.own & covered))
        told = min(new / (3.0 + 0.6 * len(self.own)), 1.0)
        self._told = self._base + (1.0 - self._base) * told
        self._rate()

    def _rate(self) -> None:
        self.gain = (self.pick.kind.weight + self.pick.bonus) * self._told * self._factor

    def after(self, other: Candidate, covered: Set[str] | None) -> None:
        """Rate it again when another was chosen; `covered` is given if that one told some of its terms."""
        pick = self.pick
        if other.kind is pick.kind:
            self._factor *= _BOTH_SAID if pick.kind is Kind.SAID else _SAME_KIND
        if other.turn == pick.turn:
            self._factor *= _SAME_TURN
        if other.event is pick.event:
            self._factor *= _SAME_MESSAGE if pick.event.role is Role.USER else _SAME_EVENT
        if covered is None:
            self._rate()
        else:
            self._tell(covered)


def _opening(options: Sequence[_Choice]) -> _Choice | None:
    """What a user opens with: the most telling of what the first message asks or reports, or else its first words."""
    first = next((option for option in options if option.pick.by_user), None)
    if first is None:
        return None
    raised = [one for one in options if one.pick.event is first.pick.event and one.pick.kind in _RAISED]
    best = max(raised, key=_GAIN, default=first)
    tasks = (one for one in raised if cues.opens_with_task(folded(one.pick.text)))
    return next((one for one in tasks if one.gain >= _NEARLY * best.gain), best)


def _repeats(option: _Choice, chosen: _Choice) -> bool:
    other, pick = option.pick, chosen.pick
    if other.event.key == pick.event.key and other.start < pick.end and pick.start < other.end:
        return True
    limit = _DUPLICATE if other.event.role is pick.event.role else _DUPLICATE_OF_OTHER
    return similar(option.own, chosen.own) >= limit


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
        for start, end, label, text, kind, bonus, listed, more in _of_event(event, turn > 1, last, worked, named):
            if kind is Kind.OPEN and event is final:
                bonus += _OPEN_AT_END
            elif kind is Kind.ERROR and event.key in mended:
                bonus -= _MENDED
            spans = tuple([(event, *span) for span in more])
            found.append(Candidate(event, start, end, label, text, kind, len(found), turn, bonus, listed, spans))
    # Of tests that were run again, what they came to before is out of date.
    latest = {pick.label: pick for pick in found if pick.kind is Kind.RESULT}
    current = [pick for pick in found if pick.kind is not Kind.RESULT or latest[pick.label] is pick]
    return current + actions(events, len(found), turn)


def _last_words(events: Sequence[Event]) -> list[bool]:
    """Of every event, whether nothing more is said in its turn: that is where an assistant tells outcomes."""
    last = [True] * len(events)
    for index in range(len(events) - 1, 0, -1):
        event = events[index]
        last[index - 1] = event.role is Role.USER or (last[index] and not event.says_something)
    return last


def _of_event(event: Event, later: bool, last: bool, worked: bool, named: bool) -> Sequence[Said]:
    """What an event says: `later` than in the first turn, `last` in its turn, after something was changed or not."""
    text = event.text
    if event.event_type is EventType.NOTE:
        found, kind = sentences(text), note_kind(event)
        return [said(text, a, b, plain(text[a:b]), kind, label=kind.label) for a, b, _, _ in found]
    if event.event_type is EventType.COMPACTION:
        return list(said_by_summary(text))
    if event.role is Role.USER:
        return _of_user(text, later, named)
    if event.role is Role.TOOL or event.event_type is EventType.TOOL_RESULT:
        return sorted(from_tool(event), key=_START)
    return _of_user(text, later, named) if named else _of_assistant(text, last, worked)


# A session's record, its segments and the requests before them are made of the same messages.
@lru_cache(maxsize=1 << 9)
def _of_user(text: str, later: bool, named: bool) -> Sequence[Said]:
    return tuple(sorted(said_by_user(text, later, named), key=_START))


@lru_cache(maxsize=1 << 9)
def _of_assistant(text: str, last: bool, worked: bool) -> Sequence[Said]:
    return tuple(sorted(said_by_assistant(text, last, worked), key=_START))


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
    if not (span := result_span(text, call.head)):
        return None
    # What a run of tests came to, with the command that ran them.
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
    targets = [call.target for call in calls]
    if verb == "Fetched":
        targets = [target.partition("://")[2] or target for target in targets]
    elif verb == "Used":
        targets = [f"{call.tool} {call.target}" for call in calls]
    names = [one_line(plain(target), 60) for target in targets]
    if verb == "Searched":
        names = [name.replace("\\", "") for name in names]
    if verb in ("Ran", "Searched"):
        names = [f"`{name.replace('`', '')}`" for name in names]
    names = [name for name in names if name.strip("`")]
    rest = f" and {total - len(calls)} more" if total > len(calls) else ""
    return f"{verb}{' for' if verb == 'Searched' else ''} {', '.join(names)}{rest}" if names else ""
