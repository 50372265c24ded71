"""From events to candidate bullets: every sentence worth keeping, with its kind and its exact place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, is_not
from typing import NamedTuple

from mcp_memory.adapters.summarizers import cues, patterns
from mcp_memory.adapters.summarizers.actions import actions, changes_something, error_text, from_tool, mended_calls
from mcp_memory.adapters.summarizers.candidate import MAX_BULLET, MAX_EXCERPT, Candidate, Said, said, user_text
from mcp_memory.adapters.summarizers.cues import Kind
from mcp_memory.adapters.summarizers.expressions import Expression
from mcp_memory.adapters.summarizers.messages import (
    plain,
    readable,
    speaker_of,
    speakers,
    spoken,
    windows,
)
from mcp_memory.adapters.summarizers.pasted import is_log_line, own_words, pasted_error, pasted_in
from mcp_memory.adapters.summarizers.sentences import Sentence, sentences
from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.text import folded, has_unspaced_script

__all__ = ["Candidate", "candidates"]

_CONNECTED = re.compile(
    r"(?:so|this|that|it|these|those|they|but|which|otherwise|then|both|instead|previously|also|since)\b", re.I
)


# It speaks of what stood before, which is not there any more where it stands alone.
POINTS_BACK = Expression(
    r"(?:since |so |but )?(?:(?:this|that|it|these|those|they|both|their|its) (?!\w+ed\b)[a-z]|(?:that|it|they)['’])"
)
# A line before code that is left out.
_SHOWS = re.compile(
    r"\b(?:shows?|see|prints?|outputs?|is|are|be|like|with|has|have|includes?|returns?|gives?|run|use)$"
)
_FOUND_OUT = re.compile(
    r"(?:(?:i )?(?:found|see) (?:it|the (?:bug|issue|problem|cause|culprit))|got it|(?:here's |that's )?the "
    r"(?:issue|problem|cause) is clear)(?: now)?\W*",
    re.I,
)
_KEY_SECTION = re.compile(r"\b(?:cause|fix|fixes|solution|decision|resolution|conclusion|recommendation)\b")
_PLAN = re.compile(r"(?:plan|task|todo)\s*:\s*", re.I)
_ORDINARY = re.compile(r"[a-z]+(?:['’][a-z]+)?(?:[\s,]|$)")
_SHORT_CODE = re.compile(r"\s*```\w*\n([^\n`]{1,120}(?:\n[^\n`]{1,60})?)\n\s*```")
_ANNOUNCES_ERROR = re.compile(r"\b(?:with|errors?|this|following|says|got|get|gives|fail(?:s|ed|ing)?)\W*$")
_LINK_ONLY = re.compile(r"\[[^\]]*\]\([^)]*\)\W*$")

_LAID_DOWN = 0.5
_REPORTED = 0.4
_MENDED = 0.6
_ASIDE, _PASSING = -0.7, -1.2
#: What a sentence loses that leans on the one before it, and one that merely goes on from it.
_LEANS, _CONNECTS = 0.4, 0.3
_SHORT_QUESTION = 50
#: What a report is worth that comes with the error it is about.
_PASTED = 1.0
#: What a topmost heading is worth beside others.
_TOPMOST = 1.0
#: What a pasted error is worth that is all a user says, and one with which a message opens.
_ALONE, _OPENING = 1.5, 1.0
#: What a figure adds to a sentence: it cannot be guessed from the rest.
_EXACT = 0.2

# The later an item stands in a list, the less it matters.
_LISTED = {"prose": 0.0, "heading": 0.0, "item": 0.1, "row": 0.2}


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
        if not event.says_something or event.event_type is EventType.COMPACTION:
            continue
        if event.role is Role.USER and event.event_type is not EventType.NOTE:
            turn += 1
            worked = not tools
        worked = worked or changes_something(event)
        place = _Place(turn, last, worked)
        for start, end, text, kind, bonus, listed, more in _of_event(event, place, named=named):
            # What is still open at the end is what one comes back for.
            bonus += 0.5 if kind is Kind.OPEN and event is final else 0.0
            bonus -= _MENDED if kind is Kind.ERROR and event.key in mended else 0.0
            spans = tuple([(event, *span) for span in more])
            found.append(Candidate(event, start, end, text, kind, len(found), turn, bonus, listed, spans))
    return _latest_results(found) + actions(events, len(found), turn)


def _latest_results(found: list[Candidate]) -> list[Candidate]:
    """The candidates but for runs of tests that were run again: what they came to is out of date."""
    latest: dict[str, Candidate] = {_run(pick): pick for pick in found if pick.kind is Kind.RESULT}
    return [pick for pick in found if pick.kind is not Kind.RESULT or latest[_run(pick)] is pick] if latest else found


def _run(pick: Candidate) -> str:
    return pick.text.partition("`: ")[0]


_START = attrgetter("start")


class _Place(NamedTuple):
    """Where a message stands: in which turn, whether it ends it, and whether anything was changed in it before."""

    turn: int
    last: bool
    worked: bool


def _of_event(event: Event, place: _Place, *, named: bool) -> Sequence[Said]:
    if event.event_type is EventType.NOTE:
        return list(_notes(event.text))
    if event.role is Role.USER:
        return _of_user(event.text, place.turn > 1, named)
    if event.role is Role.TOOL or event.event_type is EventType.TOOL_RESULT:
        return sorted(from_tool(event), key=_START)
    return _of_user(event.text, place.turn > 1, named) if named else _of_assistant(event.text, place.last, place.worked)


# A session's record, its segments and the requests before them are made of the same messages.
@lru_cache(maxsize=1 << 9)
def _of_user(text: str, later: bool, named: bool) -> Sequence[Said]:
    return tuple(sorted(_said_by_user(text, later, named), key=_START))


@lru_cache(maxsize=1 << 9)
def _of_assistant(text: str, last: bool, worked: bool) -> Sequence[Said]:
    return tuple(sorted(_said_by_assistant(text, last, worked), key=_START))


def _notes(text: str) -> Iterator[Said]:
    for start, end, _, _ in _sentences(text):
        yield said(text, start, end, f"Note: {plain(text[start:end])}", Kind.NOTE)


def _said_by_user(message: str, later: bool, named: bool) -> Iterator[Said]:
    """What a user says; `later` than in the first turn, a question matters less."""
    text = spoken(message)
    if not text.strip():
        return
    speaker = speaker_of(text) if named else ""
    found = _sentences(text if named else own_words(text))
    if not named:
        found = [sentence for sentence in found if not is_log_line(text, sentence.start, sentence.end)]
        if error := _pasted_error(text):
            begins, span = error
            before = max((index for index, one in enumerate(found) if one.end <= begins), default=-1)
            if before >= 0 and (announced := _with_error(message, found[before], span)):
                yield announced
                del found[before]
            else:
                # What the user says about a log tells more than its lines, unless it only adds to them.
                bonus = _ALONE if not found else _OPENING if before < 0 else 0.0
                yield said(message, *span, error_text(text[slice(*span)]), Kind.ERROR, bonus)
    first = True
    structured = any(sentence.form == "heading" for sentence in found)
    for group in _joined(text, found):
        start, end, form = group
        start += len(speaker) + 2 if first and speaker and text.startswith(speaker, start) else 0
        body = plain(text[start:end])
        if not readable(body) or (body.endswith(":") and body.count(" ") < 3):
            continue
        if form == "heading":
            body = _PLAN.sub("", body)
        kind = Kind.REQUEST if form == "heading" else Kind.SAID if speaker else cues.user_kind(body)
        if kind is Kind.NOISE or (body.endswith(":") and cues.is_label(body)):
            continue
        bonus = cues.chat_value(body) if speaker else _user_bonus(body, kind, later, first, form, structured)
        yield said(message, start, end, user_text(body, kind, speaker), kind, bonus)
        first = False


def _pasted_error(text: str) -> tuple[int, tuple[int, int]] | None:
    """Where the first pasted log that names an error begins, and where it does so."""
    logs = (run for run in pasted_in(text) if run.log)
    return next(((log.start, span) for log in logs if (span := pasted_error(text, log))), None)


def _with_error(message: str, before: Sentence, span: tuple[int, int]) -> Said | None:
    """What a user says before a pasted error together with it, if that only announces it: `the build fails with`."""
    body = plain(message[before.start : before.end])
    error = error_text(message[slice(*span)]).partition(": ")[2]
    fits = len(body) + len(error) <= MAX_BULLET and span[1] - before.start <= MAX_EXCERPT
    if not fits or not _ANNOUNCES_ERROR.search(folded(body)):
        return None
    told = cues.without_politeness(cues.without_interjection(body)).rstrip(": ")
    return said(message, before.start, span[1], f"Reported: {told}: {error}", Kind.REPORT, _PASTED)


def _user_bonus(body: str, kind: Kind, later: bool, first: bool, form: str, structured: bool) -> float:
    """The opening of a message says what it is about; the parts of a pasted plan matter less.

    What a user lays down is kept; a question in between matters less than the task, and than what came of it.
    """
    asks = later and kind is Kind.REQUEST and cues.asks_only(body)
    if asks and len(body) <= _SHORT_QUESTION:
        return _PASSING
    value = _LAID_DOWN if kind is Kind.RULE else _ASIDE if asks else 0.0
    if first:
        return value + (1.2 if form == "heading" else 0.8)
    value -= _LEANS if _CONNECTED.match(body) else 0.0
    return value + (-1.2 if form in ("heading", "row") else -0.6 if structured else -0.4 if form != "prose" else 0.0)


def _said_by_assistant(text: str, last: bool, worked: bool) -> Iterator[Said]:
    section, key_section = "", False
    found = _sentences(text)
    skip_until = listed = 0
    found_out = False
    for index, sentence in enumerate(found):
        if sentence.start < skip_until:
            continue
        start, end = sentence.start, sentence.end
        body = plain(text[start:end])
        if sentence.form == "heading":
            section = body.lower()
            key_section = _KEY_SECTION.search(section) is not None
            if not cues.is_label(body) and body.count(" ") > 1:
                yield said(text, start, end, body, Kind.HEADING, (0.35 if last else 0.0) + _heads(text, start))
            continue
        announces = False
        if body.endswith((":", "：")):
            body, end = _with_items(text, body, end, found[index + 1 :])
            announces = end == sentence.end
            if announces and (cues.is_label(body) or _SHOWS.search(body)):
                continue
        elif sentence.form == "prose" and index + 1 < len(found):
            body, end = _with_next(text, body, start, end, sentence, found[index + 1])
        skip_until = end
        kind = cues.assistant_kind(body)
        reported = kind is Kind.STATED and sentence.form in ("item", "row") and last and worked
        kind = Kind.CAUSE if kind is Kind.STATED and found_out else _by_place(kind, body, section, reported)
        found_out = _FOUND_OUT.fullmatch(body) is not None
        if (
            kind is Kind.NOISE
            or len(body) < 6
            or _named_only(body)
            or (text[start] == "[" and _LINK_ONLY.match(text, start, end))
        ):
            continue
        listed = listed + 1 if sentence.form in ("item", "row") else 0
        bonus = (0.35 if last else 0.0) + (0.4 if key_section else 0.0)
        bonus += 0.3 if kind is Kind.DECISION and cues.gives_reason(body) else 0.0
        bonus += _EXACT if kind not in (Kind.FIGURE, Kind.PLANNED) and cues.gives_figures(body) else 0.0
        bonus -= (
            (_REPORTED if reported else 0.0)
            + _leaning(body, kind)
            + (0.5 if announces else 0.0)
            + min(_LISTED[sentence.form] * listed, 0.6)
        )
        yield said(text, start, end, _shown(body, kind), kind, bonus, listed=bool(listed))


def _heads(text: str, start: int) -> float:
    """What a heading gains that stands above all others of its message: it says what that is about."""
    return _TOPMOST if text[:start] == "# " or text[max(0, start - 3) : start] == "\n# " else 0.0


def _leaning(body: str, kind: Kind) -> float:
    """What a sentence loses that needs what stood before it, or that only announces what is about to be decided."""
    low = folded(body)
    announced = _LEANS if kind is Kind.DECISION and patterns.LET_ME.match(folded(cues.unopened(body))) else 0.0
    return announced + (_LEANS if POINTS_BACK.match(low) else _CONNECTS if _CONNECTED.match(low) else 0.0)


def _named_only(body: str) -> bool:
    """Whether all it says is the name of a file: `File: config.go`."""
    return body.count(" ") < 2 and not has_unspaced_script(body)


def _by_place(kind: Kind, body: str, section: str, reported: bool) -> Kind:
    """The kind of a plain statement, by where it stands: `reported` in a list after something was done."""
    if kind is Kind.STATED and "cause" in section:
        return Kind.CAUSE
    return Kind.OUTCOME if reported and body.count(" ") > 4 else kind


def _shown(body: str, kind: Kind) -> str:
    body = cues.plan_of(body) if kind in (Kind.PLANNED, Kind.DECISION) else cues.finding(cues.unopened(body))
    return body[:1].upper() + body[1:] if body[:1].islower() and _ORDINARY.match(body) else body


def _with_items(text: str, lead: str, end: int, following: Sequence[Sentence]) -> tuple[str, int]:
    """A lead that ends in a colon, told together with the list items it announces."""
    items: list[str] = []
    label = cues.is_label(lead)
    for _, parts in groupby(following, key=lambda part: part.block):
        first, *rest = parts
        stop = rest[-1].end if rest else first.end
        if first.form != "item" or label or len(lead) + sum(map(len, items)) + stop - first.start > MAX_BULLET:
            break
        items.append(plain(text[first.start : stop]).rstrip(".;:"))
        end = stop
    if not items and not label and (code := _SHORT_CODE.match(text, end)):
        items, end = [f"`{plain(code[1]).replace('`', '')}`"], code.end(1)
    lead = lead.rstrip(":： ")
    return (f"{lead}: {'; '.join(items)}" if items else lead), end


def _with_next(text: str, body: str, start: int, end: int, this: Sentence, following: Sentence) -> tuple[str, int]:
    """A sentence together with the next one when that one only makes sense after it."""
    raw = text[following.start : following.end]
    fits = following.block == this.block and following.end - start <= MAX_BULLET and not raw.rstrip().endswith(":")
    if fits and _CONNECTED.match(raw) and cues.assistant_kind(body) not in (Kind.NOISE, Kind.PLANNED):
        return f"{body} {plain(raw)}", following.end
    return body, end


def _sentences(text: str) -> list[Sentence]:
    return [sentence for low, high in windows(len(text)) for sentence in sentences(text, low, high)]


def _joined(text: str, found: Iterable[Sentence]) -> Iterator[tuple[int, int, str]]:
    """Neighbouring short sentences of one paragraph as one, since a user's thought rarely fits into one sentence."""
    for _, group in groupby(found, key=lambda sentence: sentence.block):
        parts = list(group)
        if (
            len(parts) > 1
            and text[: parts[-1].end].endswith(":")
            and cues.is_label(text[parts[-1].start : parts[-1].end])
        ):
            parts.pop()
        for thought in _thoughts(text, parts):
            while thought:
                count = len(thought)
                while count > 1 and thought[count - 1].end - thought[0].start > MAX_BULLET - 20:
                    count -= 1
                yield thought[0].start, thought[count - 1].end, thought[0].form
                thought = thought[count:]


def _thoughts(text: str, parts: list[Sentence]) -> list[list[Sentence]]:
    """The sentences of a paragraph, parted where a passing question stands beside what the user lays down or asks for.

    An `ok` or `go on` at its ends is left out.
    """
    if len(parts) < 2:
        return [parts]
    kinds = [_in_passing(text[part.start : part.end]) for part in parts]
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


_FIRM = frozenset({Kind.REQUEST, Kind.RULE, Kind.REPORT})


def _in_passing(raw: str) -> Kind | None:
    """A sentence's kind, or none for a short question."""
    body = plain(raw)
    asks = cues.is_question(body) and len(body) <= _SHORT_QUESTION and cues.asks_only(body)
    return None if asks else cues.user_kind(body)


def _last_words(events: Sequence[Event]) -> list[bool]:
    """Of every event, whether nothing more is said in its turn: that is where an assistant tells outcomes."""
    last = [True] * len(events)
    for index in range(len(events) - 1, 0, -1):
        event = events[index]
        last[index - 1] = event.role is Role.USER or (last[index] and not event.says_something)
    return last
