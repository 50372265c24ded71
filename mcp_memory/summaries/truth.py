"""What holds of what was said: what the user refuted, refused or did not choose drops out, and so does every guess.

A contradiction takes away what it contradicts together with all that asserts the same; the correction stands instead. A
decision is what the user chose or agreed to, told with the words of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.sentences import clipped
from mcp_memory.domain.text import folded, similar, terms
from mcp_memory.summaries.calls import Source, was_refused
from mcp_memory.summaries.messages import MAX_TEXT, SAYS, plain, says, units
from mcp_memory.summaries.statements import Exchange, Mood, Statement, mood_of

#: So alike are two statements that assert the same; so many words a contradiction shares with what it contradicts.
SAME = 0.5
_SHARED = 2
#: So few words of its own has a contradiction that says no more than that it is not so.
_BARE = 5
#: So far from its end a message asks something; so few words an answer needs not to share with the question.
_ASKED, _SHORT, _FIRST = 400, 3, 3
#: Of a claim more than this must stand in a user's own words if they are to go with it.
_CLAIMED = 0.5


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
        for one in turn.statements:
            if one.mood is Mood.FACT and says("decided", one.text):
                changed.setdefault(id(one), replace(one, kind=Kind.DECISION))
    changed |= {} if after else _broken_off(turns[-1]) | _left_over(turns)
    out = {id(statement) for statement in refuted}
    own = [one for turn in turns for one in turn.statements if id(one) not in changed]
    out |= {id(one) for one in own for other in refuted if one.turn <= other.turn and asserts_same(one, other)}
    out |= set(map(id, [*_reverted(turns), *_outdated(turns)]))
    refuted += [one for one in own if id(one) in out and one not in refuted]
    standing = [
        changed.get(id(one), one)
        for turn in turns
        for one in turn.statements
        if id(one) not in out and one.kind is not Kind.NOISE
        if one.mood is Mood.FACT or id(one) in changed or (one.by_user and one.mood in _ASKS)
    ]
    return Settled((*standing, *added), tuple(refuted))


#: What a user asks for is told as asked; what is only weighed is not told.
_ASKS = frozenset({Mood.FACT, Mood.QUESTION})


def asserts_same(one: Statement, other: Statement) -> bool:
    """Whether a statement says what a refuted one does; a user who reports what the claim explains does not."""
    if one.by_user and not other.by_user and len(one.terms & other.terms) <= _CLAIMED * len(other.terms):
        return False
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
    words = plain(turn.asked[0].text[:300])
    low = folded(words)
    reply = folded(plain(turn.said[0].text[:200])) if turn.said else ""
    conceded = SAYS["concedes"].match(reply) is not None
    if before.closing is not None:
        if named := _named(before.closing, own, low):
            return _Answer(changed=named)
        if not own and (item := _chosen(before.closing, low)):
            label = Statement(Kind.DECISION, words, turn.asked[0], 0, len(words), turn.number, Source.ANSWER)
            return _Answer(decided=[_with_item(label, item)])
        if SAYS["agrees"].fullmatch(low):
            question = _question(before.closing, before.number)
            return _Answer(decided=[_agreed(question, turn.asked[0], turn.number)] if question else ())
    contradicted = SAYS["contradicts"].match(low) is not None
    if conceded or contradicted or any("refuses" in event.metadata for event in turn.asked):
        corrections = [one for one in own if one.kind is not Kind.NOISE and (one.place < 2 or one.kind is Kind.RULE)]
        claims = [
            one
            for each in (earlier if conceded else [before])
            for one in each.statements
            if not one.by_user and one.source <= Source.CLOSING
        ]
        admitted = terms(reply) if conceded else frozenset()
        told = frozenset[str]().union(*(one.terms for one in own))
        names = terms(" ".join(name for one in own for name in _NAME.findall(one.text)))
        # What was done stands, whatever is admitted of it; only a contradiction or a doubt takes it away.
        doubted = contradicted or (len(told) <= _BARE and _QUESTION.search(words) is not None)
        claims = [one for one in claims if doubted or one.kind is not Kind.OUTCOME]
        refuted = [one for one in claims if _speaks_of(one, told, names) or len(one.terms & admitted) > _SHARED]
        if not refuted and _denies(low, told) and not _ends_with_question(before.closing):
            # A mere `no` speaks of all that the assistant concluded.
            refuted = [one for one in claims if one.source is Source.CLOSING]
        kind = Kind.DECISION if SAYS["otherwise"].match(low) else Kind.CORRECTION
        return _Answer(refuted, {id(one): replace(one, kind=kind) for one in corrections})
    return _Answer(changed=_decisions(before, own, _QUESTION.search(words) is not None))


def _denies(low: str, told: frozenset[str]) -> bool:
    """Whether a user says of something that it is not so, and hardly more."""
    few = len(told) <= _BARE or len(low) <= 4 * _BARE
    return few and not _QUESTION.search(low) and SAYS["denies"].match(low) is not None


def _ends_with_question(closing: Event | None) -> bool:
    return closing is not None and closing.text.rstrip(" \n*_`)").endswith(("?", "？"))


def _decisions(before: Exchange, own: Sequence[Statement], asks: bool) -> dict[int, Statement]:
    """What the user decides in more than a nod, and what an assistant would rather do and the user lets stand."""
    closing = before.closing
    asked = closing is not None and not asks and _QUESTION.search(closing.text[-_ASKED:]) is not None
    found = {id(one): _with_question(one, closing) for one in own[:_FIRST] if _decides(one, asked)}
    for one in before.statements:
        if not asks and one.source is Source.CLOSING and says("contrasts", one.text):
            found[id(one)] = replace(one, kind=Kind.DECISION)
    return found


def _decides(one: Statement, asked: bool) -> bool:
    """Whether a user's sentence chooses: it says so, or it answers what was asked."""
    if one.mood is not Mood.FACT or one.kind in (Kind.NOISE, Kind.SAID):
        return False
    low = folded(plain(one.event.text[one.start : one.end]))
    return SAYS["decides"].search(low) is not None or (asked and SAYS["chooses"].match(low) is not None)


