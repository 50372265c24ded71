"""What is said in a message that may become a bullet: its words, their kind and their exact place.

A user says whole thoughts, an assistant sentences, each by its kind and by where it stands; a summary that hands a
conversation over tells the task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.sentences import Form, Sentence, clipped, sentences
from mcp_memory.domain.text import folded, has_unspaced_script
from mcp_memory.summaries import cues
from mcp_memory.summaries.messages import (
    own_words,
    pasted_error,
    pasted_in,
    plain,
    readable,
    speaker_of,
    spoken,
)
from mcp_memory.summaries.phrases import with_capital

MAX_BULLET = 220
MAX_EXCERPT = 300
_NOUNS_FOLLOW = frozenset(
    "the a an my our your their this that these those it them us people users some every all".split()
)
_ERROR_WORD = re.compile(r"^error:\s+", re.I)


class Said(NamedTuple):
    """Words of a message that are worth keeping: where they stand in it, how they are shown, and what they matter.

    `label` is shown before the text: who said it, or what it is. `more` are further places in the same message.
    """

    start: int
    end: int
    label: str
    text: str
    kind: Kind
    bonus: float = 0.0
    listed: bool = False
    more: tuple[tuple[int, int], ...] = ()


class Candidate(NamedTuple):
    """A possible bullet. `order` is its place in the segment, `turn` the user message it follows."""

    event: Event
    start: int
    end: int
    label: str
    text: str
    kind: Kind
    order: int
    turn: int
    bonus: float = 0.0
    listed: bool = False
    more: tuple[tuple[Event, int, int], ...] = ()

    @property
    def shown(self) -> str:
        return f"{self.label}: {self.text}" if self.label else self.text

    @property
    def by_user(self) -> bool:
        """Whether a user said it, or a summary tells that one did."""
        return self.event.role is Role.USER or self.event.event_type is EventType.COMPACTION


def said(
    message: str,
    start: int,
    end: int,
    text: str,
    kind: Kind,
    bonus: float = 0.0,
    *,
    label: str = "",
    listed: bool = False,
) -> Said:
    if end - start > MAX_EXCERPT:
        cut = message.rfind(" ", start, start + MAX_EXCERPT)
        end = cut if cut > start + MAX_EXCERPT // 2 else start + MAX_EXCERPT
    text = text if cues.is_question(text) or text.endswith("!") else text.rstrip(" .:;,：。")
    lead = f"{label}: " if label else ""
    return Said(start, end, label, clipped(f"{lead}{text}", MAX_BULLET)[len(lead) :], kind, bonus, listed)


def said_by_person(
    message: str, start: int, end: int, body: str, kind: Kind, bonus: float = 0.0, speaker: str = ""
) -> Said:
    """What a user said, marked by who said it or by what it is."""
    if speaker:
        return said(message, start, end, body, kind, bonus, label=speaker)
    text = cues.without_interjection(body)
    if kind is not Kind.REQUEST:
        return said(message, start, end, text, kind, bonus, label=kind.label or Kind.REMARK.label)
    asked = cues.without_politeness(text)
    # `I want the map to …` needs its verb.
    needs_verb = asked != text and cues.first_word(asked.lower()) in _NOUNS_FOLLOW
    return said(message, start, end, text if needs_verb else asked, kind, bonus, label=kind.label)


def error_said(message: str, start: int, end: int, bonus: float = 0.0) -> Said:
    told = _ERROR_WORD.sub("", plain(message[start:end]))
    return said(message, start, end, told, Kind.ERROR, bonus, label=Kind.ERROR.label)


_PLAN = re.compile(r"(?:plan|task|todo)\s*:\s*", re.I)
_LONGEST_THOUGHT = MAX_BULLET - 20
_SHORT_QUESTION = 50

#: What a message opens with says what it is about, the more so in a heading.
_OPENS, _OPENS_AS_HEADING = 0.8, 1.2
#: What a user lays down is kept.
_LAID_DOWN = 0.5
#: A question after the first turn matters less than the task and what came of it.
_ASIDE = -0.7
#: So does each part of a pasted plan or list.
_HEADING_OR_ROW, _BENEATH_HEADINGS, _ITEM = -1.2, -0.6, -0.4
#: A pasted error that is all a user says, and one with which a message opens; else the user's words tell more.
_ERROR_ALONE, _ERROR_OPENS = 1.5, 1.0

#: Kinds beside which a passing question is a thought of its own.
_FIRM = frozenset({Kind.REQUEST, Kind.RULE, Kind.REPORT})


def said_by_user(message: str, later: bool, named: bool) -> Iterator[Said]:
    """What a user says; `later` than in the first turn, a question matters less.

    Where people talk to each other, each message is `named` by its speaker, and nothing is taken for a pasted log.
    """
    text = spoken(message)
    if not text.strip():
        return
    if named:
        yield from _thoughts_told(message, text, sentences(text), later, speaker_of(text))
        return
    found = list(sentences(own_words(text)))
    logs = (run for run in pasted_in(text) if run.log)
    # The first pasted log that names an error.
    if error := next(((log.start, span) for log in logs if (span := pasted_error(text, log))), None):
        log, span = error
        opens = not any(one.end <= log for one in found)
        yield error_said(message, *span, _ERROR_ALONE if not found else _ERROR_OPENS if opens else 0.0)
    yield from _thoughts_told(message, text, found, later, "")


def _thoughts_told(message: str, text: str, found: Sequence[Sentence], later: bool, speaker: str) -> Iterator[Said]:
    first = True
    structured = any(sentence.form == "heading" for sentence in found)
    for start, end, form in _thoughts(text, found):
        if first and speaker and text.startswith(speaker, start):
            start += len(speaker) + len(": ")
        body = plain(text[start:end])
        if not readable(body) or (body.endswith(":") and body.count(" ") < 3):
            continue
        if form == "heading":
            body = _PLAN.sub("", body)
        if body.endswith(":") and cues.is_label(body):
            continue
        kind = Kind.REQUEST if form == "heading" else Kind.SAID if speaker else cues.user_kind(body)
        if kind is Kind.NOISE:
            continue
        bonus = cues.chat_value(body) if speaker else _user_bonus(body, kind, form, later, first, structured)
        yield said_by_person(message, start, end, body, kind, bonus, speaker)
        first = False


def _user_bonus(body: str, kind: Kind, form: Form, later: bool, first: bool, structured: bool) -> float:
    """What a thought is worth beside others of its kind: `first` in its message, or in one `structured` by headings."""
    asks = later and kind is Kind.REQUEST and cues.asks_only(body)
    value = _LAID_DOWN if kind is Kind.RULE else _ASIDE if asks else 0.0
    if first:
        return value + (_OPENS_AS_HEADING if form == "heading" else _OPENS)
    if form in ("heading", "row"):
        return value + _HEADING_OR_ROW
    if structured:
        return value + _BENEATH_HEADINGS
    return value + (_ITEM if form == "item" else 0.0)


def _thoughts(text: str, found: Iterable[Sentence]) -> Iterator[tuple[int, int, Form]]:
    """Neighbouring short sentences of one paragraph as one, since a user's thought rarely fits into one sentence."""
    for _, block in groupby(found, key=lambda sentence: sentence.block):
        parts = list(block)
        start, end, _, _ = parts[-1]
        if len(parts) > 1 and text[end - 1] == ":" and cues.is_label(text[start:end]):
            parts = parts[:-1]  # it only announces a list
        for thought in _parted(text, parts):
            # As few bullets as may be, each as long as it may be.
            while thought:
                count = len(thought)
                while count > 1 and thought[count - 1].end - thought[0].start > _LONGEST_THOUGHT:
                    count -= 1
                yield thought[0].start, thought[count - 1].end, thought[0].form
                thought = thought[count:]


