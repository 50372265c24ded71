"""What holds of what was said: what the user refuted, refused or did not choose drops out, and so does every guess.

A contradiction takes away what it contradicts together with all that asserts the same; the correction stands instead. A
decision is what the user chose or agreed to, told with the words of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.text import folded, similar, terms
from mcp_memory.summaries.calls import Source, was_refused
from mcp_memory.summaries.messages import plain
from mcp_memory.summaries.statements import SAYS, Exchange, Mood, Statement, units

#: So alike are two statements that assert the same; so many words a contradiction shares with what it contradicts.
SAME = 0.5
_SHARED = 2


@dataclass(frozen=True, slots=True)
class Settled:
    """The statements that stand, in order, and those that were refuted, refused or taken back."""

    standing: tuple[Statement, ...]
    refuted: tuple[Statement, ...]


def settle(turns: Sequence[Exchange], after: Sequence[Exchange] = ()) -> Settled:
    """What holds of what was said in some turns; those `after` them may refute it, and tell nothing themselves."""
    refuted: list[Statement] = []
    changed: dict[int, Statement] = {}
    added: list[Statement] = []
    whole = [*turns, *after]
    for index in range(1, len(whole)):
        answer = _answered(whole[index], whole[max(0, index - 3) : index])
        refuted += answer.refuted
        if index < len(turns):
            changed |= answer.changed
            added += answer.decided
    for turn in turns:
        refuted += _refused(turn)
        refuted += _taken_back(turn)
    added += () if after else _broken_off(turns[-1])
    out = {id(statement) for statement in refuted}
    own = [one for turn in turns for one in turn.statements if id(one) not in changed]
    out |= {id(one) for one in own for other in refuted if one.turn <= other.turn and asserts_same(one, other)}
    refuted += [one for one in own if id(one) in out and one not in refuted]
    standing = [
        changed.get(id(one), one)
        for turn in turns
        for one in turn.statements
        if id(one) not in out and one.kind is not Kind.NOISE
        if one.mood is Mood.FACT or id(one) in changed or (one.by_user and one.mood is not Mood.OPTION)
    ]
    return Settled((*standing, *added), tuple(refuted))


def asserts_same(one: Statement, other: Statement) -> bool:
    return similar(one.terms, other.terms) >= SAME


class _Answer(NamedTuple):
    """What a user's answer does to what was said: refutes it, is of another kind for it, or decides something."""

    refuted: Sequence[Statement] = ()
    changed: Mapping[int, Statement] = MappingProxyType({})
    decided: Sequence[Statement] = ()


def _answered(turn: Exchange, earlier: Sequence[Exchange]) -> _Answer:
    if not turn.asked:
        return _Answer()
    before = earlier[-1]
    own = [one for one in turn.statements if one.by_user]
    low = folded(plain(turn.asked[0].text[:300]))
    reply = folded(plain(turn.said[0].text[:200])) if turn.said else ""
    conceded = SAYS["concedes"].match(reply) is not None
    if before.closing is not None:
        if chosen := _chosen(before.closing, low):
            return _Answer(decided=[_decision(chosen, own, turn)])
        if SAYS["agrees"].fullmatch(low):
            question = _question(before.closing, before.number)
            return _Answer(decided=[_agreed(question, turn.asked[0], turn.number)] if question else ())
    if conceded or SAYS["contradicts"].match(low) or any("refuses" in event.metadata for event in turn.asked):
        corrections = [one for one in own if one.kind is not Kind.NOISE and (one.place < 2 or one.kind is Kind.RULE)]
        claims = [
            one
            for each in (earlier if conceded else [before])
            for one in each.statements
            if not one.by_user and one.source <= Source.CLOSING
        ]
        admitted = terms(reply) if conceded else frozenset()
        refuted = [one for one in claims if _contradicts(own, one) or len(one.terms & admitted) > _SHARED]
        return _Answer(refuted, {id(one): replace(one, kind=Kind.CORRECTION) for one in corrections})
    if SAYS["takes_up"].match(reply) or SAYS["chooses"].match(low):
        first = [one for one in own if one.kind in _ASKS and one.mood is Mood.FACT and not one.place]
        return _Answer(changed={id(one): replace(one, kind=Kind.DECISION) for one in first})
    return _Answer()


_ASKS = frozenset({Kind.REQUEST, Kind.REPORT})
_NAME = re.compile(r"`[^`]+`|\w*[a-z][A-Z]\w*|\w+(?:[_./]\w+)+|--\w[\w-]*")


