"""Which words matter in a piece of conversation, and which of them one would search for."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.sentences import windows
from mcp_memory.domain.text import (
    STOP_WORDS,
    Memo,
    bigrams,
    has_unspaced_script,
    identifier_parts,
    inflected,
    without_tags,
)
from mcp_memory.lexicon import Expression
from mcp_memory.summaries.calls import Call, Source, call_of, error_span, told_by_call
from mcp_memory.summaries.cues import is_trivial
from mcp_memory.summaries.messages import (
    own_words,
    pasted_in,
    speakers,
    spoken,
    without_places,
)

_LISTS = lexicon.word_lists("vocabulary")
GENERIC_STEMS = frozenset(map(inflected, _LISTS["generic"]))
#: Stems of words that tell little by themselves.
COMMON_STEMS = GENERIC_STEMS | set(map(inflected, _LISTS["common"]))
_VERBS = frozenset(map(inflected, _LISTS["verbs"]))
_COMPARING, _FOREIGN, _UNSPACED_COMMON = _LISTS["comparing"], _LISTS["foreign"], _LISTS["unspaced"]

_NAME = r"[^\W\d_]\w*(?:[./@:+#-]\w+)*(?:\(\))?"
_STOPS = '.,;:!?()"\n'
_TOKEN = re.compile(rf"(?<!\w){_NAME}|(?<![\w-])--?{_NAME}|(?<![\w*)\]}}\\])[.@]{_NAME}|[{_STOPS}]+")
_SCRIPT = Expression("([\u4e00-\u9fff]+|[\u30a1-\u30ff]+|[\u3041-\u3096]+|[\uac00-\ud7af]+)")
_HIRAGANA = Expression("[\u3041-\u3096]+")
_HAN = Expression("[\u4e00-\u9fff]{2}")
_IDS = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\b(?=[a-f]*\d)[0-9a-f]{7,40}\b", re.I)
_HEX = re.compile(r"[0-9a-fA-F][0-9a-fA-F]{6}")
_ID = re.compile(r"[0-9a-f]{7,}|[0-9a-f]{8}-[0-9a-f-]{9,}|\w*\d\w*\d\w*\d\w*\d\w*|[\w/+-]{41,}", re.I)
_INNER = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]|[\w)][._/@:][\w(]|_|\(\)$|^[-.@]|[A-Za-z]\d|\w::\w")
_ACRONYMS = re.compile(r"[A-Z]{2,}s")
_EITHER = Expression("[a-z]+/[a-z]+")
_LINE_REF = re.compile(r":\d+(?:[-:,]\d+)*$")
_SEPARATORS = re.compile(r"[/\\]")

# An ordinary word that was said once, and not by the user, is no keyword.
_SAID_ENOUGH = 1.9
# One that comes back in other messages says more about them all than one that does not.
_ONCE = 0.45
#: An identifier is looked for by its name even if it was said once; saying it often adds little.
_BY_NAME = 2.2
_NAMED = 1.3
_OFTEN = 0.6
_EDITED = 1.5
_LONGEST = 40
# A flag of two letters like `-rn` is not looked for.
_SHORT_FLAG = 3
_OFTEN_ENOUGH = 4
#: How telling the form of a word is that could stand in any talk about code, and in any talk at all.
_GENERIC, _COMMON = 0.35, 0.9
#: How telling two words are that stand together.
_TWO_WORDS = 1.6


class WeighedText(NamedTuple):
    """Text that counts toward the weights; `code` says that it is a list of names rather than tells something."""

    text: str
    weight: float
    code: bool = False


@lru_cache(maxsize=1 << 14)
def stems_of(token: str) -> tuple[str, ...]:
    """The topical stems inside a token."""
    if _is_word(token):
        low = token.lower()
        return (inflected(low),) if len(low) > 1 and low not in STOP_WORDS else ()
    if has_unspaced_script(token):
        return tuple(bigrams(token))
    if _ACRONYMS.fullmatch(token):
        return (token[:-1].lower(),)
    return tuple([inflected(part) for part in identifier_parts(token) if len(part) > 1 and part not in STOP_WORDS])


def _shape(token: str) -> tuple[str, float]:
    """A token as a keyword, and how telling its form is; weight 0 means it never is one."""
    # Without a line number, the marks after it and the directories of a path.
    if ":" in token:
        token = _LINE_REF.sub("", token)
    token = token.rstrip(".:/@#+-_")
    if "/" in token:
        token = _short_path(token)
    bare = token.strip("-.@()")
    # Nobody would look for a short flag, an id, or what is too long to be a name.
    unreadable = bare == "" or (token[0] == "-" and len(token) <= _SHORT_FLAG) or len(token) > _LONGEST
    if len(bare) < 2 or unreadable or _ID.fullmatch(bare) or not stems_of(token):
        return "", 0.0
    if has_unspaced_script(token):
        named = len(token) <= 6 and token not in _UNSPACED_COMMON and not _HIRAGANA.fullmatch(token)
        return (token, 1.0) if named else ("", 0.0)
    if _INNER.search(token) and not bare.isdigit():
        # `read/write` may be a path, and may be two words.
        return token, 1.0 if _EITHER.fullmatch(token) else 1.6
    # `INFO` and `ERROR` are written so in every log.
    if bare.isupper() and inflected(bare.lower()) not in GENERIC_STEMS:
        return bare, 1.3
    return _plain_shape(bare.lower())


def _is_word(token: str) -> bool:
    """Whether it is an ordinary word in small letters, or with a capital: most tokens are."""
    return token.isascii() and token.isalpha() and token[1:].islower()


def _plain_shape(word: str) -> tuple[str, float]:
    if word in STOP_WORDS or word in _FOREIGN or len(word) < 3:
        return "", 0.0
    base = inflected(word)
    if base in GENERIC_STEMS:
        return word, _GENERIC
    return word, _COMMON if base in COMMON_STEMS else 1.0


class _Known(NamedTuple):
    """What is known of a token: its form as a keyword, how telling that is, and what its stems weigh."""

    word: str
    telling: float
    #: Whether it may be a keyword: names may, ordinary words unless they are common or verbs.
    eligible: bool
    #: Whether it may be half of a term of two words.
    pairs: bool
    stems: tuple[tuple[str, float], ...]


_NOTHING = _Known("", 0.0, False, False, ())


def _known(token: str) -> _Known:
    if _is_word(token) and len(token) < _LONGEST and (len(token) < 7 or not _HEX.match(token)):
        return _known_word(token.lower())
    if not token.strip(_STOPS):
        return _NOTHING
    word, telling = _shape(token)
    does = telling > 0.0 and inflected(word) in _VERBS
    eligible = telling > 1.0 or (telling == 1.0 and not does)
    weight = max(telling, 0.5)
    stems = tuple([(part, _GENERIC if part in GENERIC_STEMS else weight) for part in stems_of(token)])
    return _Known(word, telling, eligible, telling > 0.0 and not does and token.isalpha(), stems)


_KNOWN = Memo(_known, 1 << 14)


def _known_word(low: str) -> _Known:
    """The same for an ordinary word, as most are, without the rest of the rules."""
    if len(low) < 2 or low in STOP_WORDS:
        return _NOTHING
    word, telling = _plain_shape(low)
    base = inflected(low)
    names_nothing = base in _VERBS or low in _COMPARING
    weight = _GENERIC if base in GENERIC_STEMS else max(telling, 0.5)
    eligible, pairs = telling == 1.0 and not names_nothing, telling > 0.0 and not names_nothing
    return _Known(word, telling, eligible, pairs, ((base, weight),))


def _short_path(token: str) -> str:
    """The file's name of a long path; `owner/name` stays."""
    parts = [part for part in _SEPARATORS.split(token) if part]
    if len(parts) > 2 or (parts and "." in parts[-1][1:]):
        return parts[-1]
    return token.lstrip("/")


