"""Which words matter in a piece of conversation, and which of them one would search for."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from mcp_memory import lexicon
from mcp_memory.capture.characters import HAN
from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.sentences import windows
from mcp_memory.domain.text import (
    REDACTED,
    STOP_WORDS,
    Memo,
    bigrams,
    has_unspaced_script,
    identifier_parts,
    inflected,
    without_tags,
)
from mcp_memory.summaries.calls import Source, call_of, error_span, told_by_call, was_refused
from mcp_memory.summaries.messages import own_words, pasted_in, speakers, spoken, without_places

_LISTS = lexicon.word_lists("vocabulary")
_GENERIC_STEMS = frozenset(map(inflected, _LISTS["generic"]))
#: Stems of words that tell little by themselves: a sentence may turn on one, but nobody would look for it by that.
COMMON_STEMS = _GENERIC_STEMS.union(*(map(inflected, _LISTS[name]) for name in ("common", "comparing", "verbs")))
#: Words that stand beside nouns so often that the pair is no name of anything.
_BESIDE = frozenset(map(inflected, _LISTS["verbs"] | _LISTS["comparing"]))
_NAME = r"[^\W\d_]\w*(?:[./@:+#-]\w+)*(?:\(\))?"
_TOKEN = re.compile(rf"(?<!\w){_NAME}|(?<![\w-])--?{_NAME}|(?<![\w*)\]}}\\])[.@]{_NAME}|[.,;:!?()\"\n]+")
_IDS = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\b(?=[a-f]*\d)[0-9a-f]{7,40}\b", re.I)
_LONG_NUMBER = re.compile("[0-9a-fA-F]{7}")
_ID = re.compile(r"[0-9a-f]{7,}|[0-9a-f]{8}-[0-9a-f-]{9,}|\w*\d\w*\d\w*\d\w*\d\w*|[\w/+-]{41,}", re.I)
_INNER = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]|[\w)][._/@:][\w(]|_|\(\)$|^[-.@]|[A-Za-z]\d|\w::\w")
_EITHER, _ACRONYMS, _LINE_REF = (
    re.compile("[a-z]+/[a-z]+"),
    re.compile(r"[A-Z]{2,}s"),
    re.compile(r":\d+(?:[-:,]\d+)*$"),
)
_SCRIPTS = re.compile(f"([{HAN}]+|[\u30a1-\u30ff]+|[\u3041-\u3096]+|[\uac00-\ud7af]+)")
_HIRAGANA, _HAN = re.compile("[\u3041-\u3096]+"), re.compile(f"[{HAN}]{{2}}")
_LONGEST, _SHORT_FLAG = 40, 3
#: How telling the form of a word is: a name, an acronym, a plain word, one of any talk, one of any talk about code.
_NAMED, _ACRONYM, _PLAIN, _COMMON, _GENERIC = 1.6, 1.3, 1.0, 0.9, 0.35
#: A plain word is a keyword if it was said so much; saying a name often adds little, and an edited file is looked for.
_SAID_ENOUGH, _OFTEN, _BY_NAME, _EDITED, _TWO_WORDS, _ONCE = 1.9, 0.6, 2.2, 1.5, 1.6, 0.45
_MOST_OFTEN = 4


class WeighedText(NamedTuple):
    """Text that counts toward the weights; `code` says that it is a list of names rather than tells something."""

    text: str
    weight: float
    code: bool = False


class _Word(NamedTuple):
    """A token as a keyword, how telling it is, and its stems."""

    text: str
    telling: float
    stems: tuple[str, ...]


@lru_cache(maxsize=1 << 14)
def stems_of(token: str) -> tuple[str, ...]:
    """The topical stems inside a token."""
    if has_unspaced_script(token):
        return tuple(bigrams(token))
    parts = [token[:-1].lower()] if _ACRONYMS.fullmatch(token) else identifier_parts(token)
    return tuple([inflected(part) for part in parts if len(part) > 1 and part not in STOP_WORDS])


def _word_of(token: str) -> _Word:
    token = (_LINE_REF.sub("", token) if ":" in token else token).rstrip('.:/@#+-_\n,;!?("')
    stems, bare = stems_of(token), token.strip("-.@()")
    if "/" in token:
        parts = [part for part in re.split(r"[/\\]", token) if part]
        token = parts[-1] if len(parts) > 2 or (parts and "." in parts[-1][1:]) else token.lstrip("/")
    short = len(bare) < 2 or (token[:1] == "-" and len(token) <= _SHORT_FLAG)
    if short or not stems or len(token) > _LONGEST or _ID.fullmatch(bare):
        return _Word("", 0.0, stems)
    if has_unspaced_script(token):
        named = len(token) <= 6 and token not in _LISTS["unspaced"] and not _HIRAGANA.fullmatch(token)
        return _Word(token, _PLAIN if named else 0.0, stems)
    if _INNER.search(token) and not bare.isdigit():
        return _Word(token, _PLAIN if _EITHER.fullmatch(token) else _NAMED, stems)
    low, base = bare.lower(), inflected(bare.lower())
    if bare.isupper() and base not in _GENERIC_STEMS:
        return _Word(bare, _ACRONYM, stems)
    if len(low) < 3 or low in _LISTS["foreign"]:
        return _Word("", 0.0, stems)
    return _Word(low, _GENERIC if base in _GENERIC_STEMS else _COMMON if base in COMMON_STEMS else _PLAIN, stems)


_WORDS = Memo(_word_of, 1 << 14)


@lru_cache(maxsize=1 << 9)
def _tokens(text: str) -> Sequence[str]:
    """The words and names of a text, and its stops; without tags, marks of redaction, addresses and ids."""
    text = without_places(without_tags(text))
    if "[redacted:" in text:
        text = REDACTED.sub(" ", text)
    if _LONG_NUMBER.search(text):
        text = _IDS.sub(" ", text)
    if has_unspaced_script(text):
        recurring = [pair for pair, count in Counter(bigrams(text)).items() if count > 1 and _HAN.fullmatch(pair)]
        text = " ".join([*_SCRIPTS.split(text), *recurring, *recurring])
    return _TOKEN.findall(text)


class Vocabulary:
    """Counts of what was said: weights of stems for ranking sentences, and the keywords."""

    def __init__(
        self, passages: Iterable[WeighedText], names: Collection[str] = (), edited: Collection[str] = ()
    ) -> None:
        """`names` are the speakers' own, which tell nothing; files that were `edited` are what one looks for."""
        counts: dict[str, float] = {}
        spread: dict[str, int] = {}
        self._counts, self._spread = counts, spread
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._edited = edited
        for text, weight, code in passages:
            found = _tokens(text)
            for token, times in Counter(found).items():
                if token not in names and _WORDS[token].stems:
                    # A word is not weightier for filling one message.
                    told = weight * (times if code else min(times, _MOST_OFTEN))
                    counts[token] = counts.get(token, 0.0) + told
                    low = token.lower()
                    spread[low] = spread.get(low, 0) + 1
            self._pairs.update(() if code else pairwise(found))
        #: How much each stem tells; `names` weighs those of identifiers up, to keep sentences that name something.
        self.weights, self.names = map(_leveled, self._stem_counts())

    def _stem_counts(self) -> tuple[dict[str, float], dict[str, float]]:
        plain: dict[str, float] = {}
        named: dict[str, float] = {}
        for token, count in self._counts.items():
            _, telling, stems = _WORDS[token]
            least = telling if telling > 0.5 else 0.5
            for stem in stems:
                told = _GENERIC if stem in _GENERIC_STEMS else least
                by_name = _BY_NAME if told >= _NAMED else 1.0
                plain[stem] = plain.get(stem, 0.0) + count * told
                named[stem] = named.get(stem, 0.0) + count * (told * by_name)
        return plain, named

    def keywords(self, limit: int) -> tuple[str, ...]:
        """The terms one would search for, best first, each thing named once; identifiers come first."""
        return distinct(self._ranked, limit)

    @cached_property
    def _ranked(self) -> list[str]:
        scored: dict[str, float] = {}
        for token, count in self._counts.items():
            word, telling, _ = _WORDS[token]
            if telling < _PLAIN or (telling == _PLAIN and count < _SAID_ENOUGH):
                continue
            worth = _BY_NAME * math.pow(count, _OFTEN) if telling >= _NAMED else count
            worth *= _EDITED if word in self._edited else 1.0
            once = telling == _PLAIN and self._spread[token.lower()] == 1
            scored[word] = scored.get(word, 0.0) + telling * worth * (_ONCE if once else 1.0)
        for (left, right), count in self._pairs.items():
            if count > 1 and _is_term(left, right):
                scored[f"{_WORDS[left].text} {_WORDS[right].text}"] = _TWO_WORDS * count
        return sorted(scored, key=lambda word: (-scored[word], word))