def _contradicts(corrections: Sequence[Statement], claim: Statement) -> bool:
    """Whether a claim speaks of what a correction does: some words, or one name, are in both."""
    words = frozenset[str]().union(*(one.terms for one in corrections))
    named = frozenset(terms(" ".join(name for one in corrections for name in _NAME.findall(one.text))))
    shared = claim.terms & words
    return bool(shared & named) or len(shared) >= _SHARED


def _refused(turn: Exchange) -> Iterable[Statement]:
    """What an assistant said before a call that the user turned down: that is what was refused."""
    for event in turn.calls:
        if was_refused(event):
            said = [one for one in turn.said if one.timestamp_ms <= event.timestamp_ms]
            yield from (one for one in turn.statements if said and one.event is said[-1])
    if turn.interrupted and turn.said:
        yield from (one for one in turn.statements if one.event is turn.said[-1])


def _broken_off(turn: Exchange) -> Iterable[Statement]:
    """A request that was stopped before anything changed, with nothing after it."""
    asked = next((one for one in turn.statements if one.by_user), None)
    if turn.interrupted and not turn.changed and asked:
        text = f"{asked.text} → interrupted before anything was changed"
        yield replace(asked, kind=Kind.OPEN, mood=Mood.FACT, text=text)


def _taken_back(turn: Exchange) -> Iterable[Statement]:
    """What an assistant said before it took it back."""
    for index, event in enumerate(turn.said):
        if index and SAYS["takes_back"].match(folded(plain(event.text[:300]))):
            new = [one for one in turn.statements if one.event is event]
            told = frozenset().union(*(one.terms for one in new)) if new else frozenset()
            for one in turn.statements:
                if one.event in turn.said[:index] and len(one.terms & told) > _SHARED and one.source is Source.PASSING:
                    yield one


_OPTION_LINE = re.compile(
    r"^\s*(?:#{1,6}\s+|[-*]\s+)?\**(?:(?:Option|Approach|Alternative)\s+)?([A-H]|\d{1,2})\s*[.):—–-]+\**\s+(\S[^\n]*)$",
    re.M | re.I,
)
_NAMED = re.compile(
    r"\b(?:option|approach|alternative|number|choice)\s*#?([a-h]|\d)\b|(?:^|\s)#(\d)\b|^\s*([a-h]|\d)\b(?=\s*(?:[.,;:!)]|$|but|and|please|sounds|is))"
)
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "former": 0, "latter": 1, "last": -1}
_ORDINAL = re.compile(rf"\bthe ({'|'.join(_ORDINALS)})\b(?: (?:one|option|approach))?")


def _chosen(closing: Event, low: str) -> Statement | None:
    """The option of an assistant's message that the user names, if it gave options to choose from."""
    lines = list(_OPTION_LINE.finditer(closing.text))
    if len(lines) < 2 or len(low) > 280:
        return None
    labels = [line[1].lower() for line in lines]
    named = {next(filter(None, match.groups())) for match in _NAMED.finditer(low)}
    if len(named) > 1 or "?" in low or SAYS["contradicts"].match(low):
        return None
    label = named.pop() if named else ""
    ordinal = _ORDINAL.search(low)
    place = labels.index(label) if label in labels else _ORDINALS[ordinal[1]] if ordinal else None
    if place is None or place >= len(lines):
        return None
    line = lines[place]
    return Statement(Kind.DECISION, plain(line[2]), closing, *line.span(2), 0, Source.ANSWER)


def _decision(option: Statement, own: Sequence[Statement], turn: Exchange) -> Statement:
    """The option that was chosen, with the user's words and a grip to each."""
    event = turn.asked[0]
    said = own[0].text if own else plain(event.text[:120])
    words = Statement(Kind.DECISION, said, event, 0, min(len(event.text), 200), turn.number, Source.ANSWER)
    return replace(option, text=f"{option.text.rstrip('.: ')} — user: {said}", turn=turn.number, more=words.evidence)


def _question(closing: Event, turn: int) -> Statement | None:
    """What an assistant asked last."""
    asked = [unit for unit in units(closing.text) if unit.text.endswith("?")]
    if not asked:
        return None
    unit = asked[-1]
    return Statement(Kind.DECISION, unit.text, closing, unit.start, unit.end, turn, Source.ANSWER)


def _agreed(question: Statement, answer: Event, turn: int) -> Statement:
    words = plain(answer.text)
    more = Statement(Kind.DECISION, words, answer, 0, len(answer.text), turn, Source.ANSWER).evidence
    return replace(question, text=f"{question.text} → {words}", turn=turn, more=more)
