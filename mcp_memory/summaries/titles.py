"""Titles of segments: one clause that names what a conversation was about, from what was written as a conclusion.

A sentence is cut into clauses, in the words that were said and only where they end. The title is the clause that reads
best on its own and covers most of the segment: what the user, the closing messages and the work itself all speak of is
what the segment is about. Names that it does not tell yet follow after a colon.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.domain.events import Event, Role, given_title
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.text import STOP_WORDS, folded, has_unspaced_script, one_line
from mcp_memory.summaries.calls import Source
from mcp_memory.summaries.keywords import Vocabulary, stems_of
from mcp_memory.summaries.messages import SAYS, plain
from mcp_memory.summaries.statements import Mood, Statement, said_by_user

MAX_WORDS, MAX_CHARS = 10, 90

_WORDS, _VOCABULARY = lexicon.word_lists("titles"), lexicon.word_lists("vocabulary")
_PATTERNS, _POLITE = lexicon.expressions("phrases"), lexicon.expressions("claims")["polite"]
_IMPERATIVES = _VOCABULARY["imperatives"] | _VOCABULARY["other_imperatives"]
# What could be about anything.
_GENERIC = _VOCABULARY["generic"] | STOP_WORDS | _IMPERATIVES | _WORDS["anything"]
_ANY_WORD = re.compile(r"\b[^\W\d_]+(?:['’][^\W\d_]+)?\b")
_NAME = re.compile(r"[a-z][A-Z]|\w[._/]\w|\w::\w|^(?:--?|\.)\w")
#: What is left of a title by its first word, by any of its words, and by what is found in it.
_BY_FIRST = {"leaning": 0.3, "asking": 0.6, "wondering": 0.85, "chores": 0.55}
_BY_WORD = {"personal": 0.5, "vague": 0.45}
_BY_PATTERN = {"code": 0.45, "typed": 0.2, "ids": 0.3, "lacking": 0.5}
_TASK, _GENERAL, _BREAK, _FIGURE = 1.1, 0.5, 0.8, 0.7


@lru_cache(maxsize=1 << 12)
def readability(title: str) -> float:
    """About 1 for a clause that can stand alone, less for each thing that makes it read like a torn-out piece."""
    low = folded(title)
    words = _ANY_WORD.findall("".join(_PATTERNS["pointed"].split(low)))
    if not words:
        return 0.0
    first, known = words[0] if low.startswith(words[0]) else "", frozenset(words)
    value = _TASK if first in _IMPERATIVES else 1.0
    value *= math.prod(factor for name, factor in _BY_FIRST.items() if first in _WORDS[name])
    value *= math.prod(factor for name, factor in _BY_WORD.items() if known & _WORDS[name])
    value *= math.prod(factor for name, factor in _BY_PATTERN.items() if _PATTERNS[name].search(low))
    names = sum(_NAME.search(word) is not None for word in title.split())
    value *= _GENERAL if title.isascii() and known <= _GENERIC and not names else 1.0
    value *= _BREAK ** len(list(_PATTERNS["breaks"].finditer(low)))
    value *= _FIGURE ** len(list(_PATTERNS["figures"].finditer(low)))
    # A title that has more names than words cannot be read.
    return value * (0.6 if names * 2 > title.count(" ") + 1 else 0.8 if names > 2 else 1.0)


def word_count(title: str) -> int:
    """The number of words; three characters of an unspaced script count as one."""
    return len(title) // 3 if has_unspaced_script(title) else title.count(" ") + 1 if title else 0


class Clause(NamedTuple):
    """Words of a sentence, whether something is asked for, and how whole they are."""

    text: str
    asked: bool
    whole: float


#: How whole a clause is from which something was left out, and one that lost its verb.
_SHORTENED, _CUT_OFF = 0.9, 0.5
_MAX_STARTS = 6
_MAX_UNSPACED, _SHORTEST_UNSPACED = 30, 8
# Code is one word, whatever stands in it.
_TICKED, _JOINT = re.compile(r"`([^`\n]*)`"), "\ue000"
_PARENTHESIS = re.compile(r"\s*[(（\[][^()（）\[\]]{0,200}[)）\]](?=[\s,.;:!?]|$)")
_LONG_PATH, _LINE_REF = re.compile(r"/?(?:[\w.~@-]+/)+([\w.~@-]+/[\w.@-]+)"), re.compile(r"(\.\w+)(?::\d+)+(?:-\d+)?")
_SYMBOLS = re.compile("[`<>\u2600-\u27bf\ufe0f\u200d\U0001f000-\U0001faff]")
_QUOTES = re.compile(r"(?<!\w)['‘]|['’](?!\w)|[\"“”«»]")
_MARKS = " .,;:!?…-–—/\\*#|=+&'’。，、；：！？"
_LEADING_MARKS = _MARKS.replace(".", "").replace("-", "").replace("/", "")
_DOTTED = re.compile(r"(?:\.|--?)\w")
_ORDINARY = re.compile(r"[^\W\d_A-Z]+(?:['’][a-z]+)?(?:[\s,]|$)")
# Of texts without spaces commas, too, often stand without one.
_UNSPACED_COMMA = re.compile(r"(?<=[^\x00-\x7f]),(?=[^\x00-\x7f])")


@lru_cache(maxsize=1 << 10)
def clauses(sentence: str) -> Sequence[Clause]:
    """The clauses of a sentence, each once; of several that begin alike the longer ones come later."""
    text = _tidied(sentence)
    if has_unspaced_script(text) and text.count(" ") * 6 < len(text):
        return (Clause(_unspaced(text.replace(_JOINT, " ")), True, 1.0),)
    found: dict[str, Clause] = {}
    for clause in _clauses(text):
        if clause.text and (clause.text not in found or clause.whole > found[clause.text].whole):
            found[clause.text] = clause
    return tuple(found.values())


def _clauses(text: str) -> Iterator[Clause]:
    low = folded(text)
    starts, ends = _borders(text, low)
    for begun, opens in starts[:_MAX_STARTS]:
        start, polite = _unframed(low, begun)
        asked = polite or _asks(low, start)
        if not (opens or asked) and low[begun - 2 : begun] == ", " and not _PATTERNS["subordinate"].match(low[:begun]):
            continue  # what follows a comma hangs on what stood before it, unless it asks for something
        border = next(end for end, _, last in ends if last and end > begun or end == len(low))
        for end, whole, _ in ends:
            if not start < end <= border or low.count(" ", start, end) >= MAX_WORDS or end - start > MAX_CHARS:
                continue
            if whole < 1.0 and low.startswith((" and ", " or "), end) and _PATTERNS["paired"].search(low, start, end):
                continue
            if whole < 1.0 and not _PATTERNS["verb"].search(low[start:end]):
                whole = _CUT_OFF
            words = text[start:end].split()
            while low.startswith(":", end) and words and words[-1].lower() in _WORDS["dangling"]:
                words.pop()  # `It now uses the cache with:` and its list
            yield Clause(_finished(" ".join(words)), asked, whole)


def _borders(text: str, low: str) -> tuple[list[tuple[int, bool]], list[tuple[int, float, bool]]]:
    """Where clauses begin, and whether a sentence does; where they end, how whole, and whether none goes on beyond."""
    starts, ends = [(0, True)], []
    for mark in _PATTERNS["clause"].finditer(low):
        stops = mark[1] is None
        # A title crosses commas and colons at most.
        last = stops and _CROSSED.fullmatch(mark[0]) is None
        ends.append((mark.start(), 1.0 if stops else _SHORTENED, last))
        if stops:
            if text.count('"', 0, mark.end()) % 2 == 0 and (last or not _says_on(low, mark)):
                starts.append((mark.end(), last))
        elif (task := _AND.match(low, mark.end())) and _asks(low, task.end()):
            starts.append((task.end(), False))
    return starts, [*ends, (len(low), 1.0, True)]


def _says_on(low: str, colon: re.Match[str]) -> bool:
    """Whether a colon ends more than a label: what follows it cannot do without `Removed from the parser:`."""
    told = colon[0][0] in ":：" and not _asks(low, colon.end())
    return told and _PATTERNS["verb"].search(low[: colon.start()]) is not None


_CROSSED = re.compile(r"\s*[,:，、：]+\s*")
_AND = re.compile(r"(?:and|then|but)\s+(?:then\s+)?")


def _unframed(low: str, start: int) -> tuple[int, bool]:
    """Where the matter begins after greetings, `can you` and the like, and whether it is asked for."""
    asked = False
    while start < len(low):
        polite = _POLITE.match(low, start)
        if polite and start < polite.end() < len(low):
            start, asked = polite.end(), True
            continue
        frame = _PATTERNS["frame"].match(low, start)
        if not frame or frame.end() in (start, len(low)):
            break
        start = frame.end()
    return start, asked


def _asks(low: str, start: int) -> bool:
    first = _ANY_WORD.match(low, start)
    return (first is not None and first[0] in _IMPERATIVES) or _PATTERNS["asks"].match(low, start) is not None


def _tidied(sentence: str) -> str:
    """A sentence without symbols, parentheses and most directories."""
    text = _PARENTHESIS.sub(_left_out, sentence) if "(" in sentence or "[" in sentence or "（" in sentence else sentence
    text = _TICKED.sub(lambda code: code[1].replace(" ", _JOINT), text) if "`" in text else text
    text = _LONG_PATH.sub(r"\1", text) if "/" in text else text
    return " ".join(_SYMBOLS.sub("", _LINE_REF.sub(r"\1", text)).split())


def _left_out(parenthesis: re.Match[str]) -> str:
    """Nothing, unless the sentence needs what stands in parentheses: `an index on (day, tenant)`."""
    needed = parenthesis.string[: parenthesis.start()].rpartition(" ")[2].lower() in _WORDS["dangling"]
    return parenthesis[0] if needed else ""


def _finished(clause: str) -> str:
    """A clause as a title: no stray marks, quotes and parentheses in pairs, a capital first; nothing if it is torn."""
    title = _QUOTES.sub("", clause.replace(_JOINT, " ")).rstrip(_MARKS).lstrip(_LEADING_MARKS)
    # `.env` and `--flag` keep their marks.
    title = title.lstrip(".- ") if title[:1] in ".-" and not _DOTTED.match(title) else title
    words = title.split()
    while len(words) > 1 and words[0].lower() in _WORDS["joining"]:
        words = words[1:]
    if not words or words[-1].lower().strip("'’") in _WORDS["dangling"]:
        return ""
    title = " ".join(words)
    label = title.partition(":")[0].rpartition(" ")[2].lower() if ":" in title else ""
    if label in _WORDS["dangling"] or any(title.count(one) != title.count(two) for one, two in ("()", "[]", "{}")):
        return ""
    return title[:1].upper() + title[1:] if _ORDINARY.match(title) else title


def _unspaced(text: str) -> str:
    """A clause of a text without spaces: the first that says enough, without the words with which one asks."""
    if head := _PATTERNS["request_head"].match(text):
        text = text[head.end() :]
    text = _UNSPACED_COMMA.sub("，", text)
    ends = [mark.start() for mark in _PATTERNS["clause"].finditer(text)] + [len(text)]
    named = text[: next((end for end in ends if end >= _SHORTEST_UNSPACED), len(text))][:_MAX_UNSPACED]
    tail = _PATTERNS["request_tail"].search(named)
    return (named[: tail.start()] if tail and tail.start() > 4 else named).strip(_MARKS)


def worth(title: str, weights: Mapping[str, float]) -> float:
    """How much a title tells: the weight of what it names, each thing once however many words its name has."""
    told: dict[tuple[str, ...], float] = {}
    for parts in map(_named_by, title.split()):
        if parts and not all(map(str.isdigit, parts)):
            ranked = sorted([weights.get(part, 0.0) for part in parts], reverse=True)
            told[parts] = ranked[0] + math.fsum(ranked[1:3]) * 0.3
    return math.fsum(told.values())


@lru_cache(maxsize=1 << 13)
def _named_by(word: str) -> tuple[str, ...]:
    return stems_of(word.strip("`'\".,;:()"))


@lru_cache(maxsize=1 << 12)
def stems(text: str) -> frozenset[str]:
    """The topical stems of a text, those inside names too."""
    return frozenset(stem for word in text.split() for stem in _named_by(word))


_ASKED, _ENOUGH = 1.15, 1.5
_LENGTH = (0.0, 0.25, 0.55, 0.8, 0.95, *(1.0,) * 6)
#: No clause is fitter than this.
_FITTEST = _ASKED * _TASK


def fitness(clause: Clause, weights: Mapping[str, float], least: float = 0.0) -> float:
    """How fit a clause is as a title: what it tells, how long and whole it is, and how it reads; 0 if below `least`."""
    told = worth(clause.text, weights)
    by_shape = _LENGTH[min(word_count(clause.text), MAX_WORDS)] * clause.whole * (_ASKED if clause.asked else 1.0)
    value = told / (told + _ENOUGH) * by_shape
    return value * readability(clause.text) if value * _TASK >= least else 0.0


#: How well a statement names the matter, by where it comes from or else by its kind.
_BY_SOURCE = {Source.PLAN: 2.2, Source.PULL_REQUEST: 2.2, Source.TITLE: 2.0, Source.COMMIT: 1.8, Source.NOTE: 1.6}
_BY_SOURCE[Source.TODO] = 1.0
_BY_KIND = {Kind.REQUEST: 1.3, Kind.REPORT: 1.2, Kind.DECISION: 1.2, Kind.OUTCOME: 1.3, Kind.CAUSE: 1.0, Kind.SAID: 1.0}
_BY_KIND |= {Kind.CORRECTION: 0.9, Kind.STATED: 0.8, Kind.FINDING: 0.7, Kind.RULE: 0.6}
#: What was said in passing counts for no more than this.
_PASSING = 0.5
#: How much the user's first words count, and what is left of a question, each later sentence, a user's sentence that
#: asks for nothing, and others by their form.
_FIRST, _QUESTION, _PLACE, _TOLD = 1.15, 0.4, 0.88, 0.6
_BY_FORM = {"item": 0.65, "row": 0.5}
#: The same for a problem that was solved, which is named by what solved it, and for what was asked before the segment.
_SOLVED, _BEFORE = 0.3, 0.6
#: What people did counts for more in their talk than how they like it.
_LIVED = 6.0
#: How much a word counts by how many voices speak of it: the user, the closing messages, what was written, the
#: files that were edited.
_VOICES = (0.4, 0.5, 1.0, 1.3, 1.4)
#: Where the pull request that was spoken of or looked at is named, and how far into an event it is sought.
_PULL_REQUEST = re.compile(r"(?:\b(?:pr|pull request|gh pr \w+|pr-review)\s+(?:#|(?=\d\d))|/pulls?/)(\d{1,6})\b")
_HEAD = 300
_DONE = re.compile(r"^(?:\w+ )?\w+ed\b|\bnow\b|\bno longer\b")


class Option(NamedTuple):
    """A clause that could be the title, and how fit it is."""

    score: float
    text: str
    statement: Statement


def title_of(
    standing: Sequence[Statement],
    vocabulary: Vocabulary,
    edited: Sequence[str],
    events: Sequence[Event] = (),
    context: Sequence[Event] = (),
) -> str:
    """The title of a segment of which these statements stand; empty if nothing in it makes one.

    A title that was given to the session comes before any sentence.
    """
    before = [] if any(one.kind is Kind.SAID for one in standing) else asked_before(context)
    weights = _shared([*before, *standing], vocabulary, edited)
    if given := _given(events):
        return with_names(given, _names(vocabulary, weights))
    options = options_of(standing, before, weights)
    title = options[0].text if options else ""
    spoken = [event.text[:_HEAD].lower() for event in (*events, *context) if event.role is not Role.ASSISTANT]
    told = [text for text in spoken if "pr" in text or "pull" in text]
    numbers = {match[1] for text in told for match in _PULL_REQUEST.finditer(text)}
    # Where several are spoken of, it is not known which one was worked on.
    number = numbers.pop() if len(numbers) == 1 else ""
    if number and number not in title and len(title) + len(number) + 5 <= MAX_CHARS:
        title = f"PR {number}: {title}".rstrip(": ")
    return with_names(title, _names(vocabulary, weights)) if title else ""


def _given(events: Sequence[Event]) -> str:
    """The title that the user or the client gave, as long as a title may be; empty if there is none."""
    given = given_title(events)
    text = plain(given.text) if given else ""
    return one_line(text, MAX_CHARS) if any(map(str.isalnum, text)) else ""


def options_of(
    standing: Sequence[Statement], before: Sequence[Statement], weights: Mapping[str, float]
) -> list[Option]:
    """The clauses that could be the title, best first; what was asked before only if the segment goes on with it."""
    found = list(_options(standing, weights))
    if not any(one.by_user and not one.turn for one in standing):
        found += [one._replace(score=one.score * _BEFORE) for one in _options(before, weights)]
    return sorted(found, key=lambda one: (-one.score, one.text))


def asked_before(context: Sequence[Event]) -> list[Statement]:
    """What was asked last before the segment."""
    asked = [event for event in context if event.role is Role.USER and event.says_something]
    return list(said_by_user(asked[-1], 0, False)) if asked else []


def _options(standing: Sequence[Statement], weights: Mapping[str, float]) -> Iterator[Option]:
    done = [one for one in standing if one.kind is Kind.COMMIT or (one.source is Source.CLOSING and _done(one))]
    steps = len({one.text for one in standing if one.source is Source.TODO})
    first = min((one.turn for one in standing if one.by_user), default=0)
    by_source = _BY_SOURCE | {Source.TODO: _BY_SOURCE[Source.TODO] / math.sqrt(steps or 1)}
    weighed = [(by_source.get(one.source) or _of_message(one, first), one) for one in standing]
    top = 0.0
    for weight, one in sorted(weighed, key=lambda each: -each[0]):
        if not weight or weight * _FITTEST < top:
            break  # neither this one nor any that follow can be better
        found = [(fitness(each, weights, top / weight), each) for each in _clauses_of(one)]
        if found:
            fit, best = max(found, key=lambda each: each[0])
            told = one.by_user and not best.asked and one.kind is not Kind.REPORT and one.mood is not Mood.QUESTION
            solved = _solved(best, one, done)
            score = weight * fit * (_TOLD if told else 1.0) * (_SOLVED if solved else 1.0)
            top = max(top, score)
            # What was fixed is told as fixed, where nothing names the fix better.
            yield Option(score, f"Fixed: {best.text}" if solved else best.text, one)


def _of_message(one: Statement, first: int) -> float:
    """How well a sentence of a message names the matter."""
    weight = _BY_KIND.get(one.kind, 0.0)
    if one.source is Source.PASSING:
        weight = min(weight, _PASSING)
    elif one.source is Source.CLOSING and one.kind in (Kind.OUTCOME, Kind.CAUSE):
        weight = _BY_KIND[Kind.OUTCOME if _done(one) else Kind.STATED]
    weight *= _FIRST if one.by_user and one.turn == first else 1.0
    weight *= _QUESTION if one.mood is Mood.QUESTION else 1.0
    weight *= _LIVED if one.kind is Kind.SAID and _PATTERNS["lived"].search(folded(one.text)) else 1.0
    return weight * _PLACE**one.place * _BY_FORM.get(one.form, 1.0)


def _solved(clause: Clause, one: Statement, done: Sequence[Statement]) -> bool:
    """Whether a clause names a problem to which an answer was found in its turn, or later in words that it shares."""
    if one.source in (Source.CLOSING, *_BY_SOURCE):
        return False
    if one.kind is not Kind.REPORT and (clause.asked or not SAYS["problem"].search(folded(clause.text))):
        return False
    own = stems(clause.text)
    return any(other.turn == one.turn or (other.turn > one.turn and len(own & stems(other.text)) > 1) for other in done)


def _done(one: Statement) -> bool:
    """Whether it tells what was done or how things are now."""
    return _DONE.search(one.text) is not None


def _clauses_of(one: Statement) -> Sequence[Clause]:
    if one.source in _BY_SOURCE and one.text.count(" ") < MAX_WORDS + 2 and len(one.text) <= MAX_CHARS:
        return (Clause(one.text, True, 1.0),)
    # Of an answer the option's own words say why, not what.
    found = clauses(one.text.partition(" — ")[0] if one.source is Source.ANSWER else one.text)
    lived = (
        [clause for clause in found if _PATTERNS["lived"].search(folded(clause.text))] if one.kind is Kind.SAID else []
    )
    return lived or found


def _shared(standing: Sequence[Statement], vocabulary: Vocabulary, edited: Sequence[str]) -> dict[str, float]:
    """How much each word counts: more if several voices speak of it; the files that were edited are one."""
    voices: dict[str, set[str]] = {}
    for one in standing:
        if one.source is not Source.PASSING:
            voice = "user" if one.by_user else "closing" if one.source is Source.CLOSING else "record"
            voices.setdefault(voice, set()).update(stems(one.text))
    heard = Counter(stem for spoken in voices.values() for stem in spoken)
    heard.update({stem for name in edited for stem in stems(name)})
    return {stem: weight * _VOICES[heard[stem]] for stem, weight in vocabulary.weights.items()}


_SHAPED = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z_]|[\w)][._/@:][\w(]|\w-\w+-\w|_|^[-.@]|[A-Za-z]\d| ")
_EXTENSION = re.compile(r"(?<=\w)\.\w{1,4}$")
_RANK, _CANDIDATES, _MOST = 8.0, 10, 2


def _names(vocabulary: Vocabulary, weights: Mapping[str, float]) -> list[str]:
    """The keywords by which the work is known, those of which most voices speak first: names, and what all speak of."""

    def heard(word: str) -> float:
        return max((weights.get(stem, 0.0) / vocabulary.weights.get(stem, 1.0) for stem in stems(word)), default=0.0)

    found = vocabulary.keywords(_CANDIDATES)
    # A name that nobody spoke of was only looked for.
    ranked = [word for word in found if heard(word) >= _VOICES[1 if _SHAPED.search(word) else 3]]
    return sorted(ranked, key=lambda word: -heard(word) / (_RANK + ranked.index(word)))


def with_names(title: str, names: Sequence[str]) -> str:
    """A title with up to two names that it does not tell yet, as far as there is room."""
    known = stems(title)
    further: list[str] = []
    for name in names:
        own = stems(_EXTENSION.sub("", name))
        room = len(title) + sum(map(len, [*further, name])) + 2 * len(further) + 3 <= MAX_CHARS
        if len(further) < _MOST and room and len(own - known) * 2 >= len(own) > 0:
            further.append(name)
            known |= own
    told = ", ".join(further)
    return title if not told else f"{title} ({told})" if ": " in title else f"{title}: {told}"