def _leveled(counts: Mapping[str, float]) -> Mapping[str, float]:
    """The counts as weights, of which the highest is 1."""
    top = max(counts.values(), default=1.0)
    return {stem: math.sqrt(value / top) for stem, value in counts.items()}


def _is_term(left: str, right: str) -> bool:
    """Whether two neighbouring words may be one term together: both are ordinary, and one of them telling."""
    one, two = _WORDS[left], _WORDS[right]
    if (
        not (left.isalpha() and right.isalpha())
        or left.endswith("ly")
        or right.endswith("ly")
        or _BESIDE & {*one.stems, *two.stems}
    ):
        return False
    return min(one.telling, two.telling) > 0.0 and _PLAIN <= max(one.telling, two.telling) < _NAMED and one != two


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


_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.S)
#: An option of a command: how something is run, and a topic only where people speak of it.
_FLAG = re.compile(r"(?<![\w/.-])--?[A-Za-z][\w-]*=?")
#: How much a word tells by where it was said; a user's words tell more than others unless people talk to each other.
_NOTED, _BY_USER, _SAID, _BEFORE, _SUMMED_UP, _PASTED = 3.0, 2.0, 1.0, 0.3, 0.2, 0.1
#: The same for the files that were edited, and for whatever else tools were used on.
_EDITED_TARGET, _USED_TARGET = 1.2, 0.25
_LOOKED_AT = 2_000


