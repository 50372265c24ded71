"""Summaries of segments: title, bullets and keywords in the words of the conversation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from operator import attrgetter

from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.nodes import DraftBullet, Evidence, Kind, SegmentSummary
from mcp_memory.domain.text import ELLIPSIS, folded, one_line, printable, similar, terms
from mcp_memory.domain.toc import BULLETS, Level
from mcp_memory.summaries import cues
from mcp_memory.summaries.candidates import candidates, edited_files
from mcp_memory.summaries.keywords import COMMON_STEMS, Vocabulary, passages
from mcp_memory.summaries.messages import command_name, plain, speakers
from mcp_memory.summaries.statements import MAX_BULLET, MAX_EXCERPT, Candidate
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
    title = title_of(found or chosen, context, vocabulary) or _plain_title(chosen, events)
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
    weighed = _Weights(weights)
    options = [_Option(pick, weighed) for pick in _told(found, low)]
    if opening := _opening(options):
        opening.tell_of(_BEGINS if begins and not _only_looks(opening.pick) else _BASE)
    rest = _most_telling(options)
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


def _told(found: Sequence[Candidate], low: int) -> list[Candidate]:
    """What may be a bullet; what is about to be done is told only where little else is."""
    told = [pick for pick in found if pick.kind is not Kind.HEADING]
    done = [pick for pick in told if pick.kind is not Kind.PLANNED]
    return done if len(done) >= low else told


def _only_looks(pick: Candidate) -> bool:
    """Whether it asks for a look, which is the way to a matter: `check the comments`."""
    return cues.INSPECTION.match(folded(pick.text)) is not None


class _Weights(dict[str, float]):
    """The weights of terms; one that is not known counts a little."""

    def __missing__(self, term: str) -> float:
        return _UNKNOWN


class _Option:
    """A candidate while bullets are chosen, and what it would add to those chosen so far."""

    __slots__ = ("_base", "_factor", "_says", "_told", "_weights", "gain", "own", "pick")

    def __init__(self, pick: Candidate, weights: _Weights) -> None:
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


def _opening(options: Sequence[_Option]) -> _Option | None:
    """What a user opens with: the most telling of what the first message asks or reports, or else its first words."""
    first = next((option for option in options if option.pick.by_user), None)
    if first is None:
        return None
    raised = [one for one in options if one.pick.event is first.pick.event and one.pick.kind in _RAISED]
    best = max(raised, key=_GAIN, default=first)
    tasks = (one for one in raised if cues.opens_with_task(folded(one.pick.text)))
    return next((one for one in tasks if one.gain >= _NEARLY * best.gain), best)


def _most_telling(options: list[_Option]) -> list[_Option]:
    """Those that can be chosen at all: comparing every sentence of a long segment with every other takes too long."""
    return options if len(options) <= _POOL else sorted(options, key=_GAIN, reverse=True)[:_POOL]


def _repeats(option: _Option, chosen: _Option) -> bool:
    other, pick = option.pick, chosen.pick
    if other.event.key == pick.event.key and other.start < pick.end and pick.start < other.end:
        return True
    limit = _DUPLICATE if other.event.role is pick.event.role else _DUPLICATE_OF_OTHER
    return similar(option.own, chosen.own) >= limit
