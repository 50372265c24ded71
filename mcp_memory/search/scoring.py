"""What a message is worth for a question: BM25 over its best passage, whose words they are, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mcp_memory.domain.terms import Message, Pool
from mcp_memory.search.question import Places, Question, Unit


class Weights(NamedTuple):
    """All tuned numbers of ranking.

    The comments say what is lost without each, in thousandths: hit@5 and MRR of the questions on 54 coding sessions,
    R@5 and R@10 of LoCoMo and of LongMemEval. `python -m bench ablation` prints them anew.
    """

    #: BM25 (−51/−102, −10/−9, −15/−6), and the usual length of a passage in characters (−51/−14, 0/−1, −11/+1).
    k1: float = 1.2
    b: float = 0.3
    usual: float = 480.0
    #: Words side by side as in the question, up to so many words of this length apart (−26/+12, +3/+4, −17/0).
    pair: float = 1.0
    near: float = 6.0
    word: float = 7.0
    #: A word that is only told by another of nearly the same meaning, so that the word itself comes first (−51/−26,
    #: 0/+3, −2/0).
    synonym: float = 0.4
    #: The user's words: where I am meant, where we are, and else; the assistant's where they are meant (−26/−1, −4/0,
    #: −37/−39).
    mine: float = 1.8
    ours: float = 1.3
    users: float = 1.1
    told: float = 1.1
    #: What a tool printed, or a system said (−77/−63 on coding sessions); what a tool reports in words, such as a
    #: subagent, counts in full.
    tool: float = 0.6
    spoke: float = 1.0
    #: What was said just before a message and just after it (−26/−15, −55/−44, −6/−8), and anywhere in its session
    #: (0/+19, −17/−11, −5/−6).
    before: float = 0.33
    after: float = 0.18
    session: float = 0.25
    #: What is said anywhere in its turn, from the user's message to the next (−77/−29, −5/+11, −8/0): BM25 over all of
    #: it, the user's words and those of tools weighted (−26/−8), long turns counting for less (−51/−78).
    turn: float = 0.6
    turn_user: float = 1.3
    turn_tool: float = 0.5
    turn_b: float = 0.6
    turn_usual: float = 3_000.0
    #: A message that answers a question (0/+4, −14/−15, −2/−1), and the last of several by an agent (0/−48 on coding
    #: sessions).
    answers: float = 1.2
    closes: float = 1.2
    #: What was said in the favoured time (−26/−26, −14/−13, −22/−27).
    favour: float = 3.2
    #: Each sign that a passage answers: a number, a time, a reason (0/+3, −3/+3, −40/−55).
    cue: float = 1.25
    #: A text that writes what looks like code, or is quoted, just as the question does: kept because users expect it.
    written: float = 0.5
    #: Where the newest is asked for: what holds so much of what the best does is as good, and the newest of it worth
    #: more. Kept because it is what is asked for.
    as_good: float = 0.6
    newer: float = 0.5
    #: Where several hits make up the answer: what is left of the worth of a word told before (0/+1, −1/0, −9/+6), and,
    #: where hits shall be spread, of a session seen before.
    again: float = 0.9
    same_session: float = 0.4


WEIGHTS = Weights()
#: Characters of a passage; longer texts are weighed by their best passage, so that length neither helps nor hurts.
PASSAGE = 500
#: How many lines of its turn stand beside a hit.
LINES = 2
_SPOKEN = ("user", "assistant")
_ASKS = ("?", "？", "؟")
#: How near its end the question of a message may stand.
_END = 100


class Match(NamedTuple):
    """A message with its value, where its best passage begins, the units found in that passage, and all its places.

    `alike` are those of the units that only words of nearly the same meaning tell. `lines` are further messages of its
    turn that are to the point as well.
    """

    message: Message
    value: float = 0.0
    focus: int = 0
    near: frozenset[int] = frozenset()
    places: Places = {}  # nothing writes to it
    alike: frozenset[int] = frozenset()
    lines: tuple[Match, ...] = ()

    def worth(self, value: float) -> Match:
        """The same, of another value."""
        return Match(self.message, value, self.focus, self.near, self.places, self.alike)


@dataclass(frozen=True, slots=True)
class Telling:
    """How much the units of a question tell, among the documents that its pool was taken from.

    `rare` says so by unit: the rarer, the more; `alike`, which share of it a word of nearly the same meaning tells.
    """

    question: Question
    rare: tuple[float, ...]
    alike: tuple[float, ...]


def telling_of(question: Question, pool: Pool) -> Telling:
    rare, alike = list[float](), list[float]()
    for unit in question.units:
        count = pool.frequencies.get(unit.match, 0)
        tells = _rarity(unit, count, pool)
        more = count + sum(pool.frequencies.get(each.match, 0) for each in unit.alike)
        share = min(1.0, _rarity(unit, more, pool) / tells) if unit.alike and tells else 0.0
        rare.append(tells)
        alike.append(WEIGHTS.synonym * share)
    return Telling(question, tuple(rare), tuple(alike))


def _rarity(unit: Unit, count: int, pool: Pool) -> float:
    count = min(count, pool.documents)
    return unit.weight * math.log(1 + (pool.documents - count + 0.5) / (count + 0.5))


def role_weights(question: Question) -> dict[str, float]:
    """How much words count by who said them: what I did is in my words, what you told me in yours."""
    told, mine = question.speaker == "assistant", question.speaker == "user"
    return {
        "user": 1.0 if told else WEIGHTS.mine if mine else WEIGHTS.ours if question.about_us else WEIGHTS.users,
        "assistant": WEIGHTS.told if told else 1.0,
        "tool": WEIGHTS.tool,
        "system": WEIGHTS.tool,
    }


def answers(pool: Pool, matches: Mapping[int, Match]) -> set[int]:
    """The messages that come right after one that ends with a question, if that is to the point."""
    found = set()
    for number, beside in pool.beside.items():
        message = matches[number].message
        if matches[number].near and any(mark in message.text.rstrip()[-_END:] for mark in _ASKS):
            near = (matches[each].message for each in beside if each in matches)
            after = [each for each in near if is_later(each, message)]
            if after:
                found.add(min(after, key=lambda each: (each.timestamp_ms, each.number)).number)
    return found


def closing(pool: Pool, messages: Mapping[int, Message]) -> set[int]:
    """The messages with which an agent ends, after others of its own: they sum up what was done."""
    found = set()
    for number, beside in pool.beside.items():
        message = messages[number]
        if message.role != "assistant" or not all(each in messages for each in beside):
            continue
        near = [messages[each] for each in beside]
        before = max(near, key=lambda each: (each.timestamp_ms, each.number), default=None)
        if before and before.role == "assistant" and not is_later(before, message):
            found.add(number)
    return found


def is_later(message: Message, other: Message) -> bool:
    return (message.timestamp_ms, message.number) > (other.timestamp_ms, other.number)


def match_of(telling: Telling, message: Message, said: Places, alike: Places) -> Match:
    """What a message says by itself: as it was asked for, and in words of nearly the same meaning."""
    if not (said or alike):
        return Match(message)
    whole, rare = said, list(telling.rare)
    only_alike = frozenset(unit for unit in alike if unit not in whole)
    for unit in only_alike:
        whole = {**whole, unit: alike[unit]}
        rare[unit] *= telling.alike[unit]
    value, passage = _best_passage(telling.question, whole, len(message.text), rare)
    focus = min([inside[0] for inside in passage.values()])
    return Match(message, value, focus, frozenset(passage), whole, only_alike)


def _best_passage(question: Question, whole: Places, length: int, rare: Sequence[float]) -> tuple[float, Places]:
    """The value of the best passage of a text, and what it says."""
    best, at = 0.0, whole
    weights = WEIGHTS
    for size, here, more in _passages(whole, length):
        value, covered = _bm25(here, more, rare, weights.k1 * (1 - weights.b + weights.b * size))
        # No pair adds more than its words are worth; a passage that cannot win needs no closer look.
        if value + weights.pair * covered <= best:
            continue
        both = _both(here, more) if more else here
        for first, second in question.pairs if len(both) > 1 else ():
            # Words that stood side by side in the question count more where they do so again.
            if first in both and second in both:
                gap = max(1.0, _closest(both[first], both[second]) / weights.word)
                if gap <= weights.near:
                    value += weights.pair * (rare[first] + rare[second]) / 2 / math.sqrt(gap)
        if value > best:
            best, at = value, both
    return best, at


def _bm25(here: Places, more: Places, rare: Sequence[float], flat: float) -> tuple[float, float]:
    """The value of a passage of two halves, and how much the units in it tell.

    It is computed for every passage, so the halves are not put together for it, which would take longer than the rest.
    """
    value, covered, full = 0.0, 0.0, WEIGHTS.k1 + 1
    for unit, inside in here.items():
        often = len(inside) + len(more[unit]) if unit in more else len(inside)
        tells = rare[unit]
        covered += tells
        value += tells * often * full / (often + flat)
    for unit, inside in more.items():
        if unit not in here:
            often, tells = len(inside), rare[unit]
            covered += tells
            value += tells * often * full / (often + flat)
    return value, covered


def strengths(whole: Places, length: int) -> dict[int, float]:
    """How strongly a text says each unit, for its neighbours."""
    strong: dict[int, float] = {}
    for size, here, more in _passages(whole, length) if whole else ():
        full, flat = WEIGHTS.k1 + 1, WEIGHTS.k1 * size
        for unit, inside in (_both(here, more) if more else here).items():
            often = len(inside)
            much = often * full / (often + flat)
            if unit not in strong or much > strong[unit]:
                strong[unit] = much
    return strong


def _passages(whole: Places, length: int) -> list[tuple[float, Places, Places]]:
    """The passages of a text, overlapping by half, each with its size and what its halves hold.

    A text that is hardly longer than one is one. Each begins with a half that holds something: one that begins before
    holds no more, and is no shorter.
    """
    if length <= PASSAGE * 3 // 2:
        return [(length / WEIGHTS.usual, whole, {})]
    half = PASSAGE // 2
    halves: dict[int, Places] = {}
    for unit, each in whole.items():
        for place in each:
            here = halves.get(place // half)
            if here is None:
                halves[place // half] = {unit: [place]}
            elif unit in here:
                here[unit].append(place)
            else:
                here[unit] = [place]
    return [
        (min(PASSAGE, length - start * half) / WEIGHTS.usual, halves[start], halves.get(start + 1, {}))
        for start in sorted(halves)
    ]


def _both(here: Places, more: Places) -> Places:
    both = dict(here)
    for unit, each in more.items():
        both[unit] = both[unit] + each if unit in both else each
    return both


def _closest(first: Sequence[int], second: Sequence[int]) -> int:
    """The least distance between a place of one list and a place of the other, both in order."""
    if len(first) == len(second) == 1:
        return abs(first[0] - second[0])
    best, other = 1 << 30, 0
    for place in first:
        while other < len(second) - 1 and second[other + 1] <= place:
            other += 1
        best = min(best, abs(second[other] - place), abs(second[min(other + 1, len(second) - 1)] - place))
    return best


class Odds(NamedTuple):
    """What makes a hit likelier to be right, in log odds.

    Fitted on coding questions, a quarter of LoCoMo's, half of LongMemEval's and questions about what memory does not
    hold, the base then raised by .1 for coding sessions. `python -m bench recall` prints how often hits were right.
    """

    base: float = -6.3
    #: The share of the question that the hit's turn holds, and in how many words.
    holds: float = 0.51
    many: float = 1.02
    #: How far it exceeds the tenth hit, its value to that of the first, and for the first its lead over the second.
    out: float = 0.75
    relative: float = 2.9
    lead: float = 2.49
    first: float = 2.51
    first_holds: float = 1.02


ODDS = Odds()
#: The place of the one behind with which hits are compared, and how far one may exceed it.
_COMPARED, _FARTHEST = 9, 2.0
#: The less of the question's weight than this share a hit holds, the likelier it is about something else, however far
#: it stands out; and so is one that holds one or two words of more.
_ENOUGH, _FEW, _BY_CHANCE = 0.45, 2, 0.45


def scores(ranked: Sequence[Match], rare: Sequence[float]) -> list[float]:
    """Scores that mean the same for every question: how often a hit like this one was right.

    A hit is judged by how much of the question its turn holds, in how many of its words, by its place, and by how far
    it stands out from those behind it.
    """
    if not ranked or ranked[0].value <= 0:
        return [0.0] * len(ranked)
    best, total, found = ranked[0].value, sum(rare) or 1.0, list[float]()
    behind = ranked[_COMPARED].value if len(ranked) > _COMPARED else 0.0
    lead = (best - ranked[1].value) / best if len(ranked) > 1 else 1.0
    for place, match in enumerate(ranked):
        told: dict[int, float] = {}
        for line in (match, *match.lines):
            for unit in line.near:
                told[unit] = max(told.get(unit, 0.0), WEIGHTS.synonym if unit in line.alike else 1.0)
        holds = sum([rare[unit] * much for unit, much in told.items()]) / total
        own = sum(much == 1.0 for much in told.values())
        # Where there are none behind, nothing else speaks of what it holds.
        out = min(match.value / behind - 1, _FARTHEST) if behind > 0 else _FARTHEST * holds**2
        odds = ODDS.base + ODDS.holds * holds + ODDS.many * math.log1p(own) + ODDS.out * out
        odds += (
            ODDS.relative * match.value / best if place else ODDS.first + ODDS.first_holds * holds + ODDS.lead * lead
        )
        chance = _BY_CHANCE if own <= _FEW and own < len(rare) else 1.0
        found.append(round(chance * min(1.0, holds / _ENOUGH) ** 2 / (1 + math.exp(-odds)), 3))
    return found