def _prepared(text: str) -> str:
    """What of a passage can hold keywords: no tags, addresses, home directories and ids."""
    text = without_places(without_tags(text))
    if _HEX.search(text):
        text = _IDS.sub(" ", text)
    return _spaced(text) if has_unspaced_script(text) else text


def _spaced(text: str) -> str:
    """Text of unspaced scripts with spaces where the script changes, and its recurring pairs as words of their own."""
    recurring = [pair for pair, count in Counter(bigrams(text)).items() if count > 1 and _HAN.fullmatch(pair)]
    return " ".join([*_SCRIPT.split(text), *recurring, *recurring])


class Vocabulary:
    """Counts of what was said: weights of stems for ranking sentences, and the keywords."""

    def __init__(
        self, passages: Iterable[WeighedText], names: Collection[str] = (), edited: Collection[str] = ()
    ) -> None:
        """`names` are the speakers' own, which tell nothing; files that were `edited` are what one looks for."""
        # Lists are cheap to join, so what was said is counted once, when all of it is there.
        said: dict[float, list[str]] = {}
        spread: list[str] = []
        self._runs: list[Sequence[str]] = []
        for text, weight, code in passages:
            found = _found(text)
            counts = Counter(found)
            spread += counts
            if code:
                said.setdefault(weight, []).extend(found)
            else:
                # A word is not weightier for filling one message.
                often = (token for token, times in counts.items() for _ in range(min(times, _OFTEN_ENOUGH)))
                said.setdefault(weight, []).extend(often)
                self._runs.append(found)
        tokens = _weighed(said)
        known = list(map(_KNOWN.__getitem__, tokens))
        self._tokens = [
            (token, count, one)
            for (token, count), one in zip(tokens.items(), known, strict=True)
            if one.stems and token not in names
        ]
        self._halves = {token for token, one in zip(tokens, known, strict=True) if one.pairs}
        self._spread = Counter(spread)
        self._edited = edited
        #: How much each stem tells; `names` weighs those of identifiers up, to keep sentences that name something.
        self.weights, self.names = self._stem_weights()

    def _stem_weights(self) -> tuple[dict[str, float], dict[str, float]]:
        plain: dict[str, float] = {}
        identifiers = []
        for _, count, known in self._tokens:
            for part, weight in known.stems:
                plain[part] = plain.get(part, 0.0) + count * weight
            if known.telling > _NAMED:
                identifiers.append((count, known))
        named = dict(plain)
        for count, known in identifiers:
            for part, weight in known.stems:
                if weight >= known.telling:
                    named[part] += count * weight * (_BY_NAME - 1.0)
        return _scaled(plain), _scaled(named)

    def keywords(self, limit: int, by_name: bool = True) -> tuple[str, ...]:
        """The terms one would search for, best first, each thing named once.

        `by_name` puts identifiers first, by which things are found; without it the terms tell what was talked about.
        """
        scored: dict[str, float] = {}
        # In how many texts each word stands, in any case.
        spread: Counter[str] = Counter()
        for token, _, _ in self._tokens:
            spread[token.lower()] += self._spread[token]
        for token, count, known in self._tokens:
            word, telling = known.word, known.telling
            if known.eligible and (telling > 1.0 or count >= _SAID_ENOUGH):
                once = telling == 1.0 and spread[token.lower()] == 1
                worth = count
                if by_name:
                    worth = _BY_NAME * math.pow(count, _OFTEN) if telling > _NAMED else count
                    worth *= _EDITED if word in self._edited else 1.0
                scored[word] = scored.get(word, 0.0) + telling * worth * (_ONCE if once else 1.0)
        # How often two words stand side by side that may be one term together.
        halves = self._halves
        pairs = (pair for run in self._runs for pair in pairwise(run))
        beside = Counter(pair for pair in pairs if pair[0] in halves and pair[1] in halves)
        for (left, right), count in beside.items():
            if count > 1 and (pair := _pair(left, right)):
                scored[pair] = scored.get(pair, 0.0) + _TWO_WORDS * count
        return distinct(sorted(scored, key=lambda word: (-scored[word], word)), limit)


