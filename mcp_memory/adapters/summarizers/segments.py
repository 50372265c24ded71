"""Summaries of segments: title, bullets and keywords in the words of the conversation."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from operator import attrgetter

from mcp_memory.adapters.summarizers import patterns
from mcp_memory.adapters.summarizers.actions import edited_files
from mcp_memory.adapters.summarizers.candidate import MAX_BULLET, MAX_EXCERPT, Candidate
from mcp_memory.adapters.summarizers.candidates import candidates
from mcp_memory.adapters.summarizers.common_words import COMMON_STEMS
from mcp_memory.adapters.summarizers.cues import PRIORITY, Kind, is_trivial
from mcp_memory.adapters.summarizers.keywords import Passage, Vocabulary
from mcp_memory.adapters.summarizers.messages import command_name, plain, speakers, spoken
from mcp_memory.adapters.summarizers.pasted import own_words, pasted_error, pasted_in
from mcp_memory.adapters.summarizers.sentences import windows
from mcp_memory.adapters.summarizers.titles import title_of
from mcp_memory.adapters.summarizers.toolcalls import call_of, commit_span
from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.summaries import DraftBullet, Evidence, SegmentSummary
from mcp_memory.domain.text import ELLIPSIS, folded, one_line, printable, similar, terms
from mcp_memory.domain.toc import BULLETS, Level

KEYWORDS = 10
_FLAG = re.compile(r"(?<!\S)--?[A-Za-z][\w-]*=?")
_DUPLICATE = 0.6
_MIN_GAIN = 0.2
_POOL = 30
#: So many of the last requests before a segment tell which of its words matter.
_ASKED_BEFORE = 1
#: Kinds that are worth telling even of a matter that hardly comes up again, like whatever a user opens with; any other
#: sentence must be about the rest.
_TELLING = frozenset(PRIORITY) - {Kind.STATED, Kind.SAID, Kind.PLANNED, Kind.STEP, Kind.DID}
#: A plain task is preferred that tells so much of what the most telling of a message does.
_NEARLY = 0.6
_RAISED = frozenset({Kind.REQUEST, Kind.REPORT})
_BASE = 0.3
#: The same for what a session begins with.
_BEGINS = 0.5
_PASTED = 0.1
_SAYS_ENOUGH = 6
#: What is left of a sentence like `fix all of them`.
_SAYS_LITTLE, _FEW = 0.4, 4
#: What a term loses that another bullet tells.
_TOLD_AGAIN = 0.6


def summarize_segment(events: Sequence[Event], context: Sequence[Event]) -> SegmentSummary:
    """Title, bullets and keywords of a run of one session's events."""
    people = speakers([*context, *events])
    vocabulary = Vocabulary(_passages(events, context), people, edited_files(events))
    found = candidates(events, named=bool(people))
    chosen = choose(found, vocabulary.names, begins=not context) or _fallback(events)
    title = title_of(found or chosen, context, vocabulary) or _plain_title(chosen, events)
    bullets = tuple(DraftBullet(pick.text, _evidence(pick)) for pick in chosen)
    return SegmentSummary(title, bullets, vocabulary.keywords(KEYWORDS))


def choose(found: Sequence[Candidate], weights: Mapping[str, float], *, begins: bool) -> list[Candidate]:
    """Up to five candidates that together tell most: different kinds, turns and terms, near-duplicates once.

    `begins` tells that a session does: what it begins with is what it was for.
    """
    low, high = BULLETS[Level.SEGMENT]
    chosen: list[Candidate] = []
    covered: set[str] = set()
    weighed = _Weights(weights)
    told = [pick for pick in found if pick.kind is not Kind.HEADING]
    # What is about to be done is told only where little else is.
    done = [pick for pick in told if pick.kind is not Kind.PLANNED]
    told = done if len(done) >= low else told
    options = [_Option(pick, weighed) for pick in told]
    if opening := _opening(options):
        opening.tell_of(_BEGINS if begins and not _only_looks(opening.pick) else _BASE)
    rest = _most_telling(options)
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


def _only_looks(pick: Candidate) -> bool:
    """Whether it asks for a look, which is the way to a matter: `check the comments`."""
    return patterns.INSPECTION.match(folded(pick.text.partition(": ")[2])) is not None


_GAIN = attrgetter("gain")


class _Weights(dict[str, float]):
    """The weights of terms; one that is not known counts a little."""

    def __missing__(self, term: str) -> float:
        return 0.1