def _parted(text: str, parts: list[Sentence]) -> list[list[Sentence]]:
    """The sentences of a paragraph, parted where a passing question stands beside what the user lays down or asks for.

    An `ok` or `go on` at its ends is left out.
    """
    if len(parts) < 2:
        return [parts]
    #: The kind of each sentence, none for a short question.
    kinds: list[Kind | None] = []
    for part in parts:
        body = plain(text[part.start : part.end])
        asks = cues.is_question(body) and len(body) <= _SHORT_QUESTION and cues.asks_only(body)
        kinds.append(None if asks else cues.user_kind(body))
    while len(parts) > 1 and kinds[-1] is Kind.NOISE:
        parts, kinds = parts[:-1], kinds[:-1]
    while len(parts) > 1 and kinds[0] is Kind.NOISE:
        parts, kinds = parts[1:], kinds[1:]
    thoughts = [[parts[0]]]
    for before, kind, part in zip(kinds, kinds[1:], parts[1:], strict=False):
        if (before is None) is (kind is None) or not {before, kind} & _FIRM:
            thoughts[-1].append(part)
        else:
            thoughts.append([part])
    return thoughts


_FOUND_OUT = re.compile(
    r"(?:(?:i )?(?:found|see) (?:it|the (?:bug|issue|problem|cause|culprit))|got it|(?:here's |that's )?the "
    r"(?:issue|problem|cause) is clear)(?: now)?\W*",
    re.I,
)
_KEY_SECTION = re.compile(r"\b(?:cause|fix|fixes|solution|decision|resolution|conclusion|recommendation)\b")
_SHORT_CODE = re.compile(r"\s*```\w*\n([^\n`]{1,120}(?:\n[^\n`]{1,60})?)\n\s*```")
_LINK_ONLY = re.compile(r"\[[^\]]*\]\([^)]*\)\W*$")
_SHORTEST = 6