# A session's record, its segments and the requests before them are made of the same messages.
@lru_cache(maxsize=1 << 9)
def _found(text: str) -> Sequence[str]:
    return _tokens(_prepared(text))


def _tokens(text: str) -> list[str]:
    """The words and names of a text that tell something, and an empty one for every other word and stop.

    Words come back, so each is taken apart only once.
    """
    return list(chain.from_iterable(map(_TOKENS.__getitem__, text.replace("\n", " \n ").split(" "))))


def _in_chunk(chunk: str) -> tuple[str, ...]:
    return tuple([token if _KNOWN[token].stems else "" for token in _TOKEN.findall(chunk)])


_TOKENS = Memo(_in_chunk, 1 << 14)


def _weighed(said: Mapping[float, Sequence[str]]) -> dict[str, float]:
    """What was said, by what it weighs with whoever said it."""
    tokens: dict[str, float] = {}
    for weight, found in said.items():
        for token, count in Counter(found).items():
            tokens[token] = tokens.get(token, 0.0) + weight * count
    return tokens


def _scaled(raw: Mapping[str, float]) -> dict[str, float]:
    top = max(raw.values(), default=1.0)
    return {part: math.sqrt(value / top) for part, value in raw.items()}


def _pair(left: str, right: str) -> str:
    """Two ordinary neighbouring words as one term, if both carry meaning."""
    if left.lower() == right.lower() or has_unspaced_script(left) or has_unspaced_script(right):
        return ""
    first, second = _KNOWN[left], _KNOWN[right]
    fits = max(first.telling, second.telling) >= 1.0 and len(first.word) + len(second.word) <= 30
    return f"{first.word} {second.word}" if fits else ""