def _without_quoted_options(message: str) -> str:
    """Return a message without the options in its code blocks, which are commands and what they gave back."""
    return _CODE_BLOCK.sub(lambda block: _FLAG.sub("", block[0]), message) if "```" in message else message


def passages(events: Sequence[Event], context: Sequence[Event]) -> Iterator[WeighedText]:
    """The passages of a segment, and of the last request before it."""
    by_user = _SAID if speakers(events) else _BY_USER
    for event in events:
        if not event.says_something:
            continue
        if event.event_type is EventType.COMPACTION:
            yield WeighedText(event.text[:_LOOKED_AT], _SUMMED_UP)
        elif event.role is Role.TOOL or event.event_type is EventType.TOOL_RESULT:
            yield from (
                WeighedText(_FLAG.sub("", told.text), _SAID)
                for told in told_by_call(event)
                if told.source > Source.TODO
            )
            if (call := call_of(event)) and not was_refused(event):
                target = _FLAG.sub("", call.target[:200])
                yield WeighedText(target, _EDITED_TARGET if call.verb == "Edited" else _USED_TARGET, code=True)
        elif event.role is Role.USER:
            yield from _of_user(event.text, _NOTED if event.event_type is EventType.NOTE else by_user)
        else:
            text = _without_quoted_options(event.text)
            yield from (WeighedText(text[low:high], _SAID) for low, high in windows(len(text)))
    asked = [event for event in context if event.role is Role.USER and event.says_something]
    yield from (WeighedText(spoken(event.text)[:_LOOKED_AT], _BEFORE) for event in asked[-1:])


def _of_user(message: str, weight: float) -> Iterator[WeighedText]:
    """A user's own words and, for much less, what was pasted among them; an error that it names tells more."""
    text = spoken(message)
    if lexicon.expressions("claims")["agrees"].fullmatch(text.lower()):
        return
    for run in pasted_in(text):
        yield WeighedText(_FLAG.sub("", text[run.start : run.end]), _PASTED, code=True)
        if run.log and (span := error_span(text[: run.end], run.start)):
            yield WeighedText(_FLAG.sub("", text[slice(*span)]), weight)
    own = _without_quoted_options(own_words(text))
    yield from (WeighedText(own[low:high], weight) for low, high in windows(len(own)))