#: The last message of a turn tells what came of it.
_ENDS_TURN = 0.35
#: A heading that stands above all others of its message says what that is about.
_TOPMOST = 1.0
_UNDER_KEY_HEADING = 0.4
_GIVES_REASON = 0.3
#: A figure cannot be guessed from the rest.
_EXACT = 0.2
#: What a plain statement loses in a list that reports what was done: it is one of many.
_REPORTED = 0.4
#: What a sentence loses that leans on the one before it, one that merely goes on from it, and one that announces more.
_LEANS, _CONNECTS, _ANNOUNCES = 0.4, 0.3, 0.5
#: The later an item stands in a list, the less it matters, down to a limit.
_LISTED = {"prose": 0.0, "item": 0.1, "row": 0.2}
_LISTED_MOST = 0.6


class _Statement(NamedTuple):
    """A sentence, or a lead with its items, as it is told; `announces` says that what it leads to is left out."""

    start: int
    end: int
    body: str
    form: Form
    announces: bool = False


def said_by_assistant(text: str, last: bool, worked: bool) -> Iterator[Said]:
    """What an assistant says: in the `last` message of a turn or before, after tools `worked` in it or not."""
    # What the heading above a sentence says of it: that it is about a cause, or the key to the whole message.
    about_cause = key = found_out = False
    listed = 0
    ends = _ENDS_TURN if last else 0.0
    for start, end, body, form, announces in _statements(text):
        if form == "heading":
            low = body.lower()
            about_cause, key = "cause" in low, _KEY_SECTION.search(low) is not None
            if not cues.is_label(body) and body.count(" ") > 1:
                topmost = text[:start] == "# " or text[max(0, start - 3) : start] == "\n# "
                yield said(text, start, end, body, Kind.HEADING, ends + (_TOPMOST if topmost else 0.0))
            continue
        kind = cues.assistant_kind(body)
        reported = kind is Kind.STATED and form != "prose" and last and worked
        if kind is Kind.STATED:
            # A plain statement is told by its place: under a heading, or in a list after something was done.
            cause, outcome = found_out or about_cause, reported and body.count(" ") > 4
            kind = Kind.CAUSE if cause else Kind.OUTCOME if outcome else Kind.STATED
        found_out = _FOUND_OUT.fullmatch(body) is not None
        # No more than the name of a file, as in `File: config.go`, or a link.
        short = len(body) < _SHORTEST or (body.count(" ") < 2 and not has_unspaced_script(body))
        if kind is Kind.NOISE or short or (text[start] == "[" and _LINK_ONLY.match(text, start, end)):
            continue
        listed = 0 if form == "prose" else listed + 1
        bonus = ends + (_UNDER_KEY_HEADING if key else 0.0)
        bonus += _GIVES_REASON if kind is Kind.DECISION and cues.gives_reason(body) else 0.0
        bonus += _EXACT if kind not in (Kind.FIGURE, Kind.PLANNED) and cues.gives_figures(body) else 0.0
        bonus -= (
            (_REPORTED if reported else 0.0)
            + _leaning(body, kind)
            + (_ANNOUNCES if announces else 0.0)
            + min(_LISTED[form] * listed, _LISTED_MOST)
        )
        tells = cues.plan_of(body) if kind in (Kind.PLANNED, Kind.DECISION) else cues.finding(cues.unopened(body))
        yield said(text, start, end, with_capital(tells), kind, bonus, listed=bool(listed))