def _with_question(one: Statement, closing: Event | None) -> Statement:
    """A decision in the user's words; few words tell it only after the question that they answer."""
    words = plain(one.event.text[one.start : one.end])
    told = replace(one, kind=Kind.DECISION, text=words)
    question = _question(closing, one.turn) if closing and len(one.terms) <= _SHORT else None
    if question is None or len(question.text) + len(words) + 3 > MAX_TEXT:
        return told
    return replace(told, text=f"{question.text} → {words}", more=question.evidence)


_NAME = re.compile(r"`[^`]+`|\w*[a-z][A-Z]\w*|\w+(?:[_./]\w+)+|--\w[\w-]*|\b[A-Z]{2,}\b")


def _speaks_of(claim: Statement, told: Set[str], names: Set[str]) -> bool:
    """Whether a claim speaks of what a correction does: some of its words, or one of its names, are in both."""
    shared = claim.terms & told
    if claim.kind is Kind.OUTCOME and len(told) > _BARE:
        # What was done stands, whatever else the user says at length of the same thing.
        return len(shared) > _SHARED
    return len(shared) >= _SHARED or bool(shared & names)


def _refused(turn: Exchange) -> Iterable[Statement]:
    """What an assistant said before a call that the user turned down: that is what was refused."""
    for event in turn.calls:
        if was_refused(event):
            said = [one for one in turn.said if one.timestamp_ms <= event.timestamp_ms]
            yield from (one for one in turn.statements if said and one.event is said[-1])
    if turn.interrupted and turn.said:
        yield from (one for one in turn.statements if one.event is turn.said[-1])


def _broken_off(turn: Exchange) -> dict[int, Statement]:
    """A request that was stopped before anything changed, with nothing after it: it is left open."""
    asked = next((one for one in turn.statements if one.by_user), None)
    if not turn.interrupted or turn.changed or asked is None:
        return {}
    text = f"{asked.text} → interrupted before anything was changed"
    return {id(asked): replace(asked, kind=Kind.OPEN, mood=Mood.FACT, text=text)}


def _left_over(turns: Sequence[Exchange]) -> dict[int, Statement]:
    """What the last list of to-dos leaves, if the assistant has said its last word."""
    told = [one for turn in turns for one in turn.statements if one.source is Source.TODO]
    steps = [one for one in told if one.event.text.endswith("] ", 0, one.start)]  # not what a subagent was told to do
    if not steps or turns[-1].closing is None:
        return {}
    left = [one for one in steps if one.event is steps[-1].event and one.kind is Kind.PLANNED]
    return {id(one): replace(one, kind=Kind.OPEN) for one in left}


def _reverted(turns: Sequence[Exchange]) -> Iterable[Statement]:
    """Commits that a later one names as reverted."""
    commits = [one for turn in turns for one in turn.statements if one.source is Source.COMMIT]
    for index, one in enumerate(commits):
        if any(later.text.startswith("Revert ") and one.text in later.text for later in commits[index + 1 :]):
            yield one


def _outdated(turns: Sequence[Exchange]) -> Iterable[Statement]:
    """How tests ended before they ran again."""
    return [one for turn in turns for one in turn.statements if one.kind is Kind.RESULT][:-1]


def _taken_back(turn: Exchange) -> Iterable[Statement]:
    """What an assistant said before it took it back."""
    for index, event in enumerate(turn.said):
        if index and SAYS["takes_back"].match(folded(plain(event.text[:300]))):
            new = [one for one in turn.statements if one.event is event]
            told = frozenset().union(*(one.terms for one in new)) if new else frozenset()
            for one in turn.statements:
                if one.event in turn.said[:index] and len(one.terms & told) > _SHARED and one.source is Source.PASSING:
                    yield one


