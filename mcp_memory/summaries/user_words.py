"""Candidates from what a user says: whole thoughts, and the error of a pasted log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from mcp_memory.domain.text import folded
from mcp_memory.summaries import cues, patterns
from mcp_memory.summaries.actions import error_text
from mcp_memory.summaries.candidate import MAX_BULLET, MAX_EXCERPT, Said, said, user_text
from mcp_memory.summaries.cues import Kind
from mcp_memory.summaries.messages import plain, readable, speaker_of, spoken
from mcp_memory.summaries.pasted import is_log_line, own_words, pasted_error, pasted_in
from mcp_memory.summaries.sentences import Form, Sentence, sentences

_PLAN = re.compile(r"(?:plan|task|todo)\s*:\s*", re.I)
_ANNOUNCES_ERROR = re.compile(r"\b(?:with|errors?|this|following|says|got|get|gives|fail(?:s|ed|ing)?)\W*$")
_LONGEST_THOUGHT = MAX_BULLET - 20
_SHORT_QUESTION = 50

#: What a message opens with says what it is about, the more so in a heading.
_OPENS, _OPENS_AS_HEADING = 0.8, 1.2
#: What a user lays down is kept.
_LAID_DOWN = 0.5
#: A question after the first turn matters less than the task and what came of it, a short one hardly at all.
_ASIDE, _IN_PASSING = -0.7, -1.2
#: So does a sentence that goes on from the one before it, and each part of a pasted plan or list.
_GOES_ON, _HEADING_OR_ROW, _BENEATH_HEADINGS, _ITEM = -0.4, -1.2, -0.6, -0.4
#: A report that comes with the error it is about.
_WITH_ERROR = 1.0
#: A pasted error that is all a user says, and one with which a message opens; else the user's words tell more.
_ERROR_ALONE, _ERROR_OPENS = 1.5, 1.0

#: Kinds beside which a passing question is a thought of its own.
_FIRM = frozenset({Kind.REQUEST, Kind.RULE, Kind.REPORT})


class _Thought(NamedTuple):
    """Neighbouring sentences that are told as one."""

    start: int
    end: int
    form: Form


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
    found = [one for one in sentences(own_words(text)) if not is_log_line(text, one.start, one.end)]
    if error := _pasted_error(text):
        told, found = _told_with_error(message, found, *error)
        yield told
    yield from _thoughts_told(message, text, found, later, "")


def _pasted_error(text: str) -> tuple[int, tuple[int, int]] | None:
    """Where the first pasted log that names an error begins, and where it does so."""
    logs = (run for run in pasted_in(text) if run.log)
    return next(((log.start, span) for log in logs if (span := pasted_error(text, log))), None)


def _told_with_error(
    message: str, found: list[Sentence], log: int, span: tuple[int, int]
) -> tuple[Said, list[Sentence]]:
    """The error at `span` of a log that begins at `log`, and the sentences that are left to be told beside it."""
    before = max((index for index, one in enumerate(found) if one.end <= log), default=-1)
    if before >= 0 and (announced := _announced(message, found[before], span)):
        return announced, found[:before] + found[before + 1 :]
    bonus = _ERROR_ALONE if not found else _ERROR_OPENS if before < 0 else 0.0
    return said(message, *span, error_text(message[slice(*span)]), Kind.ERROR, bonus), found


def _announced(message: str, before: Sentence, span: tuple[int, int]) -> Said | None:
    """A pasted error with the sentence before it, if that only announces it: `the build fails with`."""
    body = plain(message[before.start : before.end])
    error = error_text(message[slice(*span)]).partition(": ")[2]
    fits = len(body) + len(error) <= MAX_BULLET and span[1] - before.start <= MAX_EXCERPT
    if not fits or not _ANNOUNCES_ERROR.search(folded(body)):
        return None
    told = cues.without_politeness(cues.without_interjection(body)).rstrip(": ")
    return said(message, before.start, span[1], f"Reported: {told}: {error}", Kind.REPORT, _WITH_ERROR)


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
        kind = _kind(body, form, speaker)
        if kind is Kind.NOISE:
            continue
        bonus = cues.chat_value(body) if speaker else _bonus(body, kind, form, later, first, structured)
        yield said(message, start, end, user_text(body, kind, speaker), kind, bonus)
        first = False


def _kind(body: str, form: Form, speaker: str) -> Kind:
    if body.endswith(":") and cues.is_label(body):
        return Kind.NOISE
    if form == "heading":
        return Kind.REQUEST
    return Kind.SAID if speaker else cues.user_kind(body)


def _bonus(body: str, kind: Kind, form: Form, later: bool, first: bool, structured: bool) -> float:
    """What a thought is worth beside others of its kind: `first` in its message, or in one `structured` by headings."""
    asks = later and kind is Kind.REQUEST and cues.asks_only(body)
    if asks and len(body) <= _SHORT_QUESTION:
        return _IN_PASSING
    value = _LAID_DOWN if kind is Kind.RULE else _ASIDE if asks else 0.0
    if first:
        return value + (_OPENS_AS_HEADING if form == "heading" else _OPENS)
    value += _GOES_ON if patterns.CONNECTED.match(body) else 0.0
    if form in ("heading", "row"):
        return value + _HEADING_OR_ROW
    if structured:
        return value + _BENEATH_HEADINGS
    return value + (_ITEM if form == "item" else 0.0)


def _thoughts(text: str, found: Iterable[Sentence]) -> Iterator[_Thought]:
    """Neighbouring short sentences of one paragraph as one, since a user's thought rarely fits into one sentence."""
    for _, block in groupby(found, key=lambda sentence: sentence.block):
        for parts in _parted(text, _without_label(text, list(block))):
            yield from _fitting(parts)


def _without_label(text: str, parts: list[Sentence]) -> list[Sentence]:
    """The sentences of a paragraph but for a last one that only announces a list."""
    start, end, _, _ = parts[-1]
    if len(parts) > 1 and text[end - 1] == ":" and cues.is_label(text[start:end]):
        return parts[:-1]
    return parts


def _parted(text: str, parts: list[Sentence]) -> list[list[Sentence]]:
    """The sentences of a paragraph, parted where a passing question stands beside what the user lays down or asks for.

    An `ok` or `go on` at its ends is left out.
    """
    if len(parts) < 2:
        return [parts]
    kinds = [_kind_unless_passing(text[part.start : part.end]) for part in parts]
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


def _kind_unless_passing(raw: str) -> Kind | None:
    """A sentence's kind, or none for a short question."""
    body = plain(raw)
    asks = cues.is_question(body) and len(body) <= _SHORT_QUESTION and cues.asks_only(body)
    return None if asks else cues.user_kind(body)


def _fitting(parts: list[Sentence]) -> Iterator[_Thought]:
    """The sentences of one thought as few bullets, each as long as it may be."""
    while parts:
        count = len(parts)
        while count > 1 and parts[count - 1].end - parts[0].start > _LONGEST_THOUGHT:
            count -= 1
        yield _Thought(parts[0].start, parts[count - 1].end, parts[0].form)
        parts = parts[count:]