def _leaning(body: str, kind: Kind) -> float:
    """What a sentence loses that needs what stood before it, or that only announces what is about to be decided."""
    low = folded(body)
    announced = _LEANS if kind is Kind.DECISION and cues.LET_ME.match(folded(cues.unopened(body))) else 0.0
    if cues.POINTS_BACK.match(low):
        return announced + _LEANS
    return announced + (_CONNECTS if cues.CONNECTED.match(low) else 0.0)


def _statements(text: str) -> Iterator[_Statement]:
    """Headings and sentences in order, each with what only makes sense after it; labels of what is left out are not."""
    found = sentences(text)
    taken = 0
    for index, sentence in enumerate(found):
        start, end, form, _ = sentence
        if start < taken:
            continue
        body = plain(text[start:end])
        if form == "heading":
            yield _Statement(start, end, body, form)
            continue
        announces = False
        if body.endswith((":", "：")):
            body = body.rstrip(":： ")
            if cues.is_label(body):
                continue
            body, taken = _with_items(text, body, end, found[index + 1 :])
            announces = taken == end
        elif form == "prose" and index + 1 < len(found):
            body, taken = _with_next(text, body, sentence, found[index + 1])
        else:
            taken = end
        yield _Statement(start, taken, body, form, announces)


def _with_items(text: str, lead: str, end: int, following: Sequence[Sentence]) -> tuple[str, int]:
    """A lead that stood before a colon together with what it announces, list items or a line of code, if they fit."""
    items: list[str] = []
    room = MAX_BULLET - len(f"{lead}:")
    for _, parts in groupby(following, key=lambda part: part.block):
        first, *rest = parts
        stop = rest[-1].end if rest else first.end
        if first.form != "item" or stop - first.start > room:
            break
        items.append(plain(text[first.start : stop]).rstrip(".;:"))
        room -= len(items[-1])
        end = stop
    if not items and (code := _SHORT_CODE.match(text, end)):
        items, end = [f"`{plain(code[1]).replace('`', '')}`"], code.end(1)
    return (f"{lead}: {'; '.join(items)}" if items else lead), end


def _with_next(text: str, body: str, this: Sentence, following: Sentence) -> tuple[str, int]:
    """A sentence together with the next one when that one only makes sense after it."""
    raw = text[following.start : following.end]
    fits = following.block == this.block and following.end - this.start <= MAX_BULLET and not raw.rstrip().endswith(":")
    if fits and cues.CONNECTED.match(raw) and cues.assistant_kind(body) not in (Kind.NOISE, Kind.PLANNED):
        return f"{body} {plain(raw)}", following.end
    return body, this.end


_LONGEST_HEAD = 60


def said_by_summary(text: str) -> Iterator[Said]:
    """The first request that stands below a heading for requests."""
    for head, task in pairwise(sentences(text)):
        low = folded(text[head.start : head.end])
        if len(low) > _LONGEST_HEAD or not lexicon.expressions("facets")["summary_head"].fullmatch(low):
            continue
        body = plain(text[task.start : task.end])
        told = lexicon.expressions("facets")["says_who"].match(folded(body))
        body = body[told.end() :] if told else body
        if readable(body):
            yield said_by_person(text, task.start, task.end, body, Kind.REQUEST)
        return