_ITEM_LINE = re.compile(
    r"^\s*(?:#{1,6}\s+|[-*]\s+)?\**([A-Z][a-z]+\s+|\()?([A-H]|\d{1,3})\)?\s*(?:[.):—–-]|\*\*)+\s+(\S[^\n]*)$", re.M
)
_NAMED = re.compile(
    r"\b(?:option|approach|alternative|number|choice)\s*#?([a-h]|\d)\b|(?:^|\s)#(\d{1,3})\b|\((\d{1,3})\)|"
    r"(?:^|[,.;] )for #?(\d{1,2})\b(?![/.:-]?\d)|"
    r"\b(?:for|on|address|fix|apply|do|take|skip|drop|with) #?(\d{1,2})(?=\s*(?:$|[.,;] |and\b|but\b))|"
    r"^\s*([a-h]|\d{1,2})\b(?=\s*(?:[.,;:!)]|$|but|and|please|sounds|is))"
)
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "former": 0, "latter": 1, "last": -1}
_ORDINAL = re.compile(
    rf"\bthe ({'|'.join(_ORDINALS)})\b"
    r"(?: (?:one|option|approach)\b(?! (?:i|we|you|he|she|that|was|in|on)\b)|\s*(?:[.,;!]|$|but\b))"
)
_QUESTION, _EITHER = re.compile("[?？]"), re.compile(r"\b(?:or|between|option|approach)\b")
_CLAUSE = re.compile(r"(?<=[,.;!])\s+|(?<=[，。；！、])")


def _named(closing: Event, own: Sequence[Statement], low: str) -> dict[int, Statement]:
    """What the user says of the items of an assistant's list, sentence by sentence or in all."""
    found = {id(one): _with_item(one, item) for one in own if (item := _chosen(closing, folded(one.text)))}
    if not found and own and len(low) < _ASKED and (item := _chosen(closing, low)):
        found = {id(own[0]): _with_item(replace(own[0], start=0), item)}
    return found


@lru_cache(maxsize=1 << 4)
def _item_lines(text: str) -> list[re.Match[str]]:
    return list(_ITEM_LINE.finditer(text))


def _chosen(closing: Event, low: str) -> Statement | None:
    """The one item of an assistant's list that the user names, in no clause that speaks against it."""
    lines = _item_lines(closing.text)
    if len(lines) < 2 or _QUESTION.search(low):
        return None
    low = " ".join(part for part in _CLAUSE.split(low) if not SAYS["against"].search(part))
    named = [next(filter(None, match.groups())) for match in _NAMED.finditer(low)]
    if len(set(named)) > 1 and _EITHER.search(low):
        return None
    if named:
        # A message may hold several lists; the user has the last one before his eyes, unless it is a named one.
        found = [line for line in lines if line[2].lower() == named[0]]
        alike = [one for one in found if one[1] and f"{one[1].lower()}{one[2].lower()}" in low]
        picked = (alike or found)[-1:]
    else:
        options = [line for line in lines if line[1]] or lines
        ordinal = _ORDINAL.search(low)
        # With several lists it is not known which one is meant.
        one_list = sum(line[2] in ("1", "A") for line in options) < 2
        picked = options[_ORDINALS[ordinal[1]] :][:1] if ordinal and one_list else []
    told = (Statement(Kind.DECISION, plain(line[3]), closing, *line.span(3), 0, Source.ANSWER) for line in picked)
    return next(told, None)


def _with_item(one: Statement, item: Statement) -> Statement:
    """The user's words with the item that they name, and a grip to each; to work on it is a request."""
    words = plain(one.event.text[one.start : one.end])
    text = clipped(item.text.rstrip(".: "), max(MAX_TEXT - len(words) - 3, 80))
    kind = one.kind if SAYS["works_on"].match(folded(words)) else Kind.DECISION
    return replace(one, kind=kind, text=f"{words.rstrip('.:')} — {text}", more=item.evidence, source=Source.ANSWER)


_TELLS = 4


def _question(closing: Event, turn: int) -> Statement | None:
    """What an assistant put to the user last: its question or, if that tells little, what it proposed before it."""
    found = units(closing.text)
    asked = next((unit for unit in found[:-4:-1] if unit.text.endswith(("?", "？"))), None)
    if asked is None or not SAYS["asks_leave"].search(folded(asked.text)):
        return None
    if len(terms(asked.text)) < _TELLS:
        proposed = [unit for unit in found if mood_of(unit.text, unit.lead) is Mood.PROPOSAL and unit.end < asked.start]
        if not proposed:
            return None
        asked = proposed[-1]
    return Statement(Kind.DECISION, asked.text, closing, asked.start, asked.end, turn, Source.ANSWER)


def _agreed(question: Statement, answer: Event, turn: int) -> Statement:
    words = plain(answer.text)
    more = Statement(Kind.DECISION, words, answer, 0, len(answer.text), turn, Source.ANSWER).evidence
    return replace(question, text=f"{question.text} → {words}", turn=turn, more=more)
