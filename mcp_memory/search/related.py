"""What belongs beside a hit: the reply to a question that was asked, and what was later said otherwise.

Both are taken from what was read anyway or from the same turn of the session, so that they cost next to nothing. They
are shown only when they are plain: a wrong "later" misleads more than a missing one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.events import parse_ulid
from mcp_memory.domain.matches import Candidate, Spot
from mcp_memory.domain.text import similar, terms
from mcp_memory.search.hits import Beside, Found, Hit
from mcp_memory.search.passages import Mark, Passage, passage_of
from mcp_memory.search.question import Question, question_of
from mcp_memory.search.scoring import SPOKEN, Weighed
from mcp_memory.store.port import Library

#: Replies are looked for within so many events, which is a turn of usual length.
_TURN = 24
#: The best hit gets its reply, and so does a question among the next, whose answer stands nowhere else.
_REPLIES_OF = 5
_QUESTION_END = 200
#: By these words a message takes something back or says that it has changed.
_CHANGED = re.compile(
    r"\b(?:instead|no longer|not any ?more|changed? (?:\S+ ){0,4}(?:to|from)"
    r"|switch(?:ed|ing)? (?:\S+ ){0,4}(?:to|from|over)|we now|revert(?:s|ed|ing)?|revers(?:e|es|ed|ing)"
    r"|replac(?:es|ed|ing) (?:\S+ ){1,6}(?:with|by)|supersed(?:es|ed)|overrul(?:es|ed)|changed? (?:my|our) mind"
    r"|from now on|on second thoughts?|correction\b|we (?:have )?(?:dropped|ditched|abandoned)|forget (?:about )?\w+"
    r"|(?:move|moved|migrate|migrated|raised|lowered|bumped|increased|reduced|renamed) (?:\S+ ){1,8}to)\b"
    r"|(?:^|[.!?] )(?:no, |ok, |sorry, )?actually\b",
    re.I,
)
#: What sounds so but changes nothing that was decided: a manner of working, a fault that is gone.
_ONLY_SOUNDS = re.compile(
    r"\binstead of \w+ing\b|\bno longer (?:\w+ )?(?:fail|br[eo]|crash|hang|error|flak|tim|throw|complain|leak)"
    r"|\b(?:show|tell) me\b|\bhow (?:do|does|did|to)\b",
    re.I,
)
_ACTUALLY = re.compile(r"(?:^|[.!?] )\s*(?:no, |ok, |sorry, )?actually\b", re.I)
#: No such message is without one of these; looking for them first spares most messages a closer look.
_OF_CHANGE = tuple(
    "instead,no longer,not any,change,switch,we now,revert,revers,replac,supersed,overrul,actually,from now on,"
    "second thought,correction,dropped,ditched,abandoned,forget,move,migrat,raised,lowered,bumped,increased,reduced,"
    "renamed".split(",")
)
_FIGURE = re.compile(r"\d")
_SENTENCE = re.compile(r"[^.!?\n。！？]+(?:[.!?](?!\s)[^.!?\n。！？]*)*[.!?。！？]?")
#: Marks of code, tables and headings: their words stand there for other reasons than what was decided.
_MARKUP = re.compile(r"[|{}<>#=]|;(?!\s+\w)|^\s*[+-]\s|//")
#: How many words of the matter a later message must share with the older one, and how much of the question: of how
#: many of its words, and of what they tell. Of short statements two words are enough, if they are half of them.
_SHARED, _OF_SENTENCE, _ASKED, _TOLD = 3, 0.3, 0.5, 0.6
_SHARED_SHORT, _OF_SHORT = 2, 0.4
#: A statement so like the older one that has other figures says how it is by then.
_ALIKE = 0.6
_REPEATED = 0.92
_STATED = 300
_LATER_IN = 2_000
_SENTENCE_MOST = 320
#: Longer messages of the user are mostly pasted, and speak for someone else.
_OWN_WORDS = 400
#: What is said within this time belongs to the same occasion.
_OCCASION_MS = 2 * 3_600_000


async def with_surroundings(library: Library, found: Found) -> Found:
    """The hits with the replies to the best of them, and with what was later said otherwise."""
    question = question_of(found.query)
    return await _with_later(library, await with_replies(library, found, question), question)


async def with_replies(library: Library, found: Found, question: Question) -> Found:
    """The hits, the best of them with what was answered, and so the questions among the next."""
    hits = list(found.hits)
    for at, hit in enumerate(hits[:_REPLIES_OF]):
        if hit.role == "user" and hit.event_ids and (at == 0 or _asks(hit.passage.text)):
            hits[at] = replace(hit, reply=await _reply(library, hit, question))
    return replace(found, hits=hits)


def _asks(text: str) -> bool:
    return "?" in text[-_QUESTION_END:]


async def _reply(library: Library, hit: Hit, question: Question) -> Beside | None:
    """The message of the same turn that says most of what was asked; of equals the last, which sums up."""
    record = await library.grip(parse_ulid(hit.event_ids[0])[1], 0, _TURN)
    said: list[Beside] = []
    for event in record.after if record else ():
        if event.role == "user":
            break
        if event.role == "assistant":
            said.append(Beside(event, passage_of(question, event.text)))
    return max(reversed(said), key=lambda beside: beside.passage.worth, default=None)


async def _with_later(library: Library, found: Found, question: Question) -> Found:
    """Older hits, each with the latest plain change of the same matter among the candidates."""
    changes = _changes(found.candidates, question)
    chosen = {hit.id: change for hit in found.hits if (change := _later(hit, question, found.weights, changes))}
    read = await library.events([change.number for change in chosen.values()]) if chosen else {}
    return replace(found, hits=[_changed(hit, chosen.get(hit.id), read) for hit in found.hits])


def _changed(hit: Hit, change: _Change | None, read: Mapping[int, Candidate]) -> Hit:
    """A hit with its change, if that was said in the same project."""
    event = read[change.number].event if change and change.number in read else None
    if change is None or event is None or event.project != hit.project:
        return hit
    return replace(hit, later=Beside(event, Passage(event.text, change.place, (Mark(change.place, 0, 1.0),))))


@dataclass(frozen=True, slots=True)
class _Change:
    """A message that may say how something is by then: where it does, and the sentence that says so.

    `plain`: it says in so many words that something has changed; else it only names a figure. `told` are the units of
    the question that the sentence holds.
    """

    item: Weighed
    place: int
    sentence: str
    plain: bool
    told: frozenset[int] = frozenset()

    @property
    def number(self) -> int:
        return self.item.spot.number


def _changes(candidates: Sequence[Weighed], question: Question) -> list[_Change]:
    """What the candidates say of a change, each with how much of the question it tells."""
    changes = [change for item in candidates if (change := _change(item))]
    told = question.places([change.sentence for change in changes])
    return [replace(change, told=frozenset(places)) for change, places in zip(changes, told, strict=True)]


def _change(item: Weighed) -> _Change | None:
    """The first sentence of a message that says that something has changed, or else that names a figure."""
    spot = item.spot
    short = len(spot.text) <= _OWN_WORDS
    if spot.role not in SPOKEN or spot.kind == "compaction" or (spot.role == "user" and not short):
        return None
    text = spot.text[:_LATER_IN]
    changed = _speaks_of_change(text)
    if changed and (change := _first(item, text, _says_so, plain=True)):
        return change
    to_the_point = short and (changed or len(item.near) > 1)
    return _first(item, text, _names_a_figure, plain=False) if to_the_point and _FIGURE.search(text) else None


def _speaks_of_change(text: str) -> bool:
    low = text.lower()
    return any(word in low for word in _OF_CHANGE)


def _first(item: Weighed, text: str, is_meant: Callable[[str], bool], *, plain: bool) -> _Change | None:
    for match in _SENTENCE.finditer(text):
        sentence = match[0]
        if is_meant(sentence) and not (item.spot.role == "assistant" and _ACTUALLY.search(sentence)):
            begin = match.end() - len(sentence.lstrip())
            return _Change(item, begin, sentence, plain)
    return None


def _says_so(sentence: str) -> bool:
    return _is_plain(sentence) and _CHANGED.search(sentence) is not None and not _ONLY_SOUNDS.search(sentence)


def _names_a_figure(sentence: str) -> bool:
    return _is_plain(sentence) and _FIGURE.search(sentence) is not None


def _is_plain(sentence: str) -> bool:
    return len(sentence) <= _SENTENCE_MOST and not sentence.rstrip().endswith("?") and not _MARKUP.search(sentence)


def _later(hit: Hit, question: Question, weights: Sequence[float], changes: Sequence[_Change]) -> _Change | None:
    """The latest of the changes that speaks of what a hit states."""
    if hit.role not in SPOKEN or not changes:
        return None
    stated = hit.passage.window(_STATED)
    if stated.rstrip(" …").endswith("?"):
        return None
    held = frozenset(question.places([stated])[0])
    fitting = [
        change
        for change in changes
        if _is_later(change.item.spot, hit) and _tells_as_much(change, held, weights) and _same_matter(change, stated)
    ]
    return max(fitting, key=lambda change: change.item.spot.timestamp_ms, default=None)


def _is_later(spot: Spot, hit: Hit) -> bool:
    """Whether a message came on another occasion, with other words.

    On the same occasion only the user's words count: an agent says "instead" of every other line that it edits.
    """
    apart_ms = spot.timestamp_ms - hit.start_ms
    return apart_ms > 0 and spot.text != hit.passage.text and (spot.role == "user" or apart_ms >= _OCCASION_MS)


def _tells_as_much(change: _Change, held: frozenset[int], weights: Sequence[float]) -> bool:
    """Whether a change tells most of what the older statement holds of the question."""
    shared = held & change.told
    if len(shared) < max(2, _ASKED * len(held)):
        return False
    return not weights or sum(weights[unit] for unit in shared) >= _TOLD * sum(weights[unit] for unit in held)


def _same_matter(change: _Change, stated: str) -> bool:
    """Whether what changed is what was stated: the same in other figures, or enough of the same words."""
    words, others = terms(change.sentence), terms(stated)
    return _shares_words(words, others) if change.plain else _has_other_figures(words, others)


def _has_other_figures(words: frozenset[str], others: frozenset[str]) -> bool:
    figures, known = ({word for word in each if _FIGURE.match(word)} for each in (words, others))
    if not known or figures <= known:
        return False
    return similar(words - figures, others - known) >= _ALIKE and len(words & others - known) >= _SHARED_SHORT


def _shares_words(words: frozenset[str], others: frozenset[str]) -> bool:
    shared = len(words & others)
    short = shared >= _SHARED_SHORT and shared >= _OF_SHORT * max(len(words), len(others))
    much = shared >= _SHARED and shared >= _OF_SENTENCE * len(words)
    return (short or much) and similar(words, others) < _REPEATED