def distinct(words: Sequence[str], limit: int) -> tuple[str, ...]:
    """The first words of a ranking that do not repeat one another in another spelling or as a part."""
    chosen: list[str] = []
    taken: list[frozenset[str]] = []
    spelled: set[str] = set()
    for word in words:
        parts = frozenset(stems_of(word)) or frozenset((word.lower(),))
        joined = "".join(filter(str.isalnum, word.lower()))
        if joined in spelled or any(parts <= other or (other <= parts and len(other) > 1) for other in taken):
            continue
        chosen.append(word)
        taken.append(parts)
        spelled.add(joined)
        if len(chosen) == limit:
            break
    return tuple(chosen)


_FLAG = re.compile(r"(?<!\S)--?[A-Za-z][\w-]*=?")
#: So many of the last requests before a segment tell which of its words matter.
_ASKED_BEFORE = 1
#: How much a word tells by where it was said; a user's words tell more than others unless people talk to each other.
_NOTED, _BY_USER, _SAID, _COMMITTED = 3.0, 2.0, 1.0, 1.0
_BEFORE, _SUMMED_UP, _PASTED = 0.3, 0.2, 0.1
#: The same for the files that were edited, and for whatever else tools were used on.
_EDITED_TARGET, _USED_TARGET = 1.2, 0.25
#: So many characters are taken of a summary, of what was asked before and of the target of a call.
_SUMMARY_CHARS, _BEFORE_CHARS, _TARGET_CHARS = 3_000, 2_000, 200


def passages(events: Sequence[Event], context: Sequence[Event]) -> Iterator[WeighedText]:
    """The passages of a segment, and of the last request before it."""
    by_user = _SAID if speakers(events) else _BY_USER
    telling = [event for event in events if event.says_something]
    for event in telling:
        yield from _of_event(event, by_user)
    yield from _targets(telling)
    asked = [event for event in context if event.role is Role.USER and event.says_something]
    for event in asked[-_ASKED_BEFORE:]:
        yield WeighedText(spoken(event.text)[:_BEFORE_CHARS], _BEFORE)


def _of_event(event: Event, by_user: float) -> Iterator[WeighedText]:
    if event.event_type is EventType.COMPACTION:
        yield WeighedText(event.text[:_SUMMARY_CHARS], _SUMMED_UP)
    elif _is_result(event):
        yield from _committed(event)
    elif event.event_type is EventType.NOTE:
        yield from _of_user(event.text, _NOTED, by_user) if event.role is Role.USER else _whole(event.text, _NOTED)
    elif event.role is Role.USER:
        yield from _of_user(event.text, by_user, by_user)
    else:
        yield from _whole(event.text, _SAID)


def _is_result(event: Event) -> bool:
    return event.event_type is EventType.TOOL_RESULT or event.role is Role.TOOL


def _of_user(message: str, weight: float, by_user: float) -> Iterator[WeighedText]:
    """A user's own words and, for much less, what was pasted among them: few of its names are what the talk is about.

    An error that it names is.
    """
    text = spoken(message)
    if is_trivial(text):
        return
    for run in pasted_in(text):
        yield WeighedText(text[run.start : run.end], _PASTED, code=True)
        if run.log and (span := error_span(text[: run.end], run.start)):
            yield WeighedText(text[slice(*span)], by_user)
    yield from _whole(own_words(text), weight)


def _whole(text: str, weight: float) -> Iterator[WeighedText]:
    for low, high in windows(len(text)):
        yield WeighedText(text[low:high], weight)


def _committed(event: Event) -> Iterator[WeighedText]:
    """The subjects of commits, plans and answers."""
    yield from (WeighedText(told.text, _COMMITTED) for told in told_by_call(event) if told.source > Source.TODO)


def _targets(events: Sequence[Event]) -> Iterator[WeighedText]:
    """What tools were used on."""
    names: dict[bool, list[str]] = {}
    for event in events:
        if _is_result(event) and (call := call_of(event)):
            names.setdefault(call.verb == "Edited", []).append(_target(call))
    for edited, targets in names.items():
        yield WeighedText("\n".join(targets), _EDITED_TARGET if edited else _USED_TARGET, code=True)


def _target(call: Call) -> str:
    target = call.target[:_TARGET_CHARS]
    # How a command was run is not what it was run for.
    return _FLAG.sub("", target) if call.verb == "Ran" and "-" in target else target