class _Option:
    """A candidate while bullets are chosen, and what it would add to those chosen so far."""

    __slots__ = ("_base", "_factor", "_says", "_told", "_weights", "gain", "own", "pick")

    def __init__(self, pick: Candidate, weights: _Weights) -> None:
        self.pick = pick
        self.own = terms(pick.text)
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
        self.gain = (PRIORITY[self.pick.kind] + self.pick.bonus) * self._told * self._factor

    def after(self, other: Candidate, covered: Set[str] | None) -> None:
        """Rate it again when another was chosen; `covered` is given if that one told some of its terms."""
        pick = self.pick
        if other.kind is pick.kind:
            self._factor *= 0.85 if pick.kind is Kind.SAID else 0.7
        if other.turn == pick.turn:
            self._factor *= 0.9
        if other.event is pick.event:
            self._factor *= 0.65 if pick.event.role is Role.USER else 0.85
        if covered is None:
            self._rate()
        else:
            self._tell(covered)


def _opening(options: Sequence[_Option]) -> _Option | None:
    """What a user opens with: the most telling of what the first message asks or reports, or else its first words."""
    first = next((option for option in options if option.pick.event.role is Role.USER), None)
    if first is None:
        return None
    raised = [one for one in options if one.pick.event is first.pick.event and one.pick.kind in _RAISED]
    best = max(raised, key=_GAIN, default=first)
    tasks = (one for one in raised if patterns.opens_with_task(folded(one.pick.text.partition(": ")[2])))
    return next((one for one in tasks if one.gain >= _NEARLY * best.gain), best)


def _most_telling(options: list[_Option]) -> list[_Option]:
    """Those that can be chosen at all: comparing every sentence of a long segment with every other takes too long."""
    return options if len(options) <= _POOL else sorted(options, key=_GAIN, reverse=True)[:_POOL]


def _repeats(option: _Option, chosen: _Option) -> bool:
    other, pick = option.pick, chosen.pick
    if other.event.key == pick.event.key and other.start < pick.end and pick.start < other.end:
        return True
    # A request and its outcome share their words and are both worth telling.
    limit = _DUPLICATE if other.event.role is pick.event.role else _DUPLICATE + 0.2
    return similar(option.own, chosen.own) >= limit


def _evidence(pick: Candidate) -> tuple[Evidence, ...]:
    return (
        Evidence(pick.event.key, pick.start, pick.end),
        *(Evidence(event.key, start, end) for event, start, end in pick.more),
    )


def _passages(events: Sequence[Event], context: Sequence[Event]) -> Iterator[Passage]:
    """The texts that decide which words matter, by who said them."""
    by_user = 1.0 if speakers(events) else 2.0
    targets: dict[bool, list[str]] = {}
    for event in events:
        if not event.says_something:
            continue
        if event.event_type is EventType.COMPACTION:
            yield Passage(event.text[:3_000], 0.2)
        elif event.event_type is EventType.TOOL_RESULT or event.role is Role.TOOL:
            call = call_of(event)
            if call:
                target = call.target[:200]
                # How a command was run is not what it was run for.
                target = _FLAG.sub("", target) if call.verb == "Ran" and "-" in target else target
                targets.setdefault(call.verb == "Edited", []).append(target)
                if call.verb == "Ran" and (subject := commit_span(event.text, call.head)):
                    yield Passage(event.text[slice(*subject)].partition("] ")[2], 1.0)
        else:
            weight = 3.0 if event.event_type is EventType.NOTE else by_user if event.role is Role.USER else 1.0
            text = event.text
            if event.role is Role.USER:
                text = spoken(text)
                if is_trivial(text):
                    continue
                yield from _pasted(text, by_user)
                text = own_words(text)
            for low, high in windows(len(text)):
                yield Passage(text[low:high], weight)
    for edited, names in targets.items():
        yield Passage("\n".join(names), 1.2 if edited else 0.25, code=True)
    asked = [event for event in context if event.role is Role.USER and event.says_something]
    for event in asked[-_ASKED_BEFORE:]:
        yield Passage(spoken(event.text)[:2_000], 0.3)


def _pasted(text: str, by_user: float) -> Iterator[Passage]:
    """What a user pasted: it holds many names, few of which are what the talk is about; an error it names is."""
    for run in pasted_in(text):
        yield Passage(text[run.start : run.end], _PASTED, code=True)
        if run.log and (span := pasted_error(text, run)):
            yield Passage(text[slice(*span)], by_user)


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
        return [Candidate(event, start, end, one_line(body or event.role, MAX_BULLET), Kind.STATED, 0, 0)]
    return []


def _plain_title(chosen: Sequence[Candidate], events: Sequence[Event]) -> str:
    """The title of a segment in which nothing makes a headline: its first words, or what kind of event it was."""
    text = chosen[0].text if chosen else next((event.text for event in events if event.text.strip()), "")
    text = one_line(printable(text).replace("<", "").replace(">", ""), 60).rstrip(ELLIPSIS)
    return text or next((str(event.event_type) for event in events), "").replace("_", " ").capitalize()
